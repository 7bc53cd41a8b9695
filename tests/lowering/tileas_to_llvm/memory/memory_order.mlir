// RUN: tileiras %s --gpu-name sm_90 --num-warps 4 --emit ptx -o - | FileCheck %s

// Each thread acquires a flag of its own: what one of them has seen all may rely on after a barrier only, although
// both accesses read, and lie in the same places.
// CHECK-LABEL: .entry acquires
// CHECK: ld.acquire.gpu.global.b32
// CHECK: bar.sync
// CHECK: ld.global.b32

// What others stored is released only behind a barrier.
// CHECK-LABEL: .entry releases
// CHECK: st.global.b32
// CHECK: bar.sync
// CHECK: st.release.sys.global.b32

// A scalar is read once: every thread goes by the same answer.
// CHECK-LABEL: .entry once
// CHECK: @%p{{[0-9]+}} ld.relaxed.gpu.global.b32
// CHECK: st.shared
// CHECK: bar.sync
// CHECK: ld.shared

// Memory that cannot be the same needs no barrier between.
// CHECK-LABEL: .entry apart
// CHECK: st.global.b32
// CHECK-NOT: bar.sync
// CHECK: ld.global.b32

cuda_tile.module @m {
  global @first <i32: 0> : tile<128xi32>
  global @second <i32: 0> : tile<128xi32>
  entry @acquires(%f: tile<ptr<i32>>, %d: tile<ptr<i32>>) {
    %lane = iota : tile<128xi32>
    %f1 = reshape %f : tile<ptr<i32>> -> tile<1xptr<i32>>
    %fb = broadcast %f1 : tile<1xptr<i32>> -> tile<128xptr<i32>>
    %fp = offset %fb, %lane : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
    %x, %t0 = load_ptr_tko acquire device %fp : tile<128xptr<i32>> -> tile<128xi32>, token
    %y, %t1 = load_ptr_tko weak %fp token=%t0 : tile<128xptr<i32>> -> tile<128xi32>, token
    %z = addi %x, %y : tile<128xi32>
    %t2 = store_ptr_tko weak %fp, %z token=%t1 : tile<128xptr<i32>>, tile<128xi32> -> token
    return
  }
  entry @releases(%f: tile<ptr<i32>>) {
    %lane = iota : tile<128xi32>
    %f1 = reshape %f : tile<ptr<i32>> -> tile<1xptr<i32>>
    %fb = broadcast %f1 : tile<1xptr<i32>> -> tile<128xptr<i32>>
    %fp = offset %fb, %lane : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
    %t0 = store_ptr_tko weak %fp, %lane : tile<128xptr<i32>>, tile<128xi32> -> token
    %t1 = store_ptr_tko release sys %fp, %lane token=%t0 : tile<128xptr<i32>>, tile<128xi32> -> token
    return
  }
  entry @once(%f: tile<ptr<i32>>, %d: tile<ptr<i32>>) {
    %x, %t0 = load_ptr_tko relaxed device %f : tile<ptr<i32>> -> tile<i32>, token
    %t1 = store_ptr_tko weak %d, %x token=%t0 : tile<ptr<i32>>, tile<i32> -> token
    return
  }
  entry @apart() {
    %lane = iota : tile<128xi32>
    %f = get_global @first : tile<ptr<i32>>
    %s = get_global @second : tile<ptr<i32>>
    %f1 = reshape %f : tile<ptr<i32>> -> tile<1xptr<i32>>
    %fb = broadcast %f1 : tile<1xptr<i32>> -> tile<128xptr<i32>>
    %fp = offset %fb, %lane : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
    %s1 = reshape %s : tile<ptr<i32>> -> tile<1xptr<i32>>
    %sb = broadcast %s1 : tile<1xptr<i32>> -> tile<128xptr<i32>>
    %sp = offset %sb, %lane : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
    %t0 = store_ptr_tko weak %fp, %lane : tile<128xptr<i32>>, tile<128xi32> -> token
    %x, %t1 = load_ptr_tko weak %sp token=%t0 : tile<128xptr<i32>> -> tile<128xi32>, token
    %y = addi %x, %lane : tile<128xi32>
    %t2 = store_ptr_tko weak %sp, %y token=%t1 : tile<128xptr<i32>>, tile<128xi32> -> token
    return
  }
}

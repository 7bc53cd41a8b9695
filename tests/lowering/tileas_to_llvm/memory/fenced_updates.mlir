// RUN: tileiras %s --gpu-name sm_90 --num-warps 4 --emit ptx -o - | FileCheck %s

// Two updates a thread: what is released before both, and acquired by either, one fence is enough for.
// CHECK-LABEL: .entry both
// CHECK: fence.acq_rel.gpu;
// CHECK: atom.relaxed.gpu.global.add.u32
// CHECK-NOT: fence
// CHECK: atom.relaxed.gpu.global.add.u32
// CHECK: fence.acq_rel.gpu;

// CHECK-LABEL: .entry releases
// CHECK: fence.acq_rel.sys;
// CHECK: red.relaxed.sys.global.add.u32
// CHECK: red.relaxed.sys.global.add.u32
// CHECK-NOT: fence

// What acquires reads, although nobody else looks at it.
// CHECK-LABEL: .entry acquires
// CHECK-NOT: fence
// CHECK: atom.relaxed.cta.global.add.u32
// CHECK: atom.relaxed.cta.global.add.u32
// CHECK: fence.acq_rel.cta;

// One update a thread has its order itself.
// CHECK-LABEL: .entry alone
// CHECK-NOT: fence
// CHECK: atom.acq_rel.gpu.global.add.u32

cuda_tile.module @m {
  entry @both(%f: tile<ptr<i32>>) {
    %lane = iota : tile<256xi32>
    %f1 = reshape %f : tile<ptr<i32>> -> tile<1xptr<i32>>
    %fb = broadcast %f1 : tile<1xptr<i32>> -> tile<256xptr<i32>>
    %fp = offset %fb, %lane : tile<256xptr<i32>>, tile<256xi32> -> tile<256xptr<i32>>
    %x, %t = atomic_rmw_tko acq_rel device %fp, add, %lane : tile<256xptr<i32>>, tile<256xi32> -> tile<256xi32>, token
    return
  }
  entry @releases(%f: tile<ptr<i32>>) {
    %lane = iota : tile<256xi32>
    %f1 = reshape %f : tile<ptr<i32>> -> tile<1xptr<i32>>
    %fb = broadcast %f1 : tile<1xptr<i32>> -> tile<256xptr<i32>>
    %fp = offset %fb, %lane : tile<256xptr<i32>>, tile<256xi32> -> tile<256xptr<i32>>
    %x, %t = atomic_rmw_tko release sys %fp, add, %lane : tile<256xptr<i32>>, tile<256xi32> -> tile<256xi32>, token
    return
  }
  entry @acquires(%f: tile<ptr<i32>>) {
    %lane = iota : tile<256xi32>
    %f1 = reshape %f : tile<ptr<i32>> -> tile<1xptr<i32>>
    %fb = broadcast %f1 : tile<1xptr<i32>> -> tile<256xptr<i32>>
    %fp = offset %fb, %lane : tile<256xptr<i32>>, tile<256xi32> -> tile<256xptr<i32>>
    %x, %t = atomic_rmw_tko acquire tl_blk %fp, add, %lane : tile<256xptr<i32>>, tile<256xi32> -> tile<256xi32>, token
    return
  }
  entry @alone(%f: tile<ptr<i32>>) {
    %lane = iota : tile<128xi32>
    %f1 = reshape %f : tile<ptr<i32>> -> tile<1xptr<i32>>
    %fb = broadcast %f1 : tile<1xptr<i32>> -> tile<128xptr<i32>>
    %fp = offset %fb, %lane : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
    %x, %t = atomic_rmw_tko acq_rel device %fp, add, %lane : tile<128xptr<i32>>, tile<128xi32> -> tile<128xi32>, token
    return
  }
}

// RUN: tileiras %s --gpu-name sm_90 --emit ptx -o - | FileCheck %s
// RUN: tileiras %s --gpu-name sm_80 --emit ptx -o - | FileCheck %s --check-prefix=BEFORE
// RUN: tileiras %s --gpu-name sm_90 --emit cubin -o %t

// The load stays behind the wait, and the stores of all threads before the fence.  Grids of GPUs before sm_90 do not
// overlap: there is nothing to wait for and nobody to tell.

// CHECK-LABEL: .entry dependent
// CHECK: griddepcontrol.wait;
// CHECK: ld.global
// CHECK: st.global
// CHECK: bar.warp.sync
// CHECK: fence.proxy.alias;
// CHECK: bar.warp.sync
// CHECK: griddepcontrol.launch_dependents;

// BEFORE: .version 7.5
// BEFORE-NOT: griddepcontrol
// BEFORE: fence.proxy.alias;
// BEFORE-NOT: griddepcontrol
cuda_tile.module @kernels {
  entry @dependent(%p: tile<ptr<i32>>) {
    %t0 = make_token : token
    %t1 = gdc_wait_tko token = %t0 -> token
    %x, %t2 = load_ptr_tko weak %p token = %t1 : tile<ptr<i32>> -> tile<i32>, token
    %y = addi %x, %x : tile<i32>
    %t3 = store_ptr_tko weak %p, %y token = %t2 : tile<ptr<i32>>, tile<i32> -> token
    %t4 = memory_fence_alias_tko %t3
    %t5 = gdc_launch_dependents_tko token = %t4 -> token
    return
  }
}

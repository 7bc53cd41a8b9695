// RUN: tileiras-opt %s --tileas-optimize-alloc-tensor --tileas-insert-barriers --tileas-assign-launch-bounds --convert-tileas-to-llvm=compute-capability=sm_90 --tileir-gpu-module-prepare --tileir-legalize-llvm-kernel --tileir-finalize-llvm-kernel | FileCheck %s

// What a front end says of the launch stays, in the place of what would be chosen.
// CHECK: llvm.func @hinted() attributes {nvvm.kernel, nvvm.maxnreg = 48 : i32, nvvm.minctasm = 3 : i32, nvvm.reqntid = array<i32: 128>}
// ptxas gives two CTAs of a kernel without tiles their registers by itself: no bound is written.
// CHECK: llvm.func @plain() attributes {nvvm.kernel, nvvm.reqntid = array<i32: 128>}
module {
  nv_tileaa.func @hinted() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, occupancy = 2>, target_spec = "sm_90", nvvm.maxnreg = 48 : i32, nvvm.minctasm = 3 : i32} {
    nv_tileaa.return
  }
  nv_tileaa.func @plain() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, occupancy = 2>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// RUN: tileiras-opt %s --convert-cudatile-to-tileaa=compute-capability=sm_90 | FileCheck %s
// RUN: tileiras-opt %s --convert-cudatile-to-tileaa=compute-capability=sm_90a | FileCheck %s --check-prefix=LETTER
// RUN: tileiras-opt %s --tileir=opt-level=3,compute-capability=sm_120 | FileCheck %s --check-prefix=GPU
// RUN: tileiras %s --gpu-name sm_120 --emit tileaa -o - | FileCheck %s --check-prefix=STAGE

// The module says which GPU it is for, as its functions do; so does the gpu.module that they end up in.
// CHECK: module attributes {nv_tileaa.compute_capability = 90 : i32} {
// CHECK: nv_tileaa.func @k() attributes {{.*}}target_spec = "sm_90"
// LETTER: module attributes {nv_tileaa.target_spec = "sm_90a"} {
// STAGE: module attributes {nv_tileaa.compute_capability = 120 : i32} {
// GPU: module {
// GPU-NEXT: gpu.module @kernels [#nvvm.target<O = 3, chip = "sm_120", {{.*}}>] attributes {nv_tileaa.compute_capability = 120 : i32} {
cuda_tile.module @m {
  entry @k() {
    return
  }
}

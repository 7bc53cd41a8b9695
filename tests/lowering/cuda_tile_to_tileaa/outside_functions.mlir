// RUN: tileiras-opt %s --convert-cudatile-to-tileaa=compute-capability=sm_90 | FileCheck %s

// What stands in a module outside of its functions runs nowhere.
// CHECK-NOT: make_range
// CHECK: nv_tileaa.func @kernel
// CHECK-NOT: make_range
cuda_tile.module @kernels {
  %0 = iota : tile<8xi32>
  entry @kernel() {
    return
  }
}

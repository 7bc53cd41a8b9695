// RUN: tileiras-opt %s --tileir-post-nvvm-finalize | FileCheck %s

// CHECK: llvm.func @k(
// CHECK: llvm.func @called(
// CHECK: llvm.func @taken(
// CHECK-NOT: @unused
module {
  llvm.func @k(%x: f32, %p: !llvm.ptr) {
    %0 = llvm.call @called(%x) : (f32) -> f32
    %1 = llvm.mlir.addressof @taken : !llvm.ptr
    llvm.return
  }
  llvm.func @called(f32) -> f32
  llvm.func @unused(f32) -> f32
  llvm.func @taken()
}

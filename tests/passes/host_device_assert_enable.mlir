// RUN: tileiras-opt %s --host-device-assert-enable | FileCheck %s

// The driver's function is called where the condition does not hold; what follows runs in any case.  Equal texts are one
// string.
// CHECK-COUNT-3: llvm.mlir.global internal constant @k_string_
// CHECK: llvm.func @k(
// CHECK: llvm.cond_br %{{.*}}, ^[[INSIDE:bb[0-9]+]], ^[[AFTER:bb[0-9]+]]
// CHECK: ^[[INSIDE]]:
// CHECK: llvm.call @__assertfail(
// CHECK: llvm.br ^[[AFTER]]
// CHECK: ^[[AFTER]]:
// CHECK: llvm.store
// CHECK: llvm.call @__assertfail(
// CHECK-NOT: cf.assert
// CHECK: llvm.func @__assertfail(!llvm.ptr, !llvm.ptr, i32, !llvm.ptr, i64)
module {
  llvm.func @k(%ok: i1, %p: !llvm.ptr<1>, %n: i32) {
    cf.assert %ok, "no"
    llvm.store %n, %p : i32, !llvm.ptr<1>
    cf.assert %ok, "no"
    llvm.return
  }
}

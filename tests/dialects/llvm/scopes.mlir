// RUN: tileiras-opt %s --verify-roundtrip | FileCheck %s

llvm.func @fences() {
  // CHECK: llvm.fence acq_rel
  llvm.fence acq_rel
  // An empty scope, which is the system's, is an attribute of the operation.
  // CHECK: llvm.fence syncscope("") acq_rel
  llvm.fence syncscope("") acq_rel
  // CHECK: llvm.fence syncscope("device") release
  llvm.fence syncscope("device") release
  llvm.return
}

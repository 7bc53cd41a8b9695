// RUN: not tileiras-opt %s --convert-tileas-to-llvm 2>&1 | FileCheck %s

// What has no lowering is refused where it stands.

// CHECK: unsupported_invalid.mlir:[[@LINE+4]]:{{[0-9]+}}: error: atomic 'add' of 'i8' is not supported on sm_90
// CHECK: error: failed to convert nv_tileas to llvm
builtin.module {
  nv_tileaa.func @show(%p: !nv_tileaa.ptr<i8, 1>, %x: i8) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %old, %t = nv_tileas.atomic_rmw add %p, %x {mem_semantic = #nv_tileaa.mem_semantic<relaxed>, mem_scope = #nv_tileaa.mem_scope<gpu>} : !nv_tileaa.ptr<i8, 1>, i8 -> i8, !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// RUN: not tileiras-opt %s --convert-tileas-to-llvm 2>&1 | FileCheck %s

// What has no lowering is refused where it stands.

// CHECK: unsupported_invalid.mlir:[[@LINE+6]]:{{[0-9]+}}: error: {{.*}}printing a tile of more than one element is not supported
// CHECK: error: failed to convert nv_tileas to llvm
#layout = #nv_tileas.linear<register = [], lane = [[1], [2], [4], [8], [16]], warp = []>
builtin.module {
  nv_tileaa.func @show() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %x = arith.constant dense<1> : tensor<32xi32> as tensor<32xi32, #layout>
    %t = nv_tileas.print "%i", %x : tensor<32xi32, #layout> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

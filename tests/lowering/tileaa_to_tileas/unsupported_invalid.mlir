// RUN: not tileiras-opt %s --convert-tileaa-to-tileas 2>&1 | FileCheck %s

builtin.module {
  nv_tileaa.func @show() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %x = arith.constant dense<1> : tensor<32xi32>
    // CHECK: unsupported_invalid.mlir:[[@LINE+2]]:10: error: failed to legalize operation 'nv_tileas.print'
    // CHECK: error: failed to convert nv_tileaa to nv_tileas
    %t = nv_tileas.print "%i", %x : tensor<32xi32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

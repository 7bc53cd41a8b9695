// RUN: not tileiras-opt %s --split-input-file --convert-tileaa-to-tileas 2>&1 | FileCheck %s

builtin.module {
  nv_tileaa.func @show() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %x = arith.constant dense<1> : tensor<32xi32>
    // CHECK: unsupported_invalid.mlir:[[@LINE+3]]:10: error: failed to legalize operation 'nv_tileas.print'
    // CHECK: ^
    // CHECK-NEXT: unsupported_invalid.mlir:[[@LINE+1]]:10: error: failed to convert nv_tileaa to nv_tileas
    %t = nv_tileas.print "%i", %x : tensor<32xi32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

builtin.module {
  nv_tileaa.func @half_way() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %t = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    // CHECK: unsupported_invalid.mlir:[[@LINE+1]]:10: error: failed to legalize operation 'nv_tileas.get_program_id'
    %x = nv_tileas.get_program_id x : i32
    nv_tileaa.return
  }
}

// -----

// CHECK: unsupported_invalid.mlir:[[@LINE+2]]:3: error: 'nv_tileaa.func' op expects a body
builtin.module {
  nv_tileaa.func @no_body() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {}
}

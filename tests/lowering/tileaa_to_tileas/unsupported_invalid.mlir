// RUN: not tileiras-opt %s --split-input-file --tileas=to=tileas-remove-layout-conversions 2>&1 | FileCheck %s

builtin.module {
  nv_tileaa.func @one_of_two_has_a_layout() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %x = arith.constant dense<1> : tensor<32xi32>
    %t = nv_tileas.print "%i", %x : tensor<32xi32> -> !nv_tileaa.mem_token
    // CHECK: unsupported_invalid.mlir:[[@LINE+3]]:10: error: failed to legalize operation 'nv_tileas.make_range'
    // CHECK: ^
    // CHECK-NEXT: unsupported_invalid.mlir:[[@LINE+1]]:10: error: failed to assign layouts
    %y = nv_tileas.make_range : tensor<32xi32, #nv_tileas.linear<register = [], lane = [[1], [2], [4], [8], [16]], warp = []>>
    nv_tileaa.return
  }
}

// -----

builtin.module {
  nv_tileaa.func @half_way() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %t = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    // CHECK: unsupported_invalid.mlir:[[@LINE+2]]:10: error: failed to legalize operation 'nv_tileas.get_program_id'
    // CHECK: unsupported_invalid.mlir:[[@LINE+1]]:10: error: failed to convert nv_tileaa to nv_tileas
    %x = nv_tileas.get_program_id x : i32
    nv_tileaa.return
  }
}

// -----

// CHECK: unsupported_invalid.mlir:[[@LINE+2]]:3: error: 'nv_tileaa.func' op expects a body
builtin.module {
  nv_tileaa.func @no_body() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {}
}

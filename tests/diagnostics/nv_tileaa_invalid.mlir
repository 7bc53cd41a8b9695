// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

module {
  nv_tileaa.func @f(%a: tensor<16x16xi8>, %b: tensor<16x16xi8>, %c: tensor<16x16xf32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{expected the element types of A, B, C, and D to be either all integers or all floats.}}
    %0 = nv_tileaa.dot %a, %b, %c : tensor<16x16xi8>, tensor<16x16xi8> -> tensor<16x16xf32>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%a: tensor<16x16xf8E4M3FN>, %b: tensor<16x16xf16>, %c: tensor<16x16xf32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{expects #A and #B have same bit width but got 8 and 16}}
    %0 = nv_tileaa.dot %a, %b, %c : tensor<16x16xf8E4M3FN>, tensor<16x16xf16> -> tensor<16x16xf32>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%a: tensor<16x16xi8>, %b: tensor<16x16xi8>, %c: tensor<16x16xi32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{expect signedness attribute for operand A}}
    %0 = nv_tileaa.dot %a, %b, %c : tensor<16x16xi8>, tensor<16x16xi8> -> tensor<16x16xi32>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%a: tensor<16x16xbf16>, %b: tensor<16x16xbf16>, %c: tensor<16x16xf16>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{expects #C element type to be f32, but got f16}}
    %0 = nv_tileaa.dot %a, %b, %c : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xf16>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%a: tensor<16x16xf8E4M3FN>, %b: tensor<16x16xf8E4M3FN>, %c: tensor<16x16xf64>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{expects #C element type to be either f32 or f16, but got f64}}
    %0 = nv_tileaa.dot %a, %b, %c : tensor<16x16xf8E4M3FN>, tensor<16x16xf8E4M3FN> -> tensor<16x16xf64>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%a: tensor<16x16xf4E2M1FN>, %b: tensor<16x16xf4E2M1FN>, %c: tensor<16x16xf32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{fp4 mma should expect scaling factors}}
    %0 = nv_tileaa.dot %a, %b, %c : tensor<16x16xf4E2M1FN>, tensor<16x16xf4E2M1FN> -> tensor<16x16xf32>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%a: tensor<16xf16>, %b: tensor<16xf16>, %c: tensor<16xf32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{expects rank-2 or rank-3 tensor for result, but got (1)}}
    %0 = nv_tileaa.dot %a, %b, %c : tensor<16xf16>, tensor<16xf16> -> tensor<16xf32>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%a: tensor<16x16xf16>, %b: tensor<32x16xf16>, %c: tensor<16x16xf32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{expects the shape of operand #A and #B to be compatible}}
    %0 = nv_tileaa.dot %a, %b, %c : tensor<16x16xf16>, tensor<32x16xf16> -> tensor<16x16xf32>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%a: tensor<16x16xf16>, %b: tensor<16x16xf16>, %c: tensor<16x8xf32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{expects the shape of operand #C is compatible with operands #A and #B}}
    %0 = nv_tileaa.dot %a, %b, %c : tensor<16x16xf16>, tensor<16x16xf16> -> tensor<16x8xf32>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%p: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{mem_scope not supported when mem_semantic is weak}}
    %v, %t = nv_tileaa.load %p {mem_semantic = #nv_tileaa.mem_semantic<weak>, mem_scope = #nv_tileaa.mem_scope<gpu>} : !nv_tileaa.ptr<f32> -> f32, !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%p: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{mem_scope required when mem_semantic is not weak}}
    %v, %t = nv_tileaa.load %p {mem_semantic = #nv_tileaa.mem_semantic<acquire>} : !nv_tileaa.ptr<f32> -> f32, !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%p: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{unsupported mem_semantic: release}}
    %v, %t = nv_tileaa.load %p {mem_semantic = #nv_tileaa.mem_semantic<release>, mem_scope = #nv_tileaa.mem_scope<gpu>} : !nv_tileaa.ptr<f32> -> f32, !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%p: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %c = arith.constant 1.0 : f32
    // expected-error @below {{unsupported mem_semantic: acquire}}
    %t = nv_tileaa.store %p, %c {mem_semantic = #nv_tileaa.mem_semantic<acquire>, mem_scope = #nv_tileaa.mem_scope<gpu>} : !nv_tileaa.ptr<f32>, f32 -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%p: !nv_tileaa.ptr<f32>, %d: tensor<16x16xf32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<64x64xf32, strides = [64, 1]>
    %w = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xf32, strides = [64, 1]>>
    %i = arith.constant 0 : i32
    // expected-error @below {{expects 2 coordinates, but got 1}}
    %v, %t = nv_tileaa.tiled_load %w[%i] : !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xf32, strides = [64, 1]>>, (i32) -> tensor<16x16xf32>, !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%p: !nv_tileaa.ptr<f32>, %d: tensor<16x16xf32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<64x64xf32, strides = [64, 1]>
    %w = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xf32, strides = [64, 1]>>
    %i = arith.constant 0 : i32
    // expected-error @below {{requires the same shape for tileSize and tensor value}}
    %v, %t = nv_tileaa.tiled_load %w[%i, %i] : !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xf32, strides = [64, 1]>>, (i32, i32) -> tensor<16x32xf32>, !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%p: !nv_tileaa.ptr<f32>, %d: tensor<16x16xf32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<64x64xf32, strides = [64, 1]>
    %w = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xf32, strides = [64, 1]>>
    %i = arith.constant 0 : i32
    // expected-error @below {{view elementType not equal with tensor element type: f32 != f16}}
    %v, %t = nv_tileaa.tiled_load %w[%i, %i] : !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xf32, strides = [64, 1]>>, (i32, i32) -> tensor<16x16xf16>, !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%p: !nv_tileaa.ptr<i8>, %d: tensor<16x16xi8>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<i8>, (), () -> !nv_tileaa.memref<64x64xi8, strides = [64, 1]>
    %w = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xi8, strides = [64, 1]>>
    %i = arith.constant 0 : i32
    // expected-error @below {{tiled_atomic_rmw not supported for 8-bit types}}
    %t = nv_tileaa.tiled_atomic_rmw add %d, %w[%i, %i] {mem_scope = #nv_tileaa.mem_scope<gpu>, mem_semantic = #nv_tileaa.mem_semantic<relaxed>} : tensor<16x16xi8>, !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xi8, strides = [64, 1]>>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%p: !nv_tileaa.ptr<i16>, %d: tensor<16x16xi16>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<i16>, (), () -> !nv_tileaa.memref<64x64xi16, strides = [64, 1]>
    %w = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xi16, strides = [64, 1]>>
    %i = arith.constant 0 : i32
    // expected-error @below {{tiled_atomic_rmw not supported for 16-bit integer}}
    %t = nv_tileaa.tiled_atomic_rmw add %d, %w[%i, %i] {mem_scope = #nv_tileaa.mem_scope<gpu>, mem_semantic = #nv_tileaa.mem_semantic<relaxed>} : tensor<16x16xi16>, !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xi16, strides = [64, 1]>>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%p: !nv_tileaa.ptr<f16>, %d: tensor<16x16xf16>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !nv_tileaa.memref<64x64xf16, strides = [64, 1]>
    %w = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xf16, strides = [64, 1]>>
    %i = arith.constant 0 : i32
    // expected-error @below {{tiled_atomic_rmw for 16-bit float only supports add, max, min operations}}
    %t = nv_tileaa.tiled_atomic_rmw xor %d, %w[%i, %i] {mem_scope = #nv_tileaa.mem_scope<gpu>, mem_semantic = #nv_tileaa.mem_semantic<relaxed>} : tensor<16x16xf16>, !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xf16, strides = [64, 1]>>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%p: !nv_tileaa.ptr<i32>, %d: tensor<16x16xi32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<i32>, (), () -> !nv_tileaa.memref<64x64xi32, strides = [64, 1]>
    %w = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xi32, strides = [64, 1]>>
    %i = arith.constant 0 : i32
    // expected-error @below {{tiled_atomic_rmw op cannot use xchg operation}}
    %t = nv_tileaa.tiled_atomic_rmw xchg %d, %w[%i, %i] {mem_scope = #nv_tileaa.mem_scope<gpu>, mem_semantic = #nv_tileaa.mem_semantic<relaxed>} : tensor<16x16xi32>, !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xi32, strides = [64, 1]>>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

// expected-error @below {{Kernel functions do not support return with operands}}
"nv_tileaa.func"() ({
  ^bb0(%a: i32):
    nv_tileaa.return
}) {function_type = (i32) -> i32, kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, sym_name = "f", target_spec = "sm_90"} : () -> ()

// -----

module {
  // expected-error @below {{expects parent op 'llvm.func'}}
  "llvm.return"() : () -> ()
}

// -----

#layout = #nv_tileas.linear<register = [], lane = [[1], [2], [4], [8], [16]], warp = []>
module {
  nv_tileaa.func @f(%a: tensor<32xf32>, %b: tensor<32xf32, #layout>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{missing source layout}}
    %0 = nv_tileas.convert_layout %a : tensor<32xf32> -> tensor<32xf32, #layout>
    // expected-error @below {{fails to assign layout}}
    %1 = nv_tileas.convert_layout %b : tensor<32xf32, #layout> -> tensor<32xf32>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %a = arith.constant dense<1.0> : tensor<16x64xf8E4M3FN>
    %b = arith.constant dense<1.0> : tensor<64x8xf8E4M3FN>
    %c = arith.constant dense<1.0> : tensor<16x8xf32>
    %s = arith.constant dense<1.0> : tensor<16x2xf8E8M0FNU>
    %t = arith.constant dense<1.0> : tensor<2x8xf8E4M3FN>
    // expected-error @below {{sfa and sfb element type mismatch}}
    %d = nv_tileaa.block_scaled_mma %a scale %s, %b scale %t, %c : tensor<16x64xf8E4M3FN>, tensor<16x2xf8E8M0FNU>, tensor<64x8xf8E4M3FN>, tensor<2x8xf8E4M3FN> -> tensor<16x8xf32>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %a = arith.constant dense<1.0> : tensor<16x64xf8E4M3FN>
    %b = arith.constant dense<1.0> : tensor<64x8xf8E4M3FN>
    %c = arith.constant dense<1.0> : tensor<16x8xf16>
    %s = arith.constant dense<1.0> : tensor<16x2xf8E8M0FNU>
    %t = arith.constant dense<1.0> : tensor<2x8xf8E8M0FNU>
    // expected-error @below {{expects c type to be Float32}}
    %d = nv_tileaa.block_scaled_mma %a scale %s, %b scale %t, %c : tensor<16x64xf8E4M3FN>, tensor<16x2xf8E8M0FNU>, tensor<64x8xf8E4M3FN>, tensor<2x8xf8E8M0FNU> -> tensor<16x8xf16>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %a = arith.constant dense<1.0> : tensor<16x64xf8E4M3FN>
    %b = arith.constant dense<1.0> : tensor<64x8xf8E4M3FN>
    %c = arith.constant dense<1.0> : tensor<16x8xf32>
    %s = arith.constant dense<1.0> : tensor<16x2xf8E8M0FNU>
    %t = arith.constant dense<1.0> : tensor<4x8xf8E8M0FNU>
    // expected-error @below {{Scale factor vector size mismatch:2, 4}}
    %d = nv_tileaa.block_scaled_mma %a scale %s, %b scale %t, %c : tensor<16x64xf8E4M3FN>, tensor<16x2xf8E8M0FNU>, tensor<64x8xf8E4M3FN>, tensor<4x8xf8E8M0FNU> -> tensor<16x8xf32>
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{expects non-empty tileSizes}}
  nv_tileaa.func @f(%v: !nv_tileaa.tiled_view<[], !nv_tileaa.memref<64x64xi32, strides = [64, 1]>>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{expects non-empty dimGroups}}
  nv_tileaa.func @f(%v: !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xi32, strides = [64, 1]>, dim_map = []>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{expects dim is being tiled only one time, but got 0}}
  nv_tileaa.func @f(%v: !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xi32, strides = [64, 1]>, dim_map = [0, 0]>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{expects rank of tileSizes be equal to rank of dimGroups, but got 3 and 2}}
  nv_tileaa.func @f(%v: !nv_tileaa.tiled_view<[16, 16, 16], !nv_tileaa.memref<64x64xi32, strides = [64, 1]>, dim_map = [0, 1]>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{expects all tile size bigger than zero}}
  nv_tileaa.func @f(%v: !nv_tileaa.tiled_view<[16, 0], !nv_tileaa.memref<64x64xi32, strides = [64, 1]>>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{special padding values (nan, pos_inf, neg_inf, neg_zero) only for float-like element types}}
  nv_tileaa.func @f(%v: !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xi32, strides = [64, 1]>, padding = #nv_tileaa.padding_value<nan>>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%p: !nv_tileaa.ptr<i32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<i32>, (), () -> !nv_tileaa.memref<64x64xi32, strides = [64, 1]>
    %w = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xi32, strides = [64, 1]>>
    %i = arith.constant 0 : i32
    %d = arith.constant dense<1> : tensor<16x16xi32>
    // expected-error @below {{incorrect number of in_bounds elements: expected 2, but found 3}}
    %s, %t = nv_tileaa.tiled_load %w[%i, %i] {nv_tileaa.inbounds = array<i1: true, true, true>} : !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xi32, strides = [64, 1]>>, (i32, i32) -> tensor<16x16xi32>, !nv_tileaa.mem_token
    // expected-error @below {{memScope not supported when memSemantic is weak}}
    %u = nv_tileaa.tiled_atomic_rmw add %d, %w[%i, %i] {mem_scope = #nv_tileaa.mem_scope<gpu>} : tensor<16x16xi32>, !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xi32, strides = [64, 1]>>, (i32, i32) -> !nv_tileaa.mem_token
    // expected-error @below {{memScope required when memSemantic is not weak}}
    %v = nv_tileaa.tiled_atomic_rmw add %d, %w[%i, %i] {mem_semantic = #nv_tileaa.mem_semantic<relaxed>} : tensor<16x16xi32>, !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xi32, strides = [64, 1]>>, (i32, i32) -> !nv_tileaa.mem_token
    // expected-error @below {{cannot update elements of type i32 by 'addf'}}
    %x = nv_tileaa.tiled_atomic_rmw addf %d, %w[%i, %i] {mem_scope = #nv_tileaa.mem_scope<gpu>, mem_semantic = #nv_tileaa.mem_semantic<relaxed>} : tensor<16x16xi32>, !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<64x64xi32, strides = [64, 1]>>, (i32, i32) -> !nv_tileaa.mem_token
    // expected-error @below {{expects an alignment that is a power of two, but got 12}}
    %y = nv_tileaa.alloca 4 : i64, 12 : i64 : !nv_tileaa.ptr<i32>
    // expected-error @below {{operand type 'i32' and result type 'i16' are cast incompatible}}
    %z = arith.extsi %i : i32 to i16
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%p: tensor<16x!nv_tileaa.ptr<f32>>, %m: tensor<8xi1>, %n: tensor<8xi32>, %i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{expects data of type tensor<16xf32>, but got tensor<16xi32>}}
    %a, %t = nv_tileaa.load %p : tensor<16x!nv_tileaa.ptr<f32>> -> tensor<16xi32>, !nv_tileaa.mem_token
    // expected-error @below {{expects a mask of type tensor<16xi1>, but got tensor<8xi1>}}
    %b, %u = nv_tileaa.load %p mask = %m : tensor<8xi1> : tensor<16x!nv_tileaa.ptr<f32>> -> tensor<16xf32>, !nv_tileaa.mem_token
    // expected-error @below {{cannot concatenate tensor<8xi1> and tensor<8xi1> along dimension 0 to tensor<8xi1>}}
    %c = nv_tileaa.cat %m, %m {dim = 0 : i32} : tensor<8xi1>, tensor<8xi1> -> tensor<8xi1>
    // expected-error @below {{cannot cut tensor<8xi1> into tensor<16xi1>}}
    %d = nv_tileaa.extract_slice %m[%i] : tensor<8xi1>, (i32) -> tensor<16xi1>
    // expected-error @below {{requires the same shape for all operands and results}}
    %e = nv_tileaa.addptr %p, %n : tensor<16x!nv_tileaa.ptr<f32>>, tensor<8xi32>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'scf.for' op expects a non-empty block}}
    "scf.for"(%n, %n, %n) ({}) : (i32, i32, i32) -> ()
    nv_tileaa.return
  }
}

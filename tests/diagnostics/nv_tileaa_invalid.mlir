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

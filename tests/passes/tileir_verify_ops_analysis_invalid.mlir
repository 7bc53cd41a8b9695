// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --tileir-verify-ops-analysis=compute-capability=sm_80

#layout = #nv_tileas.linear<register = [], lane = [[1], [2], [4], [8], [16]], warp = []>
module {
  nv_tileaa.func @warps(%p: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_80"} {
    // expected-error @below {{'arith.constant' op makes a tensor for 1 warps in a function of 4}}
    %0 = arith.constant dense<1> : tensor<32xi32, #layout>
    // expected-error @below {{'arith.constant' op makes a tensor without a layout: tensor<32xi32>}}
    %1 = arith.constant dense<1> : tensor<32xi32>
    nv_tileaa.return
  }
}

// -----

#layout = #nv_tileas.linear<register = [], lane = [[1], [2], [4], [8], [16]], warp = []>
module {
  nv_tileaa.func @atoms(%p: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_80"} {
    %0 = nv_tileas.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<1024xf32, strides = [1]>
    %1 = nv_tileas.block_tile %0 : !nv_tileaa.tiled_view<[32], !nv_tileaa.memref<1024xf32, strides = [1]>>
    %2 = nv_tileas.get_program_id x : i32
    // expected-error @below {{'nv_tileas.tiled_load' op unknown copy atom 'ld_everything'}}
    %a, %t = nv_tileas.tiled_load %1[%2] {atom = #nv_tileas.copy_atom<ld_everything, 1>} : !nv_tileaa.tiled_view<[32], !nv_tileaa.memref<1024xf32, strides = [1]>>, (i32) -> tensor<32xf32, #layout>, !nv_tileaa.mem_token
    // expected-error @below {{'nv_tileas.tiled_load' op copy atom 'tma_load' is described, but not generated yet}}
    %d, %v = nv_tileas.tiled_load %1[%2] {atom = #nv_tileas.copy_atom<tma_load, 1>} : !nv_tileaa.tiled_view<[32], !nv_tileaa.memref<1024xf32, strides = [1]>>, (i32) -> tensor<32xf32, #layout>, !nv_tileaa.mem_token
    // expected-error @below {{'nv_tileas.tiled_load' op unsupported operation for target sm_80: atom 'stmatrix' needs sm_90 or newer}}
    %b, %u = nv_tileas.tiled_load %1[%2] {atom = #nv_tileas.copy_atom<stmatrix, 1>} : !nv_tileaa.tiled_view<[32], !nv_tileaa.memref<1024xf32, strides = [1]>>, (i32) -> tensor<32xf32, #layout>, !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

#a = #nv_tileas.linear<register = [[0, 1], [0, 2], [8, 0], [0, 16]], lane = [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], warp = []>
#b = #nv_tileas.linear<register = [[1, 0], [2, 0], [16, 0]], lane = [[4, 0], [8, 0], [0, 1], [0, 2], [0, 4]], warp = []>
#c = #nv_tileas.linear<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
#sa = #nv_tileas.linear<register = [], lane = [[8, 0], [0, 0], [1, 0], [2, 0], [4, 0]], warp = []>
#sb = #nv_tileas.linear<register = [], lane = [[0, 0], [0, 0], [0, 1], [0, 2], [0, 4]], warp = []>
module {
  nv_tileaa.func @products(%p: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_80"} {
    %a = arith.constant dense<1.0> : tensor<16x32xf8E4M3FN> as tensor<16x32xf8E4M3FN, #a>
    %b = arith.constant dense<1.0> : tensor<32x8xf8E4M3FN> as tensor<32x8xf8E4M3FN, #b>
    %c = arith.constant dense<0.0> : tensor<16x8xf32> as tensor<16x8xf32, #c>
    %sa = arith.constant dense<1.0> : tensor<16x1xf8E8M0FNU> as tensor<16x1xf8E8M0FNU, #sa>
    %sb = arith.constant dense<1.0> : tensor<1x8xf8E8M0FNU> as tensor<1x8xf8E8M0FNU, #sb>
    // expected-error @below {{'nv_tileas.dot' op unsupported operation for target sm_80: atom 'mma_m16n8k32_f32_f8E4M3FN_f8E4M3FN' needs sm_89 or newer}}
    %0 = nv_tileas.dot %a, %b, %c {atom = #nv_tileas.mma_atom<"mma_m16n8k32_f32_f8E4M3FN_f8E4M3FN">} : tensor<16x32xf8E4M3FN, #a>, tensor<32x8xf8E4M3FN, #b> -> tensor<16x8xf32, #c>
    // expected-error @below {{'nv_tileas.dot' op unknown mma atom 'mma_m1n1k1'}}
    %1 = nv_tileas.dot %a, %b, %c {atom = #nv_tileas.mma_atom<"mma_m1n1k1">} : tensor<16x32xf8E4M3FN, #a>, tensor<32x8xf8E4M3FN, #b> -> tensor<16x8xf32, #c>
    // expected-error @below {{'nv_tileas.dot' op mma atom 'tcgen05_m64n8k32_f32_f8E4M3FN_f8E4M3FN_ts' is described, but not generated yet}}
    %4 = nv_tileas.dot %a, %b, %c {atom = #nv_tileas.mma_atom<"tcgen05_m64n8k32_f32_f8E4M3FN_f8E4M3FN_ts">} : tensor<16x32xf8E4M3FN, #a>, tensor<32x8xf8E4M3FN, #b> -> tensor<16x8xf32, #c>
    // expected-error @below {{'nv_tileas.dot' op the threads lack elements of A for their part of the result}}
    %2 = nv_tileas.dot %a, %b, %c {atom = #nv_tileas.mma_atom<"universal_fma">} : tensor<16x32xf8E4M3FN, #a>, tensor<32x8xf8E4M3FN, #b> -> tensor<16x8xf32, #c>
    // expected-error @below {{mma block scale is not supported by compute capability < sm100}}
    %3 = nv_tileas.block_scaled_mma %a scale %sa, %b scale %sb, %c {atom = #nv_tileas.mma_atom<"mma_m16n8k32_f32_f8E4M3FN_f8E4M3FN_f8E8M0FNU_32">} : tensor<16x32xf8E4M3FN, #a>, tensor<16x1xf8E8M0FNU, #sa>, tensor<32x8xf8E4M3FN, #b>, tensor<1x8xf8E8M0FNU, #sb> -> tensor<16x8xf32, #c>
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{'nv_tileaa.func' op is for sm_90, the compilation for sm_80}}
  nv_tileaa.func @elsewhere() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

#lanes = #nv_tileas.linear<register = [], lane = [[1], [2], [4], [8]], warp = [[16]]>
#block = #nv_tileas.linear<register = [], lane = [[1], [2], [4], [8], [0]], warp = [[0]], block = [[16]]>
module {
  nv_tileaa.func @threads() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, target_spec = "sm_80"} {
    // expected-error @below {{'arith.constant' op makes a tensor for warps of 16 lanes}}
    %0 = arith.constant dense<1> : tensor<32xi32> as tensor<32xi32, #lanes>
    // expected-error @below {{'arith.constant' op makes a tensor that the CTAs of a cluster share, which nothing here takes apart}}
    %1 = arith.constant dense<1> : tensor<32xi32> as tensor<32xi32, #block>
    nv_tileaa.return
  }
  // expected-error @below {{'nv_tileaa.func' op has no number of warps}}
  nv_tileaa.func @unchosen() attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_80"} {
    nv_tileaa.return
  }
}

// -----

#layout = #nv_tileas.linear<register = [[1], [2], [4]], lane = [[8], [16], [32], [64], [128]], warp = []>
!view = !nv_tileaa.tiled_view<[256], !nv_tileaa.memref<1024xf32, strides = [1]>>
module {
  nv_tileaa.func @movements(%p: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_80"} {
    %0 = nv_tileas.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<1024xf32, strides = [1]>
    %1 = nv_tileas.block_tile %0 : !view
    %2 = nv_tileas.get_program_id x : i32
    // expected-error @below {{'nv_tileas.tiled_load' op expect a ldgsts, tma_load, ldg or unknown_copy atom type, got st_global}}
    %a, %t = nv_tileas.tiled_load %1[%2] {atom = #nv_tileas.copy_atom<st_global, 1>} : !view, (i32) -> tensor<256xf32, #layout>, !nv_tileaa.mem_token
    // expected-error @below {{'nv_tileas.tiled_load' op moves 8 elements of 32 bits at once; 'ld_global' moves (1, 2, 4, 8, 16) bytes}}
    %b, %u = nv_tileas.tiled_load %1[%2] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view, (i32) -> tensor<256xf32, #layout>, !nv_tileaa.mem_token
    // expected-error @below {{'nv_tileas.tiled_store' op expect a stg, tma_store or unknown_copy atom type, got cp_async}}
    %v = nv_tileas.tiled_store %a, %1[%2] {atom = #nv_tileas.copy_atom<cp_async, 4>} : tensor<256xf32, #layout>, !view, (i32) -> !nv_tileaa.mem_token
    // expected-error @below {{'nv_tileas.tiled_atomic_rmw' op expect an atom that updates memory, got ld_global}}
    %w = nv_tileas.tiled_atomic_rmw addf %a, %1[%2] {atom = #nv_tileas.copy_atom<ld_global, 1>, mem_scope = #nv_tileaa.mem_scope<gpu>, mem_semantic = #nv_tileaa.mem_semantic<relaxed>} : tensor<256xf32, #layout>, !view, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

// The fragments of `mma_m16n8k16_f32_f16_f16`: A's, with two lanes exchanged, and B's and C's as they are.
#a = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 4], [0, 2], [1, 0], [2, 0], [4, 0]], warp = []>
#good = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
#b = #nv_tileas.linear<register = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = []>
#c = #nv_tileas.linear<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
module {
  nv_tileaa.func @fragments() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_80"} {
    %a = arith.constant dense<1.0> : tensor<16x16xf16> as tensor<16x16xf16, #a>
    %g = arith.constant dense<1.0> : tensor<16x16xf16> as tensor<16x16xf16, #good>
    %b = arith.constant dense<1.0> : tensor<16x8xf16> as tensor<16x8xf16, #b>
    %c = arith.constant dense<0.0> : tensor<16x8xf32> as tensor<16x8xf32, #c>
    // expected-error @below {{'nv_tileas.dot' op the layout of A does not have the fragments of atom 'mma_m16n8k16_f32_f16_f16'}}
    %0 = nv_tileas.dot %a, %b, %c {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">} : tensor<16x16xf16, #a>, tensor<16x8xf16, #b> -> tensor<16x8xf32, #c>
    // expected-error @below {{'nv_tileas.dot' op atom 'mma_m16n8k16_f32_bf16_bf16' does not multiply f16 and f16 into f32}}
    %1 = nv_tileas.dot %g, %b, %c {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_bf16_bf16">} : tensor<16x16xf16, #good>, tensor<16x8xf16, #b> -> tensor<16x8xf32, #c>
    %2 = nv_tileas.dot %g, %b, %c {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">} : tensor<16x16xf16, #good>, tensor<16x8xf16, #b> -> tensor<16x8xf32, #c>
    nv_tileaa.return
  }
}

// -----

#mixed = #nv_tileas.linear<register = [[1, 1], [2, 0], [0, 2]], lane = [[1, 0], [4, 0], [8, 0], [0, 4], [0, 8]], warp = []>
#row = #nv_tileas.linear<register = [[1], [2]], lane = [[0], [4], [8], [0], [0]], warp = []>
module {
  nv_tileaa.func @reductions() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_80"} {
    %0 = arith.constant dense<1> : tensor<16x16xi32> as tensor<16x16xi32, #mixed>
    // expected-error @below {{'nv_tileas.reduce' op a basis of the layout mixes the reduced dimension with another}}
    %1 = nv_tileas.reduce %0 {dim = 1 : i32, identities = [0 : i32]} : (tensor<16x16xi32, #mixed>) -> (tensor<16xi32, #row>) {
    ^bb0(%x: i32, %y: i32):
      %s = arith.addi %x, %y : i32
      nv_tileas.yield %s : i32
    }
    nv_tileaa.return
  }
}

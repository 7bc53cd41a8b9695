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

// RUN: tileiras-opt %s --tileas-mark-short-loops --verify-roundtrip | FileCheck %s

// A loop is marked where its tiles leave too few registers for parts of addresses: 128 of a thread hold the accumulator.

#la = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [16, 0], [32, 0]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = []>
#lb = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [4, 0], [8, 0]], lane = [[0, 8], [0, 16], [0, 32], [1, 0], [2, 0]], warp = []>
#a = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [16, 0], [32, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
#b = #nv_tileas.linear<register = [[1, 0], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = []>
#c = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [16, 0], [32, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
!view_a = !nv_tileaa.tiled_view<[64, 16], !nv_tileaa.memref<64x16xf16, strides = [16, 1]>>
!view_b = !nv_tileaa.tiled_view<[16, 64], !nv_tileaa.memref<128x64xf16, strides = [64, 1]>>
!tile_c = tensor<64x64xf32, #c>
#la_low = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [16, 0]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = []>
#a_low = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [16, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
#c_low = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [16, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
!view_a_low = !nv_tileaa.tiled_view<[32, 16], !nv_tileaa.memref<32x16xf16, strides = [16, 1]>>
!tile_c_low = tensor<32x64xf32, #c_low>

module {
  // CHECK-LABEL: @short
  nv_tileaa.func @short(%va: !view_a, %vb: !view_b) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1, occupancy = 13>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %steps = arith.constant 8 : i32
    %none = arith.constant dense<0.0> : tensor<64x64xf32> as !tile_c
    %loaded_a, %ta = nv_tileas.tiled_load %va[%zero, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_a, (i32, i32) -> tensor<64x16xf16, #la>, !nv_tileaa.mem_token
    %a = nv_tileas.convert_layout %loaded_a : tensor<64x16xf16, #la> -> tensor<64x16xf16, #a>
    %r = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (!tile_c) : i32 {
      %loaded_b, %tb = nv_tileas.tiled_load %vb[%i, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_b, (i32, i32) -> tensor<16x64xf16, #lb>, !nv_tileaa.mem_token
      %b = nv_tileas.convert_layout %loaded_b : tensor<16x64xf16, #lb> -> tensor<16x64xf16, #b>
      %next = nv_tileas.dot %a, %b, %acc {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">} : tensor<64x16xf16, #a>, tensor<16x64xf16, #b> -> !tile_c
      scf.yield %next : !tile_c
    }
    // CHECK: } {nv_tileas.short_of_registers}
    nv_tileaa.return
  }

  // CHECK-LABEL: @roomy
  nv_tileaa.func @roomy(%va: !view_a_low, %vb: !view_b) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %steps = arith.constant 8 : i32
    %none = arith.constant dense<0.0> : tensor<32x64xf32> as !tile_c_low
    %loaded_a, %ta = nv_tileas.tiled_load %va[%zero, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_a_low, (i32, i32) -> tensor<32x16xf16, #la_low>, !nv_tileaa.mem_token
    %a = nv_tileas.convert_layout %loaded_a : tensor<32x16xf16, #la_low> -> tensor<32x16xf16, #a_low>
    %r = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (!tile_c_low) : i32 {
      %loaded_b, %tb = nv_tileas.tiled_load %vb[%i, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_b, (i32, i32) -> tensor<16x64xf16, #lb>, !nv_tileaa.mem_token
      %b = nv_tileas.convert_layout %loaded_b : tensor<16x64xf16, #lb> -> tensor<16x64xf16, #b>
      // CHECK-NOT: short_of_registers
      %next = nv_tileas.dot %a, %b, %acc {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">} : tensor<32x16xf16, #a_low>, tensor<16x64xf16, #b> -> !tile_c_low
      scf.yield %next : !tile_c_low
    }
    nv_tileaa.return
  }
}

// RUN: tileiras-opt %s --tileas-lower-occupancy --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %s --tileas-lower-occupancy=resource=shared-memory | FileCheck %s --check-prefix=ROOM

// An occupancy yields to the registers of a thread, and to two stages of the loads that could run ahead.

// 128 registers of a thread.
#own = #nv_tileas.linear<register = [[1], [2], [128], [256], [512], [1024], [2048]], lane = [[4], [8], [16], [32], [64]], warp = []>
!view = !nv_tileaa.tiled_view<[4096], !nv_tileaa.memref<4096xf32, strides = [1]>>
!tile = tensor<4096xf32, #own>

#la = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]], lane = [[0, 8], [0, 16], [0, 32], [0, 64], [1, 0]], warp = []>
#lb = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], lane = [[0, 8], [0, 16], [0, 32], [1, 0], [2, 0]], warp = []>
#a = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [0, 64], [16, 0], [32, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
#b = #nv_tileas.linear<register = [[1, 0], [8, 0], [0, 8], [0, 16], [0, 32], [16, 0], [32, 0], [64, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = []>
#c = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [16, 0], [32, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
!view_a = !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<64x128xf16, strides = [128, 1]>>
!view_b = !nv_tileaa.tiled_view<[128, 64], !nv_tileaa.memref<1024x64xf16, strides = [64, 1]>>
!tile_c = tensor<64x64xf32, #c>

module {
  // 128 registers and 12 beside them are those of three warps of 32 threads in each of the four partitions of an SM:
  // with four, a thread has 128.
  // CHECK: @asks_for_16({{.*}}kernel_spec<numWarps = 1, numCtas = 1, occupancy = 12>
  nv_tileaa.func @asks_for_16(%v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1, occupancy = 16>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %x, %t = nv_tileas.tiled_load %v[%zero] {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %u = nv_tileas.tiled_store %x, %v[%zero] token = %t {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // CHECK: @asks_for_8({{.*}}kernel_spec<numWarps = 1, numCtas = 1, occupancy = 8>
  nv_tileaa.func @asks_for_8(%v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1, occupancy = 8>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %x, %t = nv_tileas.tiled_load %v[%zero] {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %u = nv_tileas.tiled_store %x, %v[%zero] token = %t {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // CHECK: @asks_for_none({{.*}}kernel_spec<numWarps = 1, numCtas = 1>
  nv_tileaa.func @asks_for_none(%v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %x, %t = nv_tileas.tiled_load %v[%zero] {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %u = nv_tileas.tiled_store %x, %v[%zero] token = %t {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Two stages of B are 32 KiB, and each CTA takes 1 KiB beside: an SM of 228 KiB holds 6.
  // ROOM: @asks_for_32({{.*}}kernel_spec<numWarps = 1, numCtas = 1, occupancy = 6>
  nv_tileaa.func @asks_for_32(%va: !view_a, %vb: !view_b) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1, occupancy = 32>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %steps = arith.constant 8 : i32
    %none = arith.constant dense<0.0> : tensor<64x64xf32> as !tile_c
    %loaded_a, %ta = nv_tileas.tiled_load %va[%zero, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_a, (i32, i32) -> tensor<64x128xf16, #la>, !nv_tileaa.mem_token
    %a = nv_tileas.convert_layout %loaded_a : tensor<64x128xf16, #la> -> tensor<64x128xf16, #a>
    %r = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (!tile_c) : i32 {
      %loaded_b, %tb = nv_tileas.tiled_load %vb[%i, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_b, (i32, i32) -> tensor<128x64xf16, #lb>, !nv_tileaa.mem_token
      %b = nv_tileas.convert_layout %loaded_b : tensor<128x64xf16, #lb> -> tensor<128x64xf16, #b>
      %next = nv_tileas.dot %a, %b, %acc {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">} : tensor<64x128xf16, #a>, tensor<128x64xf16, #b> -> !tile_c
      scf.yield %next : !tile_c
    }
    nv_tileaa.return
  }

  // ROOM: @asks_for_6({{.*}}kernel_spec<numWarps = 1, numCtas = 1, occupancy = 6>
  nv_tileaa.func @asks_for_6(%va: !view_a, %vb: !view_b) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1, occupancy = 6>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %steps = arith.constant 8 : i32
    %none = arith.constant dense<0.0> : tensor<64x64xf32> as !tile_c
    %loaded_a, %ta = nv_tileas.tiled_load %va[%zero, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_a, (i32, i32) -> tensor<64x128xf16, #la>, !nv_tileaa.mem_token
    %a = nv_tileas.convert_layout %loaded_a : tensor<64x128xf16, #la> -> tensor<64x128xf16, #a>
    %r = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (!tile_c) : i32 {
      %loaded_b, %tb = nv_tileas.tiled_load %vb[%i, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_b, (i32, i32) -> tensor<128x64xf16, #lb>, !nv_tileaa.mem_token
      %b = nv_tileas.convert_layout %loaded_b : tensor<128x64xf16, #lb> -> tensor<128x64xf16, #b>
      %next = nv_tileas.dot %a, %b, %acc {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">} : tensor<64x128xf16, #a>, tensor<128x64xf16, #b> -> !tile_c
      scf.yield %next : !tile_c
    }
    nv_tileaa.return
  }
}

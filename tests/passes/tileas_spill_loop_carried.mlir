// RUN: tileiras-opt %s --tileas-spill-loop-carried --verify-roundtrip | FileCheck %s

// What a loop carries past its dot waits in a buffer of its own, without a barrier: each thread reads what it wrote.

#la = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [16, 0], [32, 0]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = []>
#lb = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [4, 0], [8, 0]], lane = [[0, 8], [0, 16], [0, 32], [1, 0], [2, 0]], warp = []>
#a = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [16, 0], [32, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
#b = #nv_tileas.linear<register = [[1, 0], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = []>
#c = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [16, 0], [32, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
!view_a = !nv_tileaa.tiled_view<[64, 16], !nv_tileaa.memref<64x16xf16, strides = [16, 1]>>
!view_b = !nv_tileaa.tiled_view<[16, 64], !nv_tileaa.memref<128x64xf16, strides = [64, 1]>>
!tile_c = tensor<64x64xf32, #c>
#row = #nv_tileas.linear<register = [[8, 0], [16, 0], [32, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]], warp = []>
!row = tensor<64x1xf32, #row>

module {
  // %m waits; %w is used on both sides of the dot and stays.
  // CHECK-LABEL: @spills
  nv_tileaa.func @spills(%va: !view_a, %vb: !view_b) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1, occupancy = 13>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %steps = arith.constant 8 : i32
    %none = arith.constant dense<0.0> : tensor<64x64xf32> as !tile_c
    %m0 = arith.constant dense<1.0> : tensor<64x1xf32> as !row
    // CHECK: %[[BUFFER:.*]] = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<64x1xf32
    // CHECK-NEXT: store_tensor %{{.*}} into %[[BUFFER]]
    // CHECK-NOT: alloc_tensor
    // CHECK: scf.for {{.*}} -> (tensor<64x64xf32, #{{[a-z0-9]+}}>, tensor<64x1xf32, #{{[a-z0-9]+}}>) : i32
    %loaded_a, %ta = nv_tileas.tiled_load %va[%zero, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_a, (i32, i32) -> tensor<64x16xf16, #la>, !nv_tileaa.mem_token
    %a = nv_tileas.convert_layout %loaded_a : tensor<64x16xf16, #la> -> tensor<64x16xf16, #a>
    %r:3 = scf.for %i = %zero to %steps step %one iter_args(%acc = %none, %m = %m0, %w = %m0) -> (!tile_c, !row, !row) : i32 {
      %loaded_b, %tb = nv_tileas.tiled_load %vb[%i, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_b, (i32, i32) -> tensor<16x64xf16, #lb>, !nv_tileaa.mem_token
      %b = nv_tileas.convert_layout %loaded_b : tensor<16x64xf16, #lb> -> tensor<16x64xf16, #b>
      %half = nv_tileas.mulf %w, %m0 : !row
      %next = nv_tileas.dot %a, %b, %acc {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">} : tensor<64x16xf16, #a>, tensor<16x64xf16, #b> -> !tile_c
      // CHECK: nv_tileas.dot
      // CHECK-NEXT: %[[OLD:.*]] = nv_tileas.copy %[[BUFFER]]
      // CHECK-NEXT: %[[NEW:.*]] = nv_tileas.addf %[[OLD]]
      // CHECK-NEXT: store_tensor %[[NEW]] into %[[BUFFER]]
      // CHECK-NOT: barrier
      %mn = nv_tileas.addf %m, %m0 : !row
      %wn = nv_tileas.addf %w, %half : !row
      scf.yield %next, %mn, %wn : !tile_c, !row, !row
    } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>, nv_tileas.short_of_registers}
    // CHECK: nv_tileas.loop_schedule
    // CHECK-NEXT: nv_tileas.copy %[[BUFFER]]
    // CHECK-NEXT: dealloc_tensor %[[BUFFER]]
    %s = nv_tileas.addf %r#1, %r#2 : !row
    nv_tileaa.return
  }

  // A thread has the registers.
  // CHECK-LABEL: @registers_left
  nv_tileaa.func @registers_left(%va: !view_a, %vb: !view_b) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %steps = arith.constant 8 : i32
    %none = arith.constant dense<0.0> : tensor<64x64xf32> as !tile_c
    %m0 = arith.constant dense<1.0> : tensor<64x1xf32> as !row
    // CHECK-NOT: alloc_tensor
    %loaded_a, %ta = nv_tileas.tiled_load %va[%zero, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_a, (i32, i32) -> tensor<64x16xf16, #la>, !nv_tileaa.mem_token
    %a = nv_tileas.convert_layout %loaded_a : tensor<64x16xf16, #la> -> tensor<64x16xf16, #a>
    %r:3 = scf.for %i = %zero to %steps step %one iter_args(%acc = %none, %m = %m0, %w = %m0) -> (!tile_c, !row, !row) : i32 {
      %loaded_b, %tb = nv_tileas.tiled_load %vb[%i, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_b, (i32, i32) -> tensor<16x64xf16, #lb>, !nv_tileaa.mem_token
      %b = nv_tileas.convert_layout %loaded_b : tensor<16x64xf16, #lb> -> tensor<16x64xf16, #b>
      %half = nv_tileas.mulf %w, %m0 : !row
      %next = nv_tileas.dot %a, %b, %acc {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">} : tensor<64x16xf16, #a>, tensor<16x64xf16, #b> -> !tile_c
      %mn = nv_tileas.addf %m, %m0 : !row
      %wn = nv_tileas.addf %w, %half : !row
      scf.yield %next, %mn, %wn : !tile_c, !row, !row
    } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>, nv_tileas.short_of_registers}
    %s = nv_tileas.addf %r#1, %r#2 : !row
    nv_tileaa.return
  }

  // The loop is not marked.
  // CHECK-LABEL: @unmarked
  nv_tileaa.func @unmarked(%va: !view_a, %vb: !view_b) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1, occupancy = 13>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %steps = arith.constant 8 : i32
    %none = arith.constant dense<0.0> : tensor<64x64xf32> as !tile_c
    %m0 = arith.constant dense<1.0> : tensor<64x1xf32> as !row
    // CHECK-NOT: alloc_tensor
    %loaded_a, %ta = nv_tileas.tiled_load %va[%zero, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_a, (i32, i32) -> tensor<64x16xf16, #la>, !nv_tileaa.mem_token
    %a = nv_tileas.convert_layout %loaded_a : tensor<64x16xf16, #la> -> tensor<64x16xf16, #a>
    %r:3 = scf.for %i = %zero to %steps step %one iter_args(%acc = %none, %m = %m0, %w = %m0) -> (!tile_c, !row, !row) : i32 {
      %loaded_b, %tb = nv_tileas.tiled_load %vb[%i, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_b, (i32, i32) -> tensor<16x64xf16, #lb>, !nv_tileaa.mem_token
      %b = nv_tileas.convert_layout %loaded_b : tensor<16x64xf16, #lb> -> tensor<16x64xf16, #b>
      %half = nv_tileas.mulf %w, %m0 : !row
      %next = nv_tileas.dot %a, %b, %acc {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">} : tensor<64x16xf16, #a>, tensor<16x64xf16, #b> -> !tile_c
      %mn = nv_tileas.addf %m, %m0 : !row
      %wn = nv_tileas.addf %w, %half : !row
      scf.yield %next, %mn, %wn : !tile_c, !row, !row
    } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>}
    %s = nv_tileas.addf %r#1, %r#2 : !row
    nv_tileaa.return
  }
}

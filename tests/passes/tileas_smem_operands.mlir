// RUN: tileiras-opt %s --tileas-smem-operands --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %s --tileas-smem-operands=where=in-loops --verify-roundtrip | FileCheck %s --check-prefix=LOOPS
// RUN: tileiras-opt %s --tileas-smem-operands=where=outside-loops --verify-roundtrip | FileCheck %s --check-prefix=OUTSIDE

// Dot operands go straight to a buffer of one stage, and each dot reads them from there: those that a loop does not
// change where its tiles exceed the registers, those of loads that found no room to run ahead, and those outside of loops
// that would be in registers as a whole before their dot begins.

#la = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [16, 0], [32, 0]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = []>
#lb = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [4, 0], [8, 0]], lane = [[0, 8], [0, 16], [0, 32], [1, 0], [2, 0]], warp = []>
#a = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [16, 0], [32, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
#b = #nv_tileas.linear<register = [[1, 0], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = []>
#c = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [16, 0], [32, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
!view_a = !nv_tileaa.tiled_view<[64, 16], !nv_tileaa.memref<64x16xf16, strides = [16, 1]>>
!view_b = !nv_tileaa.tiled_view<[16, 64], !nv_tileaa.memref<128x64xf16, strides = [64, 1]>>
!tile_c = tensor<64x64xf32, #c>

module {
  // CHECK-LABEL: @invariant
  nv_tileaa.func @invariant(%va: !view_a, %vb: !view_b) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1, occupancy = 13>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %steps = arith.constant 8 : i32
    %none = arith.constant dense<0.0> : tensor<64x64xf32> as !tile_c
    // CHECK: nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<64x16xf16
    // CHECK-NEXT: arith.constant 0
    // CHECK-NEXT: async.tiled_load
    // CHECK-NEXT: async.commit_group
    // CHECK-NEXT: async.wait {pending = 0 : i32}
    // CHECK-NOT: alloc_tensor
    %loaded_a, %ta = nv_tileas.tiled_load %va[%zero, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_a, (i32, i32) -> tensor<64x16xf16, #la>, !nv_tileaa.mem_token
    %a = nv_tileas.convert_layout %loaded_a : tensor<64x16xf16, #la> -> tensor<64x16xf16, #a>
    %r = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (!tile_c) : i32 {
      %loaded_b, %tb = nv_tileas.tiled_load %vb[%i, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_b, (i32, i32) -> tensor<16x64xf16, #lb>, !nv_tileaa.mem_token
      %b = nv_tileas.convert_layout %loaded_b : tensor<16x64xf16, #lb> -> tensor<16x64xf16, #b>
      // CHECK: scf.for
      // CHECK: tiled_load
      // CHECK-NEXT: convert_layout
      // CHECK-NEXT: nv_tileas.copy
      // CHECK-NEXT: nv_tileas.dot
      %next = nv_tileas.dot %a, %b, %acc {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">} : tensor<64x16xf16, #a>, tensor<16x64xf16, #b> -> !tile_c
      scf.yield %next : !tile_c
    } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>}
    // CHECK: dealloc_tensor
    nv_tileaa.return
  }

  // CHECK-LABEL: @registers_left
  nv_tileaa.func @registers_left(%va: !view_a, %vb: !view_b) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %steps = arith.constant 8 : i32
    %none = arith.constant dense<0.0> : tensor<64x64xf32> as !tile_c
    // CHECK-NOT: alloc_tensor
    %loaded_a, %ta = nv_tileas.tiled_load %va[%zero, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_a, (i32, i32) -> tensor<64x16xf16, #la>, !nv_tileaa.mem_token
    %a = nv_tileas.convert_layout %loaded_a : tensor<64x16xf16, #la> -> tensor<64x16xf16, #a>
    %r = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (!tile_c) : i32 {
      %loaded_b, %tb = nv_tileas.tiled_load %vb[%i, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_b, (i32, i32) -> tensor<16x64xf16, #lb>, !nv_tileaa.mem_token
      %b = nv_tileas.convert_layout %loaded_b : tensor<16x64xf16, #lb> -> tensor<16x64xf16, #b>
      %next = nv_tileas.dot %a, %b, %acc {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">} : tensor<64x16xf16, #a>, tensor<16x64xf16, #b> -> !tile_c
      scf.yield %next : !tile_c
    } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>}
    nv_tileaa.return
  }

  // LOOPS-LABEL: @invariant
  // LOOPS-NOT: alloc_tensor
  // LOOPS-LABEL: @no_room
  nv_tileaa.func @no_room(%va: !view_a, %vb: !view_b) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %steps = arith.constant 8 : i32
    %none = arith.constant dense<0.0> : tensor<64x64xf32> as !tile_c
    // LOOPS: scf.for
    %loaded_a, %ta = nv_tileas.tiled_load %va[%zero, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !view_a, (i32, i32) -> tensor<64x16xf16, #la>, !nv_tileaa.mem_token
    %a = nv_tileas.convert_layout %loaded_a : tensor<64x16xf16, #la> -> tensor<64x16xf16, #a>
    %r = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (!tile_c) : i32 {
      %loaded_b, %tb = nv_tileas.tiled_load %vb[%i, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>, nv_tileas.no_room} : !view_b, (i32, i32) -> tensor<16x64xf16, #lb>, !nv_tileaa.mem_token
      %b = nv_tileas.convert_layout %loaded_b : tensor<16x64xf16, #lb> -> tensor<16x64xf16, #b>
      // LOOPS-NEXT: nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<16x64xf16
      // LOOPS-NEXT: arith.constant 0
      // LOOPS-NEXT: async.tiled_load
      // LOOPS-NEXT: async.commit_group
      // LOOPS-NEXT: async.wait {pending = 0 : i32}
      // LOOPS-NEXT: nv_tileas.copy
      // LOOPS-NEXT: nv_tileas.dot
      // LOOPS-NEXT: nv_tileas.dealloc_tensor
      %next = nv_tileas.dot %a, %b, %acc {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">} : tensor<64x16xf16, #a>, tensor<16x64xf16, #b> -> !tile_c
      scf.yield %next : !tile_c
    } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>}
    // LOOPS-NOT: no_room
    nv_tileaa.return
  }

  // OUTSIDE-LABEL: @no_room
  // OUTSIDE-NOT: alloc_tensor
  // OUTSIDE-LABEL: @whole
  nv_tileaa.func @whole(%v: !nv_tileaa.tiled_view<[256, 128], !nv_tileaa.memref<256x128xf16, strides = [128, 1]>>, %a: tensor<64x256xf16, #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [0, 64], [0, 128], [32, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [0, 0]]>>, %c: tensor<64x128xf32, #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 16], [0, 32], [0, 64], [32, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [0, 8]]>>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    // OUTSIDE: nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<256x128xf16
    // OUTSIDE-NEXT: arith.constant 0
    // OUTSIDE-NEXT: async.tiled_load
    // OUTSIDE-NEXT: async.commit_group
    // OUTSIDE-NEXT: async.wait {pending = 0 : i32}
    // OUTSIDE-NEXT: nv_tileas.copy
    // OUTSIDE-NEXT: nv_tileas.dot
    // OUTSIDE-NEXT: dealloc_tensor
    %loaded, %t = nv_tileas.tiled_load %v[%zero, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !nv_tileaa.tiled_view<[256, 128], !nv_tileaa.memref<256x128xf16, strides = [128, 1]>>, (i32, i32) -> tensor<256x128xf16, #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [8, 0], [16, 0], [32, 0], [64, 0], [128, 0]], lane = [[0, 8], [0, 16], [0, 32], [0, 64], [1, 0]], warp = [[2, 0], [4, 0]]>>, !nv_tileaa.mem_token
    %b = nv_tileas.convert_layout %loaded : tensor<256x128xf16, #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [8, 0], [16, 0], [32, 0], [64, 0], [128, 0]], lane = [[0, 8], [0, 16], [0, 32], [0, 64], [1, 0]], warp = [[2, 0], [4, 0]]>> -> tensor<256x128xf16, #nv_tileas.linear<register = [[1, 0], [8, 0], [0, 16], [0, 32], [0, 64], [16, 0], [32, 0], [64, 0], [128, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = [[0, 0], [0, 8]]>>
    %d = nv_tileas.dot %a, %b, %c {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">} : tensor<64x256xf16, #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [0, 64], [0, 128], [32, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [0, 0]]>>, tensor<256x128xf16, #nv_tileas.linear<register = [[1, 0], [8, 0], [0, 16], [0, 32], [0, 64], [16, 0], [32, 0], [64, 0], [128, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = [[0, 0], [0, 8]]>> -> tensor<64x128xf32, #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 16], [0, 32], [0, 64], [32, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [0, 8]]>>
    nv_tileaa.return
  }

  // A conversion within what scratch has is read a step at a time.
  // OUTSIDE-LABEL: @in_steps
  nv_tileaa.func @in_steps(%v: !nv_tileaa.tiled_view<[128, 128], !nv_tileaa.memref<128x128xf16, strides = [128, 1]>>, %a: tensor<64x128xf16, #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [0, 64], [32, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [0, 0]]>>, %c: tensor<64x128xf32, #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 16], [0, 32], [0, 64], [32, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [0, 8]]>>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    // OUTSIDE: nv_tileas.tiled_load
    // OUTSIDE-NEXT: convert_layout
    // OUTSIDE-NEXT: nv_tileas.dot
    %loaded, %t = nv_tileas.tiled_load %v[%zero, %zero] {atom = #nv_tileas.copy_atom<ld_global, 8>} : !nv_tileaa.tiled_view<[128, 128], !nv_tileaa.memref<128x128xf16, strides = [128, 1]>>, (i32, i32) -> tensor<128x128xf16, #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [8, 0], [16, 0], [32, 0], [64, 0]], lane = [[0, 8], [0, 16], [0, 32], [0, 64], [1, 0]], warp = [[2, 0], [4, 0]]>>, !nv_tileaa.mem_token
    %b = nv_tileas.convert_layout %loaded : tensor<128x128xf16, #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [8, 0], [16, 0], [32, 0], [64, 0]], lane = [[0, 8], [0, 16], [0, 32], [0, 64], [1, 0]], warp = [[2, 0], [4, 0]]>> -> tensor<128x128xf16, #nv_tileas.linear<register = [[1, 0], [8, 0], [0, 16], [0, 32], [0, 64], [16, 0], [32, 0], [64, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = [[0, 0], [0, 8]]>>
    %d = nv_tileas.dot %a, %b, %c {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">} : tensor<64x128xf16, #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [0, 64], [32, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [0, 0]]>>, tensor<128x128xf16, #nv_tileas.linear<register = [[1, 0], [8, 0], [0, 16], [0, 32], [0, 64], [16, 0], [32, 0], [64, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = [[0, 0], [0, 8]]>> -> tensor<64x128xf32, #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 16], [0, 32], [0, 64], [32, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [0, 8]]>>
    nv_tileaa.return
  }
}

// RUN: tileiras-opt %s --tileas-hoist-loads --verify-roundtrip | FileCheck %s

// Loads are issued before operations with barriers or branches that do not provide their addresses.

#own = #nv_tileas.linear<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]]>
#row = #nv_tileas.linear<register = [[0, 1], [0, 2]], lane = [[0, 4], [0, 8], [0, 16], [0, 32], [0, 64]], warp = [[0, 128], [0, 256]]>
#sum = #nv_tileas.linear<register = [], lane = [[0], [0], [0], [0], [0]], warp = [[0], [0]]>
#long = #nv_tileas.linear<register = [[1], [2], [512], [1024], [2048], [4096]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]]>
!view = !nv_tileaa.tiled_view<[512], !nv_tileaa.memref<512xf32, strides = [1]>>
!tile = tensor<512xf32, #own>
!rows = !nv_tileaa.tiled_view<[1, 512], !nv_tileaa.memref<4x512xf32, strides = [512, 1]>>
!wide = !nv_tileaa.tiled_view<[8192], !nv_tileaa.memref<65536xf32, strides = [1]>>
!many = tensor<8192xf32, #long>

module {
  // The number of the tile moves with its load.
  // CHECK-LABEL: @before_a_function
  // CHECK: tiled_load
  // CHECK-NEXT: arith.constant
  // CHECK-NEXT: arith.addi
  // CHECK-NEXT: tiled_load
  // CHECK-NEXT: math.sin
  // CHECK-NEXT: mulf
  nv_tileaa.func @before_a_function(%view: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %n = nv_tileas.get_program_id x : i32
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %x, %tx = nv_tileas.tiled_load %view[%n] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %s = math.sin %x : !tile
    %one = arith.constant 1 : i32
    %next = arith.addi %n, %one : i32
    %w, %tw = nv_tileas.tiled_load %view[%next] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %y = nv_tileas.mulf %s, %w : !tile
    %u = nv_tileas.tiled_store %y, %view[%n] token = %t {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // CHECK-LABEL: @before_a_reduction
  // CHECK: tiled_load %arg0
  // CHECK-NEXT: tiled_load %arg1
  // CHECK-NEXT: reduce
  nv_tileaa.func @before_a_reduction(%rows: !rows, %view: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %n = nv_tileas.get_program_id x : i32
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %z = arith.constant 0 : i32
    %x, %tx = nv_tileas.tiled_load %rows[%n, %z] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !rows, (i32, i32) -> tensor<1x512xf32, #row>, !nv_tileaa.mem_token
    %s = nv_tileas.reduce %x {dim = 1 : i64, identities = [0.000000e+00 : f32]} : (tensor<1x512xf32, #row>) -> (tensor<1xf32, #sum>) {
    ^bb0(%a: f32, %b: f32):
      %c = nv_tileas.addf %a, %b : f32
      nv_tileas.yield %c : f32
    }
    %w, %tw = nv_tileas.tiled_load %view[%n] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %u = nv_tileas.tiled_store %w, %view[%n] token = %t {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // A store may write what the load reads.
  // CHECK-LABEL: @after_a_store
  // CHECK: math.sin
  // CHECK: tiled_store
  // CHECK-NEXT: tiled_load
  nv_tileaa.func @after_a_store(%view: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %n = nv_tileas.get_program_id x : i32
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %x, %tx = nv_tileas.tiled_load %view[%n] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %s = math.sin %x : !tile
    %r = nv_tileas.tiled_store %s, %view[%n] token = %t {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    %w, %tw = nv_tileas.tiled_load %view[%n] token = %r {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %y = nv_tileas.mulf %s, %w : !tile
    %u = nv_tileas.tiled_store %y, %view[%n] token = %t {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Two tiles of 64 registers of a thread leave an SM fewer warps.
  // CHECK-LABEL: @without_registers
  // CHECK: tiled_load
  // CHECK-NEXT: math.sin
  // CHECK-NEXT: tiled_load
  nv_tileaa.func @without_registers(%wide: !wide) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %n = nv_tileas.get_program_id x : i32
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %x, %tx = nv_tileas.tiled_load %wide[%n] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !wide, (i32) -> !many, !nv_tileaa.mem_token
    %s = math.sin %x : !many
    %w, %tw = nv_tileas.tiled_load %wide[%n] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !wide, (i32) -> !many, !nv_tileaa.mem_token
    %y = nv_tileas.mulf %s, %w : !many
    %u = nv_tileas.tiled_store %y, %wide[%n] token = %t {atom = #nv_tileas.copy_atom<st_global, 4>} : !many, !wide, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // All tile blocks load this tile.
  // CHECK-LABEL: @of_all_blocks
  // CHECK: tiled_load
  // CHECK-NEXT: math.sin
  // CHECK: tiled_load
  nv_tileaa.func @of_all_blocks(%view: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %n = nv_tileas.get_program_id x : i32
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %x, %tx = nv_tileas.tiled_load %view[%n] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %s = math.sin %x : !tile
    %zero = arith.constant 0 : i32
    %w, %tw = nv_tileas.tiled_load %view[%zero] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %y = nv_tileas.mulf %s, %w : !tile
    %u = nv_tileas.tiled_store %y, %view[%n] token = %t {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

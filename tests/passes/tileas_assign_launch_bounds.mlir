// RUN: tileiras-opt %s --tileas-assign-launch-bounds --verify-roundtrip | FileCheck %s

// One CTA of an SM is enough where tiles take all registers of a thread; how many is open elsewhere.

// 128 registers of a thread.
#own = #nv_tileas.linear<register = [[1], [2], [128], [256], [512], [1024], [2048]], lane = [[4], [8], [16], [32], [64]], warp = []>
!view = !nv_tileaa.tiled_view<[4096], !nv_tileaa.memref<4096xf32, strides = [1]>>
!tile = tensor<4096xf32, #own>

module {
  // CHECK: @two_tiles({{.*}} nv_tileas.min_ctas = 1 : i32
  nv_tileaa.func @two_tiles(%v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %x0, %t0 = nv_tileas.tiled_load %v[%zero] {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %x1, %t1 = nv_tileas.tiled_load %v[%zero] {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %u0 = nv_tileas.tiled_store %x0, %v[%zero] {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    %u1 = nv_tileas.tiled_store %x1, %v[%zero] {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // CHECK: @one_tile(
  // CHECK-NOT: min_ctas
  nv_tileaa.func @one_tile(%v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %x0, %t0 = nv_tileas.tiled_load %v[%zero] {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %u0 = nv_tileas.tiled_store %x0, %v[%zero] {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // The kernel itself asks for a number.
  // CHECK: @asks_for_two(
  // CHECK-NOT: min_ctas
  nv_tileaa.func @asks_for_two(%v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1, occupancy = 2>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %x0, %t0 = nv_tileas.tiled_load %v[%zero] {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %x1, %t1 = nv_tileas.tiled_load %v[%zero] {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %u0 = nv_tileas.tiled_store %x0, %v[%zero] {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    %u1 = nv_tileas.tiled_store %x1, %v[%zero] {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

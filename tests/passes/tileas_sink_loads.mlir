// RUN: tileiras-opt %s --tileas-sink-loads --verify-roundtrip | FileCheck %s

// Loads outside of loops move down to the first use of their tiles where a thread lacks the registers to wait.

// 32 registers of a thread: three take 96, where 16 CTAs of an SM leave 128, less 40 beside tiles.
#own = #nv_tileas.linear<register = [[1], [2], [128], [256], [512]], lane = [[4], [8], [16], [32], [64]], warp = []>
!view = !nv_tileaa.tiled_view<[1024], !nv_tileaa.memref<1024xf32, strides = [1]>>
!tile = tensor<1024xf32, #own>

module {
  // CHECK-LABEL: @sinks
  // CHECK: tiled_load
  // CHECK-NEXT: mulf
  // CHECK-NEXT: tiled_load
  // CHECK-NEXT: addf
  // CHECK-NEXT: tiled_load
  // CHECK-NEXT: addf
  // CHECK-NEXT: tiled_store
  nv_tileaa.func @sinks(%v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1, occupancy = 16>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %x, %tx = nv_tileas.tiled_load %v[%zero] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %y, %ty = nv_tileas.tiled_load %v[%zero] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %z, %tz = nv_tileas.tiled_load %v[%zero] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %e = nv_tileas.mulf %x, %x : !tile
    %s = nv_tileas.addf %e, %y : !tile
    %r = nv_tileas.addf %s, %z : !tile
    %w = nv_tileas.tiled_store %r, %v[%zero] token = %t {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // None moves behind what may write.
  // CHECK-LABEL: @stops_at_a_store
  // CHECK: tiled_load
  // CHECK-NEXT: mulf
  // CHECK-NEXT: tiled_load
  // CHECK-NEXT: tiled_load
  // CHECK-NEXT: tiled_store
  // CHECK-NEXT: addf
  // CHECK-NEXT: addf
  nv_tileaa.func @stops_at_a_store(%v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1, occupancy = 16>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %x, %tx = nv_tileas.tiled_load %v[%zero] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %y, %ty = nv_tileas.tiled_load %v[%zero] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %z, %tz = nv_tileas.tiled_load %v[%zero] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %e = nv_tileas.mulf %x, %x : !tile
    %u = nv_tileas.tiled_store %e, %v[%zero] token = %t {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    %s = nv_tileas.addf %e, %y : !tile
    %r = nv_tileas.addf %s, %z : !tile
    %w = nv_tileas.tiled_store %r, %v[%zero] token = %t {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Registers are left.
  // CHECK-LABEL: @stays
  // CHECK: tiled_load
  // CHECK-NEXT: tiled_load
  // CHECK-NEXT: tiled_load
  // CHECK-NEXT: mulf
  // CHECK-NEXT: addf
  // CHECK-NEXT: addf
  // CHECK-NEXT: tiled_store
  nv_tileaa.func @stays(%v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %x, %tx = nv_tileas.tiled_load %v[%zero] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %y, %ty = nv_tileas.tiled_load %v[%zero] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %z, %tz = nv_tileas.tiled_load %v[%zero] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %e = nv_tileas.mulf %x, %x : !tile
    %s = nv_tileas.addf %e, %y : !tile
    %r = nv_tileas.addf %s, %z : !tile
    %w = nv_tileas.tiled_store %r, %v[%zero] token = %t {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

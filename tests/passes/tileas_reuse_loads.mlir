// RUN: tileiras-opt %s --tileas-reuse-loads --verify-roundtrip | FileCheck %s

// Elements that a thread has of a load through pointers are not loaded again, nor is a tile.

#own = #nv_tileas.linear<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = []>
#single = #nv_tileas.linear<register = [[32], [64]], lane = [[1], [2], [4], [8], [16]], warp = []>
#many = #nv_tileas.linear<register = [[1], [2], [128], [256], [512], [1024], [2048], [4096]], lane = [[4], [8], [16], [32], [64]], warp = []>
!p = !nv_tileaa.ptr<f32>
!ps = tensor<128x!p, #own>
!is = tensor<128xi64, #own>
!tile = tensor<128xf32, #own>
!large = tensor<8192xf32, #many>

module {
  // CHECK-LABEL: @one_back
  // CHECK: %[[A:.*]], %{{.*}} = nv_tileas.load
  // CHECK: %[[R:.*]], %{{.*}} = nv_tileas.load
  // CHECK-NEXT: %[[B:.*]] = nv_tileas.shifted %[[A]], %[[R]] {by = -1 : i64, dim = 0 : i64}
  // CHECK-NEXT: nv_tileas.addf %[[A]], %[[B]]
  nv_tileaa.func @one_back(%x: !p) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %i = nv_tileas.make_range : !is
    %one = arith.constant dense<1> : tensor<128xi64> as !is
    %j = arith.subi %i, %one : !is
    %all = nv_tileas.splat %x : !p -> !ps
    %pa = nv_tileas.addptr %all, %i : !ps, !is
    %pb = nv_tileas.addptr %all, %j : !ps, !is
    %a, %ta = nv_tileas.load %pa token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !ps -> !tile, !nv_tileaa.mem_token
    %b, %tb = nv_tileas.load %pb token = %t {atom = #nv_tileas.copy_atom<ld_global, 1>} : !ps -> !tile, !nv_tileaa.mem_token
    %s = nv_tileas.addf %a, %b : !tile
    %w = nv_tileas.store %pa, %s token = %t {atom = #nv_tileas.copy_atom<st_global, 4>} : !ps, !tile -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Another token: something may be written between the two.
  // CHECK-LABEL: @another_token
  // CHECK-NOT: shifted
  nv_tileaa.func @another_token(%x: !p) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %i = nv_tileas.make_range : !is
    %one = arith.constant dense<1> : tensor<128xi64> as !is
    %all = nv_tileas.splat %x : !p -> !ps
    %pa = nv_tileas.addptr %all, %i : !ps, !is
    %pb = nv_tileas.addptr %pa, %one : !ps, !is
    %a, %ta = nv_tileas.load %pa token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !ps -> !tile, !nv_tileaa.mem_token
    %b, %tb = nv_tileas.load %pb token = %ta {atom = #nv_tileas.copy_atom<ld_global, 1>} : !ps -> !tile, !nv_tileaa.mem_token
    %s = nv_tileas.addf %a, %b : !tile
    %w = nv_tileas.store %pa, %s token = %tb {atom = #nv_tileas.copy_atom<st_global, 4>} : !ps, !tile -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Two elements further on: what is added to a pointer, and accesses of two elements.
  // CHECK-LABEL: @two_on
  // CHECK: nv_tileas.shifted {{.*}}by = 2
  nv_tileaa.func @two_on(%x: !p) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %i = nv_tileas.make_range : !is
    %two = arith.constant dense<2> : tensor<128xi64> as !is
    %all = nv_tileas.splat %x : !p -> !ps
    %pa = nv_tileas.addptr %all, %i : !ps, !is
    %pb = nv_tileas.addptr %pa, %two : !ps, !is
    %a, %ta = nv_tileas.load %pa token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !ps -> !tile, !nv_tileaa.mem_token
    %b, %tb = nv_tileas.load %pb token = %t {atom = #nv_tileas.copy_atom<ld_global, 2>} : !ps -> !tile, !nv_tileaa.mem_token
    %s = nv_tileas.addf %a, %b : !tile
    %w = nv_tileas.store %pa, %s token = %t {atom = #nv_tileas.copy_atom<st_global, 4>} : !ps, !tile -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Neighbours are in other lanes.
  // CHECK-LABEL: @other_lanes
  // CHECK-NOT: shifted
  nv_tileaa.func @other_lanes(%x: !p) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %i = nv_tileas.make_range : tensor<128xi64, #single>
    %one = arith.constant dense<1> : tensor<128xi64> as tensor<128xi64, #single>
    %all = nv_tileas.splat %x : !p -> tensor<128x!p, #single>
    %pa = nv_tileas.addptr %all, %i : tensor<128x!p, #single>, tensor<128xi64, #single>
    %pb = nv_tileas.addptr %pa, %one : tensor<128x!p, #single>, tensor<128xi64, #single>
    %a, %ta = nv_tileas.load %pa token = %t {atom = #nv_tileas.copy_atom<ld_global, 1>} : tensor<128x!p, #single> -> tensor<128xf32, #single>, !nv_tileaa.mem_token
    %b, %tb = nv_tileas.load %pb token = %t {atom = #nv_tileas.copy_atom<ld_global, 1>} : tensor<128x!p, #single> -> tensor<128xf32, #single>, !nv_tileaa.mem_token
    %s = nv_tileas.addf %a, %b : tensor<128xf32, #single>
    %w = nv_tileas.store %pa, %s token = %t {atom = #nv_tileas.copy_atom<st_global, 1>} : tensor<128x!p, #single>, tensor<128xf32, #single> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // The same through pointers, and of a view: what comes behind the second load comes behind the first.
  // CHECK-LABEL: @the_same
  // CHECK: %[[A:.*]], %[[TA:.*]] = nv_tileas.load
  // CHECK-NEXT: %[[B:.*]], %[[TB:.*]] = nv_tileas.tiled_load
  // CHECK-NOT: nv_tileas.tiled_load
  // CHECK-NOT: nv_tileas.load
  // CHECK: nv_tileas.addf %[[A]], %[[A]]
  // CHECK: nv_tileas.mulf %[[B]], %[[B]]
  // CHECK: nv_tileas.store {{.*}} token = %[[TA]]
  // CHECK: nv_tileas.store {{.*}} token = %[[TB]]
  nv_tileaa.func @the_same(%x: !p, %i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %r = nv_tileas.make_range : !is
    %all = nv_tileas.splat %x : !p -> !ps
    %p = nv_tileas.addptr %all, %r : !ps, !is
    %m = nv_tileas.make_memref %x, sizes = [], strides = [] : !p, (), () -> !nv_tileaa.memref<4096xf32, strides = [1]>
    %v = nv_tileas.block_tile %m : !nv_tileaa.tiled_view<[128], !nv_tileaa.memref<4096xf32, strides = [1]>>
    %a, %ta = nv_tileas.load %p token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !ps -> !tile, !nv_tileaa.mem_token
    %b, %tb = nv_tileas.tiled_load %v[%i] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !nv_tileaa.tiled_view<[128], !nv_tileaa.memref<4096xf32, strides = [1]>>, (i32) -> !tile, !nv_tileaa.mem_token
    %c, %tc = nv_tileas.load %p token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !ps -> !tile, !nv_tileaa.mem_token
    %d, %td = nv_tileas.tiled_load %v[%i] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !nv_tileaa.tiled_view<[128], !nv_tileaa.memref<4096xf32, strides = [1]>>, (i32) -> !tile, !nv_tileaa.mem_token
    %s = nv_tileas.addf %a, %c : !tile
    %q = nv_tileas.mulf %b, %d : !tile
    %w = nv_tileas.store %p, %s token = %tc {atom = #nv_tileas.copy_atom<st_global, 4>} : !ps, !tile -> !nv_tileaa.mem_token
    %y = nv_tileas.store %p, %q token = %td {atom = #nv_tileas.copy_atom<st_global, 4>} : !ps, !tile -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Another tile, another token, and one that other threads may write to meanwhile: all are loaded.
  // CHECK-LABEL: @not_the_same
  // CHECK-COUNT-5: nv_tileas.tiled_load
  nv_tileaa.func @not_the_same(%x: !p, %i: i32, %j: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %m = nv_tileas.make_memref %x, sizes = [], strides = [] : !p, (), () -> !nv_tileaa.memref<4096xf32, strides = [1]>
    %v = nv_tileas.block_tile %m : !nv_tileaa.tiled_view<[128], !nv_tileaa.memref<4096xf32, strides = [1]>>
    %a, %ta = nv_tileas.tiled_load %v[%i] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !nv_tileaa.tiled_view<[128], !nv_tileaa.memref<4096xf32, strides = [1]>>, (i32) -> !tile, !nv_tileaa.mem_token
    %b, %tb = nv_tileas.tiled_load %v[%j] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !nv_tileaa.tiled_view<[128], !nv_tileaa.memref<4096xf32, strides = [1]>>, (i32) -> !tile, !nv_tileaa.mem_token
    %c, %tc = nv_tileas.tiled_load %v[%i] token = %tb {atom = #nv_tileas.copy_atom<ld_global, 4>} : !nv_tileaa.tiled_view<[128], !nv_tileaa.memref<4096xf32, strides = [1]>>, (i32) -> !tile, !nv_tileaa.mem_token
    %d, %td = nv_tileas.tiled_load %v[%j] token = %tc {atom = #nv_tileas.copy_atom<ld_global, 4>, mem_scope = #nv_tileaa.mem_scope<gpu>, mem_semantic = #nv_tileaa.mem_semantic<relaxed>} : !nv_tileaa.tiled_view<[128], !nv_tileaa.memref<4096xf32, strides = [1]>>, (i32) -> !tile, !nv_tileaa.mem_token
    %e, %te = nv_tileas.tiled_load %v[%j] token = %tc {atom = #nv_tileas.copy_atom<ld_global, 4>, mem_scope = #nv_tileaa.mem_scope<gpu>, mem_semantic = #nv_tileaa.mem_semantic<relaxed>} : !nv_tileaa.tiled_view<[128], !nv_tileaa.memref<4096xf32, strides = [1]>>, (i32) -> !tile, !nv_tileaa.mem_token
    %s = nv_tileas.addf %a, %b : !tile
    %q = nv_tileas.addf %c, %d : !tile
    %u = nv_tileas.addf %s, %q : !tile
    %z = nv_tileas.addf %u, %e : !tile
    %w = nv_tileas.tiled_store %z, %v[%i] token = %te {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !nv_tileaa.tiled_view<[128], !nv_tileaa.memref<4096xf32, strides = [1]>>, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // 256 registers: a thread cannot keep the tile.
  // CHECK-LABEL: @no_room
  // CHECK-COUNT-2: nv_tileas.tiled_load
  nv_tileaa.func @no_room(%x: !p, %i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %m = nv_tileas.make_memref %x, sizes = [], strides = [] : !p, (), () -> !nv_tileaa.memref<32768xf32, strides = [1]>
    %v = nv_tileas.block_tile %m : !nv_tileaa.tiled_view<[8192], !nv_tileaa.memref<32768xf32, strides = [1]>>
    %a, %ta = nv_tileas.tiled_load %v[%i] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !nv_tileaa.tiled_view<[8192], !nv_tileaa.memref<32768xf32, strides = [1]>>, (i32) -> !large, !nv_tileaa.mem_token
    %b, %tb = nv_tileas.tiled_load %v[%i] token = %t {atom = #nv_tileas.copy_atom<ld_global, 4>} : !nv_tileaa.tiled_view<[8192], !nv_tileaa.memref<32768xf32, strides = [1]>>, (i32) -> !large, !nv_tileaa.mem_token
    %s = nv_tileas.addf %a, %b : !large
    %w = nv_tileas.tiled_store %s, %v[%i] token = %tb {atom = #nv_tileas.copy_atom<st_global, 4>} : !large, !nv_tileaa.tiled_view<[8192], !nv_tileaa.memref<32768xf32, strides = [1]>>, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

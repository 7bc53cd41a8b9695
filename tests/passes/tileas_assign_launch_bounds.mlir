// RUN: tileiras-opt %s --tileas-optimize-alloc-tensor --tileas-insert-barriers --tileas-assign-launch-bounds --verify-roundtrip | FileCheck %s

// One CTA of an SM is enough where tiles take all registers of a thread, or where a second one finds no shared memory;
// how many is open elsewhere.

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
  // CHECK: @asks_for_two({{.*}} nv_tileas.min_ctas = 2 : i32
  nv_tileaa.func @asks_for_two(%v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1, occupancy = 2>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %x0, %t0 = nv_tileas.tiled_load %v[%zero] {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %x1, %t1 = nv_tileas.tiled_load %v[%zero] {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32) -> !tile, !nv_tileaa.mem_token
    %u0 = nv_tileas.tiled_store %x0, %v[%zero] {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    %u1 = nv_tileas.tiled_store %x1, %v[%zero] {atom = #nv_tileas.copy_atom<st_global, 4>} : !tile, !view, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // A second CTA would find no shared memory.
  // CHECK: @large_buffer({{.*}} nv_tileas.block_warps = 1 : i32, nv_tileas.cluster_ctas = 1 : i32, nv_tileas.min_ctas = 1 : i32{{.*}} nv_tileas.shared_memory = 131072 : i32
  nv_tileaa.func @large_buffer() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<8, tensor<4096xf32, #own>>
    nv_tileas.dealloc_tensor %b : !nv_tileas.buffer<8, tensor<4096xf32, #own>>
    nv_tileaa.return
  }

  // Nor would a third one here, whatever the kernel asks for.
  // CHECK: @asks_for_four({{.*}} nv_tileas.min_ctas = 2 : i32{{.*}} nv_tileas.shared_memory = 81920 : i32
  nv_tileaa.func @asks_for_four() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1, occupancy = 4>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<5, tensor<4096xf32, #own>>
    nv_tileas.dealloc_tensor %b : !nv_tileas.buffer<5, tensor<4096xf32, #own>>
    nv_tileaa.return
  }

  // A cluster whose CTAs have not shared out the work leaves it to the first one.
  // CHECK: @cluster({{.*}} nv_tileas.cluster_ctas = 2 : i32, nv_tileas.first_cta,
  nv_tileaa.func @cluster() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 2>, target_spec = "sm_90"} {
    nv_tileaa.return
  }

  // CHECK: @shared_out({{.*}} nv_tileas.cluster_ctas = 2 : i32
  // CHECK-NOT: first_cta
  nv_tileaa.func @shared_out() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 2>, target_spec = "sm_90"} {
    %rank = nv_tileas.get_cta_rank : i32
    nv_tileaa.return
  }
}

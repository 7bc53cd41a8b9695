// Loads of f32 that maps can serve round to tf32 where the program does and dots alone want them; others are left alone.
// RUN: tileiras-opt %s --tileas-round-in-boxes="compute-capability=sm_100 tensor-maps=host" --verify-roundtrip | FileCheck %s

!memref = !nv_tileaa.memref<1024x1024xf32, strides = [1024, 1]>
!view = !nv_tileaa.tiled_view<[64, 64], !memref>
!token = !nv_tileaa.mem_token
!tile = tensor<64x64xf32>
!round = tensor<64x64xtf32>

module attributes {nv_tileaa.compute_capability = 100 : i32} {
  // CHECK-LABEL: @rounded
  // CHECK: scf.for
  // CHECK: %[[A:.*]], %{{.*}} = nv_tileas.tiled_load {{.*}} -> tensor<64x64xtf32>
  // CHECK: %[[B:.*]], %{{.*}} = nv_tileas.tiled_load {{.*}} -> tensor<64x64xtf32>
  // CHECK: %[[T:.*]] = nv_tileas.permute %[[B]] {{.*}} -> tensor<64x64xtf32>
  // CHECK-NOT: fp_to_fp
  // CHECK: nv_tileas.dot %[[A]], %[[T]],
  nv_tileaa.func @rounded(%p: !nv_tileaa.ptr<f32>, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %q = nv_tileas.assume #nv_tileaa.div_by<16>, %p : !nv_tileaa.ptr<f32>
    %m = nv_tileas.make_memref %q, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !memref
    %v = nv_tileas.block_tile %m : !view
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant dense<0.0> : !tile
    %r = scf.for %i = %zero to %n step %one iter_args(%acc = %none) -> (!tile) : i32 {
      %a, %ta = nv_tileas.tiled_load %v[%zero, %i] : !view, (i32, i32) -> !tile, !token
      %b, %tb = nv_tileas.tiled_load %v[%zero, %i] : !view, (i32, i32) -> !tile, !token
      %t = nv_tileas.permute %b {permutation = array<i32: 1, 0>} : !tile -> !tile
      %x = nv_tileas.fp_to_fp %a : !tile to !round
      %y = nv_tileas.fp_to_fp %t : !tile to !round
      %s = nv_tileas.dot %x, %y, %acc : !round, !round -> !tile
      scf.yield %s : !tile
    }
    %done = nv_tileas.tiled_store %r, %v[%zero, %zero] : !tile, !view, (i32, i32) -> !token
    nv_tileaa.return
  }

  // Rounded otherwise, and used as it is as well.
  // CHECK-LABEL: @of_threads
  // CHECK-NOT: -> tensor<64x64xtf32>, !nv_tileaa.mem_token
  // CHECK: nv_tileas.dot
  // CHECK: nv_tileaa.return
  nv_tileaa.func @of_threads(%p: !nv_tileaa.ptr<f32>, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %q = nv_tileas.assume #nv_tileaa.div_by<16>, %p : !nv_tileaa.ptr<f32>
    %m = nv_tileas.make_memref %q, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !memref
    %v = nv_tileas.block_tile %m : !view
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant dense<0.0> : !tile
    %r = scf.for %i = %zero to %n step %one iter_args(%acc = %none) -> (!tile) : i32 {
      %a, %ta = nv_tileas.tiled_load %v[%zero, %i] : !view, (i32, i32) -> !tile, !token
      %b, %tb = nv_tileas.tiled_load %v[%i, %zero] : !view, (i32, i32) -> !tile, !token
      %x = nv_tileas.fp_to_fp %a {rounding_mode = #nv_tileaa.rounding_mode<zero>} : !tile to !round
      %y = nv_tileas.fp_to_fp %b : !tile to !round
      %s = nv_tileas.dot %x, %y, %acc : !round, !round -> !tile
      %more = nv_tileas.addf %s, %b : !tile
      scf.yield %more : !tile
    }
    %done = nv_tileas.tiled_store %r, %v[%zero, %zero] : !tile, !view, (i32, i32) -> !token
    nv_tileaa.return
  }

  // A loop's only iteration has nothing to run ahead of, and outside of loops nothing runs ahead.
  // CHECK-LABEL: @not_ahead
  // CHECK-NOT: -> tensor<64x64xtf32>, !nv_tileaa.mem_token
  // CHECK: nv_tileas.dot
  // CHECK: nv_tileaa.return
  nv_tileaa.func @not_ahead(%p: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %q = nv_tileas.assume #nv_tileaa.div_by<16>, %p : !nv_tileaa.ptr<f32>
    %m = nv_tileas.make_memref %q, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !memref
    %v = nv_tileas.block_tile %m : !view
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant dense<0.0> : !tile
    %a, %ta = nv_tileas.tiled_load %v[%zero, %zero] : !view, (i32, i32) -> !tile, !token
    %x = nv_tileas.fp_to_fp %a : !tile to !round
    %r = scf.for %i = %zero to %one step %one iter_args(%acc = %none) -> (!tile) : i32 {
      %b, %tb = nv_tileas.tiled_load %v[%i, %zero] : !view, (i32, i32) -> !tile, !token
      %y = nv_tileas.fp_to_fp %b : !tile to !round
      %s = nv_tileas.dot %x, %y, %acc : !round, !round -> !tile
      scf.yield %s : !tile
    }
    %done = nv_tileas.tiled_store %r, %v[%zero, %zero] : !tile, !view, (i32, i32) -> !token
    nv_tileaa.return
  }
}

// Dots of batches are loops over matrices where wgmma or tcgen05.mma multiplies these.
// RUN: tileiras-opt %s --tileas-slice-batches=compute-capability=sm_100 --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %s --tileas-slice-batches=compute-capability=sm_90 | FileCheck %s
// RUN: tileiras-opt %s --tileas-slice-batches=compute-capability=sm_120 | FileCheck %s --check-prefix=WARPS
// RUN: tileiras-opt %s "--tileas-slice-batches=compute-capability=sm_90 warpgroups=false" | FileCheck %s --check-prefix=WARPS

// WARPS-NOT: tensor<1x64

!memref = !nv_tileaa.memref<?x?x?xf16, strides = [?, ?, 1]>
!view = !nv_tileaa.tiled_view<[2, 64, 64], !memref>
!out = !nv_tileaa.memref<?x?x?xf32, strides = [?, ?, 1]>
!store = !nv_tileaa.tiled_view<[2, 64, 64], !out>
!a = tensor<2x64x64xf16>
!c = tensor<2x64x64xf32>

module {
  // Each matrix goes through the loop over K by itself.
  // CHECK-LABEL: @stored
  // CHECK: scf.for %[[S:.*]] = %{{.*}} to %{{.*}}
  // CHECK: scf.for {{.*}} -> (tensor<1x64x64xf32>)
  // CHECK: nv_tileaa.dot {{.*}} -> tensor<1x64x64xf32>
  // CHECK: nv_tileaa.tiled_store {{.*}} : tensor<1x64x64xf32>
  // CHECK: return
  nv_tileaa.func @stored(%p: !nv_tileaa.ptr<f16>, %q: !nv_tileaa.ptr<f32>, %n: i64, %at: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %m = nv_tileaa.make_memref %p, sizes = [%n, %n, %n], strides = [%n, %n] : !nv_tileaa.ptr<f16>, (i64, i64, i64), (i64, i64) -> !memref
    %v = nv_tileaa.block_tile %m : !view
    %o = nv_tileaa.make_memref %q, sizes = [%n, %n, %n], strides = [%n, %n] : !nv_tileaa.ptr<f32>, (i64, i64, i64), (i64, i64) -> !out
    %w = nv_tileaa.block_tile %o : !store
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant dense<0.0> : !c
    %sum = scf.for %i = %zero to %at step %one iter_args(%x = %none) -> (!c) : i32 {
      %a, %s = nv_tileaa.tiled_load %v[%at, %zero, %i] : !view, (i32, i32, i32) -> !a, !nv_tileaa.mem_token
      %b, %t = nv_tileaa.tiled_load %v[%at, %i, %zero] : !view, (i32, i32, i32) -> !a, !nv_tileaa.mem_token
      %r = nv_tileaa.dot %a, %b, %x : !a, !a -> !c
      scf.yield %r : !c
    }
    %done = nv_tileaa.tiled_store %sum, %w[%at, %zero, %zero] : !c, !store, (i32, i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Operands that come from nowhere else than the function's arguments cannot be cut.
  // CHECK-LABEL: @given
  // CHECK: nv_tileaa.dot {{.*}} -> tensor<2x64x64xf32>
  nv_tileaa.func @given(%a: !a, %b: !a, %c: !c, %q: !nv_tileaa.ptr<f32>, %n: i64, %at: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %o = nv_tileaa.make_memref %q, sizes = [%n, %n, %n], strides = [%n, %n] : !nv_tileaa.ptr<f32>, (i64, i64, i64), (i64, i64) -> !out
    %w = nv_tileaa.block_tile %o : !store
    %r = nv_tileaa.dot %a, %b, %c : !a, !a -> !c
    %done = nv_tileaa.tiled_store %r, %w[%at, %at, %at] : !c, !store, (i32, i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

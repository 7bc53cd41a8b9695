// RUN: tileiras-opt %s "--pass-pipeline=builtin.module(tileas{compute-capability=sm_90 to=tileas-remove-layout-conversions},tileas-legalize-fma-dot{compute-capability=sm_90})" | FileCheck %s

// Both products read the factors, which are stored once, together; of one slices are permuted.

// CHECK: %[[X:.*]], %{{.*}} = nv_tileas.tiled_load
// CHECK: %[[Y:.*]], %{{.*}} = nv_tileas.tiled_load
// CHECK: %[[A:.*]] = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<64x32xf32, #shared{{[0-9]*}}>>
// CHECK-NEXT: %[[B:.*]] = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<64x32xf32, #shared{{[0-9]*}}>>
// CHECK-NEXT: %[[STAGE:.*]] = arith.constant 0 : i32
// CHECK-NEXT: nv_tileas.store_tensor %[[X]] into %[[A]][%[[STAGE]] : i32]
// CHECK-NEXT: nv_tileas.store_tensor %[[Y]] into %[[B]][%[[STAGE]] : i32]
// CHECK: %[[ITERATIONS:.*]] = arith.constant 4 : i32
// CHECK-NEXT: %[[D:.*]] = scf.for %[[I:.*]] = %{{.*}} to %[[ITERATIONS]] step %{{.*}} iter_args(%[[SUM:.*]] = %{{.*}})
// CHECK-NEXT: %[[P:.*]] = nv_tileas.copy %[[A]][%{{.*}} : i32] slice = %[[I]] : i32 {{.*}} -> tensor<64x8xf32
// CHECK-NEXT: %[[Q:.*]] = nv_tileas.copy %[[B]][%{{.*}} : i32] slice = %[[I]] : i32 {{.*}} -> tensor<64x8xf32
// CHECK-NEXT: %[[R:.*]] = nv_tileas.permute %[[Q]]
// CHECK-NEXT: %[[NEXT:.*]] = nv_tileas.dot %[[P]], %[[R]], %[[SUM]]
// CHECK-NEXT: scf.yield %[[NEXT]]
// CHECK-NEXT: } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>, nv_tileas.no_unroll}
// CHECK: scf.for %{{.*}} iter_args(%{{.*}} = %[[D]])
// CHECK: nv_tileas.dealloc_tensor %[[B]]
// CHECK-NEXT: nv_tileas.dealloc_tensor %[[A]]
builtin.module {
  nv_tileaa.func @dot(%a: !nv_tileaa.ptr<f32>, %b: !nv_tileaa.ptr<f32>, %c: !nv_tileaa.ptr<f32>)
      attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %z = arith.constant 0 : i32
    %ma = nv_tileaa.make_memref %a, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<64x32xf32, strides = [32, 1]>
    %mb = nv_tileaa.make_memref %b, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<64x32xf32, strides = [32, 1]>
    %mc = nv_tileaa.make_memref %c, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<64x64xf32, strides = [64, 1]>
    %va = nv_tileaa.block_tile %ma : !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<64x32xf32, strides = [32, 1]>>
    %vb = nv_tileaa.block_tile %mb : !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<64x32xf32, strides = [32, 1]>>
    %vc = nv_tileaa.block_tile %mc : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<64x64xf32, strides = [64, 1]>>
    %x, %t0 = nv_tileaa.tiled_load %va[%z, %z] : !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<64x32xf32, strides = [32, 1]>>, (i32, i32) -> tensor<64x32xf32>, !nv_tileaa.mem_token
    %y, %t1 = nv_tileaa.tiled_load %vb[%z, %z] : !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<64x32xf32, strides = [32, 1]>>, (i32, i32) -> tensor<64x32xf32>, !nv_tileaa.mem_token
    %w = nv_tileaa.permute %y {permutation = array<i32: 1, 0>} : tensor<64x32xf32> -> tensor<32x64xf32>
    %none = arith.constant dense<0.0> : tensor<64x64xf32>
    %d = nv_tileaa.dot %x, %w, %none : tensor<64x32xf32>, tensor<32x64xf32> -> tensor<64x64xf32>
    %e = nv_tileaa.dot %x, %w, %d : tensor<64x32xf32>, tensor<32x64xf32> -> tensor<64x64xf32>
    %s = nv_tileaa.tiled_store %e, %vc[%z, %z] : tensor<64x64xf32>, !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<64x64xf32, strides = [64, 1]>>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

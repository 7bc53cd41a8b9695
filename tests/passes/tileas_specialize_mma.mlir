// A loop over tiles around products into tensor memory: a third agent multiplies, and hands accumulators in turn to the
// warps that convert and store them.
// RUN: tileiras-opt %s --tileas="compute-capability=sm_100 pipeline-strategy=warp-specialize tensor-maps=host to=tileas-specialize-mma" --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %s --tileas="compute-capability=sm_100 pipeline-strategy=warp-specialize tensor-maps=host to=tileas-insert-barriers" --verify-roundtrip | FileCheck %s --check-prefix=BARRIERS
// RUN: tileiras-opt %s --tileas="compute-capability=sm_100 pipeline-strategy=warp-specialize tensor-maps=host to=tileas-specialize-mma" --remarks 2>&1 | FileCheck %s --check-prefix=REMARK

// Two accumulators of 64 rows lie as one of 128 that goes on in further columns; no group is left to wait for.
// CHECK: #[[RINGED:tensor[0-9]*]] = #nv_tileas.tensor<lane = {{.*}}, column = {{.}}[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [64, 0]]>
// CHECK: nv_tileas.block_warps = 6 : i32
// CHECK: %[[TILES:.*]], %[[TILE:.*]] = nv_tileas.async.pipeline.create_pipeline {{.*}} producer = bulk_load consumer = tcgen05
// CHECK: %[[M:.*]] = nv_tileas.tensor_memory.reserve {commits = 0 : i32}
// CHECK: %[[BASE:.*]] = nv_tileas.tensor_memory.open %[[M]]
// CHECK: %[[RING:.*]] = nv_tileas.tensor_memory.alloc %[[BASE]] : !nv_tileas.tensor_buffer<tensor<128x32xf32, #[[RINGED]]>>
// CHECK-NEXT: %[[EMPTY:.*]], %[[FULL:.*]] = nv_tileas.async.pipeline.create_pipeline %[[RING]] stages 2 producer = tcgen05 consumer = tcgen05_ld
// CHECK-NEXT: agent_switch num_agents_per_group = [1, 1, 1] num_warps = [4, 1, 1] {
// CHECK: scf.for
// CHECK-NOT: consumer_wait %[[TILE]]
// CHECK: %[[HELD:.*]] = nv_tileas.async.pipeline.consumer_wait %[[FULL]], %[[AT:.*]]
// CHECK-NEXT: %[[STAGE:.*]] = nv_tileas.async.pipeline.get_stage %[[AT]]
// CHECK: %[[SLICE:.*]] = nv_tileas.tensor_memory.slice %[[RING]][%[[STAGE]], %{{.*}}]
// CHECK: nv_tileas.tensor_memory.load %[[SLICE]]
// CHECK: nv_tileas.async.pipeline.consumer_release %[[HELD]]
// CHECK: nv_tileas.tiled_store
// CHECK-NOT: nv_tileas.tensor_memory.wait
// CHECK: nv_tileas.tensor_memory.release %[[M]]
// CHECK: }, {
// CHECK: tma_load
// CHECK: }, {
// CHECK: scf.for
// CHECK: %[[HELD:.*]] = nv_tileas.async.pipeline.producer_acquire %[[EMPTY]], %[[AT:.*]]
// CHECK: %[[SLICE:.*]] = nv_tileas.tensor_memory.slice %[[RING]]
// CHECK-NEXT: scf.for
// CHECK: nv_tileas.async.pipeline.consumer_wait %[[TILE]]
// CHECK: nv_tileas.tensor_memory.dot {{.*}} into %[[SLICE]]
// CHECK: nv_tileas.async.pipeline.consumer_release
// CHECK-NOT: nv_tileas.tensor_memory.commit
// CHECK: nv_tileas.async.pipeline.producer_commit %[[HELD]]
// CHECK-NOT: nv_tileas.tiled_store

// The columns' address is read behind one barrier, mbarriers are used behind another one; the pipe orders all else.
// BARRIERS: nv_tileas.tensor_memory.reserve {columns = 64 : i32, commits = 0 : i32
// BARRIERS-NEXT: nv_tileas.barrier id = 0
// BARRIERS-NEXT: nv_tileas.tensor_memory.open
// BARRIERS: create_pipeline {{.*}} consumer = tcgen05_ld
// BARRIERS-NEXT: nv_tileas.barrier id = 0
// BARRIERS: agent_switch
// BARRIERS: nv_tileas.tensor_memory.load {{.*}} {behind}
// BARRIERS: nv_tileas.tensor_memory.dealloc
// BARRIERS-NEXT: nv_tileas.barrier id = {{.*}} threads = 128
// BARRIERS-NEXT: nv_tileas.tensor_memory.release

// REMARK: remark: {{.*}}[agents.dots-specialized accumulators=2]
module attributes {nv_tileaa.compute_capability = 100 : i32} {
  nv_tileaa.func @k(%arg0: !nv_tileaa.ptr<f16>, %arg1: !nv_tileaa.ptr<f16>, %arg2: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_100"} {
    %0 = nv_tileaa.assume #nv_tileaa.div_by<16>, %arg0 : !nv_tileaa.ptr<f16>
    %1 = nv_tileaa.make_memref %0, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !nv_tileaa.memref<192x96xf16, strides = [96, 1]>
    %2 = nv_tileaa.block_tile %1 : !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<192x96xf16, strides = [96, 1]>, padding = #nv_tileaa.padding_value<zero>>
    %3 = nv_tileaa.assume #nv_tileaa.div_by<16>, %arg1 : !nv_tileaa.ptr<f16>
    %4 = nv_tileaa.make_memref %3, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !nv_tileaa.memref<96x32xf16, strides = [32, 1]>
    %5 = nv_tileaa.block_tile %4 : !nv_tileaa.tiled_view<[32, 32], !nv_tileaa.memref<96x32xf16, strides = [32, 1]>, padding = #nv_tileaa.padding_value<zero>>
    %6 = nv_tileaa.assume #nv_tileaa.div_by<16>, %arg2 : !nv_tileaa.ptr<f32>
    %7 = nv_tileaa.make_memref %6, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<192x32xf32, strides = [32, 1]>
    %8 = nv_tileaa.block_tile %7 : !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<192x32xf32, strides = [32, 1]>, padding = #nv_tileaa.padding_value<zero>>
    %9 = arith.constant 0 : i32
    %10 = arith.constant 1 : i32
    %11 = arith.constant dense<0.000000e+00> : tensor<64x32xf32>
    %12 = arith.constant 3 : i32
    scf.for %arg3 = %9 to %12 step %10 : i32 {
      %13 = scf.for %arg4 = %9 to %arg3 step %10 iter_args(%arg5 = %11) -> (tensor<64x32xf32>) : i32 {
        %data, %result_token = nv_tileaa.tiled_load %2[%arg3, %arg4] : !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<192x96xf16, strides = [96, 1]>, padding = #nv_tileaa.padding_value<zero>>, (i32, i32) -> tensor<64x32xf16>, !nv_tileaa.mem_token
        %data_0, %result_token_1 = nv_tileaa.tiled_load %5[%arg4, %9] : !nv_tileaa.tiled_view<[32, 32], !nv_tileaa.memref<96x32xf16, strides = [32, 1]>, padding = #nv_tileaa.padding_value<zero>>, (i32, i32) -> tensor<32x32xf16>, !nv_tileaa.mem_token
        %15 = nv_tileaa.dot %data, %data_0, %arg5 : tensor<64x32xf16>, tensor<32x32xf16> -> tensor<64x32xf32>
        scf.yield %15 : tensor<64x32xf32>
      }
      %14 = nv_tileaa.tiled_store %13, %8[%arg3, %9] : tensor<64x32xf32>, !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<192x32xf32, strides = [32, 1]>, padding = #nv_tileaa.padding_value<zero>>, (i32, i32) -> !nv_tileaa.mem_token
      scf.yield
    }
    nv_tileaa.return
  }
}


// RUN: tileiras-opt %s --tileas-materialize-schedule | FileCheck %s
// RUN: tileiras-opt %s --remarks --pass-pipeline="builtin.module(tileas-materialize-schedule,tileas-resolve-agent-boundary)" 2>&1 | FileCheck %s --check-prefix=WARPS
// RUN: tileiras-opt %s --remarks --verify-each=false --pass-pipeline="builtin.module(tileas-materialize-schedule{compute-capability=sm_80})" 2>&1 | FileCheck %s --check-prefix=OLD

// One agent computes, the other loads; what no tile is computed from stands before both.
// CHECK: nv_tileas.block_warps = 8 : i32
// CHECK: %[[PRODUCER:.*]], %[[CONSUMER:.*]] = nv_tileas.async.pipeline.create_pipeline %[[A:.*]], %[[B:.*]] stages 3 producer = cp_async consumer = ld_shared
// CHECK-NEXT: nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] {
// CHECK: scf.for
// CHECK-NEXT: %[[FULL:.*]] = nv_tileas.async.pipeline.consumer_wait %[[CONSUMER]], %[[AT:.*]]
// CHECK-NEXT: %[[STAGE:.*]] = nv_tileas.async.pipeline.get_stage %[[AT]] : i32
// CHECK-NEXT: nv_tileas.copy %[[A]][%[[STAGE]] : i32]
// CHECK-NEXT: nv_tileas.copy %[[B]][%[[STAGE]] : i32]
// CHECK-NEXT: nv_tileas.dot
// CHECK-NEXT: nv_tileas.async.pipeline.consumer_release %[[FULL]]
// CHECK: loop_schedule<warp_specialize, 3>
// CHECK: nv_tileas.tiled_store
// CHECK: }, {
// CHECK: scf.for
// CHECK-NEXT: %[[EMPTY:.*]] = nv_tileas.async.pipeline.producer_acquire %[[PRODUCER]]
// CHECK: nv_tileas.async.tiled_load {{.*}} into %[[A]]
// CHECK-NEXT: nv_tileas.async.tiled_load {{.*}} into %[[B]]
// CHECK-NEXT: nv_tileas.async.pipeline.producer_commit %[[EMPTY]]
// CHECK: loop_schedule<serial, 1>
// CHECK-NOT: nv_tileas.tiled_store

// WARPS: tileas_materialize_schedule.mlir:[[@LINE+29]]:{{[0-9]+}}: remark: {{.*}}[agents.warps compute=4 load=4 pipes=1]
// WARPS: nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 4] {

// What a text asks for and the target does not have: the plain schedule, for the row that follows.
// OLD: remark: {{.*}}Failed to specialize warps{{.*}}[agents.not-split; agents.no-registers-by-agent target=sm_80]
// OLD-NOT: partition
// OLD: runs_ahead
// OLD: loop_schedule<plain, 3>
#layout = #nv_tileas.linear<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [0, 8]]>
#layout1 = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]], warp = [[8, 0], [16, 0]]>
#layout2 = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [0, 0]]>
#layout3 = #nv_tileas.linear<register = [[0, 1], [0, 2]], lane = [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], warp = [[8, 0], [16, 0]]>
#layout4 = #nv_tileas.linear<register = [[1, 0], [8, 0], [16, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = [[0, 0], [0, 8]]>
module {
  nv_tileaa.func @matmul(%arg0: !nv_tileaa.ptr<f16>, %arg1: !nv_tileaa.ptr<f16>, %arg2: !nv_tileaa.ptr<f32>, %arg3: i32, %arg4: i32, %arg5: i32, %arg6: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %0 = nv_tileas.assume #nv_tileaa.div_by<16>, %arg0 : !nv_tileaa.ptr<f16>
    %1 = nv_tileas.assume #nv_tileaa.div_by<16>, %arg1 : !nv_tileaa.ptr<f16>
    %2 = nv_tileas.assume #nv_tileaa.div_by<8>, %arg5 : i32
    %3 = arith.constant 0 : i32
    %4 = arith.constant 1 : i32
    %5 = arith.constant 16 : i32
    %6 = nv_tileas.make_memref %0, sizes = [%arg3, %arg4], strides = [%2] : !nv_tileaa.ptr<f16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
    %7 = nv_tileas.make_memref %1, sizes = [%arg4, %5], strides = [] : !nv_tileaa.ptr<f16>, (i32, i32), () -> !nv_tileaa.memref<?x?xf16, strides = [16, 1]>
    %8 = nv_tileas.make_memref %arg2, sizes = [%arg3, %5], strides = [] : !nv_tileaa.ptr<f32>, (i32, i32), () -> !nv_tileaa.memref<?x?xf32, strides = [16, 1]>
    %9 = nv_tileas.block_tile %6 : !nv_tileaa.tiled_view<[32, 32], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>, padding = #nv_tileaa.padding_value<zero>>
    %10 = nv_tileas.block_tile %7 : !nv_tileaa.tiled_view<[32, 16], !nv_tileaa.memref<?x?xf16, strides = [16, 1]>, padding = #nv_tileaa.padding_value<zero>>
    %11 = nv_tileas.block_tile %8 : !nv_tileaa.tiled_view<[32, 16], !nv_tileaa.memref<?x?xf32, strides = [16, 1]>, padding = #nv_tileaa.padding_value<zero>>
    %12 = arith.constant dense<0.000000e+00> : tensor<32x16xf32> as tensor<32x16xf32, #layout>
    %13 = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %14:2 = scf.for %arg7 = %3 to %arg6 step %4 iter_args(%arg8 = %12, %arg9 = %13) -> (tensor<32x16xf32, #layout>, !nv_tileaa.mem_token) : i32 {
      %data, %result_token = nv_tileas.tiled_load %9[%3, %arg7] token = %arg9 {atom = #nv_tileas.copy_atom<ld_global, 8>, nv_tile.aws.partition = #nv_tileas.partition<load>, nv_tileas.runs_ahead} : !nv_tileaa.tiled_view<[32, 32], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>, padding = #nv_tileaa.padding_value<zero>>, (i32, i32) -> tensor<32x32xf16, #layout1>, !nv_tileaa.mem_token
      %16 = nv_tileas.convert_layout %data : tensor<32x32xf16, #layout1> -> tensor<32x32xf16, #layout2>
      %data_0, %result_token_1 = nv_tileas.tiled_load %10[%arg7, %3] token = %arg9 {atom = #nv_tileas.copy_atom<ld_global, 4>, nv_tile.aws.partition = #nv_tileas.partition<load>, nv_tileas.runs_ahead} : !nv_tileaa.tiled_view<[32, 16], !nv_tileaa.memref<?x?xf16, strides = [16, 1]>, padding = #nv_tileaa.padding_value<zero>>, (i32, i32) -> tensor<32x16xf16, #layout3>, !nv_tileaa.mem_token
      %17 = nv_tileas.convert_layout %data_0 : tensor<32x16xf16, #layout3> -> tensor<32x16xf16, #layout4>
      %18 = nv_tileas.dot %16, %17, %arg8 {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">} : tensor<32x32xf16, #layout2>, tensor<32x16xf16, #layout4> -> tensor<32x16xf32, #layout>
      %19 = nv_tileas.join_mem_token %result_token, %result_token_1 : !nv_tileaa.mem_token
      scf.yield %18, %19 : tensor<32x16xf32, #layout>, !nv_tileaa.mem_token
    } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<warp_specialize, 3>}
    %15 = nv_tileas.tiled_store %14#0, %11[%3, %3] token = %14#1 {atom = #nv_tileas.copy_atom<st_global, 1>} : tensor<32x16xf32, #layout>, !nv_tileaa.tiled_view<[32, 16], !nv_tileaa.memref<?x?xf32, strides = [16, 1]>, padding = #nv_tileaa.padding_value<zero>>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

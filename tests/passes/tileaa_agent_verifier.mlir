// RUN: tileiras-opt %s --verify-roundtrip --tileaa-agent-verifier --tileir-verify-ops-analysis | FileCheck %s
// What agents, pipes and their ends look like; a tile in an agent is spread over its warps.

#layout = #nv_tileas.linear<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]]>
#shared = #nv_tileas.shared<offset = [[1], [2], [4], [8], [16], [32], [64], [128], [256]]>

module {
  nv_tileaa.func @f(%x: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<2, tensor<512xf32, #shared>>
    %p, %c = nv_tileas.async.pipeline.create_pipeline %b stages 2 : !nv_tileas.buffer<2, tensor<512xf32, #shared>>
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 4] max_regs = [40, 232] {
      %i = nv_tileas.async.pipeline.create_iterator %p : !nv_tileas.producer_token
      %q = nv_tileas.async.pipeline.producer_acquire %p, %i
      %r = nv_tileas.async.pipeline.producer_commit %q
      %j = nv_tileas.async.pipeline.inc_iter %i
      %s = nv_tileas.async.pipeline.produce_one %r, %j attributes {producer_types = [tensor<512xf32, #layout>]} {
      ^bb0(%t: tensor<512xf32, #layout>):
        nv_tileas.async.pipeline.yield %t : tensor<512xf32, #layout>
      }
      nv_tileas.async.pipeline.yield
    }, {
      %i = nv_tileas.async.pipeline.create_iterator %c : !nv_tileas.consumer_token
      %q = nv_tileas.async.pipeline.consumer_wait %c, %i
      %r = nv_tileas.async.pipeline.consumer_release %q
      nv_tileas.async.pipeline.yield
    }
    nv_tileas.dealloc_tensor %b : !nv_tileas.buffer<2, tensor<512xf32, #shared>>
    nv_tileaa.return
  }
}

// CHECK: %[[P:[a-z0-9_]+]], %[[C:[a-z0-9_]+]] = nv_tileas.async.pipeline.create_pipeline %{{.*}} stages 2
// CHECK: nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 4] max_regs = [40, 232] {
// CHECK: nv_tileas.async.pipeline.producer_acquire %[[P]]
// CHECK: }, {
// CHECK: nv_tileas.async.pipeline.consumer_wait %[[C]]

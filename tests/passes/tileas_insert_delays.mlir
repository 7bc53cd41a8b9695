// RUN: tileiras-opt %s --tileas-insert-delays --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %s --tileas-insert-delays="seed=1 nanoseconds=20" | FileCheck %s --check-prefix=OTHER
// RUN: tileiras-opt %s --tileas-insert-delays | tileiras-opt - --tileas-insert-delays | FileCheck %s --check-prefix=AGAIN

// A delay with a seed of its own before each wait, arrival and exchange, in agents and outside of them.

// OTHER: nv_tileas.delay 20 seed = [[SEED:-?[0-9]+]]
// OTHER-NOT: seed = [[SEED]]

// Twice as many, not none: a delay is nothing to wait for.
// AGAIN-COUNT-20: nv_tileas.delay
// AGAIN-NOT: nv_tileas.delay

#x = #nv_tileas.linear<register = [], lane = [[2], [4], [8], [16], [32]], warp = [[1]]>
#y = #nv_tileas.linear<register = [], lane = [[1], [2], [4], [8], [16]], warp = [[32]]>
!tile = tensor<64xf32, #x>
#s = #nv_tileas.shared<offset = [[1], [2], [4], [8], [16], [32]]>
!buffer = !nv_tileas.buffer<2, tensor<64xf32, #s>>

module {
  // CHECK-LABEL: @agents
  // CHECK: create_pipeline
  // CHECK-NEXT: nv_tileas.delay 1000 seed = [[FIRST:-?[0-9]+]]
  // CHECK-NEXT: nv_tileas.barrier
  // CHECK: nv_tileas.delay 1000 seed = [[SECOND:-?[0-9]+]]
  // CHECK-NEXT: {{.*}}producer_acquire
  // CHECK-NEXT: {{.*}}producer_write
  // CHECK-NEXT: nv_tileas.delay
  // CHECK-NEXT: {{.*}}producer_commit
  // CHECK: nv_tileas.delay
  // CHECK-NEXT: {{.*}}produce_one
  // CHECK: nv_tileas.delay
  // CHECK-NEXT: nv_tileas.async.pipeline.yield
  // CHECK: nv_tileas.delay
  // CHECK-NEXT: {{.*}}consumer_wait
  // CHECK-NEXT: {{.*}}consumer_read
  // CHECK-NEXT: nv_tileas.delay
  // CHECK-NEXT: {{.*}}convert_layout
  // CHECK-NEXT: {{.*}}convert_layout
  // CHECK-NEXT: nv_tileas.delay
  // CHECK-NEXT: {{.*}}consumer_release
  // CHECK: nv_tileas.delay
  // CHECK-NEXT: {{.*}}consume_one
  // CHECK: nv_tileas.delay
  // CHECK-NEXT: nv_tileas.async.pipeline.yield
  // CHECK-NOT: nv_tileas.delay
  nv_tileaa.func @agents() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, target_spec = "sm_90", nv_tileas.named_barriers = 2 : i32, nv_tileas.shared_memory = 1024 : i32, nv_tileas.block_warps = 4 : i32} {
    %b = nv_tileas.alloc_tensor {offset = 0 : i32} : !buffer
    %p, %c = nv_tileas.async.pipeline.create_pipeline %b stages 2 {offset = 512 : i64} : !buffer
    nv_tileas.barrier id = 0
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [2, 2] {
      %x = arith.constant dense<1.0> : tensor<64xf32> as !tile
      %i = nv_tileas.async.pipeline.create_iterator %p : !nv_tileas.producer_token
      %q = nv_tileas.async.pipeline.producer_acquire %p, %i
      nv_tileas.async.pipeline.producer_write %x into %q : !tile
      %r = nv_tileas.async.pipeline.producer_commit %q
      %j = nv_tileas.async.pipeline.inc_iter %i
      %t = nv_tileas.async.pipeline.produce_one %r, %j attributes {producer_types = [!tile]} {
      ^bb0(%e: !tile):
        nv_tileas.async.pipeline.yield %x : !tile
      }
      nv_tileas.async.pipeline.yield
    }, {
      %i = nv_tileas.async.pipeline.create_iterator %c : !nv_tileas.consumer_token
      %q = nv_tileas.async.pipeline.consumer_wait %c, %i
      %y = nv_tileas.async.pipeline.consumer_read %q : !tile
      %m = nv_tileas.convert_layout %y {nv_tileas.scratch = [#nv_tileas.scratch<offset = 640, bytes = 256, barrier = 1>]} : !tile -> tensor<64xf32, #y>
      %k = nv_tileas.convert_layout %m : tensor<64xf32, #y> -> tensor<64xf32, #y>
      %r = nv_tileas.async.pipeline.consumer_release %q
      %j = nv_tileas.async.pipeline.inc_iter %i
      %t, %z = nv_tileas.async.pipeline.consume_one %r, %j attributes {consumer_types = [!tile]} : !nv_tileas.consumer_token, !tile {
      ^bb0(%e: !tile):
        nv_tileas.async.pipeline.yield %e : !tile
      }
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }

  // CHECK-LABEL: @alone
  // CHECK-NOT: nv_tileas.delay
  nv_tileaa.func @alone() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90", nv_tileas.named_barriers = 0 : i32, nv_tileas.shared_memory = 0 : i32, nv_tileas.block_warps = 1 : i32} {
    nv_tileaa.return
  }
}

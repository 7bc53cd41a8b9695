// RUN: tileiras-opt %s --tileas-optimize-alloc-tensor --tileas-insert-barriers --verify-roundtrip | FileCheck %s

// Threads wait where one may need what another one has done, and nowhere else.

#rows = #nv_tileas.linear<register = [[0, 1], [0, 2]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0]]>
#turned = #nv_tileas.linear<register = [[0, 1], [0, 2]], lane = [[32, 0], [16, 0], [8, 0], [4, 0], [2, 0]], warp = [[1, 0]]>
#eight = #nv_tileas.linear<register = [], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [0, 1], [0, 2]]>
#shared = #nv_tileas.shared<offset = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]]>
#wide = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [0, 64]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0]]>
#wide_turned = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [0, 64]], lane = [[32, 0], [16, 0], [8, 0], [4, 0], [2, 0]], warp = [[1, 0]]>
!rows = tensor<64x4xi32, #rows>
!turned = tensor<64x4xi32, #turned>
!memref = !nv_tileaa.memref<64x4xi32, strides = [4, 1]>
!view = !nv_tileaa.tiled_view<[64, 4], !memref>
!buffer = !nv_tileas.buffer<1, tensor<64x4xi32, #shared>>
!own = !nv_tileas.buffer<1, tensor<64x4xi32, #rows>>

module {
  // Areas of their own need only the barrier between the stores and the loads of each.
  // CHECK: @apart({{.*}} nv_tileas.named_barriers = 1 : i32
  nv_tileaa.func @apart() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, target_spec = "sm_90"} {
    // CHECK-NOT: nv_tileas.barrier id
    // CHECK-NOT: waits
    %x = arith.constant dense<1> : tensor<64x4xi32> as !rows
    // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 0, bytes = 1024, barrier = 0>]}
    %y = nv_tileas.convert_layout %x : !rows -> !turned
    %y2 = arith.addi %y, %y : !turned
    // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 1024, bytes = 1024, barrier = 0>]}
    %z = nv_tileas.convert_layout %y2 : !turned -> !rows
    // CHECK: return
    nv_tileaa.return
  }

  // The place of the first is used again: all have to have loaded from it.
  // CHECK-LABEL: @again
  nv_tileaa.func @again() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, target_spec = "sm_90"} {
    %x = arith.constant dense<1> : tensor<64x128xi32> as tensor<64x128xi32, #wide>
    // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 0, bytes = 32768, barrier = 0>]}
    %y = nv_tileas.convert_layout %x : tensor<64x128xi32, #wide> -> tensor<64x128xi32, #wide_turned>
    // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 0, bytes = 32768, waits = true, barrier = 0>]}
    %z = nv_tileas.convert_layout %y : tensor<64x128xi32, #wide_turned> -> tensor<64x128xi32, #wide>
    nv_tileaa.return
  }

  // An earlier iteration may still be loading from the area.  Where a barrier stands behind its loads none is added.
  // CHECK-LABEL: @around
  nv_tileaa.func @around(%n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %x = arith.constant dense<1> : tensor<64x4xi32> as !rows
    %a = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> (!rows) : i32 {
      // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 0, bytes = 1024, waits = true, barrier = 0>]}
      %y = nv_tileas.convert_layout %c : !rows -> !turned
      %r = nv_tileas.view %y : !turned -> tensor<64x4xi32, #turned>
      %s = arith.constant dense<1> : tensor<64x4xi32> as !rows
      scf.yield %s : !rows
    } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>}
    %b = scf.for %i = %zero to %n step %one iter_args(%c = %x) -> (!rows) : i32 {
      // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 1024, bytes = 1024, barrier = 0>]}
      %y = nv_tileas.convert_layout %c : !rows -> !turned
      %y2 = arith.addi %y, %y : !turned
      // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 2048, bytes = 1024, barrier = 0>]}
      %z = nv_tileas.convert_layout %y2 : !turned -> !rows
      scf.yield %z : !rows
    } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>}
    nv_tileaa.return
  }

  // What a token orders: other threads load what was stored.
  // CHECK: @tokens({{.*}} nv_tileas.named_barriers = 1 : i32
  nv_tileaa.func @tokens(%p: !nv_tileaa.ptr<i32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %m = nv_tileas.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<i32>, (), () -> !memref
    %v = nv_tileas.block_tile %m : !view
    %x = arith.constant dense<1> : tensor<64x4xi32> as !rows
    // CHECK: tiled_store
    %s = nv_tileas.tiled_store %x, %v[%zero, %zero] {atom = #nv_tileas.copy_atom<st_global, 4>} : !rows, !view, (i32, i32) -> !nv_tileaa.mem_token
    // The same threads load it.
    // CHECK-NEXT: tiled_load
    %y, %t = nv_tileas.tiled_load %v[%zero, %zero] token = %s {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32, i32) -> !rows, !nv_tileaa.mem_token
    // CHECK-NEXT: nv_tileas.barrier id = 0
    // CHECK-NEXT: tiled_load
    %z, %u = nv_tileas.tiled_load %v[%zero, %zero] token = %s {atom = #nv_tileas.copy_atom<ld_global, 4>} : !view, (i32, i32) -> !turned, !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // CHECK: @nothing({{.*}} nv_tileas.named_barriers = 0 : i32
  nv_tileaa.func @nothing() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, target_spec = "sm_90"} {
    nv_tileaa.return
  }

  // One barrier before a loop serves all iterations that load what was stored before it; each thread reads what it
  // keeps for itself without any.
  // CHECK-LABEL: @buffers
  nv_tileaa.func @buffers(%n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %x = arith.constant dense<1> : tensor<64x4xi32> as !rows
    %b = nv_tileas.alloc_tensor : !buffer
    %k = nv_tileas.alloc_tensor : !own
    // CHECK: store_tensor
    nv_tileas.store_tensor %x into %b[%zero : i32] : !rows, !buffer
    // CHECK-NEXT: store_tensor
    nv_tileas.store_tensor %x into %k[%zero : i32] : !rows, !own
    // CHECK-NEXT: nv_tileas.barrier id = 0
    // CHECK-NEXT: scf.for
    scf.for %i = %zero to %n step %one : i32 {
      // CHECK-NEXT: nv_tileas.copy
      %y = nv_tileas.copy %b[%zero : i32] : !buffer -> !turned
      %y2 = arith.addi %y, %y : !turned
      // CHECK: nv_tileas.copy
      %z = nv_tileas.copy %k[%zero : i32] : !own -> !rows
    } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>}
    // CHECK: nv_tileas.barrier id = 0
    // CHECK-NEXT: store_tensor
    nv_tileas.store_tensor %x into %b[%zero : i32] : !rows, !buffer
    nv_tileas.dealloc_tensor %k : !own
    nv_tileas.dealloc_tensor %b : !buffer
    nv_tileaa.return
  }

  // Behind a branch a barrier counts when every way has one.
  // CHECK-LABEL: @branches
  nv_tileaa.func @branches(%c: i1) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %x = arith.constant dense<1> : tensor<64x4xi32> as !rows
    %b = nv_tileas.alloc_tensor : !buffer
    nv_tileas.store_tensor %x into %b[%zero : i32] : !rows, !buffer
    scf.if %c {
      // CHECK: nv_tileas.barrier id = 0
      // CHECK-NEXT: nv_tileas.copy
      %y = nv_tileas.copy %b[%zero : i32] : !buffer -> !turned
    }
    // CHECK: nv_tileas.barrier id = 0
    // CHECK-NEXT: nv_tileas.copy
    %z = nv_tileas.copy %b[%zero : i32] : !buffer -> !turned
    nv_tileas.dealloc_tensor %b : !buffer
    nv_tileaa.return
  }

  // Asynchronous copies are there for all when each thread has waited for its own; a fence is each thread's own.
  // CHECK-LABEL: @own_waits
  nv_tileaa.func @own_waits() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, target_spec = "sm_90"} {
    // CHECK: async.wait
    %w = nv_tileas.async.wait {pending = 0 : i32} : !nv_tileaa.mem_token
    // CHECK-NEXT: nv_tileas.barrier id = 0
    // One serves both.
    // CHECK-NEXT: fence_alias
    // CHECK-NEXT: nv_tileas.barrier id = 0
    %f = nv_tileas.fence_alias %w : !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // An agent has a barrier of its own, for its threads.
  // CHECK: @agents({{.*}} nv_tileas.named_barriers = 3 : i32
  nv_tileaa.func @agents() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %b = nv_tileas.alloc_tensor : !buffer
    %x0 = arith.constant dense<1> : tensor<64x4xi32> as tensor<64x4xi32, #eight>
    // CHECK: store_tensor
    nv_tileas.store_tensor %x0 into %b[%zero : i32] : tensor<64x4xi32, #eight>, !buffer
    // CHECK-NEXT: nv_tileas.barrier id = 0
    // CHECK-NEXT: agent_switch
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1, 1] num_warps = [2, 2, 2] {
      %x = arith.constant dense<1> : tensor<64x4xi32> as !rows
      // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 1024, bytes = 1024, barrier = 1, threads = 64>]}
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }, {
      nv_tileas.async.pipeline.yield
    }, {
      %x = arith.constant dense<1> : tensor<64x4xi32> as !rows
      // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 2048, bytes = 1024, barrier = 2, threads = 64>]}
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      %y2 = arith.addi %y, %y : !turned
      // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 3072, bytes = 1024, barrier = 2, threads = 64>]}
      %z = nv_tileas.convert_layout %y2 : !turned -> !rows
      nv_tileas.async.pipeline.yield
    }
    // CHECK: }
    // CHECK-NEXT: nv_tileas.barrier id = 0
    // CHECK-NEXT: nv_tileas.copy
    %x1 = nv_tileas.copy %b[%zero : i32] : !buffer -> tensor<64x4xi32, #eight>
    nv_tileas.dealloc_tensor %b : !buffer
    nv_tileaa.return
  }

  // Agents that come when others have ended have the barriers of these.
  // CHECK: @turn_by_turn({{.*}} nv_tileas.named_barriers = 2 : i32
  nv_tileaa.func @turn_by_turn() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1] num_warps = [2] {
      %x = arith.constant dense<1> : tensor<64x4xi32> as !rows
      // CHECK: convert_layout {{.*}}barrier = 1, threads = 64>
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }
    // CHECK-NEXT: pipeline.yield
    // CHECK-NEXT: }
    // CHECK-NEXT: nv_tileas.barrier id = 0
    // CHECK-NEXT: agent_switch
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1] num_warps = [2] {
      %x = arith.constant dense<1> : tensor<64x4xi32> as !rows
      // CHECK: convert_layout {{.*}}barrier = 1, threads = 64>
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }

  // Threads have written nothing that the asynchronous proxy could meet: the first fence goes, the second one stays.
  // CHECK-LABEL: @idle_fence
  nv_tileaa.func @idle_fence() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, target_spec = "sm_90"} {
    // CHECK-NOT: fence_proxy_async
    nv_tileas.fence_proxy_async
    %x = arith.constant dense<1> : tensor<64x4xi32> as !rows
    // CHECK: convert_layout
    %y = nv_tileas.convert_layout %x : !rows -> !turned
    // CHECK-NEXT: fence_proxy_async
    nv_tileas.fence_proxy_async
    nv_tileaa.return
  }
}

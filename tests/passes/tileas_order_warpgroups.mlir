// RUN: tileiras-opt %s --tileas-order-warpgroups --verify-roundtrip | FileCheck %s

// Where threads compute between two dots of a loop, the warpgroups of an agent take turns: behind the first dot of an
// iteration one ends, before the second one the next begins.

#acc = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0], [64, 0]]>
#q = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0], [64, 0]]>
#b = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]]>
!q = tensor<128x64xf16, #q>
!b = tensor<64x64xf16, #b>
!c = tensor<128x64xf32, #acc>
!p = tensor<128x64xf16, #acc>
!flying = !nv_tileas.in_flight<!c>
#spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>

module {
  // CHECK-LABEL: @turns
  // CHECK-SAME: nv_tileas.named_barriers = 4 : i32
  // CHECK: agent_switch
  // CHECK-NEXT: async.end_turn id = 2 {first}
  // CHECK: async.wait_turn id = 2
  // CHECK-NEXT: scf.for
  // CHECK: async.commit_dots
  // CHECK-NEXT: async.end_turn id = 2
  // CHECK-NEXT: async.future_wait
  // CHECK: math.exp2
  // CHECK: async.wait_turn id = 2
  // CHECK-NEXT: async.to_async
  // CHECK-NEXT: async.dot
  // CHECK-NEXT: async.commit_dots
  // CHECK-NEXT: scf.yield
  // CHECK: async.end_turn id = 2
  // CHECK: async.wait_turn id = 2 {last}
  // CHECK-NEXT: pipeline.yield
  // CHECK-NOT: _turn
  nv_tileaa.func @turns(%n: i32) attributes {kernel_spec = #spec, target_spec = "sm_90", nv_tileas.named_barriers = 2 : i32, nv_tileas.shared_memory = 24576 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %bq = nv_tileas.alloc_tensor {offset = 0 : i32} : !nv_tileas.buffer<1, !q>
    %bb = nv_tileas.alloc_tensor {offset = 16384 : i32} : !nv_tileas.buffer<1, !b>
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1] num_warps = [8] {
      %q = nv_tileas.copy %bq[%zero : i32] : !nv_tileas.buffer<1, !q> -> !q
      %b = nv_tileas.copy %bb[%zero : i32] : !nv_tileas.buffer<1, !b> -> !b
      %none = nv_tileas.async.create_none : !flying
      %o = scf.for %i = %zero to %n step %one iter_args(%acc = %none) -> (!flying) : i32 {
        %f = nv_tileas.async.create_none : !flying
        %g = nv_tileas.async.dot %q, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">, overwrites} : !q, !b -> !flying
        nv_tileas.async.commit_dots
        %s = nv_tileas.async.future_wait %g {pending = 0 : i32} : (!flying) -> !c
        %e = math.exp2 %s : !c
        %p = nv_tileas.fp_to_fp %e : !c to !p
        %x = nv_tileas.async.to_async %p : (!p) -> !nv_tileas.in_flight<!p>
        %next = nv_tileas.async.dot %x, %b, %acc {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_rs">} : !nv_tileas.in_flight<!p>, !b -> !flying
        nv_tileas.async.commit_dots
        scf.yield %next : !flying
      } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>}
      %d = nv_tileas.async.future_wait %o {pending = 0 : i32} : (!flying) -> !c
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }

  // Not where all warps of the agent wait for each other: one of them may be in its turn then.
  // CHECK-LABEL: @barrier
  // CHECK-NOT: _turn
  nv_tileaa.func @barrier(%n: i32) attributes {kernel_spec = #spec, target_spec = "sm_90", nv_tileas.named_barriers = 2 : i32, nv_tileas.shared_memory = 24576 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %bq = nv_tileas.alloc_tensor {offset = 0 : i32} : !nv_tileas.buffer<1, !q>
    %bb = nv_tileas.alloc_tensor {offset = 16384 : i32} : !nv_tileas.buffer<1, !b>
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1] num_warps = [8] {
      %q = nv_tileas.copy %bq[%zero : i32] : !nv_tileas.buffer<1, !q> -> !q
      %b = nv_tileas.copy %bb[%zero : i32] : !nv_tileas.buffer<1, !b> -> !b
      %none = nv_tileas.async.create_none : !flying
      %o = scf.for %i = %zero to %n step %one iter_args(%acc = %none) -> (!flying) : i32 {
        nv_tileas.barrier id = 1 threads = 256
        %f = nv_tileas.async.create_none : !flying
        %g = nv_tileas.async.dot %q, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">, overwrites} : !q, !b -> !flying
        nv_tileas.async.commit_dots
        %s = nv_tileas.async.future_wait %g {pending = 0 : i32} : (!flying) -> !c
        %e = math.exp2 %s : !c
        %p = nv_tileas.fp_to_fp %e : !c to !p
        %x = nv_tileas.async.to_async %p : (!p) -> !nv_tileas.in_flight<!p>
        %next = nv_tileas.async.dot %x, %b, %acc {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_rs">} : !nv_tileas.in_flight<!p>, !b -> !flying
        nv_tileas.async.commit_dots
        scf.yield %next : !flying
      } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>}
      %d = nv_tileas.async.future_wait %o {pending = 0 : i32} : (!flying) -> !c
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }

  // Nor where no thread waits for a dot in the loop: products follow products.
  // CHECK-LABEL: @products
  // CHECK-NOT: _turn
  nv_tileaa.func @products(%n: i32) attributes {kernel_spec = #spec, target_spec = "sm_90", nv_tileas.named_barriers = 2 : i32, nv_tileas.shared_memory = 24576 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %bq = nv_tileas.alloc_tensor {offset = 0 : i32} : !nv_tileas.buffer<1, !q>
    %bb = nv_tileas.alloc_tensor {offset = 16384 : i32} : !nv_tileas.buffer<1, !b>
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1] num_warps = [8] {
      %q = nv_tileas.copy %bq[%zero : i32] : !nv_tileas.buffer<1, !q> -> !q
      %b = nv_tileas.copy %bb[%zero : i32] : !nv_tileas.buffer<1, !b> -> !b
      %none = nv_tileas.async.create_none : !flying
      %o = scf.for %i = %zero to %n step %one iter_args(%acc = %none) -> (!flying) : i32 {
        %next = nv_tileas.async.dot %q, %b, %acc {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">} : !q, !b -> !flying
        nv_tileas.async.commit_dots
        nv_tileas.async.future_wait {pending = 1 : i32} : () -> ()
        scf.yield %next : !flying
      } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>}
      %d = nv_tileas.async.future_wait %o {pending = 0 : i32} : (!flying) -> !c
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}

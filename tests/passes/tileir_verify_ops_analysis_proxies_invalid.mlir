// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --tileir-verify-ops-analysis=compute-capability=sm_90

// What stands between threads that write shared memory and dots that read it, and between these and the next write.

#acc = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
#x = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]]>
#k = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 8], [8, 0], [16, 0], [32, 0]]>
#n = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0]]>
!a = tensor<64x16xf16, #k>
!b = tensor<16x64xf16, #n>
!c = tensor<64x64xf32, #acc>
!t = tensor<64x16xf16, #x>
!f = !nv_tileas.in_flight<!c>
#spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>

builtin.module {
  nv_tileaa.func @right(%b: !b) attributes {kernel_spec = #spec, target_spec = "sm_90", nv_tileas.shared_memory = 8192 : i32, nv_tileas.named_barriers = 1 : i32, nv_tileas.block_warps = 4 : i32} {
    %z = arith.constant 0 : i32
    %x = arith.constant dense<1.0> : tensor<64x16xf16> as !t
    %q = nv_tileas.alloc_tensor {offset = 0 : i32} : !nv_tileas.buffer<1, !a>
    nv_tileas.store_tensor %x into %q[%z : i32] : !t, !nv_tileas.buffer<1, !a>
    nv_tileas.fence_proxy_async
    nv_tileas.barrier id = 0
    %a = nv_tileas.copy %q[%z : i32] : !nv_tileas.buffer<1, !a> -> !a
    %f = nv_tileas.async.create_none : !f
    %g = nv_tileas.async.dot %a, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">, overwrites} : !a, !b -> !f
    nv_tileas.async.commit_dots
    %d = nv_tileas.async.future_wait %g {pending = 0 : i32} : (!f) -> !c
    nv_tileas.barrier id = 0
    nv_tileas.store_tensor %x into %q[%z : i32] : !t, !nv_tileas.buffer<1, !a>
    nv_tileaa.return
  }
}

// -----

#acc = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
#x = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]]>
#k = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 8], [8, 0], [16, 0], [32, 0]]>
#n = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0]]>
!a = tensor<64x16xf16, #k>
!b = tensor<16x64xf16, #n>
!c = tensor<64x64xf32, #acc>
!t = tensor<64x16xf16, #x>
!f = !nv_tileas.in_flight<!c>
#spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>

builtin.module {
  nv_tileaa.func @fence_behind_the_barrier(%b: !b) attributes {kernel_spec = #spec, target_spec = "sm_90", nv_tileas.shared_memory = 8192 : i32, nv_tileas.named_barriers = 1 : i32, nv_tileas.block_warps = 4 : i32} {
    %z = arith.constant 0 : i32
    %x = arith.constant dense<1.0> : tensor<64x16xf16> as !t
    %q = nv_tileas.alloc_tensor {offset = 0 : i32} : !nv_tileas.buffer<1, !a>
    nv_tileas.store_tensor %x into %q[%z : i32] : !t, !nv_tileas.buffer<1, !a>
    nv_tileas.barrier id = 0
    nv_tileas.fence_proxy_async
    %a = nv_tileas.copy %q[%z : i32] : !nv_tileas.buffer<1, !a> -> !a
    %f = nv_tileas.async.create_none : !f
    %g = nv_tileas.async.dot %a, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">, overwrites} : !a, !b -> !f
    nv_tileas.async.commit_dots
    %d = nv_tileas.async.future_wait %g {pending = 0 : i32} : (!f) -> !c
    nv_tileaa.return
  }
}

// -----

#acc = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
#x = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]]>
#k = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 8], [8, 0], [16, 0], [32, 0]]>
#n = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0]]>
!a = tensor<64x16xf16, #k>
!b = tensor<16x64xf16, #n>
!c = tensor<64x64xf32, #acc>
!t = tensor<64x16xf16, #x>
!f = !nv_tileas.in_flight<!c>
#spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>

builtin.module {
  nv_tileaa.func @without_a_fence(%b: !b) attributes {kernel_spec = #spec, target_spec = "sm_90", nv_tileas.shared_memory = 8192 : i32, nv_tileas.named_barriers = 1 : i32, nv_tileas.block_warps = 4 : i32} {
    %z = arith.constant 0 : i32
    %x = arith.constant dense<1.0> : tensor<64x16xf16> as !t
    %q = nv_tileas.alloc_tensor {offset = 0 : i32} : !nv_tileas.buffer<1, !a>
    nv_tileas.store_tensor %x into %q[%z : i32] : !t, !nv_tileas.buffer<1, !a>
    nv_tileas.barrier id = 0
    %a = nv_tileas.copy %q[%z : i32] : !nv_tileas.buffer<1, !a> -> !a
    %f = nv_tileas.async.create_none : !f
    // expected-error@+1 {{'nv_tileas.async.dot' op reads shared memory that 'nv_tileas.store_tensor' wrote by the generic proxy: no fence stands between}}
    %g = nv_tileas.async.dot %a, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">, overwrites} : !a, !b -> !f
    nv_tileas.async.commit_dots
    %d = nv_tileas.async.future_wait %g {pending = 0 : i32} : (!f) -> !c
    nv_tileaa.return
  }
}

// -----

#acc = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
#x = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]]>
#k = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 8], [8, 0], [16, 0], [32, 0]]>
#n = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0]]>
!a = tensor<64x16xf16, #k>
!b = tensor<16x64xf16, #n>
!c = tensor<64x64xf32, #acc>
!t = tensor<64x16xf16, #x>
!f = !nv_tileas.in_flight<!c>
#spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>

builtin.module {
  nv_tileaa.func @without_a_barrier(%b: !b) attributes {kernel_spec = #spec, target_spec = "sm_90", nv_tileas.shared_memory = 8192 : i32, nv_tileas.named_barriers = 1 : i32, nv_tileas.block_warps = 4 : i32} {
    %z = arith.constant 0 : i32
    %x = arith.constant dense<1.0> : tensor<64x16xf16> as !t
    %q = nv_tileas.alloc_tensor {offset = 0 : i32} : !nv_tileas.buffer<1, !a>
    nv_tileas.store_tensor %x into %q[%z : i32] : !t, !nv_tileas.buffer<1, !a>
    nv_tileas.fence_proxy_async
    %a = nv_tileas.copy %q[%z : i32] : !nv_tileas.buffer<1, !a> -> !a
    %f = nv_tileas.async.create_none : !f
    // expected-error@+1 {{'nv_tileas.async.dot' op reads shared memory that 'nv_tileas.store_tensor' wrote for other threads: no barrier stands between}}
    %g = nv_tileas.async.dot %a, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">, overwrites} : !a, !b -> !f
    nv_tileas.async.commit_dots
    %d = nv_tileas.async.future_wait %g {pending = 0 : i32} : (!f) -> !c
    nv_tileaa.return
  }
}

// -----

#acc = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
#x = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]]>
#k = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 8], [8, 0], [16, 0], [32, 0]]>
#n = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0]]>
!a = tensor<64x16xf16, #k>
!b = tensor<16x64xf16, #n>
!c = tensor<64x64xf32, #acc>
!t = tensor<64x16xf16, #x>
!f = !nv_tileas.in_flight<!c>
#spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>

builtin.module {
  nv_tileaa.func @fence_before_the_store(%b: !b) attributes {kernel_spec = #spec, target_spec = "sm_90", nv_tileas.shared_memory = 8192 : i32, nv_tileas.named_barriers = 1 : i32, nv_tileas.block_warps = 4 : i32} {
    %z = arith.constant 0 : i32
    %x = arith.constant dense<1.0> : tensor<64x16xf16> as !t
    %q = nv_tileas.alloc_tensor {offset = 0 : i32} : !nv_tileas.buffer<1, !a>
    nv_tileas.fence_proxy_async
    nv_tileas.store_tensor %x into %q[%z : i32] : !t, !nv_tileas.buffer<1, !a>
    nv_tileas.barrier id = 0
    %a = nv_tileas.copy %q[%z : i32] : !nv_tileas.buffer<1, !a> -> !a
    %f = nv_tileas.async.create_none : !f
    // expected-error@+1 {{'nv_tileas.async.dot' op reads shared memory that 'nv_tileas.store_tensor' wrote by the generic proxy: no fence stands between}}
    %g = nv_tileas.async.dot %a, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">, overwrites} : !a, !b -> !f
    nv_tileas.async.commit_dots
    %d = nv_tileas.async.future_wait %g {pending = 0 : i32} : (!f) -> !c
    nv_tileaa.return
  }
}

// -----

#acc = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
#x = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]]>
#k = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 8], [8, 0], [16, 0], [32, 0]]>
#n = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0]]>
!a = tensor<64x16xf16, #k>
!b = tensor<16x64xf16, #n>
!c = tensor<64x64xf32, #acc>
!t = tensor<64x16xf16, #x>
!f = !nv_tileas.in_flight<!c>
#spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>

builtin.module {
  nv_tileaa.func @without_a_wait(%b: !b) attributes {kernel_spec = #spec, target_spec = "sm_90", nv_tileas.shared_memory = 8192 : i32, nv_tileas.named_barriers = 1 : i32, nv_tileas.block_warps = 4 : i32} {
    %z = arith.constant 0 : i32
    %x = arith.constant dense<1.0> : tensor<64x16xf16> as !t
    %q = nv_tileas.alloc_tensor {offset = 0 : i32} : !nv_tileas.buffer<1, !a>
    nv_tileas.store_tensor %x into %q[%z : i32] : !t, !nv_tileas.buffer<1, !a>
    nv_tileas.fence_proxy_async
    nv_tileas.barrier id = 0
    %a = nv_tileas.copy %q[%z : i32] : !nv_tileas.buffer<1, !a> -> !a
    %f = nv_tileas.async.create_none : !f
    %g = nv_tileas.async.dot %a, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">, overwrites} : !a, !b -> !f
    nv_tileas.async.commit_dots
    nv_tileas.barrier id = 0
    // expected-error@+1 {{'nv_tileas.store_tensor' op overwrites shared memory that 'nv_tileas.async.dot' still reads: it is not waited for}}
    nv_tileas.store_tensor %x into %q[%z : i32] : !t, !nv_tileas.buffer<1, !a>
    %d = nv_tileas.async.future_wait %g {pending = 0 : i32} : (!f) -> !c
    nv_tileaa.return
  }
}

// -----

#acc = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
#x = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]]>
#k = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 8], [8, 0], [16, 0], [32, 0]]>
#n = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0]]>
!a = tensor<64x16xf16, #k>
!b = tensor<16x64xf16, #n>
!c = tensor<64x64xf32, #acc>
!t = tensor<64x16xf16, #x>
!f = !nv_tileas.in_flight<!c>
#spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>

builtin.module {
  nv_tileaa.func @wait_of_each_warpgroup(%b: !b) attributes {kernel_spec = #spec, target_spec = "sm_90", nv_tileas.shared_memory = 8192 : i32, nv_tileas.named_barriers = 1 : i32, nv_tileas.block_warps = 4 : i32} {
    %z = arith.constant 0 : i32
    %x = arith.constant dense<1.0> : tensor<64x16xf16> as !t
    %q = nv_tileas.alloc_tensor {offset = 0 : i32} : !nv_tileas.buffer<1, !a>
    nv_tileas.store_tensor %x into %q[%z : i32] : !t, !nv_tileas.buffer<1, !a>
    nv_tileas.fence_proxy_async
    nv_tileas.barrier id = 0
    %a = nv_tileas.copy %q[%z : i32] : !nv_tileas.buffer<1, !a> -> !a
    %f = nv_tileas.async.create_none : !f
    %g = nv_tileas.async.dot %a, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">, overwrites} : !a, !b -> !f
    nv_tileas.async.commit_dots
    %d = nv_tileas.async.future_wait %g {pending = 0 : i32} : (!f) -> !c
    // expected-error@+1 {{'nv_tileas.store_tensor' op overwrites shared memory that 'nv_tileas.async.dot' has read for other threads: no barrier stands between}}
    nv_tileas.store_tensor %x into %q[%z : i32] : !t, !nv_tileas.buffer<1, !a>
    nv_tileaa.return
  }
}

// -----

#acc = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
#x = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]]>
#k = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 8], [8, 0], [16, 0], [32, 0]]>
#n = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0]]>
!a = tensor<64x16xf16, #k>
!b = tensor<16x64xf16, #n>
!c = tensor<64x64xf32, #acc>
!t = tensor<64x16xf16, #x>
!f = !nv_tileas.in_flight<!c>
#spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>

builtin.module {
  nv_tileaa.func @around_a_loop(%b: !b) attributes {kernel_spec = #spec, target_spec = "sm_90", nv_tileas.shared_memory = 8192 : i32, nv_tileas.named_barriers = 1 : i32, nv_tileas.block_warps = 4 : i32} {
    %z = arith.constant 0 : i32
    %x = arith.constant dense<1.0> : tensor<64x16xf16> as !t
    %q = nv_tileas.alloc_tensor {offset = 0 : i32} : !nv_tileas.buffer<1, !a>
    %one = arith.constant 1 : i32
    %n = arith.constant 4 : i32
    scf.for %i = %z to %n step %one : i32 {
      // expected-error@+1 {{'nv_tileas.store_tensor' op overwrites shared memory that 'nv_tileas.async.dot' has read for other threads: no barrier stands between}}
      nv_tileas.store_tensor %x into %q[%z : i32] : !t, !nv_tileas.buffer<1, !a>
      nv_tileas.fence_proxy_async
      nv_tileas.barrier id = 0
      %a = nv_tileas.copy %q[%z : i32] : !nv_tileas.buffer<1, !a> -> !a
      %f = nv_tileas.async.create_none : !f
      %g = nv_tileas.async.dot %a, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">, overwrites} : !a, !b -> !f
      nv_tileas.async.commit_dots
      %d = nv_tileas.async.future_wait %g {pending = 0 : i32} : (!f) -> !c
      scf.yield
    } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>}
    nv_tileaa.return
  }
}

// -----

#acc = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
#x = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]]>
#k = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 8], [8, 0], [16, 0], [32, 0]]>
#n = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0]]>
!a = tensor<64x16xf16, #k>
!b = tensor<16x64xf16, #n>
!c = tensor<64x64xf32, #acc>
!t = tensor<64x16xf16, #x>
!f = !nv_tileas.in_flight<!c>
#spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>

builtin.module {
  nv_tileaa.func @on_one_way_only(%b: !b) attributes {kernel_spec = #spec, target_spec = "sm_90", nv_tileas.shared_memory = 8192 : i32, nv_tileas.named_barriers = 1 : i32, nv_tileas.block_warps = 4 : i32} {
    %z = arith.constant 0 : i32
    %x = arith.constant dense<1.0> : tensor<64x16xf16> as !t
    %q = nv_tileas.alloc_tensor {offset = 0 : i32} : !nv_tileas.buffer<1, !a>
    nv_tileas.store_tensor %x into %q[%z : i32] : !t, !nv_tileas.buffer<1, !a>
    %no = arith.constant false
    scf.if %no {
      nv_tileas.fence_proxy_async
      scf.yield
    }
    nv_tileas.barrier id = 0
    %a = nv_tileas.copy %q[%z : i32] : !nv_tileas.buffer<1, !a> -> !a
    %f = nv_tileas.async.create_none : !f
    // expected-error@+1 {{'nv_tileas.async.dot' op reads shared memory that 'nv_tileas.store_tensor' wrote by the generic proxy: no fence stands between}}
    %g = nv_tileas.async.dot %a, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">, overwrites} : !a, !b -> !f
    nv_tileas.async.commit_dots
    %d = nv_tileas.async.future_wait %g {pending = 0 : i32} : (!f) -> !c
    nv_tileaa.return
  }
}

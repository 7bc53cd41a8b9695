// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --tileir-verify-ops-analysis=compute-capability=sm_80

#own = #nv_tileas.linear<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>
module {
  nv_tileaa.func @places() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_80"} {
    %a = nv_tileas.alloc_tensor {offset = 0 : i32} : !nv_tileas.buffer<1, tensor<64xf32, #own>>
    // expected-error @below {{'nv_tileas.alloc_tensor' op lies at byte 128 of shared memory, where another buffer lives}}
    %b = nv_tileas.alloc_tensor {offset = 128 : i32} : !nv_tileas.buffer<1, tensor<64xf32, #own>>
    nv_tileas.dealloc_tensor %a : !nv_tileas.buffer<1, tensor<64xf32, #own>>
    %c = nv_tileas.alloc_tensor {offset = 128 : i32} : !nv_tileas.buffer<1, tensor<64xf32, #own>>
    // expected-error @below {{'nv_tileas.alloc_tensor' op expects an offset that is a multiple of 128, got 64}}
    %d = nv_tileas.alloc_tensor {offset = 64 : i32} : !nv_tileas.buffer<1, tensor<64xf32, #own>>
    // expected-error @below {{'nv_tileas.alloc_tensor' op ends at byte 167168 of shared memory, sm_80 has 166912}}
    %e = nv_tileas.alloc_tensor {offset = 166912 : i32} : !nv_tileas.buffer<1, tensor<64xf32, #own>>
    nv_tileaa.return
  }
}

// -----

#rows = #nv_tileas.linear<register = [[0, 1], [0, 2]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0]]>
#turned = #nv_tileas.linear<register = [[0, 1], [0, 2]], lane = [[32, 0], [16, 0], [8, 0], [4, 0], [2, 0]], warp = [[1, 0]]>
!rows = tensor<64x4xi32, #rows>
!turned = tensor<64x4xi32, #turned>
module {
  nv_tileaa.func @areas() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, nv_tileas.block_warps = 2 : i32, nv_tileas.named_barriers = 1 : i32, nv_tileas.shared_memory = 4096 : i32, target_spec = "sm_80"} {
    %x = arith.constant dense<1> : tensor<64x4xi32> as !rows
    // expected-error @below {{'nv_tileas.convert_layout' op has 0 areas of scratch memory and needs 1}}
    %0 = nv_tileas.convert_layout %x : !rows -> !turned
    // expected-error @below {{'nv_tileas.convert_layout' op takes 1024 bytes through 512 bytes of scratch memory in 1 rounds}}
    %1 = nv_tileas.convert_layout %x {nv_tileas.scratch = [#nv_tileas.scratch<offset = 0, bytes = 512, barrier = 0>]} : !rows -> !turned
    // expected-error @below {{'nv_tileas.convert_layout' op expects an offset that is a multiple of 128, got 64}}
    %2 = nv_tileas.convert_layout %x {nv_tileas.scratch = [#nv_tileas.scratch<offset = 64, bytes = 1024, barrier = 0>]} : !rows -> !turned
    // expected-error @below {{'nv_tileas.convert_layout' op ends at byte 5120 of shared memory, the function has 4096}}
    %3 = nv_tileas.convert_layout %x {nv_tileas.scratch = [#nv_tileas.scratch<offset = 4096, bytes = 1024, barrier = 0>]} : !rows -> !turned
    // expected-error @below {{'nv_tileas.convert_layout' op waits at barrier 1, the function has 1}}
    %4 = nv_tileas.convert_layout %x {nv_tileas.scratch = [#nv_tileas.scratch<offset = 0, bytes = 1024, barrier = 1, threads = 64>]} : !rows -> !turned
    // expected-error @below {{'nv_tileas.convert_layout' op waits for 128 threads, a CTA has 64}}
    %5 = nv_tileas.convert_layout %x {nv_tileas.scratch = [#nv_tileas.scratch<offset = 0, bytes = 1024, barrier = 0, threads = 128>]} : !rows -> !turned
    // expected-error @below {{'nv_tileas.barrier' op waits at barrier 2, the function has 1}}
    nv_tileas.barrier id = 2 threads = 64
    // expected-error @below {{'nv_tileas.convert_layout' op joins an area of scratch memory that is not there}}
    %6 = nv_tileas.convert_layout %x {nv_tileas.scratch = [#nv_tileas.scratch<offset = 0, bytes = 1024, joins = true, barrier = 0>]} : !rows -> !turned
    %z = arith.addi %x, %x : !rows
    %7 = nv_tileas.convert_layout %x {nv_tileas.scratch = [#nv_tileas.scratch<offset = 0, bytes = 1024, barrier = 0>]} : !rows -> !turned
    // expected-error @below {{'nv_tileas.convert_layout' op lies at byte 512 of shared memory, in an area that it joins}}
    %8 = nv_tileas.convert_layout %x {nv_tileas.scratch = [#nv_tileas.scratch<offset = 512, bytes = 1024, joins = true, barrier = 0>]} : !rows -> !turned
    %b = nv_tileas.alloc_tensor {offset = 0 : i32} : !nv_tileas.buffer<1, !rows>
    // expected-error @below {{'nv_tileas.convert_layout' op lies at byte 512 of shared memory, where another buffer lives}}
    %9 = nv_tileas.convert_layout %x {nv_tileas.scratch = [#nv_tileas.scratch<offset = 512, bytes = 1024, barrier = 0>]} : !rows -> !turned
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{'nv_tileaa.func' op has 2 warps in a CTA, and 4 that compute tiles}}
  nv_tileaa.func @warps() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, nv_tileas.block_warps = 2 : i32, target_spec = "sm_80"} {
    nv_tileaa.return
  }

  // expected-error @below {{'nv_tileaa.func' op has 4 CTAs in a cluster, and 2 in a tile block}}
  nv_tileaa.func @ctas() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 2>, nv_tileas.cluster_ctas = 4 : i32, target_spec = "sm_80"} {
    nv_tileaa.return
  }

  // expected-error @below {{'nv_tileaa.func' op has 2 CTAs in a cluster, which sm_80 does not have}}
  nv_tileaa.func @cluster() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 2>, nv_tileas.cluster_ctas = 2 : i32, target_spec = "sm_80"} {
    nv_tileaa.return
  }
}

// -----

// expected-error @below {{#nv_tileas.scratch has no parameter 'bytes'}}
module attributes {x = #nv_tileas.scratch<offset = 0>} {
}

// -----

// expected-error @below {{expected an offset of at least 0, and at least one byte and one round}}
module attributes {x = #nv_tileas.scratch<offset = 0, bytes = 0>} {
}

// -----

// expected-error @below {{an exchange through scratch memory in rounds cannot join another}}
module attributes {x = #nv_tileas.scratch<offset = 0, bytes = 64, rounds = 2, joins = true>} {
}

// -----

// expected-error @below {{expected the number of the barrier to wait at}}
module attributes {x = #nv_tileas.scratch<offset = 0, bytes = 64, waits = true>} {
}

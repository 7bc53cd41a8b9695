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

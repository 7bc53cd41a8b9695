// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

#shared = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]]>
!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
!desc = !nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 0], swizzle = 128>
!buffer = !nv_tileas.buffer<1, tensor<64x64xf16, #shared>>
module {
  nv_tileaa.func @f(%d: !desc, %b: !buffer, %i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.async.tma_store' op expects 2 coordinates, but got 3}}
    %t = nv_tileas.async.tma_store %b[%i : i32] to %d[%i, %i, %i] : !buffer, !desc, (i32, i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

#shared = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]]>
!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
!desc = !nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 0], swizzle = 128>
!buffer = !nv_tileas.buffer<1, tensor<64x64xf16, #shared>>
module {
  nv_tileaa.func @f(%d: !desc, %b: !buffer, %i: i64) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.async.tma_store' op expects the number of a stage as i32, got i64}}
    %t = nv_tileas.async.tma_store %b[%i : i64] to %d[%i, %i] : !buffer, !desc, (i64, i64) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

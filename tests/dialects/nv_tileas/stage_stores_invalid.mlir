// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
!desc = !nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 0], swizzle = 128>
module {
  nv_tileaa.func @f(%d: !desc, %q: !nv_tileas.consumer_token, %i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.async.tma_store_stage' op expects 2 coordinates, but got 1}}
    nv_tileas.async.tma_store_stage %q to %d[%i] : !desc, (i32)
    nv_tileaa.return
  }
}

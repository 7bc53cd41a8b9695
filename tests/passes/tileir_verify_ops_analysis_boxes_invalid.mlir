// A descriptor whose boxes do not lie as the buffer does.
// RUN: tileiras-opt %s --verify-diagnostics --tileir-verify-ops-analysis=compute-capability=sm_90

#shared = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]]>
!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
!desc = !nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 0]>
!buffer = !nv_tileas.buffer<1, tensor<64x64xf16, #shared>>
module {
  nv_tileaa.func @f(%d: !desc, %i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !buffer
    // expected-error @below {{'nv_tileas.async.tma_store' op expects a descriptor of box = [64, 64], order = [1, 0], swizzle = 128 for tensor<64x64xf16}}
    %t = nv_tileas.async.tma_store %b[%i : i32] to %d[%i, %i] : !buffer, !desc, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileas.dealloc_tensor %b : !buffer
    nv_tileaa.return
  }
}

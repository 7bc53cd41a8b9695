// RUN: tileiras-opt %s --verify-diagnostics --tileas
// The alignment of an array is that of its base and strides.

!view = !nv_tileaa.tiled_view<[64], !nv_tileaa.memref<?xf32, strides = [1]>>

module {
  nv_tileaa.func @f(%v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %tile = arith.constant dense<0.0> : tensor<64xf32>
    // expected-error @below {{failed to assign layouts: the view is a parameter, whose array is not known}}
    %done = nv_tileaa.tiled_store %tile, %v[%zero] : tensor<64xf32>, !view, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

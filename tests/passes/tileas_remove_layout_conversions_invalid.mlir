// RUN: tileiras-opt %s --verify-diagnostics --tileas
// A tile that is a parameter has the layout of its caller.

module {
  // expected-error @below {{failed to assign layouts: a parameter is a tile without a layout, tensor<64xf32>}}
  nv_tileaa.func @f(%tile: tensor<64xf32>, %to: tensor<64x!nv_tileaa.ptr<f32>>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %token = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %done = nv_tileaa.store %to, %tile token = %token : tensor<64x!nv_tileaa.ptr<f32>>, tensor<64xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

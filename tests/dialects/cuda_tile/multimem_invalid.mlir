// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

entry @one_copy(%p: tile<ptr<f32>>, %i: tile<i32>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>
  // expected-error @below {{expected a multicast pointer, but got none}}
  %0, %1 = multimem_load_reduce_view_tko relaxed sys %w[%i] : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>, tile<i32> -> tile<8xf32>, token
}

// -----

entry @rows(%p: tile<ptr<f32, <multicast>>>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tile<ptr<f32, <multicast>>> -> tensor_view<64xf32, strides=[1], #cuda_tile.ptr_attr<multicast>>
  %w = make_gather_scatter_view %v : gather_scatter_view<tile=(8), tensor_view<64xf32, strides=[1], #cuda_tile.ptr_attr<multicast>>, sparse_dim=0>
  %rows = iota : tile<8xi32>
  // expected-error @below {{multimem view operations support only partition_view; got}}
  %0, %1 = multimem_load_reduce_view_tko relaxed sys %w[%rows] : gather_scatter_view<tile=(8), tensor_view<64xf32, strides=[1], #cuda_tile.ptr_attr<multicast>>, sparse_dim=0>, tile<8xi32> -> tile<8xf32>, token
}

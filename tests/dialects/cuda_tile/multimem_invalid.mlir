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

// -----

entry @reduced_into_a_gpu_pointer(%p: tile<ptr<f32>>, %i: tile<i32>, %x: tile<f32>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>
  %x8 = constant <f32: 0.0> : tile<8xf32>
  // expected-error @below {{'cuda_tile.multimem_reduce_view_tko' op expected a multicast pointer, but got none}}
  %0 = multimem_reduce_view_tko relaxed sys %w, %x8[%i] : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>, tile<8xf32>, tile<i32> -> token
}

// -----

entry @stored_to_a_gpu_pointer(%p: tile<ptr<f32>>, %i: tile<i32>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>
  %x8 = constant <f32: 0.0> : tile<8xf32>
  // expected-error @below {{'cuda_tile.multimem_store_view_tko' op expected a multicast pointer, but got none}}
  %0 = multimem_store_view_tko weak %w, %x8[%i] : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>, tile<8xf32>, tile<i32> -> token
}

// -----

entry @call_of_nothing(%i: tile<i32>) {
  // expected-error @below {{'cuda_tile.preview$call' op requires attribute 'callee'}}
  %0 = "cuda_tile.preview$call"(%i) {const_args = [4 : i32]} : (!cuda_tile.tile<i32>) -> !cuda_tile.tile<i32>
}

// -----

cuda_tile.module @m {
  entry @call_of_an_entry() {
    // expected-error @below {{'cuda_tile.preview$call' op 'call_of_an_entry' does not reference a valid preview$func}}
    "cuda_tile.preview$call"() {callee = @call_of_an_entry, const_args = []} : () -> ()
    return
  }
}

// -----

entry @bytes(%p: tile<ptr<i8, <multicast>>>, %i: tile<i32>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xi8, strides=[1], #cuda_tile.ptr_attr<multicast>>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xi8, strides=[1], #cuda_tile.ptr_attr<multicast>>>
  // expected-error @below {{multimem requires 32- or 64-bit integer/index element types; got 8 bits}}
  %0, %1 = multimem_load_reduce_view_tko relaxed sys %w[%i] : partition_view<tile=(8), tensor_view<64xi8, strides=[1], #cuda_tile.ptr_attr<multicast>>>, tile<i32> -> tile<8xi8>, token
}

// -----

entry @float_kinds(%p: tile<ptr<f32, <multicast>>>, %i: tile<i32>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1], #cuda_tile.ptr_attr<multicast>>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xf32, strides=[1], #cuda_tile.ptr_attr<multicast>>>
  // expected-error @below {{min/max supports f16 and bf16 float types only; got 'f32'}}
  %0, %1 = multimem_load_reduce_view_tko relaxed sys %w[%i] attributes {reduction = #cuda_tile.multimem_reduction_kind<min>} : partition_view<tile=(8), tensor_view<64xf32, strides=[1], #cuda_tile.ptr_attr<multicast>>>, tile<i32> -> tile<8xf32>, token
}

// -----

entry @updates(%p: tile<ptr<f16, <multicast>>>, %i: tile<i32>) {
  %x = constant <f16: 1.0> : tile<8xf16>
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf16, strides=[1], #cuda_tile.ptr_attr<multicast>>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xf16, strides=[1], #cuda_tile.ptr_attr<multicast>>>
  // expected-error @below {{supports only add for floating-point element types}}
  %0 = multimem_reduce_view_tko relaxed sys %w, %x[%i] attributes {reduction = #cuda_tile.multimem_reduction_kind<max>} : partition_view<tile=(8), tensor_view<64xf16, strides=[1], #cuda_tile.ptr_attr<multicast>>>, tile<8xf16>, tile<i32> -> token
}

// -----

entry @order(%p: tile<ptr<f16, <multicast>>>, %i: tile<i32>) {
  %x = constant <f16: 1.0> : tile<8xf16>
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf16, strides=[1], #cuda_tile.ptr_attr<multicast>>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xf16, strides=[1], #cuda_tile.ptr_attr<multicast>>>
  // expected-error @below {{memory ordering semantics must be one of: relaxed, release}}
  %0 = multimem_reduce_view_tko acq_rel sys %w, %x[%i] : partition_view<tile=(8), tensor_view<64xf16, strides=[1], #cuda_tile.ptr_attr<multicast>>>, tile<8xf16>, tile<i32> -> token
}

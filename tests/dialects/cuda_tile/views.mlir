// RUN: tileiras-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: entry @static_tensor
entry @static_tensor(%p: tile<ptr<f32>>, %i: tile<i32>) {
  // CHECK: %tview = make_tensor_view %arg0, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xf32, strides=[32,1]>
  %v = make_tensor_view %p, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xf32, strides=[32,1]>
  // CHECK: %0:2 = get_tensor_shape %tview : tensor_view<64x32xf32, strides=[32,1]> -> tile<i64>
  %s:2 = get_tensor_shape %v : tensor_view<64x32xf32, strides=[32,1]> -> tile<i64>
  // CHECK: %pview = make_partition_view %tview : partition_view<tile=(8x4), padding_value = nan, tensor_view<64x32xf32, strides=[32,1]>, dim_map=[1, 0]>
  %w = make_partition_view %v : partition_view<tile=(8x4), padding_value = nan, tensor_view<64x32xf32, strides=[32,1]>, dim_map=[1, 0]>
  // CHECK: %1:2 = get_index_space_shape %pview : partition_view<{{.*}}> -> tile<i32>
  %n:2 = get_index_space_shape %w : partition_view<tile=(8x4), padding_value = nan, tensor_view<64x32xf32, strides=[32,1]>, dim_map=[1, 0]> -> tile<i32>
}

// CHECK-LABEL: entry @dynamic_tensor
entry @dynamic_tensor(%p: tile<ptr<f16>>, %n: tile<i64>, %i: tile<i32>) {
  // CHECK: %tview = make_tensor_view %arg0, shape = [%arg1, 64], strides = [%arg1, 1] : tile<i64> -> tensor_view<?x64xf16, strides=[?,1]>
  %v = make_tensor_view %p, shape = [%n, 64], strides = [%n, 1] : tile<i64> -> tensor_view<?x64xf16, strides=[?,1]>
  %w = make_partition_view %v : partition_view<tile=(16x16), tensor_view<?x64xf16, strides=[?,1]>>
  // CHECK: %tile, %result_token = load_view_tko weak %pview[%arg2, %arg2] : partition_view<{{.*}}>, tile<i32> -> tile<16x16xf16>, token
  %0, %1 = load_view_tko weak %w[%i, %i] : partition_view<tile=(16x16), tensor_view<?x64xf16, strides=[?,1]>>, tile<i32> -> tile<16x16xf16>, token
  // CHECK: load_view_tko acquire device %pview[%arg2, %arg2] token = %result_token optimization_hints = <sm_90 = {allow_tma = false, latency = 3}> inbounds = [true, false] : partition_view
  %2, %3 = load_view_tko acquire device %w[%i, %i] token = %1 optimization_hints = <sm_90 = {allow_tma = false, latency = 3}> inbounds = [true, false] : partition_view<tile=(16x16), tensor_view<?x64xf16, strides=[?,1]>>, tile<i32> -> tile<16x16xf16>, token
  // CHECK: store_view_tko weak %tile, %pview[%arg2, %arg2] token = %{{.*}} : tile<16x16xf16>, partition_view<{{.*}}>, tile<i32> -> token
  %4 = store_view_tko weak %0, %w[%i, %i] token = %3 : tile<16x16xf16>, partition_view<tile=(16x16), tensor_view<?x64xf16, strides=[?,1]>>, tile<i32> -> token
}

// Flags that promise nothing are what leaving them out says.
// CHECK-LABEL: entry @no_promise
entry @no_promise(%p: tile<ptr<f32>>, %i: tile<i32>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>
  // CHECK: load_view_tko weak %pview[%arg1] : partition_view
  %0:2 = "cuda_tile.load_view_tko"(%w, %i) <{inbounds = array<i1: false>, memory_ordering_semantics = 0 : i32, operandSegmentSizes = array<i32: 1, 1, 0>}> : (!cuda_tile.partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>, !cuda_tile.tile<i32>) -> (!cuda_tile.tile<8xf32>, !cuda_tile.token)
  // CHECK: load_view_tko weak %pview[%arg1] : partition_view
  %1, %2 = load_view_tko weak %w[%i] inbounds = [false] : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>, tile<i32> -> tile<8xf32>, token
  // CHECK: store_view_tko weak %{{.*}}, %pview[%arg1] : tile<8xf32>
  %3 = "cuda_tile.store_view_tko"(%1, %w, %i) <{memory_ordering_semantics = 0 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!cuda_tile.tile<8xf32>, !cuda_tile.partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>, !cuda_tile.tile<i32>) -> !cuda_tile.token
}

// CHECK-LABEL: entry @other_views
entry @other_views(%p: tile<ptr<f64>>, %i: tile<i32>) {
  %v = make_tensor_view %p, shape = [64, 16], strides = [16, 1] : tensor_view<64x16xf64, strides=[16,1]>
  // CHECK: %sview = make_strided_view %tview : strided_view<tile=(8x8), traversal_strides=[4,8], padding_value = zero, tensor_view<64x16xf64, strides=[16,1]>>
  %s = make_strided_view %v : strided_view<tile=(8x8), traversal_strides=[4,8], padding_value = zero, tensor_view<64x16xf64, strides=[16,1]>>
  %0, %1 = load_view_tko weak %s[%i, %i] : strided_view<tile=(8x8), traversal_strides=[4,8], padding_value = zero, tensor_view<64x16xf64, strides=[16,1]>>, tile<i32> -> tile<8x8xf64>, token
  // CHECK: %gsview = make_gather_scatter_view %tview : gather_scatter_view<tile=(8x16), tensor_view<64x16xf64, strides=[16,1]>, sparse_dim=0>
  %g = make_gather_scatter_view %v : gather_scatter_view<tile=(8x16), tensor_view<64x16xf64, strides=[16,1]>, sparse_dim=0>
  %rows = iota : tile<8xi32>
  // Indices of different types are listed one by one.
  // CHECK: load_view_tko weak %gsview[%{{.*}}, %arg1] : gather_scatter_view<{{.*}}>, tile<8xi32>, tile<i32> -> tile<8x16xf64>, token
  %2, %3 = load_view_tko weak %g[%rows, %i] : gather_scatter_view<tile=(8x16), tensor_view<64x16xf64, strides=[16,1]>, sparse_dim=0>, tile<8xi32>, tile<i32> -> tile<8x16xf64>, token
}

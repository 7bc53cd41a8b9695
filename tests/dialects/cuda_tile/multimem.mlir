// RUN: tileiras-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: entry @multicast(%arg0: tile<ptr<f32, <multicast>>>, %arg1: tile<i32>)
entry @multicast(%p: tile<ptr<f32, <multicast>>>, %i: tile<i32>) {
  // CHECK: %tview = make_tensor_view %arg0, shape = [%arg1], strides = [1] : tile<ptr<f32, <multicast>>>, tile<i32> -> tensor_view<?xf32, strides=[1], #cuda_tile.ptr_attr<multicast>>
  %v = make_tensor_view %p, shape = [%i], strides = [1] : tile<ptr<f32, <multicast>>>, tile<i32> -> tensor_view<?xf32, strides=[1], #cuda_tile.ptr_attr<multicast>>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<?xf32, strides=[1], #cuda_tile.ptr_attr<multicast>>>
  // CHECK: %reduced_values, %result_token = multimem_load_reduce_view_tko relaxed sys %pview[%arg1] inbounds = [true] : partition_view<{{.*}}>, tile<i32> -> tile<8xf32>, token
  %0, %1 = multimem_load_reduce_view_tko relaxed sys %w[%i] inbounds = [true] : partition_view<tile=(8), tensor_view<?xf32, strides=[1], #cuda_tile.ptr_attr<multicast>>>, tile<i32> -> tile<8xf32>, token
  // CHECK: multimem_reduce_view_tko relaxed sys %pview, %reduced_values[%arg1] token = %result_token : partition_view<{{.*}}>, tile<8xf32>, tile<i32>, token -> token
  %2 = multimem_reduce_view_tko relaxed sys %w, %0[%i] token = %1 : partition_view<tile=(8), tensor_view<?xf32, strides=[1], #cuda_tile.ptr_attr<multicast>>>, tile<8xf32>, tile<i32>, token -> token
  // CHECK: multimem_store_view_tko weak %pview, %reduced_values[%arg1] : partition_view<{{.*}}>, tile<8xf32>, tile<i32> -> token
  %3 = multimem_store_view_tko weak %w, %0[%i] : partition_view<tile=(8), tensor_view<?xf32, strides=[1], #cuda_tile.ptr_attr<multicast>>>, tile<8xf32>, tile<i32> -> token
}

// CHECK-LABEL: entry @integers
entry @integers(%p: tile<ptr<i32, <multicast>>>, %i: tile<i32>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xi32, strides=[1], #cuda_tile.ptr_attr<multicast>>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xi32, strides=[1], #cuda_tile.ptr_attr<multicast>>>
  %x = constant <i32: 1> : tile<8xi32>
  // CHECK: multimem_reduce_view_tko release device %pview, %{{.*}}[%arg1] attributes {reduction = #cuda_tile.multimem_reduction_kind<max>} : partition_view<{{.*}}>, tile<8xi32>, tile<i32> -> token
  %0 = multimem_reduce_view_tko release device %w, %x[%i] attributes {reduction = #cuda_tile.multimem_reduction_kind<max>} : partition_view<tile=(8), tensor_view<64xi32, strides=[1], #cuda_tile.ptr_attr<multicast>>>, tile<8xi32>, tile<i32> -> token
}

// CHECK-LABEL: entry @call
entry @call(%i: tile<i32>) {
  // CHECK: %0 = preview$call @f(%arg0) : (!cuda_tile.tile<i32>) -> !cuda_tile.tile<i32>
  %0 = "cuda_tile.preview$call"(%i) {callee = @f, const_args = []} : (!cuda_tile.tile<i32>) -> !cuda_tile.tile<i32>
  // CHECK: preview$call @g() {arg_attrs = [{access = "in"}], res_attrs = []} : () -> ()
  preview$call @g() {arg_attrs = [{access = "in"}], res_attrs = []} : () -> ()
}

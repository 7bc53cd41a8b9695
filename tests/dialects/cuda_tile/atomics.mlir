// RUN: tileiras-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: entry @pointers
entry @pointers(%p: tile<ptr<i32>>, %i: tile<i32>, %m: tile<i1>) {
  %t = make_token : token
  // CHECK: atomic_rmw_tko relaxed device %arg0, add, %arg1 : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
  %0, %1 = atomic_rmw_tko relaxed device %p, add, %i : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
  // CHECK: atomic_rmw_tko acq_rel sys %arg0, umax, %arg1, %arg2 token=%0 : tile<ptr<i32>>, tile<i32>, tile<i1> -> tile<i32>, token
  %2, %3 = atomic_rmw_tko acq_rel sys %p, umax, %i, %m token=%t : tile<ptr<i32>>, tile<i32>, tile<i1> -> tile<i32>, token
  // CHECK: atomic_cas_tko acquire tl_blk %arg0, %arg1, %arg1, %arg2 : tile<ptr<i32>>, tile<i32>, tile<i1> -> tile<i32>, token
  %4, %5 = atomic_cas_tko acquire tl_blk %p, %i, %i, %m : tile<ptr<i32>>, tile<i32>, tile<i1> -> tile<i32>, token
}

// CHECK-LABEL: entry @view
entry @view(%p: tile<ptr<f32>>, %i: tile<i32>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>
  %x = constant <f32: 1.0> : tile<8xf32>
  // CHECK: atomic_red_view_tko relaxed device %pview[%arg1], addf, %{{.*}} : tile<8xf32>, partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
  %0 = atomic_red_view_tko relaxed device %w[%i], addf, %x : tile<8xf32>, partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
  // CHECK: atomic_red_view_tko relaxed tl_blk %pview[%arg1], addf, %{{.*}} token = %{{.*}} inbounds = [true] : tile<8xf32>
  %1 = atomic_red_view_tko relaxed tl_blk %w[%i], addf, %x token = %0 inbounds = [true] : tile<8xf32>, partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
}

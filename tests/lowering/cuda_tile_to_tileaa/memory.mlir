// RUN: tileiras-opt %s --convert-cudatile-to-tileaa=compute-capability=sm_90 | FileCheck %s

// CHECK-LABEL: nv_tileaa.func @views(%arg0: !nv_tileaa.ptr<f32>, %arg1: i32)
builtin.module {
cuda_tile.module @kernels {
  entry @views(%p: tile<ptr<f32>>, %n: tile<i32>) {
    // CHECK: %[[P:.*]] = nv_tileaa.assume #nv_tileaa.div_by<16>, %arg0
    %q = assume div_by<16>, %p : tile<ptr<f32>>
    // CHECK: %[[N:.*]] = nv_tileaa.assume #nv_tileaa.bounded<0, ?>, %arg1
    %m = assume bounded<0, ?>, %n : tile<i32>
    // CHECK: %[[T:.*]] = nv_tileaa.create_mem_token
    %t = make_token : token
    // CHECK: %[[M:.*]] = nv_tileaa.make_memref %[[P]], sizes = [%[[N]]], strides = [%[[N]]]
    // CHECK-SAME: !nv_tileaa.memref<8x?xf32, strides = [?, 1]>
    %v = make_tensor_view %q, shape = [8, %m], strides = [%m, 1] : tile<i32> -> tensor_view<8x?xf32, strides=[?,1]>
    // CHECK: %[[V:.*]] = nv_tileaa.block_tile %[[M]]
    // CHECK-SAME: padding = #nv_tileaa.padding_value<zero>
    %w = make_partition_view %v : partition_view<tile=(4x16), padding_value = zero, tensor_view<8x?xf32, strides=[?,1]>>
    // Tiles along a dimension: a constant where the size is one, else the size over the tile's, rounded up.
    // CHECK: arith.constant 2 : i32
    // CHECK: %[[D:.*]] = nv_tileaa.get_dim_size %[[M]] {dim = 1 : i64}
    // CHECK: %[[S:.*]] = arith.constant 16 : i32
    // CHECK: %[[K:.*]] = arith.ceildivui %[[D]], %[[S]] : i32
    %i, %j = get_index_space_shape %w : partition_view<tile=(4x16), padding_value = zero, tensor_view<8x?xf32, strides=[?,1]>> -> tile<i32>
    // CHECK: %[[DATA:.*]], %[[AFTER:.*]] = nv_tileaa.tiled_load %[[V]][%{{.*}}, %[[K]]] token = %[[T]]
    %x, %t1 = load_view_tko weak %w[%i, %j] token = %t : partition_view<tile=(4x16), padding_value = zero, tensor_view<8x?xf32, strides=[?,1]>>, tile<i32> -> tile<4x16xf32>, token
    // CHECK: %[[BOTH:.*]] = nv_tileaa.join_mem_token %[[T]], %[[AFTER]]
    %t2 = join_tokens %t, %t1 : token
    // CHECK: nv_tileaa.tiled_store %[[DATA]], %[[V]][{{.*}}] token = %[[BOTH]] {mem_scope = #nv_tileaa.mem_scope<gpu>, mem_semantic = #nv_tileaa.mem_semantic<release>}
    %t3 = store_view_tko release device %x, %w[%i, %j] token = %t2 : tile<4x16xf32>, partition_view<tile=(4x16), padding_value = zero, tensor_view<8x?xf32, strides=[?,1]>>, tile<i32> -> token
    return
  }

  // CHECK-LABEL: nv_tileaa.func @pointers
  entry @pointers(%p: tile<ptr<f32>>, %n: tile<i32>) {
    // CHECK: %[[I:.*]] = nv_tileaa.make_range : tensor<64xi32>
    %i = iota : tile<64xi32>
    %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    // CHECK: %[[P:.*]] = nv_tileaa.splat %arg0 : !nv_tileaa.ptr<f32> -> tensor<64x!nv_tileaa.ptr<f32>>
    %p64 = broadcast %p1 : tile<1xptr<f32>> -> tile<64xptr<f32>>
    // CHECK: %[[A:.*]] = nv_tileaa.addptr %[[P]], %[[I]]
    %a = offset %p64, %i : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>
    %n1 = reshape %n : tile<i32> -> tile<1xi32>
    %n64 = broadcast %n1 : tile<1xi32> -> tile<64xi32>
    // CHECK: %[[MASK:.*]] = arith.cmpi slt, %[[I]]
    %mask = cmpi less_than %i, %n64, signed : tile<64xi32> -> tile<64xi1>
    // CHECK: %[[OTHER:.*]] = arith.constant dense<0.000000e+00>
    %zero = constant <f32: 0.0> : tile<64xf32>
    // CHECK: %[[X:.*]], %[[T:.*]] = nv_tileaa.load %[[A]] mask = %[[MASK]] {{.*}} other = %[[OTHER]]
    %x, %t = load_ptr_tko weak %a, %mask, %zero : tile<64xptr<f32>>, tile<64xi1>, tile<64xf32> -> tile<64xf32>, token
    // CHECK: nv_tileaa.store %[[A]], %[[X]] mask = %[[MASK]] {{.*}} token = %[[T]]
    %t1 = store_ptr_tko weak %a, %x, %mask token = %t : tile<64xptr<f32>>, tile<64xf32>, tile<64xi1> -> token
    return
  }
}
}

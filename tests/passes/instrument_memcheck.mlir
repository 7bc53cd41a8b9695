// RUN: tileiras-opt %s --instrument-memcheck | FileCheck %s

cuda_tile.module @m {
  global @table <i32: [1, 2, 3, 4]> : tile<4xi32>

  // CHECK-LABEL: entry @partition
  entry @partition(%p: tile<ptr<f32>>, %i: tile<i32>, %j: tile<i32>) {
    %v = make_tensor_view %p, shape = [100, 8], strides = [8, 1] : tensor_view<100x8xf32, strides=[8,1]>
    %w = make_partition_view %v : partition_view<tile=(32x8), tensor_view<100x8xf32, strides=[8,1]>>
    // CHECK: %[[N:.*]]:2 = get_index_space_shape
    // CHECK: cmpi less_than %{{.*}}, %[[N]]#0, unsigned : tile<i64> -> tile<i1>
    // CHECK: assert {{.*}}, "{{.*}}instrument_memcheck.mlir:[[@LINE+4]]:14: load_view_tko names no tile of the view along dimension 0"
    // CHECK: cmpi less_than %{{.*}}, %[[N]]#1, unsigned : tile<i64> -> tile<i1>
    // CHECK: assert {{.*}} along dimension 1"
    // CHECK: load_view_tko
    %t, %r = load_view_tko weak %w[%i, %j] : partition_view<tile=(32x8), tensor_view<100x8xf32, strides=[8,1]>>, tile<i32> -> tile<32x8xf32>, token
    return
  }

  // CHECK-LABEL: entry @promised
  entry @promised(%p: tile<ptr<f32>>, %i: tile<i64>) {
    %v = make_tensor_view %p, shape = [100], strides = [1] : tensor_view<100xf32, strides=[1]>
    %w = make_partition_view %v : partition_view<tile=(32), tensor_view<100xf32, strides=[1]>>
    // CHECK: assert
    // CHECK: get_tensor_shape
    // CHECK: muli
    // CHECK: cmpi less_than_or_equal
    // CHECK: assert {{.*}} which 'inbounds' rules out"
    %t, %r = load_view_tko weak %w[%i] inbounds = [true] : partition_view<tile=(32), tensor_view<100xf32, strides=[1]>>, tile<i64> -> tile<32xf32>, token
    return
  }

  // CHECK-LABEL: entry @global
  entry @global(%k: tile<i1>) {
    %i = iota : tile<8xi32>
    %k1 = reshape %k : tile<i1> -> tile<1xi1>
    %m = broadcast %k1 : tile<1xi1> -> tile<8xi1>
    %g = get_global @table : tile<ptr<i32>>
    %s = reshape %g : tile<ptr<i32>> -> tile<1xptr<i32>>
    %b = broadcast %s : tile<1xptr<i32>> -> tile<8xptr<i32>>
    %a = offset %b, %i : tile<8xptr<i32>>, tile<8xi32> -> tile<8xptr<i32>>
    // CHECK: constant <i64: 12> : tile<8xi64>
    // CHECK: cmpi less_than_or_equal {{.*}} -> tile<8xi1>
    // CHECK: xori
    // CHECK: ori
    // CHECK: assert {{.*}} load_ptr_tko leaves the 16 bytes of the memory that its pointers are derived from" : tile<8xi1>
    %t, %r = load_ptr_tko weak %a, %m : tile<8xptr<i32>>, tile<8xi1> -> tile<8xi32>, token
    return
  }

  // Nobody says here how large the memory is.
  // CHECK-LABEL: entry @unknown
  // CHECK-NOT: assert
  // CHECK: return
  entry @unknown(%p: tile<ptr<i32>>, %i: tile<i32>) {
    %a = offset %p, %i : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %t, %r = load_ptr_tko weak %a : tile<ptr<i32>> -> tile<i32>, token
    return
  }
}

"""Kernels that the service compiles when it starts.

A compilation fills caches: layouts and their properties, types, attributes, intrinsics, accessors of operations.  Many
entries are the same for most kernels, and children of the service inherit those of their parent.  There is one kernel
of each kind: a dot in a loop of loads from pointers, a dot in a loop over tiles of views, and a row of a view with
reductions.
"""

SMALL = """\
cuda_tile.module @warm_up {
  entry @sum(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>) {
    %x, %y, %z = get_tile_block_id : tile<i32>
    %first = constant <i32: 0> : tile<i32>
    %step = constant <i32: 1> : tile<i32>
    %ones = constant <i32: 1> : tile<16x16xi32>
    %row = iota : tile<16xi32>
    %column = reshape %row : tile<16xi32> -> tile<1x16xi32>
    %columns = broadcast %column : tile<1x16xi32> -> tile<16x16xi32>
    %offsets = addi %columns, %ones : tile<16x16xi32>
    %zero = constant <f32: 0.0> : tile<16x16xf32>
    %base = reshape %a : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %bases = broadcast %base : tile<1x1xptr<f16>> -> tile<16x16xptr<f16>>
    %from = offset %bases, %offsets : tile<16x16xptr<f16>>, tile<16x16xi32> -> tile<16x16xptr<f16>>
    %out = reshape %c : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %outs = broadcast %out : tile<1x1xptr<f32>> -> tile<16x16xptr<f32>>
    %to = offset %outs, %offsets : tile<16x16xptr<f32>>, tile<16x16xi32> -> tile<16x16xptr<f32>>
    %total = for %i in (%first to %n, step %step) : tile<i32> iter_values(%sum = %zero) -> (tile<16x16xf32>) {
      %value, %t = load_ptr_tko weak %from : tile<16x16xptr<f16>> -> tile<16x16xf16>, token
      %more = mmaf %value, %value, %sum : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>
      continue %more : tile<16x16xf32>
    }
    %done = store_ptr_tko weak %to, %total : tile<16x16xptr<f32>>, tile<16x16xf32> -> token
    return
  }
}
"""

LARGER = """\
cuda_tile.module @warm_up {
  entry @product(%a0: tile<ptr<f16>>, %m0: tile<i32>, %k0: tile<i32>, %n0: tile<i32>, %b0: tile<ptr<f16>>,
                 %c0: tile<ptr<f16>>) {
    %before = make_token : token
    %a = assume div_by<16>, %a0 : tile<ptr<f16>>
    %b = assume div_by<16>, %b0 : tile<ptr<f16>>
    %c = assume div_by<16>, %c0 : tile<ptr<f16>>
    %m = assume bounded<0, ?>, %m0 : tile<i32>
    %k1 = assume div_by<8>, %k0 : tile<i32>
    %k2 = assume bounded<0, ?>, %k1 : tile<i32>
    %k = assume div_by<8>, %k2 : tile<i32>
    %n1 = assume div_by<8>, %n0 : tile<i32>
    %n2 = assume bounded<0, ?>, %n1 : tile<i32>
    %n = assume div_by<8>, %n2 : tile<i32>
    %va = make_tensor_view %a, shape = [%m, %k], strides = [%k, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %vb = make_tensor_view %b, shape = [%k, %n], strides = [%n, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %vc = make_tensor_view %c, shape = [%m, %n], strides = [%n, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %first = constant <i32: 0> : tile<i32>
    %step = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<128x128xf32>
    %pa = make_partition_view %va :
        partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pb = make_partition_view %vb :
        partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %pc = make_partition_view %vc : partition_view<tile=(128x128), tensor_view<?x?xf16, strides=[?,1]>>
    %tiles:2 = get_index_space_shape %pa :
        partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>> -> tile<i32>
    %total = for %i in (%first to %tiles#1, step %step) : tile<i32> iter_values(%sum = %zero) -> (tile<128x128xf32>) {
      %left, %t0 = load_view_tko weak %pa[%x, %i] token = %before :
          partition_view<tile=(128x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32>
          -> tile<128x64xf16>, token
      %right, %t1 = load_view_tko weak %pb[%i, %y] token = %before :
          partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32>
          -> tile<64x128xf16>, token
      %more = mmaf %left, %right, %sum : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
      continue %more : tile<128x128xf32>
    }
    %rounded = ftof %total : tile<128x128xf32> -> tile<128x128xf16>
    %done = store_view_tko weak %rounded, %pc[%x, %y] token = %before :
        tile<128x128xf16>, partition_view<tile=(128x128), tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
    return
  }

  entry @row(%a0: tile<ptr<f32>>, %m0: tile<i32>, %n0: tile<i32>, %b0: tile<ptr<f32>>) {
    %before = make_token : token
    %a = assume div_by<16>, %a0 : tile<ptr<f32>>
    %b = assume div_by<16>, %b0 : tile<ptr<f32>>
    %m = assume bounded<0, ?>, %m0 : tile<i32>
    %n = assume bounded<0, ?>, %n0 : tile<i32>
    %va = make_tensor_view %a, shape = [%m, %n], strides = [%n, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %vb = make_tensor_view %b, shape = [%m, %n], strides = [%n, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %first = constant <i32: 0> : tile<i32>
    %pa = make_partition_view %va :
        partition_view<tile=(1x1024), padding_value = neg_inf, tensor_view<?x?xf32, strides=[?,1]>>
    %pb = make_partition_view %vb : partition_view<tile=(1x1024), tensor_view<?x?xf32, strides=[?,1]>>
    %row, %t0 = load_view_tko weak %pa[%x, %first] token = %before :
        partition_view<tile=(1x1024), padding_value = neg_inf, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32>
        -> tile<1x1024xf32>, token
    %most = reduce %row dim=1 identities=[0xFF800000 : f32] : tile<1x1024xf32> -> tile<1xf32>
    (%l: tile<f32>, %r: tile<f32>) {
      %v = maxf %l, %r : tile<f32>
      yield %v : tile<f32>
    }
    %most1 = reshape %most : tile<1xf32> -> tile<1x1xf32>
    %mosts = broadcast %most1 : tile<1x1xf32> -> tile<1x1024xf32>
    %less = subf %row, %mosts : tile<1x1024xf32>
    %powers = exp %less : tile<1x1024xf32>
    %sum = reduce %powers dim=1 identities=[0.0 : f32] : tile<1x1024xf32> -> tile<1xf32>
    (%l: tile<f32>, %r: tile<f32>) {
      %v = addf %l, %r : tile<f32>
      yield %v : tile<f32>
    }
    %sum1 = reshape %sum : tile<1xf32> -> tile<1x1xf32>
    %sums = broadcast %sum1 : tile<1x1xf32> -> tile<1x1024xf32>
    %shares = divf %powers, %sums : tile<1x1024xf32>
    %done = store_view_tko weak %shares, %pb[%x, %first] token = %before :
        tile<1x1024xf32>, partition_view<tile=(1x1024), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
    return
  }
}
"""

// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expected shape and stride to be of same rank but got shape of rank 2 and stride of rank 1}}
entry @ranks(%v: tensor_view<8x8xf32, strides=[1]>) {}

// -----

// expected-error @below {{expected strictly positive integer, got 0}}
entry @stride(%v: tensor_view<8xf32, strides=[0]>) {}

// -----

// expected-error @below {{expected tensor_view rank and tile rank to match, got tensor_view of rank 1 and tiles of rank 2}}
entry @tile_rank(%v: partition_view<tile=(8x8), tensor_view<64xf32, strides=[1]>>) {}

// -----

// expected-error @below {{tile shape dimensions must have power of two length but got [6]}}
entry @tile_size(%v: partition_view<tile=(6), tensor_view<64xf32, strides=[1]>>) {}

// -----

// expected-error @below {{target dimension 0 mapped at least twice (for tile dimensions 0 and 1)}}
entry @map(%v: partition_view<tile=(8x8), tensor_view<8x8xf32, strides=[8,1]>, dim_map=[0, 0]>) {}

// -----

// expected-error @below {{padding_value nan can only be used with floating point element types, got 'i32'}}
entry @padding(%v: partition_view<tile=(8), padding_value = nan, tensor_view<64xi32, strides=[1]>>) {}

// -----

// expected-error @below {{expected 1 traversal strides, got 2}}
entry @traversal(%v: strided_view<tile=(8), traversal_strides=[4,4], tensor_view<64xi32, strides=[1]>>) {}

// -----

// expected-error @below {{gather dimension is outside of tensor view dimensions, expected strictly less than 1, got 1}}
entry @sparse(%v: gather_scatter_view<tile=(8), tensor_view<64xi32, strides=[1]>, sparse_dim=1>) {}

// -----

entry @pointee(%p: tile<ptr<f32>>) {
  // expected-error @below {{expected pointer to 'f16' to build tensor_view of this type, got 'f32'}}
  %v = "cuda_tile.make_tensor_view"(%p) {operandSegmentSizes = array<i32: 1, 0, 0>} : (!cuda_tile.tile<ptr<f32>>) -> !cuda_tile.tensor_view<64xf16, strides=[1]>
}

// -----

entry @declared_size(%p: tile<ptr<f32>>) {
  // expected-error @below {{input shape dimension 0 does not match tensor_view type (expected 64, got 32)}}
  %v = make_tensor_view %p, shape = [32], strides = [1] : tensor_view<64xf32, strides=[1]>
}

// -----

entry @declared_dynamic(%p: tile<ptr<f32>>) {
  // expected-error @below {{input stride dimension 0 does not match tensor_view type (expected dynamic, got 1)}}
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[?]>
}

// -----

entry @other_tensor(%p: tile<ptr<f32>>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  // expected-error @below {{expected the type of the provided tensor_view value ('!cuda_tile.tensor_view<64xf32, strides=[1]>') to be the same as the view's tensor_view type ('!cuda_tile.tensor_view<32xf32, strides=[1]>')}}
  %w = "cuda_tile.make_partition_view"(%v) : (!cuda_tile.tensor_view<64xf32, strides=[1]>) -> !cuda_tile.partition_view<tile=(8), tensor_view<32xf32, strides=[1]>>
}

// -----

entry @indices(%p: tile<ptr<f32>>, %i: tile<i32>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>
  // expected-error @below {{expected 1 index operands (based on view type), got 2}}
  %0, %1 = load_view_tko weak %w[%i, %i] : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>, tile<i32> -> tile<8xf32>, token
}

// -----

entry @loaded_type(%p: tile<ptr<f32>>, %i: tile<i32>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>
  // expected-error @below {{expected tile type to be '!cuda_tile.tile<8xf32>' (based on view type), got '!cuda_tile.tile<4xf32>'}}
  %0, %1 = load_view_tko weak %w[%i] : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>, tile<i32> -> tile<4xf32>, token
}

// -----

entry @promises(%p: tile<ptr<f32>>, %i: tile<i32>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>
  // expected-error @below {{inbounds size (2) must match the number of index dimensions (1)}}
  %0, %1 = load_view_tko weak %w[%i] inbounds = [true, true] : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>, tile<i32> -> tile<8xf32>, token
}

// -----

entry @promises_of_nothing(%p: tile<ptr<f32>>, %i: tile<i32>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>
  // expected-error @below {{inbounds size (0) must match the number of index dimensions (1)}}
  %0, %1 = load_view_tko weak %w[%i] inbounds = [] : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>, tile<i32> -> tile<8xf32>, token
}

// -----

entry @rows_to_gather(%p: tile<ptr<f32>>, %i: tile<i32>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  %w = make_gather_scatter_view %v : gather_scatter_view<tile=(8), tensor_view<64xf32, strides=[1]>, sparse_dim=0>
  // expected-error @below {{expected index at sparse_dim position 0 to be a 1D tensor for GatherScatterView, got rank 0}}
  %0, %1 = load_view_tko weak %w[%i] : gather_scatter_view<tile=(8), tensor_view<64xf32, strides=[1]>, sparse_dim=0>, tile<i32> -> tile<8xf32>, token
}

// -----

entry @weak_scope(%p: tile<ptr<f32>>, %i: tile<i32>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>
  // expected-error @below {{operation specifies weak memory ordering semantics, but then provides "device" scope, expected no memory scope.}}
  %0, %1 = load_view_tko weak device %w[%i] : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>, tile<i32> -> tile<8xf32>, token
}

// -----

entry @no_order(%v: partition_view<tile=(16), tensor_view<64xf16, strides=[1]>>, %i: tile<i32>) {
  // expected-error @below {{custom op 'cuda_tile.load_view_tko' expected valid keyword}}
  // expected-error @below {{invalid memory_ordering_semantics attribute specification. Got "" but expect one of: weak, relaxed, acquire, release, acq_rel}}
  %0, %1 = load_view_tko %v[%i] : partition_view<tile=(16), tensor_view<64xf16, strides=[1]>>, tile<i32> -> tile<16xf16>, token
}

// -----

entry @no_index_type(%v: partition_view<tile=(16), tensor_view<64xf16, strides=[1]>>, %i: tile<i32>) {
  // expected-error @below {{custom op 'cuda_tile.load_view_tko' expected valid keyword}}
  // expected-error @below {{custom op 'cuda_tile.load_view_tko' expected index type after comma}}
  %0, %1 = load_view_tko weak %v[%i] : partition_view<tile=(16), tensor_view<64xf16, strides=[1]>>, -> tile<16xf16>, token
}

// -----

entry @strided_tile_of_another_tensor(%p: tile<ptr<f32>>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  // expected-error @below {{'cuda_tile.make_strided_view' op expected the type of the provided tensor_view value ('!cuda_tile.tensor_view<64xf32, strides=[1]>') to be the same as the view's tensor_view type ('!cuda_tile.tensor_view<32xf32, strides=[1]>')}}
  %w = "cuda_tile.make_strided_view"(%v) : (!cuda_tile.tensor_view<64xf32, strides=[1]>) -> !cuda_tile.strided_view<tile=(8), traversal_strides=[8], tensor_view<32xf32, strides=[1]>>
}

// -----

entry @gathered_from_another_tensor(%p: tile<ptr<f32>>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  // expected-error @below {{'cuda_tile.make_gather_scatter_view' op expected the type of the provided tensor_view value ('!cuda_tile.tensor_view<64xf32, strides=[1]>') to be the same as the view's tensor_view type ('!cuda_tile.tensor_view<32xf32, strides=[1]>')}}
  %w = "cuda_tile.make_gather_scatter_view"(%v) : (!cuda_tile.tensor_view<64xf32, strides=[1]>) -> !cuda_tile.gather_scatter_view<tile=(8), tensor_view<32xf32, strides=[1]>, sparse_dim=0>
}

// -----

entry @shape_in_floats(%p: tile<ptr<f32>>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  // expected-error @below {{'cuda_tile.get_tensor_shape' op result #0 must be variadic of 0D tile of i1 or i8 or i16 or i32 or i64 values, but got '!cuda_tile.tile<f32>'}}
  %0 = get_tensor_shape %v : tensor_view<64xf32, strides=[1]> -> tile<f32>
}

// -----

entry @index_space_of_a_tensor(%p: tile<ptr<f32>>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>
  // expected-error @below {{'cuda_tile.get_index_space_shape' op operand #0 must be TileView instance, but got '!cuda_tile.tensor_view<64xf32, strides=[1]>'}}
  %0 = "cuda_tile.get_index_space_shape"(%v) : (!cuda_tile.tensor_view<64xf32, strides=[1]>) -> !cuda_tile.tile<i32>
}

// -----

entry @stored_type(%p: tile<ptr<f32>>, %i: tile<i32>, %x: tile<f32>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>
  // expected-error @below {{'cuda_tile.store_view_tko' op expected tile type to be '!cuda_tile.tile<8xf32>' (based on view type), got '!cuda_tile.tile<f32>'}}
  %0 = store_view_tko weak %x, %w[%i] : tile<f32>, partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
}

// -----

entry @packed_along_no_dimension(%p: tile<ptr<f4E2M1FN>>, %i: tile<i32>) {
  %v = make_tensor_view %p, shape = [64, 64], strides = [128, 2] : tensor_view<64x64xf4E2M1FN, strides=[128,2]>
  %w = make_partition_view %v : partition_view<tile=(8x8), tensor_view<64x64xf4E2M1FN, strides=[128,2]>>
  // expected-error @below {{'cuda_tile.load_view_tko' op an f4 view access requires exactly one statically encoded unit stride to identify the packing dimension; got 0 in '!cuda_tile.tensor_view<64x64xf4E2M1FN, strides=[128,2]>'}}
  %0, %1 = load_view_tko weak %w[%i, %i] : partition_view<tile=(8x8), tensor_view<64x64xf4E2M1FN, strides=[128,2]>>, tile<i32> -> tile<8x8xf4E2M1FN>, token
}

// -----

entry @packed_and_sparse(%p: tile<ptr<f4E2M1FN>>, %i: tile<i32>) {
  %x = constant <f4E2M1FN: 1.0> : tile<8x8xf4E2M1FN>
  %v = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf4E2M1FN, strides=[64,1]>
  %w = make_gather_scatter_view %v : gather_scatter_view<tile=(8x8), tensor_view<64x64xf4E2M1FN, strides=[64,1]>, sparse_dim=1>
  %n = iota : tile<8xi32>
  // expected-error @below {{'cuda_tile.store_view_tko' op an f4 gather/scatter view cannot use packing dimension 1 as its sparse dimension}}
  %0 = store_view_tko weak %x, %w[%i, %n] : tile<8x8xf4E2M1FN>, gather_scatter_view<tile=(8x8), tensor_view<64x64xf4E2M1FN, strides=[64,1]>, sparse_dim=1>, tile<i32>, tile<8xi32> -> token
}

// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

entry @weak(%p: tile<ptr<i32>>, %i: tile<i32>) {
  // expected-error @below {{memory ordering semantics must be one of: relaxed, acquire, release, acq_rel}}
  %0, %1 = atomic_rmw_tko weak device %p, add, %i : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
}

// -----

entry @float_as_integer(%p: tile<ptr<f32>>, %f: tile<f32>) {
  // expected-error @below {{'add' works only with integers i32 and i64}}
  %0, %1 = atomic_rmw_tko relaxed device %p, add, %f : tile<ptr<f32>>, tile<f32> -> tile<f32>, token
}

// -----

entry @integer_as_float(%p: tile<ptr<i32>>, %i: tile<i32>) {
  // expected-error @below {{'addf' works only with floats f16, bf16, f32, and f64}}
  %0, %1 = atomic_rmw_tko relaxed device %p, addf, %i : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
}

// -----

entry @narrow_exchange(%p: tile<ptr<i16>>, %i: tile<i16>) {
  // expected-error @below {{'xchg' works only with integers or float of 32 or 64 bitwidth}}
  %0, %1 = atomic_rmw_tko relaxed device %p, xchg, %i : tile<ptr<i16>>, tile<i16> -> tile<i16>, token
}

// -----

entry @pointee(%p: tile<ptr<i64>>, %i: tile<i32>) {
  // expected-error @below {{expected pointee type ('i64') to match element type of 'arg' ('i32')}}
  %0, %1 = atomic_rmw_tko relaxed device %p, add, %i : tile<ptr<i64>>, tile<i32> -> tile<i32>, token
}

// -----

entry @narrow_swap(%p: tile<ptr<i8>>, %i: tile<i8>) {
  // expected-error @below {{expect only float or integer types with 32 or 64 bit}}
  %0, %1 = atomic_cas_tko relaxed device %p, %i, %i : tile<ptr<i8>>, tile<i8> -> tile<i8>, token
}

// -----

entry @exchange_through_a_view(%p: tile<ptr<i32>>, %i: tile<i32>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xi32, strides=[1]>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xi32, strides=[1]>>
  %x = iota : tile<8xi32>
  // expected-error @below {{atomic_red_view_tko op cannot use xchg operation}}
  %0 = atomic_red_view_tko relaxed device %w[%i], xchg, %x : tile<8xi32>, partition_view<tile=(8), tensor_view<64xi32, strides=[1]>>, tile<i32> -> token
}

// -----

entry @whole_system(%p: tile<ptr<i32>>, %i: tile<i32>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xi32, strides=[1]>
  %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xi32, strides=[1]>>
  %x = iota : tile<8xi32>
  // expected-error @below {{memory scope 'sys' is not supported for view-based atomic reductions; use 'tl_blk' or 'device' for TMA compatibility}}
  %0 = atomic_red_view_tko relaxed sys %w[%i], add, %x : tile<8xi32>, partition_view<tile=(8), tensor_view<64xi32, strides=[1]>>, tile<i32> -> token
}

// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

entry @order_of_a_load(%p: tile<ptr<f32>>) {
  // expected-error @below {{expect one of: weak, relaxed, or acquire, but got: release}}
  %0, %1 = load_ptr_tko release device %p : tile<ptr<f32>> -> tile<f32>, token
}

// -----

entry @order_of_a_store(%p: tile<ptr<f32>>, %f: tile<f32>) {
  // expected-error @below {{expect one of: weak, relaxed, or release, but got: acquire}}
  %0 = store_ptr_tko acquire device %p, %f : tile<ptr<f32>>, tile<f32> -> token
}

// -----

entry @weak_scope(%p: tile<ptr<f32>>) {
  // expected-error @below {{weak load must not have memory scope}}
  %0, %1 = load_ptr_tko weak device %p : tile<ptr<f32>> -> tile<f32>, token
}

// -----

entry @missing_scope(%p: tile<ptr<f32>>, %f: tile<f32>) {
  // expected-error @below {{memory scope is required for relaxed store}}
  %0 = store_ptr_tko relaxed %p, %f : tile<ptr<f32>>, tile<f32> -> token
}

// -----

entry @pointee(%p: tile<ptr<f32>>) {
  // expected-error @below {{failed to verify that `source` type is expected a pointer type of `result` type}}
  %0, %1 = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f16>, token
}

// -----

entry @mask(%p: tile<ptr<f32>>) {
  %m = constant <i1: true> : tile<2xi1>
  // expected-error @below {{failed to verify that shape of 'mask' must match the shape of 'source'}}
  %0, %1 = load_ptr_tko weak %p, %m : tile<ptr<f32>>, tile<2xi1> -> tile<f32>, token
}

// -----

entry @padding(%p: tile<ptr<f32>>, %m: tile<i1>, %f: tile<f16>) {
  // expected-error @below {{failed to verify that type of 'paddingValue' must match the type of 'result'}}
  %0, %1 = load_ptr_tko weak %p, %m, %f : tile<ptr<f32>>, tile<i1>, tile<f16> -> tile<f32>, token
}

// -----

entry @one_token() {
  %0 = make_token : token
  // expected-error @below {{expect two or more tokens}}
  %1 = join_tokens %0 : token
}

// -----

entry @alignment() {
  // expected-error @below {{'alignment' must be power of two}}
  %0 = alloca num_elem = 64, alignment = 12 : tile<ptr<f32>>
}

// -----

entry @small_alignment() {
  // expected-error @below {{'alignment' (4) must be at least the natural size (8 bytes) for element type 'f64'}}
  %0 = alloca num_elem = 64, alignment = 4 : tile<ptr<f64>>
}

// -----

entry @fence_of_a_tile(%a: tile<i32>) {
  // expected-error @below {{'cuda_tile.memory_fence_alias_tko' op operand #0 must be cuda tile token type, but got '!cuda_tile.tile<i32>'}}
  %0 = "cuda_tile.memory_fence_alias_tko"(%a) : (!cuda_tile.tile<i32>) -> !cuda_tile.token
}

// -----

entry @launch_after_a_tile(%a: tile<i32>) {
  // expected-error @below {{'cuda_tile.gdc_launch_dependents_tko' op operand #0 must be cuda tile token type, but got '!cuda_tile.tile<i32>'}}
  %0 = "cuda_tile.gdc_launch_dependents_tko"(%a) : (!cuda_tile.tile<i32>) -> !cuda_tile.token
}

// -----

entry @wait_for_a_tile(%a: tile<i32>) {
  // expected-error @below {{'cuda_tile.gdc_wait_tko' op operand #0 must be cuda tile token type, but got '!cuda_tile.tile<i32>'}}
  %0 = "cuda_tile.gdc_wait_tko"(%a) : (!cuda_tile.tile<i32>) -> !cuda_tile.token
}

// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

entry @range_of_two_dimensions() {
  // expected-error @below {{expects result type to be 1-d tile}}
  %0 = iota : tile<2x2xi32>
}

// -----

entry @range_that_does_not_fit() {
  // expected-error @below {{the number of elements 512 exceeds the maximum value of element type 'i8'}}
  %0 = iota : tile<512xi8>
}

// -----

entry @elements_change() {
  %0 = iota : tile<8xi32>
  // expected-error @below {{expected source tile and result tile to have the same number of elements}}
  %1 = reshape %0 : tile<8xi32> -> tile<4xi32>
}

// -----

entry @element_types_change() {
  %0 = iota : tile<8xi32>
  // expected-error @below {{requires the same element type for all operands and results}}
  %1 = reshape %0 : tile<8xi32> -> tile<2x4xi64>
}

// -----

entry @repeat_more_than_one() {
  %0 = iota : tile<2xi32>
  // expected-error @below {{expects the shape of source tile to be compatible with that of the result tile, but got: 2 and 8}}
  %1 = broadcast %0 : tile<2xi32> -> tile<8xi32>
}

// -----

entry @dimension_twice() {
  %0 = constant <i32: 0> : tile<2x4xi32>
  // expected-error @below {{expect permutation elements to be unique}}
  %1 = permute %0 [1, 1] : tile<2x4xi32> -> tile<4x2xi32>
}

// -----

entry @dimension_outside() {
  %0 = constant <i32: 0> : tile<2x4xi32>
  // expected-error @below {{permutation element at index 0 (2) is out of bound [0, 2)}}
  %1 = permute %0 [2, 0] : tile<2x4xi32> -> tile<4x2xi32>
}

// -----

entry @permuted_shape() {
  %0 = constant <i32: 0> : tile<2x4xi32>
  // expected-error @below {{result shape invalid at index 0, expected: 4, but got: 2}}
  %1 = permute %0 [1, 0] : tile<2x4xi32> -> tile<2x4xi32>
}

// -----

entry @concatenated_size() {
  %0 = constant <i32: 0> : tile<2x4xi32>
  // expected-error @below {{invalid concat at position 0, expected: 4 but got: 2}}
  %1 = cat %0, %0 dim = 0 : tile<2x4xi32>, tile<2x4xi32> -> tile<2x4xi32>
}

// -----

entry @concatenated_along_nothing() {
  %0 = constant <i32: 0> : tile<2x4xi32>
  // expected-error @below {{expect dim to be [0, 2), but got: 2}}
  %1 = cat %0, %0 dim = 2 : tile<2x4xi32>, tile<2x4xi32> -> tile<4x4xi32>
}

// -----

entry @uneven_parts(%i: tile<i32>) {
  %0 = constant <i32: 0> : tile<4xi32>
  // expected-error @below {{source dimension 0 size (4) must be evenly divisible by result dimension 0 size (8)}}
  %1 = extract %0[%i] : tile<4xi32> -> tile<8xi32>
}

// -----

entry @too_few_indices(%i: tile<i32>) {
  %0 = constant <i32: 0> : tile<4x4xi32>
  // expected-error @below {{expected 2 indices, but got 1}}
  %1 = extract %0[%i] : tile<4x4xi32> -> tile<2x2xi32>
}

// -----

entry @half_bytes_cannot_be_selected(%c: tile<i1>) {
  %0 = constant <i1: true> : tile<2xi1>
  %1 = constant <f4E2M1FN: 0.0> : tile<2xf4E2M1FN>
  // expected-error @below {{cannot operate on sub-byte type F4E2M1FN}}
  %2 = select %0, %1, %1 : tile<2xi1>, tile<2xf4E2M1FN>
}

// -----

entry @packed_size() {
  %0 = constant <i16: 1> : tile<8xi16>
  // expected-error @below {{expects source and result to have the same size in bytes, but got source tile size 16 bytes and result tile size 8 bytes}}
  %1 = pack %0 : tile<8xi16> -> tile<8xi8>
}

// -----

entry @constant_shape() {
  // expected-error @below {{inferred shape of elements literal ([2]) does not match type ([4])}}
  %0 = constant <i32: [1, 2]> : tile<4xi32>
}

// -----

entry @constant_type() {
  // expected-error @below {{mismatch between the element type: 'i32' and the tile element type 'f32'}}
  %0 = constant <i32: 1> : tile<f32>
}

// -----

entry @constant_range() {
  // expected-error @below {{integer constant out of range for type}}
  %0 = constant <i8: 256> : tile<i8>
}

// -----

entry @no_such_element() {
  // expected-error @below {{custom op 'cuda_tile.constant' unknown type: f33}}
  // expected-error @below {{f8E8M0FNU or f4E2M1FN values, but got '<<NULL TYPE>>'}}
  %0 = constant <f33: 1.0> : tile<f32>
}

// -----

entry @token_of_another_type() {
  // expected-error @below {{'cuda_tile.make_token' op result #0 must be cuda tile token type, but got '!cuda_tile.tile<i32>'}}
  %0 = make_token : tile<i32>
}

// -----

entry @wide_block_id() {
  // expected-error @below {{'cuda_tile.get_tile_block_id' op result #0 must be 0D tile of i32 values, but got '!cuda_tile.tile<i64>'}}
  %0:3 = "cuda_tile.get_tile_block_id"() : () -> (!cuda_tile.tile<i64>, !cuda_tile.tile<i32>, !cuda_tile.tile<i32>)
}

// -----

entry @numbers_of_blocks() {
  // expected-error @below {{'cuda_tile.get_num_tile_blocks' op result #1 must be 0D tile of i32 values, but got '!cuda_tile.tile<2xi32>'}}
  %0:3 = "cuda_tile.get_num_tile_blocks"() : () -> (!cuda_tile.tile<i32>, !cuda_tile.tile<2xi32>, !cuda_tile.tile<i32>)
}

// -----

entry @asserted_number(%a: tile<i32>) {
  // expected-error @below {{'cuda_tile.assert' op operand #0 must be tile of i1 values, but got '!cuda_tile.tile<i32>'}}
  assert %a, "never" : tile<i32>
}

// -----

entry @offset_of_numbers(%a: tile<i32>) {
  // expected-error @below {{'cuda_tile.offset' op operand #0 must be tile of Pointer type values, but got '!cuda_tile.tile<i32>'}}
  %0 = offset %a, %a : tile<i32>, tile<i32> -> tile<i32>
}

// -----

entry @pointer_to_narrow_integer(%a: tile<ptr<f32>>) {
  // expected-error @below {{'cuda_tile.ptr_to_int' op result #0 must be tile of i64 values, but got '!cuda_tile.tile<i32>'}}
  %0 = ptr_to_int %a : tile<ptr<f32>> -> tile<i32>
}

// -----

entry @pointer_to_number(%a: tile<ptr<f32>>) {
  // expected-error @below {{'cuda_tile.ptr_to_ptr' op result #0 must be tile of Pointer type values, but got '!cuda_tile.tile<i64>'}}
  %0 = ptr_to_ptr %a : tile<ptr<f32>> -> tile<i64>
}

// -----

// What is said of the constant does not keep the operation from being looked at.
entry @index_without_value(%a: tile<i32>) {
  %x = constant <i32: 0> : tile<8xi32>
  // expected-error @below {{'cuda_tile.constant' op requires attribute 'value'}}
  %i = "cuda_tile.constant"() : () -> !cuda_tile.tile<i32>
  %0 = extract %x[%i] : tile<8xi32> -> tile<4xi32>
}

// -----

// expected-error @below {{tiles of ptr<f4E2M1FN> must have rank 0; use an f4 tile view for memory accesses}}
entry @pointers_to_halves_of_bytes(%a: tile<8xptr<f4E2M1FN>>) {
}

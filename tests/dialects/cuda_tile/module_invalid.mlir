// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{entry op must have scalar types (rank 0 !cuda_tile.tile)}}
entry @tile_parameter(%a: tile<8xf32>) {}

// -----

// expected-error @below {{all dimensions must be powers of two, got 3}}
entry @tile_size(%a: tile<3xf32>) {}

// -----

// expected-error @below {{tile would exceed the maximum of 16777216 elements}}
entry @large_tile(%a: tile<4096x8192xf32>) {}

// -----

// expected-error @below {{F4E2M1FN tiles must have an even number of elements}}
entry @half_a_byte(%a: tile<f4E2M1FN>) {}

// -----

// expected-error @below {{failed to verify 'pointeeType': f16 or bf16}}
entry @pointer_to_pointer(%a: tile<ptr<ptr<f32>>>) {}

// -----

// expected-error @below {{failed to verify 'elementType': f16 or bf16}}
entry @index_elements(%a: tile<4xindex>) {}

// -----

cuda_tile.module @kernels {
  // expected-note @below {{see existing symbol definition here}}
  entry @kernel() {}
  // expected-error @below {{redefinition of symbol named 'kernel'}}
  entry @kernel() {}
}

// -----

cuda_tile.module @kernels {
  // expected-error @below {{type must have rank 1}}
  global @scalar <f32: 0.0> : tile<f32>
}

// -----

cuda_tile.module @kernels {
  entry @kernel() {
    // expected-error @below {{'nosuch' does not reference a valid global}}
    %0 = get_global @nosuch : tile<ptr<f32>>
  }
}

// -----

cuda_tile.module @kernels {
  global @table <i32: [1, 2]> : tile<2xi32>
  entry @kernel() {
    // expected-error @below {{pointee type of result type '!cuda_tile.ptr<f32>' does not match type 'i32' of the global @table}}
    %0 = get_global @table : tile<ptr<f32>>
  }
}

// -----

entry @divisor(%n: tile<i32>) {
  // expected-error @below {{'cuda_tile.div_by' divisor must be a power of 2}}
  %0 = assume div_by<3>, %n : tile<i32>
}

// -----

entry @groups_of_a_scalar(%n: tile<i32>) {
  // expected-error @below {{'cuda_tile.div_by' 'every'/'along' cannot be used if the constrained value is a 0D tile}}
  %0 = assume div_by<4, every 4 along 0>, %n : tile<i32>
}

// -----

entry @bounds(%n: tile<i8>) {
  // expected-error @below {{'cuda_tile.bounded' expects upper bound to be within [-128, 127]}}
  %0 = assume bounded<0, 200>, %n : tile<i8>
}

// -----

entry @bounds_of_a_float(%f: tile<f32>) {
  // expected-error @below {{'cuda_tile.bounded' is valid only for tile of integer values}}
  %0 = assume bounded<0, ?>, %f : tile<f32>
}

// -----

entry @no_such_assumption(%n: tile<i32>) {
  // expected-error @below {{unknown assume predicate attribute: odd (expected 'div_by', 'same_elements', or 'bounded')}}
  %0 = assume odd, %n : tile<i32>
}

// -----

entry @no_predicate(%n: tile<i32>) {
  // expected-error @below {{expected assume predicate attribute}}
  %0 = assume 4 : i32, %n : tile<i32>
}

// -----

entry @format(%n: tile<i32>) {
  // expected-error @below {{incorrect number of operands: expected 2, found 1}}
  %0 = print_tko "%d %d", %n : tile<i32> -> token
}

// -----

entry @unfinished_format() {
  // expected-error @below {{found unterminated format expression}}
  %0 = print_tko "50%" -> token
}

// -----

// expected-error @below {{entry op must not return values}}
entry @result() -> tile<i32> {}

// -----

// expected-error @below {{expected dictionary attribute for optimization_hints entry `sm_90` got value=2}}
entry @hints() optimization_hints=<sm_90 = 2> {}

// -----

cuda_tile.module @kernels {
  // expected-error @below {{'cuda_tile.global' op attribute 'sym_name' failed to satisfy constraint}}
  "cuda_tile.global"() {sym_name, value = dense<1> : !cuda_tile.tile<2xi32>} : () -> ()
}

// -----

entry @segments(%p: tile<ptr<f32>>) {
  // expected-error @below {{'cuda_tile.load_ptr_tko' op}}
  %0, %1 = "cuda_tile.load_ptr_tko"(%p) {memory_ordering_semantics = 0 : i32, operandSegmentSizes = array<f32: 1.0, 0.0, 0.0, 0.0>} : (!cuda_tile.tile<ptr<f32>>) -> (!cuda_tile.tile<f32>, !cuda_tile.token)
}

// -----

// expected-error @below {{custom op 'cuda_tile.entry' expected SSA identifier}}
entry @name_then_none(%a: tile<f32>, tile<f32>) {}

// -----

// expected-error @below {{custom op 'cuda_tile.entry' expected type instead of SSA identifier}}
entry @none_then_name(tile<f32>, %a: tile<f32>) {}

// -----

// expected-error @below {{entry block must have 1 arguments to match function signature}}
entry @no_names(tile<f32>) {}

// -----

// expected-error @below {{expected a parameter name in struct}}
#unit = #cuda_tile.di_compile_unit<>

// -----

entry @result_missing(%c: tile<i1>, %a: tile<f32>) {
  %0 = select %c, %a, %a : tile<i1>,
// expected-error @below {{custom op 'cuda_tile.select' expected valid keyword}}
}

// -----

// expected-error @below {{'cuda_tile.module' op requires attribute 'sym_name'}}
"cuda_tile.module"() ({
}) : () -> ()

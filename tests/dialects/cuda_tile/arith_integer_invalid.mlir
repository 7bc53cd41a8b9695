// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

entry @float_sum(%a: tile<f32>) {
  // expected-error @below {{operand #0 must be tile of i1 or i8 or i16 or i32 or i64 values, but got '!cuda_tile.tile<f32>'}}
  %0 = addi %a, %a : tile<f32>
}

// -----

entry @no_sign(%a: tile<i32>) {
  // expected-error @below {{expected signedness to be one of: {'signed', 'unsigned'}}}
  // expected-error @below {{custom op 'cuda_tile.maxi' expected valid keyword}}
  %0 = maxi %a, %a : tile<i32>
}

// -----

entry @even_quotient(%a: tile<i32>) {
  // expected-error @below {{invalid rounding mode specified, expect one of [zero, negative_inf, positive_inf]}}
  %0 = divi %a, %a signed rounding<nearest_even> : tile<i32>
}

// -----

entry @unsigned_floor(%a: tile<i32>) {
  // expected-error @below {{rounding mode 'negative_inf' is not allowed with 'unsigned' flag}}
  %0 = divi %a, %a unsigned rounding<negative_inf> : tile<i32>
}

// -----

entry @negation_without_unsigned_wrap(%a: tile<i32>) {
  // expected-error @below {{'no_unsigned_wrap' overflow flag is not supported}}
  %0 = negi %a overflow<no_unsigned_wrap> : tile<i32>
}

// -----

entry @different_types(%a: tile<i32>, %b: tile<i64>) {
  // expected-error @below {{failed to verify that all of {lhs, rhs, result} have same type}}
  %0 = "cuda_tile.xori"(%a, %b) : (!cuda_tile.tile<i32>, !cuda_tile.tile<i64>) -> !cuda_tile.tile<i32>
}

// -----

entry @absolute_float(%a: tile<f32>) {
  // expected-error @below {{'cuda_tile.absi' op operand #0 must be tile of i1 or i8 or i16 or i32 or i64 values, but got '!cuda_tile.tile<f32>'}}
  %0 = absi %a : tile<f32>
}

// -----

entry @unknown_overflow(%a: tile<i32>) {
  // expected-error @below {{expected cuda_tile.overflow to be one of: none, no_signed_wrap, no_unsigned_wrap, no_wrap}}
  %0 = subi %a, %a overflow<sideways> : tile<i32>
}

// -----

entry @product_of_floats(%a: tile<f32>) {
  // expected-error @below {{'cuda_tile.muli' op operand #0 must be tile of i1 or i8 or i16 or i32 or i64 values, but got '!cuda_tile.tile<f32>'}}
  %0 = muli %a, %a : tile<f32>
}

// -----

entry @high_half_of_floats(%a: tile<f64>) {
  // expected-error @below {{'cuda_tile.mulhii' op operand #0 must be tile of i1 or i8 or i16 or i32 or i64 values, but got '!cuda_tile.tile<f64>'}}
  %0 = mulhii %a, %a : tile<f64>
}

// -----

entry @remainder_without_sign(%a: tile<i32>) {
  // expected-error @below {{custom op 'cuda_tile.remi' expected valid keyword}}
  // expected-error @below {{custom op 'cuda_tile.remi' expected signedness to be one of: {'signed', 'unsigned'}}}
  %0 = remi %a, %a : tile<i32>
}

// -----

entry @minimum_without_sign(%a: tile<i32>) {
  // expected-error @below {{custom op 'cuda_tile.mini' expected valid keyword}}
  // expected-error @below {{custom op 'cuda_tile.mini' expected signedness to be one of: {'signed', 'unsigned'}}}
  %0 = mini %a, %a : tile<i32>
}

// -----

entry @shifted_float(%a: tile<f32>) {
  // expected-error @below {{'cuda_tile.shli' op operand #0 must be tile of i1 or i8 or i16 or i32 or i64 values, but got '!cuda_tile.tile<f32>'}}
  %0 = shli %a, %a : tile<f32>
}

// -----

entry @right_shift_without_sign(%a: tile<i32>) {
  // expected-error @below {{custom op 'cuda_tile.shri' expected valid keyword}}
  // expected-error @below {{custom op 'cuda_tile.shri' expected signedness to be one of: {'signed', 'unsigned'}}}
  %0 = shri %a, %a : tile<i32>
}

// -----

entry @unknown_comparison(%a: tile<i32>) {
  // expected-error @below {{custom op 'cuda_tile.cmpi' expected 'comparison_predicate' to be one of: {'equal', 'not_equal', 'less_than', 'less_than_or_equal', 'greater_than', 'greater_than_or_equal'}}}
  %0 = cmpi same %a, %a, signed : tile<i32> -> tile<i1>
}

// -----

entry @conjunction_of_floats(%a: tile<f16>) {
  // expected-error @below {{'cuda_tile.andi' op operand #0 must be tile of i1 or i8 or i16 or i32 or i64 values, but got '!cuda_tile.tile<f16>'}}
  %0 = andi %a, %a : tile<f16>
}

// -----

entry @disjunction_of_pointers(%a: tile<ptr<i32>>) {
  // expected-error @below {{'cuda_tile.ori' op operand #0 must be tile of i1 or i8 or i16 or i32 or i64 values, but got '!cuda_tile.tile<ptr<i32>>'}}
  %0 = ori %a, %a : tile<ptr<i32>>
}

// -----

entry @quotient_of_floats(%a: tile<f32>) {
  // expected-error @below {{'cuda_tile.divi' op operand #0 must be tile of i1 or i8 or i16 or i32 or i64 values, but got '!cuda_tile.tile<f32>'}}
  %0 = divi %a, %a signed : tile<f32>
}

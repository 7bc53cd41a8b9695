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

// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

entry @integer_sum(%a: tile<i32>) {
  // expected-error @below {{'cuda_tile.addf' op operand #0 must be tile of f16 or bf16 or f32 or f64 values, but got '!cuda_tile.tile<i32>'}}
  %0 = addf %a, %a : tile<i32>
}

// -----

entry @sum_to_the_nearest_integer(%a: tile<f32>) {
  // expected-error @below {{expected rounding mode to be one of: 'nearest_even', 'zero', 'negative_inf', 'positive_inf', got: 'full'}}
  %0 = addf %a, %a rounding<full> : tile<f32>
}

// -----

entry @approximate_product(%a: tile<f32>) {
  // expected-error @below {{op invalid rounding mode specified, expect one of [nearest_even, zero, negative_inf, positive_inf]}}
  %0 = "cuda_tile.mulf"(%a, %a) {rounding_mode = #cuda_tile.rounding<approx>} : (!cuda_tile.tile<f32>, !cuda_tile.tile<f32>) -> !cuda_tile.tile<f32>
}

// -----

entry @flushing_half_precision(%a: tile<f16>) {
  // expected-error @below {{flush_to_zero modifier only supported for f32 data type, but got: 'f16'}}
  %0 = subf %a, %a flush_to_zero : tile<f16>
}

// -----

entry @flushing_maximum(%a: tile<f64>) {
  // expected-error @below {{flush_to_zero modifier only supported for f32 data type, but got: 'f64'}}
  %0 = maxf %a, %a flush_to_zero : tile<f64>
}

// -----

entry @approximate_double(%a: tile<f64>) {
  // expected-error @below {{approx modifier only supported for f32 data type, but got: 'f64'}}
  %0 = divf %a, %a rounding<approx> : tile<f64>
}

// -----

entry @full_half(%a: tile<f16>) {
  // expected-error @below {{full modifier only supported for f32 data type, but got: 'f16'}}
  %0 = divf %a, %a rounding<full> : tile<f16>
}

// -----

entry @quotient_to_integer(%a: tile<f32>) {
  // expected-error @below {{expect one of [nearest_even, zero, negative_inf, positive_inf, approx, full]}}
  %0 = divf %a, %a rounding<nearest_int_to_zero> : tile<f32>
}

// -----

entry @missing_rounding(%a: tile<f32>) {
  // expected-error @below {{'cuda_tile.fma' op requires attribute 'rounding_mode'}}
  %0 = "cuda_tile.fma"(%a, %a, %a) : (!cuda_tile.tile<f32>, !cuda_tile.tile<f32>, !cuda_tile.tile<f32>) -> !cuda_tile.tile<f32>
}

// -----

entry @result_of_comparison(%a: tile<f32>) {
  // expected-error @below {{failed to verify that Result type has i1 element type and same shape as operands}}
  %0 = cmpf equal ordered %a, %a : tile<f32> -> tile<2xi1>
}

// -----

entry @unknown_relation(%a: tile<f32>) {
  // expected-error @below {{expected 'comparison_predicate' to be one of: {'equal', 'not_equal', 'less_than', 'less_than_or_equal', 'greater_than', 'greater_than_or_equal'}}}
  %0 = cmpf almost ordered %a, %a : tile<f32> -> tile<i1>
}

// -----

entry @integer_absolute(%a: tile<i32>) {
  // expected-error @below {{'cuda_tile.absf' op operand #0 must be tile of f16 or bf16 or f32 or f64 values, but got '!cuda_tile.tile<i32>'}}
  %0 = absf %a : tile<i32>
}

// -----

entry @negated_integer(%a: tile<i8>) {
  // expected-error @below {{'cuda_tile.negf' op operand #0 must be tile of f16 or bf16 or f32 or f64 values, but got '!cuda_tile.tile<i8>'}}
  %0 = negf %a : tile<i8>
}

// -----

entry @remainder_of_halves(%a: tile<f8E4M3FN>) {
  // expected-error @below {{'cuda_tile.remf' op operand #0 must be tile of f16 or bf16 or f32 or f64 values, but got '!cuda_tile.tile<f8E4M3FN>'}}
  %0 = remf %a, %a : tile<f8E4M3FN>
}

// -----

entry @minimum_of_doubles(%a: tile<f64>) {
  // expected-error @below {{'cuda_tile.minf' op flush_to_zero modifier only supported for f32 data type, but got: 'f64'}}
  %0 = minf %a, %a flush_to_zero : tile<f64>
}

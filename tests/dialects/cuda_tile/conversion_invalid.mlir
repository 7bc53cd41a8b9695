// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

entry @widths(%a: tile<i32>) {
  // expected-error @below {{types must be equal width, cannot convert '!cuda_tile.tile<i32>' of width 32 to type '!cuda_tile.tile<f64>' of width 64}}
  %0 = bitcast %a : tile<i32> -> tile<f64>
}

// -----

entry @not_wider(%a: tile<i32>) {
  // expected-error @below {{extending to smaller or identical integer}}
  %0 = exti %a signed : tile<i32> -> tile<i32>
}

// -----

entry @not_narrower(%a: tile<i32>) {
  // expected-error @below {{truncating to larger or identical integer}}
  %0 = trunci %a : tile<i32> -> tile<i64>
}

// -----

entry @same_format(%a: tile<f32>) {
  // expected-error @below {{converting tiles must not be a no-op}}
  %0 = ftof %a : tile<f32> -> tile<f32>
}

// -----

entry @scales_round_to_zero_or_up(%a: tile<f32>) {
  // expected-error @below {{invalid rounding mode specified for conversion to f8E8M0FNU. Only 'zero' and 'positive_inf' are supported}}
  %0 = ftof %a : tile<f32> -> tile<f8E8M0FNU>
}

// -----

entry @narrow_formats_round_to_even_or_zero(%a: tile<f32>) {
  // expected-error @below {{invalid rounding mode specified. Only 'nearest_even' and 'zero' are supported for narrowing conversions to standard types}}
  %0 = ftof %a rounding<negative_inf> : tile<f32> -> tile<f16>
}

// -----

entry @bytes_round_to_even(%a: tile<f32>) {
  // expected-error @below {{invalid rounding mode specified for conversion to low-precision type. Only 'nearest_even' is supported}}
  %0 = ftof %a rounding<zero> : tile<f32> -> tile<fnv8E5M3FNU>
}

// -----

entry @fractions_of_ten_bits(%a: tile<f32>) {
  // expected-error @below {{invalid rounding mode specified for conversion from f32 to tf32. Only 'nearest_even', 'zero', and 'nearest_away' are supported}}
  %0 = ftof %a rounding<positive_inf> : tile<f32> -> tile<tf32>
}

// -----

entry @double_to_single(%a: tile<f64>) {
  // expected-error @below {{invalid rounding mode specified for conversion from f64 to f32. Only 'nearest_even', 'zero', 'negative_inf', and 'positive_inf' are supported}}
  %0 = ftof %a rounding<nearest_away> : tile<f64> -> tile<f32>
}

// -----

entry @exact(%a: tile<f16>) {
  // expected-error @below {{invalid rounding mode specified for widening conversion. Only IEEE float rounding modes are supported: 'nearest_even', 'zero', 'negative_inf', 'positive_inf', 'nearest_away'}}
  %0 = "cuda_tile.ftof"(%a) <{rounding_mode = #cuda_tile.rounding<approx>}> : (!cuda_tile.tile<f16>) -> !cuda_tile.tile<f32>
}

// -----

// A scale of 2^-127 is a subnormal f32.
entry @scale_to_single(%a: tile<f8E8M0FNU>) {
  // expected-error @below {{Only 'nearest_even' and 'zero' are supported for narrowing conversions}}
  %0 = ftof %a rounding<positive_inf> : tile<f8E8M0FNU> -> tile<f32>
}

// -----

entry @integer_to_scale(%a: tile<i32>) {
  // expected-error @below {{integer to f8E8M0FNU conversion is not supported, please first convert to another float type}}
  %0 = itof %a signed : tile<i32> -> tile<f8E8M0FNU>
}

// -----

entry @rounding_of_integers(%a: tile<f32>) {
  // expected-error @below {{expected rounding mode to be one of: 'nearest_int_to_zero', got: 'zero'}}
  %0 = ftoi %a signed rounding<zero> : tile<f32> -> tile<i32>
}

// -----

entry @shapes(%a: tile<f32>) {
  // expected-error @below {{failed to verify that all of {from, to} have same shape}}
  %0 = ftof %a : tile<f32> -> tile<2xf16>
}

// -----

entry @address_width(%a: tile<i32>) {
  // expected-error @below {{operand #0 must be tile of i64 values, but got '!cuda_tile.tile<i32>'}}
  %0 = int_to_ptr %a : tile<i32> -> tile<ptr<f32>>
}

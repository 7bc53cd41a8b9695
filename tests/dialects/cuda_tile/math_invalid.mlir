// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

entry @approximate_half(%a: tile<f16>) {
  // expected-error @below {{approx modifier only supported for f32 data type, but got: 'f16'}}
  %0 = tanh %a rounding<approx> : tile<f16>
}

// -----

entry @even_exponential(%a: tile<f32>) {
  // expected-error @below {{invalid rounding mode specified, expect one of [approx, full]}}
  %0 = exp %a rounding<nearest_even> : tile<f32>
}

// -----

entry @flushing_double(%a: tile<f64>) {
  // expected-error @below {{flush_to_zero modifier only supported for f32 data type, but got: 'f64'}}
  %0 = exp2 %a flush_to_zero : tile<f64>
}

// -----

entry @full_root(%a: tile<f32>) {
  // expected-error @below {{expect one of [nearest_even, zero, negative_inf, positive_inf, approx]}}
  %0 = sqrt %a rounding<full> : tile<f32>
}

// -----

entry @no_such_mode(%a: tile<f32>) {
  // expected-error @below {{expected rounding mode to be one of: 'approx', 'full'}}
  %0 = exp %a rounding<sideways> : tile<f32>
}

// -----

entry @integer_power(%a: tile<f32>) {
  %b = constant <i32: 1> : tile<2xi32>
  // expected-error @below {{failed to verify that all of {source, exponent, result} have same shape}}
  %0 = fpowi %a, %b : tile<f32>, tile<2xi32>
}

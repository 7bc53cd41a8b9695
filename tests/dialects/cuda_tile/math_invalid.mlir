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
  // expected-error @below {{failed to verify that all of {source, exponent} have same shape}}
  %0 = fpowi %a, %b : tile<f32>, tile<2xi32>
}

// -----

entry @ceil(%a: tile<i32>) {
  // expected-error @below {{'cuda_tile.ceil' op operand #0 must be tile of f16 or bf16 or f32 or f64 values, but got '!cuda_tile.tile<i32>'}}
  %0 = ceil %a : tile<i32>
}

// -----

entry @floor(%a: tile<i64>) {
  // expected-error @below {{'cuda_tile.floor' op operand #0 must be tile of f16 or bf16 or f32 or f64 values, but got '!cuda_tile.tile<i64>'}}
  %0 = floor %a : tile<i64>
}

// -----

entry @cos(%a: tile<f8E5M2>) {
  // expected-error @below {{'cuda_tile.cos' op operand #0 must be tile of f16 or bf16 or f32 or f64 values, but got '!cuda_tile.tile<f8E5M2>'}}
  %0 = cos %a : tile<f8E5M2>
}

// -----

entry @cosh(%a: tile<tf32>) {
  // expected-error @below {{'cuda_tile.cosh' op operand #0 must be tile of f16 or bf16 or f32 or f64 values, but got '!cuda_tile.tile<tf32>'}}
  %0 = cosh %a : tile<tf32>
}

// -----

entry @sin(%a: tile<i16>) {
  // expected-error @below {{'cuda_tile.sin' op operand #0 must be tile of f16 or bf16 or f32 or f64 values, but got '!cuda_tile.tile<i16>'}}
  %0 = sin %a : tile<i16>
}

// -----

entry @sinh(%a: tile<i1>) {
  // expected-error @below {{'cuda_tile.sinh' op operand #0 must be tile of f16 or bf16 or f32 or f64 values, but got '!cuda_tile.tile<i1>'}}
  %0 = sinh %a : tile<i1>
}

// -----

entry @tan(%a: tile<f8E4M3FN>) {
  // expected-error @below {{'cuda_tile.tan' op operand #0 must be tile of f16 or bf16 or f32 or f64 values, but got '!cuda_tile.tile<f8E4M3FN>'}}
  %0 = tan %a : tile<f8E4M3FN>
}

// -----

entry @log(%a: tile<ptr<f32>>) {
  // expected-error @below {{'cuda_tile.log' op operand #0 must be tile of f16 or bf16 or f32 or f64 values, but got '!cuda_tile.tile<ptr<f32>>'}}
  %0 = log %a : tile<ptr<f32>>
}

// -----

entry @log2(%a: tile<i32>) {
  // expected-error @below {{'cuda_tile.log2' op operand #0 must be tile of f16 or bf16 or f32 or f64 values, but got '!cuda_tile.tile<i32>'}}
  %0 = log2 %a : tile<i32>
}

// -----

entry @rsqrt(%a: tile<f64>) {
  // expected-error @below {{'cuda_tile.rsqrt' op flush_to_zero modifier only supported for f32 data type, but got: 'f64'}}
  %0 = rsqrt %a flush_to_zero : tile<f64>
}

// -----

entry @atan2(%a: tile<f32>, %b: tile<f64>) {
  // expected-error @below {{'cuda_tile.atan2' op failed to verify that all of {x, y, result} have same type}}
  %0 = "cuda_tile.atan2"(%a, %b) : (!cuda_tile.tile<f32>, !cuda_tile.tile<f64>) -> !cuda_tile.tile<f32>
}

// -----

entry @fpowf(%a: tile<i32>) {
  // expected-error @below {{'cuda_tile.fpowf' op operand #0 must be tile of f16 or bf16 or f32 or f64 values, but got '!cuda_tile.tile<i32>'}}
  %0 = fpowf %a, %a : tile<i32>
}

// RUN: tileiras-opt %s --testing-ops --split-input-file --verify-diagnostics

testing$func @too_few(%a: tile<i32>) -> (tile<i32>, tile<i32>) {
  // expected-error @below {{'cuda_tile.return' op has 1 operands, but enclosing function (@too_few) returns 2}}
  return %a : tile<i32>
}

// -----

testing$func @other_type(%a: tile<i32>) -> tile<f32> {
  // expected-error @below {{type of return operand 0 ('!cuda_tile.tile<i32>') doesn't match function result type ('!cuda_tile.tile<f32>') in function @other_type}}
  return %a : tile<i32>
}

// -----

cuda_tile.module @no_function {
  // expected-error @below {{'cuda_tile.return' op expects parent op to be one of 'cuda_tile.testing$func, cuda_tile.entry, cuda_tile.if, cuda_tile.loop'}}
  return
}

// -----

// expected-error @below {{entry block must have 2 arguments to match function signature}}
testing$func @unnamed(tile<i32>, tile<2xf32>) {}

// -----

// The test operations come with the rules of the release that has them.
entry @rounding_of_13_4(%a: tile<f32>) {
  // expected-error @below {{invalid rounding mode specified. Only 'nearest_even' is supported}}
  %0 = ftof %a rounding<negative_inf> : tile<f32> -> tile<f64>
}

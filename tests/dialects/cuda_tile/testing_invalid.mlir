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
  // expected-error @below {{'cuda_tile.return' op expects parent op to be one of 'cuda_tile.testing$func, cuda_tile.entry, cuda_tile.if'}}
  return
}

// -----

// expected-error @below {{entry block must have 2 arguments to match function signature}}
testing$func @unnamed(tile<i32>, tile<2xf32>) {}

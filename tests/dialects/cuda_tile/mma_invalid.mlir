// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

entry @contracted_sizes() {
  %a = constant <f16: 0.0> : tile<16x32xf16>
  %b = constant <f16: 0.0> : tile<16x8xf16>
  %c = constant <f32: 0.0> : tile<16x8xf32>
  // expected-error @below {{shape error: dim 1 of lhs (32) and dim 0 of rhs (16) must match, but got lhs shape (16, 32) and rhs shape (16, 8)}}
  %0 = mmaf %a, %b, %c : tile<16x32xf16>, tile<16x8xf16>, tile<16x8xf32>
}

// -----

entry @batches() {
  %a = constant <f16: 0.0> : tile<2x16x16xf16>
  %b = constant <f16: 0.0> : tile<4x16x16xf16>
  %c = constant <f32: 0.0> : tile<2x16x16xf32>
  // expected-error @below {{shape error: dim 0 of lhs (2) and dim 0 of rhs (4) must match}}
  %0 = mmaf %a, %b, %c : tile<2x16x16xf16>, tile<4x16x16xf16>, tile<2x16x16xf32>
}

// -----

entry @accumulator() {
  %a = constant <bf16: 0.0> : tile<16x16xbf16>
  %c = constant <f16: 0.0> : tile<16x16xf16>
  // expected-error @below {{unsupported combination of element types. Input type 'bf16' expects accumulator/result type to be one of {'f32'}, but got 'f16'}}
  %0 = mmaf %a, %a, %c : tile<16x16xbf16>, tile<16x16xbf16>, tile<16x16xf16>
}

// -----

entry @factors_differ() {
  %a = constant <bf16: 0.0> : tile<16x16xbf16>
  %b = constant <f16: 0.0> : tile<16x16xf16>
  %c = constant <f32: 0.0> : tile<16x16xf32>
  // expected-error @below {{failed to verify that all of {lhs, rhs} have the same element type}}
  %0 = mmaf %a, %b, %c : tile<16x16xbf16>, tile<16x16xf16>, tile<16x16xf32>
}

// -----

entry @vectors() {
  %a = constant <f32: 0.0> : tile<16xf32>
  // expected-error @below {{operands must be 2D or 3D tiles}}
  %0 = mmaf %a, %a, %a : tile<16xf32>, tile<16xf32>, tile<16xf32>
}

// -----

entry @wide_integers() {
  %a = constant <i16: 0> : tile<16x16xi16>
  %c = constant <i32: 0> : tile<16x16xi32>
  // expected-error @below {{operand #0 must be mmai operand tile type of i8 values, but got '!cuda_tile.tile<16x16xi16>'}}
  %0 = mmai %a, %a, %c signed signed : tile<16x16xi16>, tile<16x16xi16>, tile<16x16xi32>
}

// -----

entry @block_of_scales() {
  %a = constant <f8E4M3FN: 0.0> : tile<16x64xf8E4M3FN>
  %b = constant <f8E4M3FN: 0.0> : tile<64x8xf8E4M3FN>
  %c = constant <f32: 0.0> : tile<16x8xf32>
  %x = constant <f8E8M0FNU: 1.0> : tile<16x4xf8E8M0FNU>
  %y = constant <f8E8M0FNU: 1.0> : tile<4x8xf8E8M0FNU>
  // expected-error @below {{f8 element type requires block scale factor of lhs_scale and rhs_scale to be 32, but got 16}}
  %0 = mmaf_scaled %a, %b, %c, %x, %y : tile<16x64xf8E4M3FN>, tile<64x8xf8E4M3FN>, tile<16x8xf32>, tile<16x4xf8E8M0FNU>, tile<4x8xf8E8M0FNU>
}

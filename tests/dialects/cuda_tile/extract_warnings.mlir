// RUN: tileiras-opt %s --verify-diagnostics

cuda_tile.module @kernels {
  entry @parts(%n: tile<i32>) {
    %first = constant <i32: 0> : tile<i32>
    %third = constant <i32: 2> : tile<i32>
    %before = constant <i32: -1> : tile<i32>
    %tile = constant <f32: 0.0> : tile<8x4xf32>
    %0 = extract %tile[%first, %n] : tile<8x4xf32> -> tile<4x4xf32>
    // expected-warning @below {{extract index 0 value 2 may be out of bounds (max valid index: 1)}}
    %1 = extract %tile[%third, %first] : tile<8x4xf32> -> tile<4x4xf32>
    // expected-warning @below {{extract index 1 has negative value -1, which may cause undefined behavior}}
    %2 = extract %tile[%first, %before] : tile<8x4xf32> -> tile<4x2xf32>
  }
}

// RUN: tileiras-opt %s --verify-roundtrip | FileCheck %s

// Constants are named by their value and element type.
// CHECK-LABEL: entry @constants
entry @constants() {
  // CHECK: %cst_3_i32 = constant <i32: 3> : tile<i32>
  %0 = constant <i32: 3> : tile<i32>
  // CHECK: %cst_-1_i8 = constant <i8: -1> : tile<4xi8>
  %1 = constant <i8: 255> : tile<4xi8>
  // CHECK: %cst_i16 = constant <i16: {{\[\[}}1, 2], [3, 4]]> : tile<2x2xi16>
  %2 = constant <i16: [[1, 2], [3, 4]]> : tile<2x2xi16>
  // CHECK: %true = constant <i1: true> : tile<i1>
  %3 = constant <i1: true> : tile<i1>
  // CHECK: %cst_i1 = constant <i1: [true, false]> : tile<2xi1>
  %4 = constant <i1: [true, false]> : tile<2xi1>
  // CHECK: %cst_f32 = constant <f32: 1.500000e+00> : tile<f32>
  %5 = constant <f32: 1.5> : tile<f32>
  // CHECK: %cst_2_f16 = constant <f16: 2.000000e+00> : tile<2xf16>
  %6 = constant <f16: 2.0> : tile<2xf16>
  // CHECK: %cst_NaN_f32 = constant <f32: 0x7FC00000> : tile<f32>
  %7 = constant <f32: 0x7FC00000> : tile<f32>
}

// CHECK-LABEL: entry @shapes
entry @shapes() {
  // CHECK: iota : tile<8xi32>
  %0 = iota : tile<8xi32>
  // CHECK: %reshape = reshape %0 : tile<8xi32> -> tile<2x1x4xi32>
  %1 = reshape %0 : tile<8xi32> -> tile<2x1x4xi32>
  // CHECK: %bcast = broadcast %reshape : tile<2x1x4xi32> -> tile<2x8x4xi32>
  %2 = broadcast %1 : tile<2x1x4xi32> -> tile<2x8x4xi32>
  // CHECK: permute %bcast [2, 0, 1] : tile<2x8x4xi32> -> tile<4x2x8xi32>
  %3 = permute %2 [2, 0, 1] : tile<2x8x4xi32> -> tile<4x2x8xi32>
  // CHECK: cat %{{.*}}, %{{.*}} dim = 1 : tile<4x2x8xi32>, tile<4x2x8xi32> -> tile<4x4x8xi32>
  %4 = cat %3, %3 dim = 1 : tile<4x2x8xi32>, tile<4x2x8xi32> -> tile<4x4x8xi32>
}

// CHECK-LABEL: entry @parts
entry @parts(%i: tile<i32>) {
  %0 = constant <f32: 0.0> : tile<8x4xf32>
  // CHECK: extract %cst_0_f32[%arg0, %arg0] : tile<8x4xf32> -> tile<2x4xf32>
  %1 = extract %0[%i, %i] : tile<8x4xf32> -> tile<2x4xf32>
  // CHECK: insert %{{.*}}, %cst_0_f32[%arg0, %arg0] : tile<2x4xf32>, tile<8x4xf32>
  %2 = insert %1, %0[%i, %i] : tile<2x4xf32>, tile<8x4xf32>
  %3 = constant <i1: true> : tile<8x4xi1>
  // CHECK: select %true, %{{.*}}, %cst_0_f32 : tile<8x4xi1>, tile<8x4xf32>
  %4 = select %3, %2, %0 : tile<8x4xi1>, tile<8x4xf32>
}

// CHECK-LABEL: entry @bytes
entry @bytes() {
  %0 = constant <i16: 1> : tile<8xi16>
  // CHECK: pack %{{.*}} : tile<8xi16> -> tile<16xi8>
  %1 = pack %0 : tile<8xi16> -> tile<16xi8>
  // CHECK: unpack %{{.*}} : tile<16xi8> -> tile<32xi4>
  %2 = unpack %1 : tile<16xi8> -> tile<32xi4>
}

// CHECK-LABEL: entry @grid
entry @grid(%p: tile<ptr<f32>>) {
  // CHECK: %blockId_x, %blockId_y, %blockId_z = get_tile_block_id : tile<i32>
  %x, %y, %z = get_tile_block_id : tile<i32>
  // CHECK: %gridSize_x, %gridSize_y, %gridSize_z = get_num_tile_blocks : tile<i32>
  %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
  // CHECK: offset %arg0, %blockId_x : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
  %q = offset %p, %x : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
}

// RUN: tileiras-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: entry @reductions
entry @reductions() {
  %a = constant <f32: 1.0> : tile<8x4xf32>
  %b = iota : tile<32xi32>
  %c = reshape %b : tile<32xi32> -> tile<8x4xi32>
  // CHECK: %reduce = reduce %{{.*}} dim=1 identities=[0xFF800000 : f32] : tile<8x4xf32> -> tile<8xf32>
  // CHECK-NEXT: (%reduce_lhs: tile<f32>, %reduce_rhs: tile<f32>) {
  // CHECK-NEXT: maxf %reduce_lhs, %reduce_rhs : tile<f32>
  // CHECK-NEXT: yield %{{.*}} : tile<f32>
  %0 = reduce %a dim=1 identities=[0xFF800000 : f32] : tile<8x4xf32> -> tile<8xf32>
  (%x: tile<f32>, %y: tile<f32>) {
    %m = maxf %x, %y : tile<f32>
    yield %m : tile<f32>
  }
  // CHECK: %reduce_{{[0-9]+}}:2 = reduce %{{.*}}, %{{.*}} dim=0 identities=[0.000000e+00 : f32, 0 : i32] : tile<8x4xf32>, tile<8x4xi32> -> tile<4xf32>, tile<4xi32>
  // CHECK-NEXT: (%reduce_lhs0: tile<f32>, %reduce_rhs0: tile<f32>, %reduce_lhs1: tile<i32>, %reduce_rhs1: tile<i32>) {
  %1:2 = reduce %a, %c dim=0 identities=[0.0 : f32, 0 : i32] : tile<8x4xf32>, tile<8x4xi32> -> tile<4xf32>, tile<4xi32>
  (%x: tile<f32>, %y: tile<f32>, %i: tile<i32>, %j: tile<i32>) {
    %s = addf %x, %y : tile<f32>
    %t = addi %i, %j : tile<i32>
    yield %s, %t : tile<f32>, tile<i32>
  }
}

// CHECK-LABEL: entry @running_sum
entry @running_sum() {
  %a = iota : tile<8xi32>
  // CHECK: scan %{{.*}} dim=0 reverse=true identities=[0 : i32] : tile<8xi32> -> tile<8xi32>
  %0 = scan %a dim=0 reverse=true identities=[0 : i32] : tile<8xi32> -> tile<8xi32>
  (%x: tile<i32>, %y: tile<i32>) {
    %s = addi %x, %y : tile<i32>
    yield %s : tile<i32>
  }
}

// A combiner may divide and branch; what it must not do is anything but compute.
// CHECK-LABEL: entry @branching
entry @branching(%c: tile<i1>) {
  %a = iota : tile<8xi32>
  %0 = reduce %a dim=0 identities=[0 : i32] : tile<8xi32> -> tile<i32>
  (%x: tile<i32>, %y: tile<i32>) {
    // CHECK: divi %reduce_lhs, %reduce_rhs signed : tile<i32>
    %q = divi %x, %y signed : tile<i32>
    // CHECK: if %arg0 -> (tile<i32>) {
    %r = if %c -> (tile<i32>) {
      yield %q : tile<i32>
    } else {
      yield %y : tile<i32>
    }
    yield %r : tile<i32>
  }
}

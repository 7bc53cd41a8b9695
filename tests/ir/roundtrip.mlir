// RUN: tileiras-opt %s --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %s --mlir-print-op-generic | tileiras-opt | FileCheck %s

// CHECK-LABEL: module @m attributes {foo = 1 : i32} {
module @m attributes {foo = 1 : i32} {
  // CHECK: nv_tileaa.func @k(%arg0: i32, %arg1: tensor<4xf32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>}
  nv_tileaa.func @k(%arg0: i32, %arg1: tensor<4xf32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>} {
    // CHECK-NEXT: %[[SUM:.*]] = arith.addi %arg0, %arg0 : i32
    %0 = arith.addi %arg0, %arg0 : i32
    // CHECK-NEXT: %[[LOOP:.*]]:2 = scf.for %{{.*}} = %[[SUM]] to %[[SUM]] step %[[SUM]] iter_args(%[[A:.*]] = %arg1, %[[B:.*]] = %[[SUM]])
    // CHECK-SAME: -> (tensor<4xf32>, i32) : i32 {
    %1:2 = "scf.for"(%0, %0, %0, %arg1, %0) ({
      ^bb0(%a: i32, %b: tensor<4xf32>, %c: i32):
        // CHECK-NEXT: scf.yield %[[A]], %[[B]] : tensor<4xf32>, i32
        scf.yield %b, %c : tensor<4xf32>, i32
    }) : (i32, i32, i32, tensor<4xf32>, i32) -> (tensor<4xf32>, i32)
    // CHECK: nv_tileaa.addf %[[LOOP]]#0, %arg1 {rounding_mode = #nv_tileaa.rounding_mode<zero>} : tensor<4xf32>
    %2 = nv_tileaa.addf %1#0, %arg1 {rounding_mode = #nv_tileaa.rounding_mode<zero>} : tensor<4xf32>
    // CHECK-NEXT: arith.cmpi slt, %[[SUM]], %[[LOOP]]#1 : i32
    %3 = arith.cmpi slt, %0, %1#1 : i32
    nv_tileaa.return
  }
}

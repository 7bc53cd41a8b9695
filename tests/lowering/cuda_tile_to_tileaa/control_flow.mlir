// RUN: tileiras-opt %s --convert-cudatile-to-tileaa=compute-capability=sm_90 --split-input-file | FileCheck %s

// CHECK-LABEL: nv_tileaa.func @structured
builtin.module {
cuda_tile.module @kernels {
  entry @structured(%n: tile<i32>, %c: tile<i1>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    // CHECK: scf.for %[[I:.*]] = %{{.*}} to %arg0 step %{{.*}} iter_args(%[[S:.*]] = %{{.*}}) -> (i32) : i32 {
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%s = %zero) -> (tile<i32>) {
      // CHECK: %[[R:.*]] = scf.if %arg1 -> (i32) {
      // CHECK: scf.yield %[[I]] : i32
      // CHECK: } else {
      // CHECK: scf.yield %[[S]] : i32
      %r = if %c -> (tile<i32>) {
        yield %i : tile<i32>
      } else {
        yield %s : tile<i32>
      }
      // CHECK: scf.yield %[[R]] : i32
      continue %r : tile<i32>
    }
    // CHECK: nv_tileaa.return
    return
  }

  // An exit inside a branch: what follows moves to the branch that falls through.
  // CHECK-LABEL: nv_tileaa.func @leaving
  entry @leaving(%n: tile<i32>, %c: tile<i1>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    // CHECK: "scf.while"(%{{.*}}) ({
    // CHECK: ^bb0(%[[K:.*]]: i32):
    // CHECK: %[[NEXT:.*]]:2 = scf.if %{{.*}} -> (i1, i32) {
    // CHECK: %[[STOP:.*]] = arith.constant false
    // CHECK: scf.yield %[[STOP]], %[[K]] : i1, i32
    // CHECK: } else {
    // CHECK: %[[SUM:.*]] = arith.addi %[[K]]
    // CHECK: %[[GO:.*]] = arith.constant true
    // CHECK: scf.yield %[[GO]], %[[SUM]] : i1, i32
    // CHECK: scf.condition(%[[NEXT]]#0) %[[NEXT]]#1 : i32
    %last = loop iter_values(%k = %zero) : tile<i32> -> tile<i32> {
      %done = cmpi greater_than %k, %n, signed : tile<i32> -> tile<i1>
      if %done {
        break %k : tile<i32>
      }
      %next = addi %k, %one : tile<i32>
      continue %next : tile<i32>
    }
    // CHECK: scf.if %arg1 {
    // CHECK-NEXT: scf.yield
    // CHECK-NEXT: } else {
    // CHECK: nv_tileaa.assert
    if %c {
      return
    }
    assert %c, "not reached" : tile<i1>
    return
  }

  // A return inside of a loop: the loop says so in its first result.
  // CHECK-LABEL: nv_tileaa.func @returning
  entry @returning(%n: tile<i32>, %c: tile<i1>) {
    // CHECK: %[[L:.*]]:3 = "scf.while"
    // CHECK: scf.condition
    %last = loop iter_values(%k = %n) : tile<i32> -> tile<i32> {
      if %c {
        return
      }
      break %k : tile<i32>
    }
    // CHECK: scf.if %[[L]]#0 {
    // CHECK: } else {
    // CHECK: nv_tileaa.assert
    assert %c, "not reached after a return" : tile<i1>
    return
  }
}
}

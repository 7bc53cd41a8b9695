// RUN: tileiras-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: entry @branches
entry @branches(%c: tile<i1>, %i: tile<i32>) {
  // CHECK: %0 = if %arg0 -> (tile<i32>) {
  // CHECK-NEXT: yield %arg1 : tile<i32>
  // CHECK-NEXT: } else {
  // CHECK-NEXT: %{{.*}} = addi
  // CHECK-NEXT: yield %{{.*}} : tile<i32>
  %0 = if %c -> (tile<i32>) {
    yield %i : tile<i32>
  } else {
    %j = addi %i, %i : tile<i32>
    yield %j : tile<i32>
  }
  // A yield of nothing is not written.
  // CHECK: if %arg0 {
  // CHECK-NEXT: assert %arg0, "holds" : tile<i1>
  // CHECK-NEXT: }
  if %c {
    assert %c, "holds" : tile<i1>
    yield
  }
  // CHECK: if %arg0 {
  // CHECK-NEXT: return
  if %c {
    return
  }
}

// CHECK-LABEL: entry @counted
entry @counted(%n: tile<i32>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  // CHECK: for %loopIdx in (%cst_0_i32 to %arg0, step %cst_1_i32) : tile<i32> {
  // CHECK-NEXT: print_tko "%d", %loopIdx : tile<i32> -> token
  // CHECK-NEXT: }
  for %i in (%zero to %n, step %one) : tile<i32> {
    %t = print_tko "%d", %i : tile<i32> -> token
  }
  // CHECK: %for = for unsigned %loopIdx in (%cst_0_i32 to %arg0, step %cst_1_i32) : tile<i32> iter_values(%iterArg0 = %cst_0_i32) -> (tile<i32>) {
  // CHECK-NEXT: addi %iterArg0, %loopIdx : tile<i32>
  // CHECK-NEXT: continue %{{.*}} : tile<i32>
  %sum = for unsigned %i in (%zero to %n, step %one) : tile<i32> iter_values(%s = %zero) -> (tile<i32>) {
    %next = addi %s, %i : tile<i32>
    continue %next : tile<i32>
  }
}

// CHECK-LABEL: entry @until
entry @until(%c: tile<i1>, %i: tile<i32>, %f: tile<f32>) {
  // CHECK: loop iter_values(%arg3 = %arg1) : tile<i32> -> tile<f32> {
  // CHECK-NEXT: if %arg0 {
  // CHECK-NEXT: break %arg2 : tile<f32>
  // CHECK: continue %arg3 : tile<i32>
  %0 = loop iter_values(%j = %i) : tile<i32> -> tile<f32> {
    if %c {
      break %f : tile<f32>
    }
    continue %j : tile<i32>
  }
  // CHECK: loop {
  // CHECK-NEXT: break
  loop {
    break
  }
  // CHECK: loop {
  // CHECK-NEXT: if %arg0 {
  // CHECK-NEXT: return
  loop {
    if %c {
      return
    }
    return
  }
  // CHECK: loop : tile<i32> {
  // CHECK-NEXT: break %arg1 : tile<i32>
  %1 = loop : tile<i32> {
    break %i : tile<i32>
  }
}

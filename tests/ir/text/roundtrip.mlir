// RUN: tileiras-opt %s --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %s --mlir-print-op-generic | tileiras-opt | FileCheck %s
// RUN: tileiras-opt %s --mlir-print-debuginfo | tileiras-opt | FileCheck %s

// CHECK-LABEL: toy.module @m attributes {flag, foo = 1 : i32} {
toy.module @m attributes {foo = 1 : i32, flag} {
  // CHECK: func @k(%arg0: i32, %arg1: box<box<i32>>) {
  func @k(%x: i32, %box: box<!toy.box<i32>>) {
    // CHECK-NEXT: %[[SUM:.*]] = add %arg0, %arg0 : i32
    %0 = add %x, %x : i32
    // CHECK-NEXT: add %[[SUM]], %arg0 mode<fast> saturate {extra = "x"} : i32
    %1 = toy.add %0, %x mode<fast> saturate {extra = "x"} : i32
    // CHECK-NEXT: add %arg1, %arg1 : box<box<i32>>
    %2 = "toy.add"(%box, %box) <{mode = #toy.mode<exact>}> : (!toy.box<box<i32>>, !toy.box<box<i32>>) -> !toy.box<box<i32>>
    // CHECK-NEXT: %[[TOKEN:.*]] = make_token : token
    %t = make_token : token
    // CHECK-NEXT: %{{.*}}, %{{.*}} = load %arg1 : box<box<i32>> -> i32, token
    %a, %b = load %box : box<box<i32>> -> i32, token
    // CHECK-NEXT: load device %arg1, %arg0, %arg0 token=%[[TOKEN]] : box<box<i32>>, i32, i32 -> i32, token
    %c:2 = load device %box, %x, %x token = %t : box<box<i32>>, i32, i32 -> i32, token
    // CHECK-NEXT: load %arg1, %arg0 : box<box<i32>>, i32 -> i32, token
    %d:2 = load %box, %x // a comment in between
      : box<box<i32>>, i32 -> i32, token
    // CHECK-NEXT: scoped device %arg0 : i32
    scoped device %x : i32
    // CHECK-NEXT: wait %[[TOKEN]]
    wait %t
    // CHECK-NEXT: wait %[[TOKEN]], %[[TOKEN]], %[[TOKEN]]
    wait %t, %t, %t
    // CHECK-NEXT: shuffle %arg0 [1, 0] axis = 3 : (i32) -> i64
    %e = shuffle %x [1, 0] axis = 3 : (i32) -> i64
    // CHECK-NEXT: %call:2 = call @f(%arg0, %[[SUM]]) : (i32, i32) -> (i32, !toy.token)
    %f:2 = call @f(%x, %0) : (i32, i32) -> (i32, !toy.token)
    // CHECK-NEXT: call @m::@"odd name"() : () -> ()
    call @m::@"odd name"() : () -> ()
    // CHECK-NEXT: clamp %call#0 flush quiet : i32
    %g = clamp %f#0 quiet flush : i32
    // CHECK-NEXT: clamp %arg0 quiet : i32
    %h = clamp %x quiet : i32
    // CHECK-NEXT: block {
    // CHECK-NEXT: }
    block {
    }
    // CHECK-NEXT: block -> i32, i32 {
    // CHECK-NEXT: add
    // CHECK-NEXT: yield
    // CHECK-NEXT: } {named}
    %i:2 = block -> i32, i32 {
      %j = add %x, %0 : i32
      yield %j, %0 : i32, i32
    } {named}
    // CHECK-NEXT: label ?here
    label ?here
    // CHECK-NEXT: label {{$}}
    label
    // CHECK-NEXT: "toy.plain"(%{{.*}}#1) : (i32) -> ()
    "toy.plain"(%i#1) : (i32) -> ()
    // CHECK-NEXT: return %arg1, %arg0 : box<box<i32>>, i32
    return %box, %x : box<box<i32>>, i32
  }
}

// RUN: tileiras-opt %s --cse | FileCheck %s

// CHECK: @repeated
// CHECK: %[[A:[0-9]+]] = arith.addi %{{.*}}, %{{.*}} : i32
// CHECK-NOT: arith.addi
// CHECK: scf.if
// CHECK-NEXT: arith.muli %[[A]], %[[A]]
// CHECK: else
// A product in one branch is not there for the other.
// CHECK-NEXT: arith.muli %[[A]], %[[A]]
// A load may see another value: both stay.
// CHECK: nv_tileaa.load
// CHECK: nv_tileaa.load
builtin.module {
  nv_tileaa.func @repeated(%p: !nv_tileaa.ptr<i32>, %n: i32, %c: i1) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %a = arith.addi %n, %n : i32
    %b = arith.addi %n, %n : i32
    %r = scf.if %c -> (i32) {
      %m = arith.muli %a, %b : i32
      scf.yield %m : i32
    } else {
      %d = arith.addi %n, %n : i32
      %m = arith.muli %d, %b : i32
      scf.yield %m : i32
    }
    %x, %t = nv_tileaa.load %p : !nv_tileaa.ptr<i32> -> i32, !nv_tileaa.mem_token
    %y, %u = nv_tileaa.load %p : !nv_tileaa.ptr<i32> -> i32, !nv_tileaa.mem_token
    %s = nv_tileaa.store %p, %r : !nv_tileaa.ptr<i32>, i32 -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

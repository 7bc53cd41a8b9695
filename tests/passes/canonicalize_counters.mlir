// RUN: tileiras-opt %s --canonicalize --split-input-file --verify-roundtrip | FileCheck %s

// A counter that a loop carries is a function of the induction variable; the loop no longer carries it.

// CHECK-LABEL: @counter
// CHECK-SAME: (%[[P:.*]]: !nv_tileaa.ptr<i32>, %[[N:.*]]: i32, %[[A:.*]]: i32)
// CHECK: %[[STEP:.*]] = arith.constant 128 : i32
// CHECK: scf.for %[[I:.*]] = %{{.*}} to %[[N]] step %{{.*}} : i32 {
// CHECK: %[[T:.*]] = arith.divui %[[I]], %[[STEP]]
// CHECK: %[[K:.*]] = arith.addi %[[A]], %[[T]]
// CHECK: nv_tileaa.print "%d", %[[K]]
module {
  nv_tileaa.func @counter(%p: !nv_tileaa.ptr<i32>, %n: i32, %a: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %step = arith.constant 128 : i32
    %r = scf.for %i = %zero to %n step %step iter_args(%k = %a) -> (i32) : i32 {
      %t = nv_tileaa.print "%d", %k : i32 -> !nv_tileaa.mem_token
      %next = arith.addi %one, %k : i32
      scf.yield %next : i32
    }
    nv_tileaa.return
  }
}

// -----

// A tile to which the same number is added, from a bound that is not zero, and a counter of another width by a number
// from outside; the last value of a counter that is used stays carried.

// CHECK-LABEL: @tiles
// CHECK-SAME: (%[[N:.*]]: i32, %[[M:.*]]: i32, %[[BY:.*]]: i64)
// CHECK: %[[R:.*]] = scf.for %[[I:.*]] = %[[M]] to %[[N]] step %{{.*}} iter_args(%[[L:.*]] = %{{.*}}) -> (i32)
// CHECK-DAG: arith.subi %[[I]], %[[M]]
// CHECK-DAG: %[[S:.*]] = nv_tileaa.splat %{{.*}} : i32 -> tensor<64xi32>
// CHECK-DAG: %[[K:.*]] = arith.addi %{{.*}}, %[[S]] : tensor<64xi32>
// CHECK-DAG: %[[T:.*]] = arith.extui %{{.*}} : i32 to i64
// CHECK-DAG: %[[P:.*]] = arith.muli %[[T]], %[[BY]] : i64
// CHECK-DAG: %[[W:.*]] = arith.addi %{{.*}}, %[[P]] : i64
// CHECK: nv_tileaa.print "%d %d %d", %[[K]], %[[W]]
// CHECK: %[[NEXT:.*]] = arith.addi %[[L]]
// CHECK: scf.yield %[[NEXT]] : i32
module {
  nv_tileaa.func @tiles(%n: i32, %m: i32, %by: i64) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %one = arith.constant 1 : i32
    %zero = arith.constant 0 : i32
    %wide = arith.constant 7 : i64
    %many = arith.constant dense<32> : tensor<64xi32>
    %places = nv_tileaa.make_range : tensor<64xi32>
    %a, %b, %c = scf.for %i = %m to %n step %one iter_args(%k = %places, %w = %wide, %l = %zero) -> (tensor<64xi32>, i64, i32) : i32 {
      %t = nv_tileaa.print "%d %d %d", %k, %w, %l : tensor<64xi32>, i64, i32 -> !nv_tileaa.mem_token
      %k2 = arith.addi %k, %many : tensor<64xi32>
      %w2 = arith.addi %w, %by : i64
      %l2 = arith.addi %l, %one : i32
      scf.yield %k2, %w2, %l2 : tensor<64xi32>, i64, i32
    }
    %t = nv_tileaa.print "%d", %c : i32 -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

// No counters: a step that is not constant, an addend of the iteration, a sum that is not the next value.

// CHECK-LABEL: @left
// CHECK: iter_args(%[[K:.*]] = %{{.*}}) -> (i32)
// CHECK: nv_tileaa.print "%d", %[[K]]
// CHECK: iter_args(%[[X:.*]] = %{{.*}}, %[[Y:.*]] = %{{.*}}) -> (i32, i32)
// CHECK: nv_tileaa.print "%d %d", %[[X]], %[[Y]]
// CHECK: iter_args(%[[Z:.*]] = %{{.*}}) -> (index)
// CHECK: arith.cmpi slt, %[[Z]]
module {
  nv_tileaa.func @left(%n: i32, %s: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %r = scf.for %i = %zero to %n step %s iter_args(%k = %zero) -> (i32) : i32 {
      %t = nv_tileaa.print "%d", %k : i32 -> !nv_tileaa.mem_token
      %next = arith.addi %k, %one : i32
      scf.yield %next : i32
    }
    %a, %b = scf.for %i = %zero to %n step %one iter_args(%x = %zero, %y = %zero) -> (i32, i32) : i32 {
      %t = nv_tileaa.print "%d %d", %x, %y : i32, i32 -> !nv_tileaa.mem_token
      %u = arith.addi %x, %i : i32
      %v = arith.addi %u, %one : i32
      scf.yield %u, %v : i32, i32
    }
    %origin = arith.constant 0 : index
    %next = arith.constant 1 : index
    %c = scf.for %i = %zero to %n step %one iter_args(%z = %origin) -> (index) : i32 {
      %w = arith.cmpi slt, %z, %next : index
      %t = nv_tileaa.print "%d", %w : i1 -> !nv_tileaa.mem_token
      %following = arith.addi %z, %next : index
      scf.yield %following : index
    }
    nv_tileaa.return
  }
}

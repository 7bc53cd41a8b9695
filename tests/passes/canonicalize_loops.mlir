// RUN: tileiras-opt %s --canonicalize --split-input-file --verify-roundtrip | FileCheck %s

// A loop that runs once is its body; one in it that never runs is what it begins with.

// CHECK-LABEL: @once
// CHECK-SAME: %[[X:.*]]: i32, %[[Y:.*]]: i32)
// CHECK-NOT: scf.for
// CHECK: %[[C:.*]] = arith.constant 3 : i32
// CHECK: %[[A:.*]] = arith.addi %[[X]], %[[C]]
// CHECK: %[[B:.*]] = arith.muli %[[A]], %[[Y]]
// CHECK: nv_tileaa.print "%d %d", %[[B]], %[[X]]
module {
  nv_tileaa.func @once(%x: i32, %y: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %three = arith.constant 3 : i32
    %seven = arith.constant 7 : i32
    %four = arith.constant 4 : i32
    %a, %b = scf.for %i = %three to %seven step %four iter_args(%u = %x, %v = %y) -> (i32, i32) : i32 {
      %s = arith.addi %u, %i : i32
      %w = scf.for %j = %seven to %three step %four iter_args(%t = %v) -> (i32) : i32 {
        %n = arith.addi %t, %j : i32
        scf.yield %n : i32
      }
      %p = arith.muli %s, %w : i32
      scf.yield %p, %u : i32, i32
    }
    %t = nv_tileaa.print "%d %d", %a, %b : i32, i32 -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

// What swaps its values in one iteration hands them on swapped; a store in it stays.

// CHECK-LABEL: @swapped
// CHECK-SAME: %[[P:.*]]: !nv_tileaa.ptr<i32>, %[[X:.*]]: i32, %[[Y:.*]]: i32)
// CHECK-NOT: scf.for
// CHECK: %[[T:.*]] = nv_tileaa.store %[[P]], %[[X]]
// CHECK: %[[U:.*]] = nv_tileaa.store %[[P]], %[[Y]] token = %[[T]]
// CHECK: nv_tileaa.store %[[P]], %[[X]] token = %[[U]]
module {
  nv_tileaa.func @swapped(%p: !nv_tileaa.ptr<i32>, %x: i32, %y: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %t0 = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %a, %b, %t = scf.for %i = %zero to %one step %one iter_args(%u = %x, %v = %y, %k = %t0) -> (i32, i32, !nv_tileaa.mem_token) : i32 {
      %n = nv_tileaa.store %p, %u token = %k : !nv_tileaa.ptr<i32>, i32 -> !nv_tileaa.mem_token
      scf.yield %v, %u, %n : i32, i32, !nv_tileaa.mem_token
    }
    %d = nv_tileaa.store %p, %a token = %t : !nv_tileaa.ptr<i32>, i32 -> !nv_tileaa.mem_token
    %e = nv_tileaa.store %p, %b token = %d : !nv_tileaa.ptr<i32>, i32 -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

// Twice, never known, a step that is none, and bounds of which one is not what it seems without a sign.

// CHECK-LABEL: @left
// CHECK-COUNT-4: scf.for
module {
  nv_tileaa.func @left(%p: !nv_tileaa.ptr<i32>, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %minus = arith.constant -1 : i32
    scf.for %i = %zero to %two step %one : i32 {
      %t = nv_tileaa.store %p, %i : !nv_tileaa.ptr<i32>, i32 -> !nv_tileaa.mem_token
      scf.yield
    }
    scf.for %i = %zero to %n step %one : i32 {
      %t = nv_tileaa.store %p, %i : !nv_tileaa.ptr<i32>, i32 -> !nv_tileaa.mem_token
      scf.yield
    }
    scf.for %i = %zero to %one step %zero : i32 {
      %t = nv_tileaa.store %p, %i : !nv_tileaa.ptr<i32>, i32 -> !nv_tileaa.mem_token
      scf.yield
    }
    scf.for unsigned %i = %zero to %minus step %one : i32 {
      %t = nv_tileaa.store %p, %i : !nv_tileaa.ptr<i32>, i32 -> !nv_tileaa.mem_token
      scf.yield
    }
    nv_tileaa.return
  }
}

// -----

// The only part of a tile is the tile.

// CHECK-LABEL: @whole
// CHECK: %[[X:.*]], %{{.*}} = nv_tileaa.load
// CHECK: nv_tileaa.extract_slice
// CHECK-NOT: nv_tileaa.extract_slice
// CHECK: arith.addi %[[X]], %[[X]]
module {
  nv_tileaa.func @whole(%p: tensor<8x!nv_tileaa.ptr<i32>>, %i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %x, %t = nv_tileaa.load %p : tensor<8x!nv_tileaa.ptr<i32>> -> tensor<8xi32>, !nv_tileaa.mem_token
    %half = nv_tileaa.extract_slice %x[%i] : tensor<8xi32>, (i32) -> tensor<4xi32>
    %all = nv_tileaa.extract_slice %x[%i] : tensor<8xi32>, (i32) -> tensor<8xi32>
    %y = arith.addi %all, %all : tensor<8xi32>
    %u = nv_tileaa.print "%d %d", %half, %y : tensor<4xi32>, tensor<8xi32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// RUN: tileiras-opt %s --canonicalize --split-input-file | FileCheck %s

// Python's remainder of tiles by a constant, or by a number that divides the tile as well, follows from the quotient.

// CHECK-LABEL: @constant
// CHECK-SAME: (%[[X:.*]]: tensor<64xi32>)
// CHECK: %[[C:.*]] = arith.constant dense<48>
// CHECK: %[[Q:.*]] = arith.floordivsi %[[X]], %[[C]]
// CHECK: %[[P:.*]] = arith.muli %[[Q]], %[[C]]
// CHECK: arith.subi %[[X]], %[[P]]
// CHECK-NOT: arith.select
module {
  nv_tileaa.func @constant(%x: tensor<64xi32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %c = arith.constant dense<48> : tensor<64xi32>
    %zero = arith.constant dense<0> : tensor<64xi32>
    %r = arith.remsi %x, %c : tensor<64xi32>
    %below = arith.cmpi slt, %r, %zero : tensor<64xi32>
    %sign = arith.cmpi slt, %c, %zero : tensor<64xi32>
    %other = arith.xori %below, %sign : tensor<64xi1>
    %some = arith.cmpi ne, %r, %zero : tensor<64xi32>
    %both = arith.andi %other, %some : tensor<64xi1>
    %up = arith.addi %r, %c : tensor<64xi32>
    %m = arith.select %both, %up, %r : tensor<64xi1>, tensor<64xi32>
    %t = nv_tileaa.print "%d", %m : tensor<64xi32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

// CHECK-LABEL: @divided
// CHECK-COUNT-2: arith.floordivsi
// CHECK-NOT: arith.remsi
// CHECK: arith.subi
module {
  nv_tileaa.func @divided(%x: tensor<64xi32>, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %c = nv_tileaa.splat %n : i32 -> tensor<64xi32>
    %d = nv_tileaa.splat %n : i32 -> tensor<64xi32>
    %zero = arith.constant dense<0> : tensor<64xi32>
    %q = arith.floordivsi %x, %c : tensor<64xi32>
    %r = arith.remsi %x, %d : tensor<64xi32>
    %below = arith.cmpi slt, %r, %zero : tensor<64xi32>
    %sign = arith.cmpi slt, %d, %zero : tensor<64xi32>
    %other = arith.xori %sign, %below : tensor<64xi1>
    %some = arith.cmpi ne, %r, %zero : tensor<64xi32>
    %both = arith.andi %some, %other : tensor<64xi1>
    %up = arith.addi %d, %r : tensor<64xi32>
    %m = arith.select %both, %up, %r : tensor<64xi1>, tensor<64xi32>
    %t = nv_tileaa.print "%d %d", %m, %q : tensor<64xi32>, tensor<64xi32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

// A divisor of unknown sign needs the comparison of signs; one that nothing is divided by keeps its remainder, and so
// does a scalar.

// CHECK-LABEL: @kept
// CHECK-NOT: arith.floordivsi
module {
  nv_tileaa.func @kept(%x: tensor<64xi32>, %n: i32, %y: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %c = nv_tileaa.splat %n : i32 -> tensor<64xi32>
    %zero = arith.constant dense<0> : tensor<64xi32>
    %r = arith.remsi %x, %c : tensor<64xi32>
    %below = arith.cmpi slt, %r, %zero : tensor<64xi32>
    %up = arith.addi %r, %c : tensor<64xi32>
    %m = arith.select %below, %up, %r : tensor<64xi1>, tensor<64xi32>
    %sign = arith.cmpi slt, %c, %zero : tensor<64xi32>
    %other = arith.xori %below, %sign : tensor<64xi1>
    %some = arith.cmpi ne, %r, %zero : tensor<64xi32>
    %both = arith.andi %other, %some : tensor<64xi1>
    %k = arith.select %both, %up, %r : tensor<64xi1>, tensor<64xi32>
    %seven = arith.constant 7 : i32
    %none = arith.constant 0 : i32
    %s = arith.remsi %y, %seven : i32
    %minus = arith.cmpi slt, %s, %none : i32
    %more = arith.addi %s, %seven : i32
    %l = arith.select %minus, %more, %s : i1, i32
    %t = nv_tileaa.print "%d %d %d", %m, %k, %l : tensor<64xi32>, tensor<64xi32>, i32 -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

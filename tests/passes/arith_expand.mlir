// RUN: tileiras-opt %s --arith-expand | FileCheck %s

// A quotient that is cut off is corrected by its remainder; what is known of the operands makes it cheaper.
// CHECK: llvm.func @divisions
// CHECK: llvm.sdiv
// CHECK: llvm.srem
// CHECK: llvm.icmp "sge"
// CHECK: llvm.add
// CHECK: llvm.icmp "slt"
// CHECK: llvm.sub
// A power of two shifts: up, where the addend cannot overflow, and down.
// CHECK: llvm.add %{{.*}} : i32
// CHECK: llvm.ashr
// CHECK: llvm.ashr
// CHECK-NOT: llvm.sdiv
// No number is negative.
// CHECK: llvm.udiv
// CHECK: llvm.urem
// CHECK: llvm.udiv
// CHECK-NOT: arith.
module {
  llvm.func @divisions(%a: i32, %b: i32) {
    %0 = arith.ceildivsi %a, %b : i32
    %1 = arith.floordivsi %a, %b : i32
    %2 = arith.ceildivsi %a, %b {nv_tileas.ranges = array<i64: 0, 1000, 8, 8>} : i32
    %3 = arith.floordivsi %a, %b {nv_tileas.ranges = array<i64: -1000, 1000, 8, 8>} : i32
    %4 = arith.ceildivsi %a, %b {nv_tileas.ranges = array<i64: 0, 1000, 1, 8>} : i32
    %5 = arith.floordivsi %a, %b {nv_tileas.ranges = array<i64: 0, 1000, 1, 8>} : i32
    llvm.return
  }

  // Four bits in the low half of a byte; other conversions are one operation.
  // CHECK: llvm.func @halves
  // CHECK: llvm.shl %[[X:.*]], %[[FOUR:.*]] : vector<4xi8>
  // CHECK: llvm.ashr %{{.*}}, %[[FOUR]] : vector<4xi8>
  // CHECK: llvm.and %[[X]], %{{.*}} : vector<4xi8>
  // CHECK: llvm.sext %{{.*}} : i8 to i32
  // CHECK: llvm.trunc %{{.*}} : i32 to i8
  // CHECK-NOT: arith.
  llvm.func @halves(%x: vector<4xi8>, %y: i8, %z: i32) -> vector<4xi8> {
    %0 = arith.trunci %x : vector<4xi8> to vector<4xi4>
    %1 = arith.extsi %0 : vector<4xi4> to vector<4xi8>
    %2 = arith.extui %0 : vector<4xi4> to vector<4xi8>
    %3 = llvm.add %1, %2 : vector<4xi8>
    %4 = arith.extsi %y : i8 to i32
    %5 = arith.trunci %z : i32 to i8
    llvm.return %3 : vector<4xi8>
  }

  // Twice the width, of which only the half with users is taken.
  // CHECK: llvm.func @products
  // CHECK: llvm.zext %{{.*}} : vector<4xi32> to vector<4xi64>
  // CHECK: llvm.mul %{{.*}} : vector<4xi64>
  // CHECK: llvm.lshr
  // CHECK-COUNT-1: llvm.trunc
  // CHECK: llvm.sext %{{.*}} : i64 to i128
  // CHECK-COUNT-2: llvm.trunc %{{.*}} : i128 to i64
  llvm.func @products(%a: vector<4xi32>, %c: i64) {
    %low, %high = arith.mului_extended %a, %a : vector<4xi32>
    %below, %above = arith.mulsi_extended %c, %c : i64
    llvm.intr.fake.use %high : vector<4xi32>
    llvm.intr.fake.use %below : i64
    llvm.intr.fake.use %above : i64
    llvm.return
  }
}

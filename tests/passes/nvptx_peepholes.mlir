// RUN: tileiras-opt %s --nvptx-peepholes | FileCheck %s

gpu.module @rows [#nvvm.target<chip = "sm_90">] {
  // The invariant part of an index is added to the base, the rest to that; the loop's own sum is gone.
  // CHECK-LABEL: llvm.func @address
  // CHECK: ^bb1(%[[I:[0-9]+]]: i64
  // CHECK: %[[MOVED:.*]] = llvm.getelementptr %arg0[%arg1] : {{.*}}, f32
  // CHECK: llvm.getelementptr %[[MOVED]][%[[I]]] : {{.*}}, f32
  // CHECK-NOT: llvm.getelementptr inbounds
  llvm.func @address(%p: !llvm.ptr<1>, %row: i64, %n: i64, %x: f32) {
    %zero = llvm.mlir.constant(0 : i64) : i64
    %one = llvm.mlir.constant(1 : i64) : i64
    llvm.br ^bb1(%zero : i64)
  ^bb1(%i: i64):
    %sum = llvm.add %i, %row : i64
    %q = llvm.getelementptr inbounds %p[%sum] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    llvm.store %x, %q : f32, !llvm.ptr<1>
    %next = llvm.add %i, %one : i64
    %more = llvm.icmp "slt" %next, %n : i64
    llvm.cond_br %more, ^bb1(%next : i64), ^bb2
  ^bb2:
    llvm.return
  }

  // A sum that is shifted; a product is not taken apart, nor is a sum with another user.
  // CHECK-LABEL: llvm.func @shifted
  // CHECK: ^bb1(%[[I:[0-9]+]]: i64
  // CHECK: %[[SCALED:.*]] = llvm.mul %[[I]]
  // CHECK: %[[FIXED:.*]] = llvm.shl %arg1
  // CHECK: %[[REST:.*]] = llvm.shl %[[SCALED]],
  // CHECK: %[[MOVED:.*]] = llvm.getelementptr %{{.*}}[%[[FIXED]]]
  // CHECK: llvm.getelementptr %[[MOVED]][%[[REST]]]
  // CHECK: %[[SUM:.*]] = llvm.add
  // CHECK: llvm.getelementptr %{{.*}}[%[[SUM]]]
  llvm.func @shifted(%p: !llvm.ptr<1>, %row: i64, %n: i64, %x: f32) {
    %zero = llvm.mlir.constant(0 : i64) : i64
    %one = llvm.mlir.constant(1 : i64) : i64
    llvm.br ^bb1(%zero : i64)
  ^bb1(%i: i64):
    %scaled = llvm.mul %i, %n : i64
    %sum = llvm.add %scaled, %row : i64
    %bytes = llvm.shl %sum, %one : i64
    %q = llvm.getelementptr %p[%bytes] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
    llvm.store %x, %q : f32, !llvm.ptr<1>
    %used = llvm.add %i, %row : i64
    %r = llvm.getelementptr %p[%used] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    llvm.store %x, %r : f32, !llvm.ptr<1>
    %more = llvm.icmp "slt" %used, %n : i64
    llvm.cond_br %more, ^bb1(%used : i64), ^bb2
  ^bb2:
    llvm.return
  }

  // Both sides extended alike are compared as they were; a signed comparison of numbers extended by zeros is not.
  // CHECK-LABEL: llvm.func @compared
  // CHECK: llvm.icmp "ult" %{{.*}} : vector<4xi32>
  // CHECK: llvm.icmp "ugt" %{{.*}} : vector<4xi32>
  // CHECK: llvm.icmp "slt" %{{.*}} : vector<4xi64>
  // CHECK: llvm.icmp "ult" %{{.*}} : vector<4xi64>
  llvm.func @compared(%x: vector<4xi32>, %n: i32) -> vector<4xi1> {
    %lane = llvm.mlir.constant(0 : i32) : i32
    %none = llvm.mlir.poison : vector<4xi64>
    %sx = llvm.sext %x : vector<4xi32> to vector<4xi64>
    %zx = llvm.zext %x : vector<4xi32> to vector<4xi64>
    %sn = llvm.sext %n : i32 to i64
    %zn = llvm.zext %n : i32 to i64
    %s0 = llvm.insertelement %sn, %none[%lane : i32] : vector<4xi64>
    %z0 = llvm.insertelement %zn, %none[%lane : i32] : vector<4xi64>
    %s = llvm.shufflevector %s0, %none [0, 0, 0, 0] : vector<4xi64>
    %z = llvm.shufflevector %z0, %none [0, 0, 0, 0] : vector<4xi64>
    llvm.br ^bb1
  ^bb1:
    %0 = llvm.icmp "ult" %sx, %s : vector<4xi64>
    %1 = llvm.icmp "ugt" %zx, %z : vector<4xi64>
    %2 = llvm.icmp "slt" %zx, %z : vector<4xi64>
    %3 = llvm.icmp "ult" %sx, %z : vector<4xi64>
    %4 = llvm.and %0, %1 : vector<4xi1>
    %5 = llvm.and %2, %3 : vector<4xi1>
    %6 = llvm.and %4, %5 : vector<4xi1>
    %7 = llvm.extractelement %6[%lane : i32] : vector<4xi1>
    llvm.cond_br %7, ^bb1, ^bb2
  ^bb2:
    llvm.return %6 : vector<4xi1>
  }

  // Four conditions for each of two elements: one is extended, three are additions under a predicate.  Conditions are
  // computed element by element.
  // CHECK-LABEL: llvm.func @count
  // CHECK: llvm.icmp "eq" %{{.*}} : i32
  // CHECK: llvm.zext
  // CHECK-COUNT-3: llvm.inline_asm {{.*}}"@$2 add.s32 $0, $1, 1;", "=r,0,b"
  // CHECK: llvm.insertelement
  // CHECK-COUNT-3: llvm.inline_asm {{.*}}"@$2 add.s32 $0, $1, 1;", "=r,0,b"
  // CHECK-NOT: llvm.inline_asm
  // One condition an element, and a sum of other numbers, stay.
  // CHECK: llvm.add %{{.*}} : vector<2xi32>
  // CHECK: llvm.add %{{.*}} : vector<2xi32>
  llvm.func @count(%a: vector<8xi32>, %b: vector<8xi32>, %c: vector<2xi32>) -> vector<2xi32> {
    llvm.br ^bb1(%c : vector<2xi32>)
  ^bb1(%before: vector<2xi32>):
    %same = llvm.icmp "eq" %a, %b : vector<8xi32>
    %ones = llvm.zext %same : vector<8xi1> to vector<8xi32>
    %low = llvm.shufflevector %ones, %ones [0, 1, 2, 3] : vector<8xi32>
    %high = llvm.shufflevector %ones, %ones [4, 5, 6, 7] : vector<8xi32>
    %four = llvm.add %low, %high : vector<4xi32>
    %left = llvm.shufflevector %four, %four [0, 2] : vector<4xi32>
    %right = llvm.shufflevector %four, %four [1, 3] : vector<4xi32>
    %sum = llvm.add %left, %right : vector<2xi32>
    %less = llvm.icmp "slt" %sum, %c : vector<2xi32>
    %one = llvm.zext %less : vector<2xi1> to vector<2xi32>
    %after = llvm.add %before, %one : vector<2xi32>
    %both = llvm.add %after, %sum : vector<2xi32>
    %lane = llvm.mlir.constant(0 : i32) : i32
    %more = llvm.extractelement %less[%lane : i32] : vector<2xi1>
    llvm.cond_br %more, ^bb1(%both : vector<2xi32>), ^bb2
  ^bb2:
    llvm.return %both : vector<2xi32>
  }

  // Without a loop nothing is rewritten.
  // CHECK-LABEL: llvm.func @straight
  // CHECK: llvm.icmp "ult" %{{.*}} : vector<4xi64>
  llvm.func @straight(%x: vector<4xi32>, %y: vector<4xi32>) -> vector<4xi1> {
    %sx = llvm.sext %x : vector<4xi32> to vector<4xi64>
    %sy = llvm.sext %y : vector<4xi32> to vector<4xi64>
    %0 = llvm.icmp "ult" %sx, %sy : vector<4xi64>
    llvm.return %0 : vector<4xi1>
  }
}

// At level 0 a target has no row.
// CHECK: gpu.module @level_0
// CHECK: llvm.icmp "ult" %{{.*}} : vector<4xi64>
gpu.module @level_0 [#nvvm.target<O = 0, chip = "sm_90">] {
  llvm.func @compared(%x: vector<4xi32>, %y: vector<4xi32>, %again: i1) -> vector<4xi1> {
    llvm.br ^bb1
  ^bb1:
    %sx = llvm.sext %x : vector<4xi32> to vector<4xi64>
    %sy = llvm.sext %y : vector<4xi32> to vector<4xi64>
    %0 = llvm.icmp "ult" %sx, %sy : vector<4xi64>
    llvm.cond_br %again, ^bb1, ^bb2
  ^bb2:
    llvm.return %0 : vector<4xi1>
  }
}

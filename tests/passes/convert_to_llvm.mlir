// RUN: tileiras-opt %s --convert-to-llvm | FileCheck %s --check-prefixes=CHECK,BOTH
// RUN: tileiras-opt %s --test-convert-to-llvm | FileCheck %s --check-prefixes=ARITH,BOTH

// What is one operation of llvm; expansions and functions of libdevice are for other passes.
// BOTH: llvm.add %{{.*}}, %{{.*}} overflow<nsw, nuw> : i32
// BOTH: llvm.mul %{{.*}}, %{{.*}} : vector<4xi32>
// BOTH: llvm.intr.smax
// BOTH: llvm.fmul %{{.*}} : vector<4xf32>
// BOTH: llvm.fneg
// CHECK: llvm.intr.fma(
// CHECK: llvm.intr.fabs(
// CHECK: llvm.intr.sqrt(
// ARITH: math.fma
// ARITH: math.absf
// BOTH: math.exp
// BOTH: arith.ceildivsi
module {
  llvm.func @one_each(%a: i32, %v: vector<4xi32>, %x: f32, %w: vector<4xf32>) {
    %0 = arith.addi %a, %a {overflowFlags = #arith.overflow<nsw_nuw>} : i32
    %1 = arith.muli %v, %v : vector<4xi32>
    %2 = arith.maxsi %v, %1 : vector<4xi32>
    %3 = arith.mulf %w, %w : vector<4xf32>
    %4 = arith.negf %3 : vector<4xf32>
    %5 = math.fma %w, %3, %4 : vector<4xf32>
    %6 = math.absf %5 {flush_to_zero} : vector<4xf32>
    %7 = math.sqrt %x : f32
    %8 = math.exp %x : f32
    %9 = arith.ceildivsi %a, %0 : i32
    llvm.return
  }
}

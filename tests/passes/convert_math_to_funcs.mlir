// RUN: tileiras-opt %s --convert-math-to-funcs | FileCheck %s

// Calls of libdevice, each function declared once, and instructions that approximate, for a whole vector.
// CHECK: llvm.func @functions
// CHECK: llvm.call @__nv_expf(%{{.*}}) {no_memory}
// CHECK: llvm.call @__nv_exp(
// CHECK: llvm.call @__nv_expf(
// CHECK: llvm.call @__nv_fmodf(
// CHECK: llvm.call @__nv_powif(
// CHECK: nvvm.mulf %{{.*}} {ftz, rounding = #nvvm.fp_rnd_mode<rn>} : vector<2xf32>
// CHECK: nvvm.ex2.approx %{{.*}} {ftz} : vector<2xf32>
// CHECK: nvvm.tanh.approx %{{.*}} : f32
// CHECK: nvvm.rsqrt.approx %{{.*}} {ftz} : f32
// Flushing alone is no reason to approximate: the library's sine is no instruction.
// CHECK: llvm.call @__nv_sinf(
// CHECK-NOT: math.
// CHECK: llvm.func @__nv_expf(f32) -> f32
// CHECK-NOT: llvm.func @__nv_expf
module {
  llvm.func @functions(%x: f32, %d: f64, %n: i32, %v: vector<2xf32>) {
    %0 = math.exp %x : f32
    %1 = math.exp %d : f64
    %2 = math.exp %0 : f32
    %3 = arith.remf %x, %0 : f32
    %4 = math.fpowi %x, %n : f32, i32
    %5 = math.exp %v {approx, flush_to_zero} : vector<2xf32>
    %6 = math.tanh %x {approx, flush_to_zero} : f32
    %7 = math.rsqrt %x {flush_to_zero} : f32
    %8 = math.sin %x {flush_to_zero} : f32
    llvm.return
  }
}

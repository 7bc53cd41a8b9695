// RUN: tileiras-opt %s --tileas-optimize-alloc-tensor --tileas-insert-barriers --tileas-assign-launch-bounds --convert-tileas-to-llvm --convert-math-to-funcs | FileCheck %s

// libdevice as a rule; the hardware's approximation where the operation allows it, or where flushing asks for what the
// library's function consists of.

// CHECK: llvm.func @functions
// CHECK: llvm.call @__nv_expf(
// CHECK: %[[SCALED:[0-9]+]] = nvvm.mulf %{{.*}}, %{{.*}} {rounding = #nvvm.fp_rnd_mode<rn>} : f32
// CHECK: nvvm.ex2.approx %[[SCALED]] : f32
// CHECK: nvvm.tanh.approx
// CHECK: nvvm.rsqrt.approx %{{.*}} {ftz} : f32
// CHECK: llvm.call @__nv_exp(
builtin.module {
  nv_tileaa.func @functions(%x: f32, %d: f64) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %0 = math.exp %x : f32
    %1 = math.exp %x {approx} : f32
    %2 = math.tanh %x {approx} : f32
    %3 = math.rsqrt %x {flush_to_zero} : f32
    %4 = math.exp %d : f64
    nv_tileaa.return
  }
}

// RUN: tileiras-opt %s --split-input-file --convert-target-to-nvvm | FileCheck %s
// RUN: tileiras-opt %s --split-input-file --convert-target-to-nvvm --convert-target-to-nvvm | FileCheck %s
// RUN: tileiras-opt %s --split-input-file "--convert-target-to-nvvm=compute-capability=sm_120 opt-level=0 device-debug use-nvgpucomp-libnvvm" | FileCheck %s --check-prefix=DEBUG

// The capability that the module says goes before its functions' target; what was attached before is replaced.
// CHECK: gpu.module @a [#nvvm.target<O = 3, chip = "sm_90", flags = {"-Xopt", "-fma=0", "-pragma-unroll-threshold=9900000"}>] attributes {compute_capability = 90 : i32} {
// DEBUG: gpu.module @a [#nvvm.target<O = 0, chip = "sm_120", flags = {"-Xopt", "-fma=0", "-g", "-pragma-unroll-threshold=9900000", libNVVMUseNVGpuComp = true}>]
gpu.module @a [#nvvm.target<chip = "sm_75">, #nvvm.target<chip = "sm_80">] attributes {compute_capability = 90 : i32} {
  llvm.func @k() attributes {nvvm.kernel, target_spec = "sm_100"} {
    llvm.return
  }
}

// -----

// CHECK: gpu.module @b [#nvvm.target<O = 3, chip = "sm_100", {{.*}}>] {
gpu.module @b {
  llvm.func @k() attributes {nvvm.kernel, target_spec = "sm_100"} {
    llvm.return
  }
}

// -----

// Kernels without a module of their own get one.
// CHECK: module @outer {
// CHECK-NEXT: gpu.module @outer [#nvvm.target<O = 3, chip = "sm_80", {{.*}}>] attributes {nvvm.reflect_ftz} {
// CHECK-NEXT: llvm.func @k()
module @outer attributes {nvvm.reflect_ftz} {
  llvm.func @k() attributes {nvvm.kernel, target_spec = "sm_80"} {
    llvm.return
  }
}

// -----

// CHECK: module {
// CHECK-NEXT: }
module {
}

// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --nvvm-ir-verifier

module {
  gpu.module @ours [#nvvm.target<O = 3, chip = "sm_90", flags = {"-Xopt", "-fma=0", "-g", "-pragma-unroll-threshold=9900000"}>] {
  }
}

// -----

module {
  // expected-error @below {{target flag '-fma=1' asks for contraction, which is part of an operation here: expected 0}}
  // expected-error @below {{target flag '-pragma-unroll-threshold=8' asks for unrolling, which is the schedule's: expected 9900000 or more}}
  // expected-error @below {{target flag '-w' is not known}}
  gpu.module @others [#nvvm.target<O = 3, chip = "sm_90", flags = {"-fma=1", "-pragma-unroll-threshold=8", "-w"}>] {
  }
}

// -----

module {
  // expected-warning @below {{target flag 'libNVVMUseNVGpuComp': it has no effect, code is not made by libNVVM and not compressed}}
  gpu.module @compressed [#nvvm.target<O = 3, chip = "sm_90", flags = {libNVVMUseNVGpuComp = true}>] {
  }
}

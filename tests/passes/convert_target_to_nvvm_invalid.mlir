// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --convert-target-to-nvvm

module {
  // expected-error @below {{failed to get compute capability.}}
  gpu.module @a {
    llvm.func @k() attributes {nvvm.kernel} {
      llvm.return
    }
  }
}

// -----

module {
  // expected-error @below {{failed to get compute capability.}}
  gpu.module @a attributes {compute_capability = "sm_42"} {
  }
}

// -----

// What would have to become one module are two.
module @kernels {
  // expected-error @below {{gpu.module already carries a conflicting target}}
  gpu.module @kernels [#nvvm.target<chip = "sm_80">] {
  }
  llvm.func @k() attributes {nvvm.kernel, target_spec = "sm_90"} {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{optimization level must be a number between 0 and 3}}
  gpu.module @a [#nvvm.target<O = 4, chip = "sm_90">] {
  }
}

// -----

module {
  // expected-error @below {{target chip cannot be empty}}
  gpu.module @a [#nvvm.target<chip = "">] {
  }
}

// -----

module {
  // expected-error @below {{#nvvm.target has no parameter 'speed'}}
  gpu.module @a [#nvvm.target<chip = "sm_90", speed = "high">] {
  }
}

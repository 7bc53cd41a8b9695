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

// -----

module {
  // expected-error @below {{'nv_tileaa.compute_capability' must be an integer such as 90, got "sm_90"}}
  gpu.module @a attributes {nv_tileaa.compute_capability = "sm_90"} {
  }
}

// -----

module {
  // expected-error @below {{'nv_tileaa.compute_capability' must be an integer such as 90, got true}}
  gpu.module @a attributes {nv_tileaa.compute_capability = true} {
  }
}

// -----

module {
  // expected-error @below {{'nv_tileaa.compute_capability' must be an integer such as 90, got -90 : i32}}
  gpu.module @a attributes {nv_tileaa.compute_capability = -90 : i32} {
  }
}

// -----

module {
  // expected-error @below {{failed to get compute capability.}}
  gpu.module @a attributes {nv_tileaa.compute_capability = 42 : i32} {
  }
}

// -----

module {
  // expected-error @below {{'nv_tileaa.target_spec' must be a string such as "sm_90", got 90 : i32}}
  gpu.module @a attributes {nv_tileaa.target_spec = 90 : i32} {
  }
}

// -----

module {
  // expected-error @below {{'nv_tileaa.target_spec' must be a string such as "sm_90", got "gfx90"}}
  gpu.module @a attributes {nv_tileaa.target_spec = "gfx90"} {
  }
}

// -----

module {
  // expected-error @below {{'nv_tileaa.libnvvm_use_nvgpucomp' must be true or false, got "yes"}}
  gpu.module @a attributes {nv_tileaa.target_spec = "sm_90", nv_tileaa.libnvvm_use_nvgpucomp = "yes"} {
  }
}

// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

module {
  // expected-error @below {{#nv_tileaa.kernel_spec has parameter 'numWarps' twice}}
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numWarps = 8>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{#nv_tileaa.kernel_spec has no parameter 'warps'}}
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<warps = 4>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{numWarps must be a power of two of at most 32, got 0}}
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 0>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{numWarps must be a power of two of at most 32, got -4}}
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = -4>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{numWarps must be a power of two of at most 32, got 64}}
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 64>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{expected integer value}}
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4.0>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{expected integer value}}
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = "4">, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{integer value too large}}
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 99999999999999999999>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{numCtas must be a power of two of at most 16, got 0}}
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 0>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{clusterDim must be [numCtas, 1, 1], got [2, 2, 1]}}
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<clusterDim = [2, 2, 1]>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{clusterDim must be [numCtas, 1, 1], got []}}
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<clusterDim = []>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{clusterDim must be [numCtas, 1, 1], got [2, 1, 1]}}
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 4, clusterDim = [2, 1, 1]>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{occupancy must be between 1 and 32, got 0}}
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<occupancy = 0>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}

// -----

// How many threads and CTAs there are is the kernel_spec's.
module {
  // expected-error @below {{'nv_tileaa.func' op has 'nvvm.reqntid', which is decided by kernel_spec or not known}}
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<>, target_spec = "sm_90", nvvm.reqntid = array<i32: 32>} {
    nv_tileaa.return
  }
}

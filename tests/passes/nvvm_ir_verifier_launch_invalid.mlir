// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --nvvm-ir-verifier=compute-capability=sm_90

// Every launch attribute that is a number: its form, its sign, its range.
module {
  // expected-error @below {{'nvvm.reqntid' attribute must be positive, got 0}}
  llvm.func @k0() attributes {nvvm.kernel, nvvm.reqntid = array<i32: 0>} {
    llvm.return
  }
  // expected-error @below {{'nvvm.reqntid' attribute must be positive, got -4, -8}}
  llvm.func @k1() attributes {nvvm.kernel, nvvm.reqntid = array<i32: -4, -8>} {
    llvm.return
  }
  // expected-error @below {{'nvvm.reqntid' attribute must be integer array with maximum 3 index}}
  llvm.func @k2() attributes {nvvm.kernel, nvvm.reqntid = array<i1: true>} {
    llvm.return
  }
  // expected-error @below {{'nvvm.reqntid' attribute must be integer array with maximum 3 index}}
  llvm.func @k3() attributes {nvvm.kernel, nvvm.reqntid = array<f32: 32.0>} {
    llvm.return
  }
  // expected-error @below {{'nvvm.reqntid' attribute must be integer array with maximum 3 index}}
  llvm.func @k4() attributes {nvvm.kernel, nvvm.reqntid = 32 : i32} {
    llvm.return
  }
  // expected-error @below {{'nvvm.maxntid' attribute must be positive, got -1}}
  llvm.func @k5() attributes {nvvm.kernel, nvvm.maxntid = array<i32: -1>} {
    llvm.return
  }
  // expected-error @below {{'nvvm.maxntid' attribute must be positive, got 0, 1, 1}}
  llvm.func @k6() attributes {nvvm.kernel, nvvm.maxntid = array<i32: 0, 1, 1>} {
    llvm.return
  }
  // expected-error @below {{'nvvm.maxntid' attribute asks for 4096 threads; a CTA has 1 to 1024}}
  llvm.func @k7() attributes {nvvm.kernel, nvvm.maxntid = array<i32: 64, 64>} {
    llvm.return
  }
  // expected-error @below {{'nvvm.maxntid' attribute must be integer array with maximum 3 index}}
  llvm.func @k8() attributes {nvvm.kernel, nvvm.maxntid = [32]} {
    llvm.return
  }
  // expected-error @below {{'nvvm.cluster_dim' attribute must be positive, got 0}}
  llvm.func @k9() attributes {nvvm.kernel, nvvm.cluster_dim = array<i32: 0>} {
    llvm.return
  }
  // expected-error @below {{'nvvm.cluster_dim' attribute must be integer array with maximum 3 index}}
  llvm.func @k10() attributes {nvvm.kernel, nvvm.cluster_dim = dense<2> : tensor<3xi32>} {
    llvm.return
  }
  // expected-error @below {{'nvvm.minctasm' attribute must be positive, got -1}}
  llvm.func @k11() attributes {nvvm.kernel, nvvm.minctasm = -1 : i32} {
    llvm.return
  }
  // expected-error @below {{'nvvm.minctasm' attribute must be positive, got 0}}
  llvm.func @k12() attributes {nvvm.kernel, nvvm.minctasm = 0 : i32} {
    llvm.return
  }
  // expected-error @below {{'nvvm.minctasm' attribute must be integer constant}}
  llvm.func @k13() attributes {nvvm.kernel, nvvm.minctasm = 1.5 : f32} {
    llvm.return
  }
  // expected-error @below {{'nvvm.minctasm' attribute must be integer constant}}
  llvm.func @k14() attributes {nvvm.kernel, nvvm.minctasm = true} {
    llvm.return
  }
  // expected-error @below {{'nvvm.minctasm' attribute must be integer constant}}
  llvm.func @k15() attributes {nvvm.kernel, nvvm.minctasm} {
    llvm.return
  }
  // expected-error @below {{'nvvm.minctasm' attribute must be at most 2147483647, got 4294967296}}
  llvm.func @k16() attributes {nvvm.kernel, nvvm.minctasm = 4294967296 : i64} {
    llvm.return
  }
  // expected-error @below {{'nvvm.maxnreg' attribute must be positive, got 0}}
  llvm.func @k17() attributes {nvvm.kernel, nvvm.maxnreg = 0 : i32} {
    llvm.return
  }
  // expected-error @below {{'nvvm.maxnreg' attribute must be integer constant}}
  llvm.func @k18() attributes {nvvm.kernel, nvvm.maxnreg = "64"} {
    llvm.return
  }
  // expected-error @below {{'nvvm.maxclusterrank' attribute must be at most 16, got 17}}
  llvm.func @k19() attributes {nvvm.kernel, nvvm.maxclusterrank = 17 : i32} {
    llvm.return
  }
  // expected-error @below {{'nvvm.cluster_max_blocks' attribute must be positive, got -2}}
  llvm.func @k20() attributes {nvvm.kernel, nvvm.cluster_max_blocks = -2 : i32} {
    llvm.return
  }
  // expected-error @below {{'nvvm.cluster_max_blocks' attribute cannot be used along with 'nvvm.cluster_dim'}}
  llvm.func @k21() attributes {nvvm.kernel, nvvm.cluster_max_blocks = 2 : i32, nvvm.cluster_dim = array<i32: 2>} {
    llvm.return
  }
  // expected-error @below {{'nvvm.blocksareclusters' attribute must be a unit attribute}}
  llvm.func @k22() attributes {nvvm.kernel, nvvm.blocksareclusters = 3 : i32, nvvm.cluster_dim = array<i32: 2>, nvvm.reqntid = array<i32: 32>} {
    llvm.return
  }
  // expected-error @below {{'nvvm.minctas' attribute of a kernel is not known}}
  llvm.func @k23() attributes {nvvm.kernel, nvvm.minctas = 2 : i32} {
    llvm.return
  }
  // expected-error @below {{'tileiras.shared_memory' attribute must be a number of bytes, got -8 : i32}}
  llvm.func @k24() attributes {nvvm.kernel, tileiras.shared_memory = -8 : i32} {
    llvm.return
  }
  // expected-error @below {{'tileiras.shared_memory' attribute must be a number of bytes, got "all"}}
  llvm.func @k25() attributes {nvvm.kernel, tileiras.shared_memory = "all"} {
    llvm.return
  }
  // expected-error @below {{'nvvm.kernel' attribute must be a unit attribute}}
  llvm.func @marked() attributes {nvvm.kernel = 3} {
    llvm.return
  }
  llvm.func @right() attributes {nvvm.kernel, nvvm.cluster_max_blocks = 16 : i32, nvvm.maxnreg = 64, nvvm.maxntid = array<i32: 32, 32>, nvvm.minctasm = 2 : index, tileiras.shared_memory = 0 : i32} {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{failed to look up NVPTX target for requested triple: 'x86_64-pc-linux-gnu'}}
  gpu.module @m [#nvvm.target<triple = "x86_64-pc-linux-gnu", chip = "sm_90">] {
  }
}

// -----

module {
  // expected-error @below {{failed to look up NVPTX target for requested triple: 'nvptx-nvidia-cuda', whose addresses have 32 bits}}
  gpu.module @m [#nvvm.target<triple = "nvptx-nvidia-cuda", chip = "sm_90">] {
  }
}

// -----

module {
  // expected-error @below {{failed to look up NVPTX target for requested triple: 'nvptx64-nvidia-gpulibs', which is a library's}}
  gpu.module @m [#nvvm.target<triple = "nvptx64-nvidia-gpulibs", chip = "sm_90">] {
  }
}

// -----

module {
  // expected-error @below {{target feature '+sm_80' is not that of chip 'sm_90'}}
  gpu.module @m [#nvvm.target<chip = "sm_90", features = "+ptx80,+sm_80">] {
  }
}

// -----

module {
  // expected-error @below {{target has no feature '+ptx79'}}
  gpu.module @m [#nvvm.target<chip = "sm_90", features = "+ptx79">] {
  }
}

// -----

module {
  // expected-error @below {{target asks for a module that is linked later, which nothing here does}}
  gpu.module @m [#nvvm.target<chip = "sm_90", link = true>] {
  }
}

// -----

module {
  // expected-error @below {{target has no feature 'fast'}}
  gpu.module @m [#nvvm.target<chip = "sm_90", features = "fast">] {
  }
}

// -----

module {
  // expected-error @below {{target flags must be a dictionary, got 3 : i64}}
  gpu.module @m [#nvvm.target<chip = "sm_90", flags = 3>] {
  }
}

// -----

module {
  // expected-error @below {{#nvvm.target has parameter 'chip' twice}}
  gpu.module @m [#nvvm.target<chip = "sm_90", chip = "sm_80">] {
  }
}

// -----

module {
  // expected-error @below {{expected valid keyword}}
  gpu.module @m [#nvvm.target<chip = "sm_90", link = 1>] {
  }
}

// -----

module {
  // expected-error @below {{'gpu.module' op expects targets to be #nvvm.target, got 42 : i64}}
  gpu.module @m [42] {
  }
}

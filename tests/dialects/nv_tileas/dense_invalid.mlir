// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

// Elements are kept in 1, 2, 4 or 8 bytes: other widths are refused where they are written, in any dialect's text.

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1>, target_spec = "sm_90"} {
    // expected-error @below {{elements of type i9 cannot be written: they have 1 to 8, 16, 32 or 64 bits}}
    %c = arith.constant dense<1> : tensor<1xi9>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1>, target_spec = "sm_90"} {
    // expected-error @below {{elements of type i12 cannot be written: they have 1 to 8, 16, 32 or 64 bits}}
    %c = arith.constant dense<1> : tensor<1xi12>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1>, target_spec = "sm_90"} {
    // expected-error @below {{elements of type i24 cannot be written: they have 1 to 8, 16, 32 or 64 bits}}
    %c = arith.constant dense<1> : tensor<1xi24>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1>, target_spec = "sm_90"} {
    // expected-error @below {{elements of type i33 cannot be written: they have 1 to 8, 16, 32 or 64 bits}}
    %c = arith.constant dense<1> : tensor<1xi33>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1>, target_spec = "sm_90"} {
    // expected-error @below {{elements of type i63 cannot be written: they have 1 to 8, 16, 32 or 64 bits}}
    %c = arith.constant dense<1> : tensor<1xi63>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1>, target_spec = "sm_90"} {
    // expected-error @below {{elements of type i65 cannot be written: they have 1 to 8, 16, 32 or 64 bits}}
    %c = arith.constant dense<1> : tensor<1xi65>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1>, target_spec = "sm_90"} {
    // expected-error @below {{elements of type i128 cannot be written: they have 1 to 8, 16, 32 or 64 bits}}
    %c = arith.constant dense<1> : tensor<1xi128>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1>, target_spec = "sm_90"} {
    // expected-error @below {{elements of type i3216 cannot be written: they have 1 to 8, 16, 32 or 64 bits}}
    %c = arith.constant dense<1> : tensor<1xi3216>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1>, target_spec = "sm_90"} {
    // expected-error @below {{elements of type i16777215 cannot be written: they have 1 to 8, 16, 32 or 64 bits}}
    %c = arith.constant dense<1> : tensor<1xi16777215>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1>, target_spec = "sm_90"} {
    // expected-error @below {{elements of type i128 cannot be written: they have 1 to 8, 16, 32 or 64 bits}}
    %c = arith.constant dense<[1, 2]> : tensor<2xi128>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1>, target_spec = "sm_90"} {
    // expected-error @below {{elements of type i24 cannot be written: they have 1 to 8, 16, 32 or 64 bits}}
    %c = arith.constant dense<"0x010203"> : tensor<1xi24>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1>, target_spec = "sm_90"} {
    // expected-error @below {{elements of type i3216 cannot be written: they have 1 to 8, 16, 32 or 64 bits}}
    %c = arith.constant dense<> : tensor<0xi3216>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1>, target_spec = "sm_90"} {
    // expected-error @below {{elements of type i128 cannot be written: they have 1 to 8, 16, 32 or 64 bits}}
    %c = arith.constant dense<"0x"> : tensor<0xi128>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1>, target_spec = "sm_90"} {
    // expected-error @below {{elements of type i128 cannot be written: they have 1 to 8, 16, 32 or 64 bits}}
    %c = arith.constant dense<1> : tensor<1xi128, #nv_tileas.linear<register = [], lane = [[0], [0], [0], [0], [0]], warp = []>>
    nv_tileaa.return
  }
}

// -----

module {
  // expected-error @below {{elements of type i3216 cannot be written: they have 1 to 8, 16, 32 or 64 bits}}
  nv_tileaa.global @g {value = dense<1> : tensor<1xi3216>}
}

// -----

module {
  llvm.func @f() {
    // expected-error @below {{elements of type i128 cannot be written: they have 1 to 8, 16, 32 or 64 bits}}
    %c = llvm.mlir.constant(dense<1> : vector<2xi128>) : vector<2xi128>
    llvm.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1>, target_spec = "sm_90"} {
    %a = arith.constant dense<[1, -2]> : tensor<2xi3>
    %b = arith.constant dense<1> : tensor<2xi7>
    %c = arith.constant 1 : i128
    nv_tileaa.return
  }
}

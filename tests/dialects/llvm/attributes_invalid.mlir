// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

module {
  // expected-error @below {{'llvm.func' op argument attribute 'llvm.align' must be a power of two of at most 4294967296, got unit}}
  llvm.func @f(%p: !llvm.ptr {llvm.align}) {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{'llvm.func' op argument attribute 'llvm.align' must be a power of two of at most 4294967296, got "x"}}
  llvm.func @f(%p: !llvm.ptr {llvm.align = "x"}) {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{'llvm.func' op argument attribute 'llvm.align' must be a power of two of at most 4294967296, got -4 : i64}}
  llvm.func @f(%p: !llvm.ptr {llvm.align = -4}) {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{'llvm.func' op argument attribute 'llvm.align' must be a power of two of at most 4294967296, got 0 : i64}}
  llvm.func @f(%p: !llvm.ptr {llvm.align = 0}) {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{'llvm.func' op argument attribute 'llvm.align' must be a power of two of at most 4294967296, got 12 : i64}}
  llvm.func @f(%p: !llvm.ptr {llvm.align = 12}) {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{'llvm.func' op argument attribute 'llvm.align' must be a power of two of at most 4294967296, got true}}
  llvm.func @f(%p: !llvm.ptr {llvm.align = true}) {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{'llvm.func' op argument attribute 'llvm.align' must be a power of two of at most 4294967296, got 8589934592 : i64}}
  llvm.func @f(%p: !llvm.ptr {llvm.align = 8589934592}) {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{'llvm.func' op argument attribute 'llvm.byval' must be an LLVM type, got unit}}
  llvm.func @f(%p: !llvm.ptr {llvm.byval}) {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{'llvm.func' op argument attribute 'llvm.byval' must be an LLVM type, got tensor<2xi32>}}
  llvm.func @f(%p: !llvm.ptr {llvm.byval = tensor<2xi32>}) {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{'llvm.func' op argument attribute 'llvm.noalias' must be a unit attribute, got 3 : i64}}
  llvm.func @f(%p: !llvm.ptr {llvm.noalias = 3}) {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{'llvm.func' op argument attribute 'tileiras.name' must be a string, got 3 : i64}}
  llvm.func @f(%p: !llvm.ptr {tileiras.name = 3}) {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{'llvm.func' op argument attribute 'tileiras.hidden' must be a string, got unit}}
  llvm.func @f(%p: !llvm.ptr {tileiras.hidden}) {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{'denormal_fp_math' must be one or two modes of denormals, got 3 : i64}}
  llvm.func @f() attributes {denormal_fp_math = 3} {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{'denormal_fp_math_f32' must be one or two modes of denormals, got "flush"}}
  llvm.func @f() attributes {denormal_fp_math_f32 = "flush"} {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{'llvm.mlir.global' op has no address space -1}}
  llvm.mlir.global internal @g(0 : i32) {addr_space = -1 : i32} : i32
}

// -----

module {
  // expected-error @below {{there is no address space -1}}
  llvm.func @f(!llvm.ptr<-1>)
}

// -----

module {
  // expected-error @below {{there is no address space 16777216}}
  llvm.func @f(!llvm.ptr<16777216>)
}

// -----

module {
  // expected-error @below {{an array cannot have -1 elements}}
  llvm.func @f(!llvm.array<-1 x i8>)
}

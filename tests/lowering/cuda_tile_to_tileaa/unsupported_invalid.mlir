// RUN: not tileiras-opt %s --split-input-file --convert-cudatile-to-tileaa 2>&1 | FileCheck %s

builtin.module {
cuda_tile.module @kernels {
  // CHECK: unsupported_invalid.mlir:[[@LINE+1]]:{{[0-9]+}}: error: entry argument #1 has type '!cuda_tile.token', which is no kernel parameter
  entry @token(%a: tile<i32>, %b: token) {
    return
  }
}
}

// -----

builtin.module {
cuda_tile.module @kernels {
  entry @previews(%a: tile<i32>) {
    // CHECK: unsupported_invalid.mlir:[[@LINE+1]]:{{[0-9]+}}: error: 'cuda_tile.preview$call' op calls '@f', which is no function of the module: only entries have bodies
    %0 = "cuda_tile.preview$call"(%a) {callee = @f, const_args = []} : (!cuda_tile.tile<i32>) -> !cuda_tile.tile<i32>
    return
  }
}
}

// -----

// Two modules become one, which has one memory of a name.
builtin.module {
cuda_tile.module @one {
  global @memory <i32: 0> : tile<1xi32>
}
cuda_tile.module @memory {
  // CHECK: unsupported_invalid.mlir:[[@LINE+1]]:{{[0-9]+}}: error: redefinition of symbol named 'memory'
  global @memory <i32: 1> : tile<1xi32>
}
}

// RUN: not tileiras-opt %s --split-input-file --convert-cudatile-to-tileaa=compute-capability=sm_90 2>&1 | FileCheck %s

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
    // CHECK: unsupported_invalid.mlir:[[@LINE+1]]:{{[0-9]+}}: error: 'cuda_tile.preview$call' op calls '@f', a function of a tile library, whose code is not linked here
    %0 = "cuda_tile.preview$call"(%a) {callee = @f, const_args = []} : (!cuda_tile.tile<i32>) -> !cuda_tile.tile<i32>
    return
  }
}
}

// -----

builtin.module {
cuda_tile.module @kernels {
  // CHECK: unsupported_invalid.mlir:[[@LINE+1]]:{{[0-9]+}}: error: alignment of 2147483648 bytes exceeds 1073741824, the largest that ptxas assembles
  global @aligned alignment = 2147483648 <i32: 0> : tile<1xi32>
}
}

// -----

builtin.module {
cuda_tile.module @kernels {
  entry @aligned() {
    // CHECK: unsupported_invalid.mlir:[[@LINE+1]]:{{[0-9]+}}: error: alignment of 4611686018427387904 bytes exceeds 1073741824, the largest that ptxas assembles
    %0 = alloca num_elem = 1, alignment = 4611686018427387904 : tile<ptr<i32>>
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

// -----

// CHECK: unsupported_invalid.mlir:[[@LINE+6]]:{{[0-9]+}}: error: 'cuda_tile.load_view_tko' op type 'f8E4M3FN' has no padding value 'neg_inf'
cuda_tile.module @m {
  entry @no_such_number(%p: tile<ptr<f8E4M3FN>>, %n: tile<i32>) {
    %v = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf8E4M3FN, strides=[1]>
    %w = make_partition_view %v : partition_view<tile=(8), padding_value = neg_inf, tensor_view<?xf8E4M3FN, strides=[1]>>
    %i = constant <i32: 0> : tile<i32>
    %x, %k = load_view_tko weak %w[%i] : partition_view<tile=(8), padding_value = neg_inf, tensor_view<?xf8E4M3FN, strides=[1]>>, tile<i32> -> tile<8xf8E4M3FN>, token
    return
  }
}

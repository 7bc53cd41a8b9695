// RUN: not tileiras-opt %s --convert-cudatile-to-tileaa 2>&1 | FileCheck %s

builtin.module {
cuda_tile.module @kernels {
  entry @pdl() {
    %t = make_token : token
    // CHECK: unsupported_invalid.mlir:[[@LINE+2]]:{{[0-9]+}}: error: failed to legalize operation 'cuda_tile.memory_fence_alias_tko'
    // CHECK: error: failed to convert cuda_tile to nv_tileaa
    %t1 = memory_fence_alias_tko %t
    return
  }
}
}

// RUN: not tileiras-opt %s --split-input-file 2>&1 | FileCheck %s

// Nothing of the source language is left at this level.
builtin.module {
  nv_tileaa.func @left() attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // CHECK: leftover_invalid.mlir:[[@LINE+1]]:{{[0-9]+}}: error: 'cuda_tile.make_token' op is left over from cuda_tile
    %t = cuda_tile.make_token : !cuda_tile.token
    nv_tileaa.return
  }
}

// -----

builtin.module {
  // CHECK: leftover_invalid.mlir:[[@LINE+1]]:{{[0-9]+}}: error: 'nv_tileaa.func' op failed to get the target spec
  nv_tileaa.func @nowhere() attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "gfx90"} {
    nv_tileaa.return
  }
}

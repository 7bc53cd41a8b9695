// RUN: not tileiras-opt %s --split-input-file 2>&1 | FileCheck %s

#lanes = #nv_tileas.linear<register = [[1, 0], [2, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 0], [0, 0]], warp = []>
#half = #nv_tileas.linear<register = [[1, 0], [2, 0]], lane = [[0, 1], [0, 2], [0, 0], [0, 0], [0, 0]], warp = []>
#shared = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0]]>
builtin.module {
  nv_tileaa.func @k(%i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<4x8xf32, #shared>>
    // CHECK: slices_invalid.mlir:[[@LINE+1]]:10: error: 'nv_tileas.copy' op expects a tile like tensor<4x8xf32
    %x = nv_tileas.copy %b[%i : i32] : !nv_tileas.buffer<1, tensor<4x8xf32, #shared>> -> tensor<4x4xf32, #half>
    nv_tileaa.return
  }
}

// -----

#lanes = #nv_tileas.linear<register = [[1, 0], [2, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 0], [0, 0]], warp = []>
#shared = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0]]>
builtin.module {
  nv_tileaa.func @k(%i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<4x8xf32, #shared>>
    // CHECK: slices_invalid.mlir:[[@LINE+1]]:10: error: 'nv_tileas.copy' op expects a part of tensor<4x8xf32, {{.*}}> along one dimension, got tensor<4x8xf32
    %x = nv_tileas.copy %b[%i : i32] slice = %i : i32 : !nv_tileas.buffer<1, tensor<4x8xf32, #shared>> -> tensor<4x8xf32, #lanes>
    nv_tileaa.return
  }
}

// -----

#lanes = #nv_tileas.linear<register = [[1, 0], [2, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 0], [0, 0]], warp = []>
#shared = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
builtin.module {
  nv_tileaa.func @k(%i: i32, %p: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<8x8xf32, #shared>>
    %x = arith.constant dense<0.0> : tensor<4x8xf32> as tensor<4x8xf32, #lanes>
    // CHECK: slices_invalid.mlir:[[@LINE+1]]:5: error: 'nv_tileas.store_tensor' op expects a tile like tensor<8x8xf32
    nv_tileas.store_tensor %x into %b[%i : i32] : tensor<4x8xf32, #lanes>, !nv_tileas.buffer<1, tensor<8x8xf32, #shared>>
    nv_tileaa.return
  }
}

// -----

#lanes = #nv_tileas.linear<register = [[1, 0], [2, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 0], [0, 0]], warp = []>
#shared = #nv_tileas.shared<offset = [[0, 1], [0, 2], [1, 0]]>
builtin.module {
  nv_tileaa.func @k(%i: i32, %p: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<2x4xf32, #shared>>
    %x = arith.constant dense<0.0> : tensor<4x8xf32> as tensor<4x8xf32, #lanes>
    // CHECK: slices_invalid.mlir:[[@LINE+1]]:5: error: 'nv_tileas.store_tensor' op expects tensor<2x4xf32, {{.*}}> to be parts along one dimension, got tensor<4x8xf32
    nv_tileas.store_tensor %x into %b[%i : i32] {part = 0 : i32} : tensor<4x8xf32, #lanes>, !nv_tileas.buffer<1, tensor<2x4xf32, #shared>>
    nv_tileaa.return
  }
}

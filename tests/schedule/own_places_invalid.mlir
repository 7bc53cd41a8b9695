// RUN: not tileiras-opt %s --split-input-file 2>&1 | FileCheck %s

#rows = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4]], lane = [[1, 0], [2, 0], [0, 0], [0, 0], [0, 0]], warp = []>
#columns = #nv_tileas.linear<register = [[1, 0], [2, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 0], [0, 0]], warp = []>
builtin.module {
  nv_tileaa.func @k(%i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<4x8xf32, #rows>>
    // CHECK: own_places_invalid.mlir:[[@LINE+1]]:10: error: 'nv_tileas.copy' op expects the tile that each thread keeps, tensor<4x8xf32
    %x = nv_tileas.copy %b[%i : i32] : !nv_tileas.buffer<1, tensor<4x8xf32, #rows>> -> tensor<4x8xf32, #columns>
    nv_tileaa.return
  }
}

// -----

#rows = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4]], lane = [[1, 0], [2, 0], [0, 0], [0, 0], [0, 0]], warp = []>
builtin.module {
  nv_tileaa.func @k(%i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<4x8xf32, #rows>>
    %x = arith.constant dense<0.0> : tensor<4x8xf32> as tensor<4x8xf32, #rows>
    // CHECK: own_places_invalid.mlir:[[@LINE+1]]:5: error: 'nv_tileas.store_tensor' op expects the tile that each thread keeps, tensor<4x8xf32
    nv_tileas.store_tensor %x into %b[%i : i32] {part = 0 : i32} : tensor<4x8xf32, #rows>, !nv_tileas.buffer<1, tensor<4x8xf32, #rows>>
    nv_tileaa.return
  }
}

// -----

#rows = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4]], lane = [[1, 0], [2, 0], [0, 0], [0, 0], [0, 0]], warp = []>
builtin.module {
  nv_tileaa.func @k(%i: i32, %p: tensor<4x8x!nv_tileaa.ptr<f32>, #rows>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<4x8xf32, #rows>>
    // CHECK: own_places_invalid.mlir:[[@LINE+1]]:5: error: 'nv_tileas.async.load' op expects a buffer that all threads read, got !nv_tileas.buffer<1, tensor<4x8xf32
    nv_tileas.async.load %p into %b[%i : i32] {atom = #nv_tileas.copy_atom<cp_async, 4>} : tensor<4x8x!nv_tileaa.ptr<f32>, #rows>, !nv_tileas.buffer<1, tensor<4x8xf32, #rows>>
    nv_tileaa.return
  }
}

// -----

#rows = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4]], lane = [[1, 0], [2, 0], [0, 0], [0, 0], [0, 0]], warp = []>
#columns = #nv_tileas.linear<register = [[1, 0], [2, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 0], [0, 0]], warp = []>
builtin.module {
  nv_tileaa.func @k(%i: i32, %v: !nv_tileaa.tiled_view<[4, 8], !nv_tileaa.memref<?x8xf32, strides = [8, 1]>>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<4x8xf32, #rows>>
    // CHECK: own_places_invalid.mlir:[[@LINE+1]]:5: error: 'nv_tileas.async.tiled_load' op expects a buffer that all threads read, got !nv_tileas.buffer<1, tensor<4x8xf32
    nv_tileas.async.tiled_load %v[%i, %i] into %b[%i : i32] {atom = #nv_tileas.copy_atom<cp_async, 4>, layout = #columns} : !nv_tileaa.tiled_view<[4, 8], !nv_tileaa.memref<?x8xf32, strides = [8, 1]>>, (i32, i32), !nv_tileas.buffer<1, tensor<4x8xf32, #rows>>
    nv_tileaa.return
  }
}

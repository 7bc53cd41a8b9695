// Each thread stores its elements and loads them again by accesses of up to 16 bytes, and waits for nobody.
// RUN: tileiras-opt %s --tileas-optimize-alloc-tensor --tileas-insert-barriers --tileas-assign-launch-bounds --convert-tileas-to-llvm | FileCheck %s

#rows = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0]]>
#row = #nv_tileas.linear<register = [[0, 1], [0, 2]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0]]>
builtin.module {
  nv_tileaa.func @k(%i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<64x8xf32, #rows>>
    %c = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<64x4xf8E4M3FN, #row>>
    %zero = arith.constant 0 : i32
    // CHECK-LABEL: llvm.func @k
    // CHECK-NOT: nvvm.barrier
    // CHECK: llvm.load {{.*}} -> vector<4xi32>
    // CHECK: llvm.load {{.*}} -> vector<4xi32>
    %x = nv_tileas.copy %b[%zero : i32] : !nv_tileas.buffer<1, tensor<64x8xf32, #rows>> -> tensor<64x8xf32, #rows>
    // CHECK: llvm.store {{.*}} : vector<4xi32>
    // CHECK: llvm.store {{.*}} : vector<4xi32>
    nv_tileas.store_tensor %x into %b[%zero : i32] : tensor<64x8xf32, #rows>, !nv_tileas.buffer<1, tensor<64x8xf32, #rows>>
    // CHECK: llvm.load {{.*}} -> i32
    %y = nv_tileas.copy %c[%zero : i32] : !nv_tileas.buffer<1, tensor<64x4xf8E4M3FN, #row>> -> tensor<64x4xf8E4M3FN, #row>
    // CHECK: llvm.store {{.*}} : i32
    nv_tileas.store_tensor %y into %c[%zero : i32] : tensor<64x4xf8E4M3FN, #row>, !nv_tileas.buffer<1, tensor<64x4xf8E4M3FN, #row>>
    nv_tileas.dealloc_tensor %c : !nv_tileas.buffer<1, tensor<64x4xf8E4M3FN, #row>>
    nv_tileas.dealloc_tensor %b : !nv_tileas.buffer<1, tensor<64x8xf32, #rows>>
    nv_tileaa.return
  }
}

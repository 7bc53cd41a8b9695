// RUN: tileiras-opt %s --canonicalize --split-input-file | FileCheck %s

// A load whose tile is used as one of another element type only has that type; the bits change their type before the
// tile changes its shape.

// CHECK-LABEL: @load
// CHECK: make_memref {{.*}} -> !nv_tileaa.memref<?x?xbf16, strides = [?, 1]>
// CHECK: tiled_load {{.*}} -> tensor<64x32xbf16>
// CHECK-NOT: bitcast
// CHECK: permute {{.*}} : tensor<64x32xbf16> -> tensor<32x64xbf16>
module {
  nv_tileaa.func @load(%p: !nv_tileaa.ptr<i16>, %n: i32, %s: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileaa.make_memref %p, sizes = [%n, %n], strides = [%s] : !nv_tileaa.ptr<i16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xi16, strides = [?, 1]>
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<?x?xi16, strides = [?, 1]>, padding = zero>
    %x, %t = nv_tileaa.tiled_load %v[%n, %n] : !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<?x?xi16, strides = [?, 1]>, padding = zero>, (i32, i32) -> tensor<64x32xi16>, !nv_tileaa.mem_token
    %c = nv_tileaa.permute %x permutation = [1, 0] : tensor<64x32xi16> -> tensor<32x64xi16>
    %y = arith.bitcast %c : tensor<32x64xi16> to tensor<32x64xbf16>
    %u = nv_tileaa.print "%f", %y : tensor<32x64xbf16> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

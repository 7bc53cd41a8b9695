// RUN: tileiras-opt %s --canonicalize --split-input-file | FileCheck %s

// A load whose tile is used as one of another element type only has that type; the bits change their type before the
// tile changes its shape.

// CHECK-LABEL: @load
// CHECK: make_memref {{.*}} -> !nv_tileaa.memref<?x?xbf16, strides = [?, 1]>
// CHECK: tiled_load {{.*}} -> tensor<64x32xbf16>
// CHECK-NOT: bitcast
// CHECK: permute {{.*}}permutation = array<i32: 1, 0>{{.*}} : tensor<64x32xbf16> -> tensor<32x64xbf16>
module {
  nv_tileaa.func @load(%p: !nv_tileaa.ptr<i16>, %n: i32, %s: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileaa.make_memref %p, sizes = [%n, %n], strides = [%s] : !nv_tileaa.ptr<i16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xi16, strides = [?, 1]>
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<?x?xi16, strides = [?, 1]>, padding = #nv_tileaa.padding_value<zero>>
    %x, %t = nv_tileaa.tiled_load %v[%n, %n] : !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<?x?xi16, strides = [?, 1]>, padding = #nv_tileaa.padding_value<zero>>, (i32, i32) -> tensor<64x32xi16>, !nv_tileaa.mem_token
    %c = nv_tileaa.permute %x {permutation = array<i32: 1, 0>} : tensor<64x32xi16> -> tensor<32x64xi16>
    %y = arith.bitcast %c : tensor<32x64xi16> to tensor<32x64xbf16>
    %u = nv_tileaa.print "%f", %y : tensor<32x64xbf16> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

// So has a store.

// CHECK-LABEL: @store
// CHECK: tiled_store %{{.*}} : tensor<64xf8E4M3FN>, {{.*}}memref<?xf8E4M3FN
module {
  nv_tileaa.func @store(%p: !nv_tileaa.ptr<i8>, %n: i32, %x: tensor<64xf8E4M3FN>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileaa.make_memref %p, sizes = [%n], strides = [] : !nv_tileaa.ptr<i8>, (i32), () -> !nv_tileaa.memref<?xi8, strides = [1]>
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[64], !nv_tileaa.memref<?xi8, strides = [1]>>
    %y = arith.bitcast %x : tensor<64xf8E4M3FN> to tensor<64xi8>
    %t = nv_tileaa.tiled_store %y, %v[%n] : tensor<64xi8>, !nv_tileaa.tiled_view<[64], !nv_tileaa.memref<?xi8, strides = [1]>>, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

// A load keeps its type where its tile is used as it is as well, where elements outside of the memory are other bits in
// the other type, and where it sums copies of its elements.

// CHECK-LABEL: @kept
// CHECK-COUNT-3: tiled_load {{.*}} -> tensor<64xf32>
module {
  nv_tileaa.func @kept(%p: !nv_tileaa.ptr<f32>, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileaa.make_memref %p, sizes = [%n], strides = [] : !nv_tileaa.ptr<f32>, (i32), () -> !nv_tileaa.memref<?xf32, strides = [1]>
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[64], !nv_tileaa.memref<?xf32, strides = [1]>, padding = #nv_tileaa.padding_value<nan>>
    %w = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[64], !nv_tileaa.memref<?xf32, strides = [1]>>
    %x, %t = nv_tileaa.tiled_load %v[%n] : !nv_tileaa.tiled_view<[64], !nv_tileaa.memref<?xf32, strides = [1]>, padding = #nv_tileaa.padding_value<nan>>, (i32) -> tensor<64xf32>, !nv_tileaa.mem_token
    %y, %u = nv_tileaa.tiled_load %w[%n] : !nv_tileaa.tiled_view<[64], !nv_tileaa.memref<?xf32, strides = [1]>>, (i32) -> tensor<64xf32>, !nv_tileaa.mem_token
    %a = arith.bitcast %x : tensor<64xf32> to tensor<64xi32>
    %b = arith.bitcast %y : tensor<64xf32> to tensor<64xi32>
    %z, %r = nv_tileaa.tiled_load %w[%n] {reduction = #nv_tileaa.rmw_mode<addf>} : !nv_tileaa.tiled_view<[64], !nv_tileaa.memref<?xf32, strides = [1]>>, (i32) -> tensor<64xf32>, !nv_tileaa.mem_token
    %d = arith.bitcast %z : tensor<64xf32> to tensor<64xi32>
    %e = arith.addi %a, %b : tensor<64xi32>
    %c = arith.addi %d, %e : tensor<64xi32>
    %s = nv_tileaa.print "%d %f", %c, %y : tensor<64xi32>, tensor<64xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

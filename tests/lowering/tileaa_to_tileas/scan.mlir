// RUN: tileiras-opt %s --tileas="compute-capability=sm_90 num-warps=4 to=tileas-remove-layout-conversions" --verify-roundtrip | FileCheck %s

// A scanned dimension runs through registers, lanes and warps in this order: as an aligned row is loaded, four elements
// of each of 128 threads, and as columns are not.

// CHECK: @row
// CHECK-NOT: convert_layout
// CHECK: nv_tileas.scan
// CHECK-NOT: convert_layout
// CHECK: return
// CHECK: @columns
// CHECK: %[[FOUND:[0-9]+]] = nv_tileas.convert_layout
// CHECK: nv_tileas.scan %[[FOUND]]
// CHECK: nv_tileas.convert_layout
// CHECK: return
builtin.module {
  nv_tileaa.func @row(%a: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %p = nv_tileaa.assume #nv_tileaa.div_by<16>, %a : !nv_tileaa.ptr<f32>
    %z = arith.constant 0 : i32
    %m = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<512xf32, strides = [1]>
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[512], !nv_tileaa.memref<512xf32, strides = [1]>>
    %x, %k = nv_tileaa.tiled_load %v[%z] : !nv_tileaa.tiled_view<[512], !nv_tileaa.memref<512xf32, strides = [1]>>, (i32) -> tensor<512xf32>, !nv_tileaa.mem_token
    %sum = nv_tileaa.scan %x {dim = 0 : i64, identities = [0.0 : f32]} : (tensor<512xf32>) -> (tensor<512xf32>) {
    ^bb0(%l: f32, %r: f32):
      %s = nv_tileaa.addf %l, %r : f32
      nv_tileaa.yield %s : f32
    }
    %st = nv_tileaa.tiled_store %sum, %v[%z] token = %k : tensor<512xf32>, !nv_tileaa.tiled_view<[512], !nv_tileaa.memref<512xf32, strides = [1]>>, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
  nv_tileaa.func @columns(%a: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %p = nv_tileaa.assume #nv_tileaa.div_by<16>, %a : !nv_tileaa.ptr<f32>
    %z = arith.constant 0 : i32
    %m = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<64x32xf32, strides = [32, 1]>
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<64x32xf32, strides = [32, 1]>>
    %x, %k = nv_tileaa.tiled_load %v[%z, %z] : !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<64x32xf32, strides = [32, 1]>>, (i32, i32) -> tensor<64x32xf32>, !nv_tileaa.mem_token
    %sum = nv_tileaa.scan %x {dim = 0 : i64, identities = [0.0 : f32]} : (tensor<64x32xf32>) -> (tensor<64x32xf32>) {
    ^bb0(%l: f32, %r: f32):
      %s = nv_tileaa.addf %l, %r : f32
      nv_tileaa.yield %s : f32
    }
    %st = nv_tileaa.tiled_store %sum, %v[%z, %z] token = %k : tensor<64x32xf32>, !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<64x32xf32, strides = [32, 1]>>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// RUN: tileiras-opt %s --tileas="compute-capability=sm_90 num-warps=1 to=tileas-remove-layout-conversions" --verify-roundtrip | FileCheck %s

// 8,192 elements are 256 registers of each of 32 threads; four slices at a time are 64.

// CHECK: @whole_stays
// CHECK-NOT: scf.for
// CHECK: nv_tileas.tiled_store {{.*}} : tensor<2048xf32,
// CHECK: @sliced
// CHECK: %[[VIEW:[0-9]+]] = nv_tileas.block_tile {{.*}} : !nv_tileaa.tiled_view<[2048],
// CHECK: scf.for
// CHECK: nv_tileas.tiled_load %[[VIEW]][{{.*}}] {{.*}} -> tensor<2048xf32,
// CHECK: nv_tileas.addf {{.*}} : tensor<2048xf32,
// CHECK: nv_tileas.tiled_store
// CHECK: nv_tileas.join_mem_token
// CHECK: scf.yield
// CHECK: @scanned
// CHECK: scf.for {{.*}} -> (!nv_tileaa.mem_token, tensor<1xf32, {{.*}}>)
// CHECK: %[[FIRST:[0-9]+]] = arith.cmpi eq
// CHECK: %[[ALONE:[0-9]+]] = nv_tileas.scan
// CHECK: nv_tileas.broadcast {{.*}} : tensor<1xf32, {{.*}}> -> tensor<2048xf32,
// CHECK: %[[BOTH:[0-9]+]] = nv_tileas.addf %{{[0-9]+}}, %[[ALONE]] :
// CHECK: %[[WHOLE:[0-9]+]] = arith.select %[[FIRST]], %[[ALONE]], %[[BOTH]]
// CHECK: nv_tileas.extract_slice %[[WHOLE]]
// CHECK: scf.yield
builtin.module {
  nv_tileaa.func @whole_stays(%p: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %z = arith.constant 0 : i32
    %m = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<2048xf32, strides = [1]>
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[2048], !nv_tileaa.memref<2048xf32, strides = [1]>>
    %a, %t = nv_tileaa.tiled_load %v[%z] : !nv_tileaa.tiled_view<[2048], !nv_tileaa.memref<2048xf32, strides = [1]>>, (i32) -> tensor<2048xf32>, !nv_tileaa.mem_token
    %b = nv_tileaa.addf %a, %a : tensor<2048xf32>
    %k = nv_tileaa.tiled_store %b, %v[%z] token = %t : tensor<2048xf32>, !nv_tileaa.tiled_view<[2048], !nv_tileaa.memref<2048xf32, strides = [1]>>, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
  nv_tileaa.func @sliced(%p: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %z = arith.constant 0 : i32
    %m = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<8192xf32, strides = [1]>
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[8192], !nv_tileaa.memref<8192xf32, strides = [1]>>
    %a, %t = nv_tileaa.tiled_load %v[%z] : !nv_tileaa.tiled_view<[8192], !nv_tileaa.memref<8192xf32, strides = [1]>>, (i32) -> tensor<8192xf32>, !nv_tileaa.mem_token
    %b = nv_tileaa.addf %a, %a : tensor<8192xf32>
    %k = nv_tileaa.tiled_store %b, %v[%z] token = %t : tensor<8192xf32>, !nv_tileaa.tiled_view<[8192], !nv_tileaa.memref<8192xf32, strides = [1]>>, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }  nv_tileaa.func @scanned(%p: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %z = arith.constant 0 : i32
    %m = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<8192xf32, strides = [1]>
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[8192], !nv_tileaa.memref<8192xf32, strides = [1]>>
    %a, %t = nv_tileaa.tiled_load %v[%z] : !nv_tileaa.tiled_view<[8192], !nv_tileaa.memref<8192xf32, strides = [1]>>, (i32) -> tensor<8192xf32>, !nv_tileaa.mem_token
    %b = nv_tileaa.scan %a {dim = 0 : i64, identities = [0.0 : f32]} : (tensor<8192xf32>) -> (tensor<8192xf32>) {
    ^bb0(%x: f32, %y: f32):
      %s = nv_tileaa.addf %x, %y : f32
      nv_tileaa.yield %s : f32
    }
    %k = nv_tileaa.tiled_store %b, %v[%z] token = %t : tensor<8192xf32>, !nv_tileaa.tiled_view<[8192], !nv_tileaa.memref<8192xf32, strides = [1]>>, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// RUN: tileiras-opt %s --tileas="compute-capability=sm_80 num-warps=4 to=tileas-remove-layout-conversions" --verify-roundtrip | FileCheck %s

// Factors of 64x512 and 512x64 f16 are 256 registers of each of 128 threads; an eighth of both is 32.

// CHECK: @large
// CHECK: block_tile {{.*}} : !nv_tileaa.tiled_view<[64, 64],
// CHECK: block_tile {{.*}} : !nv_tileaa.tiled_view<[64, 64],
// CHECK: scf.for {{.*}} iter_args(%[[TOKEN:.*]] = {{.*}}, %[[SUMS:.*]] = {{.*}}) -> (!nv_tileaa.mem_token, tensor<64x64xf32,
// CHECK: nv_tileas.dot {{.*}}, %[[SUMS]] {{.*}} : tensor<64x64xf16, {{.*}}>, tensor<64x64xf16,
// CHECK: scf.yield
// CHECK: nv_tileas.tiled_store
// CHECK: @fitting
// CHECK-NOT: scf.for
// CHECK: nv_tileas.tiled_store
!a = !nv_tileaa.memref<64x512xf16, strides = [512, 1]>
!b = !nv_tileaa.memref<512x64xf16, strides = [64, 1]>
!c = !nv_tileaa.memref<64x64xf32, strides = [64, 1]>
!s = !nv_tileaa.memref<64x64xf16, strides = [64, 1]>
builtin.module {
  nv_tileaa.func @large(%p: !nv_tileaa.ptr<f16>, %q: !nv_tileaa.ptr<f16>, %o: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_80"} {
    %z = arith.constant 0 : i32
    %none = arith.constant dense<0.0> : tensor<64x64xf32>
    %ma = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !a
    %mb = nv_tileaa.make_memref %q, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !b
    %mc = nv_tileaa.make_memref %o, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !c
    %va = nv_tileaa.block_tile %ma : !nv_tileaa.tiled_view<[64, 512], !a>
    %vb = nv_tileaa.block_tile %mb : !nv_tileaa.tiled_view<[512, 64], !b>
    %vc = nv_tileaa.block_tile %mc : !nv_tileaa.tiled_view<[64, 64], !c>
    %a, %ta = nv_tileaa.tiled_load %va[%z, %z] : !nv_tileaa.tiled_view<[64, 512], !a>, (i32, i32) -> tensor<64x512xf16>, !nv_tileaa.mem_token
    %b, %tb = nv_tileaa.tiled_load %vb[%z, %z] : !nv_tileaa.tiled_view<[512, 64], !b>, (i32, i32) -> tensor<512x64xf16>, !nv_tileaa.mem_token
    %d = nv_tileaa.dot %a, %b, %none : tensor<64x512xf16>, tensor<512x64xf16> -> tensor<64x64xf32>
    %k = nv_tileaa.tiled_store %d, %vc[%z, %z] : tensor<64x64xf32>, !nv_tileaa.tiled_view<[64, 64], !c>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
  nv_tileaa.func @fitting(%p: !nv_tileaa.ptr<f16>, %q: !nv_tileaa.ptr<f16>, %o: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_80"} {
    %z = arith.constant 0 : i32
    %none = arith.constant dense<0.0> : tensor<64x64xf32>
    %ma = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !s
    %mb = nv_tileaa.make_memref %q, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !s
    %mc = nv_tileaa.make_memref %o, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !c
    %va = nv_tileaa.block_tile %ma : !nv_tileaa.tiled_view<[64, 64], !s>
    %vb = nv_tileaa.block_tile %mb : !nv_tileaa.tiled_view<[64, 64], !s>
    %vc = nv_tileaa.block_tile %mc : !nv_tileaa.tiled_view<[64, 64], !c>
    %a, %ta = nv_tileaa.tiled_load %va[%z, %z] : !nv_tileaa.tiled_view<[64, 64], !s>, (i32, i32) -> tensor<64x64xf16>, !nv_tileaa.mem_token
    %b, %tb = nv_tileaa.tiled_load %vb[%z, %z] : !nv_tileaa.tiled_view<[64, 64], !s>, (i32, i32) -> tensor<64x64xf16>, !nv_tileaa.mem_token
    %d = nv_tileaa.dot %a, %b, %none : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    %k = nv_tileaa.tiled_store %d, %vc[%z, %z] : tensor<64x64xf32>, !nv_tileaa.tiled_view<[64, 64], !c>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

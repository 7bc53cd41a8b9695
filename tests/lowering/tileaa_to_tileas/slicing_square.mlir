// RUN: tileiras-opt %s --tileas="compute-capability=sm_90 num-warps=1 to=tileas-remove-layout-conversions" | FileCheck %s

// A tile that is multiplied with itself is wanted whole as the second factor, and so is not cut as the first.

// CHECK-NOT: scf.for
// CHECK: nv_tileas.tiled_load {{.*}} -> tensor<128x128xf16,
// CHECK: nv_tileas.dot {{.*}} : tensor<128x128xf16, {{.*}}>, tensor<128x128xf16, {{.*}}> -> tensor<128x128xf32,
builtin.module {
  nv_tileaa.func @square(%p: !nv_tileaa.ptr<f16>, %q: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %z = arith.constant 0 : i32
    %m = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !nv_tileaa.memref<128x128xf16, strides = [128, 1]>
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[128, 128], !nv_tileaa.memref<128x128xf16, strides = [128, 1]>>
    %n = nv_tileaa.make_memref %q, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<128x128xf32, strides = [128, 1]>
    %w = nv_tileaa.block_tile %n : !nv_tileaa.tiled_view<[128, 128], !nv_tileaa.memref<128x128xf32, strides = [128, 1]>>
    %a, %t = nv_tileaa.tiled_load %v[%z, %z] : !nv_tileaa.tiled_view<[128, 128], !nv_tileaa.memref<128x128xf16, strides = [128, 1]>>, (i32, i32) -> tensor<128x128xf16>, !nv_tileaa.mem_token
    %c = arith.constant dense<0.0> : tensor<128x128xf32>
    %d = nv_tileaa.dot %a, %a, %c : tensor<128x128xf16>, tensor<128x128xf16> -> tensor<128x128xf32>
    %k = nv_tileaa.tiled_store %d, %w[%z, %z] : tensor<128x128xf32>, !nv_tileaa.tiled_view<[128, 128], !nv_tileaa.memref<128x128xf32, strides = [128, 1]>>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

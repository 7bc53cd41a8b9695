// RUN: tileiras-opt %s --tileas="compute-capability=sm_90 num-warps=1 to=tileas-remove-layout-conversions" --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %s --tileas="compute-capability=sm_80 num-warps=1 to=tileas-remove-layout-conversions" | FileCheck %s --check-prefix=SINGLE

// Each of four CTAs has the rows of its number; what belongs to no row is everybody's.
// CHECK: @rows
// CHECK: %[[RANK:[0-9]+]] = nv_tileas.get_cta_rank : i32
// CHECK: %[[NUMBER:[0-9]+]] = nv_tileas.assume #nv_tileaa.bounded<0, 3>, %[[RANK]] : i32
// CHECK: %[[VIEW:[0-9]+]] = nv_tileas.block_tile {{.*}} : !nv_tileaa.tiled_view<[8, 64],
// CHECK: %[[WIDE:[0-9]+]] = arith.extsi %[[NUMBER]] : i32 to i64
// CHECK: %[[FOUR:[0-9]+]] = arith.constant 4 : i64
// CHECK: %[[FIRST:[0-9]+]] = arith.muli {{.*}}, %[[FOUR]] : i64
// CHECK: %[[ROW:[0-9]+]] = arith.addi %[[FIRST]], %[[WIDE]] : i64
// CHECK: nv_tileas.tiled_load %[[VIEW]][%[[ROW]], {{.*}} -> tensor<8x64xf32,
// CHECK: nv_tileas.tiled_store {{.*}} : tensor<8x64xf32,
// CHECK-NOT: scf.for

// SINGLE: @rows
// SINGLE-NOT: get_cta_rank
// SINGLE: nv_tileas.tiled_load {{.*}} -> tensor<32x64xf32,
builtin.module {
  nv_tileaa.func @rows(%p: !nv_tileaa.ptr<f32>, %i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 4>, target_spec = "sm_90"} {
    %z = arith.constant 0 : i32
    %m = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<256x64xf32, strides = [64, 1]>
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[32, 64], !nv_tileaa.memref<256x64xf32, strides = [64, 1]>>
    %a, %t = nv_tileaa.tiled_load %v[%i, %z] : !nv_tileaa.tiled_view<[32, 64], !nv_tileaa.memref<256x64xf32, strides = [64, 1]>>, (i32, i32) -> tensor<32x64xf32>, !nv_tileaa.mem_token
    %b = nv_tileaa.addf %a, %a : tensor<32x64xf32>
    %k = nv_tileaa.tiled_store %b, %v[%i, %z] token = %t : tensor<32x64xf32>, !nv_tileaa.tiled_view<[32, 64], !nv_tileaa.memref<256x64xf32, strides = [64, 1]>>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

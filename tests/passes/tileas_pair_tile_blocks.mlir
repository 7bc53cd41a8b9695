// RUN: tileiras-opt %s --pass-pipeline='builtin.module(tileas-pair-tile-blocks{compute-capability=sm_100 tensor-maps=host})' --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %s --pass-pipeline='builtin.module(tileas-pair-tile-blocks{compute-capability=sm_100 tensor-maps=device})' | FileCheck %s --check-prefix=ALONE
// RUN: tileiras-opt %s --pass-pipeline='builtin.module(tileas-pair-tile-blocks{compute-capability=sm_90 tensor-maps=host})' | FileCheck %s --check-prefix=ALONE

// Tile blocks in a row of the grid load the same columns of B: a second kernel is for launches that make pairs of them.

// ALONE-NOT: pairs_of

module {
  // CHECK-LABEL: @product(
  // CHECK-NOT: pairs_of
  // CHECK: nv_tileaa.func @product$pairs(
  // CHECK-SAME: nv_tileas.pairs_of = "product"
  nv_tileaa.func @product(%p: !nv_tileaa.ptr<f16>, %m: i32, %d: i32, %steps: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %token = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %x = nv_tileaa.get_program_id x : i32
    %y = nv_tileaa.get_program_id y : i32
    %none = arith.constant dense<0.000000e+00> : tensor<128x128xf32>
    %memory = nv_tileaa.make_memref %p, sizes = [%m, %m], strides = [%d] : !nv_tileaa.ptr<f16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
    %rows = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[128, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %columns = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %sum = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (tensor<128x128xf32>) : i32 {
      %a, %after = nv_tileaa.tiled_load %rows[%x, %i] token = %token : !nv_tileaa.tiled_view<[128, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<128x64xf16>, !nv_tileaa.mem_token
      %b, %behind = nv_tileaa.tiled_load %columns[%i, %y] token = %token : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x128xf16>, !nv_tileaa.mem_token
      %next = nv_tileaa.dot %a, %b, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %next : tensor<128x128xf32>
    }
    %end = nv_tileaa.print "%f", %sum : tensor<128x128xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Neighbours along x have columns of their own.
  // CHECK-LABEL: @columns(
  // CHECK-NOT: @columns$pairs
  nv_tileaa.func @columns(%p: !nv_tileaa.ptr<f16>, %m: i32, %d: i32, %steps: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %token = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %x = nv_tileaa.get_program_id x : i32
    %y = nv_tileaa.get_program_id y : i32
    %none = arith.constant dense<0.000000e+00> : tensor<128x128xf32>
    %memory = nv_tileaa.make_memref %p, sizes = [%m, %m], strides = [%d] : !nv_tileaa.ptr<f16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
    %rows = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[128, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %columns = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %sum = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (tensor<128x128xf32>) : i32 {
      %a, %after = nv_tileaa.tiled_load %rows[%y, %i] token = %token : !nv_tileaa.tiled_view<[128, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<128x64xf16>, !nv_tileaa.mem_token
      %b, %behind = nv_tileaa.tiled_load %columns[%i, %x] token = %token : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x128xf16>, !nv_tileaa.mem_token
      %next = nv_tileaa.dot %a, %b, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %next : tensor<128x128xf32>
    }
    %end = nv_tileaa.print "%f", %sum : tensor<128x128xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

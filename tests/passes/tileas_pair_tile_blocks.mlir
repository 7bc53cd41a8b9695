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

  // Halves of loaded bytes are loaded tiles: threads need not compute them.
  // CHECK-LABEL: @halves(
  // CHECK: nv_tileaa.func @halves$pairs(
  nv_tileaa.func @halves(%p: !nv_tileaa.ptr<i8>, %q: !nv_tileaa.ptr<f8E4M3FN>, %m: i32, %d: i32, %steps: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %token = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %x = nv_tileaa.get_program_id x : i32
    %y = nv_tileaa.get_program_id y : i32
    %none = arith.constant dense<0.000000e+00> : tensor<128x128xf32>
    %memory = nv_tileaa.make_memref %p, sizes = [%m, %m], strides = [%d] : !nv_tileaa.ptr<i8>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xi8, strides = [?, 1]>
    %bytes = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[128, 32], !nv_tileaa.memref<?x?xi8, strides = [?, 1]>>
    %runs = nv_tileaa.make_memref %q, sizes = [%m, %m], strides = [%d] : !nv_tileaa.ptr<f8E4M3FN>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf8E4M3FN, strides = [?, 1]>
    %scales = nv_tileaa.block_tile %runs : !nv_tileaa.tiled_view<[128, 4], !nv_tileaa.memref<?x?xf8E4M3FN, strides = [?, 1]>>
    %four = arith.constant dense<[[0, 4]]> : tensor<1x2xi8>
    %shifts = nv_tileaa.broadcast %four : tensor<1x2xi8> -> tensor<4096x2xi8>
    %sum = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (tensor<128x128xf32>) : i32 {
      %a, %t0 = nv_tileaa.tiled_load %bytes[%x, %i] token = %token : !nv_tileaa.tiled_view<[128, 32], !nv_tileaa.memref<?x?xi8, strides = [?, 1]>>, (i32, i32) -> tensor<128x32xi8>, !nv_tileaa.mem_token
      %a0 = nv_tileaa.view %a : tensor<128x32xi8> -> tensor<4096x1xi8>
      %a1 = nv_tileaa.broadcast %a0 : tensor<4096x1xi8> -> tensor<4096x2xi8>
      %a2 = arith.shrui %a1, %shifts : tensor<4096x2xi8>
      %a3 = arith.trunci %a2 : tensor<4096x2xi8> to tensor<4096x2xi4>
      %a4 = arith.bitcast %a3 : tensor<4096x2xi4> to tensor<4096x2xf4E2M1FN>
      %a5 = nv_tileaa.view %a4 : tensor<4096x2xf4E2M1FN> -> tensor<128x64xf4E2M1FN>
      %b, %t1 = nv_tileaa.tiled_load %bytes[%y, %i] token = %token : !nv_tileaa.tiled_view<[128, 32], !nv_tileaa.memref<?x?xi8, strides = [?, 1]>>, (i32, i32) -> tensor<128x32xi8>, !nv_tileaa.mem_token
      %b0 = nv_tileaa.view %b : tensor<128x32xi8> -> tensor<4096x1xi8>
      %b1 = nv_tileaa.broadcast %b0 : tensor<4096x1xi8> -> tensor<4096x2xi8>
      %b2 = arith.shrui %b1, %shifts : tensor<4096x2xi8>
      %b3 = arith.trunci %b2 : tensor<4096x2xi8> to tensor<4096x2xi4>
      %b4 = arith.bitcast %b3 : tensor<4096x2xi4> to tensor<4096x2xf4E2M1FN>
      %b5 = nv_tileaa.view %b4 : tensor<4096x2xf4E2M1FN> -> tensor<128x64xf4E2M1FN>
      %b6 = nv_tileaa.permute %b5 {permutation = array<i32: 1, 0>} : tensor<128x64xf4E2M1FN> -> tensor<64x128xf4E2M1FN>
      %s, %t2 = nv_tileaa.tiled_load %scales[%x, %i] token = %token : !nv_tileaa.tiled_view<[128, 4], !nv_tileaa.memref<?x?xf8E4M3FN, strides = [?, 1]>>, (i32, i32) -> tensor<128x4xf8E4M3FN>, !nv_tileaa.mem_token
      %u, %t3 = nv_tileaa.tiled_load %scales[%y, %i] token = %token : !nv_tileaa.tiled_view<[128, 4], !nv_tileaa.memref<?x?xf8E4M3FN, strides = [?, 1]>>, (i32, i32) -> tensor<128x4xf8E4M3FN>, !nv_tileaa.mem_token
      %v = nv_tileaa.permute %u {permutation = array<i32: 1, 0>} : tensor<128x4xf8E4M3FN> -> tensor<4x128xf8E4M3FN>
      %next = nv_tileaa.block_scaled_mma %a5 scale %s, %b6 scale %v, %acc : tensor<128x64xf4E2M1FN>, tensor<128x4xf8E4M3FN>, tensor<64x128xf4E2M1FN>, tensor<4x128xf8E4M3FN> -> tensor<128x128xf32>
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

  // Neighbours have the same columns in launches whose fourth argument is an even and positive number of rows of tiles.
  // CHECK-LABEL: @by_division(
  // CHECK-NOT: nv_tileas.alone
  // CHECK: nv_tileaa.func @by_division$pairs(
  // CHECK-SAME: nv_tileas.pairs_of = "by_division"
  // CHECK-SAME: nv_tileas.pairs_where = ["p4 even", "p4 positive"]
  nv_tileaa.func @by_division(%p: !nv_tileaa.ptr<f16>, %m: i32, %d: i32, %steps: i32, %tall: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %token = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %number = nv_tileaa.get_program_id x : i32
    %none = arith.constant dense<0.000000e+00> : tensor<128x128xf32>
    %memory = nv_tileaa.make_memref %p, sizes = [%m, %m], strides = [%d] : !nv_tileaa.ptr<f16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
    %rows = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[128, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %columns = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %x = arith.remsi %number, %tall : i32
    %y = arith.floordivsi %number, %tall : i32
    %sum = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (tensor<128x128xf32>) : i32 {
      %a, %after = nv_tileaa.tiled_load %rows[%x, %i] token = %token : !nv_tileaa.tiled_view<[128, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<128x64xf16>, !nv_tileaa.mem_token
      %b, %behind = nv_tileaa.tiled_load %columns[%i, %y] token = %token : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x128xf16>, !nv_tileaa.mem_token
      %next = nv_tileaa.dot %a, %b, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %next : tensor<128x128xf32>
    }
    %end = nv_tileaa.print "%f", %sum : tensor<128x128xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Quotients that are rounded to zero are the same whatever the sign; a multiple of four is even in every launch.
  // CHECK-LABEL: @in_every_launch(
  // CHECK: nv_tileaa.func @in_every_launch$pairs(
  // CHECK-SAME: nv_tileas.pairs_of = "in_every_launch"
  // CHECK-NOT: pairs_where
  nv_tileaa.func @in_every_launch(%p: !nv_tileaa.ptr<f16>, %m: i32, %d: i32, %steps: i32, %tall: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %token = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %number = nv_tileaa.get_program_id x : i32
    %none = arith.constant dense<0.000000e+00> : tensor<128x128xf32>
    %memory = nv_tileaa.make_memref %p, sizes = [%m, %m], strides = [%d] : !nv_tileaa.ptr<f16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
    %rows = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[128, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %columns = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %four = nv_tileaa.assume #nv_tileaa.div_by<4>, %tall : i32
    %negative = arith.cmpi slt, %m, %zero : i32
    %x = arith.remsi %number, %four : i32
    %quotient = arith.divsi %number, %four : i32
    %y = arith.select %negative, %zero, %quotient : i1, i32
    %sum = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (tensor<128x128xf32>) : i32 {
      %a, %after = nv_tileaa.tiled_load %rows[%x, %i] token = %token : !nv_tileaa.tiled_view<[128, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<128x64xf16>, !nv_tileaa.mem_token
      %b, %behind = nv_tileaa.tiled_load %columns[%i, %y] token = %token : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x128xf16>, !nv_tileaa.mem_token
      %next = nv_tileaa.dot %a, %b, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %next : tensor<128x128xf32>
    }
    %end = nv_tileaa.print "%f", %sum : tensor<128x128xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Quotients by an odd number change behind an even one; the reason stands with the kernel.
  // CHECK-LABEL: @odd(
  // CHECK-SAME: nv_tileas.alone = "pairs.columns-differ"
  // CHECK-NOT: pairs_of
  nv_tileaa.func @odd(%p: !nv_tileaa.ptr<f16>, %m: i32, %d: i32, %steps: i32, %tall: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %token = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %number = nv_tileaa.get_program_id x : i32
    %none = arith.constant dense<0.000000e+00> : tensor<128x128xf32>
    %memory = nv_tileaa.make_memref %p, sizes = [%m, %m], strides = [%d] : !nv_tileaa.ptr<f16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
    %rows = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[128, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %columns = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %three = arith.constant 3 : i32
    %x = arith.remsi %number, %three : i32
    %y = arith.divsi %number, %three : i32
    %sum = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (tensor<128x128xf32>) : i32 {
      %a, %after = nv_tileaa.tiled_load %rows[%x, %i] token = %token : !nv_tileaa.tiled_view<[128, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<128x64xf16>, !nv_tileaa.mem_token
      %b, %behind = nv_tileaa.tiled_load %columns[%i, %y] token = %token : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x128xf16>, !nv_tileaa.mem_token
      %next = nv_tileaa.dot %a, %b, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %next : tensor<128x128xf32>
    }
    %end = nv_tileaa.print "%f", %sum : tensor<128x128xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // A row of B's own for each: quotients that are rounded up.
  // CHECK-LABEL: @rounded_up(
  // CHECK-SAME: nv_tileas.alone
  // CHECK-NOT: pairs_of
  nv_tileaa.func @rounded_up(%p: !nv_tileaa.ptr<f16>, %m: i32, %d: i32, %steps: i32, %tall: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %token = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %number = nv_tileaa.get_program_id x : i32
    %none = arith.constant dense<0.000000e+00> : tensor<128x128xf32>
    %memory = nv_tileaa.make_memref %p, sizes = [%m, %m], strides = [%d] : !nv_tileaa.ptr<f16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
    %rows = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[128, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %columns = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %two = arith.constant 2 : i32
    %x = arith.remsi %number, %two : i32
    %y = arith.ceildivsi %number, %two : i32
    %sum = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (tensor<128x128xf32>) : i32 {
      %a, %after = nv_tileaa.tiled_load %rows[%x, %i] token = %token : !nv_tileaa.tiled_view<[128, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<128x64xf16>, !nv_tileaa.mem_token
      %b, %behind = nv_tileaa.tiled_load %columns[%i, %y] token = %token : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x128xf16>, !nv_tileaa.mem_token
      %next = nv_tileaa.dot %a, %b, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %next : tensor<128x128xf32>
    }
    %end = nv_tileaa.print "%f", %sum : tensor<128x128xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

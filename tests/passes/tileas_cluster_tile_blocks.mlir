// RUN: tileiras-opt %s --pass-pipeline='builtin.module(tileas-cluster-tile-blocks{tensor-maps=host strategy={loads=agent}})' --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %s --pass-pipeline='builtin.module(tileas-cluster-tile-blocks{tensor-maps=none strategy={loads=by-rule}})' | FileCheck %s --check-prefix=APART
// RUN: tileiras-opt %s --pass-pipeline='builtin.module(tileas-cluster-tile-blocks{tensor-maps=host})' | FileCheck %s --check-prefix=APART

// Tile blocks in a row of the grid load the same columns of B: two of them may be a cluster, and share their copies.

// APART-NOT: cluster_blocks

module {
  // CHECK-LABEL: @product
  // CHECK-SAME: nv_tileas.cluster_blocks = 2 : i32
  nv_tileaa.func @product(%p: !nv_tileaa.ptr<f16>, %m: i32, %d: i32, %steps: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %token = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %x = nv_tileaa.get_program_id x : i32
    %y = nv_tileaa.get_program_id y : i32
    %none = arith.constant dense<0.000000e+00> : tensor<64x128xf32>
    %memory = nv_tileaa.make_memref %p, sizes = [%m, %m], strides = [%d] : !nv_tileaa.ptr<f16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
    %rows = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %columns = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %sum = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (tensor<64x128xf32>) : i32 {
      %a, %after = nv_tileaa.tiled_load %rows[%x, %i] token = %token : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x64xf16>, !nv_tileaa.mem_token
      %b, %behind = nv_tileaa.tiled_load %columns[%i, %y] token = %token : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x128xf16>, !nv_tileaa.mem_token
      %next = nv_tileaa.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    }
    %end = nv_tileaa.print "%f", %sum : tensor<64x128xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Each does as many steps as its number says, which the others can tell.
  // CHECK-LABEL: @triangle
  // CHECK-SAME: nv_tileas.cluster_blocks = 2 : i32
  nv_tileaa.func @triangle(%p: !nv_tileaa.ptr<f16>, %m: i32, %d: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %token = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %x = nv_tileaa.get_program_id x : i32
    %y = nv_tileaa.get_program_id y : i32
    %none = arith.constant dense<0.000000e+00> : tensor<64x128xf32>
    %memory = nv_tileaa.make_memref %p, sizes = [%m, %m], strides = [%d] : !nv_tileaa.ptr<f16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
    %rows = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %columns = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %sum = scf.for %i = %zero to %x step %one iter_args(%acc = %none) -> (tensor<64x128xf32>) : i32 {
      %a, %after = nv_tileaa.tiled_load %rows[%x, %i] token = %token : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x64xf16>, !nv_tileaa.mem_token
      %b, %behind = nv_tileaa.tiled_load %columns[%i, %y] token = %token : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x128xf16>, !nv_tileaa.mem_token
      %next = nv_tileaa.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    }
    %end = nv_tileaa.print "%f", %sum : tensor<64x128xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Two steps at a time: a number of steps is no difference of two numbers.
  // CHECK-LABEL: @in_twos
  // CHECK-NOT: cluster_blocks
  nv_tileaa.func @in_twos(%p: !nv_tileaa.ptr<f16>, %m: i32, %d: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %token = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 2 : i32
    %x = nv_tileaa.get_program_id x : i32
    %y = nv_tileaa.get_program_id y : i32
    %none = arith.constant dense<0.000000e+00> : tensor<64x128xf32>
    %memory = nv_tileaa.make_memref %p, sizes = [%m, %m], strides = [%d] : !nv_tileaa.ptr<f16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
    %rows = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %columns = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %sum = scf.for %i = %zero to %x step %one iter_args(%acc = %none) -> (tensor<64x128xf32>) : i32 {
      %a, %after = nv_tileaa.tiled_load %rows[%x, %i] token = %token : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x64xf16>, !nv_tileaa.mem_token
      %b, %behind = nv_tileaa.tiled_load %columns[%i, %y] token = %token : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x128xf16>, !nv_tileaa.mem_token
      %next = nv_tileaa.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    }
    %end = nv_tileaa.print "%f", %sum : tensor<64x128xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Neighbours have the same column where they divide their numbers to the same one, as they find out.
  // CHECK-LABEL: @column_by_column
  // CHECK-SAME: nv_tileas.cluster_blocks = 2 : i32
  nv_tileaa.func @column_by_column(%p: !nv_tileaa.ptr<f16>, %m: i32, %d: i32, %steps: i32, %tall: i32, %tiles: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %token = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %x = nv_tileaa.get_program_id x : i32
    %none = arith.constant dense<0.000000e+00> : tensor<64x128xf32>
    %memory = nv_tileaa.make_memref %p, sizes = [%m, %m], strides = [%d] : !nv_tileaa.ptr<f16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
    %rows = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %columns = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %row = arith.remsi %x, %tall : i32
    %column = arith.divsi %x, %tall : i32
    %sum = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (tensor<64x128xf32>) : i32 {
      %a, %after = nv_tileaa.tiled_load %rows[%row, %i] token = %token : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x64xf16>, !nv_tileaa.mem_token
      %b, %behind = nv_tileaa.tiled_load %columns[%i, %column] token = %token : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x128xf16>, !nv_tileaa.mem_token
      %next = nv_tileaa.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    }
    %end = nv_tileaa.print "%f", %sum : tensor<64x128xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // However far it is moved, one number is another one than the next.
  // CHECK-LABEL: @column_of_its_own
  // CHECK-NOT: cluster_blocks
  nv_tileaa.func @column_of_its_own(%p: !nv_tileaa.ptr<f16>, %m: i32, %d: i32, %steps: i32, %tall: i32, %tiles: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %token = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %x = nv_tileaa.get_program_id x : i32
    %none = arith.constant dense<0.000000e+00> : tensor<64x128xf32>
    %memory = nv_tileaa.make_memref %p, sizes = [%m, %m], strides = [%d] : !nv_tileaa.ptr<f16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
    %rows = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %columns = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %row = arith.remsi %x, %tall : i32
    %column = arith.addi %x, %tall : i32
    %sum = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (tensor<64x128xf32>) : i32 {
      %a, %after = nv_tileaa.tiled_load %rows[%row, %i] token = %token : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x64xf16>, !nv_tileaa.mem_token
      %b, %behind = nv_tileaa.tiled_load %columns[%i, %column] token = %token : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x128xf16>, !nv_tileaa.mem_token
      %next = nv_tileaa.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    }
    %end = nv_tileaa.print "%f", %sum : tensor<64x128xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Nobody else has to divide by a number that may be zero where there are no steps.
  // CHECK-LABEL: @divided_in_a_loop
  // CHECK-NOT: cluster_blocks
  nv_tileaa.func @divided_in_a_loop(%p: !nv_tileaa.ptr<f16>, %m: i32, %d: i32, %steps: i32, %tall: i32, %tiles: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %token = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %x = nv_tileaa.get_program_id x : i32
    %none = arith.constant dense<0.000000e+00> : tensor<64x128xf32>
    %memory = nv_tileaa.make_memref %p, sizes = [%m, %m], strides = [%d] : !nv_tileaa.ptr<f16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
    %rows = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %columns = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %row = arith.remsi %x, %tall : i32
    %sum = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (tensor<64x128xf32>) : i32 {
      %a, %after = nv_tileaa.tiled_load %rows[%row, %i] token = %token : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x64xf16>, !nv_tileaa.mem_token
      %column = arith.divsi %x, %tall : i32
      %b, %behind = nv_tileaa.tiled_load %columns[%i, %column] token = %token : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x128xf16>, !nv_tileaa.mem_token
      %next = nv_tileaa.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
      scf.yield %next : tensor<64x128xf32>
    }
    %end = nv_tileaa.print "%f", %sum : tensor<64x128xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Each takes every nth tile, beginning with its own.
  // CHECK-LABEL: @every_nth
  // CHECK-SAME: nv_tileas.cluster_blocks = 2 : i32
  nv_tileaa.func @every_nth(%p: !nv_tileaa.ptr<f16>, %m: i32, %d: i32, %steps: i32, %tall: i32, %tiles: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %token = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %x = nv_tileaa.get_program_id x : i32
    %none = arith.constant dense<0.000000e+00> : tensor<64x128xf32>
    %memory = nv_tileaa.make_memref %p, sizes = [%m, %m], strides = [%d] : !nv_tileaa.ptr<f16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
    %rows = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %columns = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %count = nv_tileaa.get_num_programs x : i32
    scf.for %tile = %x to %tiles step %count : i32 {
      %row = arith.remsi %tile, %tall : i32
      %column = arith.divsi %tile, %tall : i32
      %sum = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (tensor<64x128xf32>) : i32 {
        %a, %after = nv_tileaa.tiled_load %rows[%row, %i] token = %token : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x64xf16>, !nv_tileaa.mem_token
        %b, %behind = nv_tileaa.tiled_load %columns[%i, %column] token = %token : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x128xf16>, !nv_tileaa.mem_token
        %next = nv_tileaa.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
        scf.yield %next : tensor<64x128xf32>
      }
      %end = nv_tileaa.print "%f", %sum : tensor<64x128xf32> -> !nv_tileaa.mem_token
    }
    nv_tileaa.return
  }

  // Of which nothing says that it is the tile of another tile block.
  // CHECK-LABEL: @every_one
  // CHECK-NOT: cluster_blocks
  nv_tileaa.func @every_one(%p: !nv_tileaa.ptr<f16>, %m: i32, %d: i32, %steps: i32, %tall: i32, %tiles: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %token = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %x = nv_tileaa.get_program_id x : i32
    %none = arith.constant dense<0.000000e+00> : tensor<64x128xf32>
    %memory = nv_tileaa.make_memref %p, sizes = [%m, %m], strides = [%d] : !nv_tileaa.ptr<f16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
    %rows = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %columns = nv_tileaa.block_tile %memory : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %count = nv_tileaa.get_num_programs x : i32
    scf.for %tile = %x to %tiles step %one : i32 {
      %row = arith.remsi %tile, %tall : i32
      %column = arith.divsi %tile, %tall : i32
      %sum = scf.for %i = %zero to %steps step %one iter_args(%acc = %none) -> (tensor<64x128xf32>) : i32 {
        %a, %after = nv_tileaa.tiled_load %rows[%row, %i] token = %token : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x64xf16>, !nv_tileaa.mem_token
        %b, %behind = nv_tileaa.tiled_load %columns[%i, %column] token = %token : !nv_tileaa.tiled_view<[64, 128], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> tensor<64x128xf16>, !nv_tileaa.mem_token
        %next = nv_tileaa.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
        scf.yield %next : tensor<64x128xf32>
      }
      %end = nv_tileaa.print "%f", %sum : tensor<64x128xf32> -> !nv_tileaa.mem_token
    }
    nv_tileaa.return
  }
}

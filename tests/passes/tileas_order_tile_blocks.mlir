// RUN: tileiras-opt %s --tileas-order-tile-blocks --verify-roundtrip | FileCheck %s

// Tile blocks of which loops run longer get the numbers that start first.

module {
  // CHECK-LABEL: @along_x
  // CHECK-SAME: nv_tileas.block_group = 512 : i32
  // CHECK: %[[COLUMNS:.*]] = nv_tileaa.get_num_programs x
  // CHECK: %[[HEIGHT:.*]] = nv_tileaa.get_num_programs y
  // CHECK: nv_tileaa.get_program_id x
  // CHECK: %[[COLUMN:.*]] = nv_tileaa.assume #nv_tileaa.bounded<0, 16777214>,
  // CHECK: arith.remui %{{.*}}, %[[HEIGHT]]
  // CHECK: %[[Y:.*]] = nv_tileaa.assume #nv_tileaa.bounded<0, 16777214>,
  // CHECK-NOT: get_program_id
  // CHECK: scf.for %{{.*}} = %{{.*}} to %[[COLUMN]]
  // CHECK: nv_tileaa.print "%d %d", %{{.*}}, %[[Y]]
  nv_tileaa.func @along_x() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %x = nv_tileaa.get_program_id x : i32
    %y = nv_tileaa.get_program_id y : i32
    scf.for %i = %zero to %x step %one : i32 {
      %t = nv_tileaa.print "%d %d", %i, %y : i32, i32 -> !nv_tileaa.mem_token
      scf.yield
    }
    nv_tileaa.return
  }

  // Neighbours that a launch may have put in one cluster stay neighbours: clusters are counted.
  // CHECK-LABEL: @along_x_in_clusters
  // CHECK: %[[X:.*]] = nv_tileaa.get_program_id x : i32
  // CHECK: %[[FIRST:.*]] = nv_tileaa.get_program_id x neighbor = 0
  // CHECK: %[[LAST:.*]] = nv_tileaa.get_program_id x neighbor = 1
  // CHECK: %[[MORE:.*]] = arith.subi %[[LAST]], %[[FIRST]]
  // CHECK: %[[BLOCKS:.*]] = arith.addi %[[MORE]],
  // CHECK: arith.divui %[[FIRST]], %[[BLOCKS]]
  nv_tileaa.func @along_x_in_clusters() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90", nv_tileas.cluster_blocks = 2 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %x = nv_tileaa.get_program_id x : i32
    scf.for %i = %zero to %x step %one : i32 {
      %t = nv_tileaa.print "%d", %i : i32 -> !nv_tileaa.mem_token
      scf.yield
    }
    nv_tileaa.return
  }

  // CHECK-LABEL: @along_y
  // CHECK-NOT: block_group
  // CHECK: %[[N:.*]] = nv_tileaa.get_program_id y
  // CHECK: %[[ALL:.*]] = nv_tileaa.get_num_programs y
  // CHECK: %[[LAST:.*]] = arith.subi %[[ALL]],
  // CHECK: %[[MIRRORED:.*]] = arith.subi %[[LAST]], %[[N]]
  // CHECK: %[[Y:.*]] = nv_tileaa.assume #nv_tileaa.bounded<0, 16777214>, %[[MIRRORED]]
  // CHECK: scf.for %{{.*}} = %{{.*}} to %[[Y]]
  nv_tileaa.func @along_y() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %y = nv_tileaa.get_program_id y : i32
    scf.for %i = %zero to %y step %one : i32 {
      %t = nv_tileaa.print "%d", %i : i32 -> !nv_tileaa.mem_token
      scf.yield
    }
    nv_tileaa.return
  }

  // One loop runs longer along x, another one shorter.
  // CHECK-LABEL: @both
  // CHECK-NOT: get_num_programs
  nv_tileaa.func @both(%n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %x = nv_tileaa.get_program_id x : i32
    scf.for %i = %zero to %x step %one : i32 {
      %t = nv_tileaa.print "%d", %i : i32 -> !nv_tileaa.mem_token
      scf.yield
    }
    scf.for %i = %x to %n step %one : i32 {
      %t = nv_tileaa.print "%d", %i : i32 -> !nv_tileaa.mem_token
      scf.yield
    }
    nv_tileaa.return
  }
}

// RUN: tileiras-opt %s --tileas-share-divisors --verify-roundtrip | FileCheck %s

// Divisions of eight elements of a thread or more by one number are marked; those with other roundings are not.

#eight = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 128]], lane = [[0, 4], [0, 8], [0, 16], [0, 32], [0, 64]], warp = [[1, 0], [2, 0]]>
#sums = #nv_tileas.linear<register = [], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = [[1, 0], [2, 0]]>
#down = #nv_tileas.linear<register = [[1, 0], [2, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[0, 32], [0, 64]]>
#each = #nv_tileas.linear<register = [[1, 0], [2, 0]], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = [[0, 0], [0, 0]]>

module {
  // CHECK-LABEL: @by_rows
  // CHECK: divf {{.*}} {nv_tileas.shared_divisor} : tensor
  // CHECK: divf {{.*}} {nv_tileas.shared_divisor} : tensor
  // CHECK-NOT: shared_divisor
  nv_tileaa.func @by_rows(%x: tensor<4x256xf32, #eight>, %d: tensor<4x1xf32, #sums>, %s: f32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %rows = nv_tileas.broadcast %d : tensor<4x1xf32, #sums> -> tensor<4x256xf32, #eight>
    %q = nv_tileas.divf %x, %rows : tensor<4x256xf32, #eight>
    %scalar = nv_tileas.splat %s : f32 -> tensor<4x256xf32, #eight>
    %r = nv_tileas.divf %x, %scalar : tensor<4x256xf32, #eight>
    %up = nv_tileas.divf %x, %rows {rounding_mode = #nv_tileaa.rounding_mode<positive_inf>} : tensor<4x256xf32, #eight>
    %approximate = nv_tileas.divf %x, %rows {rounding_mode = #nv_tileaa.rounding_mode<approx>} : tensor<4x256xf32, #eight>
    %flushed = nv_tileas.divf %x, %rows {flush_to_zero} : tensor<4x256xf32, #eight>
    nv_tileaa.return
  }

  // A thread has four elements with a divisor each.
  // CHECK-LABEL: @down_columns
  // CHECK-NOT: shared_divisor
  nv_tileaa.func @down_columns(%x: tensor<4x128xf32, #down>, %d: tensor<4x1xf32, #each>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %rows = nv_tileas.broadcast %d : tensor<4x1xf32, #each> -> tensor<4x128xf32, #down>
    %q = nv_tileas.divf %x, %rows : tensor<4x128xf32, #down>
    %whole = nv_tileas.divf %x, %x : tensor<4x128xf32, #down>
    nv_tileaa.return
  }
}

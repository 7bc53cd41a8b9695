// RUN: tileiras-opt %s --split-input-file --verify-diagnostics
// What tile blocks of a cluster tell of each other.

module {
  nv_tileaa.func @f(%i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.neighbor_counter' op expects the counter of a loop, of 32 bits}}
    %0 = nv_tileas.neighbor_counter %i of 0 : i32
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%i: i32, %n: i64) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.is_same_tile' op expects as many coordinates of either tile block, of the same types}}
    %0 = nv_tileas.is_same_tile[%i], [%n] : (i32), (i64)
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f(%i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.is_same_tile' op expects the counter of a loop, of 32 bits}}
    %0 = nv_tileas.is_same_tile[%i], [%i] round %i : i32 : (i32), (i32)
    nv_tileaa.return
  }
}

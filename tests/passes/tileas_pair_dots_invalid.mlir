// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --remarks --tileas-pair-dots="compute-capability=sm_100 tensor-maps=host"

module attributes {nv_tileaa.compute_capability = 100 : i32} {
  // expected-error @below {{'nv_tileas.alone' is no code with arguments}}
  nv_tileaa.func @k() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100", nv_tileas.alone = "pairs.no-such"} {
    nv_tileaa.return
  }
}

// -----

module attributes {nv_tileaa.compute_capability = 100 : i32} {
  // expected-error @below {{'nv_tileas.alone' is no code with arguments}}
  nv_tileaa.func @k() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100", nv_tileas.alone} {
    nv_tileaa.return
  }
}

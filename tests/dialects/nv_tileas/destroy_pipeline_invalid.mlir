// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

module {
  nv_tileaa.func @f(%p: !nv_tileas.producer_token) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.async.pipeline.destroy_pipeline' op expects the end of a pipe that 'create_pipeline' gives}}
    nv_tileas.async.pipeline.destroy_pipeline %p
    nv_tileaa.return
  }
}

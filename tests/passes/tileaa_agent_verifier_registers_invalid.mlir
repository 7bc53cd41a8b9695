// RUN: tileiras-opt %s --verify-diagnostics --tileaa-agent-verifier=compute-capability=sm_80

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_80"} {
    // expected-error @below {{asks for registers by agent, which sm_80 cannot give}}
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1] num_warps = [8] max_regs = [40] {
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}

// RUN: tileiras-opt %s --tileas-optimize-alloc-tensor --tileas-insert-barriers --verify-diagnostics

// Sixteen agents whose threads wait for each other, of a CTA with fifteen barriers for agents.
#rows = #nv_tileas.linear<register = [], lane = [[0, 1], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[16, 0]]>
#turned = #nv_tileas.linear<register = [], lane = [[16, 0], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[0, 1]]>
!rows = tensor<32x2xi32, #rows>
!turned = tensor<32x2xi32, #turned>

// expected-error @below {{'tileas-insert-barriers' pass failed}}
module {
  nv_tileaa.func @agents() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 32, numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{needs more than the 16 barriers of a CTA}}
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [16] num_warps = [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2] {
      %x = arith.constant dense<1> : tensor<32x2xi32> as !rows
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }, {
      %x = arith.constant dense<1> : tensor<32x2xi32> as !rows
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }, {
      %x = arith.constant dense<1> : tensor<32x2xi32> as !rows
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }, {
      %x = arith.constant dense<1> : tensor<32x2xi32> as !rows
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }, {
      %x = arith.constant dense<1> : tensor<32x2xi32> as !rows
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }, {
      %x = arith.constant dense<1> : tensor<32x2xi32> as !rows
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }, {
      %x = arith.constant dense<1> : tensor<32x2xi32> as !rows
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }, {
      %x = arith.constant dense<1> : tensor<32x2xi32> as !rows
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }, {
      %x = arith.constant dense<1> : tensor<32x2xi32> as !rows
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }, {
      %x = arith.constant dense<1> : tensor<32x2xi32> as !rows
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }, {
      %x = arith.constant dense<1> : tensor<32x2xi32> as !rows
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }, {
      %x = arith.constant dense<1> : tensor<32x2xi32> as !rows
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }, {
      %x = arith.constant dense<1> : tensor<32x2xi32> as !rows
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }, {
      %x = arith.constant dense<1> : tensor<32x2xi32> as !rows
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }, {
      %x = arith.constant dense<1> : tensor<32x2xi32> as !rows
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }, {
      %x = arith.constant dense<1> : tensor<32x2xi32> as !rows
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}

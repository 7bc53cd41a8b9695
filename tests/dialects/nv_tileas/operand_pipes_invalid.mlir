// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(tileaa-agent-verifier{compute-capability=sm_100})"
// Pipes whose stages are operands in tensor memory, which threads store and products read.

#tensor = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], column = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]]>
module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %m = nv_tileas.tensor_memory.reserve {commits = 0 : i32}
    %base = nv_tileas.tensor_memory.open %m
    %a = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<128x32xf32, #tensor>>
    // expected-error @below {{'nv_tileas.async.pipeline.create_pipeline' op expects operands that 'tcgen05_st' fills to be drained by 'tcgen05'}}
    %p, %c = nv_tileas.async.pipeline.create_pipeline %a stages 1 producer = tcgen05_st consumer = ld_shared : !nv_tileas.tensor_buffer<tensor<128x32xf32, #tensor>>
    nv_tileaa.return
  }
}

// -----

#shared = #nv_tileas.shared<offset = [[1], [2], [4], [8], [16]]>
module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %ring = nv_tileas.alloc_tensor : !nv_tileas.buffer<2, tensor<32xf32, #shared>>
    // expected-error @below {{'nv_tileas.async.pipeline.create_pipeline' op has stages of accumulators in tensor memory or none}}
    %p, %c = nv_tileas.async.pipeline.create_pipeline %ring stages 2 producer = tcgen05_st consumer = tcgen05 : !nv_tileas.buffer<2, tensor<32xf32, #shared>>
    nv_tileaa.return
  }
}

// -----

#tensor = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], column = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]]>
#row = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]]>
module {
  nv_tileaa.func @f(%x: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, nv_tileas.block_warps = 8 : i32, target_spec = "sm_100"} {
    %m = nv_tileas.tensor_memory.reserve {commits = 0 : i32}
    %base = nv_tileas.tensor_memory.open %m
    %a = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<128x32xf32, #tensor>>
    %p, %c = nv_tileas.async.pipeline.create_pipeline %a stages 1 producer = tcgen05_st consumer = tcgen05 : !nv_tileas.tensor_buffer<tensor<128x32xf32, #tensor>>
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 4] {
      %i = nv_tileas.async.pipeline.create_iterator %p : !nv_tileas.producer_token
      %empty = nv_tileas.async.pipeline.producer_acquire %p, %i
      %full = nv_tileas.async.pipeline.producer_commit %empty
      nv_tileas.async.pipeline.yield
    }, {
      %i = nv_tileas.async.pipeline.create_iterator %c : !nv_tileas.consumer_token
      %full = nv_tileas.async.pipeline.consumer_wait %c, %i
      // expected-error @below {{'nv_tileas.tensor_memory.load' op writes to a pipe's buffer in an agent that does not fill it}}
      %y = nv_tileas.tensor_memory.load %a : !nv_tileas.tensor_buffer<tensor<128x32xf32, #tensor>> -> tensor<128x32xf32, #row>
      %empty = nv_tileas.async.pipeline.consumer_release %full
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}

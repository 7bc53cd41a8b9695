// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(tileaa-agent-verifier{compute-capability=sm_100})"
// Pipes whose stages are accumulators in tensor memory: products fill them, loads drain them.

#tensor = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], column = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [128, 0]]>
module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %m = nv_tileas.tensor_memory.reserve {commits = 0 : i32}
    %base = nv_tileas.tensor_memory.open %m
    %ring = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<256x32xf32, #tensor>>
    // expected-error @below {{'nv_tileas.async.pipeline.create_pipeline' op has stages of accumulators in tensor memory or none}}
    %p, %c = nv_tileas.async.pipeline.create_pipeline %ring stages 2 producer = bulk_load consumer = tcgen05 : !nv_tileas.tensor_buffer<tensor<256x32xf32, #tensor>>
    nv_tileaa.return
  }
}

// -----

#shared = #nv_tileas.shared<offset = [[1], [2], [4], [8], [16]]>
module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %ring = nv_tileas.alloc_tensor : !nv_tileas.buffer<2, tensor<32xf32, #shared>>
    // expected-error @below {{'nv_tileas.async.pipeline.create_pipeline' op expects accumulators that 'tcgen05' fills to be drained by 'tcgen05_ld'}}
    %p, %c = nv_tileas.async.pipeline.create_pipeline %ring stages 2 producer = bulk_load consumer = tcgen05_ld : !nv_tileas.buffer<2, tensor<32xf32, #shared>>
    nv_tileaa.return
  }
}

// -----

#tensor = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], column = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]]>
module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %m = nv_tileas.tensor_memory.reserve {commits = 0 : i32}
    %base = nv_tileas.tensor_memory.open %m
    %ring = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<128x32xf32, #tensor>>
    // expected-error @below {{'nv_tileas.async.pipeline.create_pipeline' op has 3 stages in 32 columns}}
    %p, %c = nv_tileas.async.pipeline.create_pipeline %ring stages 3 producer = tcgen05 consumer = tcgen05_ld : !nv_tileas.tensor_buffer<tensor<128x32xf32, #tensor>>
    nv_tileaa.return
  }
}

// -----

#tensor = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], column = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]]>
#registers = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]]>
module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, nv_tileas.block_warps = 5 : i32, target_spec = "sm_100"} {
    %m = nv_tileas.tensor_memory.reserve {commits = 0 : i32}
    %base = nv_tileas.tensor_memory.open %m
    %ring = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<128x32xf32, #tensor>>
    %p, %c = nv_tileas.async.pipeline.create_pipeline %ring stages 1 producer = tcgen05 consumer = tcgen05_ld : !nv_tileas.tensor_buffer<tensor<128x32xf32, #tensor>>
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 1] {
      %zero = arith.constant dense<0.0> : tensor<128x32xf32> as tensor<128x32xf32, #registers>
      // expected-error @below {{'nv_tileas.tensor_memory.store' op touches an accumulator of a pipe, which 'nv_tileas.tensor_memory.dot' fills and 'nv_tileas.tensor_memory.load' drains}}
      nv_tileas.tensor_memory.store %zero into %ring : tensor<128x32xf32, #registers>, !nv_tileas.tensor_buffer<tensor<128x32xf32, #tensor>>
      %i = nv_tileas.async.pipeline.create_iterator %c : !nv_tileas.consumer_token
      %full = nv_tileas.async.pipeline.consumer_wait %c, %i
      %x = nv_tileas.tensor_memory.load %ring : !nv_tileas.tensor_buffer<tensor<128x32xf32, #tensor>> -> tensor<128x32xf32, #registers>
      %empty = nv_tileas.async.pipeline.consumer_release %full
      nv_tileas.async.pipeline.yield
    }, {
      %i = nv_tileas.async.pipeline.create_iterator %p : !nv_tileas.producer_token
      %empty = nv_tileas.async.pipeline.producer_acquire %p, %i
      // expected-error @below {{'nv_tileas.tensor_memory.load' op reads a pipe's buffer in an agent that does not drain it}}
      %x = nv_tileas.tensor_memory.load %ring : !nv_tileas.tensor_buffer<tensor<128x32xf32, #tensor>> -> tensor<128x32xf32, #registers>
      %full = nv_tileas.async.pipeline.producer_commit %empty
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}

// -----

// What is taken for known has to follow from what was waited for.
#tensor = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], column = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]]>
module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, nv_tileas.block_warps = 5 : i32, target_spec = "sm_100"} {
    %m = nv_tileas.tensor_memory.reserve {commits = 0 : i32}
    %base = nv_tileas.tensor_memory.open %m
    %ring = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<128x32xf32, #tensor>>
    %p, %c = nv_tileas.async.pipeline.create_pipeline %ring stages 1 producer = tcgen05 consumer = tcgen05_ld : !nv_tileas.tensor_buffer<tensor<128x32xf32, #tensor>>
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 1] {
      %i = nv_tileas.async.pipeline.create_iterator %c : !nv_tileas.consumer_token
      %f0 = nv_tileas.async.pipeline.consumer_wait %c, %i
      %e0 = nv_tileas.async.pipeline.consumer_release %f0 {known}
      %j = nv_tileas.async.pipeline.inc_iter %i
      %f1 = nv_tileas.async.pipeline.consumer_wait %c, %j
      %e1 = nv_tileas.async.pipeline.consumer_release %f1 {known}
      nv_tileas.async.pipeline.yield
    }, {
      %i = nv_tileas.async.pipeline.create_iterator %p : !nv_tileas.producer_token
      %e0 = nv_tileas.async.pipeline.producer_acquire %p, %i {known}
      %f0 = nv_tileas.async.pipeline.producer_commit %e0
      %j = nv_tileas.async.pipeline.inc_iter %i
      // expected-error @below {{'nv_tileas.async.pipeline.producer_acquire' op goes on before stage 0 is empty, which it takes for known}}
      %e1 = nv_tileas.async.pipeline.producer_acquire %p, %j {known}
      %f1 = nv_tileas.async.pipeline.producer_commit %e1
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}

// -----

#shared = #nv_tileas.shared<offset = [[1], [2], [4], [8], [16]]>
module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_100"} {
    %ring = nv_tileas.alloc_tensor : !nv_tileas.buffer<2, tensor<32xf32, #shared>>
    // expected-error @below {{'nv_tileas.async.pipeline.create_pipeline' op expects two groups of warps or more, and stages in tensor memory or of threads alone}}
    %p, %c = nv_tileas.async.pipeline.create_pipeline %ring stages 2 producer = cp_async consumer = ld_shared {groups = 2 : i32} : !nv_tileas.buffer<2, tensor<32xf32, #shared>>
    nv_tileaa.return
  }
}

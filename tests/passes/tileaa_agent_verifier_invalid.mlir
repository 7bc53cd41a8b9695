// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --tileaa-agent-verifier
// Operations and types first, which no agent has to be looked at for; then whole functions.

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.async.pipeline.agent_switch' op expects a region for each of 3 agents, but got 2}}
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 2] {
      nv_tileas.async.pipeline.yield
    }, {
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.async.pipeline.agent_switch' op expects 'num_warps' to have a number for each of 2 agents}}
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [2] num_warps = [4] {
      nv_tileas.async.pipeline.yield
    }, {
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.async.pipeline.agent_switch' op expects the agents of a group to have one number of warps, but got [2, 4]}}
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [2] num_warps = [4, 2] {
      nv_tileas.async.pipeline.yield
    }, {
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}

// -----

#shared = #nv_tileas.shared<offset = [[1], [2], [4], [8], [16], [32], [64]]>
module {
  nv_tileaa.func @f(%b: !nv_tileas.buffer<2, tensor<128xf32, #shared>>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.async.pipeline.create_pipeline' op has 3 stages in a buffer of 2}}
    %p, %c = nv_tileas.async.pipeline.create_pipeline %b stages 3 : !nv_tileas.buffer<2, tensor<128xf32, #shared>>

    nv_tileaa.return
  }
}

// -----

#shared = #nv_tileas.shared<offset = [[1], [2], [4], [8], [16], [32], [64]]>
module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<2, tensor<128xf32, #shared>>
    %p, %c = nv_tileas.async.pipeline.create_pipeline %b stages 2 : !nv_tileas.buffer<2, tensor<128xf32, #shared>>
    %i = nv_tileas.async.pipeline.create_iterator %p : !nv_tileas.producer_token
    // expected-error @below {{expects region arguement types to match with producer types [f32], but got: [i32]}}
    %s = nv_tileas.async.pipeline.produce_one %p, %i attributes {producer_types = [f32]} {
    ^bb0(%t: i32):
      nv_tileas.async.pipeline.yield %t : i32
    }
    %j = nv_tileas.async.pipeline.create_iterator %c : !nv_tileas.consumer_token
    // expected-error @below {{expects region result types to be match with operation result types [i32], but got: [f32]}}
    %u, %v = nv_tileas.async.pipeline.consume_one %c, %j attributes {consumer_types = [f32]} : !nv_tileas.consumer_token, i32 {
    ^bb0(%t: f32):
      nv_tileas.async.pipeline.yield %t : f32
    }
    nv_tileas.dealloc_tensor %b : !nv_tileas.buffer<2, tensor<128xf32, #shared>>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.async.pipeline.agent_switch' op takes 12 warps of a kernel that has 8}}
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 8] {
      nv_tileas.async.pipeline.yield
    }, {
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.async.pipeline.agent_switch' op gives warp 2 to agents 0 and 1}}
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 4] warp_id = [0, 2] {
      nv_tileas.async.pipeline.yield
    }, {
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.async.pipeline.agent_switch' op asks for 44 registers for agent 0; a limit is a multiple of 8 from 24 to 256}}
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 4] max_regs = [44, 0] {
      nv_tileas.async.pipeline.yield
    }, {
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.async.pipeline.agent_switch' op gives warps 4 to 7, a warpgroup, different numbers of registers: [40, 56]}}
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1, 1] num_warps = [4, 1, 1] max_regs = [0, 40, 56] {
      nv_tileas.async.pipeline.yield
    }, {
      nv_tileas.async.pipeline.yield
    }, {
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 16, numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.async.pipeline.agent_switch' op asks for 98304 registers of 65536; threads start with 128 each}}
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 8] max_regs = [128, 256] {
      nv_tileas.async.pipeline.yield
    }, {
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 4] {
      nv_tileas.async.pipeline.yield
    }, {
      nv_tileas.async.pipeline.yield
    }
    // expected-error @below {{inconsistent numWarps in the agent switch, maybe it is called in different agents with different numWarps}}
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 2] {
      nv_tileas.async.pipeline.yield
    }, {
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}

// -----

#shared = #nv_tileas.shared<offset = [[1], [2], [4], [8], [16], [32], [64]]>
module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<2, tensor<128xf32, #shared>>
    // expected-error @below {{is a pipe that an agent waits for and none fills}}
    %p, %c = nv_tileas.async.pipeline.create_pipeline %b stages 2 : !nv_tileas.buffer<2, tensor<128xf32, #shared>>
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 4] {
      nv_tileas.async.pipeline.yield
    }, {
      %i = nv_tileas.async.pipeline.create_iterator %c : !nv_tileas.consumer_token
      %q = nv_tileas.async.pipeline.consumer_wait %c, %i
      %r = nv_tileas.async.pipeline.consumer_release %q
      nv_tileas.async.pipeline.yield
    }
    nv_tileas.dealloc_tensor %b : !nv_tileas.buffer<2, tensor<128xf32, #shared>>
    nv_tileaa.return
  }
}

// -----

#shared = #nv_tileas.shared<offset = [[1], [2], [4], [8], [16], [32], [64]]>
module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<2, tensor<128xf32, #shared>>
    // expected-error @below {{is a pipe that an agent fills and none drains}}
    %p, %c = nv_tileas.async.pipeline.create_pipeline %b stages 2 : !nv_tileas.buffer<2, tensor<128xf32, #shared>>
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 4] {
      %i = nv_tileas.async.pipeline.create_iterator %p : !nv_tileas.producer_token
      %q = nv_tileas.async.pipeline.producer_acquire %p, %i
      %r = nv_tileas.async.pipeline.producer_commit %q
      nv_tileas.async.pipeline.yield
    }, {
      nv_tileas.async.pipeline.yield
    }
    nv_tileas.dealloc_tensor %b : !nv_tileas.buffer<2, tensor<128xf32, #shared>>
    nv_tileaa.return
  }
}

// -----

#shared = #nv_tileas.shared<offset = [[1], [2], [4], [8], [16], [32], [64]]>
module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<2, tensor<128xf32, #shared>>
    // expected-error @below {{is a pipe that two agents fill}}
    %p, %c = nv_tileas.async.pipeline.create_pipeline %b stages 2 producer = cp_async consumer = ld_shared : !nv_tileas.buffer<2, tensor<128xf32, #shared>>
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [2, 1] num_warps = [2, 2, 4] {
      %i = nv_tileas.async.pipeline.create_iterator %p : !nv_tileas.producer_token
      %q = nv_tileas.async.pipeline.producer_acquire %p, %i
      %r = nv_tileas.async.pipeline.producer_commit %q
      nv_tileas.async.pipeline.yield
    }, {
      %i = nv_tileas.async.pipeline.create_iterator %p : !nv_tileas.producer_token
      %q = nv_tileas.async.pipeline.producer_acquire %p, %i
      %r = nv_tileas.async.pipeline.producer_commit %q
      nv_tileas.async.pipeline.yield
    }, {
      %i = nv_tileas.async.pipeline.create_iterator %c : !nv_tileas.consumer_token
      %q = nv_tileas.async.pipeline.consumer_wait %c, %i
      %r = nv_tileas.async.pipeline.consumer_release %q
      nv_tileas.async.pipeline.yield
    }
    nv_tileas.dealloc_tensor %b : !nv_tileas.buffer<2, tensor<128xf32, #shared>>
    nv_tileaa.return
  }
}

// -----

#shared = #nv_tileas.shared<offset = [[1], [2], [4], [8], [16], [32], [64]]>
module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<2, tensor<128xf32, #shared>>
    %p, %c = nv_tileas.async.pipeline.create_pipeline %b stages 2 : !nv_tileas.buffer<2, tensor<128xf32, #shared>>
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 4] {
      %i = nv_tileas.async.pipeline.create_iterator %p : !nv_tileas.producer_token
      // expected-error @below {{acquires a stage that it never commits}}
      %q = nv_tileas.async.pipeline.producer_acquire %p, %i
      nv_tileas.async.pipeline.yield
    }, {
      %i = nv_tileas.async.pipeline.create_iterator %c : !nv_tileas.consumer_token
      // expected-error @below {{releases a stage that it has not waited for}}
      %q = nv_tileas.async.pipeline.consumer_release %c
      // expected-error @below {{waits for a stage that it never releases}}
      %r = nv_tileas.async.pipeline.consumer_wait %q, %i
      nv_tileas.async.pipeline.yield
    }
    nv_tileas.dealloc_tensor %b : !nv_tileas.buffer<2, tensor<128xf32, #shared>>
    nv_tileaa.return
  }
}

// -----

module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 4] {
      // expected-error @below {{'nvvm.barrier' op waits for all warps of the kernel, in an agent of 4 warps}}
      nvvm.barrier
      // expected-error @below {{'nv_tileas.barrier' op waits for all warps of the kernel, in an agent of 4 warps}}
      nv_tileas.barrier id = 0
      nv_tileas.async.pipeline.yield
    }, {
      %n = arith.constant 1 : i32
      %m = arith.constant 128 : i32
      %l = arith.constant 96 : i32
      %o = arith.constant 16 : i32
      nvvm.barrier id = %n number_of_threads = %m
      // expected-error @below {{waits for 96 threads on barrier 1, to which agents of 128 come}}
      nvvm.barrier id = %n number_of_threads = %l
      // expected-error @below {{expects one of barriers 0 to 15, but got 16}}
      nvvm.barrier id = %o number_of_threads = %m
      nv_tileas.barrier id = 2 threads = 128
      // expected-error @below {{waits for 64 threads on barrier 2, to which agents of 128 come}}
      nv_tileas.barrier id = 2 threads = 64
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}

// -----

#layout = #nv_tileas.linear<register = [], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>
module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_90"} {
    %t = arith.constant dense<1> : tensor<128xi32> as tensor<128xi32, #layout>
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [4, 4] {
      // expected-error @below {{uses a tile that another agent has in registers}}
      %u = arith.addi %t, %t : tensor<128xi32, #layout>
      nv_tileas.async.pipeline.yield
    }, {
      nv_tileas.async.pipeline.yield
    }
    nv_tileaa.return
  }
}

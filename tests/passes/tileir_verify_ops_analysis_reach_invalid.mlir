// RUN: tileiras-opt %s --verify-diagnostics --tileir-verify-ops-analysis=compute-capability=sm_107

// sm_107 has 327 KB of shared memory; a matrix descriptor addresses 256 KB, counted from the kilobyte of the system.

#k = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 8], [8, 0], [16, 0], [32, 0]]>
#n = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0]]>
#acc = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [0, 0], [16, 0], [32, 0]], column = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]]>
#own = #nv_tileas.linear<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>

builtin.module {
  nv_tileaa.func @without_dots() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_107"} {
    %a = nv_tileas.alloc_tensor {offset = 262144 : i32} : !nv_tileas.buffer<1, tensor<64xf32, #own>>
    nv_tileaa.return
  }

  nv_tileaa.func @dots() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_107"} {
    %z = arith.constant 0 : i32
    %yes = arith.constant true
    %m = nv_tileas.tensor_memory.reserve {commits = 1 : i32}
    %base = nv_tileas.tensor_memory.open %m
    %qa = nv_tileas.alloc_tensor {offset = 259072 : i32} : !nv_tileas.buffer<1, tensor<64x16xf16, #k>>
    // expected-error @below {{'nv_tileas.alloc_tensor' op ends at byte 263168 of shared memory, sm_107 has 261120}}
    %qb = nv_tileas.alloc_tensor {offset = 261120 : i32} : !nv_tileas.buffer<1, tensor<16x64xf16, #n>>
    %a = nv_tileas.copy %qa[%z : i32] : !nv_tileas.buffer<1, tensor<64x16xf16, #k>> -> tensor<64x16xf16, #k>
    %b = nv_tileas.copy %qb[%z : i32] : !nv_tileas.buffer<1, tensor<16x64xf16, #n>> -> tensor<16x64xf16, #n>
    %t = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<64x64xf32, #acc>>
    nv_tileas.tensor_memory.dot %a, %b into %t if %yes {atom = #nv_tileas.mma_atom<"tcgen05_m64n64k16_f32_f16_f16_ss">} : tensor<64x16xf16, #k>, tensor<16x64xf16, #n>, !nv_tileas.tensor_buffer<tensor<64x64xf32, #acc>>
    nv_tileaa.return
  }
}

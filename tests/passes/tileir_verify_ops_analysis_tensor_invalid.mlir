// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --tileir-verify-ops-analysis=compute-capability=sm_100

// What a dot into tensor memory needs of its operands, and buffers of their columns.

#k = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 8], [8, 0], [16, 0], [32, 0]]>
#plain = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]]>
#n = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0]]>
#acc = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [0, 0], [16, 0], [32, 0]], column = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]]>
#turned = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [0, 0], [32, 0], [16, 0]], column = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]]>
#loaded = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
#halves = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [0, 32]], warp = [[16, 0], [32, 0]]>
#rows = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 32]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [0, 16]], warp = [[16, 0], [32, 0]]>
#spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>

builtin.module {
  nv_tileaa.func @dots() attributes {kernel_spec = #spec, target_spec = "sm_100"} {
    %z = arith.constant 0 : i32
    %yes = arith.constant true
    %m = nv_tileas.tensor_memory.reserve {commits = 1 : i32}
    %base = nv_tileas.tensor_memory.open %m
    %qa = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<64x16xf16, #k>>
    %qp = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<64x16xf16, #plain>>
    %qb = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<16x64xf16, #n>>
    %a = nv_tileas.copy %qa[%z : i32] : !nv_tileas.buffer<1, tensor<64x16xf16, #k>> -> tensor<64x16xf16, #k>
    %p = nv_tileas.copy %qp[%z : i32] : !nv_tileas.buffer<1, tensor<64x16xf16, #plain>> -> tensor<64x16xf16, #plain>
    %b = nv_tileas.copy %qb[%z : i32] : !nv_tileas.buffer<1, tensor<16x64xf16, #n>> -> tensor<16x64xf16, #n>
    %t = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<64x64xf32, #acc>>
    %u = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<64x64xf32, #turned>>
    nv_tileas.tensor_memory.dot %a, %b into %t if %yes {atom = #nv_tileas.mma_atom<"tcgen05_m64n64k16_f32_f16_f16_ss">} : tensor<64x16xf16, #k>, tensor<16x64xf16, #n>, !nv_tileas.tensor_buffer<tensor<64x64xf32, #acc>>
    // expected-error @below {{no matrix descriptor describes the layout of A}}
    nv_tileas.tensor_memory.dot %p, %b into %t if %yes {atom = #nv_tileas.mma_atom<"tcgen05_m64n64k16_f32_f16_f16_ss">} : tensor<64x16xf16, #plain>, tensor<16x64xf16, #n>, !nv_tileas.tensor_buffer<tensor<64x64xf32, #acc>>
    // expected-error @below {{the layout of C does not have the accumulator of atom 'tcgen05_m64n64k16_f32_f16_f16_ss'}}
    nv_tileas.tensor_memory.dot %a, %b into %u if %yes {atom = #nv_tileas.mma_atom<"tcgen05_m64n64k16_f32_f16_f16_ss">} : tensor<64x16xf16, #k>, tensor<16x64xf16, #n>, !nv_tileas.tensor_buffer<tensor<64x64xf32, #turned>>
    // expected-error @below {{atom 'tcgen05_m64n64k16_f32_bf16_bf16_ss' does not multiply f16 and f16 into f32}}
    nv_tileas.tensor_memory.dot %a, %b into %t if %yes {atom = #nv_tileas.mma_atom<"tcgen05_m64n64k16_f32_bf16_bf16_ss">} : tensor<64x16xf16, #k>, tensor<16x64xf16, #n>, !nv_tileas.tensor_buffer<tensor<64x64xf32, #acc>>
    // expected-error @below {{atom 'tcgen05_m128n64k16_f32_f16_f16_ss' does not divide a result of 64 x 64}}
    nv_tileas.tensor_memory.dot %a, %b into %t if %yes {atom = #nv_tileas.mma_atom<"tcgen05_m128n64k16_f32_f16_f16_ss">} : tensor<64x16xf16, #k>, tensor<16x64xf16, #n>, !nv_tileas.tensor_buffer<tensor<64x64xf32, #acc>>
    // expected-error @below {{mma atom 'tcgen05_m64n64k32_f32_f8E4M3FN_f8E4M3FN_ts' is described, but not generated yet}}
    nv_tileas.tensor_memory.dot %a, %b into %t if %yes {atom = #nv_tileas.mma_atom<"tcgen05_m64n64k32_f32_f8E4M3FN_f8E4M3FN_ts">} : tensor<64x16xf16, #k>, tensor<16x64xf16, #n>, !nv_tileas.tensor_buffer<tensor<64x64xf32, #acc>>
    // expected-error @below {{moves a tile whose elements its threads do not reach in tensor memory}}
    %x = nv_tileas.tensor_memory.load %t : !nv_tileas.tensor_buffer<tensor<64x64xf32, #acc>> -> tensor<64x64xf32, #rows>
    %y = nv_tileas.tensor_memory.load %t : !nv_tileas.tensor_buffer<tensor<64x64xf32, #acc>> -> tensor<64x64xf32, #loaded>
    %h = nv_tileas.tensor_memory.load %t : !nv_tileas.tensor_buffer<tensor<64x64xf32, #acc>> -> tensor<64x64xf32, #halves>
    nv_tileaa.return
  }

  nv_tileaa.func @places() attributes {kernel_spec = #spec, target_spec = "sm_100"} {
    // expected-error @below {{makes a tile in tensor memory, where buffers lie}}
    %c = arith.constant dense<0.0> : tensor<64x64xf32> as tensor<64x64xf32, #acc>
    %m = nv_tileas.tensor_memory.reserve {commits = 1 : i32, columns = 64 : i32, offset = 0 : i32}
    // expected-error @below {{reserves columns of a function that has some}}
    %m2 = nv_tileas.tensor_memory.reserve {commits = 1 : i32, columns = 64 : i32, offset = 128 : i32}
    %base = nv_tileas.tensor_memory.open %m
    %t = nv_tileas.tensor_memory.alloc %base {column = 0 : i32} : !nv_tileas.tensor_buffer<tensor<64x64xf32, #acc>>
    // expected-error @below {{begins at column 0 of tensor memory, where another buffer lives}}
    %u = nv_tileas.tensor_memory.alloc %base {column = 0 : i32} : !nv_tileas.tensor_buffer<tensor<64x64xf32, #acc>>
    // expected-error @below {{has columns 64 to 127 of tensor memory, the function has 64}}
    %v = nv_tileas.tensor_memory.alloc %base {column = 64 : i32} : !nv_tileas.tensor_buffer<tensor<64x64xf32, #acc>>
    // expected-error @below {{frees columns in which a buffer lives}}
    nv_tileas.tensor_memory.release %m
    nv_tileas.tensor_memory.dealloc %t : !nv_tileas.tensor_buffer<tensor<64x64xf32, #acc>>
    nv_tileas.tensor_memory.release %m
    nv_tileaa.return
  }
}

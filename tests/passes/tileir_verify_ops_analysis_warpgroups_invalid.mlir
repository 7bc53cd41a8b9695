// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --tileir-verify-ops-analysis=compute-capability=sm_90

// What a warpgroup instruction needs of the layouts of its operands.

#acc = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
#k = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 8], [8, 0], [16, 0], [32, 0]]>
#n = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0]]>
!a = tensor<64x16xf16, #k>
!b = tensor<16x64xf16, #n>
!c = tensor<64x64xf32, #acc>
#spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>

builtin.module {
  nv_tileaa.func @right() attributes {kernel_spec = #spec, target_spec = "sm_90"} {
    %z = arith.constant 0 : i32
    %qa = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, !a>
    %qb = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, !b>
    %a = nv_tileas.copy %qa[%z : i32] : !nv_tileas.buffer<1, !a> -> !a
    %b = nv_tileas.copy %qb[%z : i32] : !nv_tileas.buffer<1, !b> -> !b
    %f = nv_tileas.async.create_none : !nv_tileas.in_flight<!c>
    %g = nv_tileas.async.dot %a, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">, overwrites} : !a, !b -> !nv_tileas.in_flight<!c>
    nv_tileas.async.commit_dots
    %d = nv_tileas.async.future_wait %g {pending = 0 : i32} : (!nv_tileas.in_flight<!c>) -> !c
    nv_tileaa.return
  }
}

// -----

#acc = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
#turned = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[32, 0], [16, 0]]>
#frag = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[32, 0], [16, 0]]>
#k = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 8], [8, 0], [16, 0], [32, 0]]>
#plain = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]]>
#n = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0]]>
#spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>

builtin.module {
  nv_tileaa.func @wrong(%b8: tensor<16x64xf16, #n>) attributes {kernel_spec = #spec, target_spec = "sm_90"} {
    %z = arith.constant 0 : i32
    %qa = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<64x16xf16, #k>>
    %qp = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<64x16xf16, #plain>>
    %qb = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<16x64xf16, #n>>
    %a = nv_tileas.copy %qa[%z : i32] : !nv_tileas.buffer<1, tensor<64x16xf16, #k>> -> tensor<64x16xf16, #k>
    %p = nv_tileas.copy %qp[%z : i32] : !nv_tileas.buffer<1, tensor<64x16xf16, #plain>> -> tensor<64x16xf16, #plain>
    %b = nv_tileas.copy %qb[%z : i32] : !nv_tileas.buffer<1, tensor<16x64xf16, #n>> -> tensor<16x64xf16, #n>
    %f = nv_tileas.async.create_none : !nv_tileas.in_flight<tensor<64x64xf32, #acc>>
    %t = nv_tileas.async.create_none : !nv_tileas.in_flight<tensor<64x64xf32, #turned>>
    %r = nv_tileas.async.create_none : !nv_tileas.in_flight<tensor<64x16xf16, #frag>>
    // expected-error @below {{no matrix descriptor describes the layout of A}}
    %0 = nv_tileas.async.dot %p, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">} : tensor<64x16xf16, #plain>, tensor<16x64xf16, #n> -> !nv_tileas.in_flight<tensor<64x64xf32, #acc>>
    // expected-error @below {{the layout of C does not have the fragments of atom 'wgmma_m64n64k16_f32_f16_f16_ss'}}
    %1 = nv_tileas.async.dot %a, %b, %t {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">} : tensor<64x16xf16, #k>, tensor<16x64xf16, #n> -> !nv_tileas.in_flight<tensor<64x64xf32, #turned>>
    // expected-error @below {{atom 'wgmma_m64n64k16_f32_bf16_bf16_ss' does not multiply f16 and f16 into f32}}
    %2 = nv_tileas.async.dot %a, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_bf16_bf16_ss">} : tensor<64x16xf16, #k>, tensor<16x64xf16, #n> -> !nv_tileas.in_flight<tensor<64x64xf32, #acc>>
    // expected-error @below {{atom 'wgmma_m64n64k16_f32_f16_f16_rs' takes A from registers}}
    %3 = nv_tileas.async.dot %a, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_rs">} : tensor<64x16xf16, #k>, tensor<16x64xf16, #n> -> !nv_tileas.in_flight<tensor<64x64xf32, #acc>>
    // expected-error @below {{the layout of A does not have the fragments of atom 'wgmma_m64n64k16_f32_f16_f16_rs'}}
    %4 = nv_tileas.async.dot %r, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_rs">} : !nv_tileas.in_flight<tensor<64x16xf16, #frag>>, tensor<16x64xf16, #n> -> !nv_tileas.in_flight<tensor<64x64xf32, #acc>>
    // expected-error @below {{atom 'wgmma_m64n64k16_f32_f16_f16_ss' takes A from shared memory}}
    %5 = nv_tileas.async.dot %r, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">} : !nv_tileas.in_flight<tensor<64x16xf16, #frag>>, tensor<16x64xf16, #n> -> !nv_tileas.in_flight<tensor<64x64xf32, #acc>>
    nv_tileaa.return
  }
}

// -----

#acc = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
#a = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
#b = #nv_tileas.linear<register = [[1, 0], [0, 8], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = [[0, 16], [0, 32]]>
#spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>

builtin.module {
  nv_tileaa.func @kept(%f: !nv_tileas.in_flight<tensor<64x64xf32, #acc>>, %a: tensor<64x16xf16, #a>, %b: tensor<16x64xf16, #b>) attributes {kernel_spec = #spec, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.async.dot' op expects B in shared memory}}
    %0 = nv_tileas.async.dot %a, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">} : tensor<64x16xf16, #a>, tensor<16x64xf16, #b> -> !nv_tileas.in_flight<tensor<64x64xf32, #acc>>
    nv_tileaa.return
  }
}

// -----

// With A in registers, the rows of an instruction have any order that C has as well; of an exchanged dot, A is B.

#acc = #nv_tileas.linear<register = [[0, 1], [1, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [2, 0], [16, 0], [4, 0]], warp = [[8, 0], [32, 0]]>
#frag = #nv_tileas.linear<register = [[1, 0], [0, 4]], lane = [[0, 1], [0, 2], [2, 0], [16, 0], [4, 0]], warp = [[8, 0], [32, 0]]>
#turned_acc = #nv_tileas.linear<register = [[1, 0], [0, 1], [8, 0], [16, 0], [32, 0]], lane = [[2, 0], [4, 0], [0, 2], [0, 16], [0, 4]], warp = [[0, 8], [0, 32]]>
#turned_frag = #nv_tileas.linear<register = [[0, 1], [4, 0]], lane = [[1, 0], [2, 0], [0, 2], [0, 16], [0, 4]], warp = [[0, 8], [0, 32]]>
#other_frag = #nv_tileas.linear<register = [[0, 1], [4, 0]], lane = [[1, 0], [2, 0], [0, 16], [0, 2], [0, 4]], warp = [[0, 8], [0, 32]]>
#a = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [4, 4], [8, 0], [16, 0], [32, 0]]>
#b = #nv_tileas.shared<offset = [[1, 0], [2, 0], [4, 0], [0, 1], [0, 2], [4, 4], [0, 8], [0, 16], [0, 32]]>
#spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>

builtin.module {
  nv_tileaa.func @orders(%a: tensor<64x8xtf32, #a>, %b: tensor<8x64xtf32, #b>) attributes {kernel_spec = #spec, target_spec = "sm_90"} {
    %f = nv_tileas.async.create_none : !nv_tileas.in_flight<tensor<64x64xf32, #acc>>
    %t = nv_tileas.async.create_none : !nv_tileas.in_flight<tensor<64x64xf32, #turned_acc>>
    %x = nv_tileas.async.create_none : !nv_tileas.in_flight<tensor<64x8xtf32, #frag>>
    %y = nv_tileas.async.create_none : !nv_tileas.in_flight<tensor<8x64xtf32, #turned_frag>>
    %z = nv_tileas.async.create_none : !nv_tileas.in_flight<tensor<8x64xtf32, #other_frag>>
    %0 = nv_tileas.async.dot %x, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k8_f32_tf32_tf32_rs">} : !nv_tileas.in_flight<tensor<64x8xtf32, #frag>>, tensor<8x64xtf32, #b> -> !nv_tileas.in_flight<tensor<64x64xf32, #acc>>
    %1 = nv_tileas.async.dot %a, %y, %t {atom = #nv_tileas.mma_atom<"wgmma_m64n64k8_f32_tf32_tf32_rs">, exchanged} : tensor<64x8xtf32, #a>, !nv_tileas.in_flight<tensor<8x64xtf32, #turned_frag>> -> !nv_tileas.in_flight<tensor<64x64xf32, #turned_acc>>
    // expected-error @below {{the layout of B does not have the fragments of atom 'wgmma_m64n64k8_f32_tf32_tf32_rs'}}
    %2 = nv_tileas.async.dot %a, %z, %t {atom = #nv_tileas.mma_atom<"wgmma_m64n64k8_f32_tf32_tf32_rs">, exchanged} : tensor<64x8xtf32, #a>, !nv_tileas.in_flight<tensor<8x64xtf32, #other_frag>> -> !nv_tileas.in_flight<tensor<64x64xf32, #turned_acc>>
    // expected-error @below {{the layout of C does not have the fragments of atom 'wgmma_m64n64k8_f32_tf32_tf32_ss'}}
    %3 = nv_tileas.async.dot %a, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k8_f32_tf32_tf32_ss">} : tensor<64x8xtf32, #a>, tensor<8x64xtf32, #b> -> !nv_tileas.in_flight<tensor<64x64xf32, #acc>>
    nv_tileaa.return
  }
}

// -----

#acc = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
#spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>

builtin.module {
  nv_tileaa.func @groups(%f: !nv_tileas.in_flight<tensor<64x64xf32, #acc>>) attributes {kernel_spec = #spec, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.async.future_wait' op expects a number of groups as i32, from 0 to 7}}
    %0 = nv_tileas.async.future_wait %f {pending = 8 : i32} : (!nv_tileas.in_flight<tensor<64x64xf32, #acc>>) -> tensor<64x64xf32, #acc>
    nv_tileaa.return
  }
}

// -----

#acc = #nv_tileas.linear<register = [[1, 0], [0, 8], [8, 0], [16, 0], [32, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = [[0, 16], [0, 32]]>
#a = #nv_tileas.linear<register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]>
#spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>

builtin.module {
  nv_tileaa.func @kept_exchanged(%f: !nv_tileas.in_flight<tensor<64x64xf32, #acc>>, %a: !nv_tileas.in_flight<tensor<64x16xf16, #a>>, %b: tensor<16x64xf16>) attributes {kernel_spec = #spec, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.async.dot' op expects A in shared memory}}
    %0 = nv_tileas.async.dot %a, %b, %f {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">, exchanged} : !nv_tileas.in_flight<tensor<64x16xf16, #a>>, tensor<16x64xf16> -> !nv_tileas.in_flight<tensor<64x64xf32, #acc>>
    nv_tileaa.return
  }
}

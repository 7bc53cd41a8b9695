// RUN: tileiras-opt %s --tileas --convert-tileas-to-llvm --tileir-legalize-llvm-kernel --convert-to-llvm --arith-expand | FileCheck %s

// A tile is one vector; the thread's part of the address is made once, registers are constants beside it. The bound is a
// multiple of four, so that a mask holds for a whole vector of 16 bytes.

// CHECK: llvm.func @scale(%[[A:[a-z0-9]+]]: !llvm.ptr<1> {tileiras.type = "ptr<f32>"}
// CHECK-SAME: nvvm.kernel
// CHECK-SAME: nvvm.reqntid = array<i32: 128>
// CHECK: nvvm.read.ptx.sreg.tid.x
// CHECK: llvm.getelementptr %[[A]]
// CHECK: llvm.inline_asm {{.*}}ld.global.v4.b32 {{.*}}[$4];
// CHECK: llvm.inline_asm {{.*}}ld.global.v4.b32 {{.*}}[$4+2048];
// CHECK: llvm.fmul {{.*}} : vector<8xf32>
// CHECK: llvm.inline_asm {{.*}}st.global.v4.b32 [$0],
// CHECK: llvm.inline_asm {{.*}}st.global.v4.b32 [$0+2048],
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.return
builtin.module {
  nv_tileaa.func @scale(%a: !nv_tileaa.ptr<f32>, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %p = nv_tileaa.assume #nv_tileaa.div_by<16>, %a : !nv_tileaa.ptr<f32>
    %s = nv_tileaa.assume #nv_tileaa.div_by<8>, %n : i32
    %m = nv_tileaa.make_memref %p, sizes = [%s], strides = [] : !nv_tileaa.ptr<f32>, (i32), () -> !nv_tileaa.memref<?xf32, strides = [1]>
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[1024], !nv_tileaa.memref<?xf32, strides = [1]>>
    %i = nv_tileaa.get_program_id x : i32
    %x, %k = nv_tileaa.tiled_load %v[%i] : !nv_tileaa.tiled_view<[1024], !nv_tileaa.memref<?xf32, strides = [1]>>, (i32) -> tensor<1024xf32>, !nv_tileaa.mem_token
    %c = arith.constant dense<2.0> : tensor<1024xf32>
    %y = nv_tileaa.mulf %x, %c : tensor<1024xf32>
    %st = nv_tileaa.tiled_store %y, %v[%i] token = %k : tensor<1024xf32>, !nv_tileaa.tiled_view<[1024], !nv_tileaa.memref<?xf32, strides = [1]>>, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// RUN: tileiras-opt %s --tileas-optimize-alloc-tensor --tileas-rematerialize --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %s --tileas-optimize-alloc-tensor --tileas-rematerialize --tileas-insert-barriers --tileas-assign-launch-bounds --convert-tileas-to-llvm | FileCheck %s --check-prefix=LLVM

// In a loop that is short of registers, what finds its elements by the thread's number does so in every iteration; a
// number says in which of the loops around it.  So does what computes addresses of sizes that are known at run time.

#rows = #nv_tileas.linear<register = [[0, 1], [0, 2]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0]]>
#turned = #nv_tileas.linear<register = [[0, 1], [0, 2]], lane = [[32, 0], [16, 0], [8, 0], [4, 0], [2, 0]], warp = [[1, 0]]>
#line = #nv_tileas.linear<register = [], lane = [[1], [2], [4], [8], [16]], warp = [[32]]>
!rows = tensor<64x4xi32, #rows>
!turned = tensor<64x4xi32, #turned>
!fixed = !nv_tileaa.memref<64x4xi32, strides = [4, 1]>
!sized = !nv_tileaa.memref<?x4xi32, strides = [4, 1]>

module {
  // LLVM: %[[TID:.*]] = nvvm.read.ptx.sreg.tid.x
  nv_tileaa.func @k(%p: !nv_tileaa.ptr<i32>, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %x = arith.constant dense<1> : tensor<64x4xi32> as !rows
    %mf = nv_tileas.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<i32>, (), () -> !fixed
    %vf = nv_tileas.block_tile %mf : !nv_tileaa.tiled_view<[64, 4], !fixed>
    %ms = nv_tileas.make_memref %p, sizes = [%n], strides = [] : !nv_tileaa.ptr<i32>, (i32), () -> !sized
    %vs = nv_tileas.block_tile %ms : !nv_tileaa.tiled_view<[64, 4], !sized>
    // CHECK: scf.for
    scf.for %i = %zero to %n step %one : i32 {
      // LLVM: llvm.inline_asm has_side_effects "{ .reg .b32 n; add.s32 n, $1, 1;
      // CHECK: convert_layout %{{.*}} {nv_tileas.rematerialize = 0 : i32, nv_tileas.scratch = {{.*}}}
      %y = nv_tileas.convert_layout %x : !rows -> !turned
      // CHECK: addi %{{.*}}, %{{.*}} : tensor
      %y2 = arith.addi %y, %y : !turned
      // CHECK: tiled_load {{.*}}{atom = #nv_tileas.copy_atom<ld_global, 1>} :
      %f, %tf = nv_tileas.tiled_load %vf[%zero, %zero] {atom = #nv_tileas.copy_atom<ld_global, 1>} : !nv_tileaa.tiled_view<[64, 4], !fixed>, (i32, i32) -> !rows, !nv_tileaa.mem_token
      // CHECK: tiled_load {{.*}}{atom = #nv_tileas.copy_atom<ld_global, 1>, nv_tileas.rematerialize = 0 : i32} :
      %s, %ts = nv_tileas.tiled_load %vs[%zero, %zero] {atom = #nv_tileas.copy_atom<ld_global, 1>} : !nv_tileaa.tiled_view<[64, 4], !sized>, (i32, i32) -> !rows, !nv_tileaa.mem_token
      scf.for %j = %zero to %n step %one : i32 {
        // CHECK: make_range {nv_tileas.rematerialize = 1 : i32}
        %r = nv_tileas.make_range : tensor<64xi32, #line>
      // CHECK: } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>}
      } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>}
      scf.for %j = %zero to %n step %one : i32 {
        // CHECK: make_range {nv_tileas.rematerialize = 0 : i32}
        %r = nv_tileas.make_range : tensor<64xi32, #line>
      // CHECK: } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>, nv_tileas.rematerialize_behind}
      } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>, nv_tileas.short_of_registers}
    // CHECK: } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>, nv_tileas.rematerialize_behind}
    } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>, nv_tileas.short_of_registers}
    // CHECK: make_range :
    %after = nv_tileas.make_range : tensor<64xi32, #line>
    nv_tileaa.return
  }
}

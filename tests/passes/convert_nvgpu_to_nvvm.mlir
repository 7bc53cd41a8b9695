// RUN: tileiras-opt %s --convert-nvgpu-to-nvvm | FileCheck %s

// By intrinsic where LLVM has one for the instruction, else by assembly; some operations are two, or another one.
// CHECK: nvvm.mma.sync A[%{{.*}}] B[%{{.*}}] C[%{{.*}}] {accumulatorPtxType = #nvvm.mma_type<f32>, {{.*}}k = 16 : i32, m = 16 : i32{{.*}}n = 8 : i32
// CHECK: nvvm.ldmatrix %{{.*}} {layout = #nvvm.mma_layout<col>, num = 4 : i32}
// CHECK: nvvm.ldmatrix %{{.*}} {eltType = #nvvm.ld_st_matrix_elt_type<b8>, layout = #nvvm.mma_layout<col>, num = 2 : i32}
// CHECK: nvvm.cp.async.shared.global %{{.*}}, %{{.*}} {modifier = #nvvm.load_cache_modifier<cg>, size = 16 : i32}
// CHECK: llvm.inline_asm has_side_effects {{.*}}"@$0 cp.async.ca.shared.global [$1], [$2], 8, $3;"
// CHECK: nvvm.cp.async.wait.group {n = 2 : i32}
// CHECK: nvvm.cluster.arrive.relaxed
// CHECK-NEXT: nvvm.cluster.wait
// CHECK: nvvm.bar.warp.sync
// CHECK: nvvm.barrier id = %{{.*}} number_of_threads = %{{.*}}
// CHECK: llvm.inline_asm has_side_effects {{.*}}"griddepcontrol.wait;"
// CHECK: nvvm.cp.async.bulk.tensor.global.shared.cta {{.*}}instruction = "cp.reduce.async.bulk.tensor"{{.*}}global.shared::cta.add.tile.bulk_group
// CHECK-NOT: nvgpu.
module {
  llvm.func @k(%a: vector<2xf16>, %c: f32, %p: !llvm.ptr<3>, %g: !llvm.ptr<1>, %map: !llvm.ptr, %n: i32, %on: i1) {
    %0 = nvgpu.mma.sync A[%a, %a, %a, %a] B[%a, %a] C[%c, %c, %c, %c] {aType = "f16", bType = "f16", cType = "f32", mmaShape = [16 : i32, 8 : i32, 16 : i32]} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    %1 = nvgpu.ldmatrix %p {numTiles = 4 : i32, transpose = true} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32, i32, i32)>
    %2 = nvgpu.ldmatrix %p {eltType = #nvvm.ld_st_matrix_elt_type<b8>, numTiles = 2 : i32, transpose = true} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32, i32, i32)>
    nvgpu.device_async_copy %p, %g {bypassL1, dstBytes = 16 : i32} : !llvm.ptr<3>, !llvm.ptr<1>
    nvgpu.device_async_copy %p, %g bytes %n if %on {dstBytes = 8 : i32} : !llvm.ptr<3>, !llvm.ptr<1>
    nvgpu.device_async_wait {numGroups = 2 : i32}
    nvgpu.cluster.barrier {relaxed}
    %warp = llvm.mlir.constant(32 : i32) : i32
    %block = llvm.mlir.constant(64 : i32) : i32
    nvgpu.barrier id = %n number_of_threads = %warp
    nvgpu.barrier id = %n number_of_threads = %block
    nvgpu.grid_dependency.wait
    nvgpu.tma.async.store %map[%n, %n], %p {atom = "tma_reduce", operation = "add"} : !llvm.ptr, i32, i32, !llvm.ptr<3>
    llvm.return
  }
}

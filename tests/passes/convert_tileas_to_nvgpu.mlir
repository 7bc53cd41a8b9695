// RUN: tileiras-opt %s --convert-tileas-to-nvgpu=compute-capability=sm_90 | FileCheck %s --check-prefixes=CHECK,NEW
// RUN: tileiras-opt %s --convert-tileas-to-nvgpu=compute-capability=sm_80 | FileCheck %s --check-prefixes=CHECK,OLD

// The atom has the shape and the types of a product; the target says how a thread waits, and whether grids overlap.
// CHECK: nvgpu.mma.sync A[%{{.*}}] B[%{{.*}}] C[%{{.*}}] {aType = "f16", bType = "f16", cType = "f32", mmaShape = [16 : i32, 8 : i32, 16 : i32]}
// NEW: nvgpu.mbarrier.try_wait.parity
// OLD: nvgpu.mbarrier.test_wait.parity
// NEW: nvgpu.grid_dependency.wait
// OLD-NOT: nvgpu.grid_dependency.wait
// CHECK: nvgpu.mbarrier.init
// CHECK-NOT: nv_tileas.thread
module {
  llvm.func @k(%a: vector<2xf16>, %c: f32, %p: !llvm.ptr<3>, %n: i32) {
    %0 = nv_tileas.thread.mma A[%a, %a, %a, %a] B[%a, %a] C[%c, %c, %c, %c] {atom = "mma_m16n8k16_f32_f16_f16"} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    %1 = nv_tileas.thread.mbarrier.wait %p, %n : !llvm.ptr<3>, i32 -> i1
    nv_tileas.thread.grid_dependency.wait
    nv_tileas.thread.mbarrier.init %p, %n : !llvm.ptr<3>, i32
    llvm.return
  }
}

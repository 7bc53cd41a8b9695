// Barrier 0 is that of all threads; the others count the threads of their agent.
// RUN: tileiras-opt %s | FileCheck %s --check-prefix=SAME
// RUN: tileiras-opt %s --tileas-optimize-alloc-tensor --tileas-insert-barriers --tileas-assign-launch-bounds --convert-tileas-to-llvm --convert-tileas-to-nvgpu --convert-nvgpu-to-nvvm | FileCheck %s

module {
  nv_tileaa.func @k() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    // SAME: nv_tileas.barrier id = 0
    // SAME: nv_tileas.barrier id = 3 threads = 64
    // CHECK: %[[N:.*]] = llvm.mlir.constant(3 : i32)
    // CHECK: %[[T:.*]] = llvm.mlir.constant(64 : i32)
    // CHECK: nvvm.barrier{{$}}
    nv_tileas.barrier id = 0
    // CHECK: nvvm.barrier id = %[[N]] number_of_threads = %[[T]]
    nv_tileas.barrier id = 3 threads = 64
    nv_tileaa.return
  }
}

// RUN: tileiras-opt %s --tileir-post-nvvm-finalize --verify-diagnostics

module {
  gpu.module @kernels {
    llvm.func @k(%x: f32, %p: !llvm.ptr<3>, %n: i32) {
      // expected-error @below {{failed to legalize operation 'math.exp'}}
      %0 = math.exp %x : f32
      // expected-error @below {{failed to legalize operation 'nvgpu.mbarrier.init'}}
      nvgpu.mbarrier.init %p, %n : !llvm.ptr<3>, i32
      llvm.return
    }
  }
}

// RUN: tileiras-opt %s --split-input-file --convert-target-to-nvvm | FileCheck %s
// RUN: tileiras-opt %s --split-input-file --convert-target-to-nvvm --convert-target-to-nvvm | FileCheck %s

// A gpu.module's own attributes go before those of the module around it, a capability before a target.
// CHECK: gpu.module @own [#nvvm.target<O = 3, chip = "sm_90", {{.*}}>]
// CHECK: gpu.module @around [#nvvm.target<O = 3, chip = "sm_120", flags = {{{.*}}libNVVMUseNVGpuComp = true}>]
module attributes {nv_tileaa.compute_capability = 120 : i32} {
  gpu.module @own attributes {nv_tileaa.compute_capability = 90 : i32, nv_tileaa.target_spec = "sm_80", nv_tileaa.libnvvm_use_nvgpucomp = false} {
  }
  gpu.module @around attributes {nv_tileaa.libnvvm_use_nvgpucomp = true} {
  }
}

// -----

// CHECK: gpu.module @kernels [#nvvm.target<O = 3, chip = "sm_100", flags = {{{.*}}libNVVMUseNVGpuComp = true}>] attributes {nv_tileaa.libnvvm_use_nvgpucomp = true, nv_tileaa.target_spec = "sm_100"}
module attributes {nv_tileaa.target_spec = "sm_100", nv_tileaa.libnvvm_use_nvgpucomp = true} {
  llvm.func @k() attributes {nvvm.kernel, target_spec = "sm_80"} {
    llvm.return
  }
}

// -----

// The function's target, when no module says anything; the linking mode is that of every target.
// CHECK: gpu.module @m [#nvvm.target<O = 3, chip = "sm_80", {{.*}}>]
module {
  gpu.module @m [#nvvm.target<chip = "sm_90", features = "+ptx86", link = false>] {
    llvm.func @k() attributes {nvvm.kernel, target_spec = "sm_80"} {
      llvm.return
    }
  }
}

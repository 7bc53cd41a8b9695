// RUN: tileiras-opt %s --tileir-gpu-module-prepare | FileCheck %s --check-prefix=PREPARED
// RUN: tileiras-opt %s --tileir-gpu-module-prepare --tileir-gpu-module-prepare | FileCheck %s --check-prefix=PREPARED
// RUN: tileiras-opt %s --tileir-gpu-module-prepare --tileir-legalize-llvm-kernel | FileCheck %s --check-prefix=LEGAL
// RUN: tileiras-opt %s --tileir-gpu-module-prepare --tileir-legalize-llvm-kernel --tileir-finalize-llvm-kernel | FileCheck %s

// Code moves into a gpu.module, and a cluster's size is written down; attributes that are there stay.
// PREPARED-COUNT-1: gpu.module @kernels
// PREPARED: llvm.func @clustered(
// PREPARED-SAME: nvvm.blocksareclusters
// PREPARED-SAME: nvvm.cluster_dim = array<i32: 4>
// PREPARED: llvm.func @pairs(
// PREPARED-NOT: nvvm.blocksareclusters
// PREPARED-SAME: nvvm.cluster_dim = array<i32: 2>
// PREPARED: llvm.func @chosen(
// PREPARED-SAME: nvvm.cluster_dim = array<i32: 8>
// PREPARED: llvm.func @helper(

// Functions of nv_tileas become kernels, whose tensor maps are passed by value; others stay as they are.
// LEGAL: llvm.func @clustered(
// LEGAL-SAME: llvm.align = 64 : i64
// LEGAL-SAME: llvm.byval = !llvm.array<128 x i8>
// LEGAL-SAME: nvvm.grid_constant
// LEGAL-SAME: nvvm.kernel
// LEGAL-SAME: nvvm.reqntid = array<i32: 128>
// LEGAL: llvm.func @pairs(
// LEGAL-SAME: nvvm.reqntid = array<i32: 256>
// LEGAL: llvm.func @helper(
// LEGAL-NOT: nvvm.kernel

// What launches and NAME.json need has its last name, and nothing of nv_tileas is left.
// CHECK: llvm.func @clustered(
// CHECK-SAME: nvvm.minctasm = 2 : i32
// CHECK-SAME: tileiras.shared_memory = 4096 : i32
// CHECK: llvm.func @pairs(
// CHECK-SAME: tileiras.pairs_of = "one"
// CHECK: llvm.func @chosen(
// CHECK-SAME: nvvm.minctasm = 7 : i32
// CHECK-NOT: nv_tileas
module {
  llvm.func @clustered(%map: !llvm.ptr {tileiras.hidden = "fill"}, %n: i32 {tileiras.type = "i32"}) attributes {nv_tileas.cluster_ctas = 4 : i32, nv_tileas.kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 4>, nv_tileas.min_ctas = 2 : i32, nv_tileas.shared_memory = 4096 : i32} {
    llvm.return
  }
  llvm.func @pairs() attributes {nv_tileas.block_warps = 8 : i32, nv_tileas.kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, nv_tileas.pairs_of = "one"} {
    llvm.return
  }
  llvm.func @chosen() attributes {nv_tileas.cluster_ctas = 2 : i32, nv_tileas.kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 2>, nv_tileas.min_ctas = 2 : i32, nvvm.cluster_dim = array<i32: 8>, nvvm.minctasm = 7 : i32} {
    llvm.return
  }
  llvm.func @helper(%x: i32) {
    llvm.return
  }
}

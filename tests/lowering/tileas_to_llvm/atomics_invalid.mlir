// RUN: not tileiras %s --gpu-name sm_89 --emit ptx -o %t 2>&1 | FileCheck %s
// RUN: tileiras %s --gpu-name sm_90 --emit ptx -o - | FileCheck %s --check-prefix=NATIVE

// An instruction that the target does not have is refused at the operation, not by ptxas.

// CHECK: atomics_invalid.mlir:[[@LINE+5]]:{{[0-9]+}}: error: atomic 'addf' of 'bf16' is not supported on sm_89
// NATIVE: atom.relaxed.gpu.global.add.noftz.bf16

cuda_tile.module @m {
  entry @k(%p: tile<ptr<bf16>>, %x: tile<bf16>) {
    %old, %t = atomic_rmw_tko relaxed device %p, addf, %x : tile<ptr<bf16>>, tile<bf16> -> tile<bf16>, token
    return
  }
}

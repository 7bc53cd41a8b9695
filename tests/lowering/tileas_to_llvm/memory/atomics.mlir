// RUN: tileiras %s --gpu-name sm_89 --emit ptx -o - | FileCheck %s --check-prefix=LOOP
// RUN: tileiras %s --gpu-name sm_90 --emit ptx -o - | FileCheck %s --check-prefix=NATIVE

// A result that nobody reads needs no atom, unless the order has no red.
// LOOP-LABEL: .entry reduction
// LOOP: red.release.gpu.global.add.u32
// LOOP: atom.acquire.cta.global.add.u32
// LOOP: atom.relaxed.sys.global.exch.b32

// What the target has no instruction for is a loop of exchanges, the first read as strong as the others.
// LOOP-LABEL: .entry sum
// LOOP: ld.relaxed.gpu.global.b16
// LOOP: atom.acq_rel.gpu.global.cas.b16
// LOOP: bra
// NATIVE-LABEL: .entry sum
// NATIVE-NOT: cas
// NATIVE: red.relaxed.gpu.global.add.noftz.bf16

cuda_tile.module @m {
  entry @reduction(%p: tile<ptr<i32>>, %x: tile<i32>) {
    %a, %t0 = atomic_rmw_tko release device %p, add, %x : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %b, %t1 = atomic_rmw_tko acquire tl_blk %p, add, %x token=%t0 : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %c, %t2 = atomic_rmw_tko relaxed sys %p, xchg, %x token=%t1 : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    return
  }
  entry @sum(%p: tile<ptr<bf16>>, %x: tile<bf16>) {
    %a, %t0 = atomic_rmw_tko acq_rel device %p, addf, %x : tile<ptr<bf16>>, tile<bf16> -> tile<bf16>, token
    %b, %t1 = atomic_rmw_tko relaxed device %p, addf, %x token=%t0 : tile<ptr<bf16>>, tile<bf16> -> tile<bf16>, token
    return
  }
}

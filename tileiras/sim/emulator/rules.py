"""Rules of the PTX ISA that public code breaks although the hardware, or the assembler, accepts it.

They are checked unless a launch waives them by name (`emulate(waive=...)`): code of this compiler has to satisfy them,
code of others has to run unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Rule(NamedTuple):
    """``isa``: the rule of the PTX ISA, with its section; ``practice``: code that breaks it, and the behavior when
    the rule is waived."""

    isa: str
    practice: str


RULES = {
    "wgmma-fence": Rule(
        "wgmma.fence has to stand between a thread's access of a register and a product with that register as "
        "accumulator or as part of A (PTX ISA, wgmma.fence)",
        "tileiras 13.5.37 for sm_90 moves zeros into accumulators, and converted values into A, between the fence and "
        "the product; ptxas orders them itself (its messages C7510 to C7519): a product takes the contents of its "
        "registers when it is issued",
    ),
    "mbarrier-inval": Rule(
        "mbarrier operations other than init on memory without a barrier are undefined, and so is init on memory with "
        "one (PTX ISA, mbarrier.init, mbarrier.inval)",
        "tileiras 13.5.37 has every thread invalidate a barrier before its first init: nothing happens there",
    ),
    "async-proxy": Rule(
        "data written by cp.async becomes visible to the asynchronous proxy by fence.proxy.async (PTX ISA, "
        "Asynchronous Operations: cp.async is of the generic proxy)",
        "tileiras 13.5.37 has no fence between cp.async with cp.async.mbarrier.arrive.noinc and the wgmma, the "
        "tcgen05.mma or the tcgen05.cp that reads it (gathered operands and scales): such data counts as visible once "
        "its arrival is seen",
    ),
    "async-overwrite": Rule(
        "a read or write of shared memory by threads through the generic proxy is before its overwriting by a "
        "bulk copy only by way of a fence.proxy.async (PTX ISA, Causality Order)",
        "kernels written with CUTLASS release a stage that they read with ldmatrix by an arrival alone, while "
        "tileiras 13.5.37 runs the fence: the arrival and its wait count as enough",
    ),
    "tensor-fences": Rule(
        "between a wait and later accesses of tensor memory there is tcgen05.fence::after_thread_sync, and before "
        "each operation that passes an order on, except commit, tcgen05.fence::before_thread_sync (PTX ISA, Canonical "
        "synchronization patterns of tcgen05)",
        "tileiras 13.5.37 and CUTLASS's tutorial leave them out around barriers and waits that acquire, by the ISA's "
        "own 'the standard memory consistency model synchronization mechanisms also apply': acquire and release are "
        "enough",
    ),
    "ended-block": Rule(
        "a block's shared memory may be accessed only while the block has not ended (PTX ISA, State Spaces: shared "
        "memory lives as long as its CTA)",
        "fast.cu (matmul_8 to matmul_12) has blocks of a cluster arrive at each other's barriers, and store results by "
        "bulk copies, without a meeting at the end: such an arrival has no waiter, and such a copy still completes",
    ),
    "redux-members": Rule(
        "the lane that executes redux.sync is in the member mask (PTX ISA, redux.sync)",
        "fast.cu (sum.cu, sumKernel4) has all lanes of a warp execute it with the mask 0xff: the reduction is over all "
        "lanes that execute it with the same mask",
    ),
    "tensor-pipeline": Rule(
        "products execute in the order of issue when they have the same accumulator and shape, and tcgen05.cp is not "
        "among the operations in order behind tcgen05.mma (PTX ISA, Pipelined tcgen05 Instructions)",
        "tileiras 13.5.37 has a product put its result over the A of one in flight (attention), and block-scaled "
        "kernels written with CUTLASS copy the next scales over those that one in flight reads: all mma, cp and shift "
        "of a thread take place in the order of issue",
    ),
    "tensor-columns": Rule(
        "a product of 128 rows has a multiple of 16 columns (PTX ISA, Kinds and shapes of tcgen05.mma)",
        "tileiras 13.5.37 has products of f16 with 128 rows and 8 columns where attention decodes eight heads: they "
        "count as defined",
    ),
    "tensor-load-wait": Rule(
        "between tcgen05.ld and a write of its source, or the end of its columns, there is tcgen05.wait::ld, a "
        "dependency by registers is not enough (PTX ISA, Register dependencies, same thread)",
        "tileiras 13.5.37 stores rescaled accumulators where it has loaded them from without it, and frees columns: a "
        "warp's loads are before its later stores and the end of the columns",
    ),
    "barrier-scope": Rule(
        "an arrival at, or a wait for, an mbarrier has the scope of its block when it names none, which takes in no "
        "other block (PTX ISA, mbarrier.arrive); such an arrival at a barrier of another block lets copies of that "
        "block overwrite memory of its own, and orders nothing else",
        "tileiras 13.5.37 arrives at the barriers of other blocks with fence.sc.cta and no scope, and they wait "
        "without a scope: operations on barriers have the scope of the cluster",
    ),
}


def waived(names: Iterable[str]) -> frozenset[str]:
    """Check names of rules. Raises ValueError for an unknown one."""
    result = frozenset(names)
    if unknown := sorted(result - RULES.keys()):
        raise ValueError(f"no rule '{unknown[0]}'; rules: {', '.join(sorted(RULES))}")
    return result

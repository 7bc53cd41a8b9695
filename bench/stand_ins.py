"""Kernels written to stand for those of publications, whose code is not at hand: they count for an order only.

Tensor cores of Hopper through `mma.sync` and through `wgmma`: Luo et al. (arXiv 2402.13499) reach 62.9 % of the peak on
average by the first and above 95 % by the second, on an H800 PCIe.  Here a block of 8 warps an SM multiplies f16 in a
loop, m16n8k16 into 16 accumulators a warp, or m64n256k16 by each of two warpgroups from shared memory.
"""

from __future__ import annotations

from typing import NamedTuple

ENTRY = "products"
ITERATIONS = 128
_WARPS = 8
_HEAD = """.version 8.0
.target {target}
.address_size 64
.visible .entry products(.param .u64 p)
.reqntid 256
{{
.reg .pred %q; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .f32 %f<{floats}>;
{shared}
ld.param.u64 %d0, [p];
{start}
mov.u32 %r0, 0;
"""
_TAIL = """add.u32 %r0, %r0, 1;
setp.lt.u32 %q, %r0, {iterations};
@%q bra LOOP;
{after}
st.global.f32 [%d0], %f0;
ret;
}}
"""


class StandIn(NamedTuple):
    """PTX of a loop over products, and the floating-point operations of one block."""

    name: str
    ptx: str
    flops: float
    published: float
    """The share of the peak that the publication has."""


def mma_sync() -> StandIn:
    count = 16
    accumulators = [tuple(f"%f{4 * n + i}" for i in range(4)) for n in range(count)]
    body = "".join(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        f"{{{', '.join(each)}}}, {{%r1, %r2, %r3, %r4}}, {{%r5, %r6}}, {{{', '.join(each)}}};\n"
        for each in accumulators
    )
    head = _HEAD.format(target="sm_80", floats=4 * count, shared="", start=_different(4 * count))
    operands = "".join(f"mov.u32 %r{n}, %tid.x;\n" for n in range(1, 7))
    keep = "".join(f"add.f32 %f0, %f0, %f{4 * n};\n" for n in range(1, count))
    text = head + operands + "LOOP:\n" + body + _TAIL.format(iterations=ITERATIONS, after=keep)
    return StandIn("mma.sync m16n8k16", text, _WARPS * ITERATIONS * count * 2 * 16 * 8 * 16, 0.629)


def wgmma() -> StandIn:
    count, columns = 4, 256
    floats = columns // 2
    registers = ", ".join(f"%f{n}" for n in range(floats))
    product = (
        f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16 {{{registers}}}, %d1, %d2, 1, 1, 1, 0, 0;\n"
    )
    body = "wgmma.fence.sync.aligned;\n" + product * count
    body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;\n"
    shared = ".shared .align 1024 .b8 operands[49152];"
    head = _HEAD.format(target="sm_90a", floats=floats, shared=shared, start=_different(floats))
    # K-major, swizzle 128: groups of 8 rows are 1024 bytes apart (PTX ISA, "Matrix descriptor").
    constant = 1 << 62 | 1024 >> 4 << 32 | 1 << 16
    operands = (
        f"mov.u64 %d3, operands; shr.u64 %d3, %d3, 4; and.b64 %d3, %d3, 16383; or.b64 %d1, %d3, {constant};\n"
        "add.u64 %d2, %d1, 1024;\n"
    )
    text = head + operands + "LOOP:\n" + body
    text += _TAIL.format(iterations=ITERATIONS, after="wgmma.wait_group.sync.aligned 0;")
    return StandIn(f"wgmma m64n{columns}k16", text, 2 * ITERATIONS * count * 2 * 64 * columns * 16, 0.95)


def _different(count: int) -> str:
    """Other numbers in each accumulator, or ptxas would compute equal ones once."""
    return "".join(f"mov.f32 %f{n}, {float(n)};\n" for n in range(count))


def shares(gpu_name: str = "H100 PCIe") -> list[tuple[StandIn, float]]:
    """Each stand-in with the share of the GPU's peak that its estimate reaches, one block an SM."""
    import numpy as np

    from tileiras.sim import estimate
    from tileiras.targets import rates

    gpu = rates.gpu(gpu_name)
    entry = []
    for each in (mma_sync(), wgmma()):
        result = estimate(each.ptx, ENTRY, gpu.sms, [np.zeros(4, np.float32)], gpu=gpu_name)
        entry.append((each, each.flops / result.cycles / gpu.tensor["f16"]))
    return entry


def report() -> list[str]:
    result = shares()
    lines = [f"  {each.name}: {share:.1%} of the peak, published {each.published:.1%}" for each, share in result]
    (_, slow), (_, fast) = result
    return ["stand-ins on Hopper, one loop a block:", *lines, f"  their order is {'right' if fast > slow else 'wrong'}"]


if __name__ == "__main__":
    print(*report(), sep="\n")

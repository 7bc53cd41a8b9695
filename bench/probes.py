"""Micro-kernels that isolate one constant of a GPU each: two launches whose times differ by work that depends on it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tileiras.targets.rates import Gpu

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "sim" / "estimate"))
from micro_kernels import STORE, copy_kernel, kernel, loop  # noqa: E402


class Launch(NamedTuple):
    """A launch of entry `k`."""

    ptx: str
    grid: int
    threads: int
    arguments: list[Any]

    def metadata(self) -> dict[str, Any]:
        """The launch description, which a driver needs."""
        parameters = [
            {"name": f"k_{number}", "type": "ptr<f32>", "offset": 8 * number, "size": 8}
            for number in range(len(self.arguments))
        ]
        row = {"name": "k", "parameters": parameters, "hidden_parameters": [], "block": [self.threads, 1, 1],
               "cluster": [1, 1, 1], "blocks_are_clusters": False, "shared_memory": 0,
               "tile_launch": False}  # fmt: skip
        return {"kernels": [row]}


class Probe(NamedTuple):
    """``launches(target, sms)`` are (short, long): the difference of their times depends on the constant at ``place``
    (of `rates.Gpu.sources`), and not on the overhead of launches and loops."""

    place: str
    launches: Callable[[str, int], tuple[Launch, Launch]]
    applies: Callable[[Gpu], bool] = lambda gpu: True


_TRIPS = 200


def _chain(step: str, before: str, after: str = STORE, shared: int = 0) -> Callable[[str, int], tuple[Launch, Launch]]:
    """One warp that executes a dependent step 32 and 64 times an iteration."""

    def launches(target: str, sms: int) -> tuple[Launch, Launch]:
        out = np.zeros(1 << 14, np.float32)
        short, long = (
            kernel(before + "\n" + loop("\n".join([step] * times), _TRIPS) + after, 32, target, shared)
            for times in (32, 64)
        )
        return Launch(short, 1, 32, [out]), Launch(long, 1, 32, [out])

    return launches


def _copies(target: str, sms: int) -> tuple[Launch, Launch]:
    """Copies of 32 and 64 MiB."""
    items = []
    for size in (1 << 25, 1 << 26):
        source, to = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
        items.append(Launch(copy_kernel(target), size // 16384, 256, [source, to]))
    return items[0], items[1]


def _loads_of_l2(target: str, sms: int) -> tuple[Launch, Launch]:
    """All SMs load 1 MiB, which is in L2 and exceeds L1, in pieces of 64 KiB: 64 and 128 of them."""
    loads = "\n".join(
        f"ld.global.cg.v4.u32 {{%r{10 + 4 * n}, %r{11 + 4 * n}, %r{12 + 4 * n}, %r{13 + 4 * n}}}, [%q1+{n * 16384}];"
        for n in range(4)
    )
    sums = "\n".join(f"xor.b32 %r9, %r9, %r{register};" for register in range(10, 26))
    piece = "and.b32 %r2, %r100, 15;\nmad.lo.u32 %r3, %r2, 4096, %r1;\nmad.wide.u32 %q1, %r3, 16, %a0;"
    items = []
    for trips in (64, 128):
        body = f"mov.u32 %r9, 0;\n{loop(chr(10).join((piece, loads, sums)), trips)}st.global.u32 [%q1], %r9;"
        items.append(Launch(kernel(body, 1024, target), sms, 1024, [np.zeros(1 << 18, np.float32)]))
    return items[0], items[1]


def _products(target: str, sms: int) -> tuple[Launch, Launch]:
    """Eight warps an SM with four independent sums each, m16n8k16 in f16."""
    dot = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{0}}}, {{%r40,%r41,%r42,%r43}}, {{%r44,%r45}}, {{{0}}};"
    sums = [",".join(f"%f{4 * number + at}" for at in range(4)) for number in range(4)]
    words = "\n".join(f"mov.u32 %r{register}, %r1;" for register in range(40, 46))
    zeros = "\n".join(f"mov.f32 %f{register}, 0f00000000;" for register in range(16))
    total = "\n".join(f"add.f32 %f0, %f0, %f{register};" for register in range(1, 16))
    items = []
    for times in (4, 8):
        body = loop("\n".join(dot.format(some) for _ in range(times) for some in sums), _TRIPS)
        text = kernel(f"{words}\n{zeros}\n{body}{total}\n{STORE}", 256, target)
        items.append(Launch(text, sms, 256, [np.zeros(1 << 14, np.float32)]))
    return items[0], items[1]


def _updates(target: str, sms: int) -> tuple[Launch, Launch]:
    """All threads update one address 16 and 32 times."""
    items = []
    for trips in (16, 32):
        step = "atom.global.max.u32 %r3, [%a0], %r4;\nadd.u32 %r4, %r4, %r3;"
        body = f"mov.u32 %r4, %r1;\n{loop(step, trips)}st.global.u32 [%a0+4096], %r4;"
        items.append(Launch(kernel(body, 256, target), sms, 256, [np.zeros(1 << 14, np.uint32)]))
    return items[0], items[1]


_ITSELF = "mov.u32 %r2, data;\nst.shared.u32 [data], %r2;\nbar.sync 0;\nmov.f32 %f0, 0f00000000;"

PROBES = (
    # Of fixed latency: what follows is in cycles of this clock.
    Probe("sustained_mhz", _chain("fma.rn.f32 %f0, %f0, %f1, %f1;", "cvt.rn.f32.u32 %f0, %r1;\nmov.f32 %f1, %f0;")),
    Probe("latency.shared", _chain("ld.volatile.shared.u32 %r2, [%r2];", _ITSELF, "cvt.rn.f32.u32 %f0, %r2;\n" + STORE,
                                   1024)),
    # Loads may hit L1; atomic operations are executed in L2.
    Probe("latency.l2", _chain("atom.global.max.u64 %q2, [%q2], %q3;",
                               "mad.wide.u32 %q2, %r1, 8, %a0;\nst.global.u64 [%q2], %q2;\nmov.u64 %q3, 0;",
                               "st.global.u64 [%q2+1024], %q2;")),
    Probe("mma_sync.f16", _products, lambda gpu: gpu.target.number >= 80),
    Probe("l2_bytes_per_cycle", _loads_of_l2),
    Probe("dram_reach", _copies),
    Probe("latency.update", _updates),
)  # fmt: skip

"""The steps of a hand-written matrix product on B200, as kernels of our own that stand for them: for their order only.

The publication (gau-nernst, learn-cuda, 02e_matmul_sm100: bf16, 4096 cubed, A and B K-major) has the throughput of each
step, and its sources the tiles, stages and warps of each.  Here one generator has the differences of the steps: a tile
whose copies and products follow each other; two stages; one warp that copies and one that multiplies; pairs of CTAs
whose products have both halves of B; CTAs that stay for several tiles, with two accumulators, so that four more warps
store one tile during the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from tileiras.sim import Memory

ENTRY = "gemm"
GPU = "B200"
SIZE = 4096
"""Rows, columns and depth of the published products."""
ROWS = 128
"""Of a CTA's tile."""
_SLICE = 64
"""Elements of K in a row of 128 bytes, which one swizzled box has."""
_DESCRIPTOR = 1024 >> 4 << 32 | 1 << 46 | 2 << 61
"""PTX ISA, "Shared memory descriptor": K-major, swizzle 128, groups of 8 rows 1,024 bytes apart."""


class Step(NamedTuple):
    """A step with its published throughput; tiles are `ROWS` x `columns` x `depth` a CTA, of a pair twice the rows."""

    name: str
    teraflops: float
    columns: int
    depth: int
    stages: int
    roles: bool = False
    pair: bool = False
    persistent: int = 0
    """CTAs of the launch, where each has several tiles."""
    set_a_rate: bool = False
    """The rate of the B200's L2 is derived from the step's throughput: it says nothing about the order."""

    @property
    def ctas(self) -> int:
        return 2 if self.pair else 1

    @property
    def b_rows(self) -> int:
        """Rows of B that a CTA loads."""
        return self.columns // self.ctas

    @property
    def a_bytes(self) -> int:
        return ROWS * self.depth * 2

    @property
    def stage_bytes(self) -> int:
        return self.a_bytes + self.b_rows * self.depth * 2

    @property
    def shared_bytes(self) -> int:
        """Stages, and the mbarriers behind them."""
        return self.stages * self.stage_bytes + 8 * (2 * self.stages + 4)

    @property
    def warps(self) -> int:
        return 6 if self.persistent else 4

    @property
    def accumulator_columns(self) -> int:
        """Of tensor memory."""
        return self.columns * (2 if self.persistent else 1)


STEPS = (
    Step("boxes swizzled by 128 bytes", 699.39, columns=256, depth=256, stages=1),
    Step("two stages", 914.42, columns=256, depth=128, stages=2),
    Step("warps with roles", 1053.61, columns=128, depth=64, stages=7, roles=True, set_a_rate=True),
    Step("pairs of CTAs", 1169.65, columns=256, depth=64, stages=7, roles=True, pair=True),
    Step("persistent", 1273.32, columns=256, depth=64, stages=7, roles=True, pair=True, persistent=148),
)


# ---- PTX -------------------------------------------------------------------------------------------------------------


def ptx(step: Step) -> str:
    """`gemm(map of A, map of B, D, columns of D, tiles along N, tiles, steps along K)`; maps are pointers."""
    full, empty, done, drained = (_barriers(step) + 8 * at for at in _barrier_places(step))
    counts = [(full, step.stages, 1), (empty, step.stages, 1), (done, 2, 1), (drained, 2, 4 * step.ctas)]
    barriers = "".join(
        f"mbarrier.init.shared.b64 [%base+{first + 8 * each}], {count};\n"
        for first, number, count in counts
        for each in range(number)
    )
    meet = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" if step.pair else "bar.sync 0;"
    group = f"cta_group::{step.ctas}"
    text = f"""
.version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry {ENTRY}(.param .u64 a, .param .u64 b, .param .u64 d, .param .u32 n, .param .u32 across,
    .param .u32 tiles, .param .u32 steps)
.reqntid {32 * step.warps}
{".reqnctapercluster 2" if step.pair else ""}
{{
.shared .align 4 .b8 where[4];
.reg .pred %more, %first, %elected, %waited, %p; .reg .b16 %mask;
.reg .b32 %base, %tmem, %rank, %thread, %warp, %n, %across, %tiles, %steps, %tile, %row, %column, %k, %stage, %parity;
.reg .b32 %slot, %use, %at, %bar, %r<8>, %c<8>; .reg .b64 %a, %b, %d, %da, %db, %out;
ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %d, [d]; ld.param.u32 %n, [n];
ld.param.u32 %across, [across]; ld.param.u32 %tiles, [tiles]; ld.param.u32 %steps, [steps];
mov.u32 %base, smem; mov.u32 %thread, %tid.x; shr.u32 %warp, %thread, 5; mov.u32 %rank, %cluster_ctarank;
mov.b16 %mask, 3;
setp.ne.u32 %p, %thread, 0; @%p bra READY;
{barriers}fence.mbarrier_init.release.cluster;
READY:
setp.ne.u32 %p, %warp, 1; @%p bra ALLOCATED;
tcgen05.alloc.{group}.sync.aligned.shared::cta.b32 [where], {step.accumulator_columns};
tcgen05.relinquish_alloc_permit.{group}.sync.aligned;
ALLOCATED:
bar.warp.sync -1;
tcgen05.fence::before_thread_sync;
{meet}
tcgen05.fence::after_thread_sync;
ld.shared.u32 %tmem, [where];
mov.u32 %stage, 0; mov.u32 %parity, 0; mov.u32 %k, 0; mov.u32 %slot, 0; mov.u32 %use, 0; mov.u32 %tile, %ctaid.x;
{_by_roles(step) if step.roles else _by_one(step)}
DONE:
bar.warp.sync -1;
tcgen05.fence::before_thread_sync;
{meet}
setp.ne.u32 %p, %warp, 1; @%p bra FREED;
tcgen05.fence::after_thread_sync;
tcgen05.dealloc.{group}.sync.aligned.b32 %tmem, {step.accumulator_columns};
FREED:
ret;
}}
"""
    return text.replace("; ", ";\n")  # a statement a line: machine code names lines


FULL, EMPTY, COMPLETE, DRAINED = range(4)
"""Mbarriers of stages (loaded, multiplied) and of accumulators (multiplied, stored)."""


def _barriers(step: Step) -> int:
    return step.stages * step.stage_bytes


def _barrier_places(step: Step) -> tuple[int, int, int, int]:
    """Of the first mbarrier of each kind, among all."""
    return 0, step.stages, 2 * step.stages, 2 * step.stages + 2


def _barrier(step: Step, kind: int, index: str) -> str:
    """Set %bar to the mbarrier of a kind that a register counts."""
    first = _barriers(step) + 8 * _barrier_places(step)[kind]
    return f"shl.b32 %bar, {index}, 3; add.u32 %bar, %bar, %base; add.u32 %bar, %bar, {first};"


def _wait(label: str, parity: str) -> str:
    """Wait at %bar."""
    return f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %waited, [%bar], {parity};\n@!%waited bra {label};"


def _place(step: Step) -> str:
    """%row and %column of %tile; pairs have neighbours along M."""
    if not step.pair:
        return f"div.u32 %row, %tile, %across; rem.u32 %column, %tile, %across; {_scaled(step)}"
    return (
        "shr.u32 %r0, %tile, 1; div.u32 %row, %r0, %across; rem.u32 %column, %r0, %across; shl.b32 %row, %row, 1;\n"
        f"and.b32 %r0, %tile, 1; or.b32 %row, %row, %r0; {_scaled(step)}"
    )


def _scaled(step: Step) -> str:
    return f"mul.lo.u32 %row, %row, {ROWS}; mul.lo.u32 %column, %column, {step.columns};"


def _copies(step: Step) -> str:
    """One thread fills %stage from %k on; of a pair the first CTA's mbarrier counts the bytes of both."""
    kind = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    kind += ".cta_group::2" if step.pair else ""
    lines = [
        f"mad.lo.u32 %at, %stage, {step.stage_bytes}, %base; mul.lo.u32 %r1, %k, {step.depth};",
        f"mad.lo.u32 %r2, %rank, {step.b_rows}, %column; {_barrier(step, FULL, '%stage')}",
        "setp.ne.u32 %p, %rank, 0; @%p bra EXPECTED;" if step.pair else "",
        f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {step.stage_bytes * step.ctas};",
        "EXPECTED: mapa.shared::cluster.u32 %bar, %bar, 0;" if step.pair else "",
    ]
    for part in range(step.depth // _SLICE):
        of_a, of_b = part * ROWS * 128, step.a_bytes + part * step.b_rows * 128
        lines += [
            f"add.u32 %r3, %r1, {part * _SLICE};",
            f"{kind} [%at+{of_a}], [%a, {{%r3, %row}}], [%bar];",
            f"{kind} [%at+{of_b}], [%b, {{%r3, %r2}}], [%bar];",
        ]
    return "\n".join(lines)


def _products(step: Step) -> str:
    """One thread multiplies the tiles in %stage; the first product of a tile adds to nothing."""
    kind = f"tcgen05.mma.cta_group::{step.ctas}.kind::f16"
    word = 1 << 4 | 1 << 7 | 1 << 10 | step.columns >> 3 << 17 | ROWS * step.ctas >> 4 << 24  # f32 of bf16
    lines = [
        f"mad.lo.u32 %at, %stage, {step.stage_bytes}, %base; and.b32 %at, %at, 262143; shr.u32 %at, %at, 4;",
        f"cvt.u64.u32 %da, %at; or.b64 %da, %da, {_DESCRIPTOR:#x}; add.u64 %db, %da, {step.a_bytes >> 4};",
        f"mov.b32 %r1, {word:#x}; mad.lo.u32 %r2, %slot, {step.columns}, %tmem; setp.ne.u32 %more, %k, 0;",
    ]
    for part in range(step.depth // _SLICE):
        for at in range(4):
            lines.append(f"{kind} [%r2], %da, %db, %r1, %more;")
            if part + at == 0:
                lines.append("setp.eq.u32 %more, %k, %k;")
            last = at == 3
            of_a, of_b = ((ROWS * 128 - 96) >> 4, (step.b_rows * 128 - 96) >> 4) if last else (2, 2)
            lines.append(f"add.u64 %da, %da, {of_a}; add.u64 %db, %db, {of_b};")
    return "\n".join(lines)


def _commit(step: Step, barrier: str) -> str:
    every, mask = (".multicast::cluster", ", %mask") if step.pair else ("", "")
    kind = f"tcgen05.commit.cta_group::{step.ctas}.mbarrier::arrive::one.shared::cluster{every}.b64"
    return f"{barrier}\n{kind} [%bar]{mask};"


def _epilogue(step: Step) -> str:
    """Four warps store the accumulator of %slot as bf16, eight columns at a time."""
    lines = [
        "tcgen05.fence::after_thread_sync;",
        "and.b32 %r0, %warp, 3; shl.b32 %r1, %r0, 21; add.u32 %r1, %r1, %tmem;",
        f"mad.lo.u32 %r1, %slot, {step.columns}, %r1;",
        "and.b32 %r2, %thread, 31; mad.lo.u32 %r2, %r0, 32, %r2; add.u32 %r2, %r2, %row;",
        "mad.lo.u32 %r2, %r2, %n, %column; mad.wide.u32 %out, %r2, 2, %d;",
    ]
    words = ", ".join(f"%c{each}" for each in range(8))
    for column in range(0, step.columns, 8):
        lines += [
            f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {{{words}}}, [%r1+{column}];",
            "tcgen05.wait::ld.sync.aligned;",
            *(f"cvt.rn.bf16x2.f32 %r{3 + each}, %c{2 * each + 1}, %c{2 * each};" for each in range(4)),
            f"st.global.v4.b32 [%out+{2 * column}], {{%r3, %r4, %r5, %r6}};",
        ]
    return "\n".join(lines)


def _next(step: Step) -> str:
    """The next stage, and %p: whether it is not the first."""
    return f"""add.u32 %stage, %stage, 1; setp.ne.u32 %p, %stage, {step.stages};
@!%p xor.b32 %parity, %parity, 1; @!%p mov.u32 %stage, 0;"""


def _by_one(step: Step) -> str:
    """A thread of the first warp starts copies and products, and waits for both; then four warps store."""
    ahead = step.stages - 1
    fill = _copies(step)
    before = f"""
FILL:
{fill}
add.u32 %stage, %stage, 1; add.u32 %k, %k, 1; setp.lt.u32 %p, %k, {ahead}; @%p bra FILL;
mov.u32 %stage, 0; mov.u32 %k, 0;
"""
    return f"""
{_place(step)}
setp.ne.u32 %p, %warp, 0; @%p bra STORE;
elect.sync %r0|%elected, -1; @!%elected bra STORE;
{before if ahead else ""}
EACH:
add.u32 %r4, %k, {ahead}; setp.ge.u32 %p, %r4, %steps; @%p bra COPIED;
mov.u32 %r5, %stage; mov.u32 %r6, %k;
rem.u32 %stage, %r4, {step.stages}; mov.u32 %k, %r4;
{fill}
mov.u32 %stage, %r5; mov.u32 %k, %r6;
COPIED:
{_barrier(step, FULL, "%stage")}
{_wait("LOADED", "%parity")}
tcgen05.fence::after_thread_sync;
{_products(step)}
{_commit(step, _barrier(step, COMPLETE, "%slot"))}
{_wait("COMPLETED", "%use")}
xor.b32 %use, %use, 1;
{_next(step)}
add.u32 %k, %k, 1; setp.lt.u32 %p, %k, %steps; @%p bra EACH;
tcgen05.fence::before_thread_sync;
STORE:
bar.sync 0;
{_epilogue(step)}
"""


def _by_roles(step: Step) -> str:
    """Warp 0 copies and warp 1 multiplies, a thread of each; the first four, or four more, store."""
    storing = 2 if step.persistent else 0
    again = "mov.u32 %r0, %nctaid.x; add.u32 %tile, %tile, %r0; setp.lt.u32 %p, %tile, %tiles;"
    return f"""
{f"setp.ge.u32 %p, %warp, {storing}; @%p bra STORE;" if storing else ""}
setp.eq.u32 %p, %warp, 1; @%p bra MULTIPLIER;
{"" if storing else "setp.ge.u32 %p, %warp, 2; @%p bra STORE;"}
elect.sync %r0|%elected, -1; @!%elected bra {"DONE" if storing else "STORE"};
xor.b32 %parity, %parity, 1;
COPIER:
{_place(step)}
mov.u32 %k, 0;
COPY:
{_barrier(step, EMPTY, "%stage")}
{_wait("EMPTIED", "%parity")}
{_copies(step)}
{_next(step)}
add.u32 %k, %k, 1; setp.lt.u32 %p, %k, %steps; @%p bra COPY;
{f"{again} @%p bra COPIER;" if storing else ""}
mov.u32 %k, 0;
DRAIN:
{_barrier(step, EMPTY, "%stage")}
{_wait("LAST", "%parity")}
{_next(step)}
add.u32 %k, %k, 1; setp.lt.u32 %p, %k, {step.stages}; @%p bra DRAIN;
{"bra DONE;" if storing else "mov.u32 %tile, %ctaid.x; bra STORE;"}
MULTIPLIER:
elect.sync %r0|%elected, -1; @!%elected bra {"DONE" if storing else "STORE"};
setp.ne.u32 %p, %rank, 0; @%p bra {"DONE" if storing else "STORE"};
mov.u32 %use, 1;
MULTIPLY:
{_barrier(step, DRAINED, "%slot") if storing else ""}
{_wait("FREE", "%use") if storing else ""}
mov.u32 %k, 0;
{"tcgen05.fence::after_thread_sync;" if storing else ""}
EACH:
{_barrier(step, FULL, "%stage")}
{_wait("LOADED", "%parity")}
tcgen05.fence::after_thread_sync;
{_products(step)}
{_commit(step, _barrier(step, EMPTY, "%stage"))}
{_next(step)}
add.u32 %k, %k, 1; setp.lt.u32 %p, %k, %steps; @%p bra EACH;
{_commit(step, _barrier(step, COMPLETE, "%slot"))}
{_next_slot() + again + " @%p bra MULTIPLY; bra DONE;" if storing else "mov.u32 %use, 0;"}
STORE:
{"" if storing else "bar.warp.sync -1; mov.u32 %use, 0;"}
STORE_TILE:
{_place(step)}
{_barrier(step, COMPLETE, "%slot")}
{_wait("COMPLETED", "%use")}
{_epilogue(step)}
{_hand_back(step) + _next_slot() + again + " @%p bra STORE_TILE;" if storing else ""}
"""


def _hand_back(step: Step) -> str:
    """A thread of each storing warp says, to the first CTA of a pair, that the accumulator is read."""
    arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%bar];"
    return f"""tcgen05.fence::before_thread_sync;
bar.warp.sync -1;
{_barrier(step, DRAINED, "%slot")}
mapa.shared::cluster.u32 %bar, %bar, 0;
elect.sync %r0|%elected, -1;
@%elected {arrive}
"""


def _next_slot() -> str:
    return "xor.b32 %slot, %slot, 1; setp.eq.u32 %p, %slot, 0; @%p xor.b32 %use, %use, 1;\n"


# ---- launches --------------------------------------------------------------------------------------------------------


class Launch(NamedTuple):
    """`result` is the last of the arrays; `memory` holds the operands."""

    grid: int
    args: list[Any]
    metadata: dict[str, Any]
    operands: tuple[np.ndarray, np.ndarray]
    result: np.ndarray
    memory: Memory


def launch(step: Step, rows: int, columns: int, depth: int, values: Sequence[np.ndarray] | None = None) -> Launch:
    """A launch over matrices of these sizes: of zeros, or A and B of bf16."""
    import ml_dtypes
    import numpy as np

    from tileiras.sim import Memory
    from tileiras.sim.emulator import tensor_map
    from tileiras.sim.emulator.tensor_map import TensorMap

    memory = Memory()
    a, b = values or (np.zeros((size, depth), ml_dtypes.bfloat16) for size in (rows, columns))
    maps = []
    for operand, box in ((a, ROWS), (b, step.b_rows)):
        address = memory.allocate(operand)
        value = TensorMap("bf16", address, operand.shape[::-1], operand.strides[:1], (_SLICE, box), 128)
        maps.append(np.frombuffer(tensor_map.encode(value), np.uint8).copy())
    result = np.zeros((rows, columns), ml_dtypes.bfloat16)
    across = columns // step.columns
    tiles = rows // ROWS * across
    args = [*maps, result, *map(np.uint32, (columns, across, tiles, depth // step.depth))]
    metadata = {"name": ENTRY, "shared_memory": step.shared_bytes}
    grid = min(step.persistent, tiles) if step.persistent else tiles
    return Launch(grid, args, metadata, (a, b), result, memory)


def estimated(step: Step) -> float:
    """TFLOP/s of a step by its estimate, at the published size."""
    from tileiras.sim import estimate

    value = launch(step, SIZE, SIZE, SIZE)
    result = estimate(ptx(step), ENTRY, value.grid, value.args, gpu=GPU, metadata={"kernels": [value.metadata]})
    return 2 * SIZE**3 / result.microseconds / 1e6


def wrong_pairs(rates: Sequence[float | None]) -> list[tuple[Step, Step]]:
    """Steps whose published throughputs differ by more than 10 %, the slower first, and whose estimates `rates` do not
    come out in that order."""
    judged = [(each, rate) for each, rate in zip(STEPS, rates) if rate is not None and not each.set_a_rate]
    return [
        (slow, fast)
        for (slow, low), (fast, high) in itertools.permutations(judged, 2)
        if fast.teraflops > 1.1 * slow.teraflops and high <= low
    ]


def report() -> list[str]:
    from tileiras.sim.errors import SimulationError

    rates: list[float | None] = []
    lines = [f"steps of a product on {GPU}, kernels that stand for them:"]
    for each in STEPS:
        try:
            rates.append(estimated(each))
            text = f"{rates[-1]:.0f} TFLOP/s"
        except SimulationError as problem:
            rates.append(None)
            text = f"no estimate: {problem}"
        lines.append(f"  {each.name}: {text}, published {each.teraflops:.0f}" + " (set a rate)" * each.set_a_rate)
    wrong = [f"{slow.name} before {fast.name}" for slow, fast in wrong_pairs(rates)]
    return [*lines, f"  their order is {'wrong: ' + ', '.join(wrong) if wrong else 'right'}"]


if __name__ == "__main__":
    print(*report(), sep="\n")

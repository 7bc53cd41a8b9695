"""A matrix multiplication for sm_100 as a GPU programmer writes it: one warp loads tiles by tensor maps into a ring of
stages, another multiplies them with tcgen05 into tensor memory, and four store the result."""

from __future__ import annotations

import numpy as np

from tileiras.sim import Memory
from tileiras.sim.emulator import tensor_map
from tileiras.sim.emulator.tensor_map import TensorMap

M, N, STEP, STEPS, STAGES = 128, 32, 16, 5, 2
A_BYTES = M * STEP * 2
COLUMNS = 32
#: K-major with rows of 32 bytes: a stride of 256 between groups of 8 rows, swizzle 32.
DESCRIPTOR = 16 >> 4 << 16 | 256 >> 4 << 32 | 1 << 46 | 6 << 61


def _wait(label: str, barrier: int, parity: str) -> str:
    return (
        f"shl.b32 %r9, %stage, 3; add.u32 %r9, %r9, %base;\n"
        f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r9+{barrier}], {parity};\n@!%p2 bra {label};\n"
    )


def _next(steps: int = STEPS) -> str:
    return f"""
add.u32 %stage, %stage, 1; setp.eq.u32 %p3, %stage, {STAGES}; @%p3 xor.b32 %phase, %phase, 1; @%p3 mov.u32 %stage, 0;
add.u32 %step, %step, 1; setp.lt.u32 %p3, %step, {steps};
"""


def matmul_ptx(blocks: int = 1) -> str:
    """D[128 * blocks, 32] f32 = A[., K] f16 times B[32, K] f16 transposed, by one block or by a pair.

    %0 and %1 are maps of A and B; each block loads its share of the rows; %2 is D.  The first block of a pair
    issues the products of both, and its barriers count the bytes that both load.  No block ends before the last stages
    are empty: the commits that say so arrive in its shared memory.
    """
    group, b_rows = f"cta_group::{blocks}", N // blocks
    stage = A_BYTES + 1024  # swizzled tiles begin at multiples of their pattern
    full, empty, done = (STAGES * stage + 8 * STAGES * each for each in range(3))
    setup = "\n".join(f"mbarrier.init.shared.b64 [%base+{each}], 1;" for each in range(full, done + 8, 8))
    if blocks == 1:
        meet, load, commit, mask, leader = "bar.sync 0;", "", "", "", ""
        target = "mov.u32 %r8, %r9;"
    else:
        meet = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"
        load, commit, mask = ".cta_group::2", ".multicast::cluster", ", %h1"
        leader = "setp.ne.u32 %p1, %rank, 0; @%p1 bra DONE;"
        target = "mapa.shared::cluster.u32 %r8, %r9, 0;"
    tile = f"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{load}"
    arrive = f"tcgen05.commit.{group}.mbarrier::arrive::one.shared::cluster{commit}.b64"
    instruction = 1 << 4 | N >> 3 << 17 | M * blocks >> 4 << 24  # f32 from f16, K-major, N and M
    return f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 k_0, .param .u64 k_1, .param .u64 k_2)
.reqntid 192
{{
.shared .align 1024 .b8 smem[{done + 8}]; .shared .align 4 .b8 where[4];
.reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<20>; .reg .b32 %stage, %phase, %step, %base, %rank, %d;
.reg .b64 %q<12>; .reg .b32 %c<{COLUMNS}>;
ld.param.u64 %q1, [k_0]; ld.param.u64 %q2, [k_1]; ld.param.u64 %q3, [k_2];
mov.u32 %base, smem; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; mov.u32 %rank, %cluster_ctarank; mov.b16 %h1, 3;
setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
{setup}
fence.mbarrier_init.release.cluster;
READY:
setp.ne.u32 %p1, %r2, 5; @%p1 bra ALLOCATED;
tcgen05.alloc.{group}.sync.aligned.shared::cta.b32 [where], {COLUMNS};
tcgen05.relinquish_alloc_permit.{group}.sync.aligned;
ALLOCATED:
bar.warp.sync -1;
tcgen05.fence::before_thread_sync;
{meet}
tcgen05.fence::after_thread_sync;
ld.shared.u32 %d, [where];
mov.u32 %stage, 0; mov.u32 %phase, 0; mov.u32 %step, 0;
setp.lt.u32 %p1, %r2, 4; @%p1 bra STORE;
setp.eq.u32 %p1, %r2, 5; @%p1 bra MULTIPLIER;
elect.sync %r3|%p1, -1; @!%p1 bra DONE;
xor.b32 %phase, %phase, 1;
mad.lo.u32 %r7, %rank, {M}, 0; mad.lo.u32 %r10, %rank, {b_rows}, 0;
LOAD:
{_wait("EMPTY", empty, "%phase")}
{"setp.ne.u32 %p4, %rank, 0; @%p4 bra COUNTED;" if blocks > 1 else ""}
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9+{full}], {blocks * (A_BYTES + b_rows * STEP * 2)};
COUNTED:
mad.lo.u32 %r5, %stage, {stage}, %base; shl.b32 %r6, %step, 4; {target} add.u32 %r8, %r8, {full};
{tile} [%r5], [%q1, {{%r6, %r7}}], [%r8];
{tile} [%r5+{A_BYTES}], [%q2, {{%r6, %r10}}], [%r8];
{_next()}
@%p3 bra LOAD;
mov.u32 %step, 0;
DRAIN:
{_wait("EMPTIED", empty, "%phase")}
{_next(STAGES)}
@%p3 bra DRAIN;
bra DONE;
MULTIPLIER:
elect.sync %r3|%p1, -1; @!%p1 bra DONE;
{leader}
setp.ne.u32 %p4, %r1, %r1;
MULTIPLY:
{_wait("LOADED", full, "%phase")}
tcgen05.fence::after_thread_sync;
mad.lo.u32 %r5, %stage, {stage}, %base; and.b32 %r5, %r5, 262143; shr.u32 %r5, %r5, 4; cvt.u64.u32 %q4, %r5;
or.b64 %q4, %q4, {DESCRIPTOR:#x}; add.u64 %q5, %q4, {A_BYTES >> 4}; mov.b32 %r6, {instruction:#x};
tcgen05.mma.{group}.kind::f16 [%d], %q4, %q5, %r6, %p4;
add.u32 %r5, %r9, {empty};
{arrive} [%r5]{mask};
setp.eq.u32 %p4, %r1, %r1;
{_next()}
@%p3 bra MULTIPLY;
add.u32 %r5, %base, {done};
{arrive} [%r5]{mask};
bra DONE;
STORE:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%base+{done}], 0;
@!%p2 bra STORE;
tcgen05.fence::after_thread_sync;
shl.b32 %r4, %r2, 21; add.u32 %r4, %r4, %d;
tcgen05.ld.sync.aligned.32x32b.x{COLUMNS}.b32 {{{", ".join(f"%c{each}" for each in range(COLUMNS))}}}, [%r4];
tcgen05.wait::ld.sync.aligned;
tcgen05.fence::before_thread_sync;
mad.lo.u32 %r5, %rank, {M}, %r1; mad.wide.u32 %q3, %r5, {N * 4}, %q3;
{" ".join(f"st.global.u32 [%q3+{4 * each}], %c{each};" for each in range(N))}
DONE:
bar.warp.sync -1;
{meet}
setp.ne.u32 %p1, %r2, 5; @%p1 bra FREED;
tcgen05.fence::after_thread_sync;
tcgen05.dealloc.{group}.sync.aligned.b32 %d, {COLUMNS};
FREED:
ret;
}}
"""


def arguments(blocks: int = 1, seed: int = 0) -> tuple[list, np.ndarray, Memory]:
    """(the entry's arguments, the product that the last of them is to hold, the memory of the operands)."""
    random = np.random.default_rng(seed)
    memory = Memory()
    maps, operands = [], []
    for rows, box in ((M * blocks, M), (N, N // blocks)):
        operand = random.integers(-3, 4, (rows, STEP * STEPS)).astype(np.float16)
        address = memory.allocate(operand)
        result = TensorMap("f16", address, operand.shape[::-1], operand.strides[:1], (STEP, box), 32)
        maps.append(np.frombuffer(tensor_map.encode(result), np.uint8).copy())
        operands.append(operand.astype(np.float32))
    return [*maps, np.zeros((M * blocks, N), np.float32)], operands[0] @ operands[1].T, memory

"""A matrix multiplication for sm_90 as a GPU programmer writes it: one warp loads tiles by tensor maps into a ring of
stages, a warpgroup multiplies them with wgmma, and a bulk copy stores the result."""

from __future__ import annotations

import numpy as np

from tileiras.sim import Memory
from tileiras.sim.emulator import tensor_map
from tileiras.sim.emulator.tensor_map import TensorMap

M, N, STEP, STEPS, STAGES = 64, 8, 16, 5, 2
A_BYTES, B_BYTES = M * STEP * 2, N * STEP * 2
STAGE = A_BYTES + 1024  # swizzled tiles begin at multiples of their pattern
OUT = STAGES * STAGE
FULL, EMPTY = OUT + M * N * 4, OUT + M * N * 4 + 8 * STAGES
#: K-major with rows of 32 bytes: a stride of 256 between groups of 8 rows, swizzle 32.
DESCRIPTOR = 1 << 16 | 256 >> 4 << 32 | 3 << 62


def _wait(label: str, barrier: int, parity: str) -> str:
    return (
        f"shl.b32 %r9, %stage, 3; add.u32 %r9, %r9, %base;\n"
        f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r9+{barrier}], {parity};\n@!%p2 bra {label};\n"
    )


_NEXT = f"""
add.u32 %stage, %stage, 1; setp.eq.u32 %p3, %stage, {STAGES}; @%p3 xor.b32 %phase, %phase, 1; @%p3 mov.u32 %stage, 0;
add.u32 %step, %step, 1; setp.lt.u32 %p3, %step, {STEPS};
"""


_LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"


def matmul_ptx() -> str:
    """D[64, 8] f32 = A[64, K] f16 times B[8, K] f16 transposed; %0 and %1 are maps of A and B, %2 is D."""
    setup = "\n".join(
        f"mbarrier.init.shared.b64 [%base+{barrier + 8 * stage}], {count};"
        for stage in range(STAGES)
        for barrier, count in ((FULL, 1), (EMPTY, 4))
    )
    return f"""
.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 k_0, .param .u64 k_1, .param .u64 k_2)
.reqntid 256
{{
.shared .align 1024 .b8 smem[{EMPTY + 8 * STAGES}];
.reg .pred %p<8>; .reg .b32 %r<20>; .reg .b32 %stage, %phase, %step, %base; .reg .b64 %q<12>; .reg .f32 %c<4>;
ld.param.u64 %q1, [k_0]; ld.param.u64 %q2, [k_1]; ld.param.u64 %q3, [k_2];
mov.u32 %base, smem; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
{setup}
fence.mbarrier_init.release.cluster;
READY:
bar.sync 0;
mov.u32 %stage, 0; mov.u32 %phase, 0; mov.u32 %step, 0;
setp.lt.u32 %p1, %r2, 4; @%p1 bra WORKERS;
setmaxnreg.dec.sync.aligned.u32 32;
setp.ne.u32 %p1, %r2, 4; @%p1 bra DONE;
elect.sync %r3|%p1, -1; @!%p1 bra DONE;
xor.b32 %phase, %phase, 1;
LOAD:
{_wait("EMPTY", EMPTY, "%phase")}
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9+{FULL}], {A_BYTES + B_BYTES};
mad.lo.u32 %r5, %stage, {STAGE}, %base; shl.b32 %r6, %step, 4; mov.u32 %r7, 0; add.u32 %r8, %r9, {FULL};
{_LOAD} [%r5], [%q1, {{%r6, %r7}}], [%r8];
{_LOAD} [%r5+{A_BYTES}], [%q2, {{%r6, %r7}}], [%r8];
{_NEXT}
@%p3 bra LOAD;
bra DONE;
WORKERS:
setmaxnreg.inc.sync.aligned.u32 224;
mov.f32 %c0, 0f00000000; mov.f32 %c1, %c0; mov.f32 %c2, %c0; mov.f32 %c3, %c0; setp.eq.u32 %p4, %r1, %r1;
MULTIPLY:
{_wait("LOADED", FULL, "%phase")}
mad.lo.u32 %r5, %stage, {STAGE}, %base; and.b32 %r5, %r5, 262143; shr.u32 %r5, %r5, 4; cvt.u64.u32 %q4, %r5;
or.b64 %q4, %q4, {DESCRIPTOR}; add.u64 %q5, %q4, {A_BYTES >> 4};
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%c0, %c1, %c2, %c3}}, %q4, %q5, %p4, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
elect.sync %r3|%p1, -1;
@%p1 mbarrier.arrive.shared::cta.b64 _, [%r9+{EMPTY}];
{_NEXT}
@%p3 bra MULTIPLY;
and.b32 %r4, %r1, 31; shr.u32 %r5, %r4, 2; mad.lo.u32 %r5, %r2, 16, %r5; shl.b32 %r5, %r5, 5;
and.b32 %r6, %r4, 3; shl.b32 %r6, %r6, 3; add.u32 %r5, %r5, %r6; add.u32 %r5, %r5, %base;
st.shared.v2.f32 [%r5+{OUT}], {{%c0, %c1}};
st.shared.v2.f32 [%r5+{OUT + 8 * 32}], {{%c2, %c3}};
fence.proxy.async.shared::cta;
bar.sync 1, 128;
setp.ne.u32 %p1, %r1, 0; @%p1 bra DONE;
add.u32 %r5, %base, {OUT};
cp.async.bulk.global.shared::cta.bulk_group [%q3], [%r5], {M * N * 4};
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
DONE:
ret;
}}
"""


def arguments(seed: int = 0) -> tuple[list, np.ndarray, Memory]:
    """(the entry's arguments, the product that the last of them is to hold, the memory of the operands)."""
    random = np.random.default_rng(seed)
    memory = Memory()
    maps, operands = [], []
    for rows in (M, N):
        operand = random.integers(-3, 4, (rows, STEP * STEPS)).astype(np.float16)
        address = memory.allocate(operand)
        result = TensorMap("f16", address, operand.shape[::-1], operand.strides[:1], (STEP, rows), 32)
        maps.append(np.frombuffer(tensor_map.encode(result), np.uint8).copy())
        operands.append(operand.astype(np.float32))
    return [*maps, np.zeros((M, N), np.float32)], operands[0] @ operands[1].T, memory

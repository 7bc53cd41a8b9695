"""A matrix multiplication as a GPU programmer writes it: cp.async double buffering, ldmatrix, mma.sync, in PTX."""

from __future__ import annotations

TILE, STEP, ROW = 64, 32, 80  # output tile, K per stage, bytes of a padded row of 32 halves in shared memory
STAGE = 2 * TILE * ROW


def matmul_ptx(k: int, n: int) -> str:
    """C[m, n] f32 = A[m, k] f16 times B[n, k] f16 transposed; one block of 4 warps per 64x64 tile of C."""
    lines: list[str] = []
    emit = lines.append
    steps = k // STEP

    def copy_stage() -> None:
        """Two 16-byte pieces of A and of B per thread into the stage at %stage, at column %kcol."""
        for matrix, pointer in ((0, "%pa"), (1, "%pb")):
            for half in (0, 1):
                emit(f"add.s32 %t1, %stage, {matrix * TILE * ROW + half * 32 * ROW};")
                emit("add.s32 %t1, %t1, %dst;")
                emit(f"cp.async.cg.shared.global [%t1], [{pointer}+{half * 32 * k * 2}], 16;")
            emit(f"add.s64 {pointer}, {pointer}, {STEP * 2};")
        emit("cp.async.commit_group;")

    emit("ld.param.u64 %pa, [k_0]; ld.param.u64 %pb, [k_1]; ld.param.u64 %pc, [k_2];")
    emit("mov.u32 %thread, %tid.x; mov.u32 %bx, %ctaid.x; mov.u32 %by, %ctaid.y;")
    emit("shr.u32 %t1, %thread, 2; and.b32 %t2, %thread, 3;")  # row of the piece, piece in the row
    emit(f"mul.lo.u32 %dst, %t1, {ROW}; mad.lo.u32 %dst, %t2, 16, %dst; mov.u32 %base, smem;")
    for pointer, block in (("%pa", "%by"), ("%pb", "%bx")):
        emit(f"mad.lo.u32 %t3, {block}, {TILE}, %t1; mul.wide.u32 %w1, %t3, {k * 2};")
        emit(f"mul.wide.u32 %w2, %t2, 16; add.s64 %w1, %w1, %w2; add.s64 {pointer}, {pointer}, %w1;")
    for i in range(32):
        emit(f"mov.f32 %c{i}, 0f00000000;")
    emit("and.b32 %lane, %thread, 31; shr.u32 %warp, %thread, 5; and.b32 %wm, %warp, 1; shr.u32 %wn, %warp, 1;")
    # Row and 16-byte column of the ldmatrix addresses: A takes (row, k), B two n8 tiles at once.
    emit("and.b32 %t1, %lane, 15; shr.u32 %t2, %lane, 4; mad.lo.u32 %t1, %wm, 32, %t1;")
    emit(f"mul.lo.u32 %arow, %t1, {ROW}; mad.lo.u32 %arow, %t2, 16, %arow;")
    emit("and.b32 %t1, %lane, 7; shr.u32 %t2, %lane, 4; mad.lo.u32 %t1, %t2, 8, %t1; mad.lo.u32 %t1, %wn, 32, %t1;")
    emit(f"shr.u32 %t2, %lane, 3; and.b32 %t2, %t2, 1; mul.lo.u32 %brow, %t1, {ROW}; mad.lo.u32 %brow, %t2, 16, %brow;")
    emit("mov.u32 %stage, %base;")
    copy_stage()
    emit("mov.u32 %i, 0; mov.u32 %reading, %base;")
    emit("LOOP:")
    emit(f"add.u32 %t4, %i, 1; setp.ge.u32 %last, %t4, {steps};")
    emit(f"add.s32 %stage, %base, {STAGE}; sub.s32 %stage, %stage, %reading; add.s32 %stage, %stage, %base;")
    emit("@%last bra DRAIN;")
    copy_stage()
    emit("cp.async.wait_group 1; bra READY;")
    emit("DRAIN: cp.async.wait_group 0;")
    emit("READY: bar.sync 0;")
    emit("add.s32 %aptr, %reading, %arow; add.s32 %bptr, %reading, %brow;")
    for kk in range(0, STEP, 16):
        for m in (0, 1):
            regs = ", ".join(f"%a{m}{r}" for r in range(4))
            emit(f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{regs}}}, [%aptr+{m * 16 * ROW + kk * 2}];")
        for nn in (0, 1):
            regs = ", ".join(f"%b{nn}{r}" for r in range(4))
            offset = TILE * ROW + nn * 16 * ROW + kk * 2
            emit(f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{regs}}}, [%bptr+{offset}];")
        for m in (0, 1):
            for nn in range(4):
                c = ", ".join(f"%c{(m * 4 + nn) * 4 + i}" for i in range(4))
                a = ", ".join(f"%a{m}{r}" for r in range(4))
                b = f"%b{nn // 2}{nn % 2 * 2}, %b{nn // 2}{nn % 2 * 2 + 1}"
                emit(f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{c}}}, {{{a}}}, {{{b}}}, {{{c}}};")
    emit("mov.u32 %reading, %stage; mov.u32 %i, %t4; bar.sync 1;")
    emit("@!%last bra LOOP;")
    # Lane l holds C at rows l/4 and l/4 + 8, columns 2 (l%4) and the next.
    emit(f"shr.u32 %t1, %lane, 2; mad.lo.u32 %t1, %wm, 32, %t1; mad.lo.u32 %t1, %by, {TILE}, %t1;")
    emit(f"and.b32 %t2, %lane, 3; shl.b32 %t2, %t2, 1; mad.lo.u32 %t2, %wn, 32, %t2; mad.lo.u32 %t2, %bx, {TILE}, %t2;")
    emit(f"mad.lo.u32 %t1, %t1, {n}, %t2; mul.wide.u32 %w1, %t1, 4; add.s64 %pc, %pc, %w1;")
    for m in (0, 1):
        for nn in range(4):
            for h in (0, 1):
                c = (m * 4 + nn) * 4 + h * 2
                emit(f"st.global.v2.f32 [%pc+{((m * 16 + h * 8) * n + nn * 8) * 4}], {{%c{c}, %c{c + 1}}};")
    emit("ret;")
    floats = ", ".join(f"%c{i}" for i in range(32))
    words = [f"%{x}{i}{r}" for x in "ab" for i in (0, 1) for r in range(4)]
    words += [
        "%t1",
        "%t2",
        "%t3",
        "%t4",
        "%thread",
        "%bx",
        "%by",
        "%dst",
        "%base",
        "%lane",
        "%warp",
        "%wm",
        "%wn",
        "%arow",
    ]
    words += ["%brow", "%stage", "%i", "%reading", "%aptr", "%bptr"]
    return (
        ".version 7.8\n.target sm_80\n.address_size 64\n"
        ".visible .entry k(.param .u64 k_0, .param .u64 k_1, .param .u64 k_2)\n.reqntid 128\n{\n"
        f".shared .align 16 .b8 smem[{2 * STAGE}];\n.reg .f32 {floats};\n.reg .b32 {', '.join(words)};\n"
        ".reg .b64 %pa, %pb, %pc, %w1, %w2;\n.reg .pred %last;\n" + "\n".join(lines) + "\n}\n"
    )

"""Divergence, loops, calls, barriers, deadlocks, traps and printing."""

import re

import numpy as np
import pytest

from tileiras.sim import EmulationError, emulate

COLLATZ = """
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 96, %r1; mad.wide.u32 %q1, %r1, 4, %a0;
    add.u32 %r3, %r1, 1; mov.u32 %r4, 0;
    LOOP: setp.eq.u32 %p1, %r3, 1; @%p1 bra DONE;
    add.u32 %r4, %r4, 1; and.b32 %r5, %r3, 1; setp.ne.u32 %p2, %r5, 0; @%p2 bra ODD;
    shr.u32 %r3, %r3, 1; bra LOOP;
    ODD: mad.lo.u32 %r3, %r3, 3, 1; bra LOOP;
    DONE: st.global.u32 [%q1], %r4;
"""


def collatz(n: int) -> int:
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@pytest.mark.parametrize("seed", [None, 0, 7])
def test_lanes_that_loop_for_different_times(kernel, seed):
    out = np.zeros(3 * 96, np.uint32)
    emulate(kernel(COLLATZ, threads=96), "k", 3, [out], seed=seed)
    assert out.tolist() == [collatz(n) for n in range(1, 3 * 96 + 1)]


@pytest.mark.parametrize("seed", range(8))
def test_others_go_on_while_a_warp_sleeps(kernel, seed):
    body = """
        mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; mov.u32 %r2, 2;
        @%p1 nanosleep.u32 100; @%p1 mov.u32 %r2, 1; st.global.u32 [%a0], %r2;
    """
    out = np.zeros(1, np.uint32)
    emulate(kernel(body, threads=64), "k", 1, [out], seed=seed, check_races=False)
    assert out[0] == 1


def test_guards(kernel):
    body = """
        mov.u32 %r1, %tid.x; mad.wide.u32 %q1, %r1, 4, %a0; setp.lt.u32 %p1, %r1, 10;
        mov.u32 %r2, 1; @%p1 mov.u32 %r2, 2; @!%p1 add.u32 %r2, %r2, 5;
        st.global.u32 [%q1], %r2; @%p1 exit; st.global.u32 [%q1+256], %r1;
    """
    out = np.zeros((2, 64), np.uint32)
    emulate(kernel(body, threads=64), "k", 1, [out])
    thread = np.arange(64)
    assert (out[0] == np.where(thread < 10, 2, 6)).all() and (out[1] == np.where(thread < 10, 0, thread)).all()


def test_branch_table(kernel):
    body = """
        mov.u32 %r1, %tid.x; mad.wide.u32 %q1, %r1, 4, %a0; rem.u32 %r2, %r1, 3;
        TABLE: .branchtargets L0, L1, L2;
        brx.idx %r2, TABLE;
        L0: mov.u32 %r3, 100; bra DONE;
        L1: mov.u32 %r3, 200; bra DONE;
        L2: mov.u32 %r3, 300;
        DONE: st.global.u32 [%q1], %r3;
    """
    out = np.zeros(32, np.uint32)
    emulate(kernel(body), "k", 1, [out])
    assert (out == np.array([100, 200, 300])[np.arange(32) % 3]).all()


SPIN_LOCK = """
    mov.u32 %r1, %laneid;
    TRY: atom.acquire.gpu.global.cas.b32 %r2, [%a0], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra TRY;
    ld.volatile.global.u32 %r3, [%a0+4]; add.u32 %r3, %r3, 1; st.volatile.global.u32 [%a0+4], %r3;
    atom.release.gpu.global.exch.b32 %r4, [%a0], 0;
"""


@pytest.mark.parametrize("seed", [None, 0])
def test_a_lane_that_holds_a_lock_makes_progress(kernel, seed):
    data = np.zeros(2, np.uint32)
    emulate(kernel(SPIN_LOCK, threads=16), "k", 3, [data], seed=seed, step_limit=10**7)
    assert data.tolist() == [0, 48]


CALLS = """
define internal i32 @triangle(i32 %n) noinline {
entry:
  br label %loop
loop:
  %i = phi i32 [0, %entry], [%next, %loop]
  %s = phi i32 [0, %entry], [%sum, %loop]
  %sum = add i32 %s, %i
  %m = mul i32 %sum, 3
  %odd = xor i32 %m, %i
  %next = add i32 %i, 1
  %more = icmp ult i32 %i, %n
  br i1 %more, label %loop, label %end
end:
  %r = add i32 %sum, %odd
  ret i32 %r
}
define internal <4 x float> @scale(<4 x float> %v, float %f) noinline {
  %a = insertelement <4 x float> undef, float %f, i32 0
  %b = shufflevector <4 x float> %a, <4 x float> undef, <4 x i32> zeroinitializer
  %r = fmul <4 x float> %v, %b
  ret <4 x float> %r
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define ptx_kernel void @k(ptr addrspace(1) %out, ptr addrspace(1) %vectors) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %a = call i32 @triangle(i32 %t)
  %two = shl i32 %t, 1
  %b = call i32 @triangle(i32 %two)
  %s = sub i32 %b, %a
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %s, ptr addrspace(1) %p
  %vp = getelementptr <4 x float>, ptr addrspace(1) %vectors, i32 %t
  %v = load <4 x float>, ptr addrspace(1) %vp, align 16
  %f = uitofp i32 %t to float
  %w = call <4 x float> @scale(<4 x float> %v, float %f)
  store <4 x float> %w, ptr addrspace(1) %vp, align 16
  ret void
}
"""


def test_functions_are_called(compile_ir):
    def triangle(n: int) -> int:
        total = sum(range(n + 1))
        return total + (total * 3 ^ n)

    out, vectors = np.zeros(40, np.int32), np.random.default_rng(0).random((40, 4), np.float32)
    expected = vectors * np.arange(40, dtype=np.float32)[:, None]
    emulate(compile_ir(CALLS), "k", 1, [out, vectors], block=40)
    assert out.tolist() == [triangle(2 * t) - triangle(t) for t in range(40)]
    assert (vectors == expected).all()


def test_recursion_is_refused(assemble):
    ptx = """.version 8.6\n.target sm_90\n.address_size 64
.func f() { call.uni f, (); ret; }
.visible .entry k() { call.uni f, (); ret; }"""
    with pytest.raises(EmulationError, match="recursive call of f"):
        emulate(ptx, "k", 1, [], block=1)


PRINTING = r"""
@format = internal addrspace(4) constant [29 x i8] c"%d %5.2f|%-4u|%llx %s %c %%\0A\00"
@word = internal addrspace(4) constant [4 x i8] c"abc\00"
declare i32 @vprintf(ptr, ptr)
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define ptx_kernel void @k() {
  %buffer = alloca {i32, double, i32, i64, ptr, i32}
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %n = sub i32 0, %t
  store i32 %n, ptr %buffer
  %p1 = getelementptr i8, ptr %buffer, i64 8
  %f = uitofp i32 %t to double
  %h = fmul double %f, 1.5
  store double %h, ptr %p1
  %p2 = getelementptr i8, ptr %buffer, i64 16
  store i32 %t, ptr %p2
  %p3 = getelementptr i8, ptr %buffer, i64 24
  store i64 1311768467294899695, ptr %p3
  %p4 = getelementptr i8, ptr %buffer, i64 32
  %w = addrspacecast ptr addrspace(4) @word to ptr
  store ptr %w, ptr %p4
  %p5 = getelementptr i8, ptr %buffer, i64 40
  store i32 65, ptr %p5
  %fmt = addrspacecast ptr addrspace(4) @format to ptr
  call i32 @vprintf(ptr %fmt, ptr %buffer)
  ret void
}
"""


def test_printing(compile_ir):
    result = emulate(compile_ir(PRINTING), "k", 1, [], block=2)
    assert result.output == "0  0.00|0   |1234567890abcdef abc A %\n-1  1.50|1   |1234567890abcdef abc A %\n"


def test_trap_and_device_assertions(kernel, compile_ir):
    body = "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 9; @%p1 trap;"
    with pytest.raises(EmulationError, match="trap") as info:
        emulate(kernel(body), "k", 1, [np.zeros(1)])
    assert info.value.thread == (9, 0, 0) and "trap" in info.value.text
    ir = r"""
@m = internal addrspace(4) constant [6 x i8] c"x > 0\00"
@f = internal addrspace(4) constant [5 x i8] c"a.py\00"
declare void @__assertfail(ptr, ptr, i32, ptr, i64)
define ptx_kernel void @k() {
  %m = addrspacecast ptr addrspace(4) @m to ptr
  %f = addrspacecast ptr addrspace(4) @f to ptr
  call void @__assertfail(ptr %m, ptr %f, i32 12, ptr %f, i64 1)
  ret void
}"""
    with pytest.raises(EmulationError, match=re.escape("a.py:12: assertion failed: x > 0")):
        emulate(compile_ir(ir), "k", 1, [], block=1)


REVERSE = """
    .shared .align 4 .b8 tile[512];
    mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 4, %r2; mad.wide.u32 %q1, %r1, 4, %a0;
    ld.global.u32 %r4, [%q1]; st.shared.u32 [%r3], %r4;
    bar.sync 0;
    sub.u32 %r5, 127, %r1; mad.lo.u32 %r6, %r5, 4, %r2; ld.shared.u32 %r7, [%r6]; st.global.u32 [%q1], %r7;
"""


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_barrier(kernel, seed):
    data = np.arange(128, dtype=np.uint32)
    emulate(kernel(REVERSE, threads=128), "k", 1, [data], seed=seed)
    assert (data == np.arange(128)[::-1]).all()


def test_a_missing_barrier_is_found(kernel):
    ptx = kernel(REVERSE.replace("bar.sync 0;", ""), threads=128)
    for seed in range(4):
        with pytest.raises(EmulationError, match="read before it is written"):
            emulate(ptx, "k", 1, [np.arange(128, dtype=np.uint32)], seed=seed)


def test_named_barriers_with_counts_hand_data_over(kernel):
    """Warps 0 and 1 produce (bar.arrive), warps 2 and 3 consume (bar.sync) on a barrier of 64 threads each."""
    body = """
        .shared .align 4 .b8 tile[256];
        mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 63; mov.u32 %r3, tile; mad.lo.u32 %r3, %r2, 4, %r3;
        shr.u32 %r4, %r2, 5; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r1, 64; @%p1 bra PRODUCE;
        bar.sync %r4, 64; ld.shared.u32 %r5, [%r3]; mad.wide.u32 %q1, %r2, 4, %a0; st.global.u32 [%q1], %r5; bra DONE;
        PRODUCE: mul.lo.u32 %r5, %r2, 7; st.shared.u32 [%r3], %r5; bar.arrive %r4, 64;
        DONE:
    """
    ptx = kernel(body, threads=128)
    for seed in range(4):
        out = np.zeros(64, np.uint32)
        emulate(ptx, "k", 1, [out], seed=seed)
        assert (out == np.arange(64) * 7).all()


def test_all_warps_have_to_be_at_one_aligned_barrier(kernel):
    """PTX ISA, barrier: a warp at another `bar.sync` of the same number is undefined; `barrier.sync` allows it."""
    body = """
        mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra ELSE;
        {sync} bra END;
        ELSE: {sync}
        END:
    """
    for seed in (None, 0):
        with pytest.raises(EmulationError, match="some warps are at this barrier, others at that of line"):
            emulate(kernel(body.format(sync="bar.sync 0;"), (), threads=64), "k", 1, [], seed=seed)
        emulate(kernel(body.format(sync="barrier.sync 0;"), (), threads=64), "k", 1, [], seed=seed)
        # Named and counted: how groups of warps hand things over.
        emulate(kernel(body.format(sync="bar.sync 1, 64;"), (), threads=64), "k", 1, [], seed=seed)


def test_barrier_reductions(kernel):
    body = """
        mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; setp.le.u32 %p1, %r1, 40; setp.eq.u32 %p2, %r1, %r2;
        setp.ge.u32 %p3, %r1, 0;
        bar.red.popc.u32 %r3, 0, %p1; bar.red.or.pred %p4, 0, %p2; bar.red.and.pred %p5, 0, %p3;
        bar.red.and.pred %p6, 0, %p1;
        selp.u32 %r4, 1000, 0, %p4; selp.u32 %r5, 2000, 0, %p5; selp.u32 %r6, 4000, 0, %p6;
        add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5; add.u32 %r3, %r3, %r6;
        mad.lo.u32 %r7, %r2, 96, %r1; mad.wide.u32 %q1, %r7, 4, %a0; st.global.u32 [%q1], %r3;
    """
    for seed in (None, 0, 3):
        out = np.zeros((100, 96), np.uint32)
        emulate(kernel(body, threads=96), "k", 100, [out], seed=seed)
        assert (out == np.where(np.arange(100) < 96, 3041, 2041)[:, None]).all()


def test_a_deadlock_lists_the_waiting_warps(kernel):
    body = (
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra OTHER; bar.sync 1; bra DONE; OTHER: bar.sync 2; DONE:"
    )
    ptx = kernel(body, threads=64)
    with pytest.raises(EmulationError) as info:
        emulate(ptx, "k", 1, [np.zeros(1)])
    message = str(info.value)
    line = 1 + next(i for i, text in enumerate(ptx.splitlines()) if "OTHER: bar.sync 2" in text)
    assert "deadlock" in message and f"warp 0 waiting at line {line}: bar.sync 2; (barrier 2)" in message
    assert f"warp 1 waiting at line {line}: bar.sync 1; (barrier 1)" in message


def test_exited_threads_do_not_hold_a_barrier(kernel):
    body = """
        mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 40; @%p1 exit;
        bar.sync 0; mad.wide.u32 %q1, %r1, 4, %a0; st.global.u32 [%q1], 1;
    """
    for seed in (None, 0):
        out = np.zeros(128, np.uint32)
        emulate(kernel(body, threads=128), "k", 1, [out], seed=seed)
        assert out.sum() == 40


def test_guarded_barrier_and_call(kernel):
    body = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 64; @%p1 bar.sync 1, 64; st.global.u32 [%a0], 5;"
    out = np.zeros(1, np.uint32)
    emulate(kernel(body, threads=96), "k", 1, [out])
    assert out[0] == 5


def test_inline_assembly_scopes(kernel):
    body = """
        mov.u32 %r1, 3;
        { .reg .pred q; .reg .b32 x; mov.u32 x, 0; W: add.u32 x, x, 1; setp.lt.u32 q, x, %r1; @q bra W;
          mov.u32 %r2, x; }
        { .reg .pred q; .reg .b64 x; mov.u64 x, 5; W: add.u64 x, x, 2; setp.lt.u64 q, x, 10; @q bra W;
          mov.b64 {%r3, _}, x; }
        st.global.v2.u32 [%a0], {%r2, %r3};
    """
    out = np.zeros(2, np.uint32)
    emulate(kernel(body, threads=1), "k", 1, [out])
    assert out.tolist() == [3, 11]


def test_guarded_calls_and_exchanges(assemble):
    ptx = """.version 8.6\n.target sm_90\n.address_size 64
.func (.param .b32 out) twice(.param .b32 in) {
  .reg .b32 %r<4>; ld.param.b32 %r1, [in]; add.u32 %r2, %r1, %r1; st.param.b32 [out], %r2; ret;
}
.visible .entry k(.param .u64 k_0) .reqntid 64 {
  .reg .b32 %r<20>; .reg .b64 %q<4>; .reg .pred %p<4>;
  ld.param.u64 %q1, [k_0]; mov.u32 %r1, %tid.x; mad.wide.u32 %q2, %r1, 4, %q1;
  and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 1; mov.u32 %r3, %r1; setp.lt.u32 %p2, %r1, 32;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; st.param.b32 [b], %r1;
    @%p1 call.uni (b), twice, (a); ld.param.b32 %r3, [b]; }
  @%p2 shfl.sync.bfly.b32 %r3, %r3, 1, 31, -1;
  @!%p1 shfl.sync.bfly.b32 %r4, %r3, 2, 31, 0x55555555;
  @%p1 mov.u32 %r4, 7; mad.lo.u32 %r3, %r4, 1000, %r3; st.global.u32 [%q2], %r3; ret;
}"""
    assemble(ptx, "sm_90")
    thread = np.arange(64)
    value = np.where(thread % 2 == 1, 2 * thread, thread)
    value = np.where(thread < 32, value[thread ^ 1], value)
    expected = np.where(thread % 2 == 1, 7, value[thread ^ 2]) * 1000 + value
    for seed in (None, 0):
        out = np.zeros(64, np.uint32)
        emulate(ptx, "k", 1, [out], seed=seed)
        assert (out == expected).all()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("add.s32 %r1, %q1, %r2;", "a .b64 register where .u32 is needed"),
        ("bra NOWHERE;", "'NOWHERE' is not a label"),
        ("mov.u32 %r1, %nothing;", "unknown special register or undeclared name '%nothing'"),
        ("add.magic.s32 %r1, %r2, %r3;", "modifier .magic"),
        ("call.uni missing, ();", "call of 'missing', which is not declared"),
        ("setp.lt.f32 %r1, %r2, %r3;", "a .b32 destination where .pred is needed"),
        ("bar.sync 16;", "barrier 16 does not exist"),
        ("ld.global.v2.u32 %r1, [%a0];", "destination"),
    ],
)
def test_undecodable_instructions_name_their_line(kernel, body, message):
    ptx = kernel(body, assemble=False)
    with pytest.raises(EmulationError, match=message) as info:
        emulate(ptx, "k", 1, [np.zeros(1)])
    assert ptx.splitlines()[info.value.line - 1] == body == info.value.text


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_a_counted_barrier_waits_for_every_thread_of_a_warp(kernel, seed):
    """Without .aligned the threads of a warp arrive one after the other, and each has to."""
    body = """
        .shared .align 4 .b8 box[256]; mov.u32 %r1, %tid.x; mov.u32 %r2, box; mad.lo.u32 %r3, %r1, 4, %r2;
        and.b32 %r4, %r1, 1; setp.eq.u32 %p1, %r4, 0; @%p1 bra EVEN;
        st.shared.u32 [%r3], %r1; mov.u32 %r5, 0;
        LATE: add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 20; @%p2 bra LATE; barrier.sync 1, 64; bra READ;
        EVEN: st.shared.u32 [%r3], %r1; barrier.sync 1, 64;
        READ: xor.b32 %r6, %r1, 33; mad.lo.u32 %r7, %r6, 4, %r2; ld.shared.u32 %r8, [%r7];
        mad.wide.u32 %q1, %r1, 4, %a0; st.global.u32 [%q1], %r8;
    """
    out = np.zeros(64, np.uint32)
    emulate(kernel(body, threads=64), "k", 1, [out], seed=seed)
    assert (out == np.arange(64) ^ 33).all()

"""The path of a warp through the PTX, carried over to the machine code."""

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from micro_kernels import OUT, STORE, chained_tcgen05, kernel, loop, ring

from tests.machine_code import needs_tools
from tileiras.codegen.machine_code import BasicBlock, Instruction, MachineCode
from tileiras.sim.estimate.events import PtxBlock
from tileiras.sim.estimate.images import load
from tileiras.sim.estimate.machine_blocks import prepare
from tileiras.sim.estimate.model import Model
from tileiras.sim.estimate.paths import _FAR, NoPath, Walker, _Trace
from tileiras.sim.estimate.recorder import record
from tileiras.targets.rates import gpu

sys.path.append(str(Path(__file__).parent.parent / "emulator"))
import handwritten_matmul  # noqa: E402
import warp_specialised  # noqa: E402

pytestmark = needs_tools

UNROLLED = kernel(
    "mov.f32 %f0, 0f3F800000;\nmov.f32 %f1, 0f3F000000;\n"
    + loop("fma.rn.f32 %f0, %f0, %f1, %f1;", 40).replace('.pragma "nounroll";\n', "") + STORE
)  # fmt: skip

#: Warps that take either side of a branch, one that ptxas may predicate, and a loop of more trips for the second.
BRANCHES = kernel(
    f"""cvt.rn.f32.u32 %f0, %r1;
    shr.u32 %r2, %r1, 5;
    setp.eq.u32 %p1, %r2, 1;
    @%p1 bra ODD;
    ex2.approx.f32 %f0, %f0;
    bar.sync 1, 64;
    bra JOIN;
    ODD:
    lg2.approx.f32 %f0, %f0;
    bar.sync 1, 64;
    JOIN:
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra LAST;
    add.f32 %f0, %f0, %f0;
    LAST:
    mov.u32 %r3, 0;
    AGAIN:
    .pragma "nounroll";
    sin.approx.f32 %f0, %f0;
    add.u32 %r3, %r3, 1;
    setp.le.u32 %p3, %r3, %r2;
    @%p3 bra AGAIN;
    {STORE}""",
    64,
)


def walked(ptx: str, args: list, on: str = "H200", grid=1):
    """(recording, walker, steps by warp) of the first CTA."""
    image = load(ptx, "k", gpu(on))
    recording = record(ptx, "k", grid, args, blocks=[0])
    walker = Walker(image.code, recording.blocks, recording.skipped)
    return recording, walker, [walker.follow(trace) for trace in recording.clusters[0].warps]


def executed(walker: Walker, steps: list) -> Counter:
    """Opcode -> how often a warp executed it."""
    return Counter(each.opcode for step in steps for each in walker.blocks[step.block].instructions)


def everything_is_given_once_and_in_order(recording, walker, steps) -> bool:
    for trace, path in zip(recording.clusters[0].warps, steps):
        value = [id(event) for at in sorted(trace.events) for event in trace.events[at]]
        result = [id(event) for step in path for _, events in step.events for event in events]
        if sorted(value) != sorted(result):
            return False
        for line in {event.line for events in trace.events.values() for event in events}:
            first = [id(event) for at in sorted(trace.events) for event in trace.events[at] if event.line == line]
            then = [id(event) for step in path for _, events in step.events for event in events if event.line == line]
            if first != then:
                return False
    return walker.doubtful == 0



#: Two iterations, which ptxas puts one after the other; it exits instead of guarding the last store.
TWICE = kernel(
    "cvt.rn.f32.u32 %f0, %r1;\nmad.wide.u32 %q1, %r1, 4, %a0;\nld.global.u32 %r3, [%q1];\n"
    + loop("shl.b32 %r4, %r100, 6;\nadd.u32 %r5, %r4, %r1;\nsetp.ge.u32 %p1, %r5, %r3;\nbar.sync 0;\n"
           "mul.wide.u32 %q2, %r4, 4;\nadd.s64 %q2, %q2, %q1;\n@%p1 st.global.f32 [%q2+1024], %f0;", 2)
    .replace('.pragma "nounroll";\n', ""), 64,
)  # fmt: skip


def test_stores_of_a_loop_that_is_unrolled_as_a_whole():
    recording, walker, steps = walked(TWICE, [OUT.copy()])
    assert all([step.block for step in path] == [0, 1] for path in steps)
    assert everything_is_given_once_and_in_order(recording, walker, steps)



def test_products_and_copies_of_a_pipelined_loop():
    size, columns = 256, 128
    a, b = np.zeros((128, size), np.float16), np.zeros((columns, size), np.float16)
    args = [a, b, np.zeros((128, columns), np.float32)]
    result = walked(handwritten_matmul.matmul_ptx(size, columns), args, "A100", (2, 2))
    assert everything_is_given_once_and_in_order(*result)
    recording, walker, steps = result
    for trace, path in zip(recording.clusters[0].warps, steps):
        visits = sum(line in recording.products for at in trace.visits for line in recording.blocks[at].lines)
        assert executed(walker, path)["HMMA"] == visits == 16 * size // 32


def test_roles_of_warps():
    value, _, _memory = warp_specialised.arguments()
    result = walked(warp_specialised.matmul_ptx(), value)
    assert everything_is_given_once_and_in_order(*result)
    _, walker, steps = result
    trips = warp_specialised.STEPS
    assert [executed(walker, path)["HGMMA"] for path in steps] == [trips] * 4 + [0] * 4
    assert [executed(walker, path)["UTMALDG"] for path in steps] == [0] * 4 + [2 * trips] + [0] * 3


@pytest.mark.parametrize("ptx, on", [(ring(4, 8), "H200"), (chained_tcgen05(trips=12), "B200")])
def test_waits_and_arrivals(ptx, on):
    assert everything_is_given_once_and_in_order(*walked(ptx, [OUT], on))


def test_an_unrolled_loop_is_traversed_as_in_the_machine_code():
    _, walker, (path,) = walked(UNROLLED, [OUT])
    assert executed(walker, path)["FFMA"] == 40


def test_warps_that_part():
    recording, walker, steps = walked(BRANCHES, [OUT])
    assert everything_is_given_once_and_in_order(recording, walker, steps)
    even, odd = (
        Counter(".".join(each.modifiers[:1]) for step in path for each in walker.blocks[step.block].instructions
                if each.opcode == "MUFU")
        for path in steps
    )  # fmt: skip
    assert even["SIN"] == 1 and odd["SIN"] == 2
    assert even["EX2"] == 1 and odd["LG2"] == 1 and not even["LG2"] and not odd["EX2"]


#: A loop of four iterations at a time, which no thread has work for, and one for the rest.
REST = kernel(
    f"""cvt.rn.f32.u32 %f0, %r1;
    mov.u32 %r2, %nctaid.x;
    add.u32 %r2, %r2, 2;
    mov.u32 %r3, 0;
    setp.lt.u32 %p1, %r2, 4;
    mov.f32 %f2, 0f00000000;
    mov.f32 %f3, %f2;
    @%p1 bra REST;
    FOUR:
    .pragma "nounroll";
    mad.lo.u32 %r5, %r3, 64, %r1;
    mad.wide.u32 %q1, %r5, 4, %a0;
    setp.ge.u32 %p2, %r5, %r2;
    mov.f32 %f1, 0f00000000;
    mov.f32 %f4, %f1;
    @%p2 bra NONE;
    ld.global.v2.f32 {{%f1, %f4}}, [%q1];
    ex2.approx.f32 %f1, %f1;
    NONE:
    fma.rn.f32 %f2, %f1, %f1, %f2;
    fma.rn.f32 %f3, %f4, %f4, %f3;
    add.f32 %f0, %f2, %f3;
    add.u32 %r3, %r3, 4;
    setp.lt.u32 %p3, %r3, %r2;
    @%p3 bra FOUR;
    REST:
    .pragma "nounroll";
    lg2.approx.f32 %f1, %f0;
    add.f32 %f0, %f0, %f1;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p4, %r3, %r2;
    @%p4 bra REST;
    {STORE}"""
)


def test_a_loop_that_no_warp_enters_is_passed_by():
    _, walker, (path,) = walked(REST, [OUT])
    functions = Counter(".".join(each.modifiers[:1]) for step in path for each in
                        walker.blocks[step.block].instructions if each.opcode == "MUFU")  # fmt: skip
    assert functions == {"LG2": 3}


@pytest.mark.parametrize("divisions", [1, 8])
def test_a_path_passes_the_slow_paths_of_divisions(divisions):
    """Their subroutine has the line of the kernel's end; a loop of several of them is many blocks long."""
    body = "mad.wide.u32 %q2, %r100, 128, %q1;\nsetp.lt.u32 %p1, %r100, 100;\n@%p1 ld.global.f32 %f1, [%q2];\n"
    body += "div.rn.f32 %f0, %f1, %f0;\n" * divisions + "@%p1 st.global.f32 [%q2], %f0;\n"
    start = "mad.wide.u32 %q1, %r1, 4, %a0;\nmov.f32 %f0, 0f40400000;\nmov.f32 %f1, 0f40000000;\n"
    recording, walker, paths = walked(kernel(f"{start}{loop(body, 6)}{STORE}"), [OUT])
    assert executed(walker, paths[0])["CALL"] == 0 and walker.doubtful == 0
    assert everything_is_given_once_and_in_order(recording, walker, paths)


def test_lines_with_several_instructions_are_no_unrolled_loop():
    wide = "mul.lo.u64 %q1, %q1, %q2;\nadd.u64 %q1, %q1, %q3;\n" * 4
    ptx = kernel(
        f"mov.u64 %q1, %a0;\nmov.u64 %q2, %a0;\nmov.u64 %q3, %a0;\n{loop(wide + 'bar.sync 0;', 12)}"
        f"cvt.rn.f32.u64 %f0, %q1;\n{STORE}",
        64,
    )
    _, walker, paths = walked(ptx, [OUT])
    assert [executed(walker, path)["BAR"] for path in paths] == [12, 12]


@pytest.mark.parametrize(("order", "position"), [("its own branch", 2), ("another branch leaves", 1)])
def test_a_line_executed_twice_in_a_row_is_one_turn(order, position):
    """An instruction and the wait behind it, on one line of inline assembly, are two blocks of the PTX: the branch that
    ends the block of the machine code follows both, unless the loop returns before it."""
    lines = {0: (5,), 1: (5, 6), 2: (7,)}
    visits = [0, 1, 2, 0, 1, 2] if position == 2 else [0, 1, 0, 1, 2]
    blocks = {number: PtxBlock(number, each, 0, 0) for number, each in lines.items()}
    trace = _Trace(SimpleNamespace(visits=visits), blocks, {5, 6, 7})
    block = SimpleNamespace(anchors=(5, 6, 7), lines=(5, 6, 7), unrolled=frozenset(), joint_branch=7, copies=1)
    assert trace.execute(block) == position


@pytest.mark.parametrize("trips", [1, 2, 5])
def test_trips_of_a_loop_without_effects(trips):
    """ptxas predicates the instructions that branches of the PTX jump over: no anchor marks the end of a turn of a loop
    of one block."""
    lines = {number: (2 * number, 2 * number + 1) for number in range(4)}
    blocks = {number: PtxBlock(number, each, 0, 0) for number, each in lines.items()}
    trace = _Trace(SimpleNamespace(visits=[*lines] * trips), blocks, set())
    walker = object.__new__(Walker)
    walker.blocks = [
        SimpleNamespace(anchors=(), guarded=(), lines=tuple(range(8)), loops=True, unrolled=frozenset(), copies=1,
                        joint_branch=None)
    ]  # fmt: skip
    turns = 0
    while walker._first(0, trace) < _FAR:
        trace.cursor = trace.execute(walker.blocks[0])
        turns += 1
    assert turns == trips


def test_a_branch_behind_a_wait_does_not_lead_into_its_next_turn():
    """ptxas gives a branch the line of the one before, and waits that fail go around code put aside."""
    body = loop(
        """mbarrier.arrive.shared.b64 _, [%r10];
        mbarrier.arrive.shared.b64 _, [%r10+8];
        xor.b32 %r13, %r12, 1;
        LOOK:
        mbarrier.try_wait.parity.shared.b64 %p4, [%r10], %r12, 10000000;
        @!%p4 bra LOOK;
        @%p6 bra SKIP;
        AGAIN_LOOK:
        mbarrier.try_wait.parity.shared.b64 %p5, [%r10+8], %r12, 10000000;
        @!%p5 bra AGAIN_LOOK;
        SKIP:
        mov.u32 %r12, %r13;
        st.shared.f32 [%r10+64], %f0;""", 6,
    )  # fmt: skip
    result = walked(kernel(
        f"""mov.u32 %r10, data;
        mov.f32 %f0, 0f00000000;
        mov.u32 %r12, 0;
        setp.eq.u32 %p1, %r1, 0;
        setp.gt.u32 %p6, %r1, 31;
        @%p1 mbarrier.init.shared.b64 [%r10], 64;
        @%p1 mbarrier.init.shared.b64 [%r10+8], 64;
        bar.sync 0;
        {body}
        {STORE}""",
        64, shared=1024,
    ), [OUT])  # fmt: skip
    assert everything_is_given_once_and_in_order(*result)
    _, walker, paths = result
    assert [executed(walker, path)["STS"] for path in paths] == [6, 6]


def test_a_branch_path_contains_executed_instructions_only():
    """A stage that is not filled any more: behind what fills it comes, in the same code, what goes on with the next."""
    fill = """
        mbarrier.try_wait.parity.shared.b64 %p8, [{at}], %r13;
        not.pred %p9, %p8;
        @%p9 bra {look};
        mbarrier.arrive.shared.b64 _, [{at}];"""
    body = loop(
        f"""and.b32 %r14, %r100, 1;
        xor.b32 %r13, %r14, 1;
        sub.u32 %r15, %r20, %r100;
        setp.gt.s32 %p7, %r15, 1;
        @%p7 bra MORE;
        bra.uni OTHER;
        MORE:
        @%p4 bra FILLED;
        LOOK:{fill.format(at="%r10", look="LOOK")}
        FILLED:
        @%p6 bra BEHIND;
        @%p4 bra OTHER;
        red.shared.add.u32 [%r10+64], %r15;
        OTHER:
        @%p4 bra BEHIND;
        LOOK_AGAIN:{fill.format(at="%r10+8", look="LOOK_AGAIN")}
        BEHIND:
        @%p4 bra LAST;
        red.shared.add.u32 [%r10+128], %r14;
        LAST:
        bar.sync 0;""", 5,
    )  # fmt: skip
    result = walked(kernel(
        f"""mov.u32 %r10, data;
        mov.f32 %f0, 0f00000000;
        setp.ne.u32 %p4, %r1, 0;
        cvt.u32.u64 %r20, %a1;
        setp.ne.u64 %p6, %a2, 0;
        @%p4 bra READY;
        mbarrier.init.shared.b64 [%r10], 1;
        mbarrier.init.shared.b64 [%r10+8], 1;
        READY:
        bar.sync 0;
        {body}
        {STORE}""",
        64, "sm_100a", shared=1024, parameters=3,
    ), [OUT, 0, 0], "B200")  # fmt: skip
    assert everything_is_given_once_and_in_order(*result)
    _, walker, paths = result
    counts = [executed(walker, path) for path in paths]
    assert [(each["SYNCS"], each["ATOMS"]) for each in counts] == [(12, 5), (2, 0)]


def test_a_jump_behind_a_branch_is_the_same_branch():
    """ptxas makes one branch of both, with the line of the jump, which only the last two trips execute."""
    copies = "cp.async.cg.shared.global [%r10+{0}], [%a0], 16;\ncp.async.cg.shared.global [%r10+{0}+512], [%a0], 16;\n"
    body = loop(
        f"""cp.async.wait_group 1;
        bar.sync 0;
        sub.u32 %r15, %r20, %r100;
        setp.gt.u32 %p7, %r15, 2;
        @%p7 bra MORE;
        bra.uni BEHIND;
        MORE:
        {"".join(map(copies.format, range(0, 128, 16)))}
        BEHIND:
        cp.async.commit_group;
        st.volatile.shared.u32 [%r10], %r15;""", 6,
    )  # fmt: skip
    start = "mov.u32 %r10, data;\nmov.f32 %f0, 0f00000000;\ncvt.u32.u64 %r20, %a1;\n"
    result = walked(kernel(f"{start}{body}{STORE}", 64, shared=1024, parameters=2), [OUT, 6])
    assert everything_is_given_once_and_in_order(*result)
    _, walker, paths = result
    counts = [executed(walker, path) for path in paths]
    assert [(each["BAR"], each["LDGSTS"], each["STS"]) for each in counts] == [(6, 4 * 16, 6)] * 2


@pytest.mark.parametrize("target, on", [("sm_90a", "H200"), ("sm_120a", "RTX PRO 6000")])
def test_a_jump_back_is_the_branch_that_leaves_the_loop(target, on):
    """Moves of loop-carried values have the line of its branch, as the jump behind them; between the branch and the
    jump ptxas puts loads."""
    result = walked(kernel(
        """mov.u32 %r10, data;
        mov.f32 %f0, 0f00000000;
        cvt.u32.u64 %r20, %a1;
        mov.u32 %r100, 0;
        mov.u32 %r40, 256;
        mov.u32 %r41, 512;
        bra.uni HEAD;
        AGAIN:
        add.u32 %r43, %r10, %r40;
        st.shared.f32 [%r43+64], %f0;
        bar.sync 0;
        ld.shared.f32 %f0, [%r10+32];
        mov.u32 %r42, %r40;
        mov.u32 %r40, %r41;
        mov.u32 %r41, %r42;
        add.u32 %r100, %r100, 1;
        setp.eq.u32 %p15, %r100, %r20;
        @%p15 bra DONE;
        HEAD:
        .pragma "nounroll";
        st.shared.u32 [%r10], %r100;
        bra.uni AGAIN;
        DONE:""",
        64, target, shared=4096, parameters=2,
    ), [OUT, 6], on)  # fmt: skip
    assert everything_is_given_once_and_in_order(*result)
    _, walker, paths = result
    assert [(each["BAR"], each["STS"], each["LDS"]) for each in (executed(walker, path) for path in paths)] == [
        (6, 12, 5)
    ] * 2


# ---- code that does not belong to the PTX ---------------------------------------------------------------------------


def of_other_code(ptx: str, other: str) -> Model:
    """The launch of ``ptx`` with the machine code of ``other``, as a cubin beside the wrong PTX has it."""
    chosen = gpu("H200")
    return Model(load(ptx, "k", chosen)._replace(code=load(other, "k", chosen).code), (1,), chosen, [OUT])


def stores(trips: int) -> str:
    return kernel("mov.f32 %f0, 0f3F800000;\nmov.u32 %r10, data;\n" + loop("st.shared.f32 [%r10], %f0;", trips) + STORE,
                  shared=64)  # fmt: skip


def test_machine_code_without_the_path_is_refused():
    """A warp that ends in the loop, which no path through the code does."""
    image = load(stores(5), "k", gpu("H200"))
    recording = record(image.ptx, "k", 1, [OUT], blocks=[0])
    (trace,) = recording.clusters[0].warps
    head = next(block for block, times in Counter(trace.visits).items() if times == 5)
    end = len(trace.visits) - trace.visits[::-1].index(head)
    behind = set(trace.visits[end:])
    del trace.visits[end:]
    blocks = {number: block for number, block in recording.blocks.items() if number not in behind}
    untaken = {line for number in behind for line in recording.blocks[number].lines}
    with pytest.raises(NoPath, match="the machine code at 0x.* does not follow the path of the PTX"):
        Walker(image.code, blocks, untaken).follow(trace)


def test_a_path_in_doubt_is_noted():
    """Machine code that has unrolled four stores stands for forty: what it has no turn for piles up in its last."""
    model = of_other_code(stores(40), stores(40).replace(", 40;", ", 4;").replace('.pragma "nounroll";', "//"))
    model.prepare()
    assert "path through the machine code" in model.estimate().doubt


def test_a_path_without_doubt_is_not():
    model = of_other_code(stores(40), stores(40))
    model.prepare()
    assert not model.estimate().doubt


def test_an_added_wait_for_dots_is_no_evidence_of_the_path():
    """Where ptxas serializes dots, its waits have lines of other computations, which a loop executes elsewhere."""

    def at(place: int, name: str, line: int) -> Instruction:
        opcode, *modifiers = name.split(".")
        return Instruction(16 * place, "", opcode, tuple(modifiers), (), 1, False, None, None, 0, 0, line, None)

    code = (at(0, "FADD", 7), at(1, "HGMMA.64x64x16.F32", 4), at(2, "WARPGROUP.DEPBAR.LE", 7),
            at(3, "WARPGROUP.DEPBAR.LE", 5), at(4, "EXIT", 9))  # fmt: skip
    whole = MachineCode("k", "sm_90a", code, (BasicBlock(0, 80, ()),), {}, 32, 0, 0)
    (block,) = prepare(whole, {4, 5, 7, 9}, set(), (), {})
    assert block.anchors == (4, 5)

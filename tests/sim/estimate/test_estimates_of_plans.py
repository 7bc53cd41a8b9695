"""Every plan of ours for a matrix product and for attention has an estimate, by the path that its warps take.

Threads of a warp part around waits that one of them makes for all, ptxas gives the instructions that it adds there the
lines of nearby branches, and puts addresses of copies before the blocks that issue them.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from micro_kernels import OUT, STORE, estimate, kernel, loop, of_warpgroup, per_iteration, registers

import tileiras.sim
from tests.kernels import tensor_maps
from tests.kernels.dots import Matmul, attention_like, matmul
from tests.kernels.tile_rounds import rounds
from tests.kernels.views import Kernel
from tests.machine_code import needs_tools
from tileiras.sim.emulator.launch.recording import Copy
from tileiras.sim.emulator.rules import RULES
from tileiras.sim.estimate.images import load
from tileiras.sim.estimate.model import Model
from tileiras.sim.estimate.paths import Walker
from tileiras.sim.estimate.recorder import record
from tileiras.targets.rates import gpu

pytestmark = needs_tools
STEPS = 6

KERNELS = {
    "128x128x64": lambda: matmul((128, 128, 64), "f16", steps=STEPS),
    "128x256x64": lambda: matmul((128, 256, 64), "f16", steps=STEPS),
    "attention": lambda: attention_like(1, rows=128, columns=64, depth=128, steps=STEPS),
    "attention 64": lambda: attention_like(1, rows=64, columns=64, depth=128, steps=STEPS),
}
PLANS = {
    "plain": {"tensor_maps": "none", "pipeline_strategy": "unspecialize"},
    "boxes": {"tensor_maps": "host", "pipeline_strategy": "unspecialize"},
    "agents": {"tensor_maps": "none", "pipeline_strategy": "warp-specialize"},
    "agents with boxes": {"tensor_maps": "host", "pipeline_strategy": "warp-specialize"},
    "auto": {"tensor_maps": "host", "pipeline_strategy": "auto"},
}
GPUS = {"sm_90": "H200", "sm_100": "B200", "sm_120": "RTX PRO 6000"}
PRODUCTS = {"sm_90": ("HGMMA",), "sm_100": ("UTCHMMA",), "sm_120": ("HMMA",)}
CASES = [
    *((name, "sm_90", plan) for name in KERNELS for plan in PLANS if plan != "auto"),
    *((name, "sm_100", plan) for name in KERNELS for plan in ("plain", "boxes", "agents with boxes")),
    *(("attention 64", target, plan) for target in ("sm_90", "sm_100") for plan in ("agents", "agents with boxes")),
    *(("128x128x64", "sm_120", plan) for plan in PLANS),
    ("128x256x64", "sm_90", "auto"),
    ("attention", "sm_100", "auto"),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name, target, plan", CASES)
def test_a_plan(name, target, plan):
    result: Kernel = KERNELS[name]()
    artifact = result.compiled(target, emit="ptx", **PLANS[plan])
    judge(artifact, [*result.inputs, *(array.copy() for array in result.outputs)], target)


PAIR = "sm_100 = {num_cta_in_cga = 2}"
PAIRS = {
    "128 rows": lambda: matmul((256, 128, 64), "f16", steps=STEPS, hints=PAIR),
    "64 rows": lambda: matmul((128, 128, 64), "f16", steps=STEPS, hints=PAIR),
    "loop over tiles": lambda: rounds((256, 64, 32), count=4, hints=PAIR),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name, plan", [(name, "agents with boxes") for name in PAIRS] + [("128 rows", "boxes"), ("64 rows", "boxes")]
)
def test_pairs_of_ctas(name, plan):
    result: Kernel = PAIRS[name]()
    artifact = result.compiled("sm_100", emit="ptx", **PLANS[plan])
    assert "tcgen05.mma.cta_group::2" in artifact.text
    judge(artifact, [*result.inputs, *(array.copy() for array in result.outputs)], "sm_100")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("plan", ["agents", "agents with boxes"])
@pytest.mark.parametrize("target", GPUS)
def test_a_plan_of_a_product_of_any_size(target, plan):
    """Loops may run no turn, and more blocks of ptxas are between them and their predecessors in PTX."""
    m, n, k = tensor_maps.TILES
    a, b, c = np.zeros((m, k * STEPS), np.float16), np.zeros((k * STEPS, n), np.float16), np.zeros((m, n), np.float32)
    described = (value for array in (a, b, c) for value in (array, *array.shape, array.shape[1]))
    judge(tileiras.compile(tensor_maps.matmul(), gpu_name=target, **PLANS[plan]), [*described, STEPS], target)


def test_turns_of_threads_are_not_iterations():
    """ptxas takes turns over the threads of a warp for the mbarrier at which copies of theirs arrive, where boxes of
    another operand have parted them."""
    product = Matmul((64, 64, 32), "f16", steps=STEPS)
    by_threads = "optimization_hints = <sm_120 = {allow_tma = false}> : "
    product.load_b = product.load_b.replace(" : ", f" {by_threads}", 1)
    result = product.kernel()
    artifact = result.compiled("sm_120", emit="ptx", **PLANS["agents with boxes"])
    assert "cp.async.mbarrier.arrive" in artifact.text and "cp.async.bulk.tensor" in artifact.text
    judge(artifact, [*result.inputs, *(array.copy() for array in result.outputs)], "sm_120")


def judge(artifact: tileiras.Artifact, arguments: Sequence[np.ndarray | int], target: str) -> None:
    """Estimates a launch of one block, whose loop has `STEPS` turns."""
    model = Model(load(artifact, "k", gpu(GPUS[target])), (1,), gpu(GPUS[target]), arguments)
    model.prepare()
    result = model.estimate()
    assert result.cycles > 0 and not result.doubt
    # Every copy of a box and every product of the PTX is one that the machine code executes.
    value, executed = Counter(), Counter()
    for trace in model.recording.clusters[0].warps:
        steps = model.walker.follow(trace)
        events = [event for at in trace.events for event in trace.events[at]]
        counter = Counter(id(event) for step in steps for _, events in step.events for event in events)
        assert counter == Counter(map(id, events))
        copies = (event.operation for event in events if isinstance(event.operation, Copy))
        boxes = (copy for copy in copies if copy.kind == "tensor")
        value.update("UTMALDG" if box.direction == "load" else "UTMASTG" for box in boxes)
        opcodes = [each.opcode for step in steps for each in model.walker.blocks[step.block].instructions]
        executed.update(opcode for opcode in opcodes if opcode in ("UTMALDG", "UTMASTG"))
        if any(opcode in PRODUCTS[target] for opcode in opcodes):
            result = sum(opcodes.count(opcode) for opcode in PRODUCTS[target])
            assert result and result % STEPS == 0
    assert executed == value


def test_threads_meet_again_that_one_of_them_waits_for():
    """One thread of the second warp waits at each turn for the first warp; the others do not run ahead of it."""
    ptx = kernel(
        f"""mov.u32 %r10, data;
        mov.f32 %f0, 0f00000000;
        setp.eq.u32 %p1, %r1, 0;
        @%p1 mbarrier.init.shared.b64 [%r10], 32;
        bar.sync 0;
        setp.lt.u32 %p2, %r1, 32;
        mov.u32 %r12, 0;
        @%p2 bra FIRST;
        setp.ne.u32 %p3, %r1, 32;
        {loop('''@%p3 bra JOIN;
        LOOK:
        mbarrier.try_wait.parity.shared.b64 %p4, [%r10], %r12;
        @!%p4 bra LOOK;
        JOIN:
        xor.b32 %r12, %r12, 1;
        st.shared.f32 [%r10+64], %f0;
        bar.sync 1, 64;''', 5)}
        bra DONE;
        FIRST:
        {loop("mbarrier.arrive.shared.b64 _, [%r10];" + chr(10) + "bar.sync 1, 64;", 5, "TURN")}
        DONE:
        {STORE}""",
        64, shared=1024,
    )  # fmt: skip
    image = load(ptx, "k", gpu("H200"))
    recording = record(ptx, "k", 1, [OUT], blocks=[0], waive=tuple(RULES))
    second = recording.clusters[0].warps[1]
    wait = next(number for number, block in recording.blocks.items() if any("try_wait" in ptx.splitlines()[line - 1]
                for line in block.lines))  # fmt: skip
    assert second.visits.count(wait) == 5
    store = next(number for number, text in enumerate(ptx.splitlines(), 1) if "[%r10+64]" in text)
    lanes = [count for block, count in zip(second.visits, second.lanes) if store in recording.blocks[block].lines]
    assert lanes == [32] * 5  # all at once, each time
    walker = Walker(image.code, recording.blocks, recording.skipped)
    assert len(walker.follow(second)) and walker.doubtful == 0


def test_products_that_ptxas_serializes_wait_for_each_other():
    """Two accumulators of 256 columns do not fit the registers: each product waits for the one before."""

    def products(order: tuple[int, ...]) -> str:
        form = "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"
        return "\n".join(f"{form} {registers(128, 128 * which)}, %q3, %q4, %p2, 1, 1, 0, 0;" for which in order)

    def chained(order: tuple[int, ...]) -> str:
        body = loop("wgmma.fence.sync.aligned;\n" + products(order)
                    + "\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;", 40)  # fmt: skip
        return of_warpgroup(body, 128 * len(set(order)))

    result, spilled = (estimate(chained(order), [OUT]) for order in ((0, 0, 0, 0), (0, 1, 0, 1)))
    assert per_iteration(result) < 4 * 128 + 40
    assert per_iteration(spilled) > 4 * (128 + 64)
    assert spilled.by_reason()["tensor core"] > 0


def test_ctas_that_copy_for_each_other_ask_less_of_l2(monkeypatch):
    """A tile of 128x128 for each CTA, where L2 sets the rate: two that share B ask for three quarters of the bytes."""
    size, result = 2048, {}
    for ctas in (1, 2):
        monkeypatch.setattr(tensor_maps, "TILES", (128 * ctas, 128, 64))
        plan = {**PLANS["agents with boxes"], "num_ctas": ctas}
        artifact = tileiras.compile(tensor_maps.matmul(), gpu_name="sm_90", **plan)
        half, single = np.zeros((size, size), np.float16), np.zeros((size, size), np.float32)
        described = [value for array in (half, half, single) for value in (array, size, size, size)]
        grid = (size // (128 * ctas), size // 128)
        # Tile blocks of one CTA each would share B as a cluster as well.
        metadata = {**artifact.kernels[0].metadata, "cluster_blocks": None}
        result[ctas] = tileiras.sim.estimate(artifact, "k", grid, [*described, size // 64], "H200", metadata)
    assert result[1].bound == "L2" and result[1].utilization["L2"] > 0.88
    assert result[2].microseconds < 0.9 * result[1].microseconds

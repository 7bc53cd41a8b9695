"""Without any one of its barriers, waits and fences, and with any one of the orders that it relies on weakened, a
kernel fails in the emulator: none is there for nothing, and a lowering that forgot one would be found out."""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Callable
from typing import NamedTuple

import example_cases
import kernel_cases
import pytest

import tileiras
from tileiras.sim import EmulationError, emulate

_WAIT = re.compile(
    r"(?:@!?%p\d+\s+)?\b(?:bar|barrier)(?:\.cta|\.warp|\.cluster)?\.(?:sync|arrive|wait|red)[\w.]*\s[^;]*;"
    r"|\bcp\.async\.(?:bulk\.)?wait_\w+[^;]*;"
    r"|(?:@!?%p\d+\s+)?\b(?:fence|membar)\.(?!proxy)[\w.]+\s*;"
)
_ORDER = re.compile(r"\.(acquire|release|acq_rel)(\.(?:cta|cluster|gpu|sys)\.)")
_SCOPE = re.compile(r"(\.(?:acquire|release|acq_rel)\.)(?:cluster|gpu|sys)\.")

#: How many barriers of an entry its launch may do without: its tokens ask for them and nothing in it observes them, or
#: the lowering might have left them out.
UNOBSERVED = {
    # The loads come before updates that release them, and nobody acquires; whether the stores overlap, none can tell.
    "scatter_add": 1,
    "fft_stage": 1,
    # A barrier behind a loop that ends in one; one between accesses by one and the same thread.
    "spin_lock": 1,
    "last_block_reduction": 1,
    "prefix_sum": 2,
    # Before the accumulator goes where the buffers are: after as many steps, other buffers are the last to be read.
    "matmul_f32": 1,
    "matmul_tf32": 1,
}


class Launch(NamedTuple):
    """A kernel, its launch description, and `run(ptx, seed)`, which raises when something is wrong."""

    ptx: str
    run: Callable[[str, int | None], None]


def _example(case: example_cases.Case) -> Launch:
    if case.path.suffix == ".py":
        pytest.importorskip("cuda.tile")
    artifact = tileiras.compile(case.path, gpu_name="sm_90", entry=case.entry)
    (kernel,) = artifact.kernels
    metadata = json.loads(kernel.artifacts[".json"])
    arguments = case.make_arguments()
    expected = case.reference(copy.deepcopy(arguments))

    def run(ptx: str, seed: int | None) -> None:
        given = copy.deepcopy(arguments)
        emulate(ptx, case.entry, case.grid, given, metadata=metadata, seed=seed)
        for position, values in expected.items():
            example_cases.check(given[position], values, case.ulps)

    return Launch(artifact.text, run)


def _kernel(case: kernel_cases.KernelCase) -> Launch:
    if case.source.endswith(".py"):
        pytest.importorskip("cuda.tile")
    target = "sm_90" if "sm_90" in case.targets else case.targets[-1]
    artifact = tileiras.compile(case.path, gpu_name=target, entry=case.entry)
    (kernel,) = artifact.kernels
    metadata = json.loads(kernel.artifacts[".json"])
    values = case.make_values()
    expected = case.expected(copy.deepcopy(values))

    def run(ptx: str, seed: int | None) -> None:
        given = copy.deepcopy(values)
        emulate(ptx, case.entry, case.grid, case.slots(given), metadata=metadata, seed=seed)
        case.check(given, expected, values)

    return Launch(artifact.text, run)


def _cases() -> dict[str, Callable[[], Launch]]:
    """One launch of every entry; the examples' bytecode is the same kernels again."""
    cases: dict[str, Callable[[], Launch]] = {}
    for example in example_cases.CASES:
        if not example.source.startswith("bytecode/"):
            cases.setdefault(example.entry, functools.partial(_example, example))
    for kernel in kernel_cases.CASES:
        cases.setdefault(kernel.entry, functools.partial(_kernel, kernel))
    return cases


CASES = _cases()
SEEDS = (None, 0)


def survives(launch: Launch, ptx: str) -> bool:
    """Whether the changed code still computes what it should, in lock step and in a random order."""
    for seed in SEEDS:
        try:
            launch.run(ptx, seed)
        except (EmulationError, AssertionError):
            return False
    return True


def changed(ptx: str, pattern: re.Pattern[str], replacement: str) -> list[tuple[str, str]]:
    """(the line as it was, the text with one match replaced) for every match."""
    return [
        (ptx[ptx.rfind("\n", 0, match.start()) + 1 : ptx.find("\n", match.end())].strip(),
         ptx[: match.start()] + match.expand(replacement) + ptx[match.end() :])
        for match in pattern.finditer(ptx)
    ]  # fmt: skip


@functools.cache
def launch_of(entry: str) -> Launch:
    return CASES[entry]()


@pytest.mark.parametrize("entry", sorted(CASES))
def test_no_barrier_is_superfluous(entry: str) -> None:
    launch = launch_of(entry)
    sites = changed(launch.ptx, _WAIT, "")
    if not sites:
        pytest.skip("the kernel has no barriers")
    spared = [line for line, broken in sites if survives(launch, broken)]
    assert len(spared) <= UNOBSERVED.get(entry, 0), spared


@pytest.mark.parametrize("entry", sorted(CASES))
def test_orders_and_scopes_that_a_kernel_relies_on(entry: str) -> None:
    """cuTile's atomics acquire and release by default; where nothing relies on any of it, there is nothing to break."""
    launch = launch_of(entry)
    if not _ORDER.search(launch.ptx):
        pytest.skip("the kernel has no orders")
    if survives(launch, _ORDER.sub(r".relaxed\2", launch.ptx)):
        pytest.skip("the kernel relies on no order")
    sites = changed(launch.ptx, _ORDER, r".relaxed\2") + changed(launch.ptx, _SCOPE, r"\1cta.")
    assert [line for line, broken in sites if survives(launch, broken)] == []


def test_kernels_that_synchronise_thread_blocks_rely_on_orders() -> None:
    for entry in ("spin_lock", "last_block_reduction", "prefix_sum"):
        launch = launch_of(entry)
        assert not survives(launch, _ORDER.sub(r".relaxed\2", launch.ptx)), entry


def test_every_wait_of_the_instruction_set_is_tried() -> None:
    waits = """
        bar.sync 0; @%p1 bar.sync 1, 64; barrier.cta.sync.aligned 0; bar.warp.sync -1; bar.red.popc.u32 %r, 0, %p;
        barrier.cluster.arrive.release.aligned ; cp.async.wait_group 1; cp.async.wait_all ; cp.async.bulk.wait_group 0;
        fence.acq_rel.gpu; fence.sc.sys; membar.gl; @%p2 fence.acq_rel.gpu;
    """
    assert _WAIT.sub("", waits).split() == []
    assert _WAIT.sub("", "fence.proxy.alias; bar.x; shfl.sync.idx.b32 %r1, %r2;").count(";") == 3

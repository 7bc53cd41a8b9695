"""Without any one of its barriers, waits and fences, and with any one of the orders that it relies on weakened, a
kernel fails in the emulator: none is there for nothing, and a lowering that forgot one would be found out."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import re
from collections.abc import Callable
from typing import NamedTuple

import example_cases
import kernel_cases
import numpy as np
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
_FENCED = re.compile(
    r"fence\.acq_rel\.(?P<scope>\w+);(?P<updates>(?:(?!fence\.).)*?\batom\.relaxed\.(?:(?!fence\.).)*)"
    r"fence\.acq_rel\.(?P=scope);", re.DOTALL,
)  # fmt: skip
"""Updates between two fences, which are their order together."""


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
        assert emulate(ptx, case.entry, case.grid, given, metadata=metadata, seed=seed).searched_races
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
        assert emulate(ptx, case.entry, case.grid, case.slots(given), metadata=metadata, seed=seed).searched_races
        case.check(given, expected, values)

    return Launch(artifact.text, run)


#: Takes the place of the kernel in blocks of z = 1: thread t waits for row t of the table, then overwrites what others
#: read of the gradient.
_OBSERVER = """
$OBSERVER:
	mov.u32 %observer_r0, %tid.x;
	setp.gt.u32 %observer_p, %observer_r0, 15;
	@%observer_p ret;
	mul.wide.u32 %observer_rd2, %observer_r0, 4;
	ld.param.u64 %observer_rd0, [scatter_add_param_8];
	mad.wide.u32 %observer_rd0, %observer_r0, 128, %observer_rd0;
	ld.param.u64 %observer_rd1, [scatter_add_param_0];
	add.u64 %observer_rd1, %observer_rd1, %observer_rd2;
$WAIT:
	ld.acquire.gpu.global.b32 %observer_r0, [%observer_rd0];
	setp.eq.b32 %observer_p, %observer_r0, 0;
	@%observer_p bra $WAIT;
	st.global.b32 [%observer_rd1+1984], 0;
	ret;
}
"""
_TO_OBSERVER = """{
	.reg .pred %observer_p;
	.reg .b32 %observer_r0;
	.reg .b64 %observer_rd<3>;
	mov.u32 %observer_r0, %ctaid.z;
	setp.eq.u32 %observer_p, %observer_r0, 1;
	@%observer_p bra $OBSERVER;
"""


def _observed_scatter_add() -> Launch:
    """Its updates release, but nothing in it acquires.  Here a block of other code, as a kernel that runs beside it
    could have, sees an update and takes what was read before it for done with."""
    (case,) = (case for case in kernel_cases.CASES if case.entry == "scatter_add")
    plain = _kernel(case)
    gradient = 1 + np.arange(16 * 32, dtype=np.float32).reshape(16, 32)
    metadata = json.loads(tileiras.compile(case.path, gpu_name="sm_90", entry=case.entry).kernels[0].artifacts[".json"])

    def run(ptx: str, seed: int | None) -> None:
        ptx = ptx.replace("{\n", _TO_OBSERVER, 1)
        ptx = ptx[: ptx.rindex("}")] + _OBSERVER
        table = np.zeros((16, 32), np.float32)
        values = [gradient.copy(), np.arange(16, dtype=np.int32), table]
        emulate(ptx, case.entry, (1, 1, 2), case.slots(values), metadata=metadata, seed=seed)
        np.testing.assert_array_equal(table, gradient)

    return Launch(plain.ptx, run)


def _cases() -> dict[str, list[Callable[[], Launch]]]:
    """The launches of every entry; the examples' bytecode is the same kernels again."""
    cases: dict[str, list[Callable[[], Launch]]] = {}
    for example in example_cases.CASES:
        if not example.source.startswith("bytecode/"):
            cases.setdefault(f"{example.source}:{example.entry}", []).append(functools.partial(_example, example))
    for kernel in kernel_cases.CASES:
        cases.setdefault(f"{kernel.source}:{kernel.entry}", []).append(functools.partial(_kernel, kernel))
    cases["scatter_add.py:scatter_add"].append(_observed_scatter_add)
    return cases


CASES = _cases()
SEEDS = (None, 0)


class Entry(NamedTuple):
    """One PTX text, and what it is launched with."""

    ptx: str
    launches: list[Launch]


def survives(entry: Entry, ptx: str) -> bool:
    """Whether the changed code still computes what it should in every launch, in lock step and in a random order."""
    for launch, seed in itertools.product(entry.launches, SEEDS):
        try:
            launch.run(ptx, seed)
        except (EmulationError, AssertionError):
            return False
    return True


def changed(ptx: str, pattern: re.Pattern[str], replacement: str) -> list[tuple[str, str]]:
    """(the line as it was, the text with one match replaced) for every match."""
    orders = {at for each in _FENCED.finditer(ptx) for at in (each.start(), each.end("updates"))}
    return [
        (ptx[ptx.rfind("\n", 0, match.start()) + 1 : ptx.find("\n", match.end())].strip(),
         ptx[: match.start()] + match.expand(replacement) + ptx[match.end() :])
        for match in pattern.finditer(ptx) if not any(at in range(*match.span()) for at in orders)
    ]  # fmt: skip


def without_orders(ptx: str) -> str:
    return _ORDER.sub(r".relaxed\2", _FENCED.sub(r"\g<updates>", ptx))


def weaker_fences(ptx: str) -> list[tuple[str, str]]:
    """As `changed`, for the fences of updates that have an order together: without both, or for one CTA only."""
    found = []
    for match in _FENCED.finditer(ptx):
        narrow = f"fence.acq_rel.cta;{match['updates']}fence.acq_rel.cta;"
        for weaker in (match["updates"], *((narrow,) if match["scope"] != "cta" else ())):
            found.append((f"fence.acq_rel.{match['scope']} twice", ptx[: match.start()] + weaker + ptx[match.end() :]))
    return found


@functools.cache
def entry_of(name: str) -> Entry:
    launches = [make() for make in CASES[name]]
    (ptx,) = {launch.ptx for launch in launches}
    entry = Entry(ptx, launches)
    assert survives(entry, ptx)
    return entry


@pytest.mark.parametrize("name", sorted(CASES))
def test_no_barrier_is_superfluous(name: str) -> None:
    entry = entry_of(name)
    sites = changed(entry.ptx, _WAIT, "")
    if not sites:
        pytest.skip("the kernel has no barriers")
    assert [line for line, broken in sites if survives(entry, broken)] == []


@pytest.mark.parametrize("name", sorted(CASES))
def test_orders_and_scopes_that_a_kernel_relies_on(name: str) -> None:
    """cuTile's atomics acquire and release by default; where nothing relies on any of it, there is nothing to break."""
    entry = entry_of(name)
    if without_orders(entry.ptx) == entry.ptx:
        pytest.skip("the kernel has no orders")
    if survives(entry, without_orders(entry.ptx)):
        pytest.skip("the kernel relies on no order")
    sites = changed(entry.ptx, _ORDER, r".relaxed\2") + changed(entry.ptx, _SCOPE, r"\1cta.")
    sites += weaker_fences(entry.ptx)
    assert [line for line, broken in sites if survives(entry, broken)] == []


def test_kernels_that_synchronise_thread_blocks_rely_on_orders() -> None:
    for name in ("spin_lock.mlir:spin_lock", "last_block_reduction.mlir:last_block_reduction",
                 "prefix_sum.mlir:prefix_sum", "scatter_add.py:scatter_add"):  # fmt: skip
        entry = entry_of(name)
        assert not survives(entry, without_orders(entry.ptx)), name


def test_every_wait_of_the_instruction_set_is_tried() -> None:
    waits = """
        bar.sync 0; @%p1 bar.sync 1, 64; barrier.cta.sync.aligned 0; bar.warp.sync -1; bar.red.popc.u32 %r, 0, %p;
        barrier.cluster.arrive.release.aligned ; cp.async.wait_group 1; cp.async.wait_all ; cp.async.bulk.wait_group 0;
        fence.acq_rel.gpu; fence.sc.sys; membar.gl; @%p2 fence.acq_rel.gpu;
    """
    assert _WAIT.sub("", waits).split() == []
    assert _WAIT.sub("", "fence.proxy.alias; bar.x; shfl.sync.idx.b32 %r1, %r2;").count(";") == 3

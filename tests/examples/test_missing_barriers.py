"""Without any one of its barriers, waits and fences, and with any one of the orders that it relies on weakened, a
kernel fails in the emulator: none is there for nothing, and a lowering that forgot one would be found out."""

from __future__ import annotations

import functools
import json
import random
import re

import kernel_cases
import numpy as np
import pytest
from example_launches import Entry, Launch, cases, launch, survives
from example_launches import entry_of as entry_with

import tileiras
from tests.kernels.deletions import deletions
from tileiras.sim import emulate

_ORDER = re.compile(r"\.(acquire|release|acq_rel)(\.(?:cta|cluster|gpu|sys)\.)")
_SCOPE = re.compile(r"(\.(?:acquire|release|acq_rel)\.)(?:cluster|gpu|sys)\.")
_FENCED = re.compile(
    r"fence\.acq_rel\.(?P<scope>\w+);(?P<updates>(?:(?!fence\.).)*?\batom\.relaxed\.(?:(?!fence\.).)*)"
    r"fence\.acq_rel\.(?P=scope);", re.DOTALL,
)  # fmt: skip
"""Updates between two fences, which are their order together."""


#: Takes the place of the kernel in blocks of z = 1: thread t waits for row t of the table, then overwrites gradient
#: elements that others read.
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
    could have, sees an update and assumes that the reads before it are complete."""
    (case,) = (case for case in kernel_cases.CASES if case.entry == "scatter_add")
    plain = launch(case, gpu_name="sm_90", tensor_maps="none")
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


CASES = cases(more=True)
BOXES = ("attention.py:attention", "matmul.py:matmul_bf16", "matmul.py:matmul_tf32", "matmul_batched.py:matmul_batched",
         "moe_matmul.py:moe_matmul")  # fmt: skip
"""Plans that the rule specializes, and rings of boxes without agents."""
SAMPLE, MOST = 5, 12
"""Deletions of each of these, and of each kernel without boxes; `tests/conformance/deletions.py` makes all."""


def _target(case) -> str:
    return "sm_90" if "sm_90" in getattr(case, "targets", ["sm_90"]) else case.targets[-1]


@functools.cache
def entry_of(name: str, maps: str = "none") -> Entry:
    if ".py:" in name:
        pytest.importorskip("cuda.tile")
    result = [launch(case, gpu_name=_target(case), tensor_maps=maps) for case in CASES[name]]
    if name == "scatter_add.py:scatter_add":
        result.append(_observed_scatter_add())
    entry = entry_with(result)
    assert survives(entry, entry.ptx)
    return entry


def is_of_updates(ptx: str, span: tuple[int, int]) -> bool:
    """Whether a fence is one of two that are the order of updates together."""
    return any(at in range(*span) for each in _FENCED.finditer(ptx) for at in (each.start(), each.end("updates")))


def changed(ptx: str, pattern: re.Pattern[str], replacement: str) -> list[tuple[str, str]]:
    """(the line as it was, the text with one match replaced) for every match."""
    return [
        (ptx[ptx.rfind("\n", 0, match.start()) + 1 : ptx.find("\n", match.end())].strip(),
         ptx[: match.start()] + match.expand(replacement) + ptx[match.end() :])
        for match in pattern.finditer(ptx) if not is_of_updates(ptx, match.span())
    ]  # fmt: skip


def without_orders(ptx: str) -> str:
    return _ORDER.sub(r".relaxed\2", _FENCED.sub(r"\g<updates>", ptx))


def weaker_fences(ptx: str) -> list[tuple[str, str]]:
    """As `changed`, for the fences of updates that have an order together: without both, or for one CTA only."""
    result = []
    for match in _FENCED.finditer(ptx):
        narrow = f"fence.acq_rel.cta;{match['updates']}fence.acq_rel.cta;"
        for weaker in (match["updates"], *((narrow,) if match["scope"] != "cta" else ())):
            result.append((f"fence.acq_rel.{match['scope']} twice", ptx[: match.start()] + weaker + ptx[match.end() :]))
    return result


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", sorted(CASES))
def test_synchronization_is_minimal(name: str) -> None:
    entry = entry_of(name)
    sites = [each for each in deletions(entry.ptx) if not is_of_updates(entry.ptx, each.span)]
    if not sites:
        pytest.skip("nothing in the kernel orders")
    chosen = random.Random(name).sample(sites, min(MOST, len(sites)))
    assert [each.deleted for each in chosen if survives(entry, each.text)] == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", BOXES)
def test_synchronization_of_boxes_is_minimal(name: str) -> None:
    entry = entry_of(name, "host")
    sites = deletions(entry.ptx)
    assert {"wait for a phase", "mbarrier", "arrival", "fence"} <= {each.kind for each in sites}
    chosen = random.Random(name).sample(sites, min(SAMPLE, len(sites)))
    assert [each.deleted for each in chosen if survives(entry, each.text)] == []


RELYING = ("last_block_reduction.mlir:last_block_reduction", "prefix_sum.mlir:prefix_sum", "scatter_add.py:scatter_add",
           "spin_lock.mlir:spin_lock")  # fmt: skip
"""Kernels whose thread blocks synchronise; most others have no order that could be broken."""


@pytest.mark.parametrize("name", [*RELYING, *(pytest.param(name, marks=pytest.mark.slow)
                                              for name in sorted(CASES.keys() - set(RELYING)))])  # fmt: skip
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
    for name in RELYING:
        entry = entry_of(name)
        assert not survives(entry, without_orders(entry.ptx)), name


def test_all_that_orders_is_tried() -> None:
    orders = """
        bar.sync 0; @%p1 bar.sync 1, 64; barrier.cta.sync.aligned 0; bar.warp.sync -1; bar.red.popc.u32 %r, 0, %p;
        barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire ; cp.async.wait_group 1;
        cp.async.wait_all ; cp.async.bulk.wait_group 0; fence.acq_rel.gpu; fence.sc.sys; membar.gl;
        @%p2 fence.acq_rel.gpu; fence.proxy.async.shared::cta; fence.mbarrier_init.release.cluster;
        mbarrier.init.shared.b64 [%r], 1;
        mbarrier.arrive.expect_tx.shared.b64 _, [%r], 64; cp.async.mbarrier.arrive.noinc.shared.b64 [%r];
        wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
        tcgen05.wait::ld.sync.aligned; tcgen05.fence::after_thread_sync; griddepcontrol.wait; cp.async.commit_group;
        mbarrier.try_wait.parity.shared.b64 %p1, [%r], %r2; not.pred %p2, %p1; @%p2 bra $AGAIN;
    """
    result = deletions(orders)
    assert len(result) == 27 and result[-1].kind == "wait for a phase"
    last = deletions("mbarrier.try_wait.parity.shared.b64 %p1, [%r], %r2; @%p1 bra $ON; bra.uni $AGAIN;")
    assert [(each.kind, each.text) for each in last] == [("last wait for a phase", "bra $ON;")]
    assert deletions("bar.x; shfl.sync.idx.b32 %r1, %r2; mma.sync.aligned;") == []

"""The order between threads and the asynchronous proxy in shared memory: correct plans are accepted, and deletions from
them are detected where the emulator detects them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import tileiras
from tests.kernels import dots
from tests.kernels.views import Kernel
from tileiras.analysis import proxy_order
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.ir import ArrayAttr, IntegerAttr, Operation, i32, parse_module
from tileiras.sim import EmulationError

KERNELS = {
    "product": lambda gpu: dots.matmul((64, 64, 64), steps=4),
    "small product": lambda gpu: dots.matmul((16, 64, 64), steps=4),
    "converted": lambda gpu: dots.converted((16, 64, 64), "b", "f8E4M3FN", "f16", steps=3),
    "chained": lambda gpu: dots.chained((64, 64, 64, 64)),
    "attention": lambda gpu: dots.attention_like(1, columns=64, steps=4, halved=True, gpu_name=gpu),
    "small attention": lambda gpu: _at_run_time(gpu),
    "small attention in large steps": lambda gpu: _at_run_time(gpu, columns=128),
    "two loops": lambda gpu: dots.attention_in_two_loops(2, 3, 1, rows=128, columns=64, depth=64, gpu_name=gpu),
}


def _at_run_time(gpu: str, columns: int = 64) -> Kernel:
    kernel = dots.attention_like(1, rows=16, columns=columns, depth=128, halved=True, gpu_name=gpu)
    return dots.with_steps_at_run_time(kernel, 3)


def found_in(module: Operation) -> list[tuple[Operation, str]]:
    functions = [op for op in module.regions[0].operations if isinstance(op, aa.FuncOp)]
    return [finding for func in functions for finding in proxy_order.order_errors(func)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", KERNELS)
def test_right_plans_are_accepted(name, gpu):
    """Before its tiles become threads, a kernel is looked at."""
    kernel = KERNELS[name](gpu)
    for maps in ("none", "host", "device"):
        for strategy in ("none", "unspecialize", "warp-specialize"):
            kernel.compiled(gpu, emit="llvm", tensor_maps=maps, pipeline_strategy=strategy)


# ---- deletions ------------------------------------------------------------------------------------------------------

ORDERING = (
    names.FENCE_PROXY, tileas.BarrierOp.name, tileas.AsyncWaitOp.name, f"{names.TENSOR_MEMORY}wait",
    names.TMA_STORE_TAIL, "nv_tileas.async.future_wait",
)  # fmt: skip

_OF_PROXIES = re.compile(r"wgmma\.mma_async|tcgen05\.mma|cp\.async|fence\.proxy")
_NOT_OF_SHARED_MEMORY = re.compile(r"accumulator|of tensor memory|was initialised")
"""Registers of products, columns of tensor memory and mbarriers are ordered by other rules."""


def without_each(text: str) -> Iterator[tuple[str, Operation]]:
    """The module without each operation that orders; of one whose result is used, with a wait for a group less."""
    count = sum(op.name in ORDERING for op in parse_module(text, "k.tileas.mlir").walk())
    for number in range(count):
        module = parse_module(text, "k.tileas.mlir")
        op = [op for op in module.walk() if op.name in ORDERING][number]
        name = f"{op.name} number {number}"
        if any(result.has_uses for result in op.results):
            op.attributes["pending"] = IntegerAttr(min(7, op.pending.value + 1), i32)  # type: ignore[attr-defined]
        else:
            op.erase()
        yield name, module


def _emulator_says(kernel: Kernel, module: Operation, gpu: str, path, monkeypatch) -> str:
    """The emulator's error, where it is one of proxies or of asynchronous reads."""
    path.write_text(str(module), encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(proxy_order, "order_errors", lambda func: iter(()))
        artifact = tileiras.compile(path, gpu_name=gpu)
    for seed in (None, 0):
        try:
            kernel.emulated(artifact, seed)
        except (EmulationError, AssertionError) as error:
            result = str(error)
            return result if _OF_PROXIES.search(result) and not _NOT_OF_SHARED_MEMORY.search(result) else ""
    return ""


def _check_deletions(name, gpu, options, path, monkeypatch):
    kernel = KERNELS[name](gpu)
    missed = objections = 0
    for deleted, module in without_each(kernel.compiled(gpu, emit="tileas", **options).text):
        objects = bool(found_in(module))
        message = _emulator_says(kernel, module, gpu, path, monkeypatch)
        assert objects or not message, (deleted, message)
        objections += objects
        missed += bool(message)
    assert objections >= missed > 0


QUICK = [
    ("small product", "sm_90", {"pipeline_strategy": "unspecialize"}),
    ("product", "sm_100", {"tensor_maps": "host", "pipeline_strategy": "unspecialize"}),
]  # fmt: skip


@pytest.mark.parametrize("name, gpu, options", QUICK)
def test_a_deletion_is_missed_where_the_emulator_does(name, gpu, options, tmp_path, monkeypatch):
    _check_deletions(name, gpu, options, tmp_path / "k.tileas.mlir", monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("maps, strategy", [("none", "unspecialize"), ("host", "unspecialize"), ("host", "auto")])
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100"])
@pytest.mark.parametrize("name", KERNELS)
def test_every_deletion_is_missed(name, gpu, maps, strategy, tmp_path, monkeypatch):
    options = {"tensor_maps": maps, "pipeline_strategy": strategy}
    _check_deletions(name, gpu, options, tmp_path / "k.tileas.mlir", monkeypatch)


@pytest.mark.parametrize("stage", [0, 1])
def test_scratch_over_operands_of_a_dot_in_flight(stage):
    """A reduction behind the dot of a loop exchanges elements where the dot reads its computed operand, which has two
    buffers in turn.  In steps of 64 columns an SM holds two CTAs, and each waits for its dots before its reductions."""
    module = _at_run_time("sm_90", columns=128).tileas("sm_90")
    (store,) = (op for op in module.walk() if isinstance(op, tileas.StoreTensorOp) and _is_in_loop(op))
    assert store.buffer.type.stages == 2
    place = store.buffer.defining_op.offset.value + stage * 16 * 128 * 2
    last = [op for op in module.walk() if isinstance(op, tileas.ReduceOp) and op.parent is store.parent][-1]
    area = tileas.scratch_areas(last)[0]
    moved = tileas.ScratchAttr(place, area.bytes, area.rounds, area.joins, area.waits, area.barrier, area.threads)
    assert not found_in(module)
    last.attributes[tileas.SCRATCH] = ArrayAttr([moved])
    ((op, result),) = found_in(module)
    assert op is last and names.ASYNC_DOT in result


def _is_in_loop(op: Operation) -> bool:
    return op.parent_op is not None and op.parent_op.name == "scf.for"

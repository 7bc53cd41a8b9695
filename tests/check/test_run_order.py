"""Claims that results are the same in every run, executed in orders of the emulator."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.kernels.checked import module, row_sums
from tileiras.analysis.run_order import order_dependences
from tileiras.check.checker import check
from tileiras.sim import emulate
from tileiras.units import entries_of

SEEDS = range(12)


def added(element: str, mode: str) -> str:
    """Every tile block adds its element of `x` to `out[0]`."""
    return module(f"""
    %block, %y, %z = get_tile_block_id : tile<i32>
    %from = offset %x, %block : tile<ptr<{element}>>, tile<i32> -> tile<ptr<{element}>>
    %value, %t = load_ptr_tko weak %from : tile<ptr<{element}>> -> tile<{element}>, token
    %old, %t1 = atomic_rmw_tko relaxed device %out, {mode}, %value
        : tile<ptr<{element}>>, tile<{element}> -> tile<{element}>, token
""", f"%x: tile<ptr<{element}>>, %out: tile<ptr<{element}>>")


def results(text: str, grid, *arguments) -> set[bytes]:
    """The bits of the second argument, under each seed."""
    artifact = tileiras.compile(text, gpu_name="sm_90")
    seen = set()
    for seed in SEEDS:
        given = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
        emulate(artifact.text, "k", grid, given, seed=seed)
        seen.add(given[1].tobytes())
    return seen


def dependences(text: str):
    return order_dependences(entries_of(tileiras.parse(text))[0])


@pytest.mark.parametrize("kind", ["float", "integer", "sums of rows"])
def test_runs_differ_where_the_claim_says_so_and_nowhere_else(kind):
    numbers = np.array([1e8, 1, -1e8, 3, 1e-3, 7], np.float32)
    if kind == "sums of rows":
        text, grid = row_sums(), (4, 1, 1)
        arguments = [np.random.default_rng(1).standard_normal(1024, np.float32), np.zeros(1024, np.float32), 1024]
    else:
        text, grid = added("f32", "addf") if kind == "float" else added("i32", "add"), (6, 1, 1)
        element = np.float32 if kind == "float" else np.int32
        arguments = [numbers.astype(element), np.zeros(1, element)]
    may_differ = bool(dependences(text))
    assert may_differ is (kind == "float")
    assert (len(results(text, grid, *arguments)) > 1) is may_differ


def test_a_verdict_names_the_operation():
    (dependence,) = check(added("f32", "addf"), gpu_name="sm_90").order
    assert dependence.operation == "atomic_rmw_tko" and ":7:" in dependence.location
    verdict = check(added("i32", "add"), gpu_name="sm_90")
    assert not verdict.order and verdict.short()["deterministic"] is True


def test_a_build_can_require_the_same_result():
    with pytest.raises(tileiras.CompileError, match="may differ from run to run"):
        tileiras.compile(added("f32", "addf"), gpu_name="sm_90", deterministic="require")
    texts = {tileiras.compile(row_sums(), gpu_name="sm_90", deterministic=word).text for word in ("any", "require")}
    assert len(texts) == 1

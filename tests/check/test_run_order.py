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
ORDERS = ([0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 0, 5, 1, 4, 3])


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


STORE = "%o = store_ptr_tko {} device %out, %value : tile<ptr<i32>>, tile<i32> -> token"
UPDATE = (
    "%o{0}, %u{0} = atomic_rmw_tko relaxed device %out, {0}, %value"
    " : tile<ptr<i32>>, tile<i32> -> tile<i32>, token"
)
BODIES = {
    "one kind": UPDATE.format("add"),
    "two kinds": UPDATE.format("add") + "\n" + UPDATE.format("max"),
    "two kinds of bits": UPDATE.format("xor") + "\n" + UPDATE.format("add"),
    "relaxed stores": STORE.format("relaxed"),
    "release stores": STORE.format("release"),
}


@pytest.mark.parametrize("name", BODIES)
def test_blocks_in_any_order_give_what_the_claim_says(name):
    """Each block runs alone: seeds of the emulator advance the warps of all blocks together."""
    text = module(f"""
    %block, %y, %z = get_tile_block_id : tile<i32>
    %from = offset %x, %block : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %value, %t = load_ptr_tko weak %from : tile<ptr<i32>> -> tile<i32>, token
    {BODIES[name]}
""", "%x: tile<ptr<i32>>, %out: tile<ptr<i32>>")
    artifact, seen = tileiras.compile(text, gpu_name="sm_90"), set()
    for order in ORDERS:
        arguments = [np.array([5, -3, 17, 2, 9, -8], np.int32), np.zeros(1, np.int32)]
        for block in order:
            emulate(artifact.text, "k", (6, 1, 1), arguments, blocks=[block])
        seen.add(int(arguments[1][0]))
    assert (len(seen) > 1) is bool(dependences(text)) is (name != "one kind")


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

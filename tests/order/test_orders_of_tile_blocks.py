"""Claims on the order of tile blocks, executed: each block runs alone, in several orders.

Seeds of the emulator advance the warps of all blocks together.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from certificates import built, output  # noqa: E402

from tests.kernels.checked import module, pointers  # noqa: E402
from tileiras.check.checker import check  # noqa: E402
from tileiras.sim import emulate  # noqa: E402

BLOCKS = 4
ORDERS = list(itertools.permutations(range(BLOCKS)))[::5]
NUMBERS = {"f32": np.array([1e8, 1, -1e8, 3], np.float32), "i32": np.array([5, -3, 17, 2], np.int32)}


def kernel(body: str, element: str = "i32") -> str:
    """Each tile block reads its element %value of %x."""
    return module(f"""
    %block, %y, %z = get_tile_block_id : tile<i32>
    %from = offset %x, %block : tile<ptr<{element}>>, tile<i32> -> tile<ptr<{element}>>
    %value, %t = load_ptr_tko weak %from : tile<ptr<{element}>> -> tile<{element}>, token
    {body}
""", f"%x: tile<ptr<{element}>>, %out: tile<ptr<{element}>>, %p: tile<ptr<i32>>")


def update(mode: str, element: str = "i32") -> str:
    return (
        f"%o{mode}, %u{mode} = atomic_rmw_tko relaxed device %out, {mode}, %value"
        f" : tile<ptr<{element}>>, tile<{element}> -> tile<{element}>, token\n"
    )


def stored(value: str, at: str, order: str = "relaxed device") -> str:
    return (
        f"%to_{at} = offset %out, %{at} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
        f"%u_{at} = store_ptr_tko {order} %to_{at}, %{value} : tile<ptr<i32>>, tile<i32> -> token\n"
    )


def tiles_stored(distance: int) -> str:
    """Tiles of four elements, with this distance between those of neighbouring tile blocks."""
    return f"""{pointers("%out", "i32", 4, distance)}
    %one_value = reshape %value : tile<i32> -> tile<1xi32>
    %values = broadcast %one_value : tile<1xi32> -> tile<4xi32>
    %u = store_ptr_tko relaxed device %at, %values : tile<4xptr<i32>>, tile<4xi32> -> token
"""


TWO = "%two = constant <i32: 2> : tile<i32>\n%half = divi %block, %two unsigned : tile<i32>\n"
ZERO = "%zero = constant <i32: 0> : tile<i32>\n"
ACQUIRED = "%flag, %acquired = load_ptr_tko acquire device %x : tile<ptr<i32>> -> tile<i32>, token\n"
AT_HALF = (
    "%other = offset %x, %half : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
    "%seen, %t2 = load_ptr_tko weak %other : tile<ptr<i32>> -> tile<i32>, token\n"
)
STORES = {
    "stores to an element of each block": (stored("value", "block"), "yes"),
    "stores of each block's number": (stored("block", "block"), "yes"),
    "stores to an element of two blocks": (TWO + stored("value", "half"), "unknown"),
    "stores of the element beside": (TWO + AT_HALF + stored("seen", "half"), "yes"),
    "stores to one element": (ZERO + stored("value", "zero"), "unknown"),
    "releases of one element": (ZERO + stored("value", "zero", "release device"), "unknown"),
    "stores of a constant": (ZERO + stored("zero", "zero"), "yes"),
    "stores after an acquire": (ZERO + ACQUIRED + stored("value", "zero", "weak"), "unknown"),
    "two stores": (ZERO + stored("value", "block") + stored("value", "zero"), "unknown"),
    "tiles beside each other": (tiles_stored(4), "yes"),
    "tiles that overlap": (tiles_stored(2), "unknown"),
    "tiles one element apart": (tiles_stored(1), "unknown"),
}  # fmt: skip

TENSOR = "tensor_view<4xi32, strides=[1]>"
TILES = f"partition_view<tile=(4), {TENSOR}>"
TICKET = (
    "%one = constant <i32: 1> : tile<i32>\n"
    "%ticket, %k = atomic_rmw_tko relaxed device %p, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token\n"
    "%first = cmpi equal %ticket, %zero, signed : tile<i32> -> tile<i1>\n"
    "%at = offset %out, %block : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
    "%n1 = reshape %block : tile<i32> -> tile<1xi32>\n%n4 = broadcast %n1 : tile<1xi32> -> tile<4xi32>\n"
)
"""The counter %p numbers tile blocks in the order in which they arrive."""


def view(base: str, size: str = "4") -> str:
    tensor = TENSOR if size == "4" else TENSOR.replace("4xi32", "?xi32")
    types = tensor if size == "4" else f"tile<i32> -> {tensor}"
    return (
        f"%tensor = make_tensor_view {base}, shape = [{size}], strides = [1] : {types}\n"
        f"%tiles = make_partition_view %tensor : {TILES.replace(TENSOR, tensor)}\n"
    )


OF_TICKETS = {
    "a mask of a store": "%u = store_ptr_tko weak %out, %value, %first : tile<ptr<i32>>, tile<i32>, tile<i1> -> token",
    "a mask of a load": """
        %v, %t2 = load_ptr_tko weak %from, %first, %zero : tile<ptr<i32>>, tile<i1>, tile<i32> -> tile<i32>, token
        %u = store_ptr_tko weak %at, %v : tile<ptr<i32>>, tile<i32> -> token""",
    "a trip count": """
        %four = constant <i32: 4> : tile<i32>
        %row = muli %block, %four : tile<i32>
        %start = offset %out, %row : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
        for %i in (%zero to %ticket, step %one) : tile<i32> {
          %to = offset %start, %i : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
          %u = store_ptr_tko weak %to, %one : tile<ptr<i32>>, tile<i32> -> token
          continue
        }""",
    "a base of a store": f"""
        %four = constant <i32: 4> : tile<i32>
        %row = muli %ticket, %four : tile<i32>
        %base = offset %out, %row : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
        {view("%base")}
        %u = store_view_tko weak %n4, %tiles[%zero] : tile<4xi32>, {TILES}, tile<i32> -> token""",
    "a base of a load": f"""
        %base = offset %x, %ticket : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
        {view("%base")}
        %v, %t2 = load_view_tko weak %tiles[%zero] : {TILES}, tile<i32> -> tile<4xi32>, token
        %sum = reduce %v dim=0 identities=[0 : i32] : tile<4xi32> -> tile<i32> (%a: tile<i32>, %b: tile<i32>) {{
          %c = addi %a, %b : tile<i32>
          yield %c : tile<i32>
        }}
        %u = store_ptr_tko weak %at, %sum : tile<ptr<i32>>, tile<i32> -> token""",
    "a size of a view": f"""
        %four = constant <i32: 4> : tile<i32>
        %row = muli %block, %four : tile<i32>
        %base = offset %out, %row : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
        {view("%base", "%ticket")}
        %u = store_view_tko weak %n4, %tiles[%zero] : tile<4xi32>, {TILES.replace("4xi32", "?xi32")}, tile<i32>
            -> token""",
}

KERNELS = {
    **{f"{name} by arrival": (kernel(ZERO + TICKET + body), None) for name, body in OF_TICKETS.items()},
    **{name: (kernel(body), says) for name, (body, says) in STORES.items()},
    "float additions": (kernel(update("addf", "f32"), "f32"), "no"),
    "integer additions": (kernel(update("add")), "yes"),
    "two kinds": (kernel(update("add") + update("max")), "unknown"),
    "two kinds of bits": (kernel(update("xor") + update("add")), "unknown"),
    "exchanges": (kernel(update("xchg")), "unknown"),
}  # fmt: skip


def results(text: str) -> set[bytes]:
    """The results under several orders of tile blocks."""
    artifact, results = built(text), set()
    x = NUMBERS["f32" if "f32" in text else "i32"]
    for order in ORDERS:
        arguments = [np.concatenate((x, 3 * x)), np.zeros(4 * BLOCKS, x.dtype), np.zeros(1, np.int32)]
        for block in order:
            emulate(artifact.text, "k", (BLOCKS, 1, 1), arguments, blocks=[block])
        results.add(arguments[1].tobytes())
    return results


@pytest.mark.parametrize("name", KERNELS)
def test_results_differ_only_where_the_claim_permits_it(name):
    text, says = KERNELS[name]
    claim = output(text, 1).repeatable
    assert claim == says if says is not None else claim in ("no", "unknown")
    assert (len(results(text)) == 1) is (says == "yes")


def test_verdicts_name_the_operation():
    verdict = check(KERNELS["float additions"][0], gpu_name="sm_90")
    (out,) = verdict.order["outputs"]
    assert ":7:" in out["causes"][0]["location"]
    assert verdict.short()["deterministic"] is False
    for name, says in (("integer additions", True), ("exchanges", None)):
        assert check(KERNELS[name][0], gpu_name="sm_90", budget=0).is_deterministic is says

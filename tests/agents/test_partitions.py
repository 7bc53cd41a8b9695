"""Operations that a text marks for another agent, with `nv_tile.aws.partition`: the split follows the marks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.agents.running import SEEDS
from tests.kernels.dots import dot
from tests.kernels.views import ONE, Kernel, View, entry, operations, whole_numbers, zeros
from tests.tileas_stage import compiled_and_described, through
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.ir import Operation, parse_module, print_op

TILES = 64, 64, 64
OPTIONS = {"pipeline_strategy": "warp-specialize", "tensor_maps": "host", "num_stages": 8}
MARK = "nv_tile.aws.partition = #nv_tileas.partition<store>"


def two_stores(count: int = 2, steps: int = 8) -> Kernel:
    """Round t stores the product of row tile t of A with B, and its negative."""
    m, n, k = TILES
    a, b = View("a", (m, k), "f16", (m * count, k * steps), padding="zero"), View("b", (k, n), "f16", (k * steps, n))
    c, d = (View(name, (m, n), "f32", (m * count, n), padding="zero") for name in "cd")
    body = [
        ONE, zeros("none", c.tile),
        f"%count = constant <i32: {count}> : tile<i32>", f"%steps = constant <i32: {steps}> : tile<i32>",
        "for %t in (%zero to %count, step %one) : tile<i32> {",
        f"%sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> ({c.tile}) {{",
        a.load("a", "%t, %i"), b.load("b", "%i, %zero"), dot("next", "a", "b", "acc", (a.tile, b.tile, c.tile)),
        f"continue %next : {c.tile}", "}",
        f"%less = negf %sum : {c.tile}", c.store("sum", "%t, %zero"), d.store("less", "%t, %zero"), "continue", "}",
    ]  # fmt: skip
    left, right = whole_numbers(a.shape, "f16", 1, 3), whole_numbers(b.shape, "f16", 2, 3)
    product = left.astype(np.float32) @ right.astype(np.float32)
    before = np.zeros_like(product), np.zeros_like(product)
    return Kernel(entry([a, b, c, d], body), (left, right), before, (product, -product))


def marked(kernel: Kernel, gpu: str, chosen: list[int]) -> Operation:
    """The kernel with agents that load and compute, and marks on some of its stores, written as text and read again."""
    module = kernel.after("tileas-materialize-async", gpu, **OPTIONS)
    stores = operations(module, tileas.TiledStoreOp)
    for number in chosen:
        stores[number].attributes[tileas.PARTITION] = tileas.PartitionAttr("store")
    text = print_op(module)
    assert text.count(MARK) == len(chosen)
    return parse_module(text, "marked.mlir")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100"])
@pytest.mark.parametrize("chosen", [[0], [1], []], ids=["first", "second", "by the rule"])
def test_marked_stores_leave_and_others_stay(gpu, chosen):
    kernel = two_stores()
    module = through(marked(kernel, gpu, chosen), gpu=gpu, from_="tileas-specialize-stores", **OPTIONS)
    (switch,) = operations(module, AgentSwitchOp)
    moved = sum(isinstance(op, tileas.TmaStoreStageOp) for top in switch.agents[-1].operations for op in top.walk())
    assert moved == (len(chosen) or 2) and "partition" not in print_op(module)
    code, metadata = compiled_and_described(module, gpu)

    class Built:
        text, kernels = code, [type("Entry", (), {"metadata": metadata["kernels"][0]})]

    for seed in SEEDS[:2]:
        kernel.emulated(Built, seed)  # type: ignore[arg-type]

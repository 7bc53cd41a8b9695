"""Attention on sm_100: a warp of its own issues both products, that of the next iteration's scores first, while the
warps that compute have the exponentials of this one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.agents.chained_attention import GPU, ORDERS, agents, attention, rounds, two_loops, with_unknown_steps
from tests.agents.running import SEEDS, SPECIALIZED, sites, survives
from tests.kernels.dots import attention_like
from tests.kernels.gradients import of_keys, of_queries, repeated
from tests.kernels.reasons import stated
from tileiras.sim.interpreter.lowered import execute

KERNELS = {
    "64 rows": lambda: attention(),
    "64 rows, more steps than stages": lambda: attention(steps=9, columns=32, depth=32),
    "128 rows": lambda: attention(rows=128),
    "two steps": lambda: attention(steps=2),
    "two loops": lambda: two_loops(2, 3),
    "two loops of 128 rows": lambda: two_loops(3, 2, rows=128),
}
RUN = [
    *((name, "host") for name in KERNELS),
    *((name, maps) for name in ("64 rows", "two loops") for maps in ("none", "device")),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "maps"), RUN)
def test_kernels_in_any_order_of_their_agents(name, maps, assemble):
    kernel = KERNELS[name]()
    loads = 4 if maps == "none" else 1
    assert agents(kernel, tensor_maps=maps) == f"4, {loads}, 1"
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps=maps, **SPECIALIZED)
    assert assemble(artifact.text, GPU).stack == 0
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


@pytest.mark.parametrize("maps", ["none", "host"])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_number_of_iterations_that_is_known_at_run_time(maps, steps):
    """The first product of an iteration stands before the loop, in a branch for loops that do not run."""
    other = with_unknown_steps(attention(steps=max(steps, 1)), steps)
    assert agents(other, tensor_maps=maps) == f"4, {4 if maps == 'none' else 1}, 1"
    artifact = other.compiled(GPU, emit="ptx", tensor_maps=maps, **SPECIALIZED)
    for seed in SEEDS[:2]:
        other.emulated(artifact, seed)


@pytest.mark.parametrize(("maps", "warps"), [("host", "4, 1, 1, 1"), ("none", "4, 4, 1")])
def test_loops_over_tiles_fill_an_operand_again(maps, warps):
    """The copy follows the products of the last round that read the operand; the buffer of the stores does not take its
    place.  With two rounds no load runs ahead."""
    kernel = rounds(attention(1, steps=5, columns=32, depth=32), 2)
    assert agents(kernel, tensor_maps=maps) == warps
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps=maps, **SPECIALIZED)
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


GRADIENTS = {
    "queries": (lambda: of_queries(5), "host", "4, 1, 1"),
    "queries, copies": (lambda: of_queries(3, 128, 64, 64, "bf16"), "none", "4, 4, 1"),
    "queries, device": (lambda: of_queries(2, 64, 32, 32), "device", "4, 1, 1"),
    "queries, one step": (lambda: repeated(of_queries(1, 64, 32, 32), 1), "host", "4, 1, 1"),
    "queries, no step": (lambda: repeated(of_queries(1, 64, 32, 32), 0), "host", "4, 1, 1"),
    "keys": (lambda: of_keys(5), "host", "4, 1, 1"),
    "keys, copies": (lambda: of_keys(3, 64, 64, 64, "bf16"), "none", "4, 4, 1"),
    "keys, no step": (lambda: repeated(of_keys(1, 64, 64, 32), 0), "host", "4, 1, 1"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", GRADIENTS)
def test_products_of_both_parts_read_one_tile(name, assemble):
    """The next iteration's first products need its stage before this one's last product has given its own back."""
    make, maps, warps = GRADIENTS[name]
    kernel = make()
    assert agents(kernel, tensor_maps=maps, num_warps=4) == warps
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps=maps, num_warps=4, **SPECIALIZED)
    assemble(artifact.text, GPU)
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


MEANT = {
    "64 rows": (lambda: attention(1, 2, columns=32, depth=32), "none"),
    "two loops": (lambda: two_loops(1, 2), "host"),
    "rounds": (lambda: rounds(attention(1, 2, columns=32, depth=32), 2), "host"),
    "queries": (lambda: of_queries(2, 64, 32, 32), "host"),
    "keys": (lambda: of_keys(2, 64, 32, 32), "none"),
}


@pytest.mark.parametrize("name", MEANT)
def test_the_module_of_the_agents_is_executed(name):
    """An operand that does not change is copied by the agent of dots after the wait for it."""
    make, maps = MEANT[name]
    kernel = make()
    options = {"tensor_maps": maps, "num_warps": 4, **SPECIALIZED}
    module = kernel.after("tileas-specialize-mma", GPU, **options)
    result = [array.copy() for array in kernel.outputs]
    execute(module, kernel.grid, [*kernel.inputs, *result])
    for got, wanted in zip(result, kernel.expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
def test_the_rest_of_the_family(gpu, assemble):
    kernel = attention_like(2, rows=128, columns=64, depth=64, steps=3, gpu_name=gpu, halved=True)
    artifact = kernel.compiled(gpu, emit="ptx", tensor_maps="host", **SPECIALIZED)
    assert artifact.kernels[0].metadata["block"][0] == 192 and "tcgen05.ld.red" in artifact.text
    assemble(artifact.text, gpu)
    kernel.emulated(artifact, 1)


KEPT = {
    "columns": (lambda: attention(4, 6), "chained.columns taken=160 most=128"),
}


@pytest.mark.parametrize("name", sorted(KEPT))
def test_operations_that_stay_with_the_compute_agent(name):
    make, reason = KEPT[name]
    artifact = make().compiled(GPU, emit="tileas", tensor_maps="host", **SPECIALIZED)
    assert f"agents.dots-stay; {reason}" in stated(artifact.diagnostics)


@pytest.mark.slow
def test_synchronization_is_minimal():
    kernel = attention(steps=9, columns=32, depth=32)
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps="host", **SPECIALIZED)
    # Commits arrive by the asynchronous proxy; the emulator asks for the fence behind `mbarrier.init` of copies only.
    result = [(line, broken) for line, broken in sites(artifact.text) if not line.startswith("fence.mbarrier_init")]
    code = artifact.text
    result += [(each[0], code[: each.start()] + code[each.end() :]) for each in ORDERS.finditer(code)]
    assert sum("tcgen05.commit" in line for line, _ in result) == 7

    def judge(code: str, seed: int | None) -> None:
        kernel.emulated(artifact, seed, code)

    assert [line for line, broken in result if survives(broken, judge)] == []

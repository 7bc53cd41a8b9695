"""Attention on sm_100 whose accumulators an agent of their own rescales, beside the warps that compute exponentials."""

from __future__ import annotations

import inspect
import re
from types import SimpleNamespace

import numpy as np
import pytest

from tests.agents.chained_attention import GPU, ORDERS, attention, two_loops, with_unknown_steps
from tests.agents.running import SEEDS, SPECIALIZED, sites, survives
from tests.conformance import tiled_kernels
from tests.kernels.attention_tiles import of_tiles
from tests.kernels.dots import attention_like
from tests.kernels.reasons import stated
from tests.kernels.views import Kernel, operations
from tests.tileas_stage import compiled_and_described, through
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.ir import parse_module, print_op
from tileiras.schedule.agents.rules import correction

MOVED = "agents.corrections-specialized warps={}"


def rescaled(steps: int, rows: int = 128, columns: int = 64, depth: int = 64, gpu: str = GPU) -> Kernel:
    """Attention-like: a row of O is halved where an iteration raises its maximum, and left as it is elsewhere."""
    kernel = attention_like(1, rows=rows, columns=columns, depth=depth, steps=steps, gpu_name=gpu, halved=True)
    row, flags = f"tile<{rows}x1xf32>", f"tile<{rows}x1xi1>"
    factor = f"""%same = cmpf equal ordered %m_1, %m_2 : {row} -> {flags}
    %less = constant <f32: 0.5> : {row}
    %factor = select %same, %l_0, %less : {flags}, {row}
    %half = broadcast %factor : {row} -> tile<{rows}x{depth}xf32>"""
    text, count = re.subn(r"%half = constant <f32: 0\.5> : \S+", factor, kernel.text)
    assert count == 1
    q, k, v = (each.astype(np.float64) for each in kernel.inputs)
    total, most = np.zeros((rows, depth)), np.full((rows, 1), -10000.0)
    for step in range(steps):
        part = slice(step * columns, (step + 1) * columns)
        scores = q @ k[:, part]
        before, most = most, np.maximum(most, scores.max(1, keepdims=True))
        total = np.where(before == most, 1.0, 0.5) * total + (scores - most).astype(np.float16).astype(float) @ v[part]
    return kernel._replace(text=text, expected=(total.astype(np.float32), *kernel.expected[1:]))


KERNELS = {
    "more steps than stages": (lambda: rescaled(9, 64, 32, 32), 4, {}),
    "four warps": (lambda: rescaled(4), 4, {}),
    "eight warps share rows": (lambda: rescaled(3), 8, {"num_warps": 8}),
    "256 rows": (lambda: rescaled(3, 256), 8, {}),
    "no tensor maps": (lambda: rescaled(3), 4, {"tensor_maps": "none"}),
    "maps of the kernel": (lambda: rescaled(3), 4, {"tensor_maps": "device"}),
    "two loops": (lambda: two_loops(2, 3, rows=128), 4, {}),
    "no step": (lambda: with_unknown_steps(attention(1, 1), 0), 4, {}),
    "one step": (lambda: with_unknown_steps(rescaled(1), 1), 4, {}),
    "a loop over tiles": (lambda: of_tiles(attention(1, 5, columns=32, depth=32), 4), 4, {}),
    "tiles of no step": (lambda: of_tiles(attention(1, 2, columns=32, depth=32), 4, least=0), 4, {}),
    "tiles without a counter": (
        lambda: of_tiles(attention(1, 4, columns=32, depth=32), 4, least=1, way="uncounted"), 4, {},
    ),
}  # fmt: skip


class Built:
    """PTX of a module with agents, and the metadata of its kernel."""

    def __init__(self, module, gpu: str = GPU) -> None:
        self.text, metadata = compiled_and_described(module, gpu)
        self.kernels = [SimpleNamespace(metadata=metadata["kernels"][0])]


def marked(kernel: Kernel, gpu: str = GPU, **options) -> Built:
    """A kernel all of whose scales a text marks, also where the rule leaves them to the warps that compute."""
    options = {"tensor_maps": "host", **SPECIALIZED, **options}
    module = kernel.after("tileas-specialize-stores", gpu, **options)
    for scale in operations(module, tileas.TensorScaleOp):
        scale.attributes[tileas.PARTITION] = tileas.PartitionAttr("correction")
    module = parse_module(print_op(module), "marked.mlir")
    return Built(through(module, gpu=gpu, from_="tileas-specialize-correction", **options), gpu)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_in_any_order_of_their_agents(name, assemble):
    make, compute, options = KERNELS[name]
    kernel = make()
    built = marked(kernel, **options)
    assert built.kernels[0].metadata["block"][0] >= 32 * (2 * compute + 2)
    assert assemble(built.text, GPU).stack <= 8
    for seed in SEEDS[:2]:
        kernel.emulated(built, seed)


def test_the_rule_moves_scales_where_an_sm_has_one_cta():
    artifact = rescaled(3, 256).compiled(GPU, emit="tileas", tensor_maps="host")
    assert MOVED.format(8) in stated(artifact.diagnostics)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
def test_the_rest_of_the_family(gpu, assemble):
    kernel = rescaled(3, gpu=gpu)
    built = marked(kernel, gpu)
    assemble(built.text, gpu)
    kernel.emulated(built, 1)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("type", [tiled_kernels.F16, tiled_kernels.BF16])
@pytest.mark.parametrize("tile", [(128, 64, 128), (256, 64, 64)])
def test_attention_of_the_front_end(tile, type, causal):
    """Of four tiles of keys, where causal attention also visits fewer."""
    import tileiras
    from tileiras.sim import emulate

    case = tiled_kernels.attention(tile, causal, hints="occupancy=1", steps=4, type=type)
    artifact = tileiras.compile(case.bytecode(), gpu_name=GPU, emit="ptx", tensor_maps="host", **SPECIALIZED)
    assert any("corrections-specialized" in code for code in stated(artifact.diagnostics))
    (entry,) = artifact.kernels
    case.run(lambda args: emulate(artifact.text, case.entry, case.grid, args, metadata=entry.metadata, seed=1))


def test_factors_cross_as_rows_and_the_accumulator_once():
    """The factor of a row is one element a thread; before the loop the accumulator is handed over."""
    module = rescaled(3, 256).after("tileas-specialize-correction", GPU, tensor_maps="host", **SPECIALIZED)
    pipes = [op for op in operations(module, tileas.CreatePipelineOp) if not op.buffers or op.kinds[1] == "ld_shared"]
    assert sorted((op.kinds, [str(each.type.tile.shape) for each in op.buffers]) for op in pipes) == [
        (("st_shared", "ld_shared"), ["(256, 1)"]), (("tcgen05_st", "tcgen05_ld"), []),
    ]  # fmt: skip
    (switch,) = operations(module, AgentSwitchOp)
    owners = [number for number, region in enumerate(switch.agents) for top in region.operations
              for op in top.walk() if isinstance(op, tileas.TensorScaleOp)]  # fmt: skip
    assert owners == [1]


STAYS = {
    "long iterations": (lambda: rescaled(2, columns=128), {}, "chained.scaled-at-long-intervals columns=128 most=64"),
    "large operands": (lambda: rescaled(2, depth=32), {}, "chained.scaled-at-long-intervals columns=64 most=32"),
    "several CTAs": (lambda: attention(2, 3), {}, "chained.scaled-beside-ctas ctas=3"),
}


@pytest.mark.parametrize("name", STAYS)
def test_accumulators_that_stay(name):
    make, options, reason = STAYS[name]
    artifact = make().compiled(GPU, emit="tileas", tensor_maps="host", **SPECIALIZED, **options)
    assert f"agents.corrections-stay; {reason}" in stated(artifact.diagnostics)


def test_marks_of_a_text_precede_the_rule():
    kernel = rescaled(2, columns=128)
    assert "chained.scaled-at-long-intervals" in str(kernel.compiled(GPU, emit="tileas", **SPECIALIZED).diagnostics)
    assert marked(kernel).kernels[0].metadata["block"] == [640, 1, 1]


def test_the_rule_is_short():
    assert len(inspect.getsource(correction).splitlines()) <= 150


@pytest.mark.slow
def test_synchronization_is_minimal():
    kernel = rescaled(9, 64, 32, 32)
    artifact = marked(kernel)
    code = artifact.text
    result = [(line, broken) for line, broken in sites(code) if not line.startswith("fence.mbarrier_init")]
    result += [(each[0], code[: each.start()] + code[each.end() :]) for each in ORDERS.finditer(code)]

    def judge(code: str, seed: int | None) -> None:
        kernel.emulated(artifact, seed, code)

    assert [line for line, broken in result if survives(broken, judge)] == []


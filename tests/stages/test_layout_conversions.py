"""How many layout conversions each example has, by what they cost.  A change of these numbers is a change of kernels.

Element-wise kernels and row reductions have none through shared memory.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import tileiras
from tileiras.ir import element_type_of, parse_module
from tileiras.layout.convert import classify
from tileiras.layout.encoding import layout_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# For a matrix product: the result before its store. A and B reach the fragments from the buffers of the pipeline.
GOLDEN = {
    "bytecode/vector_add.tileirbc": {},
    "bytecode/softmax.tileirbc": {},
    "bytecode/layer_norm.tileirbc": {},
    "bytecode/matmul_f16.tileirbc": {"shared": 1},
    "saxpy.mlir": {},
    "relu_add_2d.mlir": {},
    "transpose.mlir": {"shared": 1},
    "kernels/last_block_reduction.mlir": {},
    "kernels/mandelbrot.mlir": {},
    "kernels/prefix_sum.mlir": {},
    "kernels/spin_lock.mlir": {},
    "matmul_f32.mlir": {"shared": 1},
}


# Without asynchronous copies, A and B are converted as well.
UNSTAGED = {"bytecode/matmul_f16.tileirbc": {"shared": 3}, "matmul_f32.mlir": {"shared": 3}}


def conversions(source: Path, gpu_name: str, **options) -> dict[str, int]:
    """Kind of conversion -> how many in the nv_tileas form of the source."""
    text = tileiras.compile(source, gpu_name=gpu_name, emit="tileas", **options).text
    found: Counter[str] = Counter()
    for op in parse_module(text, source.name).walk():
        if op.name == "nv_tileas.convert_layout":
            bits = max(8, element_type_of(op.operand.type).width)
            found[classify(layout_of(op.operand.type), layout_of(op.result.type), bits)] += 1
    return dict(found)


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_100"])
@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_conversions_of_an_example(name: str, gpu_name: str) -> None:
    assert conversions(EXAMPLES / name, gpu_name) == GOLDEN[name]


@pytest.mark.parametrize("name", sorted(UNSTAGED))
def test_conversions_without_a_pipeline(name: str) -> None:
    assert conversions(EXAMPLES / name, "sm_75") == UNSTAGED[name]
    assert conversions(EXAMPLES / name, "sm_80", pipeline_strategy="none") == UNSTAGED[name]


def test_every_example_is_counted() -> None:
    kernels = {str(p.relative_to(EXAMPLES)) for suffix in ("mlir", "tileirbc") for p in EXAMPLES.rglob(f"*.{suffix}")}
    assert kernels == set(GOLDEN)

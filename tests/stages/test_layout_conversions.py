"""The number of layout conversions of each example, by cost.  If a number changes, so do the kernels.

Element-wise kernels and row reductions have no conversions through shared memory.
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
    "bytecode/matmul_f16.tileirbc": {"shared": 1, "staged": 2},
    "saxpy.mlir": {},
    "relu_add_2d.mlir": {},
    "transpose.mlir": {"shared": 1},
    "kernels/last_block_reduction.mlir": {},
    "kernels/mandelbrot.mlir": {},
    "kernels/prefix_sum.mlir": {"shuffle": 1},
    "kernels/spin_lock.mlir": {},
    "matmul_f32.mlir": {"shared": 1, "staged": 2},
}

# The dot is four steps along K, between which copies of the loop start (`tileas-interleave-copies`): A and B are read
# from the buffers by quarters.  On sm_100 boxes bring A and B, and take the result to memory.
BY_STEPS = {
    ("bytecode/matmul_f16.tileirbc", "sm_80"): {"shared": 1, "staged": 8},
    ("bytecode/matmul_f16.tileirbc", "sm_100"): {"staged": 2},
}

# Of whole kernels by entry, on sm_90 (f4 products on sm_100, which has them); "staged" are reads of tiles that
# asynchronous copies brought to shared memory.  A third is of 8-bit elements that lie across K: wgmma wants them along
# it.
# In attention only the queries and the result are converted: scores stay with their warp from one product to the next.
KERNELS = {
    "argmax.py": {"argmax": {}},
    "attention.py": {
        "attention": {"shared": 2, "staged": 2},
        "causal_attention": {"shared": 2, "staged": 2},
    },
    "attention_decode.py": {"attention_decode": {"shuffle": 3}},
    "black_scholes.py": {"black_scholes": {}},
    "conv2d.py": {"conv2d": {}, "conv2d_matmul": {"shuffle": 1, "shared": 1}},
    "cross_entropy.py": {"cross_entropy": {}},
    "dropout.py": {"dropout": {}},
    "embedding.py": {"embedding": {"shuffle": 1}},
    "fft.py": {"fft_stage": {}},
    "histogram.py": {"histogram": {"shared": 2}},
    "linear_recurrence.py": {"linear_recurrence": {"shuffle": 2}},
    "long_softmax.py": {"long_softmax": {}},
    "matmul.py": {
        "matmul_bf16": {"shared": 1, "staged": 2},
        "matmul_f16": {"shared": 3},
        "matmul_f16_f16": {"shared": 1, "staged": 2},
        "matmul_f32": {"staged": 2},
        "matmul_f64": {"shuffle": 2},
        "matmul_i8": {"shared": 1, "staged": 2},
        "matmul_i8_u8": {"shared": 2},
        "matmul_tf32": {"shared": 1, "staged": 2},
        "matmul_u8": {"staged": 3},
        "matmul_u8_i8": {"shuffle": 2},
    },
    "matmul_batched.py": {"matmul_batched": {"staged": 2}},
    "matmul_f8.py": {
        "matmul_f8e4m3fn": {"staged": 2},
        "matmul_f8e4m3fn_f16": {"shared": 2},
        "matmul_f8e5m2": {"shared": 2},
        "matmul_f8e5m2_f16": {"staged": 3},
    },
    "matmul_grouped.py": {"matmul_grouped": {"staged": 2}},
    "matmul_scaled.py": {
        "matmul_scaled": {"shuffle": 1, "shared": 4},
        "matmul_scaled_f8e5m2": {"shared": 1, "staged": 4},
        "matmul_scaled_mxf4": {"shuffle": 1, "shared": 4},
        # The words of B that are taken apart into f4 stay in the threads that load them.
        "matmul_scaled_nvf4": {"staged": 4},
    },
    "matmul_split_k.py": {"matmul_split_k": {"shared": 3}},
    "moe_matmul.py": {"moe_matmul": {"shared": 1, "shuffle": 2, "staged": 1}},
    "quantize.py": {"quantize": {}, "dequantize": {"shuffle": 1}},
    "rms_norm.py": {"rms_norm": {"shared": 1}},
    "rope.py": {"rope": {"shuffle": 2}},
    "scatter_add.py": {"scatter_add": {"shuffle": 1}},
    "stencil.py": {"heat": {}},
    "swiglu.py": {"swiglu": {}},
    "top_k.py": {"top_k": {}},
}

# Without asynchronous copies, A and B are converted as well.
UNSTAGED = {"bytecode/matmul_f16.tileirbc": {"shared": 3}, "matmul_f32.mlir": {"shared": 3}}


def conversions(source: Path, gpu_name: str, **options) -> dict[str, int]:
    """Kind of conversion -> their number in the nv_tileas form of the source."""
    return counted(tileiras.compile(source, gpu_name=gpu_name, emit="tileas", **options).text, source.name)


def counted(text: str, name: str) -> dict[str, int]:
    counter: Counter[str] = Counter()
    for op in parse_module(text, name).walk():
        if op.name == "nv_tileas.copy":
            counter["staged"] += 1
        if op.name == "nv_tileas.convert_layout":
            bits = max(8, element_type_of(op.operand.type).width)
            counter[classify(layout_of(op.operand.type), layout_of(op.result.type), bits)] += 1
    return dict(counter)


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_100"])
@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_conversions_of_an_example(name: str, gpu_name: str) -> None:
    assert conversions(EXAMPLES / name, gpu_name) == BY_STEPS.get((name, gpu_name), GOLDEN[name])


@pytest.mark.sampled(13)
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_conversions_of_a_kernel(name: str) -> None:
    pytest.importorskip("cuda.tile", reason="cuTile Python kernels need the package cuda-tile")
    gpu_name = "sm_100" if name == "matmul_scaled.py" else "sm_90"
    kernels = tileiras.compile(EXAMPLES / "kernels" / name, gpu_name=gpu_name, emit="tileas").kernels
    result = {kernel.name: counted(kernel.artifacts[".tileas.mlir"].decode(), kernel.name) for kernel in kernels}
    assert result == KERNELS[name]


@pytest.mark.parametrize("name", sorted(UNSTAGED))
def test_conversions_without_a_pipeline(name: str) -> None:
    assert conversions(EXAMPLES / name, "sm_75") == UNSTAGED[name]
    assert conversions(EXAMPLES / name, "sm_80", pipeline_strategy="none") == UNSTAGED[name]


def test_every_example_is_counted() -> None:
    kernels = {str(p.relative_to(EXAMPLES)) for suffix in ("mlir", "tileirbc") for p in EXAMPLES.rglob(f"*.{suffix}")}
    assert kernels == set(GOLDEN)
    assert {path.name for path in (EXAMPLES / "kernels").glob("*.py")} == set(KERNELS)

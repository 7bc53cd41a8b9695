"""The kernels that faults are planted in: 42 builds of examples and of generated kernels, of every kind of plan."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tileiras
from bench.plans import PLANS
from tileiras.ir import Operation
from tileiras.stages.units import entries_of, entry_name

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GENERATED = "generated:"
"""A kernel that `tests.generator` draws by the number behind it, with the options that it draws."""
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")

TABLE: tuple[tuple[str, str], ...] = (
    ("sm_80", "saxpy.mlir transpose.mlir matmul_f32.mlir matmul_f16.py kernels/matmul_grouped.py"),
    ("sm_80", "kernels/prefix_sum.mlir kernels/spin_lock.mlir kernels/attention.py kernels/histogram.py"),
    ("sm_90", "matmul_f16.py matmul_f16.py/boxes matmul_f16.py/agents matmul_f16.py/agents-boxes layer_norm.py"),
    ("sm_90", "matmul_f16.py/agents-device-boxes matmul_f16.py/clusters kernels/matmul_batched.py/light-boxes"),
    ("sm_90", "kernels/attention.py/agents-boxes kernels/top_k.py"),
    ("sm_100", "matmul_f16.py matmul_f16.py/boxes matmul_f16.py/agents matmul_f16.py/agents-boxes matmul_f16.py/none"),
    ("sm_100", "matmul_f16.py/clusters kernels/matmul_scaled.py kernels/matmul_f8.py kernels/rope.py"),
    ("sm_120", "matmul_f16.py matmul_f16.py/agents-boxes matmul_f32.mlir/clusters kernels/matmul_batched.py/boxes"),
    ("sm_120", "kernels/moe_matmul.py/light kernels/quantize.py kernels/last_block_reduction.mlir softmax.py"),
)  # fmt: skip
"""Target, and examples with a plan of `bench.plans` each (`default` without one)."""
DRAWN = 6
"""Generated kernels besides, drawn by the seed."""


class Kernel(NamedTuple):
    """One entry and its code under the options of its build."""

    name: str
    gpu_name: str
    module: Operation
    entry: Operation
    ptx: str
    metadata: Any


def chosen(draw: random.Random) -> list[tuple[str, str]]:
    """(name, target) of 42 kernels; the generated ones are other ones for another state of `draw`."""
    rows = [(name, gpu_name) for gpu_name, names in TABLE for name in names.split()]
    return rows + [(f"{GENERATED}{draw.randrange(1 << 20)}", TARGETS[number % 4]) for number in range(DRAWN)]


def kernels(name: str, gpu_name: str) -> Iterator[Kernel]:
    """The entries of an example, FILE or FILE/PLAN, or of a generated kernel.  Raises CompileError."""
    source: Any
    options: dict[str, Any]
    if name.startswith(GENERATED):
        from tests.generator.judge import draw

        case = draw(int(name.removeprefix(GENERATED)), targets=(gpu_name,))
        source, options, gpu_name = case.kernel.source(case.build.decorator), case.build.options, case.build.gpu_name
    else:
        file, _, plan = name.rpartition("/")
        source, options = (EXAMPLES / file, dict(PLANS[plan])) if plan in PLANS else (EXAMPLES / name, {})
    module = tileiras.parse(source)
    for entry in entries_of(module):
        artifact = tileiras.compile(source, gpu_name=gpu_name, entry=entry_name(entry), **options)
        metadata = artifact.kernels[0].artifacts.get(".json")
        yield Kernel(name, gpu_name, module, entry, artifact.text, json.loads(metadata) if metadata else None)

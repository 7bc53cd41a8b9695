"""Sums of neighbours through pointers: several elements at once where the target can, whatever the order and mask."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tileiras
from bench.real_sizes import slots
from tests.kernels.views import DTYPES, whole_numbers
from tileiras.sim import emulate

EXAMPLE = Path(__file__).parents[2] / "examples" / "kernels" / "scatter_add.py"
TOKENS, ROWS = 20, 6
SUMS = {
    ("sm_80", "f32"): "add.f32", ("sm_80", "f16"): "add.noftz.f16x2", ("sm_90", "f32"): "add.v4.f32",
    ("sm_90", "f16"): "add.noftz.v4.f16x2", ("sm_100", "bf16"): "add.noftz.v4.bf16x2", ("sm_120", "f32"): "add.v4.f32",
}  # fmt: skip


def compiled(folder: Path, gpu: str, element: str, order: str, divisor: str) -> tileiras.Artifact:
    """The example with an order, for rows of a multiple of `divisor` elements."""
    text = EXAMPLE.read_text().replace(", rows)\n", f", rows, memory_order=ct.MemoryOrder.{order})\n")
    head, _, _ = text.partition("TILEIRAS_EXPORT")
    view = f'"{element}[?, {divisor}?]"'
    source = folder / "kernel.py"
    source.write_text(f'{head}TILEIRAS_EXPORT = {{"scatter_add": (scatter_add, {view}, "i32[?]", {view}, 16, 32)}}\n')
    return tileiras.compile(source, gpu_name=gpu, emit="ptx", entry="scatter_add")


def check(artifact: tileiras.Artifact, element: str, columns: int) -> None:
    """Tokens meet in few rows; some name no row, and the last tile of each dimension is partial."""
    tokens = np.random.default_rng(1).integers(-1, ROWS + 1, TOKENS).astype(np.int32)
    gradient = whole_numbers((TOKENS, columns), element, 2, 2)
    table = whole_numbers((ROWS, columns), element, 3, 2)
    wanted = table.astype(np.float32)
    inside = (tokens >= 0) & (tokens < ROWS)
    np.add.at(wanted, tokens[inside], gradient[inside].astype(np.float32))
    metadata = artifact.kernels[0].metadata
    emulate(artifact.text, "scatter_add", (2, -(-columns // 32), 1), slots([gradient, tokens, table]),
            metadata=metadata, seed=0)  # fmt: skip
    np.testing.assert_array_equal(table.astype(np.float32), wanted.astype(DTYPES[element]).astype(np.float32))


@pytest.mark.parametrize("order", ["RELAXED", "ACQ_REL"])
@pytest.mark.parametrize(("gpu", "element"), SUMS)
def test_neighbours_are_added_at_once(gpu, element, order, tmp_path):
    """Updates that acquire read the old values: `atom` instead of `red`."""
    artifact = compiled(tmp_path, gpu, element, order, "8*")
    kind = "red" if order == "RELAXED" else "atom"
    assert f"{kind}.relaxed.gpu.global.{SUMS[gpu, element]} " in artifact.text
    check(artifact, element, 40)


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_rows_of_any_length_are_added_one_by_one(element, tmp_path):
    artifact = compiled(tmp_path, "sm_90", element, "ACQ_REL", "")
    assert ".v" not in "".join(line for line in artifact.text.splitlines() if "atom." in line)
    assert "x2" not in "".join(line for line in artifact.text.splitlines() if "atom." in line)
    check(artifact, element, 37)

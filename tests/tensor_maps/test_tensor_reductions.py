"""Updates of tiles of views, made by copies in boxes that combine: right beside those of other tile blocks, wrong if
any of their synchronization is deleted, and unchanged where no copy combines so."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tileiras
from tests.agents.running import sites, survives
from tests.kernels import tensor_maps as kernels
from tests.kernels.reasons import causes
from tileiras.codegen import ptxas as assembler
from tileiras.diagnostics import DiagnosticEngine
from tileiras.sim import emulate

SEEDS = (None, 0, 1)
REDUCE = "cp.reduce.async.bulk.tensor"
BLOCKS = 3
TYPES = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "i64": np.int64}
COMBINED = {
    "addf": np.add, "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def updating(mode: str = "addf", element: str = "f32", order: str = "relaxed device") -> str:
    """The products of tiles are combined with C by every block along z."""
    text = kernels.matmul().replace("padding_value = zero, tensor_view<?x?xf32", f"tensor_view<?x?x{element}")
    text = text.replace("tensor_view<?x?xf32", f"tensor_view<?x?x{element}").replace("ptr<f32>", f"ptr<{element}>")
    text = text.replace("div_by<4>, %d_c", "div_by<8>, %d_c")
    wide, tile = "tile<64x64xf32>", f"tile<64x64x{element}>"
    convert = {
        "f32": "",
        "f16": f"%out = ftof %sum : {wide} -> {tile}\n    ",
    }.get(element, f"%out = ftoi %sum signed : {wide} -> {tile}\n    ")
    data = "%out" if convert else "%sum"
    old = r"%end = store_view_tko weak %sum, (%v_c\[%x, %y\]) : tile<64x64xf32>"
    new = rf"{convert}%end = atomic_red_view_tko {order} \1, {mode}, {data} : {tile}"
    return re.sub(old, new, text)


class Updates:
    """A launch of three blocks for each tile of C, and its expected results."""

    def __init__(self, mode: str = "addf", element: str = "f32", steps: int = 3) -> None:
        self.mode, self.type, self.steps = mode, TYPES[element], steps
        random = np.random.default_rng(3)
        self.a = random.integers(-3, 4, (70, 32 * steps)).astype(np.float16)
        self.b = random.integers(-3, 4, (32 * steps, 64)).astype(np.float16)
        self.c = random.integers(-9, 9, (70, 72)).astype(self.type)

    def launch(self, code: str, metadata, seed: int | None) -> None:
        (m, k), n, c = self.a.shape, self.b.shape[1], self.c.copy()
        arguments = [self.a.copy(), m, k, k, self.b.copy(), k, n, n, c, m, n, c.shape[1], self.steps]
        assert emulate(code, "k", (2, 1, BLOCKS), arguments, metadata, seed=seed).searched_races
        product = (self.a.astype(np.float32) @ self.b.astype(np.float32)).astype(self.type)
        wanted = self.c.copy()
        for _ in range(BLOCKS):
            wanted[:, :n] = COMBINED[self.mode](wanted[:, :n], product)
        np.testing.assert_array_equal(c, wanted)


def compiled(text: str, gpu: str = "sm_90", maps: str = "host", **options):
    """With one agent, unless the options name another strategy."""
    chosen = {"pipeline_strategy": "unspecialize", **options}
    return tileiras.compile(text, gpu_name=gpu, tensor_maps=maps, **chosen)


CASES = [
    ("addf", "f32"), ("addf", "f16"), ("add", "i32"), ("min", "i32"), ("max", "i64"), ("and", "i32"), ("or", "i64"),
    ("xor", "i32"),
]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("mode", "element"), CASES)
def test_elements_are_combined_by_one_copy_a_box(mode, element, ptxas):
    artifact = compiled(updating(mode, element))
    assert REDUCE in artifact.text and "red.relaxed" not in artifact.text
    engine = DiagnosticEngine()
    assembler.assemble(artifact.text, "sm_90", engine=engine)
    assert [d.message for d in engine.diagnostics] == []
    for seed in SEEDS[:2]:
        Updates(mode, element).launch(artifact.text, artifact.kernels[0].metadata, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("gpu", "maps"), [("sm_90", "host"), ("sm_120", "device")])
def test_synchronization_of_an_update_is_minimal(gpu, maps):
    artifact = compiled(updating(), gpu, maps)
    updates = Updates(steps=7)

    def judge(code, seed):
        updates.launch(code, artifact.kernels[0].metadata, seed)

    result = sites(artifact.text)
    lines = [line for line, _ in result]
    assert "cp.async.bulk.commit_group;" in lines and any("bulk.wait_group" in line for line in lines)
    assert survives(artifact.text, judge, SEEDS)
    assert [line for line, broken in result if survives(broken, judge, SEEDS)] == []


@pytest.mark.parametrize(
    ("mode", "element", "reason"),
    [
        ("umin", "i32", "maps.no-reduction element=i32 mode=umin"),
        ("add", "i64", "maps.no-reduction element=i64 mode=add"),
    ],
)
def test_updates_without_a_combining_copy_are_made_by_threads(mode, element, reason):
    program = compiled(updating(mode, element), emit_remarks=True)
    assert reason in causes(program.diagnostics, "maps.unused")
    assert REDUCE not in program.text

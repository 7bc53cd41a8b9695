"""A pass that fails, on its own or in the middle of its work, leaves its input unchanged: each pass of the table on
modules of every stage, most of which it was not written for."""

from __future__ import annotations

import functools
import random
from pathlib import Path

import pytest

from tileiras import ir
from tileiras.diagnostics import CompileError
from tileiras.driver.tileir_pipeline import TileIRPipelineOptions, build
from tileiras.ir import Block, Operation, PassManager, Value, parse_module, print_op
from tileiras.passes import PASSES, lookup_pass

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KERNELS = ("saxpy.mlir", "matmul_f32.mlir")

STOPS = (
    "convert-cudatile-to-tileaa", "convert-tileaa-to-tileas", "tileas-remove-layout-conversions",
    "tileas-generate-schedule", "tileas-insert-barriers", "convert-tileas-to-llvm", "convert-tileas-to-nvgpu",
    "convert-nvgpu-to-nvvm", "nvvm-ir-verifier",
)  # fmt: skip
"""Passes of the pipeline after which a module is taken."""


@functools.cache
def modules() -> dict[str, str]:
    """Text of a module by kernel and stage, before the pipeline and after its `STOPS`."""
    result = {}
    for name in KERNELS:
        module = parse_module(f"module {{\n{(EXAMPLES / name).read_text(encoding='utf-8')}\n}}", name)
        result[f"{name} source"] = print_op(module)
        for item in build(TileIRPipelineOptions({"opt-level": 3, "compute-capability": "sm_90"})):
            PassManager([item], verify_each=False).run(module)
            if item.name in STOPS:
                result[f"{name} {item.name}"] = print_op(module)
    return result


class Interrupted(Exception):
    """The failure that a test plants, of a kind that no pass handles."""


class Interruption:
    """Raises in the middle of a pass: `left` counts the changes of the IR that still succeed, -1 all."""

    METHODS = (
        (Operation, "erase"), (Operation, "become"), (Block, "insert_before"), (Block, "append"),
        (Value, "replace_all_uses_with"), (Operation, "move_before"),
    )  # fmt: skip

    def __init__(self, patched: pytest.MonkeyPatch, left: int) -> None:
        self.patched, self.left, self.changes = patched, left, 0

    def around(self, item: ir.Pass) -> ir.Pass:
        """The pass with its failure; the manager's copy is made, and put back, without one."""
        inner = item.run

        def run_(op, context):
            with self.patched.context() as patched:
                for owner, name in self.METHODS:
                    patched.setattr(owner, name, self._counted(getattr(owner, name)))
                inner(op, context)
            if self.left >= 0:
                raise Interrupted

        item.run = run_
        return item

    def _counted(self, method):
        def call(*arguments):
            self.changes += 1
            if self.left >= 0:
                if self.changes > self.left:
                    raise Interrupted
            return method(*arguments)

        return call


def run(item: ir.Pass, module: Operation) -> bool:
    """Run a pass alone; return whether it failed."""
    try:
        PassManager([item]).run(module)
    except (CompileError, Interrupted):
        return True
    return False


def test_the_modules_are_of_every_stage():
    texts = modules()
    assert len(texts) == len(KERNELS) * (len(STOPS) + 1)
    assert "cuda_tile.module" in texts["saxpy.mlir source"]
    for stage, operation in (
        ("convert-cudatile-to-tileaa", "nv_tileaa."), ("convert-tileaa-to-tileas", "nv_tileas."),
        ("convert-tileas-to-llvm", "nv_tileas.thread."), ("convert-tileas-to-nvgpu", "nvgpu."),
        ("nvvm-ir-verifier", "#nvvm.target"),
    ):  # fmt: skip
        assert operation in texts[f"matmul_f32.mlir {stage}"]


@pytest.mark.sampled(43)
@pytest.mark.parametrize("name", sorted(PASSES))
def test_a_failing_pass_leaves_its_input_unchanged(name, monkeypatch):
    choices = random.Random(name)
    texts = modules()
    for key in choices.sample(sorted(texts), 6):
        module = parse_module(texts[key])
        before = print_op(module)
        probe = Interruption(monkeypatch, -1)
        if run(probe.around(lookup_pass(name)()), module):
            assert print_op(module) == before
            ir.verify(module)
        for left in {0, *(choices.randrange(probe.changes + 1) for _ in range(2))}:
            module = parse_module(texts[key])
            # Without an operation of its anchor, a pass neither runs nor fails.
            run(Interruption(monkeypatch, left).around(lookup_pass(name)()), module)
            assert print_op(module) == before


class _Breaks(ir.Pass):
    """Leaves IR that the verifier rejects."""

    name = "breaks"
    anchor = "builtin.module"

    def run(self, op, context):
        for inner in op.walk():
            if inner.name == "scf.for":
                inner.attributes.clear()
                inner.regions[0].blocks[0].last.erase()


def test_invalid_output_is_taken_back():
    text = modules()["matmul_f32.mlir convert-tileaa-to-tileas"]
    module = parse_module(text)
    before = print_op(module)
    with pytest.raises(CompileError, match="between-pass verifier rejected IR after 'breaks'"):
        PassManager([_Breaks()]).run(module)
    assert print_op(module) == before

"""The pipeline plans a compilation; the code that executes the plan knows no stage by name."""

import ast
import inspect

import pytest

from tileiras import pipeline
from tileiras.driver import compilation, steps
from tileiras.pipeline import stage
from tileiras.stages import units


@pytest.mark.parametrize("kind, emit, file, kernel, linked", [
    (units.PYTHON, "bytecode", "export", "", ""),
    (units.BYTECODE, "bytecode", "", "", ""),
    (units.TEXT, "bytecode", "read", "", ""),
    (units.MODULE, "bytecode", "", "", ""),
    (units.PYTHON, "cuda_tile", "export read", "", ""),
    (units.MODULE, "cuda_tile", "", "", ""),
    (units.BYTECODE, "tileas", "read", "tileaa tileas", ""),
    (units.PYTHON, "sass", "export read", "tileaa tileas llvm ptx", "cubin sass"),
    (units.MODULE, "ptx", "", "tileaa tileas llvm ptx", ""),
    (".llvm.mlir", "ptx", "", "llvm ptx", ""),
    (".ll", "cubin", "", "ptx", "cubin"),
    (".ptx", "sass", "", "", "cubin sass"),
    (".ptx", "ptx", "", "", ""),
    (".cubin", "tileaa", "", "", ""),
])  # fmt: skip
def test_the_steps_from_a_source_to_a_product(kind, emit, file, kernel, linked):
    last, _ = pipeline.emit_stage(emit)
    plan = pipeline.plan(kind, last)
    assert [[row.name for row in rows] for rows in (plan.file, plan.kernel, plan.linked)] == [
        file.split(), kernel.split(), linked.split(),
    ]  # fmt: skip
    assert plan.is_empty == (not file + kernel + linked)


def test_checks_overlap_only_with_a_stage_in_another_process():
    whole = pipeline.plan(units.TEXT, stage("cubin"))
    assert [row.name for row in pipeline.STAGES if whole.waits_after(row)] == ["llvm"]
    assert not pipeline.plan(units.TEXT, stage("llvm")).waits_after(stage("llvm"))


def test_every_kind_of_source_has_a_first_stage():
    assert set(pipeline.SOURCES) == {*units.SUFFIXES.values(), units.MODULE, *units.ARTIFACTS}


@pytest.mark.parametrize("code", [compilation.compile_with, compilation._kernels_and_product, steps])
def test_compilations_name_no_stage(code):
    source = ast.parse(inspect.getsource(code))
    constants = {node.value for node in ast.walk(source) if isinstance(node, ast.Constant)}
    assert not constants & set(pipeline.BY_NAME)

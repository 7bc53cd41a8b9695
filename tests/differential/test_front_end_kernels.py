"""Kernels of the cuTile Python front end: compiled results agree with interpreted ones.

Each kernel is tried on one target at the oldest version that has its operations, and on another at the newest;
`tests/conformance/front_end_kernels.py`, where the launches are, tries them all.
"""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import numpy as np
import pytest

from tileiras.diagnostics import CompileError
from tileiras.sim import InterpreterError, interpret

pytest.importorskip("cuda.tile")


def _harness():
    path = Path(__file__).resolve().parents[1] / "conformance" / "front_end_kernels.py"
    spec = importlib.util.spec_from_file_location("front_end", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HARNESS = _harness()
CORPUS = HARNESS.load_corpus()
REFUSED = {"scale_formats": ("sm_80", "sm_90"), "scaled": ("sm_80", "sm_90"), "small_floats": ("sm_80",),
           "matmul_f8": ("sm_80",)}  # fmt: skip
"""Targets that do not have a type of the kernel."""


def cases():
    for number, name in enumerate(HARNESS.LAUNCHES):
        versions = [v for v in HARNESS.VERSIONS if v >= CORPUS.EXPORTS[name][1]]
        for version, shift in {versions[0]: 0, versions[-1]: 2}.items():
            yield name, version, HARNESS.TARGETS[(number + shift) % 4]


@pytest.mark.sampled(54)
@pytest.mark.parametrize(("name", "version", "target"), list(cases()))
def test_kernel(name, version, target):
    case = HARNESS.Case(CORPUS, name, version)
    if target in REFUSED.get(name, ()):
        with pytest.raises(CompileError, match="unsupported type"):
            case.compile(target)
        return
    case.check(*case.compile(target))


@pytest.mark.parametrize("name", ["combiners", "matmul_f32", "promises"])
def test_kernel_of_two_ctas(name):
    """The exporter makes the views of a loop in the loop."""
    case = HARNESS.Case(CORPUS, name, CORPUS.EXPORTS[name][1])
    case.check(*case.compile("sm_90", 2))


def test_every_kernel_is_launched():
    assert set(CORPUS.EXPORTS) == set(HARNESS.LAUNCHES) | set(HARNESS.NOT_RUN)


def test_a_format_that_no_target_has_is_refused():
    for target in HARNESS.TARGETS:
        with pytest.raises(CompileError, match=f"'{target}': unsupported type 'fnv8E5M3FNU'"):
            HARNESS.tileiras.compile(CORPUS.export("unsigned_scales", "13.4"), gpu_name=target)


def test_printing_and_assertions():
    bytecode = CORPUS.export("debugging", CORPUS.EXPORTS["debugging"][1])
    output = io.StringIO()
    values = np.array([1, 2, 3, 4, 5, 6, 7, 0.5], np.float32)
    interpret(bytecode, "debugging", 1, [values, 8, 1, 42], output=output)
    assert output.getvalue().startswith("value [1.000000, 2.000000,") and output.getvalue().endswith(" at 42\n")
    values[2] = -1
    with pytest.raises(InterpreterError, match=r"kernels.py:\d+:\d+: .*assertion failed at \[2\]: positive only"):
        interpret(bytecode, "debugging", 1, [values, 8, 1, 42], output=output)

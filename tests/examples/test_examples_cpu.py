"""Launches of the examples, compiled for the CPU, compared with the results of NumPy; all of them in the long run."""

from __future__ import annotations

import copy
from typing import Any

import example_cases
import kernel_cases
import numpy as np
import pytest
from example_cases import array_parameters
from kernel_runs import needs_front_end

import tileiras
from tileiras import runtime
from tileiras.targets.cpu import host

pytestmark = pytest.mark.skipif(host() is None, reason="no target for this machine")

CASES = [*example_cases.CASES, *kernel_cases.CASES]
NAMES = [f"{case.source}:{case.entry}-{number}" for number, case in enumerate(CASES)]
SAMPLE = (
    "saxpy.mlir", "transpose.mlir", "bytecode/softmax.tileirbc", "bytecode/matmul_f16.tileirbc", "spin_lock.mlir",
    "prefix_sum.mlir", "mandelbrot.mlir",
)  # fmt: skip


def launched(case: Any, values: list[Any]) -> None:
    """Run a case on its values, with several threads."""
    artifact = tileiras.compile(case.path, gpu_name="cpu", entry=case.entry)
    runtime.launch(artifact, case.entry, case.grid, slots(case, values), threads=3)


def slots(case: Any, values: list[Any]) -> list[Any]:
    """The entry's parameters; a table of arrays has their addresses in this process."""
    if isinstance(case, example_cases.Case) or not any(isinstance(value, list) for value in values):
        return values if isinstance(case, example_cases.Case) else case.slots(values)
    parameters: list[Any] = []
    for value in values:
        if isinstance(value, list):
            table = [[array.ctypes.data, *array_parameters(array)[1:]] for array in value]
            parameters += [np.array(table, np.int64), len(value)]
        else:
            parameters += array_parameters(value) if isinstance(value, np.ndarray) else [value]
    return parameters


def check(case: Any) -> None:
    if isinstance(case, example_cases.Case):
        values = case.make_arguments()
        expected = case.reference(copy.deepcopy(values))
        launched(case, values)
        for position, wanted in expected.items():
            example_cases.check(values[position], wanted, case.ulps)
        return
    values = case.make_values()
    before = copy.deepcopy(values)
    expected = case.expected(copy.deepcopy(values))
    launched(case, values)
    case.check(values, expected, before)


@pytest.mark.parametrize("source", SAMPLE)
def test_example(source):
    check(next(case for case in CASES if case.source == source))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_every_example(case):
    needs_front_end(case.source)
    check(case)

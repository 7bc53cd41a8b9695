"""A pairwise subset of the conformance kernels; `scons conformance` runs all of them on every target."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest
import random_programs
from case_kernels import modules, pairwise_kernels
from case_modules import TARGETS, module_text, run_module
from operation_table import ROWS
from shared_programs import Shared

from tileiras.codegen import toolkit
from tileiras.dialects import cuda_tile
from tileiras.dialects.cuda_tile import ops_math
from tileiras.ir import Operation

MODULES = modules(list(pairwise_kernels()))


@pytest.mark.sampled(31)
@pytest.mark.parametrize("number", range(len(MODULES)), ids=lambda n: f"{n}-{MODULES[n][0].family}")
def test_module(number):
    """Targets rotate with the modules, so that every target runs every family."""
    assembler = toolkit.find_program("ptxas")
    results = list(run_module(MODULES[number], [TARGETS[number % len(TARGETS)]], assembler))
    assert [result.failure for result in results if result.failure] == []
    assert len(results) == len(MODULES[number])


def test_every_operation_is_in_the_table():
    """Excluded: operations that need several devices, and the preview of calls, since functions have no bodies."""
    words = set(re.findall(r"[a-z_0-9]+", "".join(module_text(kernels) for kernels in MODULES)))
    missing = {name for name in _operations() - words if not name.startswith(("multimem_", "testing$"))}
    assert missing == {"preview$call"}


def test_the_documented_bounds_are_those_that_are_asserted():
    page = (Path(__file__).parents[2] / "docs" / "reports" / "conformance.md").read_text()
    documented = {}
    for line in page[page.index("| | f32 allowed") :].split("\n\n")[0].split("\n")[2:]:
        names, single, _, double, *_ = (cell.strip() for cell in line.split("|")[1:])
        allowed = {"f32": single, "f64": double}
        bounds = {e: 2 ** int(text[2:]) if text[:2] == "2^" else int(text) for e, text in allowed.items() if text}
        documented |= {name: bounds for name in re.findall("`(.*?)`", names)}
    asserted = {}
    for row in ROWS:
        if row.family == "function":
            rounding = re.search("rounding<.*?>", row.text)
            name = f"{row.text.split()[0]} {rounding.group() if rounding else ''}".strip()
            bounds = {element: bound for element, bound in row.ulps.items() if element in ("f32", "f64")}
            # Flushing of subnormals exists for f32 only, and changes no bound.
            assert asserted.setdefault(name, bounds).items() >= bounds.items(), row.name
            assert all(row.ulps.get(element, 1) == 1 for element in ("f16", "bf16"))
    assert documented == asserted
    functions = {cls.name.removeprefix("cuda_tile.") for cls in vars(ops_math).values() if is_operation(cls)}
    assert functions - {name.split()[0] for name in asserted} == {"ceil", "floor"}, "these are exact"


def is_operation(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Operation) and bool(value.name)


def _operations() -> set[str]:
    operations = set()
    for info in pkgutil.iter_modules(cuda_tile.__path__):
        module = importlib.import_module(f"{cuda_tile.__name__}.{info.name}")
        named = {cls.name for cls in vars(module).values() if is_operation(cls)}
        operations |= {name.removeprefix("cuda_tile.") for name in named if name.startswith("cuda_tile.")}
    return operations


@pytest.mark.parametrize("num_ctas", [2, 4])
def test_random_programs_of_several_ctas(num_ctas):
    shared = []
    for number in range(12):
        random_programs.run(number, Shared.STEPS, Shared, num_ctas, shared=shared)
    assert shared


@pytest.mark.sampled(10)
@pytest.mark.parametrize("kind", [random_programs.Program, random_programs.Formats])
@pytest.mark.parametrize("number", range(10))
def test_random_program(number, kind):
    try:
        assert random_programs.run(number, 12, kind) > 4
    except random_programs.Meaningless as reason:
        pytest.skip(str(reason))

"""A pairwise subset of the conformance kernels; `scons conformance` runs all of them on every target."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest
import random_programs
from case_kernels import modules, pairwise_kernels
from case_modules import TARGETS, module_text, run_module

from tileiras.codegen import toolkit
from tileiras.dialects import cuda_tile
from tileiras.ir import Operation

MODULES = modules(list(pairwise_kernels()))


@pytest.mark.parametrize("number", range(len(MODULES)), ids=lambda n: f"{n}-{MODULES[n][0].family}")
def test_module(number):
    """Targets go round with the modules, so that each meets every family."""
    assembler = toolkit.find_program("ptxas")
    results = list(run_module(MODULES[number], [TARGETS[number % len(TARGETS)]], assembler))
    assert [result.failure for result in results if result.failure] == []
    assert len(results) == len(MODULES[number])


def test_every_operation_is_in_the_table():
    """But for those that need several devices, and the preview of calls, of which no function has a body."""
    words = set(re.findall(r"[a-z_0-9]+", "".join(module_text(kernels) for kernels in MODULES)))
    missing = {name for name in _operations() - words if not name.startswith(("multimem_", "testing$"))}
    assert missing == {"preview$call"}


def _operations() -> set[str]:
    found = set()
    for info in pkgutil.iter_modules(cuda_tile.__path__):
        module = importlib.import_module(f"{cuda_tile.__name__}.{info.name}")
        classes = (value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Operation))
        found |= {cls.name.removeprefix("cuda_tile.") for cls in classes if str(cls.name).startswith("cuda_tile.")}
    return found


@pytest.mark.parametrize("kind", [random_programs.Program, random_programs.Formats])
@pytest.mark.parametrize("number", range(10))
def test_random_program(number, kind):
    try:
        assert random_programs.run(number, 12, kind) > 4
    except random_programs.Meaningless as reason:
        pytest.skip(str(reason))

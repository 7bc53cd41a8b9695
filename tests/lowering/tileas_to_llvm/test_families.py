"""Files with rules are loaded for the operations that they lower."""

import subprocess
import sys

import pytest

from tileiras.ir.registry import lookup_operation
from tileiras.lowering import tileas_to_llvm

ROWS = [(file, name) for file, names in tileas_to_llvm.FAMILIES.items() for name in names.split()]


@pytest.mark.parametrize("file, name", ROWS)
def test_an_operation_has_the_rule_of_its_file(file, name):
    cls = lookup_operation(name)
    assert cls is not None
    assert callable(tileas_to_llvm.pattern(cls))
    assert [file] == [other for other, operation in ROWS if operation == name]


def test_an_operation_without_a_rule_has_no_pattern():
    assert tileas_to_llvm.pattern(lookup_operation("cuda_tile.addi")) is None


def test_a_file_is_loaded_for_its_own_operations():
    program = """
import sys
from tileiras.ir.registry import lookup_operation
from tileiras.lowering import tileas_to_llvm
for name in ("arith.addi", "nv_tileas.scan"):
    tileas_to_llvm.pattern(lookup_operation(name))
    print(*(file for file in tileas_to_llvm.FAMILIES if f"{tileas_to_llvm.__name__}.{file}" in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    before, after = (set(line.split()) for line in done.stdout.splitlines())
    assert "collective.scan" not in before and "collective.scan" in after and "tensor_core.dot" not in after

"""Files with rules are loaded for functions that have their operations."""

import importlib
import os

from tileiras.lowering import tileas_to_llvm


def test_the_table_names_the_operations_that_each_file_has_rules_for():
    names = {module.__name__.rpartition(".")[2] for module in tileas_to_llvm.COMMON}
    for file in os.listdir(os.path.dirname(tileas_to_llvm.__file__)):
        family, dot, suffix = file.partition(".")
        if suffix != "py" or family in names:
            continue
        module = importlib.import_module(f"{tileas_to_llvm.__name__}.{family}") if family != "__init__" else None
        rules = {cls.name for cls in getattr(module, "PATTERNS", {})}
        assert rules == tileas_to_llvm.FAMILIES.get(family, set()), family


def test_a_function_gets_the_rules_of_its_operations():
    names = {cls.name for cls in tileas_to_llvm.patterns({"nv_tileas.scan", "arith.addi"})}
    assert {"nv_tileas.scan", "arith.addi"} <= names
    assert "nv_tileas.dot" not in names

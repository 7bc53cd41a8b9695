"""Dialects that are loaded by parts: names in parts that are not loaded are resolved all the same."""

import importlib
import subprocess
import sys

import pytest

from tileiras.ir import Operation, registry

PACKAGES = ("nvvm",)


@pytest.mark.parametrize("dialect", PACKAGES)
def test_the_table_of_a_package_names_its_files_operations(dialect):
    package = importlib.import_module(f"tileiras.dialects.{dialect}")
    for file in sorted(set(package._LAZY.values())):
        module = importlib.import_module(f"{package.__name__}.{file}")
        declared = {
            name
            for name, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, Operation) and value.__module__ == module.__name__
        }
        public = {name for name in declared if not name.startswith("_")}
        assert public <= {name for name, owner in package._LAZY.items() if owner == file}
    for name in package._LAZY:
        assert getattr(package, name) is not None


def test_a_name_that_no_file_has_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'NoSuchOp'"):
        importlib.import_module("tileiras.dialects.nvvm").NoSuchOp


@pytest.mark.parametrize(
    "name", ["nvvm.fma", "nvvm.read.ptx.sreg.laneid", "llvm.intr.vector.reduce.fmin", "llvm.intr.fma", "nvvm.red"]
)
def test_text_finds_operations_that_nothing_has_loaded(name):
    program = f"from tileiras.ir import registry; print(registry.lookup_operation({name!r}).name)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == name


def test_a_generated_class_is_made_once():
    from tileiras.dialects import llvm

    assert llvm.INTRINSIC_OPS["fma"] is llvm.INTRINSIC_OPS["fma"] is registry.OPERATIONS["llvm.intr.fma"]
    with pytest.raises(KeyError):
        llvm.INTRINSIC_OPS["no.such"]

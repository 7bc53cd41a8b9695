"""Half of the time of a process that compiles one small kernel is loading code: needless modules slow down all kernels.

The test measures no times; its lists state which modules each kind of kernel loads.
"""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from tileiras.cli.tileiras import main
code = main([{source!r}, "--gpu-name", "sm_90", "--emit", "ptx", "-o", {output!r}])
print(*sorted(sys.modules))
sys.exit(code)
"""


def modules_of(folder, store: str) -> set[str]:
    """The modules of a process that has compiled bytecode of a vector sum to PTX."""
    program = PROGRAM.format(source="examples/bytecode/vector_add.tileirbc", output=str(folder / "out.ptx"))
    env = {**os.environ, "TILEIRAS_CACHE_DIR": store, "TILEIRAS_CACHE_MODE": ""}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> set[str]:
    return modules_of(tmp_path_factory.mktemp("loaded"), "off")


def test_stored_results_are_written_without_the_compiler(tmp_path):
    first, again = (modules_of(tmp_path, str(tmp_path / "store")) for _ in range(2))
    assert "tileiras.ir" in first
    assert not {name for name in again if name.startswith(("tileiras.ir", "tileiras.dialects", "diskcache"))}


def test_llvm_is_loaded_by_its_own_process_only(loaded):
    assert "tileiras.codegen.llvm_pipeline" in loaded
    assert not {name for name in loaded if name.partition(".")[0] == "llvmlite"}


def test_text_is_not_read_or_written_for_bytecode(loaded):
    assert not loaded & {f"tileiras.ir.{name}" for name in ("parser", "printer", "lexer", "assembly_format")}


@pytest.mark.parametrize(
    "package, families",
    [
        ("tileiras.lowering.tileas_to_llvm.memory", "atomics multimem print sub_byte"),
        ("tileiras.lowering.tileas_to_llvm.collective", "convert_layout reduce scan slices"),
        ("tileiras.lowering.tileas_to_llvm.tensor_core", "atoms dot"),
        ("tileiras.lowering.tileas_to_llvm.pipes", "staging"),
        ("tileiras.layout", "convert shared staging"),
        ("tileiras.schedule", "software_pipeline cost_model"),
        ("tileiras.schedule.agents", "load_plan rules slice split"),
        ("tileiras.assignment", "operand_origins"),
        ("tileiras.schedule.materialize", "register_prefetch"),
        ("tileiras.dialects", "debuginfo"),
    ],
)
def test_files_of_other_kernels_are_not_loaded(loaded, package, families):
    assert not loaded & {f"{package}.{name}" for name in families.split()}


def test_heavy_libraries_are_not_loaded(loaded):
    heavy = {"argparse", "asyncio", "dataclasses", "inspect", "logging", "ml_dtypes", "numpy", "urllib.request"}
    assert not loaded & heavy


def test_named_tuples_are_those_that_are_made_quickly(loaded):
    program = (
        "import importlib, sys, typing\n"
        f"for name in {sorted(name for name in loaded if name.startswith('tileiras.'))!r}:\n"
        "    for value in vars(importlib.import_module(name)).values():\n"
        "        if typing.NamedTuple in getattr(value, '__orig_bases__', ()):\n"
        "            print(value)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "", "take NamedTuple from tileiras.support.named_tuple"


def test_llvms_process_knows_nothing_of_the_compiler():
    program = (
        "import sys; from tileiras.processes import helper; helper._functions()['warm_up'](); "
        "print(*(name for name in sys.modules if name.startswith('tileiras.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.removeprefix("tileiras.") for name in done.stdout.split()}
    assert "codegen.llvm_pipeline" in loaded
    packages = {name.partition(".")[0] for name in loaded}
    assert packages <= {"codegen", "processes", "targets", "diagnostics", "support", "reasons", "requirements"}
    below = {name for name in loaded if name.partition(".")[0] in ("diagnostics", "support")}
    assert below <= {"diagnostics", "support", "support.lazy", "support.named_tuple"}
    assert not {name for name in loaded if "atoms" in name or name.startswith("reasons.")}

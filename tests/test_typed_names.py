"""Names that are loaded on first use: type checkers see their real types, and `dir` shows them."""

import ast
import importlib
import subprocess
import sys

import pytest

import tileiras
from tileiras.options import OPTIONS

FRONTS = ("tileiras", "tileiras.bytecode", "tileiras.check", "tileiras.ir", "tileiras.sim", "tileiras.targets")


def table_of(front: str) -> dict[str, str]:
    """The names of a package's table, and their modules in full."""
    package = importlib.import_module(front)
    if front == "tileiras":
        return package._LAZY
    if front == "tileiras.sim":
        return {**{name: f"{front}.{file}" for name, file in package._EXPORTS.items()}, "estimate": f"{front}.estimate"}
    return {name: f"{front}.{file}" for name, file in package._LAZY.items()}


def checked_imports(front: str) -> dict[str, str]:
    """The imports below `if TYPE_CHECKING:` of a package: name -> module."""
    with open(importlib.import_module(front).__file__, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    result = {}
    for node in tree.body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for line in node.body:
                if isinstance(line, ast.ImportFrom):
                    module = f"{front}.{line.module}" if line.level else line.module
                    result.update({alias.name: module for alias in line.names})
    return result


@pytest.mark.parametrize("front", FRONTS)
def test_type_checkers_see_the_table(front):
    result = checked_imports(front)
    table = table_of(front)
    assert {name: module for name, module in result.items() if name in table} == table
    for name, module in table.items():
        assert getattr(importlib.import_module(module), name) is not None


@pytest.mark.parametrize("front", FRONTS)
def test_dir_shows_names_that_are_not_loaded(front):
    program = f"import {front} as package; print(*dir(package))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(table_of(front)) <= set(done.stdout.split())


def test_dir_of_the_package_lists_public_names():
    assert {"compile", "parse", "check", "sim", "runtime", "ir", "CompileError"} <= set(dir(tileiras))
    for name in dir(tileiras):
        getattr(tileiras, name)


def test_keywords_are_the_options():
    with open(importlib.import_module("tileiras.support.option_types").__file__, encoding="utf-8") as file:
        (definition,) = [node for node in ast.parse(file.read()).body if isinstance(node, ast.ClassDef)]
    lines = [line for line in definition.body if isinstance(line, ast.AnnAssign)]
    kinds = {int: "int | str", bool: "bool | str", str: "str", list: "Sequence[str] | str"}
    wanted = {
        option.attribute: kinds[option.kind] + (" | None" if option.default is None else "")
        for option in OPTIONS.values() if option.name not in ("gpu-name", "opt-level")
    }  # fmt: skip
    assert {line.target.id: ast.unparse(line.annotation) for line in lines} == {**wanted, "line_info": "bool | str"}


USES = """
import tileiras
from tileiras.sim import emulate, estimate, interpret
reveal_type(tileiras.compile)
reveal_type(tileiras.parse)
reveal_type(tileiras.check)
reveal_type(emulate)
reveal_type(interpret)
reveal_type(estimate)
tileiras.compile("k.mlir", gpu_name="sm_90", num_warps=8)
tileiras.compile("k.mlir", gpu_nam="sm_90")
tileiras.compile("k.mlir", gpu_name="sm_90", num_warp=8)
"""


@pytest.mark.slow
def test_mypy_refuses_a_misspelt_keyword(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "uses.py").write_text(USES)
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "uses.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    revealed = [line for line in done.stdout.splitlines() if "Revealed type" in line]
    assert len(revealed) == 6 and not any('type is "Any"' in line for line in revealed), done.stdout
    assert 'Revealed type is "def (source: Any, *, gpu_name:' in revealed[0].replace("builtins.", "")
    errors = [line for line in done.stdout.splitlines() if line.startswith("uses.py") and " error: " in line]
    assert {line.split(":")[1] for line in errors} == {"11", "12"}, done.stdout

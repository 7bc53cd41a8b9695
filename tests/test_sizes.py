"""Limits that only fall: sizes of files and functions, and imports within functions."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import tileiras

PACKAGE = Path(tileiras.__file__).parent
FILE, FUNCTION = 500, 80
"""Lines of a file, and of a function; a longer one is split along its seams."""

LOCAL_IMPORTS, SLACK = 140, 20
"""Imports of the package's own modules within functions, which lazy packages (`tileiras.support.lazy`) replace: they
save the same loads, and the head of a file shows its dependences.  The ceiling lies above the count by less than the
slack."""

FILES = 36
"""Files of a folder beside its `__init__.py`."""

SOURCES = {".py", ".c", ".h", ".hpp", ".js", ".css", ".j2", ".cmake"}


@cache
def sources() -> dict[Path, str]:
    paths = (path for path in PACKAGE.rglob("*") if path.suffix in SOURCES)
    return {path.relative_to(PACKAGE): path.read_text(encoding="utf-8") for path in sorted(paths)}


@cache
def parsed() -> dict[Path, ast.Module]:
    return {path: ast.parse(text) for path, text in sources().items() if path.suffix == ".py"}


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def long_functions(tree: ast.Module) -> list[str]:
    """Functions longer than the limit, without their decorators."""
    return [node.name for node in functions(tree) if (node.end_lineno or 0) - node.lineno >= FUNCTION]


def local_imports(tree: ast.Module) -> int:
    """Statements within functions that import modules of the package."""
    nodes = {node for function in functions(tree) for node in ast.walk(function)}
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) if not node.level]
    own = sum(name.partition(".")[0] == "tileiras" for name in names)
    return own + sum(isinstance(node, ast.ImportFrom) and node.level > 0 for node in nodes)


def test_the_measures():
    long, short = ("def f():\n" + "    x = 1\n" * lines for lines in (FUNCTION, FUNCTION - 1))
    assert long_functions(ast.parse(long)) == ["f"] and not long_functions(ast.parse(f"{short}\n\n"))
    text = "import tileiras\ndef f():\n  import tileiras\n  def g():\n    from . import x\n    from tileiras import y"
    assert local_imports(ast.parse(text + "\n  import os\n  from tileirast import z\n")) == 3


def test_no_folder_has_more_files_than_the_limit():
    counts = Counter(path.parent for path in parsed() if path.name != "__init__.py")
    assert [str(folder) for folder, count in counts.items()
            if count > FILES] == []  # fmt: skip


def test_no_file_is_longer_than_the_limit():
    assert len(sources()) > 800
    assert [str(path) for path, text in sources().items() if text.count("\n") > FILE] == []


def test_no_function_is_longer_than_the_limit():
    assert [f"{path}: {name}" for path, tree in parsed().items() for name in long_functions(tree)] == []


def test_imports_within_functions_become_fewer():
    by_folder = Counter({str(path.parent): 0 for path in parsed()})
    for path, tree in parsed().items():
        by_folder[str(path.parent)] += local_imports(tree)
    listed = ", ".join(f"{folder} {count}" for folder, count in by_folder.most_common() if count)
    assert LOCAL_IMPORTS - SLACK < by_folder.total() <= LOCAL_IMPORTS, listed

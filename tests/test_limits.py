"""Sizes of files and functions: what does not fit is split along its seams."""

import ast
from pathlib import Path

import tileiras

PACKAGE = Path(tileiras.__file__).parent
FILE, FUNCTION = 500, 80
"""Lines of a file, and of a function."""

SOURCES = {".py", ".c", ".h", ".hpp", ".js", ".css", ".j2", ".cmake"}


def sources() -> list[tuple[Path, str]]:
    paths = (path for path in PACKAGE.rglob("*") if path.suffix in SOURCES)
    return [(path.relative_to(PACKAGE), path.read_text(encoding="utf-8")) for path in sorted(paths)]


def long_functions(path: Path, text: str) -> list[str]:
    """Functions longer than the limit, without their decorators."""
    nodes = ast.walk(ast.parse(text)) if text.count("\n") > FUNCTION else ()
    functions = (node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return [f"{path}: {node.name}" for node in functions if (node.end_lineno or 0) - node.lineno >= FUNCTION]


def test_the_measure_of_functions():
    long, short = ("def f():\n" + "    x = 1\n" * lines for lines in (FUNCTION, FUNCTION - 1))
    assert long_functions(Path("a.py"), long) == ["a.py: f"] and not long_functions(Path("a.py"), f"{short}\n\n")


def test_files_and_functions_are_no_longer_than_the_limits():
    found = sources()
    assert len(found) > 800
    assert [str(path) for path, text in found if text.count("\n") > FILE] == []
    assert [name for path, text in found if path.suffix == ".py" for name in long_functions(path, text)] == []

"""The prose of files, and the names that they define, for tests of pages and docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

COMMENT = re.compile(r"(?s:\"\"\".*?\"\"\"|'''.*?''')|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|(?P<comment>#[^\n]*)")
"""String literals, and comments outside of them; much faster than `tokenize`."""


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements, nested ones included, without their expressions."""
    for node in body:
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(node, field, []))


def unquoted(text: str) -> str:
    return re.sub(r"`[^`]*`|\"[^\"\n]*\"", "", text)


def passages(path: Path) -> Iterator[str]:
    """The prose of a file without quoted code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield unquoted(re.sub(r"(?s:```.*?```)|^    .*$", "", text, flags=re.MULTILINE))
        return
    for node in statements(ast.parse(text).body):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield unquoted(node.value.value)
    yield from (unquoted(match["comment"]) for match in COMMENT.finditer(text) if match["comment"])


def defined(path: Path) -> set[str]:
    """Functions, classes, their members, and names of a module's top level."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef)))
    stored = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return {*(node.name for node in named), *(node.id for node in stored)}

"""Parameters are annotated with their types: few are `Any` or have no annotation."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from tileiras.build.store.fingerprint import CodeBase

MOST = 0.05
"""Of all parameters but `self` and `cls`."""


def parameters(tree: ast.AST) -> Iterator[tuple[str, ast.arg]]:
    """Every parameter of every function, with the function's name."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            args = node.args
            several = [each for each in (args.vararg, args.kwarg) if each is not None]
            for each in (*args.posonlyargs, *args.args, *args.kwonlyargs, *several):
                if each.arg not in ("self", "cls"):
                    yield node.name, each


def says_nothing(parameter: ast.arg) -> bool:
    return parameter.annotation is None or ast.unparse(parameter.annotation) in ("Any", "'Any'")


def test_the_measure():
    tree = ast.parse("def f(a, b: Any, c: int, *d, e: 'Any' = 1, **g: str): pass")
    assert [name.arg for _, name in parameters(tree) if says_nothing(name)] == ["a", "b", "e", "d"]


def test_few_parameters_may_be_anything():
    vague, count = [], 0
    top = os.path.join(CodeBase().root, "tileiras")
    for folder, _, files in os.walk(top):
        for name in sorted(files):
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    result = list(parameters(ast.parse(file.read())))
                count += len(result)
                vague += [f"{os.path.relpath(path, top)}: {function}({each.arg})"
                          for function, each in result if says_nothing(each)]  # fmt: skip
    assert len(vague) <= MOST * count, vague

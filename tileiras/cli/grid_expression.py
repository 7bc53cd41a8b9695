"""Grids that follow from a kernel's constants and arguments: `--grid 'cdiv(A_size0,TM),cdiv(B_size1,TN)'`.

One to three sizes, separated by commas, of integers, names, `+ - * // %`, parentheses, and the functions `cdiv`
(quotient rounded up), `min` and `max`: the syntax is this subset of Python's.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import NoReturn

from tileiras.cli.process import UsageError
from tileiras.support.named_tuple import NamedTuple

LONGEST = 500
"""Characters of an expression, so that no nesting is deeper than Python's parser goes."""

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip


def _cdiv(number: int, by: int) -> int:
    return -(-number // by)


_FUNCTIONS: dict[str, tuple[Callable[..., int], int]] = {"cdiv": (_cdiv, 2), "min": (min, 0), "max": (max, 0)}
"""Name -> function, and how many arguments it has; 0: two or more."""


class GridExpression(NamedTuple):
    """A grid as a command line has it."""

    option: str
    text: str
    sizes: tuple[ast.expr, ...]

    @property
    def names(self) -> list[str]:
        """The names that it depends on, sorted."""
        calls = {id(node.func) for size in self.sizes for node in ast.walk(size) if isinstance(node, ast.Call)}
        return sorted({node.id for size in self.sizes for node in ast.walk(size)
                       if isinstance(node, ast.Name) and id(node) not in calls})  # fmt: skip

    def of(self, values: Mapping[str, object]) -> tuple[int, ...]:
        """The sizes for these values of the names; raises UsageError at the column of a name without a value."""
        return tuple(self._size(each, values) for each in self.sizes)

    def _size(self, node: ast.expr, values: Mapping[str, object]) -> int:
        size = self._value(node, values)
        if size < 1:
            self._fail(node, f"a grid has one to three positive sizes, this is {size}{_where(self.names, values)}")
        if size >= 1 << 31:
            self._fail(node, f"a grid has sizes below 2**31, this is {size}{_where(self.names, values)}")
        return size

    def _value(self, node: ast.expr, values: Mapping[str, object]) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name):
            return self._variable(node, values)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._value(node.operand, values)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            function, arguments = _OPERATORS[type(node.op)], [node.left, node.right]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            function, count = _FUNCTIONS[node.func.id]
            arguments = node.args
            if node.keywords or (len(arguments) != count if count else len(arguments) < 2):
                self._fail(node, f"{node.func.id} takes {count or 'two or more'} arguments")
        else:
            self._fail(node, f"expected integers, names, + - * // % and {', '.join(_FUNCTIONS)}")
        try:
            return function(*(self._value(each, values) for each in arguments))
        except ZeroDivisionError:
            self._fail(node, f"division by zero{_where(self.names, values)}")

    def _variable(self, node: ast.Name, values: Mapping[str, object]) -> int:
        if node.id not in values:
            names = f"known are {', '.join(sorted(values))}" if values else "the kernel has no names to use here"
            self._fail(node, f"'{node.id}' is not known; {names}")
        value = values[node.id]
        if type(value) is bool or not hasattr(value, "__index__"):
            self._fail(node, f"'{node.id}' is {value!r}, which is no integer")
        return operator.index(value)  # type: ignore[arg-type]

    def _fail(self, node: ast.expr, message: str) -> NoReturn:
        column = len(self.text.encode()[: node.col_offset].decode(errors="replace")) + 1
        raise _wrong(self.option, self.text, column, message)


def parse(option: str, text: str) -> GridExpression:
    """The grid of an option; raises UsageError, also for sizes that are invalid for all values of the names."""
    text = text.strip()
    if len(text) > LONGEST:
        raise UsageError(f"{option}: an expression has at most {LONGEST} characters")
    try:
        tree = ast.parse(text, option, "eval").body
    except SyntaxError as problem:
        raise _wrong(option, text, max(problem.offset or 1, 1), f"not a grid, X[,Y[,Z]]: {problem.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise _wrong(option, text, 1, "not a grid, X[,Y[,Z]]") from None
    sizes = tuple(tree.elts) if isinstance(tree, ast.Tuple) else (tree,)
    if not 1 <= len(sizes) <= 3:
        raise UsageError(f"a grid has one to three positive sizes, got '{text}'")
    grid_expression = GridExpression(option, text, sizes)
    if not grid_expression.names:
        grid_expression.of({})
    return grid_expression


def _where(names: list[str], values: Mapping[str, object]) -> str:
    return f" where {', '.join(f'{name}={values[name]}' for name in names if name in values)}" if names else ""


def _wrong(option: str, text: str, column: int, message: str) -> UsageError:
    """An error that shows the expression and a mark below the column, as diagnostics do."""
    return UsageError(f"{option}:1:{column}: {message}\n{text}\n{' ' * (column - 1)}^")

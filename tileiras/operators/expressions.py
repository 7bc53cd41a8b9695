"""Integer expressions of declarations, over dimensions and integer parameters: checked, and printed for each language.

    ceildiv(n, 128)    x.stride(0)    min(m, 64) * 2
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from tileiras.diagnostics import CompileError, ExitCode
from tileiras.support.named_tuple import NamedTuple

_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}
FUNCTIONS = ("ceildiv", "min", "max")
OF_A_TENSOR = {"size": 1, "stride": 1, "numel": 0}
"""Method of a tensor -> number of its arguments, which are dimensions."""


class Names(NamedTuple):
    """The names that an expression may contain."""

    numbers: Collection[str]
    """Dimensions and integer parameters."""
    tensors: Mapping[str, int]
    """Tensor -> rank."""


class Expression(NamedTuple):
    """A checked expression."""

    text: str
    node: ast.expr

    def python(self) -> str:
        return _python(self.node)

    def strided(self) -> set[str]:
        """The tensors whose strides it reads."""
        result = set()
        for node in ast.walk(self.node):
            if isinstance(node, ast.Attribute) and node.attr == "stride":
                result.add(ast.unparse(node.value))
        return result


def refuse(message: str) -> CompileError:
    """The error of a declaration: code 2."""
    return CompileError.at(None, message, ExitCode.CONFIGURATION)


def parse(text: object, where: str, names: Names) -> Expression:
    """Raise CompileError, which names `where`, for anything else than integer arithmetic over the names."""
    if isinstance(text, bool) or not isinstance(text, (str, int)):
        raise refuse(f"{where}: an expression is expected, not {text!r}")
    try:
        node = ast.parse(str(text), mode="eval").body
    except (SyntaxError, ValueError):
        raise refuse(f"{where}: '{text}' is no expression") from None
    try:
        _check(node, names)
    except ValueError as error:
        raise refuse(f"{where}: '{text}' {error}") from None
    return Expression(str(text), node)


def _check(node: ast.expr, names: Names) -> None:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return
        case ast.Name(id=name):
            if name not in names.numbers:
                numbers = ", ".join(sorted(names.numbers)) or "none"
                raise ValueError(f"contains '{name}'; known numbers: {numbers}")
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            _check(left, names)
            _check(right, names)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            _check(operand, names)
        case ast.Call(func=ast.Name(id=function), args=arguments, keywords=[]) if function in FUNCTIONS:
            if len(arguments) != 2:
                raise ValueError(f"calls {function} with {len(arguments)} arguments; it takes 2")
            for argument in arguments:
                _check(argument, names)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=tensor), attr=method), args=arguments, keywords=[]) if (
            method in OF_A_TENSOR
        ):
            if tensor not in names.tensors:
                raise ValueError(f"contains '{tensor}', which is no tensor")
            dimensions = [argument.value for argument in arguments if isinstance(argument, ast.Constant)]
            if len(arguments) != OF_A_TENSOR[method] or len(dimensions) != len(arguments):
                raise ValueError(f"calls {method} with other arguments than a dimension")
            rank = names.tensors[tensor]
            if any(not isinstance(at, int) or not 0 <= at < rank for at in dimensions):
                raise ValueError(f"names a dimension that '{tensor}' of rank {rank} does not have")
        case _:
            raise ValueError("is more than integer arithmetic")


def _python(node: ast.expr) -> str:
    match node:
        case ast.BinOp(left=left, op=operator, right=right):
            return f"({_python(left)} {_OPERATORS[type(operator)]} {_python(right)})"
        case ast.UnaryOp(operand=operand):
            return f"(-{_python(operand)})"
        case ast.Call(func=ast.Name(id="ceildiv"), args=[left, right]):
            return f"(-(-{_python(left)} // {_python(right)}))"
        case _:
            return ast.unparse(node) if not isinstance(node, ast.Call) else _call(node)


def _call(node: ast.Call) -> str:
    arguments = ", ".join(map(_python, node.args))
    return f"{ast.unparse(node.func)}({arguments})"

"""Declarations of operators, in TOML.

    namespace = "shop"
    source = "saxpy.mlir"
    gpus = ["sm_80", "sm_90"]

    [operator.saxpy]
    parameters = ["x: f32[n]", "y: f32[n]", "a: float"]
    results = []
    mutates = ["y"]
    grid = ["ceildiv(n, 1024)"]
    arguments = ["x", "y", "a", "n"]

`docs/operators.md` describes the keys.
"""

from __future__ import annotations

import ast
import keyword
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from tileiras.support.named_tuple import NamedTuple

from .expressions import Expression, Names, parse, refuse

DTYPES = ("i8", "i16", "i32", "i64", "u8", "f16", "bf16", "f32", "f64", "f8E4M3FN", "f8E5M2", "bool")
SCALARS = ("int", "float", "bool")
_PARAMETER = re.compile(r"\s*(\w+)\s*:\s*(\w+)\s*(?:\[([^\]]*)\])?\s*")
_NAME = re.compile(r"[A-Za-z]\w*")
_RESERVED = {*keyword.kwlist, "torch", "jax", "tileiras", "self", "min", "max", "ceildiv"}


class Tensor(NamedTuple):
    """A tensor parameter or result."""

    name: str
    dtype: str
    shape: tuple[str, ...]
    """Names of dimensions, or numbers; of a result, expressions."""


class Scalar(NamedTuple):
    name: str
    kind: str
    """One of SCALARS."""


class Operator(NamedTuple):
    name: str
    kernel: str
    parameters: tuple[Tensor | Scalar, ...]
    results: tuple[Tensor, ...]
    sizes: tuple[tuple[Expression, ...], ...]
    """The shape of each result."""
    mutates: tuple[str, ...]
    grid: tuple[Expression, ...]
    arguments: tuple[str | Expression, ...] | None
    """A tensor or scalar by its name, or a number; None: by the names of the kernel's parameters."""
    aligned: int
    """Bytes; the addresses of all tensors are multiples of it."""

    def tensors(self) -> dict[str, Tensor]:
        """Parameters and results."""
        return {each.name: each for each in (*self.parameters, *self.results) if isinstance(each, Tensor)}

    def scalars(self) -> dict[str, Scalar]:
        return {each.name: each for each in self.parameters if isinstance(each, Scalar)}

    def dimensions(self) -> dict[str, tuple[str, int]]:
        """Name -> the first parameter and its dimension of that size."""
        result: dict[str, tuple[str, int]] = {}
        for each in self.parameters:
            if isinstance(each, Tensor):
                for at, size in enumerate(each.shape):
                    if not size.isdigit():
                        result.setdefault(size, (each.name, at))
        return result

    def names(self) -> Names:
        integers = [name for name, scalar in self.scalars().items() if scalar.kind == "int"]
        return Names((*self.dimensions(), *integers), {name: len(t.shape) for name, t in self.tensors().items()})


class Declaration(NamedTuple):
    namespace: str
    source: str
    gpus: tuple[str, ...]
    emit: str
    options: dict[str, Any]
    operators: tuple[Operator, ...]


def read(text: str) -> Declaration:
    """Raise CompileError (code 2), which names the key, for a declaration that is not well formed."""
    try:
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise refuse(f"not TOML: {error}") from None
    types = {"namespace": str, "source": str, "gpus": list, "emit": str, "options": dict, "operator": dict}
    _known_keys(whole, types, "")
    for key in ("namespace", "source", "gpus", "operator"):
        if not whole.get(key):
            raise refuse(f"'{key}' is missing")
    gpus = _strings(whole["gpus"], "gpus")
    emit = whole.get("emit", "ptx")
    if emit not in ("ptx", "cubin"):
        raise refuse(f"emit: ptx or cubin is expected, not '{emit}'")
    namespace = _identifier(whole["namespace"], "namespace")
    operators = tuple(_operator(name, table) for name, table in whole["operator"].items())
    return Declaration(namespace, whole["source"], gpus, emit, whole.get("options", {}), operators)


def _known_keys(table: Mapping[str, Any], types: Mapping[str, type], where: str) -> None:
    for key, value in table.items():
        if key not in types:
            raise refuse(f"{where}'{key}' is unknown; known keys: {', '.join(types)}")
        if not isinstance(value, types[key]) or isinstance(value, bool):
            raise refuse(f"{where}{key}: a value of another type is expected, not {value!r}")


def _strings(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise refuse(f"{where}: a list of strings is expected, not {value!r}")
    return tuple(value)


def _identifier(name: Any, where: str) -> str:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None or name in _RESERVED:
        raise refuse(f"{where}: '{name}' cannot be a name")
    return name


def _operator(name: str, table: Any) -> Operator:
    where = f"operator.{name}: "
    if not isinstance(table, dict):
        raise refuse(f"{where}a table is expected")
    _identifier(name, "operator")
    types = {"kernel": str, "parameters": list, "results": list, "mutates": list, "grid": list, "arguments": list,
             "aligned": int}  # fmt: skip
    _known_keys(table, types, where)
    for key in ("parameters", "grid"):
        if not table.get(key):
            raise refuse(f"{where}'{key}' is missing")
    parameters = tuple(_parameter(text, f"{where}parameters") for text in _strings(table["parameters"], where))
    results = tuple(_parameter(text, f"{where}results") for text in _strings(table.get("results", []), where))
    if not any(isinstance(each, Tensor) for each in parameters):
        raise refuse(f"{where}a tensor is expected among the parameters: it determines the device")
    if any(isinstance(each, Scalar) for each in results):
        raise refuse(f"{where}a result is a tensor")
    operator = Operator(
        name, table.get("kernel", name), parameters, results, (), (), (), None, table.get("aligned", 16)
    )
    if operator.aligned < 1 or operator.aligned & (operator.aligned - 1):
        raise refuse(f"{where}aligned: a power of two is expected, not {operator.aligned}")
    every = [each.name for each in (*parameters, *results)]
    twice = sorted(
        {each for each in (*every, *operator.dimensions()) if [*every, *operator.dimensions()].count(each) > 1}
    )
    if twice:
        raise refuse(f"{where}'{twice[0]}' is declared twice")
    return _with_expressions(operator, table, where)


def _with_expressions(operator: Operator, table: Mapping[str, Any], where: str) -> Operator:
    inputs = {each.name for each in operator.parameters if isinstance(each, Tensor)}
    mutates = _strings(table.get("mutates", []), f"{where}mutates")
    for name in mutates:
        if name not in inputs:
            raise refuse(f"{where}mutates: '{name}' is no tensor among the parameters")
    if not mutates and not operator.results:
        raise refuse(f"{where}an operator has results or changes a tensor (mutates)")
    names = operator.names()
    shapes = names._replace(tensors={name: rank for name, rank in names.tensors.items() if name in inputs})
    sizes = tuple(tuple(parse(size, f"{where}results", shapes) for size in tensor.shape) for tensor in operator.results)
    if len(table["grid"]) > 3:
        raise refuse(f"{where}grid: at most three expressions are expected")
    grid = tuple(parse(text, f"{where}grid", names) for text in table["grid"])
    arguments: Sequence[str | Expression] | None = None
    if "arguments" in table:
        whole = {*operator.tensors(), *operator.scalars()}
        arguments = [each if each in whole else parse(each, f"{where}arguments", names) for each in table["arguments"]]
    return operator._replace(
        sizes=sizes, mutates=mutates, grid=grid, arguments=None if arguments is None else tuple(arguments)
    )


def _parameter(text: str, where: str) -> Tensor | Scalar:
    match = _PARAMETER.fullmatch(text)
    if match is None:
        raise refuse(f"{where}: '{text}' is not of the form 'x: f32[n, 64]' or 'a: float'")
    name, kind, dims = match.groups()
    _identifier(name, where)
    if dims is None:
        if kind not in SCALARS:
            raise refuse(f"{where}: '{kind}' is no scalar: {', '.join(SCALARS)}; a tensor has dimensions")
        return Scalar(name, kind)
    if kind not in DTYPES:
        raise refuse(f"{where}: '{kind}' is no element type: {', '.join(DTYPES)}")
    shape = _dimensions(dims, where)
    if where.endswith("parameters"):
        for size in shape:
            if not size.isdigit():
                _identifier(size, where)
    return Tensor(name, kind, shape)


def _dimensions(text: str, where: str) -> tuple[str, ...]:
    """Expressions with commas between them; those of calls belong to the call."""
    try:
        node = ast.parse(f"({text},)" if text.strip() else "()", mode="eval").body
    except (SyntaxError, ValueError):
        raise refuse(f"{where}: '[{text}]' is no list of dimensions") from None
    assert isinstance(node, ast.Tuple)
    return tuple(map(ast.unparse, node.elts))

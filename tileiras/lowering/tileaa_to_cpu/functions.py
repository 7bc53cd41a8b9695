"""Elementary functions on vectors.

In f32: exponentials and logarithms as polynomials on whole vectors, the others in the C library's functions for f64,
rounded once, element by element.  In f64: the C library's.
"""

from __future__ import annotations

from collections.abc import Sequence

from .code import Code, constant, float_literal, vector

LIBRARY = {
    "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "sin": "sin", "cos": "cos", "tan": "tan",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "powf": "pow", "atan2": "atan2",
}  # fmt: skip
"""Operation of math -> the function of the C library for f64."""

NAMES = (*LIBRARY, "rsqrt")


def call(code: Code, name: str, type: str, count: int, given: Sequence[str]) -> str:
    """A function of f32 or f64 numbers."""
    if name == "rsqrt":
        return _rsqrt(code, type, count, given[0])
    if type == "float" and name in _FAST:
        return _FAST[name](code, count, given[0])
    return _by_element(code, LIBRARY[name], type, count, given)


def _by_element(code: Code, function: str, type: str, count: int, given: Sequence[str]) -> str:
    """The C library's function for f64, once for each element."""
    whole = "poison"
    for lane in range(count):
        numbers = [code.element(type, count, each, lane) for each in given]
        if type == "float":
            numbers = [code.value(f"fpext float {each} to double") for each in numbers]
        found = code.call(function, "double", [("double", each) for each in numbers])
        if type == "float":
            found = code.value(f"fptrunc double {found} to float")
        if count == 1:
            return found
        whole = code.value(f"insertelement {vector(type, count)} {whole}, {type} {found}, i64 {lane}")
    return whole


def _rsqrt(code: Code, type: str, count: int, number: str) -> str:
    """In f64, which is exact enough for f32; in f64 itself two roundings."""
    wide = vector("double", count)
    if type == "float":
        number = code.value(f"fpext {vector('float', count)} {number} to {wide}")
    root = code.intrinsic("sqrt", "double", count, number)
    found = code.value(f"fdiv {wide} {constant('double', count, float_literal(1.0, 'double'))}, {root}")
    return code.value(f"fptrunc {wide} {found} to {vector('float', count)}") if type == "float" else found


class _Floats:
    """Instructions on vectors of f32."""

    def __init__(self, code: Code, count: int) -> None:
        self.code, self.count, self.type = code, count, vector("float", count)

    def c(self, number: float) -> str:
        return constant("float", self.count, float_literal(number))

    def op(self, name: str, left: str, right: str | float) -> str:
        right = self.c(right) if isinstance(right, float) else right
        return self.code.value(f"{name} {self.type} {left}, {right}")

    def fma(self, a: str, b: str | float, c: str | float) -> str:
        b, c = (self.c(each) if isinstance(each, float) else each for each in (b, c))
        return self.code.intrinsic("fmuladd", "float", self.count, a, b, c)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """Horner's scheme; the highest coefficient first."""
        found: str = self.c(coefficients[0])
        for each in coefficients[1:]:
            found = self.fma(found, x, each)
        return found

    def choose(self, predicate: str, x: str, limit: float, yes: str | float, no: str) -> str:
        """`yes` where the comparison with a number holds."""
        yes = self.c(yes) if isinstance(yes, float) else yes
        truth = self.code.value(f"fcmp {predicate} {self.type} {x}, {self.c(limit)}")
        return self.code.value(f"select {vector('i1', self.count)} {truth}, {self.type} {yes}, {self.type} {no}")


_FAST: dict = {}

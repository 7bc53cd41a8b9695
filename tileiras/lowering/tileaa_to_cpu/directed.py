"""Arithmetic that rounds towards zero or an infinity, in the processor's mode; multiply-adds of narrow formats.

Each operation is a function of its own, which sets the mode and restores it, since LLVM moves arithmetic freely within
functions.  Formats narrower than f32 are computed with in f32 and rounded again in the same direction, which is exact.
"""

from __future__ import annotations

from collections.abc import Sequence

from .code import Code, constant, float_literal, suffix, vector
from .elements import Kind, Lanes
from .formats import encode, narrow_to_odd

MODES = {"zero": 0, "positive_inf": 2, "negative_inf": 3}
"""Rounding mode -> its number in `llvm.set.rounding`; 1 is to nearest."""

_INSTRUCTIONS = {"addf": "fadd", "subf": "fsub", "mulf": "fmul", "divf": "fdiv", "sqrt": "sqrt", "fma": "fma"}


def rounded_towards(code: Code, name: str, kind: Kind, count: int, operands: Sequence[str], mode: str) -> Lanes:
    """The result of an operation on numbers of one kind, rounded in a directed mode."""
    result = _call(code, _INSTRUCTIONS[name], kind.number, kind.number, count, operands, mode)
    if kind.format:
        return Lanes(kind, count, bits=encode(code, kind.format, count, result, mode))
    return Lanes(kind, count, result)


def narrowed(code: Code, count: int, wide: str, mode: str) -> str:
    """f64 numbers rounded to f32 in a directed mode."""
    return _call(code, "fptrunc", "double", "float", count, [wide], mode)


def _call(code: Code, instruction: str, type: str, to: str, count: int, operands: Sequence[str], mode: str) -> str:
    """A call of the function that executes one instruction in a mode."""
    operand, result = vector(type, count), vector(to, count)
    name = f"directed.{instruction}.{suffix(type, count)}.{mode}"
    if name not in code.functions:
        overload = f"{suffix(to, count)}.{suffix(type, count)}" if to != type else suffix(type, count)
        intrinsic = f"llvm.experimental.constrained.{instruction}.{overload}"
        parameters = [f"{operand} %a{number}" for number in range(len(operands))]
        words = 'metadata !"round.dynamic", metadata !"fpexcept.strict"'
        code.declarations["llvm.set.rounding"] = "declare void @llvm.set.rounding(i32)"
        code.declarations[intrinsic] = (
            f"declare {result} @{intrinsic}({', '.join([operand] * len(operands))}, metadata, metadata)"
        )
        code.functions[name] = (
            f"define internal {result} @{name}({', '.join(parameters)}) #1 {{\n"
            f"  call void @llvm.set.rounding(i32 {MODES[mode]}) #1\n"
            f"  %r = call {result} @{intrinsic}({', '.join(parameters)}, {words}) #1\n"
            f"  call void @llvm.set.rounding(i32 1) #1\n"
            f"  ret {result} %r\n}}\n"
        )
    return code.value(f"call {result} @{name}({', '.join(f'{operand} {each}' for each in operands)})")


def fused(code: Code, kind: Kind, count: int, operands: Sequence[str]) -> Lanes:
    """A multiply-add of a format narrower than f32, rounded once: in f64, rounded to odd."""
    double, integer, truth = vector("double", count), vector("i64", count), vector("i1", count)
    a, b, c = (code.value(f"fpext {vector('float', count)} {each} to {double}") for each in operands)
    product = code.value(f"fmul {double} {a}, {b}")
    total = code.value(f"fadd {double} {product}, {c}")
    # The error of the sum (Knuth); the product is exact.
    other = code.value(f"fsub {double} {total}, {product}")
    rest = code.value(f"fsub {double} {product}, {code.value(f'fsub {double} {total}, {other}')}")
    error = code.value(f"fadd {double} {rest}, {code.value(f'fsub {double} {c}, {other}')}")
    zero = constant("double", count, float_literal(0.0, "double"))
    inexact = code.value(f"fcmp one {double} {error}, {zero}")
    # Towards the exact sum, if its last bit is even: away from zero where the error has the sign of the sum.
    bits = code.value(f"bitcast {double} {total} to {integer}")
    outwards = code.value(f"fcmp ogt {double} {code.value(f'fmul {double} {error}, {total}')}, {zero}")
    plus, minus = (constant("i64", count, each) for each in (1, -1))
    step = code.value(f"select {truth} {outwards}, {integer} {plus}, {integer} {minus}")
    last = code.value(f"trunc {integer} {bits} to {truth}")
    even = code.value(f"xor {truth} {last}, {constant('i1', count, 'true')}")
    moves = code.value(f"and {truth} {inexact}, {even}")
    adjacent = code.value(f"add {integer} {bits}, {step}")
    odd = code.value(f"select {truth} {moves}, {integer} {adjacent}, {integer} {bits}")
    single = narrow_to_odd(code, count, code.value(f"bitcast {integer} {odd} to {double}"))
    return Lanes(kind, count, bits=encode(code, kind.format, count, single))

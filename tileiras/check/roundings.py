"""Roundings that a program does not specify.

Sums may be taken in any order and functions have a tolerance, so that a wrong rounding inside of one yields allowed
values.  Each operation of a sum must still be rounded as the program specifies, to nearest even by default: an
instruction with another rounding mode implements no operation of the source with any values.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from tileiras.ir import FLOAT_SEMANTICS, IntegerType, Operation, element_type_of, f64

_STATEMENT = re.compile(
    r"(?:(?:add|sub|mul|fma|div|sqrt|rcp)\.(?:\w+\.)*?(?P<mode>r[nzmp])\.[\w.]*"
    r"|cvt\.(?P<to>r[nzmp])\.(?:\w+\.)*?(?:f32|f64|f16|bf16|f16x2|bf16x2)\.[\w.]+"
    r"|(?:div|sqrt)\.(?P<approximate>approx|full)\.[\w.]*)"
)
_OF_ATTRIBUTE = {"zero": "rz", "negative_inf": "rm", "positive_inf": "rp"}
EXPANSIONS = {
    "exp": {("fma", "rm")}, "remf": {("fma", "rz")},
}  # fmt: skip
"""Opcodes and modes other than to nearest in the expansions of functions: libdevice rounds the exponent of `exp` down,
and the steps of a remainder towards zero."""
_FUNCTIONS = frozenset(
    "atan2 cos cosh exp exp2 fpowf log log2 pow powi remf rsqrt sin sinh tan tanh".split()
)  # fmt: skip
"""Functions whose expansions may divide, or take square roots, with an error that their tolerance includes."""
_TO_ODD = ("cvt", "rz")
"""Numbers that f32 does not hold are rounded to odd, whose last bit stands for all further ones, before they are
rounded to a narrower format: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums"."""


def _rounds_twice(op: Operation) -> bool:
    """Whether a conversion goes through f32: from a wider number to a format with fewer fraction bits."""
    if op.name not in ("cuda_tile.ftof", "cuda_tile.itof"):
        return False
    source, target = (element_type_of(value.type) for value in (op.operands[0], op.results[0]))
    is_wide = source.width > 16 if isinstance(source, IntegerType) else source is f64
    return is_wide and FLOAT_SEMANTICS[target.keyword].mantissa_bits < FLOAT_SEMANTICS["f32"].mantissa_bits


def _may_be_approximate(op: Operation, name: str, approx: bool) -> bool:
    """Whether code for an operation may contain approximate divisions or square roots: narrow formats are computed in
    f32 and rounded once more."""
    if name not in ("divf", "sqrt"):
        return name in _FUNCTIONS
    mode = getattr(op.attributes.get("rounding_mode"), "value", "")
    return approx or mode in ("approx", "full") or element_type_of(op.results[0].type).width < 32


def allowed(entry: Operation, approx: bool = False) -> set[tuple[str, str]]:
    """Opcodes and modes other than to nearest that an entry specifies; `approx`: the option of the compilation."""
    modes: set[tuple[str, str]] = set()
    for op in entry.walk():
        name = op.name.partition(".")[2]
        modes |= EXPANSIONS.get(name, set())
        if _may_be_approximate(op, name, approx):
            modes |= {(opcode, mode) for opcode in ("div", "sqrt") for mode in ("approx", "full")}
        if _rounds_twice(op):
            modes.add(_TO_ODD)
        attribute = op.attributes.get("rounding_mode")
        mode = _OF_ATTRIBUTE.get(getattr(attribute, "value", ""))
        if mode is not None:
            modes |= {(opcode, mode) for opcode in ("add", "sub", "mul", "fma", "div", "sqrt", "rcp", "cvt")}
    return modes


@functools.lru_cache(maxsize=8)
def directed(ptx: str) -> tuple[tuple[int, str, str, str], ...]:
    """Line, opcode, mode and text of each operation of PTX that is not rounded to nearest."""
    return tuple(_directed(ptx))


def _directed(ptx: str) -> Iterator[tuple[int, str, str, str]]:
    for match in _STATEMENT.finditer(ptx):
        mode = match["mode"] or match["to"] or match["approximate"]
        if mode != "rn":
            line = ptx.count("\n", 0, match.start()) + 1
            yield line, match.group().partition(".")[0], mode, ptx.splitlines()[line - 1].strip()


def unasked(entry: Operation, ptx: str, approx: bool = False) -> tuple[int, str] | None:
    """The first operation of PTX, by line and text, with a rounding that the entry does not specify."""
    others = directed(ptx)
    modes = allowed(entry, approx) if others else set()
    return next(((line, text) for line, opcode, mode, text in others if (opcode, mode) not in modes), None)

"""Formatted output through the C library: a scalar alone, other tiles as nested brackets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .code import Index
from .elements import Kind, Lanes
from .plan import is_tile
from .tiles import At

if TYPE_CHECKING:
    from .lower import Lowering

_CONVERSION = re.compile(r"%(?:%|([-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|z|j|t|L)?([diouxXeEfFgGcsp]))")
_FLOATS = "eEfFgG"


def print_(low: Lowering, op: Any) -> None:
    text, place, operands = op.format.value, 0, iter(op.args)
    low.prints = True
    for match in _CONVERSION.finditer(text):
        _text(low, text[place : match.start()])
        place = match.end()
        if match[0] == "%%":
            _text(low, "%")
            continue
        value = next(operands, None)
        if value is None:
            raise low.refuse(op, "more conversions in the format than operands")
        with low.together():
            _tile(low, value, (), match[1], match[2])
    _text(low, text[place:])


def _string(low: Lowering, text: str) -> str:
    """The address of a constant string."""
    data = text.encode("utf-8", "surrogateescape") + b"\0"
    name = f"@text.{len(low.constants)}"
    escaped = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in data)
    low.constants.append(f'{name} = private constant [{len(data)} x i8] c"{escaped}"')
    return name


def _printf(low: Lowering, format: str, *arguments: str) -> None:
    low.code.declarations["printf"] = "declare i32 @printf(ptr, ...)"
    text = ", ".join((f"ptr {_string(low, format)}", *arguments))
    low.code.do(f"call i32 (ptr, ...) @printf({text})")


def _text(low: Lowering, text: str) -> None:
    if text:
        _printf(low, text.replace("%", "%%"))


def _tile(low: Lowering, value: Any, index: tuple[Index, ...], flags: str, kind: str) -> None:
    shape = value.type.shape if is_tile(value) else ()
    if len(index) == len(shape):
        with low.together():
            _element(low, low.lanes(value, At(index)), flags, kind)
        return
    _text(low, "[")
    with low.code.loop(shape[len(index)]) as loop:
        if loop.index != 0:
            with low.code.when(low.code.value(f"icmp ne i64 {loop.index}, 0")):
                _text(low, ", ")
        _tile(low, value, (*index, loop.index), flags, kind)
    _text(low, "]")


def _element(low: Lowering, lanes: Lanes, flags: str, kind: str) -> None:
    """One number, converted as C passes it: narrow integers are signed and 32 bits wide, truth values 0 or 1."""
    code, number, from_kind = low.code, lanes.number(low.code), lanes.kind
    if kind in _FLOATS:
        _printf(low, f"%{flags}{kind}", f"double {_as_double(low, from_kind, number)}")
        return
    if from_kind.is_float:
        number = code.value(f"fptosi {from_kind.number} {number} to i64")
    elif from_kind.width < 64:
        extension = "zext" if from_kind.width == 1 else "sext"
        if from_kind.width < 32:
            number = code.value(f"{extension} {from_kind.number} {number} to i32")
        number = code.value(f"{'sext' if kind in 'di' else 'zext'} i32 {number} to i64")
    if kind == "c":
        number = code.value(f"trunc i64 {number} to i32")
        _printf(low, f"%{flags}c", f"i32 {number}")
        return
    spelled = {"p": "0x%llx", "s": f"%{flags}lld"}.get(kind, f"%{flags}ll{kind}")
    _printf(low, spelled, f"i64 {number}")


def _as_double(low: Lowering, kind: Kind, number: str) -> str:
    if kind.number == "double":
        return number
    if kind.number == "float":
        return low.code.value(f"fpext float {number} to double")
    instruction = "uitofp" if kind.width == 1 else "sitofp"
    return low.code.value(f"{instruction} {kind.number} {number} to double")


FAMILY = {"nv_tileaa.print": print_}

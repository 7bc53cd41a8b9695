"""Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions", "Extended-Precision Integer Arithmetic").

Values are read as signed or unsigned arrays of the type's width; NumPy's integers wrap as PTX's do.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.program import writer
from ..ptx.types import PRED, TYPES, U32, PtxType
from ..ptx.verbs import Verb, emit, one_type, verbs

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup
    from ..ptx.module import Register


_INTEGERS = frozenset(name for name, type_ in TYPES.items() if type_.kind == "packed" or type_.is_integer)


def truncating_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b rounded to zero; division by zero returns all ones (the ISA does not specify it)."""
    zero = b == 0
    divisor = np.where(zero, np.ones(1, b.dtype), b)
    if b.dtype.kind == "u":
        quotient = a // divisor
    else:
        remainder = np.fmod(a, divisor)
        quotient = np.where(divisor == -1, -a, (a - remainder) // np.where(divisor == -1, 1, divisor).astype(b.dtype))
    return np.where(zero, np.array(-1).astype(b.dtype), quotient)


def truncating_remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    zero = b == 0
    divisor = np.where(zero | (b == np.array(-1).astype(b.dtype)) & (b.dtype.kind == "i"), np.ones(1, b.dtype), b)
    return np.where(zero, a, np.fmod(a, divisor))


def multiply_high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper half of the double-width product."""
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
        return ((a.astype(wide) * b.astype(wide)) >> wide.type(bits)).astype(a.dtype)
    low_mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    ua, ub = a.view(np.uint64), b.view(np.uint64)
    al, ah, bl, bh = ua & low_mask, ua >> shift, ub & low_mask, ub >> shift
    middle = ah * bl + (al * bl >> shift)
    other = al * bh + (middle & low_mask)
    high = ah * bh + (middle >> shift) + (other >> shift)
    if a.dtype.kind == "i":
        zero = np.zeros(1, np.uint64)
        high = high - np.where(a < 0, ub, zero) - np.where(b < 0, ua, zero)
    return high.view(a.dtype)


def saturate(wide: np.ndarray, dtype: np.dtype) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.clip(wide, limits.min, limits.max).astype(dtype)


def _integer_type(decoder: Decoder, modifiers: Modifiers) -> PtxType:
    return one_type(decoder, modifiers, _INTEGERS)


def _halves(compute, half: np.dtype):
    """``compute`` on the two 16-bit halves of 32-bit words."""

    def packed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        low = compute(a.astype(np.uint16).view(half), b.astype(np.uint16).view(half)).view(np.uint16)
        high = compute(
            (a >> np.uint32(16)).astype(np.uint16).view(half), (b >> np.uint32(16)).astype(np.uint16).view(half)
        )
        return low.astype(np.uint32) | high.view(np.uint16).astype(np.uint32) << np.uint32(16)

    return packed


def _binary(decoder: Decoder, type_: PtxType, compute) -> None:
    """``compute(a, b)`` on values, of both halves for a packed type."""
    if type_.kind == "packed":
        compute = _halves(compute, np.dtype(np.int16 if type_.name == "s16x2" else np.uint16))
    emit(decoder, (type_,) * 3, compute, values=True)


@instruction("add", "sub")
def decode_add(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    subtract = item.opcode == "sub"
    if modifiers.take("cc"):
        _carry(decoder, _integer_type(decoder, modifiers), subtract, use=False, define=True)
        return
    sat = modifiers.take("sat")
    type_ = _integer_type(decoder, modifiers)
    compute = operator.sub if subtract else operator.add
    if type_.kind == "packed":
        _binary(decoder, type_, compute)
    elif sat:
        _binary(decoder, type_, lambda a, b: saturate(compute(a.astype(np.int64), b.astype(np.int64)), a.dtype))
    else:
        _binary(decoder, TYPES[f"u{type_.bits}"], compute)


@instruction("addc", "subc", "madc")
def decode_addc(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    define = bool(modifiers.take("cc"))
    if item.opcode == "madc":
        _mad_carry(decoder, modifiers, use=True, define=define)
        return
    _carry(decoder, _integer_type(decoder, modifiers), item.opcode == "subc", use=True, define=define)


def _carry_slot(decoder: Decoder) -> int:
    """The condition code register CC.CF, one per function activation."""
    key = ("CC", decoder.frame.base)
    if key not in decoder.constants:
        decoder.constants[key] = decoder.temporary(PRED)
    return decoder.constants[key]


def _sum_with_carry(a: np.ndarray, b: np.ndarray, carry: np.ndarray | None, subtract: bool):
    """(result, carry out); a subtraction's carry is its borrow."""
    if subtract:
        partial = a - b
        result = partial - carry.astype(a.dtype) if carry is not None else partial
        out = a < b
        return result, out if carry is None else out | ((partial == 0) & carry)
    partial = a + b
    result = partial + carry.astype(a.dtype) if carry is not None else partial
    out = partial < a
    return result, out if carry is None else out | (result < partial)


def _emit_carry(decoder: Decoder, d: Register, type_: PtxType, compute, define: bool) -> None:
    """``compute(R)`` returns (result, carry out), computed from the sources before either is written."""
    carry = _carry_slot(decoder)
    result, flag = decoder.temporary(type_), decoder.temporary(PRED)

    def step(group: WarpGroup) -> None:
        group.R[result], group.R[flag] = compute(group.R)

    decoder.emit(step)
    decoder.put(d, type_, lambda R: R[result], raw=True)
    if define:
        decoder.emit(writer(carry, lambda R: R[flag], None))


def _carry(decoder: Decoder, type_: PtxType, subtract: bool, use: bool, define: bool) -> None:
    d, a, b = decoder.operands(3)
    type_ = TYPES[f"u{type_.bits}"]
    x, y, carry = decoder.src(a, type_), decoder.src(b, type_), _carry_slot(decoder)
    _emit_carry(
        decoder,
        d,
        type_,
        lambda R: _sum_with_carry(R[x], R[y], R[carry] if use else None, subtract),
        define,
    )


def _mad_carry(decoder: Decoder, modifiers: Modifiers, use: bool, define: bool) -> None:
    part = modifiers.take("lo", "hi")
    type_ = _integer_type(decoder, modifiers)
    d, a, b, c = decoder.operands(4)
    x, y, z = (decoder.src(each, type_) for each in (a, b, c))
    carry, value, storage = _carry_slot(decoder), type_.value, type_.storage

    def compute(R: Sequence[np.ndarray]):
        left, right = R[x].view(value), R[y].view(value)
        product = multiply_high(*np.broadcast_arrays(left, right)) if part == "hi" else left * right
        return _sum_with_carry(product.view(storage), R[z], R[carry] if use else None, False)

    _emit_carry(decoder, d, TYPES[f"u{type_.bits}"], compute, define)


@instruction("mul", "mad", "mul24", "mad24")
def decode_mul(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    adds = item.opcode.startswith("mad")
    part = modifiers.take("lo", "hi", "wide")
    if part is None:
        raise decoder.unsupported("a product without .lo, .hi or .wide")
    if adds and modifiers.take("cc"):
        _mad_carry_with(decoder, modifiers, part)
        return
    sat = modifiers.take("sat")
    type_ = _integer_type(decoder, modifiers)
    result = TYPES[f"{'s' if type_.signed else 'u'}{2 * type_.bits}"] if part == "wide" else type_
    product = (_product24 if item.opcode.endswith("24") else _product)(type_, part, result.value)
    if not adds:
        emit(decoder, (result, type_, type_), product, values=True)
        return

    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        if sat:
            return saturate(product(a, b).astype(np.int64) + c.astype(np.int64), result.value)
        return product(a, b) + c

    emit(decoder, (result, type_, type_, result), compute, values=True)


def _product(type_: PtxType, part: str, wide: np.dtype):
    if part == "lo":
        return operator.mul
    if part == "wide":
        return lambda a, b: a.astype(wide) * b.astype(wide)
    return lambda a, b: multiply_high(*np.broadcast_arrays(a, b))


def _product24(type_: PtxType, part: str, wide: np.dtype):
    full, shift = np.dtype(np.int64 if type_.signed else np.uint64), 16 if part == "hi" else 0

    def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (_low24(a).astype(full) * _low24(b) >> full.type(shift)).astype(type_.value)

    return multiply


def _mad_carry_with(decoder: Decoder, modifiers: Modifiers, part: str) -> None:
    modifiers.names.append(part)
    _mad_carry(decoder, modifiers, use=False, define=True)


def _low24(values: np.ndarray) -> np.ndarray:
    eight = values.dtype.type(8)
    return (values << eight) >> eight


@instruction("min", "max")
def decode_min(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    relu = modifiers.take("relu")
    choose = np.minimum if item.opcode == "min" else np.maximum

    def clamp(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        result = choose(a, b)
        return np.maximum(result, result.dtype.type(0))

    _binary(decoder, _integer_type(decoder, modifiers), clamp if relu else choose)


verbs(
    Verb("div.T", "t t t", truncating_divide, types=_INTEGERS),
    Verb("rem.T", "t t t", truncating_remainder, types=_INTEGERS),
    Verb("abs.T", "t t", np.abs, types=_INTEGERS),
    Verb("neg.T", "t t", np.negative, types=_INTEGERS),
    Verb("sad.T", "t t t t", lambda a, b, c: c + np.where(a < b, b - a, a - b), types=_INTEGERS),
)


@instruction("dp4a", "dp2a")
def decode_dot(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """A dot product of four bytes (dp4a), or of two halves and two bytes (dp2a.lo, .hi), added to a 32-bit word."""
    part = modifiers.take("lo", "hi") if item.opcode == "dp2a" else None
    types = modifiers.types()
    result = TYPES["s32" if any(t.signed for t in types) else "u32"]
    count, bits = (4, 8) if part is None else (2, 16)

    def parts(values: np.ndarray, signed: bool, bits: int, first: int) -> np.ndarray:
        raw = np.ascontiguousarray(values).view(f"{'i' if signed else 'u'}{bits // 8}").reshape(-1, 32 // bits)
        return raw[:, first : first + count].astype(np.int64)

    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        right = parts(b, types[1].signed, 8, 2 if part == "hi" else 0)
        return c + (parts(a, types[0].signed, bits, 0) * right).sum(1).astype(np.uint32)

    emit(decoder, (result, U32, U32, U32), compute)

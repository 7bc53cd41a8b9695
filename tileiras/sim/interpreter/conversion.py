"""Conversions between element types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tileiras.ir import FLOAT_SEMANTICS, FloatType, IntegerType, Value, element_type_of

from .machine import attribute, meaning
from .rounding import FLOAT_DTYPES, round_to
from .values import dtype_of, signed, undefine, unsigned, width_of, wrap

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile

    from .machine import Machine


def _types(op: cuda_tile.TileOp):
    return op.operands[0].type.element_type, op.results[0].type.element_type


def to_float64_odd(values: np.ndarray) -> np.ndarray:
    """64-bit integers as f64 rounded to odd, which round correctly to every narrower format."""
    values = np.asarray(values)
    extra_bits = 11
    mask = values.dtype.type((1 << extra_bits) - 1)
    result = (values >> values.dtype.type(extra_bits)) | ((values & mask) != 0).astype(values.dtype)
    small = np.abs(values.astype(np.float64)) < 2.0**52
    return np.where(small, values.astype(np.float64), np.ldexp(result.astype(np.float64), extra_bits))


@meaning("itof", elementwise=True)
def itof(machine: Machine, op: cuda_tile.IToFOp):
    source, target = _types(op)
    values = machine[op.operands[0]]
    convert = signed if attribute(op, "signedness", "signed") == "signed" else unsigned
    values = convert(values, source.width)
    mode = attribute(op, "rounding_mode", "nearest_even")
    if target.keyword == "f64":
        return values.astype(np.float64)
    wide = to_float64_odd(values) if source.width == 64 else values.astype(np.float64)
    return round_to(wide, target.keyword, mode, saturate=FLOAT_SEMANTICS[target.keyword].width <= 8)


@meaning("ftoi", elementwise=True)
def ftoi(machine: Machine, op: cuda_tile.FToIOp):
    """Truncate; to i1, unless it saturates, every non-zero value is true, as in the vendor's compiler (13.5)."""
    _, target = _types(op)
    values = np.asarray(machine[op.operands[0]]).astype(np.float64)
    width = target.width
    if width == 1 and op.attributes.get("saturating") is None:
        return values != 0
    values = np.trunc(values)
    is_signed = attribute(op, "signedness", "signed") == "signed"
    low, high = (-(2.0 ** (width - 1)), 2.0 ** (width - 1)) if is_signed else (0.0, 2.0**width)
    if width == 1:
        low, high = (-1.0, 1.0) if is_signed else (0.0, 2.0)
    inside = (values >= low) & (values < high)
    if op.attributes.get("saturating") is not None:
        # The limits of 64-bit integers are not floats: clamp integers.
        whole = np.where(inside, values, 0.0).astype(object)
        exact = np.where(inside, whole, np.where(values < low, int(low), 0).astype(object))
        exact = np.where(values >= high, np.asarray(int(high) - 1, object), exact)
        return wrap(np.vectorize(lambda x: int(x) % (1 << 64), otypes=[np.uint64])(exact), width)
    values_inside = np.where(inside, values, 0.0)
    integers = values_inside.astype(np.int64 if is_signed else np.uint64)
    return undefine(wrap(integers, width), ~inside, target)


@meaning("ftof", elementwise=True)
def ftof(machine: Machine, op: cuda_tile.FToFOp):
    """The 8- and 4-bit formats saturate, as PTX has only such conversions to them (PTX ISA, cvt: .satfinite is
    required)."""
    _, target = _types(op)
    values = np.asarray(machine[op.operands[0]]).astype(np.float64)
    saturate = FLOAT_SEMANTICS[target.keyword].width <= 8
    return round_to(values, target.keyword, attribute(op, "rounding_mode", "nearest_even"), saturate=saturate)


@meaning("exti", elementwise=True)
def exti(machine: Machine, op: cuda_tile.ExtIOp):
    source, target = _types(op)
    convert = signed if attribute(op, "signedness", "signed") == "signed" else unsigned
    values = convert(machine[op.operands[0]], source.width)
    return wrap(values.astype(np.int64), target.width)


@meaning("trunci", elementwise=True)
def trunci(machine: Machine, op: cuda_tile.TruncIOp):
    source, target = _types(op)
    values = machine[op.operands[0]]
    result = wrap(values, target.width)
    promise = attribute(op, "overflow", "none")
    broken = np.zeros(np.shape(result), bool)
    if promise in ("no_signed_wrap", "no_wrap"):
        broken = broken | (signed(result, target.width) != signed(values, source.width))
    if promise in ("no_unsigned_wrap", "no_wrap"):
        broken = broken | (unsigned(result, target.width) != unsigned(values, source.width))
    return undefine(result, broken, target)


@meaning("bitcast", elementwise=True)
def bitcast(machine: Machine, op: cuda_tile.BitcastOp):
    source, target = _types(op)
    values = np.ascontiguousarray(machine[op.operands[0]]).reshape(np.shape(machine[op.operands[0]]))
    if width_of(source) == 4:
        bits = np.asarray(values.view(np.uint8) & 0xF)
        return wrap(bits, 4) if isinstance(target, IntegerType) else bits.view(FLOAT_DTYPES[target.keyword])
    result = np.asarray(values.view(dtype_of(target)))
    if not isinstance(source, FloatType) or not isinstance(target, IntegerType) or _keeps_bits(op.operands[0]):
        return result
    # IEEE 754 leaves the payload of a NaN to the implementation: that of PTX has all bits set, that of x86 one.
    return undefine(result, np.isnan(values.astype(np.float64)), target)


_KEEP_BITS = ("bitcast", "broadcast", "cat", "extract", "permute", "reshape", "select")


def _keeps_bits(value: Value) -> bool:
    """Whether a float has the bits that the program loads or states, as no arithmetic computes it."""
    op = value.defining_op
    if op is None:
        return value.block.parent_op.name == "cuda_tile.entry"  # type: ignore[attr-defined]
    if op.name.startswith(("cuda_tile.load", "cuda_tile.constant")):
        return True
    floats = (each for each in op.operands if isinstance(element_type_of(each.type), FloatType))
    return op.name.removeprefix("cuda_tile.") in _KEEP_BITS and all(map(_keeps_bits, floats))


@meaning("int_to_ptr", "ptr_to_int", "ptr_to_ptr", elementwise=True)
def reinterpret(machine: Machine, op: cuda_tile.TileOp):
    return machine[op.operands[0]]


def pack_bits(values: np.ndarray, element: FloatType) -> np.ndarray:
    """The bytes of a rank-1 tile in memory, little endian; 4-bit elements lower nibble first."""
    width = getattr(element, "width", 64)
    flat = np.ascontiguousarray(values)
    if width == 1:
        return np.packbits(flat.astype(np.uint8), bitorder="little")
    if width == 4:
        nibbles = flat.view(np.uint8) & 0xF
        return nibbles[0::2] | (nibbles[1::2] << 4)
    return flat.view(np.uint8)


def unpack_bits(data: np.ndarray, element: IntegerType) -> np.ndarray:
    """Inverse of :func:`pack_bits`."""
    width = getattr(element, "width", 64)
    data = np.ascontiguousarray(data).view(np.uint8)
    if width == 1:
        return np.unpackbits(data, bitorder="little").astype(np.bool_)
    if width == 4:
        nibbles = np.stack([data & 0xF, data >> 4], axis=1).reshape(-1)
        return wrap(nibbles, 4) if isinstance(element, IntegerType) else nibbles.view(FLOAT_DTYPES[element.keyword])
    return data.view(dtype_of(element))


@meaning("pack")
def pack(machine: Machine, op: cuda_tile.PackOp):
    return pack_bits(machine[op.operands[0]], _types(op)[0]).view(np.int8)


@meaning("unpack")
def unpack(machine: Machine, op: cuda_tile.UnpackOp):
    return unpack_bits(machine[op.operands[0]], _types(op)[1])

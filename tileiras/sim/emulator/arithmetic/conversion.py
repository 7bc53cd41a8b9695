"""cvt (PTX ISA, "Data Movement and Conversion Instructions: cvt", "cvt.pack")."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.types import TYPES, U32, PtxType
from . import rounding
from .integer import saturate

_INTEGER_MODES = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}
_FLOAT_MODES = ("rna", "rn", "rz", "rm", "rp")


@instruction("cvt")
def decode_cvt(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    if modifiers.take("pack"):
        _pack(decoder, modifiers)
        return
    if modifiers.take("rs"):
        raise decoder.unsupported("stochastic rounding")
    integral = modifiers.take(*_INTEGER_MODES)
    mode = modifiers.take(*_FLOAT_MODES)
    ftz, sat, relu = (bool(modifiers.take(each)) for each in ("ftz", "sat", "relu"))
    satfinite = bool(modifiers.take("satfinite"))
    types = modifiers.types()
    if len(types) != 2:
        raise decoder.unsupported()
    to, source = types
    if to.kind == "packed" or source.kind == "packed":
        _packed(decoder, item, to, source, mode or "rn", relu, satfinite)
        return
    d, a = decoder.operands(2)
    x = decoder.src(a, source, wider=True)
    if source.kind != "float" and to.kind != "float":
        convert = _integer_to_integer(source, to, sat)
    elif source.kind != "float":
        convert = _integer_to_float(source, to, mode or "rn", sat)
    elif to.kind != "float":
        convert = _float_to_integer(source, to, _INTEGER_MODES[integral or "rzi"], ftz)
    else:
        convert = _float_to_float(source, to, integral, mode or "rn", ftz, sat, relu, satfinite)
    if to.name in ("e4m3", "e5m2"):
        raise decoder.unsupported()
    decoder.put(d, to, lambda R: convert(R[x]), raw=True)


def _integer_to_integer(source: PtxType, to: PtxType, sat: bool):
    have, want, storage = source.value, to.value, to.storage
    if source.bits == to.bits and not sat:
        return lambda bits: bits
    if not sat:
        return lambda bits: bits.view(have).astype(want).view(storage)

    def convert(bits: np.ndarray) -> np.ndarray:
        values = bits.view(have)
        if have == np.uint64:
            values = np.minimum(values, np.uint64(np.iinfo(want).max))
        elif want == np.uint64:
            values = np.maximum(values, 0)
        else:
            values = saturate(values.astype(np.int64), want)
        return values.astype(want).view(storage)

    return convert


def _integer_to_float(source: PtxType, to: PtxType, mode: str, sat: bool):
    have, name = source.value, to.name

    def convert(bits: np.ndarray) -> np.ndarray:
        values = bits.view(have)
        if source.bits < 64:
            exact = values.astype(np.float64)
        else:
            # 64-bit integers are the exact sum of two binary64 numbers.
            high = (values >> have.type(32)).astype(np.float64) * 2.0**32
            low = (values & have.type(0xFFFFFFFF)).astype(np.float64)
            if name == "f64":
                s, e = rounding.two_sum(high, low)
                return rounding.directed(s, e, mode).view(np.uint64)
            exact = rounding.odd_sum(high, low)
        if sat:
            exact = np.clip(exact, 0.0, 1.0)
        return rounding.encode(exact, name, mode)

    return convert


def _float_to_integer(source: PtxType, to: PtxType, mode: str, ftz: bool):
    """Out-of-range values saturate; NaN gives 0, the top bit alone in a 64-bit result or from f64 (PTX ISA, cvt)."""
    name, want, storage = source.name, to.value, to.storage
    limits = np.iinfo(want)
    to_nan = 1 << to.bits - 1 if source.bits == 64 or to.bits == 64 else 0
    low, high = float(limits.min), float(limits.max)  # 2**63 and 2**64 for the 64-bit types: not representable

    def convert(bits: np.ndarray) -> np.ndarray:
        if ftz and name == "f32":
            bits = rounding.flush(bits, name)
        values = rounding.round_integral(rounding.decode(bits, name), mode)
        over, nan = values >= high, np.isnan(values)
        inside = np.where(over | nan | (values < low), 0.0, values)
        result = inside.astype(want)
        result = np.where(over, limits.max, np.where(values < low, limits.min, result)).astype(want).view(storage)
        return np.where(nan, storage.type(to_nan), result)

    return convert


def _float_to_float(
    source: PtxType, to: PtxType, integral: str | None, mode: str, ftz: bool, sat: bool, relu: bool, satfinite: bool
):
    have, want = source.name, to.name

    def convert(bits: np.ndarray) -> np.ndarray:
        if ftz and have == "f32":
            bits = rounding.flush(bits, have)
        values = rounding.decode(bits, have)
        if integral is not None:
            values = np.copysign(rounding.round_integral(values, _INTEGER_MODES[integral]), values)
        if sat:
            values = np.where(values > 0, np.minimum(values, 1.0), 0.0)
        elif relu:
            values = np.where((values > 0) | np.isnan(values), values, 0.0)
        if want == "f64":
            result = np.where(np.isnan(values), np.nan, values).view(np.uint64)
        else:
            result = rounding.encode(values, want, mode, satfinite)
        if ftz and want == "f32":
            result = rounding.flush(result, want)
        return result

    if have == want and integral is None and not (ftz or sat or relu):
        return lambda bits: bits
    return convert


_PAIRS = {
    "f16x2": "f16", "bf16x2": "bf16", "e4m3x2": "e4m3", "e5m2x2": "e5m2", "e2m1x2": "e2m1", "ue8m0x2": "ue8m0",
}  # fmt: skip


def _halves(words: np.ndarray, type_: PtxType) -> tuple[np.ndarray, np.ndarray]:
    """The lower and the upper number of each word, in their storage type (4-bit numbers: in bytes)."""
    if type_.bits == 8:
        return words & np.uint8(15), words >> np.uint8(4)
    parts = np.ascontiguousarray(words).view(TYPES[f"b{type_.bits // 2}"].storage).reshape(-1, 2)
    return parts[:, 0], parts[:, 1]


def _packed(
    decoder: Decoder, item: Instruction, to: PtxType, source: PtxType, mode: str, relu: bool, satfinite: bool
) -> None:
    """`cvt.f16x2.f32 d, a, b` and the narrower forms: a goes to the upper half, b to the lower."""
    d, *operands = item.operands
    have, want = _PAIRS.get(source.name), _PAIRS.get(to.name)
    if want is None or (have is None) != (source.name == "f32") or len(operands) != (2 if have is None else 1):
        raise decoder.unsupported()
    slots = [decoder.src(each, source) for each in operands]
    saturating = satfinite or rounding.FORMATS[want].bits <= 8 and want != "ue8m0"
    word, shift = to.storage, to.storage.type(to.bits // 2)

    def finish(values: np.ndarray) -> np.ndarray:
        if relu:
            values = np.where((values > 0) | np.isnan(values), values, 0.0)
        return rounding.encode(values, want, mode, saturating).astype(word)

    def convert(R: Sequence[np.ndarray]):
        if have is None:
            upper, lower = (R[slot].view(np.float32).astype(np.float64) for slot in slots)
        else:
            lower, upper = (rounding.decode(part, have) for part in _halves(R[slots[0]], source))
        return finish(upper) << shift | finish(lower)

    decoder.put(d, to, convert, raw=True)


def _pack(decoder: Decoder, modifiers: Modifiers) -> None:
    """`cvt.pack.sat.TO.s32[.b32] d, a, b[, c]`: two saturated integers beside (the upper part of) c."""
    modifiers.take("sat")
    names = modifiers.names
    narrow = next((n for n in names if n in ("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2")), None)
    if narrow is None:
        raise decoder.unsupported()
    names.remove(narrow)
    types = modifiers.types()
    bits, signed = int(narrow[1:]), narrow[0] == "s"
    operands = decoder.operands(4 if len(types) == 2 else 3)
    x, y = decoder.src(operands[1], types[0]), decoder.src(operands[2], types[0])
    c = decoder.src(operands[3], U32) if len(operands) == 4 else None
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    mask = np.uint32((1 << bits) - 1)

    def compute(R: Sequence[np.ndarray]):
        upper, lower = (np.clip(R[s].view(np.int32), low, high).view(np.uint32) & mask for s in (x, y))
        result = upper << np.uint32(bits) | lower
        return result if c is None else R[c] << np.uint32(2 * bits) | result

    decoder.put(operands[0], U32, compute, raw=True)

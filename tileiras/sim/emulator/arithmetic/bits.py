"""Logic, shifts, bit fields and mov (PTX ISA, "Logic and Shift Instructions", "Integer Arithmetic Instructions")."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Group, Immediate, Sink
from ..ptx.types import B32, PRED, TYPES, U32, PtxType
from ..ptx.verbs import Verb, emit, one_type, verbs

if TYPE_CHECKING:
    from ..ptx.module import Register


@instruction("lop3")
def decode_lop3(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """Any function of three bits, given as the table it takes on (0xF0, 0xCC, 0xAA)."""
    combine = modifiers.take("and", "or")
    one_type(decoder, modifiers)
    operands = decoder.operands(6 if combine else 5)
    d, predicate = operands[0], None
    if isinstance(d, Group):
        d, predicate = d.items
    x, y, z = (decoder.src(each, B32) for each in operands[1:4])
    if not isinstance(operands[4], Immediate):
        raise decoder.error("the table of lop3 is not a constant")
    table = int(operands[4].value) & 255

    def compute(R: Sequence[np.ndarray]):
        a, b, c = R[x], R[y], R[z]
        result = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), np.uint32)
        for row in range(8):
            if table >> row & 1:
                result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return result

    if predicate is not None:
        q = decoder.src(operands[5], PRED)
        value = decoder.temporary(U32)
        decoder.emit(lambda group: group.R.__setitem__(value, compute(group.R)))
        join = operator.and_ if combine == "and" else operator.or_
        if not isinstance(d, Sink):
            decoder.put(d, B32, lambda R: R[value], raw=True)
        decoder.put(predicate, PRED, lambda R: join(R[value] != 0, R[q]), raw=True)
        return
    decoder.put(d, B32, compute, raw=True)


@instruction("shl", "shr")
def decode_shift(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """Amounts of the width and above give 0, or the sign in every bit for a signed right shift."""
    type_ = one_type(decoder, modifiers)
    d, a, b = decoder.operands(3)
    x, bits = decoder.src(a, type_), type_.bits
    shift = operator.lshift if item.opcode == "shl" else operator.rshift
    value = type_.value if item.opcode == "shr" else type_.storage
    if isinstance(b, Immediate) and 0 <= b.value < bits:
        amount = np.array([b.value], value)
        decoder.put(d, type_, lambda R: shift(R[x].view(value), amount))
        return
    y = decoder.src(b, U32)

    def compute(R: Sequence[np.ndarray]):
        amount = R[y]
        source = R[x].view(value)
        shifted = shift(source, np.minimum(amount, np.uint32(bits - 1)).astype(value))
        if value.kind == "i":
            return shifted
        return np.where(amount < bits, shifted, value.type(0))

    decoder.put(d, type_, compute)


def _funnel_shift(type_: PtxType, side: str | None, mode: str | None):
    def shift(a: np.ndarray, b: np.ndarray, amount: np.ndarray) -> np.ndarray:
        amount = _limit(amount, mode).astype(np.uint64)
        both = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64)
        return ((both << amount) >> np.uint64(32) if side == "l" else both >> amount).astype(np.uint32)

    return shift


def _limit(amount: np.ndarray, mode: str | None) -> np.ndarray:
    return np.minimum(amount, np.uint32(32)) if mode == "clamp" else amount & np.uint32(31)


def bit_length(values: np.ndarray) -> np.ndarray:
    """Number of bits up to the highest set one, 0 for 0; int32."""
    if values.dtype.itemsize <= 4:
        return np.frexp(values.astype(np.float64))[1]
    high = (values >> np.uint64(32)).astype(np.float64)
    low = (values & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(low)[1])


def reverse_bits(values: np.ndarray) -> np.ndarray:
    type_ = values.dtype.type
    for width, pattern in ((1, 0x55), (2, 0x33), (4, 0x0F)):
        mask = type_(int.from_bytes(bytes([pattern]) * values.dtype.itemsize, "little"))
        values = (values >> type_(width) & mask) | (values & mask) << type_(width)
    return values.byteswap()


def _highest_bit(type_: PtxType, shift_amount: str | None):
    def find(source: np.ndarray) -> np.ndarray:
        if type_.signed:
            source = np.where(source < 0, ~source, source).view(type_.storage)
        position = bit_length(source) - 1
        if shift_amount:
            position = np.where(position < 0, -1, type_.bits - 1 - position)
        return position.astype(np.int32).view(np.uint32)

    return find


def _mask(type_: PtxType, mode: str | None):
    def mask(start: np.ndarray, width: np.ndarray) -> np.ndarray:
        start, width = _limit(start, mode).astype(np.uint64), _limit(width, mode).astype(np.uint64)
        return (((np.uint64(1) << width) - np.uint64(1)) << start).astype(np.uint32)

    return mask


def _extend(type_: PtxType, mode: str | None):
    def extend(a: np.ndarray, width: np.ndarray) -> np.ndarray:
        width = _limit(width, mode)
        unsigned = a & ((np.uint64(1) << width.astype(np.uint64)) - np.uint64(1)).astype(np.uint32)
        if not type_.signed:
            return unsigned
        up = (np.uint32(32) - width).astype(np.int64)
        signed = ((unsigned.astype(np.int64) << up).astype(np.int32) >> up).astype(np.uint32)
        return np.where(width > 0, signed, np.uint32(0))

    return extend


def _extract(type_: PtxType, a: np.ndarray, position: np.ndarray, length: np.ndarray):
    """`bfe`: bits [position, position + length), both modulo 256; the sign bit fills the upper bits."""
    bits = type_.bits
    one, storage = type_.storage.type(1), type_.storage
    position, length = position & np.uint32(255), length & np.uint32(255)
    inside = position < bits
    shifted = np.where(inside, a >> np.minimum(position, bits - 1).astype(storage), storage.type(0))
    keep = np.minimum(length, bits)
    mask = np.where(keep >= bits, ~storage.type(0), (one << np.minimum(keep, bits - 1).astype(storage)) - one)
    field = shifted & mask.astype(storage)
    if not type_.signed:
        return field
    top = np.minimum(position + length - 1, bits - 1)
    sign = (a >> np.maximum(top, 0).astype(storage) & one).astype(bool) & (length > 0)
    available = np.minimum(keep, np.where(inside, bits - position, 0))
    filled = np.where(
        available >= bits, storage.type(0), ~storage.type(0) << np.minimum(available, bits - 1).astype(storage)
    )
    return np.where(length == 0, storage.type(0), np.where(sign, field | filled.astype(storage), field)).astype(storage)


def _insert(type_: PtxType, a: np.ndarray, b: np.ndarray, position: np.ndarray, length: np.ndarray):
    bits, storage = type_.bits, type_.storage
    one = storage.type(1)
    position, length = position & np.uint32(255), length & np.uint32(255)
    mask = np.where(length >= bits, ~storage.type(0), (one << np.minimum(length, bits - 1).astype(storage)) - one)
    place = np.minimum(position, bits - 1).astype(storage)
    mask = np.where(position < bits, mask.astype(storage) << place, storage.type(0)).astype(storage)
    return (b & ~mask) | (np.where(position < bits, a << place, storage.type(0)).astype(storage) & mask)


verbs(
    Verb("and.T", "T T T", operator.and_),
    Verb("or.T", "T T T", operator.or_),
    Verb("xor.T", "T T T", operator.xor),
    Verb("not.T", "T T", operator.invert),
    Verb("cnot.T", "T T", lambda a: (a == 0).astype(a.dtype)),
    Verb("shf.{l,r}.{wrap,clamp}.T", "b32 b32 b32 u32", make=_funnel_shift),
    Verb("popc.T", "u32 T", lambda a: np.bitwise_count(a).astype(np.uint32)),
    Verb("clz.T", "u32 T", lambda a: (8 * a.itemsize - bit_length(a)).astype(np.uint32)),
    Verb("brev.T", "T T", reverse_bits),
    Verb("bfind.{shiftamt}.T", "u32 t", make=_highest_bit),
    Verb("bfe.T", "T T u32 u32", make=lambda type_: functools.partial(_extract, type_)),
    Verb("bfi.T", "T T T u32 u32", make=lambda type_: functools.partial(_insert, type_)),
    Verb("bmsk.{clamp,wrap}.T", "b32 u32 u32", make=_mask),
    Verb("szext.{clamp,wrap}.T", "T u32 u32", make=_extend),
)


@instruction("prmt")
def decode_prmt(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    mode = modifiers.take("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    one_type(decoder, modifiers)
    selector = decoder.operands(4)[3]
    if mode is not None:
        raise decoder.unsupported(f"prmt.{mode}")
    constant = int(selector.value) & 0xFFFF if isinstance(selector, Immediate) else 0x8888
    compute = _permute if constant & 0x8888 else lambda a, b, _: _permute_constant(a, b, constant)
    emit(decoder, (B32, B32, B32, U32), compute)


def _permute(a: np.ndarray, b: np.ndarray, selector: np.ndarray) -> np.ndarray:
    """Bytes of {b, a} picked by selector nibbles; a nibble's top bit replicates the byte's sign instead."""
    both = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64)
    selector = selector.astype(np.uint64)
    result = np.zeros(1, np.uint64)
    for place in range(4):
        nibble = selector >> np.uint64(4 * place)
        byte = both >> ((nibble & np.uint64(7)) * np.uint64(8)) & np.uint64(255)
        spread = np.where(byte & np.uint64(128), np.uint64(255), np.uint64(0))
        result = result | np.where(nibble & np.uint64(8), spread, byte) << np.uint64(8 * place)
    return result.astype(np.uint32)


def _permute_constant(a: np.ndarray, b: np.ndarray, selector: int) -> np.ndarray:
    result = None
    for place in range(4):
        pick = selector >> 4 * place & 7
        source, byte = (b, pick - 4) if pick > 3 else (a, pick)
        move = 8 * (byte - place)
        part = source & np.uint32(255 << 8 * byte)
        part = part >> np.uint32(move) if move >= 0 else part << np.uint32(-move)
        result = part if result is None else result | part
    return result


@instruction("mov")
def decode_mov(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    type_ = one_type(decoder, modifiers)
    d, a = decoder.operands(2)
    if isinstance(d, Group):
        _unpack(decoder, d.items, a, type_)
    elif isinstance(a, Group):
        _pack(decoder, d, a.items, type_)
    else:
        emit(decoder, (type_, type_), lambda bits: bits)


def _unpack(decoder: Decoder, parts: list, a: Register, type_: PtxType) -> None:
    piece = TYPES[f"b{type_.bits // len(parts)}"]
    x = decoder.src(a, type_)
    if type_.bits == 128:
        for number, part in enumerate(parts):
            decoder.put(part, piece, lambda R, number=number: _columns(R[x], len(parts), piece)[number], raw=True)
        return
    # The parts are read before any is written: a destination may be the source.
    slot = decoder.temporary(type_)
    decoder.emit(lambda group: group.R.__setitem__(slot, group.R[x]))
    for number, part in enumerate(parts):
        shift = type_.storage.type(number * piece.bits)

        def compute(R: Sequence[np.ndarray], shift: int = shift):
            return (R[slot] >> shift).astype(piece.storage)

        decoder.put(part, piece, compute, raw=True)


def _columns(value: np.ndarray, count: int, piece: PtxType) -> np.ndarray:
    """(count, threads or 1): the parts of 128-bit registers."""
    return np.ascontiguousarray(np.ascontiguousarray(value).view(piece.storage).reshape(-1, count).T)


def _pack(decoder: Decoder, d: Register, parts: list, type_: PtxType) -> None:
    piece = TYPES[f"b{type_.bits // len(parts)}"]
    slots = [decoder.src(part, piece) for part in parts]
    storage = type_.storage
    if type_.bits == 128:
        def joined(R: Sequence[np.ndarray]):
            columns = np.broadcast_arrays(*(R[slot] for slot in slots))
            return np.stack(columns, axis=1).view(storage)[:, 0]

        decoder.put(d, type_, joined, raw=True)
        return

    def compute(R: Sequence[np.ndarray]):
        result = R[slots[0]].astype(storage)
        for number, slot in enumerate(slots[1:], 1):
            result = result | R[slot].astype(storage) << storage.type(number * piece.bits)
        return result

    decoder.put(d, type_, compute, raw=True)

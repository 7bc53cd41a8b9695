"""Bytes that a thread holds four to a word: shifts, and conversions of integers to f16 and bf16, on whole words.

LLVM shifts each byte by itself, and an instruction that converts an integer has a quarter of the rate of others or
less (CUDA programming guide, "Arithmetic Instructions").  A number with few bits becomes the mantissa of a float with a
known exponent instead, from which one subtraction leaves the number (Kim et al., "Who Says Elephants Can't Run", 2022).
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.dialects import arith, llvm
from tileiras.ir import FloatType, Operation, Type, Value, VectorType, bf16, f16, i8, i16, i32

from ..emit.function import FunctionLowering
from ..emit.types import count_of, vector_of

BYTES = 4
"""In a word."""

_EACH = 0x01010101


def in_words(value: Value) -> bool:
    """Whether a value is bytes that fill words."""
    return fills_words(value.type)


def fills_words(type: Type) -> bool:
    """Whether values of a type are bytes that fill words."""
    return isinstance(type, VectorType) and type.element_type is i8 and count_of(type) % BYTES == 0


def shifted(cls: type[Operation], value: Value, amounts: Value, lowering: FunctionLowering) -> Value | None:
    """Bytes shifted by constants, those of a word by one; None for others."""
    patterns = lowering.emit.patterns(amounts)
    if patterns is None or not in_words(value):
        return None
    by_word = [set(patterns[first : first + BYTES]) for first in range(0, len(patterns), BYTES)]
    if any(len(each) > 1 or max(each) >= 8 for each in by_word):
        return None
    counts = [each.pop() for each in by_word]
    emit = lowering.emit
    words = emit.bitcast(value, vector_of(i32, len(counts)))

    def constants(numbers: Sequence[int]) -> Value:
        return emit.dense([_EACH * number for number in numbers], i32)

    is_left_shift = cls is arith.ShLIOp
    word_shift = (llvm.ShlOp if is_left_shift else llvm.LShrOp)(words, emit.dense(counts, i32))
    entry = [0xFF << n & 0xFF if is_left_shift else 0xFF >> n for n in counts]
    result = emit.insert(llvm.AndOp(emit.insert(word_shift), constants(entry)))
    if cls is arith.ShRSIOp:
        result = _signed(result, constants([0x80 >> n for n in counts]), lowering)
    return emit.bitcast(result, value.type)


def low_halves(value: Value, signed: bool, lowering: FunctionLowering) -> Value:
    """The lower four bits of bytes, as numbers of eight."""
    emit = lowering.emit
    words = emit.bitcast(value, vector_of(i32, count_of(value.type) // BYTES))
    low = emit.insert(llvm.AndOp(words, emit.integer(_EACH * 15, words.type)))
    if signed:
        low = _signed(low, emit.integer(_EACH * 8, words.type), lowering)
    return emit.bitcast(low, value.type)


def _signed(words: Value, signs: Value, lowering: FunctionLowering) -> Value:
    """Bytes whose highest set bits are at most `signs`, which become the signs of the numbers below."""
    emit = lowering.emit
    guard = emit.integer(_EACH * 0x80, words.type)
    # The guard bit keeps a byte from borrowing from the next one.
    biased = emit.insert(llvm.OrOp(emit.insert(llvm.XOrOp(words, signs)), guard))
    return emit.insert(llvm.XOrOp(emit.insert(llvm.SubOp(biased, signs)), guard))


def low_bytes(value: Value, lowering: FunctionLowering) -> Value:
    """The low bytes of words, four to a word, by three permutations; LLVM masks each of them first."""
    emit = lowering.emit
    size = count_of(value.type)
    quadruple = VectorType((BYTES,), i8)
    parts = [emit.bitcast(emit.extract(value, n), quadruple) for n in range(size)]
    pairs = [emit.shuffle(emit.concat(parts[n : n + 2]), (0, BYTES, 0, BYTES)) for n in range(0, size, 2)]
    joined = [emit.shuffle(emit.concat(pairs[n : n + 2]), (0, 1, BYTES, BYTES + 1)) for n in range(0, size // 2, 2)]
    return emit.concat(joined)


def converts(value: Value, type: FloatType, lowering: FunctionLowering) -> bool:
    """Whether bytes are converted to floats of a type here."""
    return in_words(value) and (type is f16 or type is bf16 and lowering.target.has("bf16"))


def to_float(value: Value, type: FloatType, signed: bool, lowering: FunctionLowering) -> Value:
    """Integers of eight bits as f16 or bf16, exactly."""
    count = count_of(value.type)
    wide = vector_of(type, count)
    return _to_half(value, signed, wide, lowering) if type is f16 else _to_bfloat(value, signed, wide, lowering)


def _beside(value: Value, byte: int, lowering: FunctionLowering) -> Value:
    """Each byte as the lower half of an i16 whose upper half is a constant."""
    emit = lowering.emit
    count = count_of(value.type)
    constant = emit.integer(byte, VectorType((BYTES,), i8))
    pairs = []
    for first in range(0, count, BYTES):
        both = emit.concat([emit.shuffle(value, range(first, first + BYTES)), constant])
        # A permutation of the bytes of two words (PTX ISA, "prmt") each.
        pairs += [emit.bitcast(emit.shuffle(both, (n, BYTES, n + 1, BYTES)), vector_of(i16, 2)) for n in (0, 2)]
    return emit.concat(pairs)


def _to_half(value: Value, signed: bool, wide: VectorType, lowering: FunctionLowering) -> Value:
    """0x6400 is 1024, the last place of whose mantissa is 1."""
    emit = lowering.emit
    if signed:
        words = emit.bitcast(value, vector_of(i32, count_of(value.type) // BYTES))
        flipped = emit.insert(llvm.XOrOp(words, emit.integer(_EACH * 0x80, words.type)))
        value = emit.bitcast(flipped, value.type)
    biased = emit.bitcast(_beside(value, 0x64, lowering), wide)
    return emit.insert(llvm.FSubOp(biased, emit.floating(1024.0 + 128.0 * signed, wide)))


def _to_bfloat(value: Value, signed: bool, wide: VectorType, lowering: FunctionLowering) -> Value:
    """0x4300 is 128, the last place of whose mantissa is 1; seven bits fit into it.  The bit above, in its place, makes
    the same number 256."""
    emit = lowering.emit
    halves = _beside(value, 0x43, lowering)
    pairs = vector_of(i32, count_of(halves.type) // 2)
    halves = emit.bitcast(halves, pairs)

    def masked(words: Value, mask: int) -> Value:
        return emit.bitcast(emit.insert(llvm.AndOp(words, emit.integer(mask * 0x10001, pairs))), wide)

    low = masked(halves, 0xFF7F)
    if signed:
        return emit.insert(llvm.FSubOp(low, masked(halves, 0xFF80)))
    # 128 + the low bits - (256 - the high bit) + 128
    other = emit.insert(llvm.XOrOp(halves, emit.integer(0x80 * 0x10001, pairs)))
    difference = emit.insert(llvm.FSubOp(low, masked(other, 0xFF80)))
    return emit.insert(llvm.FAddOp(difference, emit.floating(128.0, wide)))

"""Comparison and selection (PTX ISA, "Comparison and Selection Instructions", "Half Precision Comparison ...")."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..ptx.decoder import FLOAT_TYPES, Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Group, Sink
from ..ptx.types import PRED, TYPES, PtxType
from ..ptx.verbs import Verb, emit, verbs
from . import rounding

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup
    from ..ptx.module import Register

_ORDERED = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
# lo, ls, hi, hs are the unsigned comparisons; signedness follows from the type.
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_UNORDERED = {"equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge"}
_COMPARISONS = (*_ORDERED, *_UNSIGNED, *_UNORDERED, "num", "nan")
_INTEGERS = ("s32", "u32", "s64", "u64")
_COMBINE = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def comparison(decoder: Decoder, name: str, type_name: str, ftz: bool):
    """A function from two bit patterns to bool arrays."""
    if type_name not in FLOAT_TYPES:
        if name in _UNORDERED or name in ("num", "nan"):
            raise decoder.unsupported()
        compare, value = _ORDERED[_UNSIGNED.get(name, name)], TYPES[type_name].value
        if value == TYPES[type_name].storage:
            return compare
        return lambda a, b: compare(a.view(value), b.view(value))

    def values(bits: np.ndarray) -> np.ndarray:
        if ftz:
            bits = rounding.flush(bits, type_name)
        if type_name == "f32":
            return bits.view(np.float32)
        return rounding.decode(bits, type_name)

    def test(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        x, y = values(a), values(b)
        if name == "num":
            return ~(np.isnan(x) | np.isnan(y))
        if name == "nan":
            return np.isnan(x) | np.isnan(y)
        if name in _UNORDERED:
            return _ORDERED[_UNORDERED[name]](x, y) | np.isnan(x) | np.isnan(y)
        if name == "ne":
            return (x != y) & ~(np.isnan(x) | np.isnan(y))
        return _ORDERED[name](x, y)

    return test


@instruction("setp", "set")
def decode_setp(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    name = modifiers.take(*_COMPARISONS)
    combine = modifiers.take(*_COMBINE)
    ftz = bool(modifiers.take("ftz"))
    types = modifiers.types()
    if name is None or len(types) != (1 if item.opcode == "setp" else 2):
        raise decoder.unsupported()
    type_ = types[-1]
    operands = decoder.operands(4 if combine else 3)
    half = type_.name.removesuffix("x2")
    test = comparison(decoder, name, half, ftz)
    x, y = decoder.src(operands[1], type_), decoder.src(operands[2], type_)
    c = decoder.src(operands[3], PRED) if combine else None
    join = _COMBINE[combine] if combine else None
    if type_.name in _INTEGERS and name not in ("eq", "ne"):
        decoder.emit(_apart(item.line, type_, x, y))

    if half != type_.name:
        _packed_compare(decoder, item, operands[0], types, x, y, c, test, join)
        return
    if item.opcode == "set":
        _write_set(decoder, operands[0], types[0], x, y, c, test, join)
        return
    if isinstance(operands[0], Group):
        slot, p, q = decoder.temporary(PRED), *operands[0].items
        decoder.emit(lambda group: group.R.__setitem__(slot, test(group.R[x], group.R[y])))
        fixed = decoder.temporary(PRED) if c is not None else None
        if c is not None:
            decoder.emit(lambda group: group.R.__setitem__(fixed, group.R[c]))
        for part, negate in ((p, False), (q, True)):
            if isinstance(part, Sink):
                continue

            def both(R: Sequence[np.ndarray], negate: bool = negate):
                value = ~R[slot] if negate else R[slot]
                return value if join is None else join(value, R[fixed])

            decoder.put(part, PRED, both, raw=True)
    elif join is None:
        decoder.put(operands[0], PRED, lambda R: test(R[x], R[y]), raw=True)
    else:
        decoder.put(operands[0], PRED, lambda R: join(test(R[x], R[y]), R[c]), raw=True)


def _apart(line: int, type_: PtxType, x: int, y: int):
    """A step that tells an observer how far the operands of the active threads are apart."""

    def step(group: WarpGroup) -> None:
        tell = group.launch.compared
        if tell is not None:
            a, b = (group.R[slot].view(type_.value).astype(np.int64) for slot in (x, y))
            differences = a - b
            tell(line, differences if group.mask is None or differences.size == 1 else differences[group.mask])

    return step


def _write_set(decoder: Decoder, d: Register, result: PtxType, x: int, y: int, c, test, join) -> None:
    """`set`: all ones, or 1.0 for a float destination."""
    true = rounding.encode(np.ones(1), result.name) if result.kind == "float" else np.array([-1]).astype(result.storage)
    false = np.zeros(1, result.storage)

    def compute(R: Sequence[np.ndarray]):
        holds = test(R[x], R[y])
        return np.where(holds if join is None else join(holds, R[c]), true, false)

    decoder.put(d, result, compute, raw=True)


def _packed_compare(
    decoder: Decoder, item: Instruction, d: Group | Register, types: Sequence[PtxType], x: int, y: int, c, test, join
) -> None:
    """Both halves: two predicates p|q for setp, two halves of a word for set."""
    half = TYPES[types[-1].name[:-2]].storage

    def halves(R: Sequence[np.ndarray]):
        a, b = (np.ascontiguousarray(R[slot]).view(half).reshape(-1, 2) for slot in (x, y))
        holds = test(a, b)
        return holds if join is None else join(holds, R[c].reshape(-1, 1))

    if item.opcode == "set":
        result = types[0]
        name = result.name.removesuffix("x2")
        true = rounding.encode(np.ones(1), name)[0] if name in FLOAT_TYPES else half.type(0xFFFF)

        def compute(R: Sequence[np.ndarray]):
            return np.where(halves(R), true, half.type(0)).view(np.uint32).reshape(-1)

        decoder.put(d, result, compute, raw=True)
        return
    slots = (decoder.temporary(PRED), decoder.temporary(PRED))

    def step(group: WarpGroup) -> None:
        predicates = halves(group.R)
        group.R[slots[0]], group.R[slots[1]] = np.ascontiguousarray(predicates.T)

    decoder.emit(step)
    for number, part in enumerate(d.items if isinstance(d, Group) else [d]):
        decoder.put(part, PRED, lambda R, number=number: R[slots[number]], raw=True)


@instruction("slct")
def decode_slct(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """The first source where the third is not negative; NaN selects the second (PTX ISA, slct)."""
    ftz = bool(modifiers.take("ftz"))
    type_, selector = modifiers.types()
    test, zero = comparison(decoder, "ge", selector.name, ftz), np.zeros(1, selector.storage)
    emit(decoder, (type_, type_, type_, selector), lambda a, b, c: np.where(test(c, zero), a, b))


verbs(Verb("selp.T", "T T T pred", lambda a, b, condition: np.where(condition, a, b)))

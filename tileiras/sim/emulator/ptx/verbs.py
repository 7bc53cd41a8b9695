"""Instructions that compute one register from others, as rows of tables.

    verbs(Verb("shf.{l,r}.{wrap,clamp}.T", "b32 b32 b32 u32", make=funnel_shift))

A row has the instruction as the ISA writes it, the types of its operands and the function of the sources.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .decoder import DECODERS, Decoder, Instruction, Modifiers
from .types import TYPES, PtxType

if TYPE_CHECKING:
    import numpy as np


class Verb(NamedTuple):
    """One instruction; ``compute`` is the function of its sources, or ``make`` returns it."""

    pattern: str
    """Name, and in the order of the ISA the other modifiers: of `{a,b}` one or none, of `(a,b)` one; `T` and `U`
    are types."""
    operands: str
    """Types of the destination and the sources: a type's name, `T` or `U` for bit patterns, `t` or `u` for values."""
    compute: Callable[..., Any] | None = None
    make: Callable[..., Callable[..., Any]] | None = None
    """Returns the function for the types, and for the modifier of each choice or None."""
    types: Collection[str] = ()
    """Names that `T` admits; all if empty."""


def verbs(*rows: Verb) -> None:
    """Register the instructions of a table."""
    for row in rows:
        parts = row.pattern.split(".")
        name = ".".join(itertools.takewhile(lambda part: part[0] not in "TU{(", parts))
        DECODERS[name] = functools.partial(_decode, row, parts[name.count(".") + 1 :])


def _decode(row: Verb, parts: list[str], decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    choices = {part: modifiers.take(*part[1:-1].split(",")) for part in parts if part[0] in "{("}
    types = modifiers.types()
    if any(part[0] == "(" and name is None for part, name in choices.items()):
        raise decoder.unsupported()
    if len(types) != sum(part in "TU" for part in parts) or row.types and types[0].name not in row.types:
        raise decoder.unsupported()
    compute = row.make(*types, *choices.values()) if row.make is not None else row.compute
    names = row.operands.split()
    row_types = [types["TU".index(name.upper())] if len(name) == 1 else TYPES[name] for name in names]
    emit(decoder, row_types, compute, [name.islower() and len(name) == 1 for name in names])


def one_type(decoder: Decoder, modifiers: Modifiers, names: Collection[str] = TYPES) -> PtxType:
    """Remove and return the only type among the modifiers, one of ``names``."""
    types = modifiers.types()
    if len(types) != 1 or types[0].name not in names:
        raise decoder.unsupported()
    return types[0]


def emit(decoder: Decoder, types: Sequence[PtxType], compute: Any, values: bool | Sequence[bool] = False) -> None:
    """The step that writes ``compute(*sources)`` to the first operand.

    ``types`` are those of the operands in order; ``values``: which of them are values of their types, not bit patterns.
    """
    target, *sources = decoder.operands(len(types))
    slots = [decoder.src(operand, type_) for operand, type_ in zip(sources, types[1:])]
    if isinstance(values, bool):
        values = [values] * len(types)
    dtypes = [type_.value if each else type_.storage for type_, each in zip(types, values)]
    raw = dtypes[0] == types[0].storage
    if all(dtype == type_.storage for dtype, type_ in zip(dtypes[1:], types[1:])):
        decoder.put(target, types[0], _of_bits(compute, slots), raw)
    else:
        decoder.put(target, types[0], _of_values(compute, slots, dtypes[1:]), raw)


def _of_bits(compute: Any, slots: list[int]) -> Callable[[Sequence[np.ndarray]], np.ndarray]:
    if len(slots) == 1:
        (x,) = slots
        return lambda R: compute(R[x])
    if len(slots) == 2:
        x, y = slots
        return lambda R: compute(R[x], R[y])
    if len(slots) == 3:
        x, y, z = slots
        return lambda R: compute(R[x], R[y], R[z])
    return lambda R: compute(*(R[slot] for slot in slots))


def _of_values(compute: Any, slots: list[int], dtypes: list[np.dtype]) -> Callable[[Sequence[np.ndarray]], np.ndarray]:
    if len(slots) == 1:
        (x,), (a,) = slots, dtypes
        return lambda R: compute(R[x].view(a))
    if len(slots) == 2:
        (x, y), (a, b) = slots, dtypes
        return lambda R: compute(R[x].view(a), R[y].view(b))
    return lambda R: compute(*(R[slot].view(dtype) for slot, dtype in zip(slots, dtypes)))

"""Masks that compare the numbers of elements, such as those of keys in attention, with a limit.

    number < limit      number = first + constant      ->      constant < limit - first

`first` is one number for all registers of a thread: a subtraction for each distinct limit replaces an addition for each
register.  Where a loop selects by such a mask, most of its iterations have no element that the mask excludes: the warps
for which this holds pass the comparisons and selections by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras import resources
from tileiras.dialects import arith, llvm, nvvm
from tileiras.ir import Value
from tileiras.support.named_tuple import NamedTuple

from ..emit.control_flow import unless
from ..emit.function import FunctionLowering
from ..emit.types import count_of, element_of

LEAST = 32
"""Elements of a thread, at least, whose selections are worth a branch: it takes about eight instructions."""

BESIDE = 32
"""Registers beside the tiles of a kernel: with fewer, ptxas spills values that live across the branch."""


class Mask(NamedTuple):
    """`constants[i] PREDICATE limits[places[i]]` for element i."""

    predicate: str
    constants: Sequence[int]
    limits: Value
    places: Sequence[int]


def compare_constants(predicate: str, a: Value, b: Value, lowering: FunctionLowering) -> Value | None:
    """The comparison of numbers that are not negative with the constants of registers on a side of their own.  None
    without such constants, or with as many limits."""
    emit = lowering.emit
    numbers = emit.places(a)
    if numbers is None or numbers.first is None:
        return None
    distinct, places = emit.distinct(b)
    count = count_of(distinct.type)
    if len(set(numbers.constants)) <= count:
        return None
    limits = emit.insert(arith.SubIOp(distinct, emit.splat(numbers.first, count)))
    mask = Mask(predicate, numbers.constants, limits, places)
    result = emit.icmp(predicate, emit.dense(mask.constants, element_of(a.type)), emit.shuffle(limits, places))
    lowering.masks[result] = mask
    return result


def select_behind_branch(condition: Value, a: Value, b: Value, lowering: FunctionLowering) -> Value | None:
    """The selection behind a branch, which a warp takes where the mask excludes an element; None for few elements, and
    for other conditions."""
    emit = lowering.emit
    if not lowering.counters or count_of(condition.type) < LEAST:
        return None
    origin, elements = emit.common_origin(condition)
    mask = lowering.masks.get(origin)
    if mask is None or mask.predicate not in arith.MIRRORED or resources.registers.lacks(lowering.func, BESIDE):
        return None
    mask = mask._replace(
        constants=[mask.constants[n] for n in elements], places=[mask.places[n] for n in elements]
    )  # fmt: skip

    def masked() -> Value:
        # Compared here: LLVM keeps comparisons of another block in registers.
        scalar: Any = element_of(mask.limits.type)
        constants, limits = emit.dense(mask.constants, scalar), emit.shuffle(mask.limits, mask.places)
        attributes = {"predicate": llvm.ICmpPredicateAttr(mask.predicate)}
        again = emit.insert(llvm.ICmpOp.create((constants, limits), (condition.type,), attributes))
        return emit.select(again, a, b)

    return unless(_by_warp(_holds_for_all(mask, lowering), lowering), a, masked, lowering)


def _holds_for_all(mask: Mask, lowering: FunctionLowering) -> Value:
    """Whether the mask holds for all elements of the thread: for the farthest constant of each limit."""
    emit = lowering.emit
    farthest = max if mask.predicate in ("slt", "sle") else min
    holds: Value | None = None
    for place in dict.fromkeys(mask.places):
        limit = emit.extract(mask.limits, place)
        constant = farthest(c for c, p in zip(mask.constants, mask.places) if p == place)
        scalar: Any = limit.type
        holds = emit.both(holds, emit.icmp(mask.predicate, emit.integer(constant, scalar), limit))
    assert holds is not None
    return holds


def _by_warp(condition: Value, lowering: FunctionLowering) -> Value:
    """Whether a condition holds in all threads of the warp, which execute the operations of tiles together."""
    emit = lowering.emit
    return emit.insert(nvvm.VoteSyncOp(emit.integer(-1), condition, kind=nvvm.VoteSyncKindAttr("all")))

"""In which order the elements of a reduction are combined: the lowering follows it, and certificates of order say it.

A reduction combines first what a thread holds, then what lanes hold, by butterflies, then what warps hold, whose
partial results one thread combines as it does its own elements.  Each step but the first pairs elements whose
coordinates differ by one basis: a sequence of bases is the order of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.dialects import arith
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import f32
from tileiras.named_tuple import NamedTuple
from tileiras.targets import Target

from .linear_layout import LinearLayout
from .reduce import plan_reduction

PAIRED_AT_ONCE = 16
"""Elements of a row that are added to those of the same pairs of registers before: of a tree over all of a row of 128,
ptxas 13.5 kept what each element is computed for, and spilled 104 bytes in attention on sm_100 instead of 16."""

TREE_AT_ONCE = 8
"""Elements of a row whose tree is written level by level."""


class ThreadOrder(NamedTuple):
    """In which order a thread combines its elements of a row, a power of two of them, sorted by their coordinates.

    Parts of `part` neighbours are combined one after the other, element by element.  The elements that are left form a
    tree: neighbours first, or, `by_halves`, each with the one half of them away.
    """

    part: int
    by_halves: bool = False


def thread_order(op: tileas.ReduceOp, rows: int, length: int, target: Target) -> ThreadOrder:
    """For `length` elements of each of `rows` rows."""
    if rows == 1 and length > 2 and _is_packed(op, target):
        return ThreadOrder(min(length, PAIRED_AT_ONCE), True)
    if rows == 1 and length > TREE_AT_ONCE and _takes_three(op, target):
        return ThreadOrder(TREE_AT_ONCE)
    return ThreadOrder(length)


def _is_packed(op: tileas.ReduceOp, target: Target) -> bool:
    """Whether instructions combine two elements at a time."""
    return target.has("packed_f32") and all(
        isinstance(inner, tileas.AddFOp) and inner.result.type is f32
        for inner in op.body.block.operations if inner is not op.body.block.last
    )  # fmt: skip


def _takes_three(op: tileas.ReduceOp, target: Target) -> bool:
    """Whether one instruction combines what it has so far with two more elements."""
    inner = op.body.block.first
    return (
        target.has("max_of_three")
        and inner.next is op.body.block.last
        and isinstance(inner, (arith.MaxNumFOp, arith.MinNumFOp))
        and inner.result.type is f32
    )


class CombinedStep(NamedTuple):
    """Parts of neighbours one after the other, whose distances `chained` spans; then pairs along `bases`, in order."""

    who: str
    """`thread`, `lane` or `warp`."""
    chained: tuple[int, ...]
    bases: tuple[int, ...]

    @property
    def elements(self) -> int:
        return 1 << len(self.chained) + len(self.bases)

    def __str__(self) -> str:
        held = {"thread": "of a thread", "lane": "lanes", "warp": "warps"}[self.who]
        if self.who == "lane":
            return f"{self.elements} {held} by butterflies"
        tree = "far ones first" if self.bases[:1] > self.bases[-1:] else "neighbours first" if self.bases[1:] else ""
        chain = f"{1 << len(self.chained)} parts one after the other" if self.chained else ""
        how = ", ".join(filter(None, (chain, tree)))
        return f"{self.elements} {held}" + (f" ({how})" if how else "")


def tree_of(steps: Sequence[CombinedStep]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The same for all layouts that combine the same elements in the same order, whoever holds them: runs of `chain`
    and `pairs` with their bases."""
    found: list[tuple[str, tuple[int, ...]]] = []
    for step in steps:
        for kind, bases in (("chain", step.chained), ("pairs", step.bases)):
            if bases and kind == "pairs" and found and found[-1][0] == kind:
                found[-1] = kind, (*found[-1][1], *bases)
            elif bases:
                found.append((kind, bases))
    return tuple(found)


def reduction_steps(op: tileas.ReduceOp, layout: LinearLayout, target: Target) -> tuple[CombinedStep, ...]:
    """How a reduction of a tile in this layout combines a row; the same for each of its rows, since no basis of the
    layout moves along rows and the reduced dimension at once."""
    axis = op.dim.value
    plan = plan_reduction(layout, axis)
    mask = layout.dim_mask(axis)
    unit = mask & -mask or 1

    def along(vector: int) -> int:
        return (vector & mask) // unit

    group = plan.register_groups[0]
    held = [along(layout.apply(register=register)) for register in group]
    found = [_in_thread("thread", thread_order(op, len(plan.register_groups), len(group), target), held)]
    lanes = tuple(along(layout.bases("lane")[bit]) for bit in plan.lane_bits)
    found.append(CombinedStep("lane", (), lanes))
    if plan.shared is not None:
        free = layout.free_variable_masks()["warp"]
        bases = [along(v) for bit, v in enumerate(layout.bases("warp")) if v & mask and not free >> bit & 1]
        order = thread_order(op, plan.result.registers, plan.shared.groups, target)
        partials = [_combination(bases, number) for number in range(plan.shared.groups)]
        found.append(_in_thread("warp", order, partials))
    return tuple(step for step in found if step.elements > 1)


def _combination(bases: Sequence[int], number: int) -> int:
    found = 0
    for bit, basis in enumerate(bases):
        found ^= basis if number >> bit & 1 else 0
    return found


def _in_thread(who: str, order: ThreadOrder, held: Sequence[int]) -> CombinedStep:
    """Of elements with these coordinates, in the order in which they are held."""
    levels = [held[1 << level] ^ held[0] for level in range(len(held).bit_length() - 1)]
    inner = order.part.bit_length() - 1
    bases = levels[:inner]
    return CombinedStep(who, tuple(levels[inner:]), tuple(reversed(bases) if order.by_halves else bases))

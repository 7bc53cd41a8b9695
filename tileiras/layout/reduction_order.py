"""The order in which the elements of a reduction are combined: the lowering follows it, certificates state it.

A reduction combines the elements of each thread first, then those of lanes by butterflies, then those of warps: each
thread combines the partial results of the warps like elements of its own.  A step pairs elements whose coordinates
differ by one basis, so that a sequence of bases describes the whole order.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.dialects import arith
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Block, Commutative, f32
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Target

from .linear_layout import LinearLayout
from .reduce import plan_reduction

PAIRED_AT_ONCE = 16
"""Elements of a part that packed instructions add to the part before.  With a tree over a whole row of 128, ptxas 13.5
kept operands alive and spilled 104 bytes in attention on sm_100 instead of 16."""

TREE_AT_ONCE = 8
"""Elements of a row whose tree is written level by level."""


class ThreadOrder(NamedTuple):
    """The order in which a thread combines its elements of a row, a power of two, sorted by coordinate.

    Parts of `part` neighbours are combined one after the other, element by element.  A tree combines the elements of
    the result: neighbours first, or, `by_halves`, element i with element i + n/2.
    """

    part: int
    by_halves: bool = False


def thread_order(op: tileas.ReduceOp, rows: int, length: int, target: Target) -> ThreadOrder:
    """Choose the order for `rows` rows of `length` elements each."""
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
    """Whether one instruction combines the partial result with two more elements."""
    inner = op.body.block.first
    return (
        target.has("max_of_three")
        and inner.next is op.body.block.last
        and isinstance(inner, (arith.MaxNumFOp, arith.MinNumFOp))
        and inner.result.type is f32
    )


def commutes(op: tileas.ReduceOp) -> bool:
    """Whether a combiner yields the same for exchanged operands, by the traits of its operations."""
    count = len(op.inputs)
    numbers: dict[tuple, int] = {}
    return _results(op.body.block, 0, numbers) == _results(op.body.block, count, numbers)


def _results(block: Block, shift: int, numbers: dict[tuple, int]) -> list[int]:
    """The numbers of the values that a combiner yields if its arguments are rotated by `shift`; equal expressions have
    one number, also those that differ in the order of the operands of an operation that commutes."""

    def number(*expression: object) -> int:
        return numbers.setdefault(expression, len(numbers))

    arguments = block.arguments
    values = {each: number((place + shift) % len(arguments)) for place, each in enumerate(arguments)}
    for op in block.operations:
        operands = [values[each] if each in values else number("outside", id(each)) for each in op.operands]
        if op.has_trait(Commutative) or isinstance(op, (tileas.AddFOp, tileas.MulFOp)):
            operands.sort()
        # Regions are not compared: their operation differs from that of the other order.
        kind = (id(op), shift) if op.regions else (op.name, str(op.attributes))
        values.update((each, number(*kind, place, *operands)) for place, each in enumerate(op.results))
    return [values[each] if each in values else number("outside", id(each)) for each in block.last.operands]


class CombinedStep(NamedTuple):
    """Combine parts one after the other, whose offsets `chained` spans, then pairs along each of `bases` in order."""

    who: str
    """`thread`, `lane` or `warp`."""
    chained: tuple[int, ...]
    bases: tuple[int, ...]

    @property
    def elements(self) -> int:
        return 1 << len(self.chained) + len(self.bases)

    def __str__(self) -> str:
        holders = {"thread": "of a thread", "lane": "lanes", "warp": "warps"}[self.who]
        if self.who == "lane":
            return f"{self.elements} {holders} by butterflies"
        tree = "far ones first" if self.bases[:1] > self.bases[-1:] else "neighbours first" if self.bases[1:] else ""
        chain = f"{1 << len(self.chained)} parts one after the other" if self.chained else ""
        how = ", ".join(filter(None, (chain, tree)))
        return f"{self.elements} {holders}" + (f" ({how})" if how else "")


def tree_of(steps: Sequence[CombinedStep]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The order without its holders: runs of `chain` and `pairs` with their bases.  Equal for layouts that combine the
    same elements in the same order."""
    runs: list[tuple[str, tuple[int, ...]]] = []
    for step in steps:
        for kind, bases in (("chain", step.chained), ("pairs", step.bases)):
            if bases and kind == "pairs" and runs and runs[-1][0] == kind:
                runs[-1] = kind, (*runs[-1][1], *bases)
            elif bases:
                runs.append((kind, bases))
    return tuple(runs)


def reduction_steps(op: tileas.ReduceOp, layout: LinearLayout, target: Target) -> tuple[CombinedStep, ...]:
    """The steps by which a reduction of a tile in `layout` combines a row.

    All rows have the same steps: no basis of the layout moves along the reduced dimension and another one at once.
    """
    axis = op.dim.value
    plan = plan_reduction(layout, axis)
    mask = layout.dim_mask(axis)
    unit = mask & -mask or 1

    def along(vector: int) -> int:
        return (vector & mask) // unit

    group = plan.register_groups[0]
    elements = [along(layout.apply(register=register)) for register in group]
    steps = [_in_thread("thread", thread_order(op, len(plan.register_groups), len(group), target), elements)]
    steps.append(CombinedStep("lane", (), tuple(along(layout.bases("lane")[bit]) for bit in plan.lane_bits)))
    if plan.shared is not None:
        free = layout.free_variable_masks()["warp"]
        bases = [along(v) for bit, v in enumerate(layout.bases("warp")) if v & mask and not free >> bit & 1]
        order = thread_order(op, plan.result.registers, plan.shared.groups, target)
        steps.append(_in_thread("warp", order, [_combination(bases, n) for n in range(plan.shared.groups)]))
    return tuple(step for step in steps if step.elements > 1)


def _combination(bases: Sequence[int], number: int) -> int:
    """The sum of the bases that the bits of `number` select."""
    place = 0
    for bit, basis in enumerate(bases):
        place ^= basis if number >> bit & 1 else 0
    return place


def _in_thread(who: str, order: ThreadOrder, elements: Sequence[int]) -> CombinedStep:
    """The step of a thread that holds elements at these coordinates, in the order of its registers."""
    levels = [elements[1 << level] ^ elements[0] for level in range(len(elements).bit_length() - 1)]
    inner = order.part.bit_length() - 1
    bases = levels[:inner]
    return CombinedStep(who, tuple(levels[inner:]), tuple(reversed(bases) if order.by_halves else bases))

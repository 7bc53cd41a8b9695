"""`loop-split`: splits a loop that compares its counter with a bound in every iteration into two loops.

    for %i in (%lb to %ub, step %s) {         for %i in (%lb to min(%m, %ub), step %s) { B }
      %c = cmpi greater_than_or_equal %i, %m   for %i in (max(%m, %lb) to %ub, step %s) { A }
      if %c { A } else { B }             ->
    }

Every `if` directly in the loop on the same comparison loses the branch that its loop does not take; other users of the
comparison get a constant.  `split-threshold` is the number of operations from which a branch is profitable to split: 1
splits always, 0 never; branches with memory accesses, dots, reductions or control flow are always profitable.  An
integer attribute `cuda_tile.loop_split` of the `if`, the loop or the kernel, the nearest first, overrides the option.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Iterator

from tileiras.dialects.cuda_tile import (
    AddIOp,
    CmpIOp,
    ConstantOp,
    ContinueOp,
    DivIOp,
    ForOp,
    FunctionOp,
    IfOp,
    LoadPtrTkoOp,
    LoadViewTkoOp,
    MaxIOp,
    MinIOp,
    MmaFOp,
    MmaIOp,
    MulIOp,
    ReduceOp,
    SelectOp,
    StorePtrTkoOp,
    StoreViewTkoOp,
    SubIOp,
    YieldOp,
)
from tileiras.dialects.cuda_tile.ops_core import constant_element
from tileiras.ir import Block, Builder, DenseElementsAttr, IntegerAttr, Operation, Pass, Region, Value, i1
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile

HINT = "cuda_tile.loop_split"

HEAVY = (LoadPtrTkoOp, LoadViewTkoOp, StorePtrTkoOp, StoreViewTkoOp, MmaFOp, MmaIOp, ReduceOp, IfOp, ForOp)
"""Operations of a kind that makes a branch profitable to split, of any size."""

MIRRORED = {
    "less_than": "greater_than",
    "less_than_or_equal": "greater_than_or_equal",
    "greater_than": "less_than",
    "greater_than_or_equal": "less_than_or_equal",
}


class Split(NamedTuple):
    """How a loop can be split: `counter <predicate> bound` decides the `branches`."""

    compare: Any
    predicate: str
    bound: Value
    branches: list[Any]

    @property
    def second_holds(self) -> bool:
        """Whether the comparison holds in the second loop, not in the first."""
        return self.predicate.startswith("greater")

    @property
    def includes_bound(self) -> bool:
        """Whether the iteration at the bound belongs to the first loop."""
        return self.predicate in ("greater_than", "less_than_or_equal")


class LoopSplit(Pass):
    name = "loop-split"
    needs = "`cuda_tile`"
    establishes = "loops without comparisons of their counter that have one answer"
    keeps = "values, the order of effects"
    accepts = {"split_threshold": range(2**31)}

    split_threshold: int = 1

    def run(self, op: Operation, context: object) -> None:
        for entry in [inner for inner in op.walk() if isinstance(inner, FunctionOp)]:
            entry_hint = _hint(entry, self.split_threshold)
            # Innermost first; the copies that splitting an outer loop makes of an inner one are not split again.
            for loop in [inner for inner in _post_order(entry) if isinstance(inner, ForOp)]:
                loop_hint = _hint(loop, entry_hint)
                split = _find_split(loop, loop_hint)
                if split is not None:
                    _perform(loop, split)


def _hint(op: Operation, otherwise: int) -> int:
    entry = op.attributes.get(HINT)
    return entry.value if isinstance(entry, IntegerAttr) else otherwise


def _post_order(op: Operation) -> Iterator[Operation]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _post_order(inner)
    yield op


# ---- candidates ----------------------------------------------------------------------------------------------------


def _find_split(loop: ForOp, loop_hint: int) -> Split | None:
    for branch in _post_order(loop):
        if isinstance(branch, IfOp):
            split = _splittable(loop, branch, _hint(branch, loop_hint))
            if split is not None:
                return split
    return None


def _splittable(loop: ForOp, branch: IfOp, threshold: int) -> Split | None:
    compare = branch.condition.defining_op
    body = loop.region.block
    # A comparison that an inner loop or branch repeats would stay: only one of the loop's own is worth it.
    if threshold <= 0 or not isinstance(compare, CmpIOp) or compare.parent is not body:
        return None
    if (compare.signedness.value == "unsigned") is not (loop.unsignedCmp is not None):
        return None
    predicate = compare.comparison_predicate.value
    if predicate not in MIRRORED:
        return None
    counter = loop.induction_variable
    if compare.lhs is counter:
        bound = compare.rhs
    elif compare.rhs is counter:
        bound, predicate = compare.lhs, MIRRORED[predicate]
    else:
        return None
    if _is_inside(bound, loop):
        return None
    users = [user for user in compare.result.users if isinstance(user, IfOp)]
    if not any(_is_profitable(user, threshold) for user in users):
        return None
    return Split(compare, predicate, bound, [user for user in users if user.parent is body])


def _is_inside(value: Value, loop: Operation) -> bool:
    """Whether the value may differ between iterations: it is computed or carried inside the loop."""
    owner = value.owner
    parent = owner.parent_op if isinstance(owner, Block) else owner
    return parent is not None and loop.is_ancestor_of(parent)


def _is_profitable(branch: IfOp, threshold: int) -> bool:
    if threshold == 1:
        return True
    for region in branch.regions:
        for block in region.blocks:
            inner = list(block.operations)
            if len(inner) > threshold or any(isinstance(op, HEAVY) for op in inner):
                return True
    return False


# ---- splitting -----------------------------------------------------------------------------------------------------


def _perform(loop: ForOp, split: Split) -> None:
    build = Builder.before(loop)
    bound = _first_of_second_loop(loop, split, build)
    signedness = "unsigned" if loop.unsignedCmp is not None else "signed"
    end = build.insert(MinIOp(bound, loop.upperBound, signedness=signedness)).result
    start = build.insert(MaxIOp(bound, loop.lowerBound, signedness=signedness)).result
    first = _copy(loop, split, loop.lowerBound, end, loop.initValues, not split.second_holds)
    build.insert(first)
    second = _copy(loop, split, start, loop.upperBound, first.results, split.second_holds)
    build.insert(second)
    loop.replace_all_uses_with(second.results)
    loop.erase()


def _first_of_second_loop(loop: ForOp, split: Split, build: Builder) -> Value:
    """The counter with which the second loop begins, when both loops have iterations.

    Where the numbers are not constants, the bound is brought into the loop's range before anything is added to it or
    taken from it, so that a difference or sum that wraps around does not cut the loop in the wrong place.
    """
    lower, upper, step, bound = loop.lowerBound, loop.upperBound, loop.step, split.bound
    unsigned = loop.unsignedCmp is not None
    signedness = "unsigned" if unsigned else "signed"
    width = lower.type.element_type.width
    largest = (1 << width) - 1 if unsigned else (1 << width - 1) - 1
    constant = _number(bound, width, unsigned)
    if split.includes_bound:
        one = build.insert(_constant(1, lower.type)).result
        if constant is None or constant == largest:
            # At most the last counter of the range: if the range is empty, both loops are, wherever they start.
            last = build.insert(SubIOp(upper, one)).result
            bound = build.insert(MinIOp(bound, last, signedness=signedness)).result
            constant = None
        else:
            constant += 1
        bound = build.insert(AddIOp(bound, one)).result
    if constant_element(step) == 1:
        return bound
    fits = _aligned_fits(constant, _number(lower, width, unsigned), _number(step, width, unsigned), largest)
    if not fits:
        bound = build.insert(MaxIOp(bound, lower, signedness=signedness)).result
    distance = build.insert(SubIOp(bound, lower)).result
    # The distance to the lower bound may need all the bits.
    reading = signedness if fits else "unsigned"
    steps = build.insert(DivIOp(distance, step, signedness=reading, rounding="positive_inf")).result
    way = build.insert(MulIOp(steps, step)).result
    aligned = build.insert(AddIOp(lower, way)).result
    if fits:
        return aligned
    # A counter behind the bound that wrapped around is one that the loop does not have.
    wrapped = build.insert(CmpIOp(aligned, bound, comparison_predicate="less_than", signedness=signedness)).result
    return build.insert(SelectOp(wrapped, upper, aligned)).result


def _aligned_fits(bound: int | None, lower: int | None, step: int | None, largest: int) -> bool:
    """Whether the distance from the lower bound, and the next counter behind the bound, are known to be numbers."""
    if bound is None or lower is None or step is None or step <= 0 or not 0 <= bound - lower <= largest:
        return False
    return lower + -(-(bound - lower) // step) * step <= largest


def _number(value: Value, width: int, unsigned: bool) -> int | None:
    bits = constant_element(value)
    return bits if bits is None or unsigned or not bits >> width - 1 else bits - (1 << width)


def _constant(value: int, type: cuda_tile.TileType) -> ConstantOp:
    size = max(1, type.element_type.width // 8)
    return ConstantOp(value=DenseElementsAttr(type, value.to_bytes(size, "little"), True))


def _copy(loop: ForOp, split: Split, lower: Value, upper: Value, inits: Sequence[Value], holds: bool) -> Any:
    """The loop over another range, in which the comparison always or never holds."""
    old = loop.region.block
    block = Block([a.type for a in old.arguments], [a.location for a in old.arguments])
    mapping: dict[Value, Value] = dict(zip(old.arguments, block.arguments))
    for op in old.operations:
        if op is split.compare:
            if any(user not in split.branches for user in op.results[0].users):
                outcome = _constant(int(holds), op.results[0].type.with_element_type(i1))
                outcome.location = op.location
                mapping[op.results[0]] = block.append(outcome).results[0]
        elif op not in split.branches:
            block.append(op.clone(mapping))
        elif _copy_branch(op, block, mapping, holds):
            break
    attributes = {name: value for name, value in loop.attributes.items() if name != HINT}
    operands = (lower, upper, loop.step, *inits)
    types = [result.type for result in loop.results]
    return ForOp.create(operands, types, attributes, [Region([block])], location=loop.location)


def _copy_branch(op: IfOp, block: Block, mapping: dict[Value, Value], holds: bool) -> bool:
    """Copy the branch that is taken; True when it ends the iteration."""
    region = op.thenRegion if holds else op.elseRegion
    for source_block in region.blocks:
        for inner in source_block.operations:
            if isinstance(inner, YieldOp):
                for result, value in zip(op.results, inner.operands):
                    mapping[result] = mapping.get(value, value)
            else:
                block.append(inner.clone(mapping))
                if isinstance(inner, ContinueOp):
                    return True
    return False

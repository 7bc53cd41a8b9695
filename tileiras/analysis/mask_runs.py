"""Possible positions of the set elements in a mask.

A comparison of consecutive numbers with a bound sets the first elements of a run, or the last; a conjunction of several
sets neighbours.  The first and the last element of such a run then determine all elements between.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.analysis.divisibility import DivisibilityAnalysis
from tileiras.dialects import arith, nv_tileaa, nv_tileas
from tileiras.ir import Operation, Value
from tileiras.support.named_tuple import NamedTuple


class MaskRuns(NamedTuple):
    """Lengths of aligned runs along one dimension, in elements; all three are powers of two."""

    leading: int
    """In such a run, the set elements are its first ones."""
    trailing: int
    """In such a run, the set elements are its last ones."""
    together: int
    """In such a run, the set elements are consecutive."""


_SHAPES = (nv_tileas.ConvertLayoutOp, nv_tileaa.BroadcastOp, nv_tileaa.PermuteOp, nv_tileaa.ViewOp)

Found = dict[Value, tuple[MaskRuns, ...]]


def mask_runs(mask: Value, divisibility: DivisibilityAnalysis, cache: Found | None = None) -> tuple[MaskRuns, ...]:
    """The runs of a tensor of i1, along each of its dimensions; `cache` memoizes them."""
    cache = {} if cache is None else cache
    if mask not in cache:
        equal = divisibility.constancy(mask)
        runs = _runs(mask.defining_op, divisibility, cache) or [MaskRuns(1, 1, 1)] * len(equal)
        cache[mask] = tuple(MaskRuns(*(max(run, n) for run in each)) for each, n in zip(runs, equal))
    return cache[mask]


def _runs(op: Operation, divisibility: DivisibilityAnalysis, cache: Found) -> Sequence[MaskRuns] | None:
    if isinstance(op, arith.CmpIOp):
        return _comparison_runs(op, divisibility)
    if isinstance(op, arith.AndIOp):
        # The intersection of two prefixes, suffixes or intervals of a run is again one.
        operands = [mask_runs(v, divisibility, cache) for v in op.operands]
        return [MaskRuns(*map(min, *both)) for both in zip(*operands)]
    if not isinstance(op, _SHAPES):
        return None
    source = mask_runs(op.operands[0], divisibility, cache)
    if isinstance(op, nv_tileaa.PermuteOp):
        return [source[d] for d in op.permutation.elements]
    return _view_runs(op, source) if isinstance(op, nv_tileaa.ViewOp) else source


_BELOW = {"slt", "sle", "ult", "ule"}
_ABOVE = {"sgt", "sge", "ugt", "uge"}


def _comparison_runs(op: arith.CmpIOp, divisibility: DivisibilityAnalysis) -> list[MaskRuns] | None:
    """The runs of a comparison of consecutive numbers with a bound.

    A run that starts at a multiple of its length does not overflow in its middle, so the compared numbers increase.
    """
    predicate = op.predicate.value
    if predicate not in _BELOW | _ABOVE:
        return None
    a, b = divisibility.facts(op.lhs), divisibility.facts(op.rhs)
    result = []
    for d in range(len(a.divisor)):
        left = min(a.contiguity[d], a.divisor[d], b.constancy[d])
        right = min(b.contiguity[d], b.divisor[d], a.constancy[d])
        below, above = (left, right) if predicate in _BELOW else (right, left)
        result.append(MaskRuns(below, above, max(below, above)))
    return result


def _view_runs(op: nv_tileaa.ViewOp, runs: Sequence[MaskRuns]) -> list[MaskRuns] | None:
    """The runs of a view that only adds or removes dimensions of size one; None for other views."""
    source, target = op.operand.type.shape, op.result.type.shape
    if [n for n in source if n > 1] != [n for n in target if n > 1]:
        return None
    result = iter([run for run, n in zip(runs, source) if n > 1])
    return [next(result) if n > 1 else MaskRuns(1, 1, 1) for n in target]

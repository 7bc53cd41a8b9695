"""Proof that tile blocks write different elements.

Stores that are not weak may write one element from several tile blocks, and so may weak stores that a lock protects:
the last one remains.  Unlike `Addresses`, the proof does not assume that tile blocks write different elements: tiles
that overlap do not determine their tile block.
"""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING, Any

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import TensorType, Value
from tileiras.support.named_tuple import NamedTuple

from .addresses import TRANSPARENT, Addresses, constant_of
from .facts import Quantities, is_block, is_of_launch
from .memory import is_weak
from .shapes import all_dims, varies

if TYPE_CHECKING:
    from .flow import Flow


class _Term(NamedTuple):
    value: Value
    stride: int
    """The product of its constant strides."""
    extent: int | None
    """Number of values; None if it is unknown."""


class Separation(Addresses):
    """The scalars, tile block numbers among them, that the address of an element determines."""

    separates_elements = False
    """Whether the elements of a tile have different addresses."""

    def __init__(self, flow: Flow, op: Any) -> None:
        self._has_rows = is_weak(op)
        """Whether products with arguments are taken for rows of an array, which do not overlap."""
        super().__init__(flow, op)

    def separates_blocks(self, blocks: Quantities) -> bool:
        """Whether tile blocks with other numbers write other elements."""
        return frozenset(filter(is_block, blocks)) <= self.solved

    def _is_fixed(self, value: Value) -> bool:
        """Whether a number is the same in all tile blocks, iterations and elements of a launch."""
        facts = self._flow.of(value)
        is_uniform = all(map(is_of_launch, facts.quantities)) and not facts.reads
        return is_uniform and self._loop_of(value) is None and not self._counts(value)

    def _solve_access(self, op: Any) -> None:
        if not hasattr(op, "view"):
            self._solve_pointer(op.pointer, set())
        elif self._is_fixed(op.view):
            tiles = op.view.type
            self.separates_elements = tiles.sparse_dim is None
            for extent, dim in zip(tiles.shape, tiles.dim_map):
                is_index = isinstance(op.coords[dim].type, TensorType)
                if not is_index and tiles.traversal_strides[dim] >= extent:
                    self._solve(op.coords[dim])

    def _solve_pointer(self, pointer: Value, seen: set[Value]) -> None:
        """Solve for the terms of all offsets together, as those of one may overlap with those of another."""
        offsets, are_distinct = [], all_dims(pointer) == varies(pointer)
        while isinstance(pointer.defining_op, (aa.AddPtrOp, *TRANSPARENT)):
            op: Any = pointer.defining_op
            offsets += [op.offset] if isinstance(op, aa.AddPtrOp) else []
            pointer = op.operands[0]
        if not self._is_fixed(pointer):
            return
        for factors, terms in self._by_factors(offsets).items():
            are_digits = _are_digits(terms) and (self._has_rows or not factors)
            are_distinct &= are_digits and all(term.extent or not varies(term.value) for term in terms)
            for term in terms if are_digits else ():
                self._solve(term.value)
        self._known.update(offsets if len(offsets) == 1 else ())
        self.separates_elements = are_distinct

    def _by_factors(self, offsets: list[Value]) -> dict[tuple[int, ...], list[_Term]]:
        """The terms of a sum of offsets that vary, grouped by the factors of their strides that are not constants."""
        groups: dict[tuple[int, ...], list[_Term]] = {}
        for offset in offsets:
            for value, strides, is_term in self._parts(offset):
                if not is_term or self._is_fixed(value):
                    continue
                numbers = [constant_of(stride) for stride in strides]
                factors = tuple(sorted(id(s) for s, number in zip(strides, numbers) if number is None))
                stride = prod(abs(number) for number in numbers if number is not None)
                counter = value.defining_op
                extent = counter.result.type.shape[0] if isinstance(counter, aa.MakeRangeOp) else None
                groups.setdefault(factors, []).append(_Term(value, stride, extent))
        return groups


def _are_digits(terms: list[_Term]) -> bool:
    """Whether a sum determines its terms, as a number its digits: each stride is longer than the reach of the terms
    with smaller ones."""
    reach: float = 0
    for term in sorted(terms, key=lambda term: term.stride):
        if term.stride <= reach:
            return False
        reach += term.stride * (term.extent - 1) if term.extent is not None else inf
    return True

"""Emits an access twice, by whole vectors and element by element, with a branch between the two.

If the mask of a vector is all true or all false, the vector is moved or not, and one version suffices.  Through a view,
that depends on where the tile ends: one condition separates tiles that are wholly inside (`by_bounds`).  Through
pointers it depends on the mask: the branch tests whether no vector of a warp is partially masked (`MaskedVectors`).  A
mask from comparisons of consecutive numbers with bounds is determined by the first and the last element of each run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.analysis.mask_runs import mask_runs
from tileiras.dialects import llvm, nvvm
from tileiras.ir import TensorType, Value, VerifyError, element_type_of, i1
from tileiras.layout import LinearLayout
from tileiras.layout.memory import register_groups
from tileiras.support import gf2

from ..emit.emitter import FULL_WARP
from ..emit.function import FunctionLowering
from ..emit.types import memory_type
from .views import TileAddresses

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileas as tileas


def vector_bits(layout: LinearLayout, axis: int, vector_size: int) -> tuple[int, ...]:
    """The register bits that one access of `vector_size` elements along `axis` covers.

    Raises VerifyError where no thread has that many neighbours.
    """
    registers = layout.bases("register")
    shift = layout.dim_shift(axis)
    bits = [1 << shift + i for i in range(vector_size.bit_length() - 1)]
    if not set(bits) <= set(registers):
        raise VerifyError(f"moves {vector_size} elements at once, which are not together in the layout")
    return tuple(map(registers.index, bits))


def vector_axis(
    op: tileas.AsyncLoadOp | tileas.LoadOp | tileas.StoreOp | tileas.AtomicRMWOp, layout: LinearLayout
) -> int | None:
    """The dimension along which an access through pointers has its vectors; None where it moves single elements."""
    size = op.atom.vector_size
    if size == 1:
        return None
    # The vector runs along whichever dimension the layout's lowest register steps through.
    first = layout.bases("register")
    for axis in range(len(layout.shape)):
        if all(1 << layout.dim_shift(axis) + i in first for i in range(size.bit_length() - 1)):
            if layout.shape[axis] >= size and first[0] == 1 << layout.dim_shift(axis):
                return axis
    return None


class MaskedVectors:
    """The vectors of a load or store through pointers, or of a copy through them, by `groups` of registers."""

    def __init__(
        self, op: tileas.AsyncLoadOp | tileas.LoadOp | tileas.StoreOp, layout: LinearLayout, lowering: FunctionLowering
    ) -> None:
        self._emit, self._lowering, self._layout = lowering.emit, lowering, layout
        self.axis = vector_axis(op, layout)
        bits = () if self.axis is None else vector_bits(layout, self.axis, op.atom.vector_size)
        self.groups = register_groups(layout.registers, bits)
        mask = lowering.value(op.mask) if op.mask is not None else None
        self._mask = None if mask is not None and lowering.emit.number(mask) in (1, -1) else mask
        self._pointee = element_type_of(op.pointer.type).pointee
        self._run: int | None = None
        """The length of runs whose ends determine the mask; None if no vector is partially masked."""
        self._all = True
        """Whether the branch tests for a mask of all elements, not only for the absence of partially masked vectors."""
        self._rows = False
        """Whether rows of vectors differ, so that some of a warp may be partially masked and others not."""
        if self._mask is not None and self.axis is not None and isinstance(op.mask.type, TensorType):
            equal = lowering.facts.constancy(op.mask)
            if equal[self.axis] < op.atom.vector_size:
                runs = mask_runs(op.mask, lowering.facts)[self.axis]
                one_sided = max(runs.leading, runs.trailing)
                self._rows = any(n < m for d, (n, m) in enumerate(zip(equal, layout.shape)) if d != self.axis)
                # A masked row of a tile must not force element-wise moves of all others.
                self._all = not self._rows or one_sided < op.atom.vector_size
                self._run = runs.together if self._all else one_sided

    def at(self, register: int, vector: bool = False) -> Value | None:
        """The mask of a register's element, or of a vector that begins with it where the branch is for vectors; None if
        it is known to be true."""
        if self._mask is None or vector and self._run is not None and self._all:
            return None
        # Where all elements are needed, comparisons of vectors are narrowed together (`targets/peepholes.py`).
        return self._emit.extract(self._mask, register) if self.axis is None else self._element(self._mask, register)

    def _element(self, mask: Value, register: int) -> Value | None:
        """An element of a mask, from those of the numbers that it compares: LLVM packs a vector of i1 into words where
        the access is in another block than the comparisons, and computes every element for that."""
        op: Any = mask.defining_op
        if isinstance(op, llvm.AndOp):
            return self._emit.both(self._element(op.lhs, register), self._element(op.rhs, register))
        if isinstance(op, llvm.ICmpOp):
            sides = (self._emit.extract(side, register) for side in (op.lhs, op.rhs))
            element = self._emit.icmp(op.predicate.value, *sides)
            element.defining_op.location = op.location  # in the line of the comparison
            return element
        return self._emit.extract(mask, register)

    def whole(self, group: Sequence[int]) -> Value | None:
        """In the element-wise version: whether a vector is moved as a whole nevertheless; None if that is not
        tested."""
        if not self._rows or self._run is None or self._run < len(group):
            return None
        return self._emit.both(self.at(group[0]), self.at(group[-1]))

    def alone(self, register: int, with_vector: Value | None) -> Value | None:
        """Whether to move an element that has not been moved with its vector, where `with_vector` holds."""
        condition = self.at(register)
        if with_vector is None:
            return condition
        return self._emit.both(condition, self._emit.xor(with_vector, self._emit.integer(1, i1), i1))

    def address(self, pointers: Value, group: Sequence[int], number: int = 0) -> tuple[Value, int]:
        """(pointer, bytes to add) of an element of a vector."""
        distance = number * (memory_type(self._pointee).width // 8) if number else 0
        return self._emit.extract(pointers, group[0]), distance

    def branched(self, access: Callable[[bool], Any]) -> Any:
        """The result of `access(vectors)`, by whole vectors or element by element."""
        if self._run is None:
            return access(True)
        return _written_twice(self._none_in_part(self._run), access, self._lowering)

    def _none_in_part(self, run: int) -> Value:
        """Whether no vector in the warp is partially masked."""
        emit = self._emit
        result: Value | None = None
        for first, last in self._ends(run):
            ends = self.at(first), self.at(last)
            result = emit.both(result, emit.both(*ends) if self._all else emit.icmp("eq", *ends))
        assert result is not None
        every = nvvm.VoteSyncKindAttr("all")
        return emit.insert(nvvm.VoteSyncOp(emit.integer(FULL_WARP), result, kind=every))

    def _ends(self, run: int) -> list[tuple[int, int]]:
        """Registers of the first and the last element of each run that this thread holds."""
        layout, axis = self._layout, self.axis
        assert axis is not None
        if self._is_mixed():
            run = min(run, len(self.groups[0]))
        places: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for register in range(layout.registers):
            place = list(layout.coordinates(layout.apply(register=register)))
            along, place[axis] = place[axis], place[axis] // run
            places.setdefault(tuple(place), []).append((along, register))
        return [(min(item)[1], max(item)[1]) for item in places.values()]

    def _is_mixed(self) -> bool:
        """Whether lane or warp bits also determine the order of a thread's elements."""
        registers, lanes, warps = (
            gf2.support(self._layout.coordinate_columns(dim, self.axis)) for dim in ("register", "lane", "warp")
        )
        return bool(registers & (lanes | warps))


def by_bounds(
    addresses: TileAddresses, axis: int, size: int, access: Callable[[int, bool], Any], lowering: FunctionLowering
) -> Any:
    """The result of `access(elements, masked)` for a tile through a view, a value or None: `elements` along `axis` are
    moved at once, of `masked` ones only those inside."""
    if addresses.run_is_uniform(axis, size):
        return access(size, True)
    inside = addresses.whole_tile_inside()
    if inside is None:
        return access(size, False)
    # Used on both sides; LLVM would first duplicate it and then search for it.
    addresses.address(0)
    addresses.keep()

    def side(is_inside: bool) -> Any:
        addresses.forget()
        return access(size, False) if is_inside else access(1, True)

    result = _written_twice(inside, side, lowering)
    addresses.forget()
    return result


def _written_twice(condition: Value, access: Callable[[bool], Any], lowering: FunctionLowering) -> Any:
    """The result of `access`, a value or None: called with True where a condition holds, else with False.

    The condition is the same in all threads of a warp.
    """
    emit = lowering.emit
    before = emit.block
    fast, slow = lowering.new_block(), lowering.new_block()
    emit.insert(llvm.CondBrOp(condition, [], [], trueDest=fast, falseDest=slow))
    results = []
    for block, holds in ((fast, True), (slow, False)):
        emit.block = block
        results.append((access(holds), emit.block))
    values = [value for value, _ in results]
    join = lowering.new_block([] if values[0] is None else [values[0].type], before)
    for value, block in results:
        emit.block = block
        emit.insert(llvm.BrOp([] if value is None else [value], dest=join))
    emit.block = join
    return join.arguments[0] if join.arguments else None

"""Scratch memory of operations of nv_tileas: elements that threads exchange through shared memory.

`exchanges(op)` alone determines it: bytes, and the rounds of exchanges that are too large at once.  The place of each
area is chosen by `tileas-optimize-alloc-tensor`, and the lowering uses the areas in the order of this list.

The planner of conversions is loaded only for operations that convert a layout.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras import dialects
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.llvm.layout import SHARED
from tileiras.ir import Operation, TensorType, Value, element_type_of
from tileiras.layout.accumulators import accumulator_of
from tileiras.layout.arena import stored_bits
from tileiras.layout.constructors import replicated
from tileiras.layout.encoding import (
    broadcast_layout,
    held_layout,
    is_in_shared,
    layout_of,
    renamed_layout,
    slice_registers,
)
from tileiras.layout.linear_layout import LinearLayout
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import TARGETS, find_copy_atom

if TYPE_CHECKING:
    from tileiras.layout.convert import Rounds

PRINTED_BYTES = 16 * 1024
"""Bytes of a printed tile that are in shared memory at a time."""


class Whole(NamedTuple):
    """`bytes` at once.  If it `joins`, it shares the barrier of the previous exchange."""

    bytes: int
    joins: bool = False

    def within(self, limit: int, available: int) -> tuple[int, int]:
        """(bytes of the area, rounds): `limit` is the target for all scratch areas together, `available` the available
        size."""
        return self.bytes, 1


class Conversion(NamedTuple):
    """A tile of one layout, read in another."""

    source: LinearLayout
    target: LinearLayout
    element_bits: int

    @property
    def bytes(self) -> int:
        return max(1, self.source.size * self.element_bits // 8)

    joins = False

    def within(self, limit: int, available: int) -> tuple[int, int]:
        if self.bytes <= limit:
            return self.bytes, 1
        split_bits = max(0, (-(-self.bytes // limit) - 1).bit_length())
        result = tileiras.layout.convert.split_rounds(self.source, self.target, split_bits)
        if self.bytes // (len(result.parts) if result is not None else 1) > available:
            result = tileiras.layout.convert.split_rounds(self.source, self.target, split_bits, conditional=True)
        rounds = len(result.parts) if result is not None else 1
        return self.bytes // rounds, rounds


class Slice(NamedTuple):
    """A slice of a tile, in boxes of it where it is large."""

    shape: tuple[int, ...]
    element_bytes: int

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.element_bytes

    joins = False

    def within(self, limit: int, available: int) -> tuple[int, int]:
        box = box_of(self.shape, self.element_bytes, limit)
        return prod(box) * self.element_bytes, prod(self.shape) // prod(box)


class Printed(NamedTuple):
    """A tile that one thread reads element by element."""

    elements: int
    element_bytes: int

    @property
    def bytes(self) -> int:
        return self.elements * self.element_bytes

    joins = False

    def within(self, limit: int, available: int) -> tuple[int, int]:
        at_once = min(self.elements, PRINTED_BYTES // self.element_bytes)
        return at_once * self.element_bytes, self.elements // at_once


Exchange = Whole | Conversion | Slice | Printed


def in_rounds(source: LinearLayout, target: LinearLayout, rounds: int) -> Rounds | None:
    """The parts of a conversion in `rounds` rounds; None for one."""
    if rounds == 1:
        return None
    bits = rounds.bit_length() - 1
    result = tileiras.layout.convert.split_rounds(source, target, bits)
    if result is None or len(result.parts) != rounds:
        result = tileiras.layout.convert.split_rounds(source, target, bits, conditional=True)
    return result


def box_of(shape: Sequence[int], element_bytes: int, limit: int) -> tuple[int, ...]:
    """The largest box of at most `limit` bytes, rows kept whole as long as possible."""
    box = list(shape)
    for d in range(len(box)):
        while box[d] > 1 and prod(box) * element_bytes > limit:
            box[d] //= 2
    return tuple(box)


class Warps(NamedTuple):
    """Properties of the target and the launch that an exchange depends on: how many warps share a tile, and whether a
    warp stores whole matrices at once."""

    count: int
    store_matrices: bool

    @classmethod
    def of(cls, func: Any, gpu: str) -> Warps:
        """The properties for a function of nv_tileas on a GPU."""
        return cls(tileas.block_warps(func), stores_matrices(gpu))

    def layout(self, value: Value) -> LinearLayout:
        """The layout of a tensor or a scalar."""
        return held_layout(value.type, self.count)

    def converted(self, source: LinearLayout, target: LinearLayout, type: Any) -> tuple[Conversion, ...]:
        """The exchanges of a conversion of layout; empty if elements stay in their warp."""
        if source == target:
            return ()
        bits = stored_bits(element_type_of(type))
        through_memory = isinstance(
            tileiras.layout.convert.plan_conversion(source, target, bits, self.store_matrices),
            tileiras.layout.shared.SharedPlan,
        )
        return (Conversion(source, target, bits),) if through_memory else ()

    def spread(self, layout: LinearLayout, bits: int) -> Iterator[Conversion]:
        """The exchanges that broadcast an element from one thread to all threads that hold it."""
        free = layout.free_variable_masks()
        if free["lane"] or free["warp"]:
            yield Conversion(layout, layout, bits)


def exchanges(op: Operation, warps: Warps) -> list[Exchange]:
    """The exchanges of an operation through scratch memory, in order."""
    rule = EXCHANGING.get(type(op))
    return [] if rule is None else list(rule(op, warps))


def wants_scratch(op: Operation, warps: Warps) -> bool:
    """Whether an operation needs scratch memory that it does not have yet."""
    return type(op) in EXCHANGING and tileas.SCRATCH not in op.attributes and bool(exchanges(op, warps))


@functools.cache
def stores_matrices(gpu: str) -> bool:
    """Whether a warp of a GPU, `sm_90`, stores whole matrices to shared memory at once."""
    on = TARGETS.get(gpu)
    return on is not None and find_copy_atom(on, "register", "shared", matrices=True) is not None


# ---- by operation ----------------------------------------------------------------------------------------------------


def _convert_layout(op: Any, warps: Warps) -> Sequence[Exchange]:
    if is_in_shared(op.result.type):
        return ()
    return warps.converted(layout_of(op.operand.type), layout_of(op.result.type), op.result.type)


def _rename(op: Any, warps: Warps) -> Sequence[Exchange]:
    if is_in_shared(op.result.type):
        return ()
    return warps.converted(renamed_layout(op), layout_of(op.result.type), op.result.type)


def _broadcast(op: Any, warps: Warps) -> Sequence[Exchange]:
    return warps.converted(layout_of(op.operand.type), broadcast_layout(op), op.result.type)


def _reduce(op: Any, warps: Warps) -> Iterator[Exchange]:
    plan = tileiras.layout.reduce.plan_reduction(layout_of(op.inputs[0].type), op.dim.value)
    if plan.shared is not None:
        for number, value in enumerate(op.inputs):
            bits = stored_bits(value.type.element_type)
            yield Whole(Conversion(plan.shared.source, plan.shared.target, bits).bytes, joins=number > 0)
    for result in op.results:
        target = warps.layout(result)
        if target.shape == plan.result.shape:
            yield from warps.converted(plan.result, target, result.type)


def _scan(op: Any, warps: Warps) -> Iterator[Exchange]:
    axis, source = op.dim.value, layout_of(op.inputs[0].type)
    layout = source
    if not tileiras.layout.scan.is_scannable(source, axis):
        layout = tileiras.layout.scan.scan_layout(op.inputs[0].type.shape, axis, warps.count)
    for value in op.inputs:
        yield from warps.converted(source, layout, value.type)
    totals = tileiras.layout.scan.warp_totals(layout, axis, [stored_bits(v.type.element_type) // 8 for v in op.inputs])
    if totals is not None:
        yield Whole(totals.starts[-1])
    for result in op.results:
        yield from warps.converted(layout, layout_of(result.type), result.type)


def _slice(op: Any, warps: Warps) -> Iterator[Exchange]:
    if isinstance(op, tileas.ExtractSliceOp) and accumulator_of(op.source) is not None:
        return  # loaded from tensor memory
    if isinstance(op, tileas.ExtractSliceOp) and slice_registers(op) is not None:
        return
    type = op.result.type if isinstance(op, tileas.ExtractSliceOp) else op.source.type
    yield Slice(type.shape, stored_bits(type.element_type) // 8)


def _atomic(op: Any, warps: Warps) -> Iterator[Exchange]:
    """The old values of elements that several threads hold; without them nothing is exchanged."""
    if op.data.has_uses:
        yield from warps.spread(warps.layout(op.pointer), stored_bits(element_type_of(op.data.type)))


def _load(op: Any, warps: Warps) -> Iterator[Exchange]:
    if op.mem_semantic.value != "weak":
        yield from warps.spread(warps.layout(op.data), stored_bits(element_type_of(op.data.type)))


def _alloca(op: Any, warps: Warps) -> Iterator[Exchange]:
    """The address of memory on the heap, which one thread allocates."""
    if op.result.type.address_space != SHARED:
        yield from warps.spread(warps.layout(op.result), 64)


def _print(op: Any, warps: Warps) -> Iterator[Exchange]:
    """Tiles of few elements first, which all threads get, then the others where they are printed."""
    for value in op.args:
        if dialects.nv_tileaa.print_format.is_printed_at_once(value.type):
            type = value.type
            yield from warps.converted(layout_of(type), replicated(type.shape, warps.count), type)
    for piece in dialects.nv_tileaa.print_format.pieces(op.format.value):
        type = None if isinstance(piece, str) or piece.operand >= len(op.args) else op.args[piece.operand].type
        if isinstance(type, TensorType) and not dialects.nv_tileaa.print_format.is_printed_at_once(type):
            yield Printed(type.num_elements, stored_bits(type.element_type) // 8)


EXCHANGING: Mapping[type[Operation], Callable[[Any, Warps], Iterable[Exchange]]] = {
    tileas.ConvertLayoutOp: _convert_layout,
    tileas.ViewOp: _rename,
    tileas.PermuteOp: _rename,
    tileas.BroadcastOp: _broadcast,
    tileas.ReduceOp: _reduce,
    tileas.ScanOp: _scan,
    tileas.ExtractSliceOp: _slice,
    tileas.InsertSliceOp: _slice,
    tileas.AtomicRMWOp: _atomic,
    tileas.AtomicCASOp: _atomic,
    tileas.LoadOp: _load,
    tileas.TiledLoadOp: _load,
    tileas.AllocaOp: _alloca,
    tileas.PrintOp: _print,
}
"""Operation that may need scratch memory -> the function that yields its exchanges."""

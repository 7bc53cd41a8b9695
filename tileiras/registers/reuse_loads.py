"""Elements that a thread has loaded already are not loaded again.

    %a = load %p[j]                   %a = load %p[j]
    %b = load %p[j - 1]       ->      %r = load %p[j - 1]
                                      %b = shifted %a, %r {by = -1}

Where a thread has four neighbours of %a, three of %b are among them, and one of %r is loaded.  A tile that begins one
element off has no aligned vector, and would take a load for each element, whose lanes are four elements apart.

A load that repeats an earlier one is removed where a thread has registers to keep the tile until then: rows that are
read for their mean and again for their normalization.  Both have one token: all writes that the second has to observe
are observed by the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tileiras import analysis, resources
from tileiras.analysis.copied_loads import LOADS
from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Block, IntegerAttr, Operation, TensorType, Value, i64
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import layout_of
from tileiras.layout.memory import moved_registers, register_groups, vector_registers
from tileiras.reasons import Reason
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tileiras.analysis.shifted_values import ShiftedValues
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target

_LOOKED_AT = 8
"""The number of preceding loads that are considered as a source."""
_BYTE = 8


class _Source(NamedTuple):
    """An earlier load that overlaps, the offset, and the number of accesses that remain."""

    source: Value
    dim: int
    by: int
    rest: int
    accesses: int


class ReuseLoads(FunctionPass):
    name = "tileas-reuse-loads"
    optional = True
    schedules = True
    requires = "LAYOUTS"
    needs = "layouts and atoms"
    establishes = "no load of elements that an earlier load has; of overlapping tiles, loads of the new elements"
    keeps = "values, layouts, the order of loads and writes"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if sum(op.name in ("nv_tileas.load", "nv_tileas.tiled_load") for op in func.walk()) > 1:
            reuse_loads(func, context.engine)


def reuse_loads(func: aa.FuncOp, engine: DiagnosticEngine | None = None) -> None:
    """Reuse the tiles of earlier equal loads, and elements of overlapping loads through pointers where that saves half
    of the accesses; in place, in a function of nv_tileas with layouts."""
    facts = analysis.shifted_values.ShiftedValues()
    for block in [region.block for op in func.walk() for region in op.regions if region.blocks]:
        _reuse(block, facts, func, engine)


def _reuse(block: Block, facts: ShiftedValues, func: aa.FuncOp, engine: DiagnosticEngine | None) -> None:
    before: list[tuple[tileas.Load, Value]] = []  # loads, and their complete tiles
    for load in [op for op in block.operations if _is_plain(op)]:
        candidates = before[-_LOOKED_AT:]
        if not _reuse_whole(load, candidates, func, engine):
            data = _reuse_part(load, candidates, facts, func, engine) if isinstance(load, tileas.LoadOp) else load.data
            before.append((load, data))


def _reuse_whole(
    load: tileas.Load, before: Sequence[tuple[tileas.Load, Value]], func: aa.FuncOp, engine: DiagnosticEngine | None
) -> bool:
    """Whether an equal load precedes this one, which is then erased."""
    result = next((each for each in reversed(before) if _loads_the_same(each[0], load)), None)
    if result is None or resources.registers.lacks(func, resources.registers.words(load.data)):
        return False
    other, data = result
    if engine is not None and engine.remarks:
        accesses = layout_of(load.data.type).registers // load.atom.vector_size
        _remark(load, 0, accesses, Reason("access.same-load"), func, engine)
    load.data.replace_all_uses_with(data)
    load.result_token.replace_all_uses_with(other.result_token)
    load.erase()
    return True


def _loads_the_same(one: tileas.Load, other: tileas.Load) -> bool:
    return (
        type(one) is type(other)
        and one.operands == other.operands
        and one.attributes == other.attributes
        and one.data.type == other.data.type
    )


def _reuse_part(
    load: tileas.LoadOp, before: Sequence[tuple[tileas.Load, Value]], facts: ShiftedValues, func: aa.FuncOp,
    engine: DiagnosticEngine | None,
) -> Value:  # fmt: skip
    """The tile of a load, which has elements of one before it where that pays."""
    data = load.data
    source = _source(load, layout_of(data.type), before, facts)
    if source is None:
        return data
    attributes = {"dim": IntegerAttr(source.dim, i64), "by": IntegerAttr(source.by, i64)}
    users = list(data.users)
    result = tileas.ShiftedOp.create((source.source, data), (data.type,), attributes, location=load.location)
    load.parent.insert_before(result, load.next)
    data.replace_uses_in(result.result, users)
    if engine is not None and engine.remarks:
        cause = Reason("access.shifted-load", distance=source.by, dim=source.dim)
        _remark(load, source.rest, source.accesses, cause, func, engine)
    return result.result


def _is_plain(op: Operation) -> bool:
    """Whether an operation loads a tile of whole bytes and is not ordered with other accesses."""
    if not isinstance(op, LOADS) or not isinstance(op.data.type, TensorType) or op.attributes.get("reduction"):
        return False
    return op.mem_semantic.value == "weak" and op.atom is not None and op.data.type.element_type.width >= _BYTE


def _source(
    load: tileas.LoadOp, layout: LinearLayout, before: Sequence[tuple[tileas.Load, Value]], facts: ShiftedValues
) -> _Source | None:
    """The load with most of the elements of a later one, where these are half of it."""
    best: _Source | None = None
    for other, data in reversed(before):
        if not isinstance(other, tileas.LoadOp):
            continue
        if other.data.type != load.data.type or other.token is not load.token:
            continue
        for dim, extent in enumerate(layout.shape):
            by = _distance(other, load, dim, facts)
            if by is None or not 0 < abs(by) < extent:
                continue
            accesses = _accesses(load, layout, dim)
            sources = moved_registers(layout, dim, by)
            loads_left = sum(any(sources[register] is None for register in group) for group in accesses)
            if 2 * loads_left <= len(accesses) and (best is None or loads_left < best.rest):
                best = _Source(data, dim, by, loads_left, len(accesses))
    return best


def _distance(other: tileas.LoadOp, load: tileas.LoadOp, dim: int, facts: ShiftedValues) -> int | None:
    """The distance along a dimension by which the addresses of a load are those of another one shifted; its mask and
    its padding have to be shifted alike."""
    result = facts.shift(other.pointer, load.pointer, dim)
    if result is None or result.by is None:
        return None
    for mine, its in ((load.mask, other.mask), (load.other, other.other)):
        if mine is its is None:
            continue
        if mine is None or its is None:
            return None
        shift = facts.shift(its, mine, dim)
        if shift is None or shift.by not in (None, result.by):
            return None
    return result.by


def _accesses(load: tileas.LoadOp, layout: LinearLayout, dim: int) -> Sequence[Sequence[int]]:
    """The registers of each access of a load."""
    size = load.atom.vector_size
    bits = vector_registers(layout, dim, _BYTE, contiguous=size, divisibility=size, access_bits=_BYTE * size)
    return register_groups(layout.registers, bits)


def _remark(
    load: tileas.Load, accesses_left: int, accesses: int, cause: Reason, func: aa.FuncOp, engine: DiagnosticEngine
) -> None:
    """Emit a remark with the accesses that remain of a load."""
    reason = Reason("access.reused", left=accesses_left, accesses=accesses, cause=cause)
    engine.emit(Remark(reason, load.location, function=func.sym_name.value))

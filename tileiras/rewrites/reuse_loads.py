"""Elements that a thread has loaded already are not loaded again.

    %a = load %p[j]                   %a = load %p[j]
    %b = load %p[j - 1]       ->      %r = load %p[j - 1]
                                      %b = shifted %a, %r {by = -1}

Where a thread has four neighbours of %a, three of %b are among them, and of %r one is loaded.  A tile that begins one
element off, of which no vector is aligned, would take a load for each element, whose lanes are four elements apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.analysis.shifted_values import ShiftedValues
from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Block, IntegerAttr, Operation, TensorType, Value, i64
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import layout_of
from tileiras.layout.memory import moved_registers, register_groups, vector_registers
from tileiras.named_tuple import NamedTuple
from tileiras.remarks import Remark

_LOOKED_AT = 8
"""Loads before one that may have its elements."""
_BYTE = 8


class _Source(NamedTuple):
    """What has elements of a load, by how much that one is moved against it, and how many of its accesses are left."""

    known: Value
    dim: int
    by: int
    left: int
    accesses: int


def reuse_loads(func: aa.FuncOp, engine: DiagnosticEngine | None = None) -> None:
    """Takes elements of loads through pointers from loads before them, in place, in a function of nv_tileas with
    layouts, where half of a load's accesses are saved."""
    facts = ShiftedValues()
    for block in [region.block for op in func.walk() for region in op.regions if region.blocks]:
        _reuse(block, facts, func, engine)


def _reuse(block: Block, facts: ShiftedValues, func: aa.FuncOp, engine: DiagnosticEngine | None) -> None:
    before: list[tuple[tileas.LoadOp, Value]] = []  # loads, and the tiles that are wholly what they give
    for load in [op for op in block.operations if _is_plain(op)]:
        layout, data = layout_of(load.data.type), load.data
        source = _source(load, layout, before[-_LOOKED_AT:], facts)
        if source is not None:
            attributes = {"dim": IntegerAttr(source.dim, i64), "by": IntegerAttr(source.by, i64)}
            users = list(data.users)
            made = tileas.ShiftedOp.create((source.known, data), (data.type,), attributes, location=load.location)
            block.insert_before(made, load.next)
            data.replace_uses_in(made.result, users)
            data = made.result
            if engine is not None and engine.remarks:
                _remark(load, source, func, engine)
        before.append((load, data))


def _is_plain(op: Operation) -> bool:
    """Whether an operation loads a tile of whole bytes that no other access has to be seen before or behind of."""
    if not isinstance(op, tileas.LoadOp) or not isinstance(op.data.type, TensorType):
        return False
    return op.mem_semantic.value == "weak" and op.atom is not None and op.data.type.element_type.width >= _BYTE


def _source(
    load: tileas.LoadOp, layout: LinearLayout, before: Sequence[tuple[tileas.LoadOp, Value]], facts: ShiftedValues
) -> _Source | None:
    """The load with most of the elements of a later one, where these are half of it."""
    best: _Source | None = None
    for other, known in reversed(before):
        if other.data.type != load.data.type or other.token is not load.token:
            continue
        for dim, extent in enumerate(layout.shape):
            by = _moved(other, load, dim, facts)
            if by is None or not 0 < abs(by) < extent:
                continue
            accesses = _accesses(load, layout, dim)
            moved = moved_registers(layout, dim, by)
            left = sum(any(moved[register] is None for register in group) for group in accesses)
            if 2 * left <= len(accesses) and (best is None or left < best.left):
                best = _Source(known, dim, by, left, len(accesses))
    return best


def _moved(other: tileas.LoadOp, load: tileas.LoadOp, dim: int, facts: ShiftedValues) -> int | None:
    """By how much the addresses of a load are those of another one moved along a dimension, and so are its conditions
    and what it gives where they do not hold."""
    found = facts.moved(other.pointer, load.pointer, dim)
    if found is None or found.by is None:
        return None
    for mine, its in ((load.mask, other.mask), (load.other, other.other)):
        if mine is its is None:
            continue
        if mine is None or its is None:
            return None
        moved = facts.moved(its, mine, dim)
        if moved is None or moved.by not in (None, found.by):
            return None
    return found.by


def _accesses(load: tileas.LoadOp, layout: LinearLayout, dim: int) -> Sequence[Sequence[int]]:
    """The registers of each access of a load."""
    size = load.atom.vector_size
    bits = vector_registers(layout, dim, _BYTE, contiguous=size, divisibility=size, access_bits=_BYTE * size)
    return register_groups(layout.registers, bits)


def _remark(load: tileas.LoadOp, source: _Source, func: aa.FuncOp, engine: DiagnosticEngine) -> None:
    """Says of a load what is left of it."""
    where = "further on" if source.by > 0 else "further back"
    engine.emit(
        Remark(
            "passed", "RemarkMemoryLoadReused", load.location, source.left, source.accesses,
            reason=f"a load before has its elements {abs(source.by)} {where} along dimension {source.dim}",
            function=func.sym_name.value,
        )
    )  # fmt: skip

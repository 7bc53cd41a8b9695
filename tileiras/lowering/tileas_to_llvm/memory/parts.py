"""Accesses through pointers made in parts: some registers at a time, together with the operands of these alone."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Operation, Value, VerifyError
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import layout_of
from tileiras.resources.address_parts import can_be_in_parts, made_for, made_only_for

from ..elementwise.shape import coordinate
from ..emit.function import FunctionLowering
from ..emit.types import count_of, scalar_type


class _Part:
    """Values of some registers; the operations that only the access uses are emitted for these registers."""

    def __init__(
        self, address_ops: Mapping[Operation, tuple[int, ...] | None], thread: Value | None, lowering: FunctionLowering
    ) -> None:
        self._made = address_ops
        self._lowering = lowering
        self._thread = thread
        self._found: dict[tuple[Value, tuple[int, ...]], Any] = {}

    def at(self, value: Value, registers: tuple[int, ...]) -> Any:
        """The elements that these registers of a value have."""
        result = self._found.get((value, registers))
        if result is None:
            result = self._found[value, registers] = self._make(value, registers)
        return result

    def _make(self, value: Value, registers: tuple[int, ...]) -> Any:
        op, lowering = value.defining_op, self._lowering
        if op not in self._made:
            whole = lowering.values.get(value)  # tokens have no value
            return whole if whole is None or count_of(whole.type) == 1 else lowering.emit.shuffle(whole, registers)
        sources = self._made[op]
        if sources is not None:
            numbers = [sources[register] for register in registers]
            distinct = tuple(sorted(set(numbers)))
            return lowering.emit.shuffle(self.at(op.operands[0], distinct), [distinct.index(n) for n in numbers])
        if isinstance(op, tileas.MakeRangeOp):
            return self._numbers(op, registers)
        args = [self.at(operand, registers) for operand in op.operands]
        pattern = lowering.pattern(type(op))
        if pattern is None:
            raise lowering.failure(op, f"failed to legalize operation '{op.name}'")
        lowering.emit.location = op.location
        result = pattern(op, args, lowering)
        return result if isinstance(result, Value) else result[0]


    def _numbers(self, op: tileas.MakeRangeOp, registers: tuple[int, ...]) -> Value:
        """A range's numbers, recomputed in each iteration of a loop and not held through it."""
        lowering = self._lowering
        layout, type = layout_of(op.result.type), scalar_type(op.result.type.element_type)
        with nullcontext() if self._thread is None else lowering.emit.of_thread(self._thread):
            return coordinate(layout, 0, type, lowering, registers)


def postpone(lowering: FunctionLowering) -> None:
    """Postpone the operations that only accesses in parts use."""
    for op in lowering.func.walk():
        if tileas.PARTS in op.attributes:
            lowering.postponed.update(made_only_for(op, made_for(op)))


def access_in_parts(op: tileas.LoadOp | tileas.StoreOp, lowering: FunctionLowering) -> list[Any]:
    """An access that is made in as many parts as `nv_tileas.parts` says.

    Raises VerifyError where it cannot be made in parts, or in so many.
    """
    layout, parts = layout_of(op.pointer.type), op.attributes[tileas.PARTS].value
    count = layout.registers // parts if parts > 0 else 0
    pattern = lowering.pattern(type(op))
    if pattern is None or not can_be_in_parts(op) or count * parts != layout.registers:
        raise VerifyError(f"cannot be made in {parts} parts")
    result, narrow = made_for(op), _first(layout, count)
    ranges = any(isinstance(each, tileas.MakeRangeOp) for each in result)
    thread = lowering.thread_of_iteration(lowering.counters[-1]) if ranges and lowering.counters else None
    results = []
    for first in range(0, layout.registers, count):
        registers, part = tuple(range(first, first + count)), _Part(result, thread, lowering)
        values = {operand: part.at(operand, registers) for operand in op.operands}
        lowering.emit.location = op.location
        with _narrowed(lowering, values, {layout: narrow}):
            results.append((registers, pattern(op, [values[operand] for operand in op.operands], lowering)))
    if not isinstance(op, tileas.LoadOp):
        return [None]
    loaded = [value[0] for _, value in results]
    whole = lowering.emit.assemble([registers for registers, _ in results], loaded, layout.registers)
    return [whole, None]


@contextmanager
def _narrowed(
    lowering: FunctionLowering, values: Mapping[Value, Any], layouts: dict[LinearLayout, LinearLayout]
) -> Iterator[None]:
    """Context: these values are restricted to parts of their layouts."""
    whole, lowering.values, lowering.narrow = lowering.values, ChainMap(dict(values), lowering.values), layouts
    yield
    lowering.values, lowering.narrow = whole, {}


def _first(layout: LinearLayout, registers: int) -> LinearLayout:
    """A layout without all but the first registers."""
    bases = {name: layout.bases(name) for name in layout.dims}
    return LinearLayout({**bases, "register": bases["register"][: registers.bit_length() - 1]}, layout.shape)

"""Values in layouts: conversions, and values that are rematerialized in the layout of their use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras.analysis.derivations import settle
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Block, BlockArgument, ConversionRewriter, Operation, TensorType, Value
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import encode, packed_layout, with_layout
from tileiras.layout.linear_layout import SHARED_DIMS

from .propagation import LayoutAssignment

if TYPE_CHECKING:
    from .operand_origins import Origins


class Rematerializable:
    """Placeholder for a result that is rematerialized when a use requests a layout."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


class Layouts:
    """The state shared by the patterns of this lowering; they read tensor operands with `as_layout`."""

    def __init__(self, assignment: LayoutAssignment, rewriter: ConversionRewriter) -> None:
        self.assignment = assignment
        self.rewriter = rewriter
        self._origins: Origins | None = None
        self._made: dict[tuple[Value, LinearLayout], Value] = {}

    @staticmethod
    def typed(type: TensorType, layout: LinearLayout) -> TensorType:
        return with_layout(type, layout)

    def as_layout(self, old: Value, layout: LinearLayout) -> Value:
        """The converted value of `old` in `layout`; scalars pass through.

        A conversion is placed right after the definition, a rematerialized value at its definition, so that either
        dominates every use and stays outside the loops that use it.
        """
        if not isinstance(old.type, TensorType):
            return self.rewriter.value(old)
        return settle((old, layout), self._made, None, self._needs, self._make)

    def as_operand(self, old: Value, layout: LinearLayout) -> Value:
        """The converted value of an operand of a dot, which reads it in `layout`.

        A tile that shared memory has with another contiguous dimension than the one it is loaded with goes through
        registers from where it is stored without bank conflicts.
        """
        if isinstance(old.defining_op, tileas.UnpackOp):
            return self._unpack(old.defining_op, layout)
        between = self._transposing(old, layout)
        if between is None:
            return self.as_layout(old, layout)
        operand = self._made.get((old, layout))
        if operand is None:
            operand = self._made[old, layout] = self._convert(self.as_layout(old, between), old, layout)
        return operand

    def _unpack(self, op: tileas.UnpackOp, layout: LinearLayout) -> Value:
        """The elements that bytes in shared memory hold."""
        result = self._made.get((op.result, layout))
        if result is None:
            dim = op.dim.value
            packed = self.as_operand(op.operand, packed_layout(layout, dim))
            new = tileas.UnpackOp(packed, dim=op.dim, result=with_layout(op.result.type, layout), location=op.location)
            block, before = _after(packed)
            block.insert_before(new, before)
            result = self._made[op.result, layout] = new.results[0]
        return result

    def _transposing(self, old: Value, layout: LinearLayout) -> LinearLayout | None:
        if layout.dims != SHARED_DIMS or len(layout.shape) != 2:
            return None
        if self._origins is None:
            self._origins = tileiras.assignment.operand_origins.Origins(lambda: self.assignment.memory)
        origin, current = self._origins.of(old), self.assignment.layout(old)
        if origin is None or current is None or layout.coordinates(layout.bases("offset")[0])[origin.axis]:
            return None
        return tileiras.layout.transposing.transposing_layout(
            origin.axis, layout, old.type.element_type.width, current.warps
        )

    def concrete(self, old: Value) -> Value:
        """The converted value of `old` in the layout that it has, or would have."""
        if not isinstance(old.type, TensorType):
            return self.rewriter.value(old)
        return self.as_layout(old, self.assignment.concrete(old))

    def _needs(self, key: tuple[Value, LinearLayout]) -> Sequence[tuple[Value, LinearLayout]]:
        """The operands of a rematerialized tile, each in the layout that the tile's layout requires."""
        old, layout = key
        if not isinstance(self.rewriter.value(old), Rematerializable):
            return ()
        if layout.dims == SHARED_DIMS:
            return ((old, self.assignment.concrete(old)),)  # from registers it goes to shared memory
        op: Any = old.defining_op
        if isinstance(op, aa.BroadcastOp):
            layout = layout.shrink(op.operand.type.shape)
        elif isinstance(op, aa.ViewOp):
            layout = layout.reshape(op.operand.type.shape)
        elif isinstance(op, aa.PermuteOp):
            layout = layout.unpermute(op.permutation.elements)
        return [(operand, layout) for operand in op.operands if isinstance(operand.type, TensorType)]

    def _make(self, key: tuple[Value, LinearLayout], needs: Sequence[tuple[Value, LinearLayout]]) -> Value:
        old, layout = key
        new = self.rewriter.value(old)
        if isinstance(new, Rematerializable):
            if layout.dims != SHARED_DIMS:
                return self._rematerialize(old.defining_op, layout, iter(needs))
            new = self._made[needs[0]]
        if new.type.encoding is encode(layout):
            return new
        return self._convert(new, old, layout)

    @staticmethod
    def _convert(new: Value, old: Value, layout: LinearLayout) -> Value:
        """A value in another layout, right after its definition."""
        block, before = _after(new)
        convert = tileas.ConvertLayoutOp.create((new,), (with_layout(new.type, layout),))
        convert.location = new.defining_op.location if new.defining_op is not None else old.location  # type: ignore[union-attr]
        block.insert_before(convert, before)
        return convert.results[0]

    def _rematerialize(
        self, op: Operation, layout: LinearLayout, tiles: Iterator[tuple[Value, LinearLayout]]
    ) -> Value:
        """Rematerialize an operation of `tiles` with its result in `layout`."""
        rewriter = self.rewriter
        type = with_layout(op.results[0].type, layout)
        operands = [
            self._made[next(tiles)] if isinstance(operand.type, TensorType) else rewriter.value(operand)
            for operand in op.operands
        ]
        new = op.__class__.create(operands, (type,), dict(op.attributes), location=op.location)
        with rewriter.at(op.parent, op):
            rewriter.insert(new)
        return new.results[0]


def _after(value: Value) -> tuple[Block, Operation | None]:
    if isinstance(value, BlockArgument):
        return value.block, value.block.first
    op = value.defining_op
    assert op is not None and op.parent is not None
    return op.parent, op.next


def plain(op: Operation, args: tuple, rewriter: ConversionRewriter) -> Any:
    """An operation whose layout follows the rules of the assignment and whose operands share the result's layout.

    Covers element-wise operations of every dialect, and everything on scalars.
    """
    layouts: Layouts = rewriter.data
    if any(isinstance(result.type, TensorType) for result in op.results):
        layout = layouts.assignment.layout(op.results[0])
        if layout is None:
            return [Rematerializable(result) for result in op.results]
        operands = [layouts.as_layout(operand, layout) for operand in op.operands]
        types = [with_layout(result.type, layout) for result in op.results]
    else:
        operands = [layouts.concrete(operand) for operand in op.operands]
        types = [result.type for result in op.results]
    return rewriter.insert(type(op).create(operands, types, dict(op.attributes)))


def constant(op: arith.ConstantOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    if isinstance(op.result.type, TensorType):
        return [Rematerializable(op.result)]
    return rewriter.insert(arith.ConstantOp.create((), (op.result.type,), dict(op.attributes)))

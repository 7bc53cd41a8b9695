"""Loops and branches: carried tensors keep one layout through all iterations and branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects import scf
from tileiras.ir import ConversionRewriter, TensorType, Value
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import with_layout


def _layouts_of(values: Sequence[Value], rewriter: ConversionRewriter) -> list[LinearLayout | None]:
    assignment = rewriter.data.assignment
    return [assignment.concrete(v) if isinstance(v.type, TensorType) else None for v in values]


def _types(values: Sequence[Value], layouts: list[LinearLayout | None]) -> list[Any]:
    return [v.type if layout is None else with_layout(v.type, layout) for v, layout in zip(values, layouts)]


def _read(values: Sequence[Value], layouts: list[LinearLayout | None], rewriter: ConversionRewriter) -> list[Value]:
    as_layout = rewriter.data.as_layout
    return [rewriter.value(v) if layout is None else as_layout(v, layout) for v, layout in zip(values, layouts)]


def convert_for(op: scf.ForOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    carried = _layouts_of(op.results, rewriter)
    types = _types(op.results, carried)
    initial = _read(op.init_args, carried, rewriter)
    body = rewriter.convert_region(op.body, [op.induction_variable.type, *types])
    return rewriter.insert(scf.ForOp.create([*args[:3], *initial], types, dict(op.attributes), (body,)))


def convert_if(op: scf.IfOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    types = _types(op.results, _layouts_of(op.results, rewriter))
    then_region = rewriter.convert_region(op.then_region)
    else_region = rewriter.convert_region(op.else_region)
    return rewriter.insert(scf.IfOp.create(args, types, dict(op.attributes), (then_region, else_region)))


def convert_while(op: scf.WhileOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    before_arguments = op.before.block.arguments
    after_arguments = op.after.block.arguments
    carried = _layouts_of(before_arguments, rewriter)
    initial = _read(op.inits, carried, rewriter)
    before_types = _types(before_arguments, carried)
    after_types = _types(after_arguments, _layouts_of(after_arguments, rewriter))
    types = _types(op.results, _layouts_of(op.results, rewriter))
    # The yield in "after" asks for the arguments of "before", which must still be there.
    after = rewriter.convert_region(op.after, after_types)
    before = rewriter.convert_region(op.before, before_types)
    return rewriter.insert(scf.WhileOp.create(initial, types, dict(op.attributes), (before, after)))


def convert_yield(op: scf.YieldOp, args: tuple, rewriter: ConversionRewriter) -> None:
    parent = op.parent_op
    targets = parent.before.block.arguments if isinstance(parent, scf.WhileOp) else parent.results
    values = _read(op.operands, _layouts_of(targets, rewriter), rewriter)
    rewriter.insert(scf.YieldOp.create(values))


def convert_condition(op: scf.ConditionOp, args: tuple, rewriter: ConversionRewriter) -> None:
    values = _read(op.args, _layouts_of(op.parent_op.results, rewriter), rewriter)
    rewriter.insert(scf.ConditionOp.create([args[0], *values]))


PATTERNS = {
    scf.ForOp: convert_for,
    scf.IfOp: convert_if,
    scf.WhileOp: convert_while,
    scf.YieldOp: convert_yield,
    scf.ConditionOp: convert_condition,
}

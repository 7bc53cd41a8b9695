"""Gives every tile of a function of nv_tileas an encoding."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tileiras.analysis.alias import data_of
from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import CompileError, Diagnostic, DiagnosticEngine
from tileiras.dialects import arith, math
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import ConversionRewriter, ConversionTarget, Operation, TensorType, TypeConverter, apply_conversion
from tileiras.ir.pass_manager import PassContext
from tileiras.layout.encoding import layout_of, with_layout
from tileiras.resources.limits import MOST_ELEMENTS, threads_of
from tileiras.resources.live_values import register_tile

from . import control_flow, tensor
from .anchors import FAILURE
from .layouts import Layouts, constant, plain
from .propagation import LayoutAssignment, access_layout, operand_layouts

if TYPE_CHECKING:
    from tileiras.targets import Target


class RemoveLayoutConversions(FunctionPass):
    name = "tileas-remove-layout-conversions"
    requires = "ATOMS"
    leaves = "LAYOUTS"
    needs = "atoms, and the layouts of dots and accesses"
    establishes = "an encoding on every tile, `convert_layout` where layouts meet"
    keeps = "values, token order, locations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        put_into_layouts(func, context)


def put_into_layouts(func: aa.FuncOp, context: PassContext) -> None:
    """Put every tile into the layout that follows from those of dots and accesses, in place.

    Raises CompileError (code 5), located, for operations without a layout rule, for functions in which some tiles have
    encodings already, for tiles as parameters, whose layout only a caller knows, and for tiles of which a thread has
    too many elements.
    """
    for argument in func.body.blocks[0].arguments:
        if isinstance(argument.type, TensorType) and argument.type.encoding is None and argument.users:
            raise CompileError.at(func.location, f"{FAILURE}: a parameter is a tile without a layout, {argument.type}")
    if not _lacks_encodings(func):
        return
    assignment = LayoutAssignment.of(func, context)
    conversion_target = ConversionTarget([], {cls: lambda op: True for cls in (aa.ReturnOp, aa.GlobalOp)})
    apply_conversion(
        func,
        _patterns(),
        conversion_target,
        TypeConverter({}),
        make_data=lambda rewriter: Layouts(assignment, rewriter),
        failure=FAILURE,
        engine=context.engine,
    )
    _check_shares(func)


def _check_shares(func: aa.FuncOp) -> None:
    """Raise CompileError for a tile that has not been sliced, and whose share is too large for a thread."""
    for op in func.walk():
        for value in op.results:
            if register_tile(value) is None:
                continue
            elements = layout_of(value.type).registers
            if elements > MOST_ELEMENTS:
                shape = "x".join(map(str, value.type.shape))
                text = f"the {shape} tile leaves each of {threads_of(func)} threads {elements} elements"
                limit = f"at most {MOST_ELEMENTS} are compiled where a tile cannot be cut into slices"
                raise CompileError.at(op.location, text, notes=[Diagnostic.note(None, limit)])


def _lacks_encodings(func: aa.FuncOp) -> bool:
    """Whether tiles of a function lack an encoding.  Raises CompileError where others have one."""
    having = lacking = None
    for op in func.walk():
        for value in op.results:
            if isinstance(value.type, TensorType):
                having, lacking = (having, op) if value.type.encoding is None else (op, lacking)
    if having is not None and lacking is not None:
        engine = DiagnosticEngine()
        engine.error(having.location, f"failed to legalize operation '{having.name}'")
        engine.error(having.location, FAILURE)
        engine.raise_if_errors()
    return lacking is not None


def convert_dot(op: tileas.Dot, args: tuple, rewriter: ConversionRewriter) -> Operation:
    """Convert operands to the layouts that the atom requires."""
    layouts: Layouts = rewriter.data
    targets = operand_layouts(op)
    operands = [layouts.as_operand(value, layout) for value, layout in zip(op.operands, targets)]
    attributes = {name: value for name, value in op.attributes.items() if name != "operand_layouts"}
    return rewriter.insert(type(op).create(operands, (with_layout(op.result.type, targets[2]),), attributes))


def convert_access(op: Operation, args: tuple, rewriter: ConversionRewriter) -> Operation:
    """Loads, stores and atomics, through views or through pointers."""
    layouts: Layouts = rewriter.data
    if isinstance(data_of(op).type, TensorType):
        layout = access_layout(op)
        assert layout is not None
        operands = [layouts.as_layout(operand, layout) for operand in op.operands]
        types = [with_layout(r.type, layout) if isinstance(r.type, TensorType) else r.type for r in op.results]
    else:
        operands = [layouts.concrete(operand) for operand in op.operands]
        types = [result.type for result in op.results]
    attributes = {name: value for name, value in op.attributes.items() if name != "layout"}
    return rewriter.insert(type(op).create(operands, types, attributes))


ACCESSES = (
    tileas.TiledLoadOp,
    tileas.TiledStoreOp,
    tileas.TiledAtomicRMWOp,
    tileas.LoadOp,
    tileas.StoreOp,
    tileas.AtomicRMWOp,
    tileas.AtomicCASOp,
)


def _patterns() -> dict[type[Operation], Any]:
    table: dict[type[Operation], Any] = {op: plain for op in tileas.COUNTERPARTS.values()}
    for dialect in (arith, math):
        table.update({op: plain for op in vars(dialect).values() if isinstance(op, type) and issubclass(op, Operation)})
    table[arith.ConstantOp] = constant
    table.update(tensor.PATTERNS)
    table.update(control_flow.PATTERNS)
    table.update(dict.fromkeys(tileas.DOTS, convert_dot))
    table.update(dict.fromkeys(ACCESSES, convert_access))
    debuginfo = sys.modules.get("tileiras.dialects.debuginfo")
    if debuginfo is not None:
        # Only loaded dialects can have operations in a module.
        table.update(dict.fromkeys((debuginfo.ValueOp, debuginfo.AddrOp, debuginfo.DeclareOp), plain))
    return table

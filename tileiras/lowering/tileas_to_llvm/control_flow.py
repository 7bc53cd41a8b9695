"""scf to blocks: carried values become block arguments; tokens and views have no value and pass by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects import llvm, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Block, Value

from .function import FunctionLowering, has_no_value
from .types import fragment_type


def _values(old: Sequence[Value], lowering: FunctionLowering) -> list[Value]:
    return [lowering.value(v) for v in old if not has_no_value(v.type)]


def _bind(old: Sequence[Value], new: Sequence[Value], lowering: FunctionLowering) -> None:
    """Gives the values among `old` that have one their LLVM values, in order."""
    held = [v for v in old if not has_no_value(v.type)]
    lowering.values.update(zip(held, new))


def _branch(target: Block, values: Sequence[Value], lowering: FunctionLowering) -> None:
    lowering.emit.insert(llvm.BrOp(list(values), dest=target))


def _conditional(condition: Value, yes: Block, no: Block, lowering: FunctionLowering) -> None:
    lowering.emit.insert(llvm.CondBrOp(condition, [], [], trueDest=yes, falseDest=no))


def _body(block: Block, lowering: FunctionLowering) -> Any:
    """Lowers a region's block but for its terminator, which is returned."""
    with lowering.emit.region():
        for op in block.operations:
            if op is block.last:
                return op
            lowering.operation(op)
    return None


def lower_for(op: Any, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    """A loop that tests before each iteration: header (induction variable, carried values), body, exit."""
    emit = lowering.emit
    lower, upper, step = args[:3]
    initial = [a for a in args[3:] if a is not None]
    types = [v.type for v in initial]
    lowering.synchronization.before_loop(op)
    header = lowering.new_block([lower.type, *types])
    body, done = lowering.new_block(), lowering.new_block()
    _branch(header, [lower, *initial], lowering)
    emit.block = header
    counter, *carried = header.arguments
    _conditional(emit.icmp("ult" if op.unsignedCmp is not None else "slt", counter, upper), body, done, lowering)
    emit.block = body
    lowering.values[op.induction_variable] = counter
    _bind(op.iter_args, carried, lowering)
    lowering.synchronization.enter_loop(op)
    short, outer = tileas.SHORT_OF_REGISTERS in op.attributes, lowering.turn
    if short:
        lowering.turn = counter
    end = _body(op.body.block, lowering)
    lowering.turn = outer
    emit.location = op.location
    following = emit.insert(llvm.AddOp(counter, step))
    annotation = llvm.LoopAnnotationAttr(True) if tileas.NO_UNROLL in op.attributes else None
    back = llvm.BrOp([following, *_values(end.operands, lowering)], dest=header, loop_annotation=annotation)
    emit.insert(back)
    lowering.synchronization.leave_loop()
    emit.block = done
    if short:
        lowering.leave_short_loop(counter)
    _bind(op.results, carried, lowering)
    return [lowering.values.get(r) for r in op.results]


def lower_if(op: Any, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    emit = lowering.emit
    synchronization = lowering.synchronization
    has_else = bool(op.else_region.blocks)
    then_block = lowering.new_block()
    else_block = lowering.new_block() if has_else else None
    types = [fragment_type(r.type) for r in op.results if not has_no_value(r.type)]
    join = lowering.new_block(types)
    _conditional(args[0], then_block, else_block or join, lowering)
    before = synchronization.branch_state()
    ends = []
    for region, block in ((op.then_region, then_block), (op.else_region, else_block)):
        synchronization.restore(before)
        if block is not None:
            emit.block = block
            end = _body(region.blocks[0], lowering)
            emit.location = op.location
            _branch(join, _values(end.operands, lowering), lowering)
        ends.append(synchronization.branch_state())
    synchronization.join(before, ends)
    emit.block = join
    _bind(op.results, join.arguments, lowering)
    return [lowering.values.get(r) for r in op.results]


def lower_while(op: Any, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    emit = lowering.emit
    initial = [a for a in args if a is not None]
    lowering.synchronization.before_loop(op)
    header = lowering.new_block([v.type for v in initial])
    body, done = lowering.new_block(), lowering.new_block()
    _branch(header, initial, lowering)
    lowering.synchronization.enter_loop(op)
    emit.block = header
    _bind(op.before.block.arguments, header.arguments, lowering)
    end = _body(op.before.block, lowering)
    passed = _values(end.args, lowering)
    emit.location = op.location
    lowering.synchronization.leave_condition()
    _conditional(lowering.value(end.condition), body, done, lowering)
    emit.block = body
    _bind(op.after.block.arguments, passed, lowering)
    end = _body(op.after.block, lowering)
    emit.location = op.location
    _branch(header, _values(end.operands, lowering), lowering)
    lowering.synchronization.leave_loop()
    emit.block = done
    _bind(op.results, passed, lowering)
    return [lowering.values.get(r) for r in op.results]


def lower_return(op: Any, args: Sequence[Any], lowering: FunctionLowering) -> None:
    lowering.emit.insert(llvm.ReturnOp())


PATTERNS: dict[type, Any] = {
    scf.ForOp: lower_for,
    scf.IfOp: lower_if,
    scf.WhileOp: lower_while,
    aa.ReturnOp: lower_return,
}

"""scf to blocks: carried values become block arguments; tokens and views have no value and pass by.

On a machine that computes with pairs of f32, LLVM has one 64-bit register hold two elements of 32 bits of a vector that
blocks hand on.  A matrix instruction takes four registers in a row, and ptxas does not make two pairs that go around a
loop one of these: it copies them in every iteration, and runs out of registers.  There each element is an argument of
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tileiras
from tileiras.analysis.one_thread import is_done_by_one_thread
from tileiras.dialects import llvm, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.thread import THREAD
from tileiras.ir import Block, DenseArrayAttr, Type, Value, i32

from .function import FunctionLowering
from .kernel_signature import has_no_value
from .types import bit_width, count_of, element_of, fragment_type

LIKELY = 2000
"""The weight of a likely branch to 1 of the other, as LLVM has it for `llvm.expect`."""


def _parts(type: Type, lowering: FunctionLowering) -> list[Any]:
    """The types of the block arguments that carry a value of an LLVM type."""
    element = element_of(type)
    apart = lowering.target.has("packed_f32") and bit_width(element) == 32
    return [element] * count_of(type) if apart else [type]


def handed_on(values: Sequence[Value], lowering: FunctionLowering) -> list[Value]:
    """LLVM values as blocks hand them on."""
    result: list[Value] = []
    for value in values:
        count = len(_parts(value.type, lowering))
        result += [value] if count == 1 else [lowering.emit.extract(value, i) for i in range(count)]
    return result


def _values(old: Sequence[Value], lowering: FunctionLowering) -> list[Value]:
    """The block arguments' values for those among `old` that have an LLVM value."""
    return handed_on([lowering.value(v) for v in old if not has_no_value(v.type)], lowering)


def _bind(old: Sequence[Value], new: Sequence[Value], lowering: FunctionLowering) -> None:
    """Give the values among `old` that have one their LLVM values, in order, from the block arguments."""
    parts_left = iter(new)
    for value in old:
        if not has_no_value(value.type):
            parts = _parts(fragment_type(value.type), lowering)
            lowering.values[value] = lowering.emit.build([next(parts_left) for _ in parts])


def _branch(target: Block, values: Sequence[Value], lowering: FunctionLowering) -> None:
    lowering.emit.insert(llvm.BrOp(list(values), dest=target))


def _conditional(condition: Value, yes: Block, no: Block, lowering: FunctionLowering) -> None:
    lowering.emit.insert(llvm.CondBrOp(condition, [], [], trueDest=yes, falseDest=no))


def unless(condition: Value, value: Value, other: Callable[[], Value], lowering: FunctionLowering) -> Value:
    """`value` where the condition holds, else the result of `other()`, which is emitted in a separate block."""
    emit = lowering.emit
    parts = handed_on([value], lowering)
    before = emit.block
    apart = lowering.new_block()
    join = lowering.new_block([part.type for part in parts], before)
    # LLVM would otherwise execute both sides and select.
    weights = DenseArrayAttr(i32, (LIKELY, 1))
    emit.insert(llvm.CondBrOp(condition, list(parts), [], trueDest=join, falseDest=apart, branch_weights=weights))
    emit.block = apart
    emit.insert(llvm.BrOp(handed_on([other()], lowering), dest=join))
    emit.block = join
    return emit.build(join.arguments) if len(parts) > 1 else join.arguments[0]


def _body(block: Block, lowering: FunctionLowering) -> Any:
    """Lower a region's block but for its terminator, which is returned."""
    with lowering.emit.region():
        for op in block.operations:
            if op is block.last:
                return op
            lowering.operation(op)
    return None


def for_(op: scf.ForOp, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    """A loop that tests before each iteration: header (induction variable, carried values), body, exit.  Where one
    thread has all that is to be done in it, the others go to the exit."""
    carried = [a for a in args[3:] if a is not None]
    if lowering.is_one_thread or not is_done_by_one_thread(op):
        behind = _loop(op, args[:3], handed_on(carried, lowering), lowering)
    else:
        initial = handed_on(carried, lowering)
        join = lowering.new_block([v.type for v in initial])
        _branch_of_others(join, initial, lowering)
        with lowering.one_thread():
            _branch(join, _loop(op, args[:3], initial, lowering), lowering)
        lowering.emit.block = join
        behind = join.arguments
    _bind(op.iter_args, behind, lowering)
    return [lowering.values.get(v) for v in op.iter_args]


def _branch_of_others(join: Block, initial: Sequence[Value], lowering: FunctionLowering) -> None:
    """Branches all threads but one, which continues in a new block, to the exit, with the initial values of a loop."""
    emit = lowering.emit
    first = tileiras.lowering.tileas_to_llvm.pipes.agents.in_first_warp(lowering)
    for condition in (first, emit.insert(THREAD["elect"]())):
        if condition is not None:
            alone = lowering.new_block()
            emit.insert(llvm.CondBrOp(condition, [], list(initial), trueDest=alone, falseDest=join))
            emit.block = alone


def _loop(op: scf.ForOp, bounds: Sequence[Any], initial: list[Value], lowering: FunctionLowering) -> Sequence[Value]:
    """Emit the blocks of a loop, up to the one after it; return the values that it carries there."""
    emit = lowering.emit
    lower, upper, step = bounds
    header = lowering.new_block([lower.type, *(v.type for v in initial)])
    body, exit_block = lowering.new_block(), lowering.new_block()
    _branch(header, [lower, *initial], lowering)
    emit.block = header
    counter, *carried = header.arguments
    _bind(op.iter_args, carried, lowering)
    _conditional(emit.icmp("ult" if op.unsignedCmp is not None else "slt", counter, upper), body, exit_block, lowering)
    emit.block = body
    lowering.values[op.induction_variable] = counter
    lowering.counters.append(counter)
    end = _body(op.body.block, lowering)
    lowering.counters.pop()
    emit.location = op.location
    following = emit.insert(llvm.AddOp(counter, step))
    annotation = llvm.LoopAnnotationAttr(True) if tileas.NO_UNROLL in op.attributes else None
    back = llvm.BrOp([following, *_values(end.operands, lowering)], dest=header, loop_annotation=annotation)
    emit.insert(back)
    emit.block = exit_block
    if tileas.REMATERIALIZE_BEHIND in op.attributes and not lowering.is_one_thread:
        lowering.rematerialize_behind(counter)
    return carried


def if_(op: scf.IfOp, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    emit = lowering.emit
    if tileas.PREDICATED in op.attributes:
        lowering.copies_exist = args[0]
        _body(op.then_region.blocks[0], lowering)
        lowering.copies_exist = None
        return []
    has_else = bool(op.else_region.blocks)
    then_block = lowering.new_block()
    else_block = lowering.new_block() if has_else else None
    types = [fragment_type(r.type) for r in op.results if not has_no_value(r.type)]
    join = lowering.new_block([part for type in types for part in _parts(type, lowering)])
    _conditional(args[0], then_block, else_block or join, lowering)
    for region, block in ((op.then_region, then_block), (op.else_region, else_block)):
        if block is not None:
            emit.block = block
            end = _body(region.blocks[0], lowering)
            emit.location = op.location
            _branch(join, _values(end.operands, lowering), lowering)
    emit.block = join
    _bind(op.results, join.arguments, lowering)
    return [lowering.values.get(r) for r in op.results]


def while_(op: scf.WhileOp, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    emit = lowering.emit
    initial = handed_on([a for a in args if a is not None], lowering)
    header = lowering.new_block([v.type for v in initial])
    body, exit_block = lowering.new_block(), lowering.new_block()
    _branch(header, initial, lowering)
    emit.block = header
    _bind(op.before.block.arguments, header.arguments, lowering)
    end = _body(op.before.block, lowering)
    values = [lowering.values.get(v) for v in end.args]
    emit.location = op.location
    _conditional(lowering.value(end.condition), body, exit_block, lowering)
    emit.block = body
    lowering.values.update((v, p) for v, p in zip(op.after.block.arguments, values) if p is not None)
    end = _body(op.after.block, lowering)
    emit.location = op.location
    _branch(header, _values(end.operands, lowering), lowering)
    emit.block = exit_block
    return values


def return_(op: aa.ReturnOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    lowering.emit.insert(llvm.ReturnOp())

"""Spill small loop-carried tiles to shared memory across dots, where the tiles of a loop leave too few registers.

    %o, %m = for ... carrying %acc, %max:          %b = alloc_tensor;  store_tensor %init into %b[0]
      %s = dot ...                                 %o = for ... carrying %acc:
      %new = maxnumf %max, ...              ->       %s = dot ...
      yield %d, %new                                 %max = copy %b[0]
                                                     %new = maxnumf %max, ...
                                                     store_tensor %new into %b[0]
                                                     yield %d
                                                   %m = copy %b[0]

ptxas would spill some of them, to slower memory.  Each thread stores its own elements and loads them again: no barrier
is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.arith.build import integer
from tileiras.ir import Builder, FloatType, IntegerType, Operation, TensorType, Value
from tileiras.reasons import Reason
from tileiras.resources.registers import exceeds, words
from tileiras.resources.shared_memory import bytes_in_use, ring_bytes, shared_budget
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Target

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext


class Carried(NamedTuple):
    """Loop-carried value `index`: live from its first use, `first`, until its next value is stored after `last`."""

    index: int
    first: Operation
    last: Operation


class SpillLoopCarried(FunctionPass):
    name = "tileas-spill-loop-carried"
    optional = True
    schedules = True
    requires = "SCHEDULED"
    needs = "schedules, and buffers for operations that run ahead: only the remaining memory is used"
    establishes = "loop-carried tiles in buffers of shared memory, in loops marked short of registers"
    keeps = "values, token order"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        spill_loop_carried(func, gpu, context.engine)


def spill_loop_carried(func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None) -> None:
    """Rewrite the loops of a function of nv_tileas, in place, whose tiles leave too few registers (`exceeds`)."""
    for loop in [op for op in func.walk() if isinstance(op, scf.ForOp) and tileas.SHORT_OF_REGISTERS in op.attributes]:
        excess = exceeds(loop, func)
        if excess <= 0:
            continue
        budget = shared_budget(func, target)
        available = budget - ring_bytes(loop) - bytes_in_use(loop.body.block, budget)
        values: list[Carried] = []
        for carried in sorted(_waiting(loop), key=lambda c: words(loop.iter_args[c.index])):
            value = loop.iter_args[carried.index]
            available -= _buffer_type(value).stage_bytes
            if excess <= 0 or available < 0:
                break
            excess -= words(value)
            values.append(carried)
        if values:
            _keep(loop, values)
            if engine is not None:
                engine.emit(Remark(Reason("memory.carried-in-shared", tiles=len(values)), loop.location))


def _waiting(loop: scf.ForOp) -> list[Carried]:
    """The carried tiles that are not used while a dot of the loop's own block is computed."""
    block = loop.body.block
    dots = [op for op in block.operations if isinstance(op, tileas.DOTS)]
    result = []
    for index, (value, yielded) in enumerate(zip(loop.iter_args, loop.yield_op.operands)):
        source = yielded.defining_op
        type = value.type  # a value in flight belongs to a dot that is still executing
        if not isinstance(type, TensorType) or not isinstance(type.element_type, (FloatType, IntegerType)):
            continue
        if not words(value):
            continue
        users = [block.find_ancestor_op(user) for user in value.users]
        if source is None or source.parent is not block or not users or loop.yield_op in users:
            continue
        first, last = users[0], source
        for user in users:
            first = user if user.is_before_in_block(first) else first
            last = user if last.is_before_in_block(user) else last
        if any(op.is_before_in_block(first) or last.is_before_in_block(op) for op in dots):
            result.append(Carried(index, first, last))
    return result


def _buffer_type(value: Value) -> tileas.BufferType:
    return tileas.BufferType(1, value.type)


def _keep(loop: scf.ForOp, values: list[Carried]) -> None:
    before = Builder.before(loop)
    stage = integer(before, 0)
    buffers = []
    for index, first, last in values:
        value = loop.iter_args[index]
        buffer = before.insert(tileas.AllocTensorOp(result=_buffer_type(value))).results[0]
        before.insert(tileas.StoreTensorOp(loop.init_args[index], buffer, stage))
        again = Builder.before(first).insert(tileas.CopyOp(buffer, stage, result=value.type))
        Builder.after(last).insert(tileas.StoreTensorOp(loop.yield_op.operands[index], buffer, stage))
        value.replace_all_uses_with(again.results[0])
        buffers.append(buffer)
    after = Builder.after(loop)
    for (index, *_), buffer in zip(values, buffers):
        result = loop.results[index]
        if result.has_uses:
            result.replace_all_uses_with(after.insert(tileas.CopyOp(buffer, stage, result=result.type)).results[0])
    for buffer in reversed(buffers):
        after.insert(tileas.DeallocTensorOp(buffer))
    loop.without_carried({index for index, *_ in values})

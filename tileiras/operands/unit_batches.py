"""Dots of batches of one become dots of matrices.

    for ... carrying %c : tensor<1xMxNxf32>          for ... carrying %c : tensor<MxNxf32>
      %r = dot %a, %b, %c                      ->      %x, %y = view %a, view %b
                                                       %r = dot %x, %y, %c

wgmma and tcgen05.mma multiply matrices only.  A view renames elements and costs nothing; one around a loop lets the
accumulator stay where the dots of the loop have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Builder, DenseElementsAttr, TensorType, Value

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target

DOTS = (aa.DotOp, aa.BlockScaledMmaOp)


class FoldUnitBatches(FunctionPass):
    name = "tileas-fold-unit-batches"
    optional = True
    of_nv_tileaa = True
    needs = "`nv_tileaa` functions"
    establishes = "dots of batches of two or more, and of matrices"
    keeps = "values, other operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if any(type(op) in DOTS and op.result.type.shape[:-2] == (1,) for op in func.walk()):
            fold_unit_batches(func)


def fold_unit_batches(func: aa.FuncOp) -> None:
    """Make dots of batches of one dots of matrices, and the accumulators that loops carry from one to the next
    matrices, in place."""
    loops = []
    for op in list(func.walk()):
        if isinstance(op, DOTS) and _is_unit_batch(op.result.type):
            _fold_dot(op)
        elif isinstance(op, scf.ForOp):
            loops.append(op)
    # The results of an inner loop are views of matrices by the time the loop around it is rewritten.
    for loop in reversed(loops):
        _fold_carried(loop)


def _is_unit_batch(type: object) -> bool:
    return isinstance(type, TensorType) and type.rank == 3 and type.shape[0] == 1


def _matrix_type(type: TensorType) -> TensorType:
    return TensorType(type.shape[1:], type.element_type)


def _matrix(builder: Builder, value: Value) -> Value:
    """The only matrix of a batch of one."""
    op, type = value.defining_op, _matrix_type(value.type)
    if isinstance(op, aa.ViewOp) and op.operand.type is type:
        return op.operand
    if isinstance(op, arith.ConstantOp):
        return builder.insert(arith.ConstantOp(DenseElementsAttr(type, op.value.data, op.value.is_splat))).results[0]
    return builder.insert(aa.ViewOp(value, result=type)).results[0]


def _fold_dot(op: aa.Dot) -> None:
    builder = Builder.before(op)
    builder.location = op.location
    operands = [_matrix(builder, value) for value in op.operands]
    new = builder.insert(type(op).create(operands, (_matrix_type(op.result.type),), dict(op.attributes)))
    batch = builder.insert(aa.ViewOp(new.results[0], result=op.result.type)).results[0]
    op.replace_all_uses_with([batch])
    op.erase()


def _is_made_of_matrix(value: Value) -> bool:
    op = value.defining_op
    return isinstance(op, aa.ViewOp) and op.operand.type is _matrix_type(value.type)


def _is_wanted_as_matrix(value: Value) -> bool:
    """Whether only the matrix of a batch of one is used."""
    return all(isinstance(user, aa.ViewOp) and user.result.type is _matrix_type(value.type) for user in value.users)


def _fold_carried(loop: scf.ForOp) -> None:
    """Has a loop carry matrices instead of batches of one where its body uses and yields only their matrices."""
    carried, end = loop.iter_args, loop.yield_op
    numbers = [
        number
        for number, (argument, value) in enumerate(zip(carried, end.operands, strict=True))
        if _is_unit_batch(argument.type) and _is_made_of_matrix(value) and _is_wanted_as_matrix(argument)
    ]
    if not numbers:
        return
    before, inits, yielded = Builder.before(loop), list(loop.init_args), list(end.operands)
    before.location = loop.location
    views: list[Any] = [yielded[number].defining_op for number in numbers]
    for number, view in zip(numbers, views):
        inits[number], yielded[number] = _matrix(before, inits[number]), view.operand
        for user in list(carried[number].users):
            user.replace_all_uses_with([carried[number]])
            user.erase()
        carried[number].type = inits[number].type
    end.operands = yielded
    for view in views:
        if view.parent is not None and not view.result.has_uses:
            view.erase()
    batches = [result.type for result in loop.results]
    new = loop.with_carried(inits)
    behind = Builder.after(new)
    behind.location = loop.location
    for number in numbers:
        matrix = new.results[number]
        if users := list(matrix.users):
            batch = behind.insert(aa.ViewOp(matrix, result=batches[number])).results[0]
            matrix.replace_uses_in(batch, users)

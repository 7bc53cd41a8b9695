"""Addresses whose index has a part that is the same in all iterations.

    p = base + (invariant + varying) * size   ->   q = base + invariant * size;  p = q + varying * size

LLVM moves `q` before the loop, but does not take the sum apart by itself.  In the loop an addition of 64 bits, two
instructions, is gone, and a varying part of 32 bits makes `p` one wide multiply-add.

`q` takes two registers through the loop, where a base that is an argument took none and a part of 32 bits one: threads
that must do with 64 registers would spill them.
"""

from __future__ import annotations

from tileiras.dialects import llvm
from tileiras.dialects.llvm.memory import DYNAMIC_INDEX
from tileiras.ir import Builder, Operation, Value

from .loops import Loops


def rewrite(op: Operation, loops: Loops) -> bool:
    assert isinstance(op, llvm.GEPOp)
    if not loops.contain(op) or len(op.operands) != 2 or tuple(op.rawConstantIndices) != (DYNAMIC_INDEX,):
        return False
    base, index = op.operands
    if not loops.is_invariant(base, op) or loops.is_invariant(index, op):
        return False
    parts = _split(index, op, loops)
    if parts is None:
        return False
    invariant, varying = parts
    make = Builder.before(op)
    # The sum of base and one part may be outside of the object: neither address is inbounds.
    pointer = make.insert(llvm.GEPOp.at(base, (invariant,), op.elem_type, inbounds=False, res=op.res.type))
    address = make.insert(llvm.GEPOp.at(pointer.res, (varying,), op.elem_type, inbounds=False, res=op.res.type))
    op.replace_all_uses_with(address.results)
    op.erase()
    return True


def _split(index: Value, at: Operation, loops: Loops) -> tuple[Value, Value] | None:
    """The invariant part of a sum and the rest, perhaps of a sum that is shifted."""
    maker = index.defining_op
    if maker is None or not index.has_one_use:
        return None
    if isinstance(maker, llvm.AddOp):
        for part, rest in (maker.operands, reversed(maker.operands)):
            if loops.is_invariant(part, at):
                return part, rest
        for part, rest in (maker.operands, reversed(maker.operands)):
            inner = _split(part, at, loops)
            if inner is not None:
                return inner[0], _insert(llvm.AddOp, (inner[1], rest), at)
    elif isinstance(maker, llvm.ShlOp) and loops.is_invariant(maker.operands[1], at):
        inner = _split(maker.operands[0], at, loops)
        if inner is not None:
            return _insert(llvm.ShlOp, (inner[0], maker.operands[1]), at), _insert(
                llvm.ShlOp, (inner[1], maker.operands[1]), at
            )
    return None


def _insert(cls: type[Operation], operands: tuple[Value, ...], at: Operation) -> Value:
    return Builder.before(at).insert(cls.create(operands, (operands[0].type,))).results[0]

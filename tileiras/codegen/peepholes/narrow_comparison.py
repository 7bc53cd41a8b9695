"""Comparisons of a vector of extended integers with a scalar.

    icmp (extend x), splat(extend n)   ->   icmp x, splat(n)

LLVM narrows comparisons of two extended vectors, but does not see that a vector of one extended scalar is one.  A
comparison of 64 bits is two instructions, and a third for the high half of `x`.
"""

from __future__ import annotations

from tileiras.dialects import llvm
from tileiras.ir import Builder, Operation, Value, VectorType
from tileiras.support.named_tuple import NamedTuple

from .loops import Loops


class _Source(NamedTuple):
    """An extension, and the operation that puts its scalar result into a vector, which a splat repeats."""

    extension: Operation
    lane: llvm.InsertElementOp | None
    splat: llvm.ShuffleVectorOp | None

    @property
    def kind(self) -> tuple[type[Operation], object]:
        type_ = self.extension.operands[0].type
        return type(self.extension), type_.element_type if isinstance(type_, VectorType) else type_


def rewrite(op: Operation, loops: Loops) -> bool:
    assert isinstance(op, llvm.ICmpOp)
    if not isinstance(op.operands[0].type, VectorType):
        return False
    sources = [source for value in op.operands if (source := _source(value)) is not None]
    if len(sources) != 2 or sources[0].kind != sources[1].kind:
        return False
    # Extended by zeros, numbers are not negative; a signed comparison of the narrow ones would see negative ones.
    if isinstance(sources[0].extension, llvm.ZExtOp) and op.predicate.value.startswith("s"):
        return False
    result = llvm.ICmpOp.create(
        tuple(_narrow(source, op) for source in sources), (op.results[0].type,), dict(op.attributes)
    )
    op.replace_all_uses_with(Builder.before(op).insert(result).results)
    op.erase()
    return True


def _source(value: Value) -> _Source | None:
    maker = value.defining_op
    lane = splat = None
    if isinstance(maker, llvm.ShuffleVectorOp) and not any(maker.mask):
        splat, lane = maker, maker.operands[0].defining_op
        if not isinstance(lane, llvm.InsertElementOp):
            return None
        maker = lane.value.defining_op
    return _Source(maker, lane, splat) if isinstance(maker, (llvm.SExtOp, llvm.ZExtOp)) else None


def _narrow(source: _Source, at: Operation) -> Value:
    value = source.extension.operands[0]
    if source.lane is None or source.splat is None:
        return value
    make = Builder.before(at)
    one = VectorType(source.lane.vector.type.shape, value.type)
    all_ = VectorType(source.splat.res.type.shape, value.type)
    poison = make.insert(llvm.PoisonOp.create((), (one,))).results[0]
    lane = make.insert(llvm.InsertElementOp.create((poison, value, source.lane.position), (one,))).results[0]
    mask = {"mask": source.splat.mask}
    return make.insert(llvm.ShuffleVectorOp.create((lane, poison), (all_,), mask)).results[0]

"""Which operations round, and which combiners give the same result in every order."""

from __future__ import annotations

from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Block, FloatType, Operation, Value, element_type_of

ROUNDED = (aa.AddFOp, aa.SubFOp, aa.MulFOp, aa.DivFOp, aa.FmaOp)
"""Operations whose results depend on the order in which a loop, a reduction or a scan takes them."""

_ORDERLESS = (
    arith.AddIOp, arith.MulIOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp,
    arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp,
    arith.MinNumFOp, arith.MaxNumFOp, arith.MinimumFOp, arith.MaximumFOp,
)  # fmt: skip
"""Combiners that are associative and commutative, bit by bit (of NaNs, PTX has one: min and max give no other)."""

ORDERLESS_UPDATES = ("and", "or", "xor", "add", "max", "min", "umax", "umin")
"""Atomic updates, one of which leaves the same memory in every order."""


def is_orderless(combiner: Block) -> bool:
    """Whether every order of a reduction's elements gives the same result."""
    inner = list(combiner.operations)[:-1]
    return all(isinstance(op, _ORDERLESS) and _combines_its_own(op, combiner) for op in inner) and bool(inner)


def _combines_its_own(op: Operation, combiner: Block) -> bool:
    """Whether an operation combines the two values of one input, and gives the new one."""
    count = len(combiner.arguments) // 2
    pairs = [{combiner.arguments[n], combiner.arguments[n + count]} for n in range(count)]
    operands = set(op.operands)
    return operands in pairs and combiner.last.operands[pairs.index(operands)] is op.results[0]


def is_float(value: Value) -> bool:
    return isinstance(element_type_of(value.type), FloatType)


def carried_operations(loop: Operation, result: Value, argument: Value) -> set[Operation]:
    """The operations of a loop's body by which what it hands on to the next iteration follows from what it was handed
    itself."""
    inside = {op for op in loop.walk() if op is not loop}
    known: dict[Value, bool] = {argument: True}
    found: set[Operation] = set()

    def follows(value: Value) -> bool:
        if value not in known:
            known[value] = False  # of what it follows from around an inner loop
            known[value] = any([follows(each) for each in _sources(value, inside)])
            op = value.defining_op
            if known[value] and op is not None and not op.regions:
                found.add(op)
        return known[value]

    follows(result)
    return found


def _sources(value: Value, inside: set[Operation]) -> list[Value]:
    from tileiras.analysis.incoming import incoming

    handed_on = incoming(value)
    if handed_on is not None:
        owner = value.defining_op or value.block.parent_op  # type: ignore[attr-defined]
        return [each.value for each in handed_on] if owner in inside else []
    op = value.defining_op
    if op is None or op not in inside:
        return []
    return list(op.operands)

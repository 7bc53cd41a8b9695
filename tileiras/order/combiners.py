"""Operations that round, and combiners whose result is independent of the order of the elements."""

from __future__ import annotations

from tileiras.analysis.derivations import settle
from tileiras.analysis.incoming import incoming
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Block, FloatType, Operation, Value, element_type_of

ROUNDED = (aa.AddFOp, aa.SubFOp, aa.MulFOp, aa.DivFOp, aa.FmaOp)
"""Operations that make the result of a loop, reduction or scan depend on its order."""

_ORDERLESS = (
    arith.AddIOp, arith.MulIOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp,
    arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp,
    arith.MinNumFOp, arith.MaxNumFOp, arith.MinimumFOp, arith.MaximumFOp,
)  # fmt: skip
"""Associative and commutative combiners.  PTX min and max order -0 below +0 and return the canonical NaN (PTX ISA,
"min"), so both are bitwise independent of the order."""

ORDERLESS_UPDATES = ("and", "or", "xor", "add", "max", "min", "umax", "umin")
"""Atomic updates that leave the same memory in every order, as long as only one kind updates an element."""


def is_orderless(combiner: Block) -> bool:
    """Whether a reduction or scan gives the same result in every order."""
    inner = list(combiner.operations)[:-1]
    return bool(inner) and all(isinstance(op, _ORDERLESS) and _combines_one_input(op, combiner) for op in inner)


def _combines_one_input(op: Operation, combiner: Block) -> bool:
    """Whether an operation combines both values of one input and yields the result for that input."""
    count = len(combiner.arguments) // 2
    pairs = [{combiner.arguments[n], combiner.arguments[n + count]} for n in range(count)]
    operands = set(op.operands)
    return operands in pairs and combiner.last.operands[pairs.index(operands)] is op.results[0]


def is_float(value: Value) -> bool:
    return isinstance(element_type_of(value.type), FloatType)


def carried_operations(loop: Operation, result: Value, argument: Value) -> set[Operation]:
    """The operations of a loop body on the paths from a carried argument to the yielded `result`."""
    inside = {op for op in loop.walk() if op is not loop}
    reaches: dict[Value, bool] = {argument: True}
    path: set[Operation] = set()

    def depends(value: Value, sources: list[Value]) -> bool:
        op = value.defining_op
        if not any([reaches[source] for source in sources]):
            return False
        if op is not None and not op.regions:
            path.add(op)
        return True

    # False ends the walk at the arguments of inner loops.
    settle(result, reaches, False, lambda value: _sources(value, inside), depends)
    return path


def _sources(value: Value, inside: set[Operation]) -> list[Value]:
    """The values that a value of a loop body is computed from."""
    op = value.defining_op or value.block.parent_op  # type: ignore[attr-defined]
    if op not in inside:
        return []
    incoming_values = incoming(value)
    if incoming_values is not None:
        return [each.value for each in incoming_values]
    return list(op.operands) if value.defining_op is not None else []

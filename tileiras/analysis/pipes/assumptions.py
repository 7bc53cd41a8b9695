"""Assumed values for unknown numbers, arguments or loaded values, that control the operations of agents on pipes.

Only numbers on which trip counts and branches around operations on pipes depend matter.  An `Assumption` has a value
for each unknown number, the same for all agents that compute it alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import lcm
from typing import Any

from tileiras.dialects import arith, nvvm, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.pipes import (
    ConsumeOneOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    IncIterOp,
    ProduceOneOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerTailOp,
)
from tileiras.ir import Attribute, Block, BlockArgument, IntegerType, Operation, Value

from ..incoming import incoming
from ..ranges import RangeAnalysis
from ..warpgroup_turns import TURNS
from . import agent_of

Key = Any
"""Identity of a computed number: a value, or the operation and the keys of its operands."""

Assumption = Mapping[Key, int]

ROUNDS: Key = "rounds"
"""Key of the number of rounds after which loops without a counter are assumed to end, unless their conditions end them
earlier: a number that agents compute alike, such as one loaded in each round, has one assumed value for all rounds."""

NEVER, ALWAYS, BY_TURNS = range(3)
"""Rounds in which the tile blocks of a cluster are assumed to have the same tile: none, each round that all of them
execute, or every other one.  The verifier ensures that all tile blocks get the same answer."""

Choice = scf.ForOp | scf.WhileOp | scf.IfOp

NAMED = (tileas.BarrierOp, nvvm.BarrierOp, nvvm.BarrierArriveOp)
EVENTS = (
    ProducerAcquireOp, ProducerCommitOp, ConsumerWaitOp, ConsumerReleaseOp, ProduceOneOp, ConsumeOneOp, IncIterOp,
    ProducerTailOp, *NAMED,
)  # fmt: skip
"""Operations that are steps of agents, besides `TURNS`."""


class Impossible(Exception):
    """An assumption that the kernel excludes, or under which it divides by zero."""


def has_events(op: Operation) -> bool:
    return any(isinstance(inner, EVENTS) or inner.name in TURNS for inner in op.walk())


_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b, "sle": lambda a, b: a <= b, "sgt": lambda a, b: a > b, "sge": lambda a, b: a >= b,
    "ult": lambda a, b: a < b, "ule": lambda a, b: a <= b, "ugt": lambda a, b: a > b, "uge": lambda a, b: a >= b,
}  # fmt: skip
"""Comparisons; assumed numbers are small and positive, so that signs make no difference."""

_COMPUTED: dict[type[Operation], Callable[..., int]] = {
    arith.AddIOp: lambda a, b: a + b,
    arith.SubIOp: lambda a, b: a - b,
    arith.MulIOp: lambda a, b: a * b,
    arith.DivSIOp: lambda a, b: int(a / b),
    arith.DivUIOp: lambda a, b: a // b,
    arith.CeilDivSIOp: lambda a, b: -(-a // b),
    arith.CeilDivUIOp: lambda a, b: -(-a // b),
    arith.FloorDivSIOp: lambda a, b: a // b,
    arith.RemSIOp: lambda a, b: a - b * int(a / b),
    arith.RemUIOp: lambda a, b: a % b,
    arith.AndIOp: lambda a, b: a & b,
    arith.OrIOp: lambda a, b: a | b,
    arith.XOrIOp: lambda a, b: a ^ b,
    arith.MaxSIOp: max,
    arith.MaxUIOp: max,
    arith.MinSIOp: min,
    arith.MinUIOp: min,
    arith.SelectOp: lambda c, a, b: a if c else b,
    arith.ExtSIOp: lambda a: a,
    arith.ExtUIOp: lambda a: a,
    arith.TruncIOp: lambda a: a,
}


def computes(op: Operation | None) -> bool:
    return op is not None and (type(op) in _COMPUTED or isinstance(op, (arith.CmpIOp, arith.ConstantOp, aa.AssumeOp)))


def constant_of(value: Value) -> int | None:
    op: Any = value.defining_op
    return op.value.value if isinstance(op, arith.ConstantOp) and hasattr(op.value, "value") else None


def compute(op: Operation, number: Callable[[Value], int]) -> int:
    if isinstance(op, arith.ConstantOp):
        return op.value.value  # type: ignore[attr-defined]
    arguments = [number(value) for value in op.operands]
    if isinstance(op, arith.CmpIOp):
        return int(_COMPARED[op.predicate.value](*arguments))
    if isinstance(op, aa.AssumeOp):
        _check_assumed(op.predicate, arguments[0])
        return arguments[0]
    try:
        return _COMPUTED[type(op)](*arguments)
    except ZeroDivisionError:
        raise Impossible from None


def _check_assumed(predicate: Attribute, number: int) -> None:
    if isinstance(predicate, aa.BoundedAttr):
        lower, upper = predicate.lower, predicate.upper  # type: ignore[attr-defined]
        if lower is not None and number < lower or upper is not None and number > upper:
            raise Impossible
    if isinstance(predicate, aa.DivByAttr) and number % predicate.divisor:  # type: ignore[attr-defined]
        raise Impossible


def key_of(value: Value, depth: int = 8) -> Key:
    """A key that is equal for values of different agents that are computed alike, compared to `depth` operations, or
    loaded alike: no load of an agent is ordered after a write of another one."""
    op = value.defining_op
    if is_place_in_cluster(op):
        return PLACE
    if op is None:
        around = value.parent_block.parent_op if value.parent_block is not None else None
        if around is None or agent_of(around) is None:
            return value
        return around.name, value.index, _nesting(around)  # type: ignore[attr-defined]
    if agent_of(op) is None:
        return value
    number = list(op.results).index(value)
    if depth == 0:
        return op.name, number
    operands = [operand for operand in _token_operands(op) if not isinstance(operand.type, aa.MemTokenType)]
    return op.name, _describe(op), number, tuple(key_of(operand, depth - 1) for operand in operands)


CLUSTER = 2
"""Number of tile blocks of a cluster that are modelled."""
PLACE = ("tile block", "x")
"""Key of the number along x of a tile block and of the others in its cluster."""


def is_place_in_cluster(op: Operation | None) -> bool:
    if not isinstance(op, aa.GetProgramIdOp) or op.axis.value != "x":
        return False
    func = aa.function_of(op)
    return func is not None and tileas.CLUSTER_BLOCKS in func.attributes


def _nesting(op: Operation) -> int:
    """The number of operations around an operation."""
    count, around = 0, op.parent_op
    while around is not None:
        count, around = count + 1, around.parent_op
    return count


def _token_operands(op: Operation) -> list[Value]:
    """The values defined outside an operation that it uses, including its regions."""
    inside = {result for inner in op.walk() for result in inner.results}
    inside |= {argument for inner in op.walk() for region in inner.regions for block in region.blocks
               for argument in block.arguments}  # fmt: skip
    return [operand for inner in op.walk() for operand in inner.operands if operand not in inside]


def _describe(op: Operation) -> Key:
    """The names and attributes of an operation and those in its regions, without the annotations of passes."""
    return tuple(
        (inner.name, *((name, each) for name, each in inner.attributes.items() if "." not in name))
        for inner in op.walk()
    )


def _is_result_of_no_event(value: Value) -> bool:
    """Whether a value is the result of a loop or branch without events, which is not executed here."""
    op = value.defining_op
    return isinstance(op, (scf.ForOp, scf.IfOp, scf.WhileOp)) and not has_events(op)


class Decisive:
    """The values that decide how often loops with events run, and which way branches go."""

    def __init__(self, programs: Iterable[Block]) -> None:
        self.values: set[Value] = set()
        self.unknown: dict[Key, Value] = {}
        """Key -> value of each number that has to be assumed."""
        self.scale = 1
        """A common multiple of the steps and divisors of the loops."""
        pending: list[Value] = []
        for program in programs:
            for op in (inner for outer in program.operations for inner in outer.walk()):
                if isinstance(op, (scf.ForOp, scf.IfOp, scf.WhileOp)) and has_events(op):
                    pending += _controls(op)
                elif isinstance(op, ProducerAcquireOp) and op.together is not None:
                    pending.append(op.together)
                elif isinstance(op, IncIterOp) and op.by is not None:
                    pending.append(op.by)
        while pending:
            value = pending.pop()
            if value not in self.values:
                self.values.add(value)
                pending += self._dependencies(value)

    def _dependencies(self, value: Value) -> list[Value]:
        op: Any = value.defining_op
        if isinstance(value, BlockArgument) and isinstance(value.block.parent_op, scf.ForOp) and value.index == 0:
            loop: Any = value.block.parent_op
            return [loop.lower_bound, loop.step]
        carried = incoming(value)
        if carried is not None and not _is_result_of_no_event(value):
            return [each.value for each in carried]
        if not computes(op):
            self.unknown[key_of(value)] = value
            if op is not None and op.name == names.IS_SAME_TILE and op.counter is not None:
                return [op.counter, op.counter.block.parent_op.upper_bound]
            return []
        if isinstance(op, aa.AssumeOp) and isinstance(op.predicate, aa.DivByAttr):
            self._scale_by(op.predicate.divisor)  # type: ignore[attr-defined]
        if isinstance(op, arith.ConstantOp) and not isinstance(value.type, IntegerType):
            self.unknown[key_of(value)] = value
        return list(op.operands)

    def _scale_by(self, number: int | None) -> None:
        if number is not None and 1 < number <= 4096:
            self.scale = lcm(self.scale, number)

    def note_steps(self) -> None:
        """Include the steps of loops and constant divisors in the scale, so that assumed extents are whole numbers of
        trips."""
        for value in self.values:
            for user in value.users:
                if isinstance(user, scf.ForOp):
                    self._scale_by(constant_of(user.step))
                elif isinstance(user, (arith.DivSIOp, arith.DivUIOp, arith.CeilDivSIOp, arith.CeilDivUIOp)):
                    self._scale_by(constant_of(user.operands[1]))


def _controls(op: Choice) -> list[Value]:
    if isinstance(op, scf.ForOp):
        return [op.lower_bound, op.upper_bound, op.step]
    return [op.condition] if isinstance(op, scf.IfOp) else [op.before.block.last.condition]  # type: ignore[union-attr]


def candidates(key: Key, value: Value, scale: int, depth: int, ranges: RangeAnalysis) -> list[int]:
    """The values assumed for an unknown number: few, and enough for every stage to be used twice."""
    if value.defining_op is not None and value.defining_op.name == names.IS_SAME_TILE:
        return [NEVER, ALWAYS, BY_TURNS]
    if isinstance(value.type, IntegerType) and value.type.width == 1:
        return [0, 1]
    if any(isinstance(user, scf.ForOp) and user.step is value for user in value.users):
        return [1]
    low, high = ranges.range(value)
    if key == PLACE:
        scale = 1  # it is compared with unscaled counts, such as numbers of tiles
    result = [scale * trips for trips in (0, 1, 2, 2 * depth + 1)]
    return [number for number in result if low <= number <= high] or [max(low, 0)]

"""Asynchronous dots, executed by warpgroups (wgmma), and the operations that order them.

    %f = nv_tileas.async.to_async %c            the accumulator is in flight: no use of it before a wait
    %g = nv_tileas.async.dot %a, %b, %f         B is read from shared memory, A too unless it is in flight
    nv_tileas.async.commit_dots                 the dots since the last commit form a group
    %d = nv_tileas.async.future_wait %g {pending = 1 : i32}
                                                all groups but the last `pending` are complete

    nv_tileas.async.wait_turn id = 2            the warpgroups of an agent take turns: one of them at a time issues
    nv_tileas.async.end_turn id = 2             the operations between these two

Only asynchronous dots and waits may use a value of type `in_flight`. A tile whose encoding is a shared-memory layout
lies in a stage of a buffer, which its `copy` names.
"""

from __future__ import annotations

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import (
    IntegerAttr,
    MemoryRead,
    MemoryWrite,
    Operation,
    TensorType,
    TypedAttribute,
    UnitAttr,
    Value,
    VerifyError,
    attribute,
    i32,
    operand,
    result,
    variadic_operand,
    variadic_result,
)

from .attributes import LinearLayoutAttr, MmaAtomAttr
from .buffers import SharedLayoutAttr, WrapperType
from .ops import LAST_BARRIER


class InFlightType(WrapperType, name="nv_tileas.in_flight", parameters=("tile",)):
    """A tile in registers that an asynchronous dot may read or write until a wait."""

    def verify(self) -> None:
        if not isinstance(self.tile, TensorType) or not isinstance(self.tile.encoding, LinearLayoutAttr):
            raise VerifyError("expected a tensor with a layout of registers", prefix=False)


class ToAsyncOp(Operation, name="nv_tileas.async.to_async", traits=(MemoryRead, MemoryWrite)):
    """Puts tiles in flight: earlier writes to their registers are visible to later dots (`wgmma.fence`). With `unused`
    no instruction of a dot uses these registers: they are only the initial values of a loop that carries tiles in
    flight, or the accumulator of a promoted dot."""

    tiles = variadic_operand(TensorType)
    unused = attribute(UnitAttr, optional=True)
    futures = variadic_result(InFlightType)
    assembly_format = "$tiles attr-dict `:` functional-type($tiles, $futures)"

    def verify_op(self) -> None:
        if [v.type for v in self.tiles] != [v.type.tile for v in self.futures]:
            raise VerifyError("expects to give the tiles that it takes")


class CreateNoneOp(Operation, name="nv_tileas.async.create_none", traits=(MemoryRead, MemoryWrite)):
    """An accumulator in flight with undefined contents, for a dot that overwrites it (`wgmma.fence`)."""

    result = result(InFlightType)
    assembly_format = "attr-dict `:` type($result)"


class AsyncDotOp(Operation, name="nv_tileas.async.dot", traits=(MemoryRead, MemoryWrite)):
    """`a @ b + c`, complete after a wait; with `overwrites`, `a @ b`.

    B lies in shared memory, A in shared memory or in registers in flight.  `exchanged`: the instruction's A is the
    transposed B, and its B the transposed A, so that its result is transposed as well; the operand that may be in
    flight is B then.  `promoted`: as for `dot`; the operation then waits for its own sums.
    """

    a = operand(doc="M x K")
    b = operand(doc="K x N")
    c = operand(InFlightType, "M x N")
    atom = attribute(MmaAtomAttr)
    signedness_a = attribute(aa.SignednessAttr, "of integer elements", optional=True)
    signedness_b = attribute(aa.SignednessAttr, "of integer elements", optional=True)
    overwrites = attribute(UnitAttr, optional=True)
    exchanged = attribute(UnitAttr, optional=True)
    promoted = attribute(IntegerAttr, optional=True)
    result = result(InFlightType)
    assembly_format = "$a `,` $b `,` $c attr-dict `:` type($a) `,` type($b) `->` type($result)"

    @property
    def a_tile(self) -> TensorType:
        """The tensor type of A, in shared memory or in flight."""
        return _tile_of(self.a)

    @property
    def b_tile(self) -> TensorType:
        """The tensor type of B, in shared memory or in flight."""
        return _tile_of(self.b)

    def verify_op(self) -> None:
        if self.c.type is not self.result.type:
            raise VerifyError(f"expects the accumulator's type for the result, {self.c.type}, got {self.result.type}")
        sides = (("A", self.a), ("B", self.b))
        (first, rows), (second, columns) = sides[::-1] if self.exchanged is not None else sides
        if not _is_in_shared(columns):
            raise VerifyError(f"expects {second} in shared memory")
        if not _is_in_shared(rows) and not isinstance(rows.type, InFlightType):
            raise VerifyError(f"expects {first} in shared memory or in flight")
        (*_, m, k), (*_, depth, n), accumulator = self.a_tile.shape, self.b_tile.shape, self.c.type.tile.shape
        if k != depth or accumulator[-2:] != (m, n):
            raise VerifyError(f"does not multiply {m}x{k} and {depth}x{n} into {list(accumulator)}")


def _tile_of(value: Value) -> TensorType:
    return value.type.tile if isinstance(value.type, InFlightType) else value.type


def _is_in_shared(value: Value) -> bool:
    return isinstance(value.type, TensorType) and isinstance(value.type.encoding, SharedLayoutAttr)


class CommitDotsOp(Operation, name="nv_tileas.async.commit_dots", traits=(MemoryRead, MemoryWrite)):
    """The dots since the last commit form a group (`wgmma.commit_group`). `by_dot`: the promoted dot before it has
    committed its own groups, and no instruction is needed."""

    by_dot = attribute(UnitAttr, optional=True)
    assembly_format = "attr-dict"


class FutureWaitOp(Operation, name="nv_tileas.async.future_wait", traits=(MemoryRead, MemoryWrite)):
    """Waits until all groups of dots but the last `pending` are complete (`wgmma.wait_group`). The futures whose dots
    are complete then are its operands, and its results are the same tiles in registers.  `by_dot`: the promoted dot
    before it has waited for its own groups, and no instruction is needed."""

    futures = variadic_operand(InFlightType)
    pending = attribute(IntegerAttr)
    by_dot = attribute(UnitAttr, optional=True)
    values = variadic_result(TensorType)
    assembly_format = "$futures attr-dict `:` functional-type($futures, $values)"

    def verify_op(self) -> None:
        if self.pending.type is not i32 or not 0 <= self.pending.value <= 7:
            raise VerifyError("expects a number of groups as i32, from 0 to 7")
        if [v.type.tile for v in self.futures] != [v.type for v in self.values]:
            raise VerifyError("expects to give the tiles that it takes")


class FenceProxyOp(Operation, name="nv_tileas.fence_proxy_async", traits=(MemoryRead, MemoryWrite)):
    """Makes this thread's writes to shared memory visible to the asynchronous proxy, after a barrier (PTX ISA, "Async
    Proxy"); with `global_memory`, its accesses to global memory as well."""

    global_memory = attribute(UnitAttr, optional=True)
    assembly_format = "attr-dict"


# ---- turns ----------------------------------------------------------------------------------------------------------

_FIRST_BARRIER = 1
"""Barrier 0 is the barrier of the whole CTA (PTX ISA, "bar{.cta}")."""


class _TurnOp(Operation):
    """An operation on named barriers: a warpgroup waits for the one before it at barrier `id` plus its own number, from
    0."""

    traits = (MemoryRead, MemoryWrite)
    id = attribute(TypedAttribute(IntegerAttr, i32, "32-bit signless integer attribute"))

    def verify_op(self) -> None:
        if not _FIRST_BARRIER <= self.id.value <= LAST_BARRIER:
            raise VerifyError(f"expects one of barriers {_FIRST_BARRIER} to {LAST_BARRIER}, but got {self.id.value}")


class WaitTurnOp(_TurnOp, name="nv_tileas.async.wait_turn"):
    """Waits until the previous warpgroup has ended its turn; the first warpgroup waits until the last one has ended its
    previous turn.  With `last`, after all turns, only the first warpgroup waits."""

    last = attribute(UnitAttr, optional=True)
    assembly_format = "`id` `=` $id attr-dict"


class EndTurnOp(_TurnOp, name="nv_tileas.async.end_turn"):
    """Lets the next warpgroup start its turn, after the last one the first.  With `first`, before all turns, only the
    last warpgroup executes it."""

    first = attribute(UnitAttr, optional=True)
    assembly_format = "`id` `=` $id attr-dict"

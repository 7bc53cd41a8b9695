"""Builds llvm operations: arithmetic with constant folding, calls, and the thread's own numbers.

Values that depend on the thread's position are computed once, from its number, unless `of_thread` or `from_here`
replace that number: then they are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

from tileiras.dialects import llvm, nvvm
from tileiras.ir import (
    UNKNOWN_LOC,
    Block,
    DenseArrayAttr,
    IntegerType,
    Location,
    Operation,
    StringAttr,
    Type,
    UnitAttr,
    Value,
    VectorType,
    i1,
    i8,
    i32,
    i64,
)
from tileiras.support import gf2

from .builder import FragmentBuilder, Number
from .types import count_of, vector_of

FULL_WARP = -1
"""Member mask of instructions of a whole warp: control flow is uniform."""

_THREAD = "thread"

_HOLDS: dict[str, Callable[[int], bool]] = {
    "lt": (0).__gt__, "le": (0).__ge__, "gt": (0).__lt__, "ge": (0).__le__,
}  # fmt: skip
"""Predicates decidable from the sign of lhs - rhs."""


class Emitter(FragmentBuilder):
    """A builder that folds arithmetic and knows the thread."""

    def __init__(self, block: Block, location: Location = UNKNOWN_LOC) -> None:
        super().__init__(block, location)
        self.wide_indices = False
        """Whether offsets in addresses have 64 bits."""
        self._threads: list[tuple[Block | None, dict[Any, Value]]] = [(self.prologue, {})]
        """Stack of the block for values that depend on the thread's number (None: the current block), and the values
        emitted there; the last entry is in force."""

    # -- integer arithmetic on scalars, folded ------------------------------------------------------------------------

    def _binary(self, kind: type[Operation], a: Number, b: Number, type: IntegerType) -> Value:
        a, b = self.value(a, type), self.value(b, type)
        return self._pure(kind, (a, b), a.type)

    def add(self, a: Number, b: Number, type: IntegerType = i32) -> Number:
        x, y = self.number(a), self.number(b)
        if x is not None and y is not None:
            return x + y
        if x == 0:
            return b
        if y == 0:
            return a
        return self._binary(llvm.AddOp, a, b, type)

    def sub(self, a: Number, b: Number, type: IntegerType = i32) -> Number:
        x, y = self.number(a), self.number(b)
        if x is not None and y is not None:
            return x - y
        if y == 0:
            return a
        return self._binary(llvm.SubOp, a, b, type)

    def mul(self, a: Number, b: Number, type: IntegerType = i32) -> Number:
        x, y = self.number(a), self.number(b)
        if x is not None and y is not None:
            return x * y
        if x == 0 or y == 0:
            return 0
        if x == 1:
            return b
        if y == 1:
            return a
        for number, other in ((x, b), (y, a)):
            if number is not None and number > 0 and number & (number - 1) == 0:
                return self.shl(other, number.bit_length() - 1, type)
        return self._binary(llvm.MulOp, a, b, type)

    def shl(self, a: Number, count: int, type: IntegerType = i32) -> Number:
        x = self.number(a)
        if x is not None:
            return x << count
        return a if count == 0 else self._binary(llvm.ShlOp, a, count, type)

    def lshr(self, a: Value, count: int, type: IntegerType = i32) -> Value:
        return a if count == 0 else self._binary(llvm.LShrOp, a, count, type)

    def and_(self, a: Value, mask: Number, type: IntegerType = i32) -> Value:
        return self._binary(llvm.AndOp, a, mask, type)

    def xor(self, a: Number, b: Number, type: IntegerType = i32) -> Number:
        x, y = self.number(a), self.number(b)
        if x is not None and y is not None:
            return x ^ y
        if x == 0:
            return b
        if y == 0:
            return a
        return self._binary(llvm.XOrOp, a, b, type)

    def disjoint(self, a: Number, b: Value) -> Value:
        """The disjunction of numbers without common bits."""
        return b if a == 0 else self._pure(llvm.OrOp, (a, b), b.type, isDisjoint=UnitAttr())

    def sext(self, value: Number, type: IntegerType = i64) -> Number:
        """A signed integer at least as wide as `type`'s width."""
        if isinstance(value, int) or value.type is type:
            return value
        number = self.number(value)
        if number is not None:
            return number
        if value.type.width > type.width:
            return self._pure(llvm.TruncOp, (value,), type)
        return self._pure(llvm.SExtOp, (value,), type)

    def zext(self, value: Number, type: IntegerType, *, nneg: bool = False) -> Number:
        """An unsigned integer at another width, with `nneg` one whose highest bit is clear."""
        if isinstance(value, int) or value.type is type:
            return value
        number = self.number(value)
        if number is not None:
            return self.integer(number & (1 << value.type.width) - 1, type)
        if value.type.width > type.width:
            return self._pure(llvm.TruncOp, (value,), type)
        if nneg:
            return self._pure(llvm.ZExtOp, (value,), type, "nneg", nonNeg=UnitAttr())
        return self._pure(llvm.ZExtOp, (value,), type)

    def icmp(self, predicate: str, a: Value, b: Value) -> Value:
        type = vector_of(i1, count_of(a.type))
        decided = self._compare(predicate, a, b)
        if decided is not None:
            return self.integer(decided[0], type) if len(set(decided)) == 1 else self.bits(decided, i1)
        return self._pure(llvm.ICmpOp, (a, b), type, predicate, predicate=llvm.ICmpPredicateAttr(predicate))

    def fcmp(self, predicate: str, a: Value, b: Value) -> Value:
        type = vector_of(i1, count_of(a.type))
        return self._pure(llvm.FCmpOp, (a, b), type, predicate, predicate=llvm.FCmpPredicateAttr(predicate))

    def logical(self, op: type[Operation], a: Value, b: Value) -> Value:
        """`and`, `or` or `xor`."""
        return self._pure(op, (a, b), a.type)

    def _compare(self, predicate: str, a: Value, b: Value) -> list[int] | None:
        """For each element whether a comparison holds, if that is known for all of them; else None."""
        spans = self.common_spans(a, b)
        if spans is None or predicate[1:] not in _HOLDS:
            return None
        holds = _HOLDS[predicate[1:]]
        result = []
        for mine, its in zip(*spans[1:]):
            # The two extreme differences decide about all between.
            ends = {holds(mine[0] - its[1]), holds(mine[1] - its[0])}
            if len(ends) > 1:
                return None
            result.append(int(ends.pop()))
        return result

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        if a is b:
            return a
        result = self._make(llvm.SelectOp, (condition, a, b), a.type)
        spans = self.common_spans(a, b)
        if spans is not None:
            first, mine, its = spans
            self.has_spans(result, first, [(min(x[0], y[0]), max(x[1], y[1])) for x, y in zip(mine, its)])
        return result

    def both(self, a: Value | None, b: Value | None) -> Value | None:
        """The conjunction of two conditions, where None is always true."""
        if a is None:
            return b
        return a if b is None else self._pure(llvm.AndOp, (a, b), a.type)

    # -- calls --------------------------------------------------------------------------------------------------------

    def register(self, name: str) -> Value:
        """A special register such as `tid.x`; the same for the whole life of the thread."""
        return self.once(("sreg", name), lambda: self.insert(nvvm.SPECIAL_REGISTERS[name]()))

    def intrinsic(self, name: str, *args: Value) -> Value:
        """One of LLVM's own intrinsics, overloaded on its operands."""
        return self.insert(llvm.INTRINSIC_OPS[name](*args))

    def assembly(
        self,
        text: str,
        constraints: str,
        args: Sequence[Value],
        result: Type | None = None,
        effects: bool = True,
        min_ptx: str | None = None,
    ) -> Any:
        """Inline PTX; several outputs form a struct.  `min_ptx`: the required version, if newer than that of any
        target."""
        flag = UnitAttr() if effects else None
        return self.insert(
            llvm.InlineAsmOp(
                list(args),
                asm_string=StringAttr(text),
                constraints=StringAttr(constraints),
                has_side_effects=flag,
                min_ptx=None if min_ptx is None else StringAttr(min_ptx),
                res=result,
            )
        )

    def member(self, struct: Value, position: int) -> Value:
        at = DenseArrayAttr(i64, (position,))
        return self._make(llvm.ExtractValueOp, (struct,), struct.type.elements[position], {"position": at})

    def gep(self, base: Value, offset: Number, *, inbounds: bool = False) -> Value:
        """`base` moved by bytes."""
        if self.number(offset) == 0:
            return base
        number = self.number(offset)
        if number is not None and -(1 << 31) < number < 1 << 31:
            offset = number
        elif number is not None:
            offset = self.integer(number, i64)
        else:
            offset = self.index(offset)
        return self._once(
            (llvm.GEPOp, base, offset, inbounds),
            lambda: self.insert(llvm.GEPOp.at(base, [offset], i8, inbounds=inbounds)),
        )

    def index(self, offset: Number) -> Number:
        """An offset in an address, signed, as wide as indices are."""
        if not self.wide_indices or isinstance(offset, int):
            return offset
        type = vector_of(i64, offset.type.shape[0]) if isinstance(offset.type, VectorType) else i64
        return offset if offset.type is type else self._pure(llvm.SExtOp, (offset,), type)

    def xor_address(self, pointer: Value, bits: int) -> Value:
        """A pointer into shared memory with some bits of its address inverted."""
        address = self.insert(llvm.PtrToIntOp(pointer, res=i32))
        turned = self._binary(llvm.XOrOp, address, bits, i32)
        return self.insert(llvm.IntToPtrOp(turned, res=pointer.type))

    # -- the thread ---------------------------------------------------------------------------------------------------

    def by_thread(self, key: Any, make: Callable[[], Any]) -> Any:
        """Likewise for values that depend on the thread's number, in the block that is in force for them."""
        place, result = self._threads[-1]
        thread = result.get(key)
        if thread is None:
            block, self.block = self.block, self.block if place is None else place
            thread = result[key] = make()
            self.block = block
        return thread

    @contextmanager
    def of_thread(self, thread: Value):
        """Context: values that depend on the thread's number are computed from `thread`, at the current place.

        The emitted code must stay in one block.
        """
        self._threads.append((None, {_THREAD: thread}))
        try:
            yield self
        finally:
            self._threads.pop()

    def from_here(self, head: Block, thread: Value) -> None:
        """From here to the end of the region, computes values that depend on the thread's number from `thread`, in
        `head`."""
        self._threads.append((head, {_THREAD: thread}))

    @contextmanager
    def region(self):
        """Context: ends the effect of `from_here` inside it."""
        depth = len(self._threads)
        try:
            yield self
        finally:
            del self._threads[depth:]

    @property
    def thread(self) -> Value:
        return self.by_thread(_THREAD, lambda: self.register("tid.x"))

    @property
    def lane(self) -> Value:
        return self.by_thread("lane", lambda: self.and_(self.thread, 31))

    @property
    def warp(self) -> Value:
        return self.by_thread("warp", lambda: self.lshr(self.thread, 5))

    def thread_bit(self, dim: str, bit: int) -> Value:
        """Whether a bit of the lane or warp number is set."""
        position = bit + (5 if dim == "warp" else 0)

        def make() -> Value:
            return self.icmp("ne", self.and_(self.thread, 1 << position), self.integer(0))

        return self.by_thread(("bit", position), make)

    def linear(self, lane: Sequence[int], warp: Sequence[int]) -> Number:
        """The image of the thread under a linear map, given the columns of lane and warp bits (GF(2))."""
        columns = (*lane, *(0,) * (5 - len(lane)), *warp)
        return self.by_thread(("linear", columns), lambda: self.image(columns, self.thread)) if any(columns) else 0

    def image(self, columns: Sequence[int], value: Value) -> Number:
        """The image of a number under the linear map with these columns (GF(2))."""
        result: Number = 0
        bits = 0
        for mask, shift in gf2.shifted_masks(columns):
            part = self.and_(value, mask)
            part = self.shl(part, shift) if shift >= 0 else self.lshr(part, -shift)
            places = mask << shift if shift >= 0 else mask >> -shift
            # Terms of one map can meet in a bit, and are XORed then.
            result = self.xor(result, part) if bits & places else self.disjoint(result, part)
            bits |= places
        return result

    def thread_is_elected(self, lane_mask: int, warp_mask: int) -> Value | None:
        """Whether all these bits of lane and warp are clear; None if both masks are 0."""
        mask = lane_mask | warp_mask << 5
        if not mask:
            return None

        def make() -> Value:
            return self.icmp("eq", self.and_(self.thread, mask), self.integer(0))

        return self.by_thread(("representative", mask), make)

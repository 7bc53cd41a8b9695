"""Builds llvm operations: constants, arithmetic that folds what is known, vectors, and the thread's own numbers.

Two places receive operations.  The current block receives what depends on values of the function.  The prologue, which
becomes the beginning of the entry block, receives constants and whatever depends on the thread's position only; it is
made once and dominates everything.  Where registers are short, what depends on the thread's position is made again:
nearer to its use, of the thread's number as `thread_again` and `from_here` are given it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

from tileiras import gf2
from tileiras.dialects import llvm, nvvm
from tileiras.ir import (
    UNKNOWN_LOC,
    Block,
    DenseArrayAttr,
    DenseElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Location,
    Operation,
    StringAttr,
    UnitAttr,
    Value,
    VectorType,
    i1,
    i32,
    i64,
)

from .types import count_of, element_of, vector_of

Number = Value | int

FULL_WARP = -1
"""Member mask of instructions of a whole warp: control flow is uniform."""

_THREAD = "thread"


class Emitter:
    """Emits into `block`, with `location` on every operation.

    What is made once, in the prologue, has the location of whoever asked for it first.
    """

    def __init__(self, block: Block, location: Location = UNKNOWN_LOC) -> None:
        self.block = block
        self.prologue = Block()
        self.location = location
        self._constants: dict[Any, Value] = {}
        self._numbers: dict[Value, int] = {}
        self._patterns: dict[Value, Sequence[int]] = {}
        """The bits of the elements of constants."""
        self._known: dict[Block, dict[Any, Value]] = {}
        """By what it is computed of, what has been computed in a block or in those that dominate it."""
        self._special: dict[Any, Value] = {}
        self._threads: list[tuple[Block | None, dict[Any, Value]]] = [(self.prologue, {})]
        """Where what depends on the thread's number is made, the current block for None, and what has been made there;
        the last one counts."""

    # -- insertion ----------------------------------------------------------------------------------------------------

    def insert(self, op: Operation) -> Any:
        """Inserts and returns the operation's result (the operation itself when it has none)."""
        op.location = self.location
        self.block.append(op)
        return op.results[0] if op.results else op

    def dominated(self, block: Block, by: Block) -> None:
        """What has been computed in `by` so far need not be computed again in `block`."""
        self._known[block] = dict(self._known.get(by, ()))

    def _make(self, kind: Any, operands: tuple[Value, ...], type: Any, attributes: dict[str, Any] | None = None) -> Any:
        """The result of an operation whose fields need no finding out, which takes most of making the usual ones."""
        op = kind.create(operands, (type,), attributes, location=self.location)
        self.block.append(op)
        return op._results[0]

    def _pure(self, kind: Any, operands: tuple[Value, ...], type: Any, key: Any = None, **attributes: Any) -> Any:
        """The result of an operation without effects, made unless the same is known here; `key` stands for its
        attributes."""
        return self._once((kind, operands, type, key), lambda: self._make(kind, operands, type, attributes))

    def _once(self, key: Any, make: Callable[[], Value]) -> Value:
        """What `make()` computes, without effects, of `key`, unless that is known in this block."""
        known = self._known.setdefault(self.block, {})
        found = known.get(key)
        if found is None:
            found = known[key] = make()
        return found

    def _binary(self, kind: Any, a: Number, b: Number, type: Any) -> Value:
        a, b = self.value(a, type), self.value(b, type)
        return self._pure(kind, (a, b), a.type)

    @contextmanager
    def in_prologue(self):
        """What is emitted inside depends on constants and the thread's numbers only."""
        block, self.block = self.block, self.prologue
        try:
            yield self
        finally:
            self.block = block

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """The value made by `make` in the prologue, remembered under `key`."""
        found = self._special.get(key)
        if found is None:
            with self.in_prologue():
                found = self._special[key] = make()
        return found

    def by_thread(self, key: Any, make: Callable[[], Any]) -> Any:
        """Likewise for what depends on the thread's number, where that is made at present."""
        place, made = self._threads[-1]
        found = made.get(key)
        if found is None:
            block, self.block = self.block, self.block if place is None else place
            found = made[key] = make()
            self.block = block
        return found

    @contextmanager
    def thread_again(self, thread: Value):
        """Inside, what depends on the thread's number is made of `thread`, at the current place.

        Nothing inside may go on to another block.
        """
        self._threads.append((None, {_THREAD: thread}))
        try:
            yield self
        finally:
            self._threads.pop()

    def from_here(self, head: Block, thread: Value) -> None:
        """From here to the end of the region, what depends on the thread's number is made of `thread`, in `head`."""
        self._threads.append((head, {_THREAD: thread}))

    @contextmanager
    def region(self):
        """At its end, what `from_here` said inside no longer holds."""
        depth = len(self._threads)
        try:
            yield self
        finally:
            del self._threads[depth:]

    # -- constants ----------------------------------------------------------------------------------------------------

    def _constant(self, attribute: Any, type: Any) -> Value:
        key = (attribute, type)
        found = self._constants.get(key)
        if found is None:
            op = llvm.ConstantOp(attribute, type)
            op.location = self.location
            self.prologue.append(op)
            found = self._constants[key] = op.results[0]
            if isinstance(attribute, IntegerAttr):
                self._numbers[found] = attribute.value
        return found

    def integer(self, value: int, type: Any = i32) -> Value:
        """An integer; for a vector type, of equal elements."""
        if isinstance(type, VectorType):
            return self.dense([value] * type.shape[0], type.element_type)
        return self._constant(IntegerAttr(value, type), type)

    def floating(self, value: float, type: Any) -> Value:
        """A float; for a vector type, of equal elements."""
        element = element_of(type)
        return self.bits([FloatAttr.from_float(value, element).bits] * count_of(type), element)

    def dense(self, values: Sequence[int], element: Any) -> Value:
        """A constant of integers, a scalar for one."""
        mask = (1 << element.width) - 1
        return self.bits([v & mask for v in values], element)

    def bits(self, patterns: Sequence[int], element: Any) -> Value:
        """A constant from the elements' bit patterns, a scalar for one."""
        if len(patterns) == 1:
            (pattern,) = patterns
            attribute = (
                IntegerAttr(pattern, element) if isinstance(element, IntegerType) else FloatAttr(pattern, element)
            )
            found = self._constant(attribute, element)
        else:
            size = max(1, element.width // 8)
            type = VectorType((len(patterns),), element)
            data = b"".join(p.to_bytes(size, "little") for p in patterns)
            found = self._constant(DenseElementsAttr(type, data), type)
        self._patterns[found] = patterns
        return found

    def zeros(self, type: Any) -> Value:
        """Elements, integers or floats, whose bits are all clear."""
        return self.bits([0] * count_of(type), element_of(type))

    def null(self, type: Any) -> Value:
        """The null pointer of a type."""
        return self.once(("null", type), lambda: self.insert(llvm.ZeroOp(res=type)))

    def poison(self, type: Any) -> Value:
        """A value of which nothing is wanted."""
        return self.once(("poison", type), lambda: self.insert(llvm.PoisonOp(res=type)))

    def number(self, value: Number) -> int | None:
        """The number, when it is known now."""
        return value if isinstance(value, int) else self._numbers.get(value)

    def value(self, value: Number, type: Any = i32) -> Value:
        return self.integer(value, type) if isinstance(value, int) else value

    # -- integer arithmetic on scalars, folded ------------------------------------------------------------------------

    def add(self, a: Number, b: Number, type: Any = i32) -> Number:
        x, y = self.number(a), self.number(b)
        if x is not None and y is not None:
            return x + y
        if x == 0:
            return b
        if y == 0:
            return a
        return self._binary(llvm.AddOp, a, b, type)

    def sub(self, a: Number, b: Number, type: Any = i32) -> Number:
        x, y = self.number(a), self.number(b)
        if x is not None and y is not None:
            return x - y
        if y == 0:
            return a
        return self._binary(llvm.SubOp, a, b, type)

    def mul(self, a: Number, b: Number, type: Any = i32) -> Number:
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

    def shl(self, a: Number, count: int, type: Any = i32) -> Number:
        x = self.number(a)
        if x is not None:
            return x << count
        return a if count == 0 else self._binary(llvm.ShlOp, a, count, type)

    def lshr(self, a: Value, count: int, type: Any = i32) -> Value:
        return a if count == 0 else self._binary(llvm.LShrOp, a, count, type)

    def and_(self, a: Value, mask: Number, type: Any = i32) -> Value:
        return self._binary(llvm.AndOp, a, mask, type)

    def xor(self, a: Number, b: Number, type: Any = i32) -> Number:
        x, y = self.number(a), self.number(b)
        if x is not None and y is not None:
            return x ^ y
        if x == 0:
            return b
        if y == 0:
            return a
        return self._binary(llvm.XOrOp, a, b, type)

    def disjoint(self, a: Number, b: Value) -> Value:
        """The disjunction of numbers that have no bit in common."""
        return b if a == 0 else self._pure(llvm.OrOp, (a, b), b.type, isDisjoint=UnitAttr())

    def sext(self, value: Number, type: Any = i64) -> Number:
        """A signed integer at least as wide as `type`'s width."""
        if isinstance(value, int) or value.type is type:
            return value
        known = self.number(value)
        if known is not None:
            return known
        if value.type.width > type.width:
            return self._pure(llvm.TruncOp, (value,), type)
        return self._pure(llvm.SExtOp, (value,), type)

    def zext(self, value: Number, type: Any, *, nneg: bool = False) -> Number:
        """An unsigned integer, with `nneg` one whose highest bit is clear, as a wider type."""
        if isinstance(value, int) or value.type is type:
            return value
        known = self.number(value)
        if known is not None:
            return self.integer(known & (1 << value.type.width) - 1, type)
        if nneg:
            return self._pure(llvm.ZExtOp, (value,), type, "nneg", nonNeg=UnitAttr())
        return self._pure(llvm.ZExtOp, (value,), type)

    def icmp(self, predicate: str, a: Value, b: Value) -> Value:
        type = vector_of(i1, count_of(a.type))
        return self._pure(llvm.ICmpOp, (a, b), type, predicate, predicate=llvm.ICmpPredicateAttr(predicate))

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return a if a is b else self._make(llvm.SelectOp, (condition, a, b), a.type)

    def both(self, a: Value | None, b: Value | None) -> Value | None:
        """The conjunction of two conditions, where None is always true."""
        if a is None:
            return b
        return a if b is None else self._pure(llvm.AndOp, (a, b), a.type)

    # -- vectors ------------------------------------------------------------------------------------------------------

    def shuffle(self, vector: Value, positions: Sequence[int]) -> Value:
        """The elements at these positions, as one value."""
        if not isinstance(vector.type, VectorType):
            return vector if len(positions) == 1 else self.splat(vector, len(positions))
        if tuple(positions) == tuple(range(vector.type.shape[0])):
            return vector
        known = self._patterns.get(vector)
        if known is not None:
            return self.bits([known[position] for position in positions], vector.type.element_type)
        if len(positions) == 1:
            at = self.integer(positions[0])
            return self._make(llvm.ExtractElementOp, (vector, at), vector.type.element_type)
        return self._shuffled(vector, self.poison(vector.type), positions)

    def _shuffled(self, a: Value, b: Value, positions: Sequence[int]) -> Value:
        type = VectorType((len(positions),), a.type.element_type)
        return self._make(llvm.ShuffleVectorOp, (a, b), type, {"mask": DenseArrayAttr(i32, positions)})

    def extract(self, vector: Value, position: int) -> Value:
        return self.shuffle(vector, (position,))

    def splat(self, scalar: Value, count: int) -> Value:
        """A vector of equal elements."""
        if count == 1:
            return scalar
        type = VectorType((count,), scalar.type)
        known = self.number(scalar)
        if known is not None:
            return self.integer(known, type)
        first = self.insert(llvm.InsertElementOp(self.poison(type), scalar, self.integer(0)))
        return self.shuffle(first, (0,) * count)

    def build(self, scalars: Sequence[Value]) -> Value:
        """One value of these elements."""
        if len(scalars) == 1:
            return scalars[0]
        if all(s is scalars[0] for s in scalars):
            return self.splat(scalars[0], len(scalars))
        vector = self.poison(VectorType((len(scalars),), scalars[0].type))
        for i, scalar in enumerate(scalars):
            vector = self._make(llvm.InsertElementOp, (vector, scalar, self.integer(i)), vector.type)
        return vector

    def concat(self, parts: Sequence[Value]) -> Value:
        """Values of equal type end to end, a power of two of them: a tree of shuffles, as many operations as parts."""
        parts = list(parts)
        if len(parts) > 1 and not isinstance(parts[0].type, VectorType):
            return self.build(parts)
        while len(parts) > 1:
            joined = []
            for a, b in zip(parts[::2], parts[1::2], strict=True):
                joined.append(self._shuffled(a, b, range(2 * count_of(a.type))))
            parts = joined
        return parts[0]

    def assemble(self, groups: Sequence[Sequence[int]], parts: Sequence[Value], count: int) -> Value:
        """A fragment of `count` registers from parts; part i holds the registers `groups[i]` in this order."""
        order = [register for group in groups for register in group]
        joined = self.concat(parts)
        where = {}
        for position, register in enumerate(order):
            where.setdefault(register, position)
        return self.shuffle(joined, [where[r] for r in range(count)])

    def map_scalars(self, function: Callable[..., Value], *vectors: Value) -> Value:
        """`function` on each element in turn, for operations that exist on scalars only."""
        count = max(count_of(v.type) for v in vectors)
        return self.build([function(*(self.extract(v, i) for v in vectors)) for i in range(count)])

    def bitcast(self, value: Value, type: Any) -> Value:
        if value.type is type:
            return value
        known = self._patterns.get(value)
        if known is not None and count_of(type) == len(known) and element_of(type).width % 8 == 0:
            return self.bits(known, element_of(type))
        return self._make(llvm.BitcastOp, (value,), type)

    def pack(self, value: Value, word: Any) -> Value:
        """Elements reinterpreted as words of the integer type `word`; a part of a word is zero-extended."""
        element = element_of(value.type)
        total = count_of(value.type) * element.width
        if total < word.width:
            whole = self.bitcast(value, IntegerType(total))
            return self.insert(llvm.ZExtOp(whole, res=word))
        return self.bitcast(value, vector_of(word, total // word.width))

    def unpack(self, words: Value, type: Any) -> Value:
        """The inverse of pack."""
        total = count_of(type) * element_of(type).width
        if total < words.type.width if not isinstance(words.type, VectorType) else False:
            words = self.insert(llvm.TruncOp(words, res=IntegerType(total)))
        return self.bitcast(words, type)

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
        result: Any = None,
        effects: bool = True,
        min_ptx: str | None = None,
    ) -> Any:
        """Inline PTX; several outputs make a struct.  `min_ptx`: what it needs, where that is newer than any target."""
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
        known = self.number(offset)
        if known is not None and -(1 << 31) < known < 1 << 31:
            offset = known
        elif known is not None:
            offset = self.integer(known, i64)
        return self._once(
            (llvm.GEPOp, base, offset, inbounds),
            lambda: self.insert(llvm.GEPOp.at(base, [offset], IntegerType(8), inbounds=inbounds)),
        )

    def xor_address(self, pointer: Value, bits: int) -> Value:
        """A pointer into shared memory with some bits of its address turned over."""
        address = self.insert(llvm.PtrToIntOp(pointer, res=i32))
        turned = self._binary(llvm.XOrOp, address, bits, i32)
        return self.insert(llvm.IntToPtrOp(turned, res=pointer.type))

    # -- the thread ---------------------------------------------------------------------------------------------------

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

    def thread_is_representative(self, lane_mask: int, warp_mask: int) -> Value | None:
        """Whether all these bits of lane and warp are clear; None when there are none."""
        mask = lane_mask | warp_mask << 5
        if not mask:
            return None

        def make() -> Value:
            return self.icmp("eq", self.and_(self.thread, mask), self.integer(0))

        return self.by_thread(("representative", mask), make)

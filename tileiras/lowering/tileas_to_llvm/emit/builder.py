"""Inserts llvm operations into blocks, and keeps facts about their values: constants, values computed before, and the
origins of vector elements.

There are two insertion points.  The current block receives operations that depend on values of the function.  The
prologue, which becomes the beginning of the entry block, receives constants and operations that depend only on the
thread's position; they are emitted once and dominate everything.

Vectors are built from elements and often split again by their users.  An element is therefore taken from its origin,
and `sweep` erases the vectors without other uses: LLVM would do the same, but an operation that is built, printed,
parsed and visited by eight passes costs more than a dictionary here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from tileiras.dialects import llvm
from tileiras.dialects.arith import AddIOp
from tileiras.dialects.vector import ExtractOp, InsertOp, ShuffleOp
from tileiras.ir import (
    UNKNOWN_LOC,
    Attribute,
    Block,
    DenseArrayAttr,
    DenseElementsAttr,
    FloatAttr,
    FloatType,
    IntegerAttr,
    IntegerType,
    Location,
    Operation,
    Type,
    UnitAttr,
    Value,
    VectorType,
    i32,
)
from tileiras.support.named_tuple import NamedTuple

from .types import count_of, element_of, vector_of

Number = Value | int

Spans = Sequence[tuple[int, int]]
"""Of each element the least and the greatest number."""


class Places(NamedTuple):
    """Elements of a vector as one number, zero if None, plus a constant for each."""

    first: Value | None
    constants: Sequence[int]


class FragmentBuilder:
    """Inserts into `block`, with `location` on every operation.

    Operations in the prologue have the location of their first use.
    """

    def __init__(self, block: Block, location: Location = UNKNOWN_LOC) -> None:
        self.block = block
        self.prologue = Block()
        self.location = location
        self._constants: dict[Any, Value] = {}
        self._numbers: dict[Value, int] = {}
        self._patterns: dict[Value, Sequence[int]] = {}
        """Constant -> the bits of its elements."""
        self._spans: dict[Value, tuple[Value, Spans]] = {}
        """Integer that is a number plus an addend, without signed or unsigned wrap -> that number, and the range of
        each element's addend."""
        self._known: dict[Block, dict[Any, Value]] = {}
        """Block -> values computed in it or in blocks that dominate it, by their operations and operands."""
        self._special: dict[Any, Value] = {}
        self._joined: list[Value] = []
        """Operations that only join or extract elements, in the order of their creation."""
        self._elements: dict[Value, Sequence[tuple[Value, int]]] = {}
        """Joined vector -> the origin of each element: a value and a position in it."""
        self._reinterpreted: dict[Value, Value] = {}
        """Result of a bitcast -> its operand."""

    # -- insertion ----------------------------------------------------------------------------------------------------

    def insert(self, op: Operation) -> Any:
        """Insert the operation and return its result (the operation itself if it has no result)."""
        op.location = self.location
        self.block.append(op)
        return op.results[0] if op.results else op

    def dominated(self, block: Block, by: Block) -> None:
        """Make the values computed in `by` so far available in `block`."""
        self._known[block] = dict(self._known.get(by, ()))

    def _make(
        self, kind: type[Operation], operands: tuple[Value, ...], type: Type, attributes: dict[str, Any] | None = None
    ) -> Any:
        """The result of an operation that is built without inference of its fields, which dominates the cost of the
        usual builders."""
        op = kind.create(operands, (type,), attributes, location=self.location)
        self.block.append(op)
        return op._results[0]

    def _pure(
        self, kind: type[Operation], operands: tuple[Value, ...], type: IntegerType | VectorType,
        key: str | None = None, **attributes: llvm.ICmpPredicateAttr | llvm.FCmpPredicateAttr | UnitAttr,
    ) -> Any:  # fmt: skip
        """The result of an operation without effects, built unless an equal one is known here; `key` identifies its
        attributes."""
        return self._once((kind, operands, type, key), lambda: self._make(kind, operands, type, attributes))

    def _once(self, key: Any, make: Callable[[], Value]) -> Value:
        """The value that `make()` computes without effects, unless one is known under `key` in this block."""
        cache = self._known.setdefault(self.block, {})
        result = cache.get(key)
        if result is None:
            result = cache[key] = make()
        return result

    @contextmanager
    def in_prologue(self):
        """Context: the emitted operations depend only on constants and the thread's numbers."""
        block, self.block = self.block, self.prologue
        try:
            yield self
        finally:
            self.block = block

    def once(self, key: str | Sequence[Type | int | str], make: Callable[[], Any]) -> Any:
        """The value made by `make` in the prologue, remembered under `key`."""
        result = self._special.get(key)
        if result is None:
            with self.in_prologue():
                result = self._special[key] = make()
        return result

    # -- constants ----------------------------------------------------------------------------------------------------

    def _constant(self, attribute: Attribute, type: Type) -> Value:
        key = (attribute, type)
        constant = self._constants.get(key)
        if constant is None:
            op = llvm.ConstantOp(attribute, type)
            op.location = self.location
            self.prologue.append(op)
            constant = self._constants[key] = op.results[0]
            if isinstance(attribute, IntegerAttr):
                self._numbers[constant] = attribute.value
        return constant

    def integer(self, value: int, type: IntegerType | VectorType = i32) -> Value:
        """An integer; for a vector type, of equal elements."""
        if isinstance(type, VectorType):
            return self.dense([value] * type.shape[0], type.element_type)
        return self._constant(IntegerAttr(value, type), type)

    def floating(self, value: float, type: FloatType | VectorType) -> Value:
        """A float; for a vector type, of equal elements."""
        element = element_of(type)
        return self.bits([FloatAttr.from_float(value, element).bits] * count_of(type), element)

    def dense(self, values: Sequence[int], element: IntegerType) -> Value:
        """A constant of integers, a scalar for one."""
        mask = (1 << element.width) - 1
        return self.bits([v & mask for v in values], element)

    def bits(self, patterns: Sequence[int], element: FloatType | IntegerType) -> Value:
        """A constant from the elements' bit patterns, a scalar for one."""
        if len(patterns) == 1:
            (pattern,) = patterns
            attribute = (
                IntegerAttr(pattern, element) if isinstance(element, IntegerType) else FloatAttr(pattern, element)
            )
            constant = self._constant(attribute, element)
        else:
            size = max(1, element.width // 8)
            type = VectorType((len(patterns),), element)
            data = b"".join(p.to_bytes(size, "little") for p in patterns)
            constant = self._constant(DenseElementsAttr(type, data), type)
        self._patterns[constant] = patterns
        return constant

    def zeros(self, type: Type) -> Value:
        """Elements, integers or floats, whose bits are all clear."""
        return self.bits([0] * count_of(type), element_of(type))

    def null(self, type: llvm.LLVMPointerType) -> Value:
        """The null pointer of a type."""
        return self.once(("null", type), lambda: self.insert(llvm.ZeroOp(res=type)))

    def poison(self, type: Type) -> Value:
        """`undef`, as `poison`."""
        return self.once(("poison", type), lambda: self.insert(llvm.PoisonOp(res=type)))

    def number(self, value: Number) -> int | None:
        """The number, if it is known at compile time."""
        return value if isinstance(value, int) else self._numbers.get(value)

    def patterns(self, value: Value) -> Sequence[int] | None:
        """The bit patterns of the elements, if they are known at compile time."""
        return self._patterns.get(value)

    def truth(self, value: Value) -> bool | None:
        """The value of a truth value, or of all elements of a vector of them, if known at compile time and equal."""
        number = self._numbers.get(value)
        patterns = set(self._patterns.get(value, ()) if number is None else (number,))
        return bool(patterns.pop()) if len(patterns) == 1 else None

    def value(self, value: Number, type: IntegerType = i32) -> Value:
        return self.integer(value, type) if isinstance(value, int) else value

    # -- vectors ------------------------------------------------------------------------------------------------------

    def _join(
        self, kind: type[Operation], operands: tuple[Value, ...], type: Type, **attributes: DenseArrayAttr
    ) -> Value:
        result = self._make(kind, operands, type, attributes)
        self._joined.append(result)
        return result

    def sweep(self) -> None:
        """Erase joined vectors without uses, whose elements were taken from their origins."""
        for value in reversed(self._joined):
            if not value.has_uses:
                value.owner.erase()
        self._joined.clear()

    def _origins(self, value: Value, positions: Iterable[int]) -> list[tuple[Value, int]]:
        """The origins of elements."""
        elements = self._elements.get(value)
        return [(value, p) for p in positions] if elements is None else [elements[p] for p in positions]

    def common_origin(self, vector: Value) -> tuple[Value, list[int]]:
        """A value that has all elements of the vector, and their positions in it: the vector itself, if not another."""
        origins = self._origins(vector, range(count_of(vector.type)))
        first = origins[0][0]
        if any(value is not first for value, _ in origins):
            return vector, list(range(len(origins)))
        return first, [position for _, position in origins]

    def distinct(self, vector: Value) -> tuple[Value, list[int]]:
        """The elements of different origins, as one value, and the place of each element among them."""
        origins = self._origins(vector, range(count_of(vector.type)))
        places = {origin: place for place, origin in enumerate(dict.fromkeys(origins))}
        return self.build([self.extract(*origin) for origin in places]), [places[origin] for origin in origins]

    def shuffle(self, vector: Value, positions: Sequence[int]) -> Value:
        """The elements at these positions, as one value."""
        result = self._elements_at(vector, positions)
        if vector in self._spans:
            first, spans = self._spans[vector]
            self.has_spans(result, first, [spans[position] for position in positions])
        return result

    def _elements_at(self, vector: Value, positions: Sequence[int]) -> Value:
        if not isinstance(vector.type, VectorType):
            return vector if len(positions) == 1 else self.splat(vector, len(positions))
        if tuple(positions) == tuple(range(vector.type.shape[0])):
            return vector
        patterns = self._patterns.get(vector)
        if patterns is not None:
            return self.bits([patterns[position] for position in positions], vector.type.element_type)
        source = self._reinterpreted.get(vector)
        if source in self._elements and count_of(source.type) == vector.type.shape[0]:
            return self.bitcast(self.shuffle(source, positions), vector_of(vector.type.element_type, len(positions)))
        origins = self._origins(vector, positions)
        source = origins[0][0]
        if source is not vector and all(value is source for value, _ in origins):
            return self.shuffle(source, [position for _, position in origins])
        if len(positions) > 1:
            result = self._shuffle(vector, self.poison(vector.type), positions)
            self._elements[result] = origins
            return result
        operands, type = (vector, self.integer(positions[0])), vector.type.element_type
        return self._once(
            (ExtractOp, *operands), lambda: self._join(ExtractOp, operands, type)
        )

    def _shuffle(self, a: Value, b: Value, positions: Sequence[int]) -> Value:
        type = VectorType((len(positions),), a.type.element_type)
        return self._join(ShuffleOp, (a, b), type, mask=DenseArrayAttr(i32, positions))

    def has_spans(self, value: Value, first: Value, spans: Spans) -> None:
        """Record that each element of an integer, or of a vector of these, is `first` plus a number in its span, and
        that no such sum wraps, signed or unsigned."""
        self._spans[value] = first, tuple(spans)

    def common_spans(self, a: Value, b: Value) -> tuple[Value, Spans, Spans] | None:
        """The common number of two sums, and the spans of each one's addends."""
        mine, its = self._spans.get(a), self._spans.get(b)
        return None if mine is None or its is None or mine[0] is not its[0] else (*mine, its[1])

    def places(self, value: Value) -> Places | None:
        """The value as a number plus a constant for each element, if it is known to be one."""
        if value in self._spans:
            first, spans = self._spans[value]
            return Places(first, [low for low, _ in spans]) if all(low == high for low, high in spans) else None
        patterns = self._patterns.get(value)
        return None if patterns is None else Places(None, patterns)

    def places_from(self, total: Value, a: Value, b: Value) -> None:
        """Record the places of a sum that does not wrap, if an addend has places and the other one is one number."""
        for number, other in ((self.repeated(a), self.places(b)), (self.repeated(b), self.places(a))):
            if number is not None and other is not None:
                first = number if other.first is None else self.insert(AddIOp(number, other.first))
                self.has_spans(total, first, [(constant, constant) for constant in other.constants])
                return

    def repeated(self, vector: Value) -> Value | None:
        """The number that each element is known to be."""
        origins = self._elements.get(vector)
        return self.extract(*origins[0]) if origins and origins.count(origins[0]) == len(origins) else None

    def extract(self, vector: Value, position: int) -> Value:
        return self.shuffle(vector, (position,))

    def splat(self, scalar: Value, count: int) -> Value:
        """A vector of equal elements."""
        if count == 1:
            return scalar
        type = VectorType((count,), scalar.type)
        number = self.number(scalar)
        if number is not None:
            return self.integer(number, type)
        nothing = self.poison(type)
        first = self._join(InsertOp, (nothing, scalar, self.integer(0)), type)
        vector = self._shuffle(first, nothing, (0,) * count)
        self._elements[vector] = [(scalar, 0)] * count
        return vector

    def build(self, scalars: Sequence[Value]) -> Value:
        """One value of these elements."""
        if len(scalars) == 1:
            return scalars[0]
        if all(s is scalars[0] for s in scalars):
            return self.splat(scalars[0], len(scalars))
        vector = self.poison(VectorType((len(scalars),), scalars[0].type))
        for i, scalar in enumerate(scalars):
            vector = self._join(InsertOp, (vector, scalar, self.integer(i)), vector.type)
        self._elements[vector] = [(scalar, 0) for scalar in scalars]
        return vector

    def concat(self, parts: Sequence[Value]) -> Value:
        """Values of equal type end to end, a power of two of them: a tree of shuffles, as many operations as parts."""
        if len(parts) == 1:
            return parts[0]
        if not isinstance(parts[0].type, VectorType):
            return self.build(parts)
        elements = [origin for part in parts for origin in self._origins(part, range(count_of(part.type)))]
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self._shuffle(a, b, range(2 * count_of(a.type))) for a, b in pairs]
        self._elements[parts[0]] = elements
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

    def bitcast(self, value: Value, type: Type) -> Value:
        value = self._reinterpreted.get(value, value)
        if value.type is type:
            return value
        patterns = self._patterns.get(value)
        if patterns is not None and count_of(type) == len(patterns) and element_of(type).width % 8 == 0:
            return self.bits(patterns, element_of(type))
        result = self._join(llvm.BitcastOp, (value,), type)
        self._reinterpreted[result] = value
        return result

    def pack(self, value: Value, word: IntegerType) -> Value:
        """Elements reinterpreted as words of the integer type `word`; a part of a word is zero-extended."""
        element = element_of(value.type)
        total = count_of(value.type) * element.width
        if total < word.width:
            whole = self.bitcast(value, IntegerType(total))
            return self.insert(llvm.ZExtOp(whole, res=word))
        return self.bitcast(value, vector_of(word, total // word.width))

    def unpack(self, words: Value, type: Type) -> Value:
        """The inverse of pack."""
        total = count_of(type) * element_of(type).width
        if total < words.type.width if not isinstance(words.type, VectorType) else False:
            words = self.insert(llvm.TruncOp(words, res=IntegerType(total)))
        return self.bitcast(words, type)

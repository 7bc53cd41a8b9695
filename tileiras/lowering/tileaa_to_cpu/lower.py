"""The state of the lowering of one function, which all families of operations use: values, loops, tiles."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tileiras.analysis.derivations import is_derived, settle
from tileiras.diagnostics import CompileError
from tileiras.ir import Block, Operation, Value, element_type_of, has_no_effect

from .arena import Arena
from .code import Code, Index, vector
from .elements import Lanes, is_known, kind_of
from .elementwise import ELEMENTWISE, constant_lanes
from .plan import Plan, is_single, is_tile
from .rows import Rows
from .shape import EXPRESSIONS, RENAMED, make_range
from .tiles import At, Sunk, Tile, vector_dim

Family = Callable[["Lowering", Any], None]
"""The rule of an operation that is no expression."""


class Features:
    """Properties of the processor that the lowering reads."""

    def __init__(self, lanes: int, registers: int, long_double: str = "", has_scale: bool = False) -> None:
        self.lanes = lanes
        """f32 elements of a vector register."""
        self.registers = registers
        self.long_double = long_double
        """LLVM's type of C's long double, if it is wider than f64."""
        self.has_scale = has_scale
        """Whether an instruction multiplies by powers of two (AVX-512)."""


class Lowering:
    """One function on its way to LLVM IR."""

    def __init__(self, function: Operation, features: Features, families: Mapping[str, Family]) -> None:
        self.name: str = function.attributes["sym_name"].value
        self.families = families
        self.code = Code(features.long_double, features.has_scale)
        self.features = features
        self.plan = Plan(function)
        self.arena = Arena()
        self.values: dict[Value, Any] = {}
        """Vectors of one element for scalars, tiles in memory, views; expressions are absent."""
        self.prologue: list[str] = []
        """Instructions at the entry of the function: addresses of tiles."""
        self.constants: list[str] = []
        """Definitions of constant tiles in the module."""
        self.messages: list[dict[str, Any]] = []
        """Assertions, by number."""
        self.prints = False
        """Whether the kernel writes output."""
        self._memo: dict[tuple[Value, At], Lanes] | None = None
        self._owned: list[list[tuple[int, Tile]]] = []
        self._sunk: dict[Operation, list[Value]] = {}
        self.rows = Rows(self)

    # -- diagnostics -------------------------------------------------------------------------------------------------

    def refuse(self, op: Operation, reason: str = "") -> CompileError:
        about = f": {reason}" if reason else ""
        return CompileError.at_operation(op, f"is not supported on target cpu{about}")

    def require(self, op: Operation, holds: bool, reason: str) -> None:
        """Raise CompileError at the operation unless the condition holds."""
        if not holds:
            raise self.refuse(op, reason)

    # -- elements ----------------------------------------------------------------------------------------------------

    def scalar(self, value: Value) -> str:
        """A scalar as a number."""
        return self.values[value].number(self.code)

    def index(self, value: Value, *, is_unsigned: bool = False) -> Index:
        """An integer, signed by default, as an index."""
        lanes = self.values[value]
        number, width = lanes.number(self.code), lanes.kind.width
        if number.lstrip("-").isdigit():
            return int(number) % (1 << width) if is_unsigned and width < 64 else _signed(int(number), width)
        if width == 64:
            return number
        return self.code.value(f"{'zext' if is_unsigned else 'sext'} {lanes.type} {number} to i64")

    def lanes(self, value: Value, at: At) -> Lanes:
        """Elements of a tile, or a scalar repeated."""
        content = self.values.get(value)
        if isinstance(content, Lanes):
            return content.splat(self.code, at.count)
        if self._memo is None:
            with self.together():
                return self.lanes(value, at)
        return settle((value, at), self._memo, None, self._operands, self._elements)

    def _operands(self, key: tuple[Value, At]) -> list[tuple[Value, At]]:
        """The elements from which those of a value without a place in memory are computed."""
        value, at = key
        op = value.defining_op
        return [] if value in self.values or op is None else self._sources(op, at)

    def _sources(self, op: Operation, at: At) -> list[tuple[Value, At]]:
        """The elements that an operation renames, or those at the same position of the operands."""
        if op.name in RENAMED:
            return [RENAMED[op.name](self, op, at)]
        return [(operand, at) for operand in op.operands] if op.name in ELEMENTWISE else []

    def _elements(self, key: tuple[Value, At], sources: Sequence[tuple[Value, At]]) -> Lanes:
        value, at = key
        content = self.values.get(value)
        if isinstance(content, Lanes):
            return content.splat(self.code, at.count)
        if isinstance(content, Tile):
            return self.load(content, at)
        if isinstance(content, Sunk):
            result = content.elements(at)
            self.store(content.tile, at, result)
            return result
        return self._compute(value, at, sources)

    def _compute(self, value: Value, at: At, sources: Sequence[tuple[Value, At]]) -> Lanes:
        op = value.defining_op
        assert op is not None
        if op.name == "arith.constant":
            return constant_lanes(op.attributes["value"], element_type_of(value.type), at.count)
        if op.name == "nv_tileaa.make_range":
            return make_range(self, op, at)
        operands = [self.lanes(*each) for each in sources]
        if op.name in RENAMED:
            return operands[0].splat(self.code, at.count)
        return ELEMENTWISE[op.name](self, op, operands)

    def _place(self, tile: Tile, at: At) -> tuple[str, int]:
        """The address of the first element, and the distance of neighbours in elements."""
        position = self.code.linear(at.index, tile.shape)
        stride = tile.stride(at.dim) if at.dim >= 0 else 1
        return self.code.offset(tile.pointer, position, tile.type), stride

    def load(self, tile: Tile, at: At) -> Lanes:
        """Elements of a tile in memory."""
        code, (pointer, stride) = self.code, self._place(tile, at)
        if stride == 1 or at.count == 1:
            name = code.value(f"load {vector(tile.type, at.count)}, ptr {pointer}, align {_align(tile)}")
        else:
            whole, name = vector(tile.type, at.count), "poison"
            for lane in range(at.count):
                place = code.offset(pointer, lane * stride, tile.type)
                element = code.value(f"load {tile.type}, ptr {place}, align {_align(tile)}")
                name = code.value(f"insertelement {whole} {name}, {tile.type} {element}, i64 {lane}")
        if tile.as_numbers:
            return Lanes(tile.kind, at.count, name)
        return Lanes(tile.kind, at.count, bits=name)

    def store(self, tile: Tile, at: At, lanes: Lanes) -> None:
        code, (pointer, stride) = self.code, self._place(tile, at)
        name = lanes.number(code) if tile.as_numbers else lanes.stored(code)
        if stride == 1 or at.count == 1:
            code.do(f"store {vector(tile.type, at.count)} {name}, ptr {pointer}, align {_align(tile)}")
            return
        for lane in range(at.count):
            element = code.element(tile.type, at.count, name, lane)
            code.do(f"store {tile.type} {element}, ptr {code.offset(pointer, lane * stride, tile.type)}")

    # -- loops over elements -----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """A stretch of code in which elements are computed once, for all their users."""
        outer, self._memo = self._memo, {}
        try:
            yield
        finally:
            self._memo = outer

    @contextlib.contextmanager
    def over(self, shape: Sequence[int]) -> Iterator[tuple[Index, ...]]:
        """Loops over all positions of a shape."""
        with contextlib.ExitStack() as loops:
            yield tuple(loops.enter_context(self.code.loop(size)).index for size in shape)

    @contextlib.contextmanager
    def each(self, shape: Sequence[int], lanes: int = 0, dim: int = -1) -> Iterator[At]:
        """Loops over the elements of a tile, a vector at a time, along the innermost dimension unless one is given."""
        shape = tuple(shape)
        dim = vector_dim(shape) if dim < 0 else dim
        count = min(lanes or self.features.lanes, shape[dim]) if dim >= 0 else 1
        with contextlib.ExitStack() as loops:
            index = tuple(
                loops.enter_context(self.code.loop(size, count if number == dim else 1)).index
                for number, size in enumerate(shape)
            )
            loops.enter_context(self.together())
            yield At(index, dim if count > 1 else -1, count)

    # -- tiles in memory ---------------------------------------------------------------------------------------------

    def allocate(self, shape: Sequence[int], element: Any, as_numbers: bool = False) -> Tile:
        """Memory for a tile."""
        kind = kind_of(element)
        size = {"float": 4, "double": 8}.get(kind.number, kind.size) if as_numbers else kind.size
        for extent in shape:
            size *= extent
        offset = self.arena.take(size)
        name = f"%tile{len(self.prologue)}"
        self.prologue.append(f"  {name} = getelementptr i8, ptr %arena, i64 {offset}")
        return Tile(name, tuple(shape), kind, as_numbers, offset)

    def hold(self, value: Value, tile: Tile) -> None:
        """Let a value have a tile, up to its last use."""
        tile.root.holders += 1
        self.values[value] = tile
        self._owned[-1].append((self.plan.end(value), tile.root))

    def release(self, tile: Tile) -> None:
        """Free a tile's memory unless it has another use."""
        root = tile.root
        if not root.holders and not root.pins and root.offset is not None:
            self.arena.give_back(root.offset)

    def take(self, value: Value, op: Operation) -> Tile | None:
        """`may_overwrite`, for an operation that keeps the memory while it runs: the value gives it up."""
        tile = self.may_overwrite(value, op)
        if tile is not None:
            self._owned[-1] = [each for each in self._owned[-1] if each[1] is not tile.root]
            tile.root.holders = 0
        return tile

    def may_overwrite(self, value: Value, op: Operation) -> Tile | None:
        """The memory of an operand that nothing needs after the operation; None for other operands."""
        tile = self.values.get(value)
        if not isinstance(tile, Tile) or tile.root.holders != 1 or tile.offset is None:
            return None
        if value.parent_block is not op.parent or self.plan.end(value) > self.plan.positions[op]:
            return None
        if op.regions and self.plan.is_used_inside(value, op):
            return None
        return tile

    def materialize(self, value: Value, tile: Tile | None = None, as_numbers: bool = False) -> Tile:
        """A tile in memory with the elements of a value; a new one unless one is given."""
        content = self.values.get(value)
        if tile is None:
            if isinstance(content, Tile) and content.as_numbers == as_numbers:
                return content
            tile = self.allocate(value.type.shape, value.type.element_type, as_numbers)
        if isinstance(content, Tile) and content.root is tile.root:
            return tile
        with self.each(tile.shape) as at:
            self.store(tile, at, self.lanes(value, at))
        return tile

    def reads(self, value: Value, root: Tile, anywhere: bool = True) -> bool:
        """Whether a value reads a memory: at another element than its own, or anywhere."""

        def operands(key: tuple[Value, bool]) -> list[tuple[Value, bool]] | None:
            value, anywhere = key
            content, op = self.values.get(value), value.defining_op
            if isinstance(content, Tile):
                return None if anywhere and content.root is root else []
            if content is not None or op is None:
                return []
            return [(operand, anywhere or op.name in EXPRESSIONS) for operand in op.operands]

        return not is_derived(((value, anywhere),), operands)

    def keep(self, value: Value, lanes: Lanes) -> None:
        """Give a value one element, in both forms: a use in a branch must not be the first to convert it."""
        lanes.number(self.code), lanes.stored(self.code)
        self.values[value] = lanes

    def fill(
        self, value: Value, elements: Callable[[At], Lanes], lanes: int = 0, dim: int = -1, as_numbers: bool = False
    ) -> None:
        """Give a value the elements that a function returns for each position."""
        if not is_tile(value) or is_single(value):
            with self.together():
                self.keep(value, elements(At((0,) * (value.type.rank if is_tile(value) else 0))))
            return
        tile = self.allocate(value.type.shape, value.type.element_type, as_numbers)
        reduction = self.plan.sinks_into(value.defining_op)
        if reduction is not None and not lanes and dim in (-1, vector_dim(tile.shape)):
            self.hold(value, tile)
            self.values[value] = Sunk(tile, elements)
            self._sunk.setdefault(reduction, []).append(value)
            return
        with self.each(tile.shape, lanes, dim) as at:
            self.store(tile, at, elements(at))
        self.hold(value, tile)

    def reduced(self, reduction: Operation) -> None:
        """After the loops of a reduction: the tiles that were sunk into it are in memory."""
        for value in self._sunk.pop(reduction, ()):
            self.values[value] = self.values[value].tile

    # -- operations --------------------------------------------------------------------------------------------------

    def run(self, block: Block, begin: Callable[[], None] = lambda: None) -> Operation:
        """The operations of a block but its terminator, which is returned; `finish` ends the block.

        `begin` holds the tiles of its arguments.
        """
        self._owned.append([])
        begin()
        *operations, end = block.operations
        early = self._early(operations)
        for op in early:
            self._run(op)
        for op in operations:
            if op not in early:
                self._run(op)
                self._end(self.plan.positions[op])
        return end

    def _early(self, operations: Sequence[Operation]) -> dict[Operation, None]:
        """Operations on scalars and views that depend on no tile: loops over tiles may use all of them."""
        early: dict[Operation, None] = {}
        inside = set(operations)
        for op in operations:
            if op.regions or not has_no_effect(op) or any(is_tile(value) for value in (*op.operands, *op.results)):
                continue
            if all(value.defining_op not in inside or value.defining_op in early for value in op.operands):
                early[op] = None
        return early

    def finish(self) -> None:
        """End the block that was run last: the memory of its tiles is free."""
        self._end(1 << 62)
        self._owned.pop()

    def _end(self, position: int) -> None:
        owned_later = []
        for end, tile in self._owned[-1]:
            if end <= position:
                tile.holders -= 1
                self.release(tile)
            else:
                owned_later.append((end, tile))
        self._owned[-1] = owned_later

    def _run(self, op: Operation) -> None:
        for value in op.results:
            self.require(op, is_known(element_type_of(value.type)), f"elements of type {element_type_of(value.type)}")
        computed = op.name in ELEMENTWISE or op.name in EXPRESSIONS
        if op.name in self.families and not (computed and is_single(op.results[0])):
            self.families[op.name](self, op)
            return
        if not computed:
            raise self.refuse(op)
        (result,) = op.results
        if self.plan.is_expression(op) and not is_single(result):
            return
        if not is_tile(result):
            operands = [self.lanes(operand, At(())) for operand in op.operands]
            self.keep(result, ELEMENTWISE[op.name](self, op, operands))
            return
        self.fill(result, lambda at: self._compute(result, at, self._sources(op, at)))


def _align(tile: Tile) -> int:
    """Bytes that the address of a vector is certainly a multiple of."""
    if tile.is_elsewhere:
        return 1
    return {"float": 4, "double": 8}.get(tile.type, tile.kind.size)


def _signed(number: int, width: int) -> int:
    number &= (1 << width) - 1
    return number - (1 << width) if number >> (width - 1) else number

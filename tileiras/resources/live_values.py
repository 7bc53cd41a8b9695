"""Registers of a thread for a live value of nv_tileas after LLVM and ptxas.

Not every value has registers of its own: values that depend only on the thread's number and on uniform values are
computed at their use, operands of dots are read from shared memory a step at a time, uniform scalars are in uniform
registers or in the constant bank, and comparisons are predicates.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.copied_loads import LOADS
from tileiras.analysis.derivations import uses_through
from tileiras.analysis.dots_in_flight import is_of_tensor_memory
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.ir import BlockArgument, DenseElementsAttr, FloatType, Operation, Pure, TensorType, Value, element_type_of
from tileiras.layout.accumulators import accumulator_of, rescaled_in_place
from tileiras.layout.encoding import is_in_shared, layout_of
from tileiras.targets import Fragment, mma_atom

REMATERIALIZED_WORDS = 8
"""Registers of one rematerializable tile at most: its elements are made a few at a time."""

_DEPTH = 6
"""Operations that are looked through: of longer computations LLVM and ptxas keep results."""

_FLOATS = (
    tileas.AddFOp, tileas.SubFOp, tileas.MulFOp, tileas.DivFOp, tileas.FmaOp, tileas.SqrtOp, tileas.FpToFpOp,
    tileas.MulhSIOp, tileas.MulhUIOp,
)  # fmt: skip
_EXCHANGES = (*tileas.DOTS, tileas.ConvertLayoutOp, tileas.ReduceOp, tileas.ScanOp)
_SCALAR_SOURCES = (
    *LOADS, tileas.ReduceOp, tileas.AtomicRMWOp, tileas.AtomicCASOp, tileas.UnsplatOp,
)  # fmt: skip
_NO_REGISTERS = (aa.MemTokenType, aa.MemRefType, aa.TiledViewType, tileas.BufferType)


def width_of(type: Any) -> int:
    """Bits of an element; pointers are 64-bit numbers."""
    element = type.element_type if isinstance(type, TensorType) else type
    return 64 if isinstance(element, aa.PtrType) else getattr(element, "width", 64)


def register_tile(value: Value) -> TensorType | None:
    """The tile, if each thread holds a fragment of it in registers; None for scalars, and for tiles that are in shared
    memory, stay in tensor memory, or have no layout yet.  Accumulators in flight are in their registers."""
    type = value.type
    if getattr(type, "name", "") == names.IN_FLIGHT:
        type = type.tile
    if not isinstance(type, TensorType) or type.encoding is None or is_in_shared(type):
        return None
    return None if _stays_in_tensor_memory(value) else type


def _stays_in_tensor_memory(value: Value) -> bool:
    """Whether a tile goes from one dot into tensor memory to the next, perhaps of another iteration, or is read from
    there in slices, or rescaled there."""
    if value.has_uses and all(isinstance(user, tileas.ExtractSliceOp) for user in value.users):
        return accumulator_of(value) is not None
    if isinstance(value, BlockArgument) and isinstance(loop := value.block.parent_op, scf.ForOp):
        number = value.index - 1
        yielded = loop.yield_op.operands[number] if number >= 0 else None
        if yielded is not None and is_of_tensor_memory(yielded.defining_op) and number in rescaled_in_place(loop):
            return True
    if not value.has_one_use:
        return False
    (user,) = value.users
    if is_of_tensor_memory(user):
        return user.operands[2] is value and (value.defining_op is None or is_of_tensor_memory(value.defining_op))
    return isinstance(user, scf.YieldOp) and is_of_tensor_memory(value.defining_op)


def fragment_words(value: Value) -> int:
    """32-bit registers of a thread's whole fragment of a tensor."""
    type = register_tile(value)
    return 0 if type is None else words_of_type(type)


def words_of_type(type: TensorType) -> int:
    """32-bit registers of a thread's fragment of a tensor of a type, wherever the tensor lies."""
    return -(-layout_of(type).registers * width_of(type) // 32)


def is_elementwise(op: Operation | None) -> bool:
    """Whether an operation computes a tile element by element."""
    if op is None or op.regions or len(op.results) != 1 or not isinstance(op.results[0].type, TensorType):
        return False
    return isinstance(op, _FLOATS) or op.dialect in ("arith", "math") and not isinstance(op, arith.ConstantOp)


def makes_pairs(op: Operation | None) -> bool:
    """Whether an operation makes two elements of 16 bits at once, in one register (PTX ISA, `cvt.rn.f16x2.f32`)."""
    return isinstance(op, tileas.FpToFpOp) and [width_of(v.type) for v in (*op.operands, *op.results)] == [32, 16]


def is_function(op: Operation) -> bool:
    """Whether an operation is many instructions, so that its result is kept rather than computed again."""
    divisions = (tileas.DivFOp, tileas.SqrtOp, arith.RemFOp)
    return isinstance(op, divisions) or op.dialect == "math" or "div" in op.name or "rem" in op.name


class LiveValues:
    """The terms of the live values of a function, each found once."""

    def __init__(self) -> None:
        self._terms: dict[Value, tuple[str, int] | None] = {}
        self._at_use: dict[Value, bool] = {}
        self._made_of: dict[Value, tuple[Value, ...]] = {}

    def term(self, value: Value) -> tuple[str, int] | None:
        """The term of the model for a live value, and its amount; None for a value without registers."""
        if value not in self._terms:
            self._terms[value] = None if is_read_in_steps(value) or goes_by_element(value) else self._term(value)
        return self._terms[value]

    def made_of(self, value: Value) -> tuple[Value, ...]:
        """A value, and the tiles of floats that it is computed from at its use: they are live up to that use.
        Integers are parts of addresses, whose terms are those of accesses."""
        values = self._made_of.get(value)
        if values is None:
            values = (value,)
            op = value.defining_op
            if op is not None and isinstance(element_type_of(value.type), FloatType) and self.is_made_at_use(value):
                tiles = (each for each in op.operands if isinstance(each.type, TensorType))
                values += tuple(dict.fromkeys(part for tile in tiles for part in self.made_of(tile)))
            self._made_of[value] = values
        return values

    def words(self, value: Value) -> int:
        term = self.term(value)
        return 0 if term is None else term[1]

    def has_own(self, value: Value) -> bool:
        """Whether a tile's elements have registers of their own."""
        term = self.term(value)
        return term is not None and term[0] in ("words", "packed", "unpacked", "narrow_loads")

    def _term(self, value: Value) -> tuple[str, int] | None:
        if isinstance(value.type, _NO_REGISTERS) or width_of(value.type) == 1:
            return None
        type = register_tile(value)
        if type is None:
            kind = None if isinstance(value.type, TensorType) else scalar_kind(value)
            return None if kind is None else (kind, -(-width_of(value.type) // 32))
        if self.is_made_at_use(value):
            return self._made_at_use(value)
        registers, width = layout_of(type).registers, width_of(type)
        if isinstance(type.element_type, aa.PtrType):
            return "pointers", 2 * registers
        if width >= 32:
            return "words", fragment_words(value)
        source = loaded_from(value)
        if source is not None and source.atom.vector_size * width < 32:
            # Each access has a register of its own until elements are packed for their user.
            return "narrow_loads", registers // source.atom.vector_size
        if is_elementwise(value.defining_op) and not makes_pairs(value.defining_op):
            return "unpacked", registers
        return "packed", fragment_words(value)

    def _made_at_use(self, value: Value) -> tuple[str, int] | None:
        """The term of a tile computed at its use: registers beside those of the values that it is computed from."""
        type = value.type
        if isinstance(type.element_type, aa.PtrType):
            return None
        if is_elementwise(value.defining_op) and depends_on_broadcast(value, self):
            # Sums use all elements at once, and LLVM keeps the order of arithmetic on floats.
            reduced = any(isinstance(user, tileas.ReduceOp) for user in value.users)
            if reduced or isinstance(type.element_type, FloatType) or width_of(type) < 32:
                return "broadcast_results", fragment_words(value)
        if not depends_on_thread(value):
            return None
        return "rematerialized", min(REMATERIALIZED_WORDS, fragment_words(value))

    def is_made_at_use(self, value: Value) -> bool:
        if value not in self._at_use:
            self._at_use[value] = is_made_at_use(value)
        return self._at_use[value]


def is_made_at_use(value: Value, depth: int = _DEPTH) -> bool:
    """Whether a tile's elements are made one by one of fewer registers, cheaply: LLVM and ptxas do so where they are
    used."""
    op = value.defining_op
    if isinstance(op, (tileas.BroadcastOp, arith.ConstantOp, tileas.SplatOp, tileas.MakeRangeOp)):
        return True
    if op is None or op.regions or not depth or isinstance(op, _EXCHANGES) or is_function(op):
        return False
    if not op.has_trait(Pure):
        return False
    return all(is_made_at_use(v, depth - 1) for v in op.operands if isinstance(v.type, TensorType))


def goes_by_element(value: Value) -> bool:
    """Whether a reduction consumes a tile element by element while it is computed, from tiles that are still live after
    it: then only a few elements of the tile are live at a time."""
    user = _reduction_of(value)
    return user is not None and not is_made_at_use(value) and _stays_computable(value, user, _DEPTH)


def _reduction_of(value: Value) -> Operation | None:
    """The one operation that uses an elementwise result, if it is a reduction of the same block."""
    users = set(value.users)
    if len(users) != 1 or not is_elementwise(value.defining_op):
        return None
    (user,) = users
    return user if isinstance(user, tileas.ReduceOp) and user.parent is value.parent_block else None


def _stays_computable(value: Value, end: Operation, depth: int) -> bool:
    """Whether the operands of an elementwise result are still available after an operation `end`."""
    op = value.defining_op
    assert op is not None
    tiles = (operand for operand in op.operands if isinstance(operand.type, TensorType))
    return depth > 0 and all(
        is_made_at_use(tile)
        or _is_used_behind(tile, end)
        or is_elementwise(tile.defining_op) and _stays_computable(tile, end, depth - 1)
        for tile in tiles
    )


def _is_used_behind(value: Value, end: Operation) -> bool:
    block = value.parent_block
    here = None if block is None else block.find_ancestor_op(end)
    if here is None:
        return False
    if here is not end:
        return True  # of a block around, which may be executed again
    units = (block.find_ancestor_op(user) for user in value.users)  # type: ignore[union-attr]
    return any(unit is not None and end.is_before_in_block(unit) for unit in units)


def unfolded(value: Value) -> Value:
    """The value in whose registers a value is: LLVM folds multiplications by one, as by the stride of a row's elements,
    and operations that only rename elements."""
    op = value.defining_op
    while isinstance(op, (tileas.ViewOp, tileas.AssumeOp)) or isinstance(op, arith.MulIOp) and _is_one(op.operands[1]):
        value = op.operands[0]
        op = value.defining_op
    return value


def _is_one(value: Value) -> bool:
    op = value.defining_op
    if isinstance(op, tileas.SplatOp):
        return _is_one(op.operand)
    if not isinstance(op, arith.ConstantOp):
        return False
    if isinstance(op.value, DenseElementsAttr):
        return op.value.is_splat and op.value.stored_bits() == [1]
    return getattr(op.value, "value", None) == 1


def loaded_from(value: Value) -> Any:
    """The load that a tile comes from, perhaps under another shape; None when it is computed."""
    source = value.defining_op
    while isinstance(source, tileas.VIEW_LIKE):
        source = source.operand.defining_op
    return source if isinstance(source, LOADS) else None


def depends_on_thread(value: Value, depth: int = _DEPTH) -> bool:
    """Whether a tile is computed from ranges, which differ between threads."""
    op = value.defining_op
    if isinstance(op, tileas.MakeRangeOp):
        return True
    if op is None or not depth:
        return False
    return any(depends_on_thread(v, depth - 1) for v in op.operands if isinstance(v.type, TensorType))


def depends_on_broadcast(value: Value, values: LiveValues, depth: int = _DEPTH) -> bool:
    """Whether a tile is computed from broadcasts of tiles that have registers."""
    op = value.defining_op
    if isinstance(op, tileas.BroadcastOp):
        return not values.is_made_at_use(op.operand)
    if op is None or op.regions or not depth or isinstance(op, (arith.ConstantOp, tileas.SplatOp)):
        return False
    tiles = (v for v in op.operands if isinstance(v.type, TensorType))
    return any(depends_on_broadcast(v, values, depth - 1) for v in tiles)


def is_read_in_steps(value: Value) -> bool:
    """Whether a tile from shared memory only goes to dots, perhaps converted: they read a part of it at a time."""
    source = value.defining_op
    while isinstance(source, tileas.VIEW_LIKE) or source is not None and _converts(source):
        source = source.operands[0].defining_op
    return isinstance(source, (tileas.CopyOp, tileas.ConvertLayoutOp)) and _feeds_dots(value)


def _converts(op: Operation) -> bool:
    return len(op.operands) == 1 and is_elementwise(op)


def _feeds_dots(value: Value) -> bool:
    uses = list(uses_through(value, lambda user: isinstance(user, tileas.VIEW_LIKE) or _converts(user)))
    return bool(uses) and all(isinstance(user, tileas.DOTS) and user.operands[2] is not each for user, each in uses)


def scalar_kind(value: Value, depth: int = 8) -> str | None:
    """`scalars` for values from memory or other threads, `counters` for loop-carried values, None for values computed
    from parameters and the CTA's number."""
    op = value.defining_op
    if op is None:
        return "counters" if isinstance(value.owner.parent_op, (scf.ForOp, scf.WhileOp)) else None
    if isinstance(op, _SCALAR_SOURCES):
        return "scalars"
    if op.regions:
        return "counters"
    if not depth:
        return "scalars"
    kinds = {scalar_kind(v, depth - 1) for v in op.operands if not isinstance(v.type, (TensorType, aa.MemTokenType))}
    return "scalars" if "scalars" in kinds else "counters" if "counters" in kinds else None


def sums_of(op: Operation) -> int:
    """Registers of a thread for the sums of a promoted dot of warpgroups, which it adds to the accumulator."""
    if getattr(op, "promoted", None) is None:
        return 0
    atom = mma_atom(op.atom.atom)  # type: ignore[attr-defined]
    return atom.c.operands if atom.executor == "warpgroup" and isinstance(atom.c, Fragment) else 0

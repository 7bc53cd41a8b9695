"""`instrument-memcheck`: inserts assertions before accesses whose bounds are known.

    %t, %r = load_view_tko weak %v[%i] : partition_view<...>, tile<i32> -> ...
      ->
    %n = get_index_space_shape %v : partition_view<...> -> tile<i64>
    %w = exti %i unsigned : tile<i32> -> tile<i64>
    %k = cmpi less_than %w, %n, unsigned : tile<i64> -> tile<i1>
    assert %k, "kernel.py:12:8: load_view_tko names no tile of the view along dimension 0"

The assertions check for undefined behavior of the Tile IR specification: a tile index outside of the view's index
space; an element outside of the tensor along a dimension that `inbounds` declares in bounds; a pointer outside of the
memory that it was derived from, if that is a global or an `alloca`.  The bounds of memory that is passed to kernels are
not in the program: pointers into it are left to the sanitizer's own instrumentation, which ptxas adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.dialects.cuda_tile import (
    AddIOp,
    AllocaOp,
    AssertOp,
    AtomicCASTkoOp,
    AtomicRedViewTkoOp,
    AtomicRMWTkoOp,
    BroadcastOp,
    CmpIOp,
    ConstantOp,
    ExtIOp,
    GatherScatterViewType,
    GetGlobalOp,
    GetIndexSpaceShapeOp,
    GetTensorShapeOp,
    LoadPtrTkoOp,
    LoadViewTkoOp,
    MulIOp,
    MultimemLoadReduceViewTkoOp,
    MultimemReduceViewTkoOp,
    MultimemStoreViewTkoOp,
    OffsetOp,
    OrIOp,
    PermuteOp,
    PtrToIntOp,
    PtrToPtrOp,
    ReshapeOp,
    StorePtrTkoOp,
    StoreViewTkoOp,
    StridedViewType,
    SubIOp,
    TileType,
    XOrIOp,
)
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicateAttr, IntegerOverflowAttr, SignednessAttr
from tileiras.ir import Attribute, Builder, DenseElementsAttr, IntegerType, Operation, Pass, StringAttr, Value, i1, i64

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.ir.pass_manager import PassContext

_VIEW_ACCESSES = (
    LoadViewTkoOp,
    StoreViewTkoOp,
    AtomicRedViewTkoOp,
    MultimemLoadReduceViewTkoOp,
    MultimemReduceViewTkoOp,
    MultimemStoreViewTkoOp,
)
_POINTERS = {
    LoadPtrTkoOp: "source", StorePtrTkoOp: "destination", AtomicRMWTkoOp: "pointers", AtomicCASTkoOp: "pointers",
}  # fmt: skip
"""Access through pointers -> the name of its pointer operand."""

_SAME_MEMORY = {OffsetOp: "ptr", ReshapeOp: "source", BroadcastOp: "source", PermuteOp: "source", PtrToPtrOp: "source"}
"""Operations whose result points into the same memory as an operand -> that operand."""


class InstrumentMemcheck(Pass):
    name = "instrument-memcheck"
    anchor = "cuda_tile.module"
    needs = "`cuda_tile`"
    establishes = "checks before accesses whose bounds are in the program"
    keeps = "the effects of accesses within bounds"

    def run(self, op: Operation, context: PassContext) -> None:
        symbols = {inner.attributes["sym_name"].value: inner for inner in op.walk() if inner.name == "cuda_tile.global"}
        for access in list(op.walk()):
            if isinstance(access, _VIEW_ACCESSES):
                _check_view(access, _Checks(access))
            elif type(access) in _POINTERS:
                _check_pointers(access, getattr(access, _POINTERS[type(access)]), symbols)


class _Checks:
    """Inserts operations before one access."""

    def __init__(self, access: Operation) -> None:
        self.builder = Builder.before(access)
        self.builder.location = access.location
        self.location = access.location
        self.access = access.name.removeprefix("cuda_tile.")

    def insert(
        self, op_class: type[Operation], *operands: Value, **fields: TileType | Attribute | Sequence[TileType]
    ) -> Any:
        return self.builder.insert(op_class(*operands, location=self.location, **fields))

    def constant(self, value: int, shape: tuple[int, ...]) -> Value:
        data = value.to_bytes(8, "little", signed=True)
        return self.insert(ConstantOp, value=DenseElementsAttr(TileType(shape, i64), data, True)).result

    def wide(self, value: Value, signedness: str) -> Value:
        """An integer tile as one of i64."""
        type = value.type
        if type.element_type is i64:
            return value
        return self.insert(ExtIOp, value, signedness=SignednessAttr(signedness), to=TileType(type.shape, i64)).to

    def spread(self, scalar: Value, shape: tuple[int, ...]) -> Value:
        """A scalar as a tile."""
        if not shape:
            return scalar
        element = scalar.type.element_type
        ones = TileType((1,) * len(shape), element)
        return self.insert(BroadcastOp, self.insert(ReshapeOp, scalar, result=ones).result,
                           result=TileType(shape, element)).result  # fmt: skip

    def subtract(self, left: Value, right: Value) -> Value:
        return self.insert(SubIOp, left, right, overflow=IntegerOverflowAttr("none")).result

    def scaled(self, value: Value, factor: int, addend: int) -> Value:
        """`value * factor + addend` of i64 scalars."""
        none = IntegerOverflowAttr("none")
        product = self.insert(MulIOp, value, self.constant(factor, ()), overflow=none).result
        return self.insert(AddIOp, product, self.constant(addend, ()), overflow=none).result

    def below(self, left: Value, right: Value, predicate: str = "less_than") -> Value:
        """`left < right` of unsigned numbers, so that negative ones are large."""
        return self.insert(
            CmpIOp, left, right, comparison_predicate=ComparisonPredicateAttr(predicate),
            signedness=SignednessAttr("unsigned"), result=TileType(left.type.shape, i1),
        ).result  # fmt: skip

    def insist(self, condition: Value, problem: str) -> None:
        position = self.location.resolve()
        place = f"{position.filename}:{position.line}:{position.column}" if position is not None else str(self.location)
        self.insert(AssertOp, condition, message=StringAttr(f"{place}: {self.access} {problem}"))


def _check_view(access: LoadViewTkoOp, checks: _Checks) -> None:
    view = access.view.type
    rank = len(access.index)
    sparse = view.sparse_dim if isinstance(view, GatherScatterViewType) else None
    space = checks.insert(GetIndexSpaceShapeOp, access.view, result=[TileType((), i64)] * rank).results
    indices = [checks.wide(index, "signed" if at == sparse else "unsigned") for at, index in enumerate(access.index)]
    for at, index in enumerate(indices):
        if at != sparse:
            problem = f"names no tile of the view along dimension {at}"
            checks.insist(checks.below(index, space[at]), problem)
    promised = [at for at, word in enumerate(access.inbounds or ()) if word]
    made_by = access.view.defining_op
    if not promised or made_by is None:
        return
    tensor = made_by.operands[0]
    sizes = checks.insert(GetTensorShapeOp, tensor, result=[TileType((), i64)] * tensor.type.rank).results
    for at in promised:
        size = sizes[_dimension(view, at)]
        problem = f"leaves the tensor along dimension {_dimension(view, at)}, which 'inbounds' rules out"
        if at == sparse:
            checks.insist(checks.below(indices[at], checks.spread(size, indices[at].type.shape)), problem)
            continue
        # The tile index is within the index space here, so that the product does not overflow.
        end = checks.scaled(indices[at], _step(view, at), view.tile_shape[at])
        checks.insist(checks.below(end, size, "less_than_or_equal"), problem)


def _dimension(view: cuda_tile.PartitionViewType, at: int) -> int:
    """The tensor's dimension that a tile dimension runs along."""
    return at if isinstance(view, GatherScatterViewType) else view.dim_map[at]


def _step(view: cuda_tile.PartitionViewType, at: int) -> int:
    """Elements between neighbouring tiles along a dimension."""
    if isinstance(view, GatherScatterViewType):
        return 1
    return view.traversal_strides[at] if isinstance(view, StridedViewType) else view.tile_shape[at]


def _check_pointers(access: LoadPtrTkoOp, pointers: Value, symbols: dict[str, Operation]) -> None:
    root = pointers.defining_op
    while root is not None and type(root) in _SAME_MEMORY:
        root = getattr(root, _SAME_MEMORY[type(root)]).defining_op
    size = _memory_bytes(root, symbols)
    if size is None:
        return
    checks = _Checks(access)
    shape = pointers.type.shape
    addresses = checks.insert(PtrToIntOp, pointers, result=TileType(shape, i64)).result
    base = checks.insert(PtrToIntOp, root.results[0], result=TileType((), i64)).result
    distance = checks.subtract(addresses, checks.spread(base, shape))
    room = size - _bytes(pointers.type.element_type.pointee_type)
    inside = checks.below(distance, checks.constant(max(room, 0), shape), "less_than_or_equal")
    if access.mask is not None:
        ones = checks.insert(ConstantOp, value=DenseElementsAttr(TileType(shape, i1), b"\1", True)).result
        inside = checks.insert(OrIOp, inside, checks.insert(XOrIOp, access.mask, ones).result).result
    checks.insist(inside, f"leaves the {size} bytes of the memory that its pointers are derived from")


def _memory_bytes(root: Operation | None, symbols: dict[str, Operation]) -> int | None:
    """The size of the memory that the pointer defined by `root` points to; None if it is unknown."""
    if isinstance(root, AllocaOp):
        return root.num_elem.value * _bytes(root.result.type.element_type.pointee_type)
    if isinstance(root, GetGlobalOp) and root.symbol.root in symbols:
        type = symbols[root.symbol.root].value.type
        return type.shape[0] * _bytes(type.element_type)
    return None


def _bytes(type: IntegerType) -> int:
    """Bytes of an element in memory; those of four bits share one."""
    return 8 if hasattr(type, "pointee_type") else max(1, type.width // 8)

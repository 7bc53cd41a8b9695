"""Tiles themselves: constants, ranges, changes of shape, parts, selection, coordinates in the grid."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from tileiras.ir import (
    AllRanksMatch,
    AllShapesMatch,
    AllTypesMatch,
    Attribute,
    ConstantLike,
    DenseElementsAttr,
    FloatType,
    IntegerType,
    Location,
    Pure,
    SameOperandsAndResultShape,
    Value,
    VerifyError,
    attribute,
    element_size,
    element_type_of,
    f4E2M1FN,
    i1,
    i32,
    operand,
    result,
    variadic_operand,
)

from .constraints import (
    I1Tile,
    I8Tile,
    I32ArrayAttr,
    I64Attr,
    IntTile,
    Number4Tile,
    NumberTile,
    PointerTile,
    ScalarI32,
    TileConstant,
)
from .operation import TileOp
from .traits import ElementTypesMatch, SameOperandsAndResultElementType
from .types import TileType
from .verifiers import bit_width, shape_text

_SOURCE = "attr-dict `:` custom<CudaTileType>(type($source)) `->` custom<CudaTileType>(type($result))"
SCALAR_I32 = TileType((), i32)


class ConstantOp(TileOp, name="cuda_tile.constant", since="13.1", opcode=0x10, traits=(ConstantLike, Pure)):
    """A tile that is known when compiling."""

    value = attribute(TileConstant(), "the elements")
    result = result(NumberTile, "the tile")
    assembly_format = "custom<DenseTypedElementsAttr>($value, type($result)) attr-dict"

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        return [attributes["value"].type]

    verifies_locally = True

    def verify_op(self) -> None:
        if self.value.type is not self.result.type:
            raise VerifyError("failed to verify that all of {value, result} have same type")

    def fold(self) -> Any:
        return (self.value,)

    @classmethod
    def materialize(cls, value: DenseElementsAttr, type: TileType, location: Location) -> "ConstantOp | None":
        """The constant that a fold found; None for a value other than a tile of numbers."""
        return cls(value=value, location=location) if isinstance(value, DenseElementsAttr) else None

    def asm_result_names(self) -> list[tuple[Any, str]]:
        """`true`, `cst_3_i32`, `cst_f32`: the value when it is one whole number, and the element type."""
        element = self.result.type.element_type
        bits = self.value.stored_bits()
        if element is i1:
            same = len(set(map(bool, bits))) == 1
            return [(self.result, ("true" if bits[0] else "false") if same else "cst_i1")]
        value = f"_{_whole_number(bits[0], element)}" if len(bits) == 1 else ""
        return [(self.result, f"cst{'' if value == '_None' else value}_{element}")]


def _whole_number(bits: int, element: FloatType | IntegerType) -> int | str | None:
    """The part of a constant's name for an element: signed integers, `NaN`, unsigned whole floats, None for the
    rest."""
    if isinstance(element, IntegerType):
        return bits - (1 << element.width) if bits >> (element.width - 1) else bits
    if isinstance(element, FloatType):
        from tileiras.ir import FloatAttr

        number = FloatAttr(bits, element).value
        if number != number:
            return "NaN"
        # As LLVM converts to an unsigned 64-bit integer: -0.0 is not exact.
        if number in (float("inf"), float("-inf")) or number < 0 or number != int(number) or number >= 2.0**64:
            return None
        return None if number == 0 and str(number) == "-0.0" else int(number)
    return None


def constant_element(value: Value) -> int | None:
    """The bits that every element of a constant integer tile has; None when they differ or are not known."""
    constant = value.defining_op
    elements = constant.value if isinstance(constant, ConstantOp) else None
    # The verifier asks as well, of constants that may themselves be wrong.
    if not isinstance(elements, DenseElementsAttr) or not isinstance(element_type_of(value.type), IntegerType):
        return None
    return elements.stored_bits()[0] if elements.is_splat else None


def constant_bool(value: Value) -> bool | None:
    """The value of all elements of a constant tile of i1; None if they differ or are not known."""
    bits = constant_element(value) if value.type.element_type is i1 else None
    return None if bits is None else bool(bits)


class IotaOp(TileOp, name="cuda_tile.iota", since="13.1", opcode=0x3A, traits=(Pure,)):
    """0, 1, 2, ... in a tile of rank 1; the largest number fits the element type read as unsigned."""

    result = result(IntTile, "the numbers")
    assembly_format = "attr-dict `:` custom<CudaTileType>(type($result))"

    verifies_locally = True

    def verify_op(self) -> None:
        type = self.result.type
        if type.rank != 1:
            raise VerifyError("expects result type to be 1-d tile")
        if type.shape[0] > 1 << type.element_type.width:
            raise VerifyError(
                f"the number of elements {type.shape[0]} exceeds the maximum value of element type"
                f" '{type.element_type}'"
            )


class ReshapeOp(TileOp, name="cuda_tile.reshape", since="13.1", opcode=0x5B):
    """The same elements, in row-major order, under another shape."""

    traits = (Pure, SameOperandsAndResultElementType)
    source = operand(TileType, "the input")
    result = result(TileType, "the same elements")
    assembly_format = "$source " + _SOURCE

    verifies_locally = True

    def verify_op(self) -> None:
        if self.source.type.num_elements != self.result.type.num_elements:
            raise VerifyError("expected source tile and result tile to have the same number of elements")

    def asm_result_names(self) -> list[tuple[Any, str]]:
        return [(self.result, "reshape")]


class BroadcastOp(TileOp, name="cuda_tile.broadcast", since="13.1", opcode=0xB):
    """Repeats the input along the dimensions in which its size is 1."""

    traits = (Pure, AllRanksMatch("source", "result"), SameOperandsAndResultElementType)
    source = operand(TileType, "the input")
    result = result(TileType, "the repeated elements")
    assembly_format = "$source " + _SOURCE

    verifies_locally = True

    def verify_op(self) -> None:
        source, target = self.source.type.shape, self.result.type.shape
        if any(a != b and a != 1 for a, b in zip(source, target)):
            raise VerifyError(
                "expects the shape of source tile to be compatible with that of the result tile, but got:"
                f" {shape_text(source)} and {shape_text(target)}"
            )

    def asm_result_names(self) -> list[tuple[Any, str]]:
        return [(self.result, "bcast")]


class PermuteOp(TileOp, name="cuda_tile.permute", since="13.1", opcode=0x53):
    """Reorders dimensions: dimension `i` of the result is dimension `permutation[i]` of the input."""

    traits = (Pure, ElementTypesMatch("source", "result"), AllRanksMatch("source", "result"))
    source = operand(TileType, "the input")
    permutation = attribute(I32ArrayAttr, "which dimension comes where")
    result = result(TileType, "the input with its dimensions reordered")
    assembly_format = "$source $permutation " + _SOURCE

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        source = operands[0].type
        return [source.with_shape(source.shape[dim] for dim in attributes["permutation"])]

    verifies_locally = True

    def verify_op(self) -> None:
        source, target, permutation = self.source.type.shape, self.result.type.shape, self.permutation.elements
        rank = len(source)
        if rank < 2:
            raise VerifyError(f"expects at least rank 2, but got: {rank}")
        if len(permutation) != rank:
            raise VerifyError(f"expect permutation size ({len(permutation)}) to equal the rank of the source ({rank})")
        if len(set(permutation)) != rank:
            raise VerifyError("expect permutation elements to be unique")
        for number, dim in enumerate(permutation):
            if not 0 <= dim < rank:
                raise VerifyError(f"permutation element at index {number} ({dim}) is out of bound [0, {rank})")
        for number, dim in enumerate(permutation):
            if target[number] != source[dim]:
                raise VerifyError(
                    f"result shape invalid at index {number}, expected: {source[dim]}, but got: {target[number]}"
                )


class CatOp(TileOp, name="cuda_tile.cat", since="13.1", opcode=0xC):
    """Puts two tiles next to each other along `dim`."""

    traits = (Pure, AllRanksMatch("lhs", "rhs", "result"), ElementTypesMatch("lhs", "rhs", "result"))
    lhs = operand(TileType, "the tile that comes first")
    rhs = operand(TileType, "the tile that follows")
    dim = attribute(I64Attr, "the dimension along which they follow")
    result = result(TileType, "both tiles")
    assembly_format = (
        "$lhs `,` $rhs `dim` `=` $dim attr-dict `:` custom<CudaTileType>(type($lhs)) `,`"
        " custom<CudaTileType>(type($rhs)) `->` custom<CudaTileType>(type($result))"
    )

    def verify_op(self) -> None:
        left, right, both = (value.type.shape for value in (self.lhs, self.rhs, self.result))
        dim = self.dim.value
        if not 0 <= dim < len(left):
            raise VerifyError(f"expect dim to be [0, {len(left)}), but got: {dim}")
        if left[dim] + right[dim] != both[dim]:
            raise VerifyError(
                f"invalid concat at position {dim}, expected: {left[dim] + right[dim]} but got: {both[dim]}"
            )
        for number in range(len(left)):
            for who, shape in (("rhs", right), ("result", both)):
                if number != dim and left[number] != shape[number]:
                    raise VerifyError(
                        f"expect lhs and {who} shapes to match at non-concat position {number}, expected:"
                        f" {left[number]} but got: {shape[number]}"
                    )


def _verify_parts(
    op: ExtractOp | InsertOp, whole: TileType, part: TileType, names: tuple[str, str], indices: Sequence[Any]
) -> None:
    """`part` divides `whole` evenly and each dimension has one index; `names` are those of the two in diagnostics."""
    big, small = names
    if whole.element_type is not part.element_type:
        raise VerifyError("source and result element type do not match")
    if whole.rank != part.rank:
        raise VerifyError("source and result must have the same rank")
    for dim, (size, share) in enumerate(zip(whole.shape, part.shape)):
        if size % share:
            raise VerifyError(
                f"{big} dimension {dim} size ({size}) must be evenly divisible by {small} dimension {dim} size"
                f" ({share})"
            )
    if len(indices) != whole.rank:
        raise VerifyError(f"expected {whole.rank} indices, but got {len(indices)}")


class ExtractOp(TileOp, name="cuda_tile.extract", since="13.1", opcode=0x26):
    """One of the equal parts of a tile; the indices count parts."""

    traits = (Pure, AllRanksMatch("source", "result"))
    source = operand(TileType, "the tile to cut")
    indices = variadic_operand(ScalarI32, "which part, per dimension")
    result = result(TileType, "the part")
    assembly_format = "$source `[` $indices `]` " + _SOURCE

    def verify_op(self) -> None:
        _verify_parts(self, self.source.type, self.result.type, ("source", "result"), self.indices)

    def warnings(self) -> Iterator[str]:
        """Indices that are known and name no part."""
        for number, (index, size, share) in enumerate(
            zip(self.indices, self.source.type.shape, self.result.type.shape)
        ):
            bits = constant_element(index)
            if bits is None:
                continue
            value = bits - (1 << 32) if bits >> 31 else bits
            if value < 0:
                yield f"extract index {number} has negative value {value}, which may cause undefined behavior"
            last = size // share - 1
            if value > last:
                yield f"extract index {number} value {value} may be out of bounds (max valid index: {last})"


class InsertOp(TileOp, name="cuda_tile.insert", since="13.4", opcode=0x76):
    """A tile with one of its equal parts replaced; the indices count parts."""

    traits = (Pure, AllTypesMatch("destination", "result"))
    source = operand(TileType, "the new part")
    destination = operand(TileType, "the tile around it")
    indices = variadic_operand(ScalarI32, "which part, per dimension")
    result = result(TileType, "the tile with the new part")
    assembly_format = (
        "$source `,` $destination `[` $indices `]` attr-dict `:` custom<CudaTileType>(type($source)) `,`"
        " custom<CudaTileType>(type($destination))"
    )

    def verify_op(self) -> None:
        _verify_parts(self, self.destination.type, self.source.type, ("result", "source"), self.indices)


class SelectOp(TileOp, name="cuda_tile.select", since="13.1", opcode=0x5F):
    """Elements of one tile where the condition holds, of the other where it does not."""

    traits = (
        Pure,
        AllTypesMatch("val_if_true", "val_if_false", "result"),
        AllShapesMatch("cond", "val_if_true", "val_if_false", "result"),
    )
    cond = operand(I1Tile, "which one to take")
    val_if_true = operand(TileType, "elements where the condition holds")
    val_if_false = operand(TileType, "the other elements")
    result = result(TileType, "the selected elements")
    assembly_format = (
        "$cond `,` $val_if_true `,` $val_if_false attr-dict `:` custom<CudaTileType>(type($cond)) `,`"
        " custom<CudaTileType>(type($result))"
    )

    verifies_locally = True

    def verify_op(self) -> None:
        if element_type_of(self.result.type) is f4E2M1FN:
            raise VerifyError("cannot operate on sub-byte type F4E2M1FN")

    def fold(self) -> Any:
        """A selection whose outcome is known, or is one of its operands."""
        cond, first, second = self.operands
        if first is second:
            return (first,)
        condition = constant_bool(cond)
        if condition is not None:
            return (first if condition else second,)
        if self.result.type.element_type is i1 and constant_bool(first) is True and constant_bool(second) is False:
            return (cond,)
        compare = cond.defining_op
        if compare is not None and compare.name == "cuda_tile.cmpi" and {first, second} == set(compare.operands):
            # Where the operands are equal it does not matter which one is taken.
            relation = compare.comparison_predicate.value
            if relation in ("equal", "not_equal"):
                return (second if relation == "equal" else first,)
        constants = [value.defining_op for value in self.operands]
        if all(isinstance(constant, ConstantOp) for constant in constants):
            return (_select_elements(self.result.type, *(constant.value for constant in constants)),)
        return None


def _select_elements(
    type: TileType, cond: DenseElementsAttr, first: DenseElementsAttr, second: DenseElementsAttr
) -> DenseElementsAttr:
    size = element_size(type.element_type)
    sources = [value.data * (type.num_elements if value.is_splat else 1) for value in (second, first)]
    picked = (sources[bool(bit)][at * size : (at + 1) * size] for at, bit in enumerate(cond.element_bits()))
    return DenseElementsAttr(type, b"".join(picked))


class OffsetOp(TileOp, name="cuda_tile.offset", since="13.1", opcode=0x51):
    """Pointers moved by a signed number of elements."""

    traits = (Pure, AllTypesMatch("result", "ptr"), SameOperandsAndResultShape)
    ptr = operand(PointerTile, "where from")
    offset = operand(IntTile, "how many elements further")
    result = result(PointerTile, "the moved pointers")
    assembly_format = (
        "$ptr `,` $offset attr-dict `:` custom<CudaTileType>(type($ptr)) `,` custom<CudaTileType>(type($offset))"
        " `->` custom<CudaTileType>(type($result))"
    )


class _Packing(TileOp):
    """Between a tile of rank 1 and the bytes that hold it."""

    traits = (Pure, AllRanksMatch("source", "result"))
    assembly_format = "$source " + _SOURCE

    def verify_op(self) -> None:
        source, target = self.source.type, self.result.type
        if source.rank != 1:
            raise VerifyError("expects source and result to be rank-1 tiles")
        if bit_width(source.element_type) == bit_width(target.element_type):
            raise VerifyError("expects source and result to have different element type widths")
        sizes = [type.element_type.width * type.num_elements for type in (source, target)]
        for name, size in zip(("source", "result"), sizes):
            if size % 8:
                raise VerifyError(f"expects {name} tile to be byte-aligned")
        if sizes[0] != sizes[1]:
            raise VerifyError(
                "expects source and result to have the same size in bytes, but got source tile size"
                f" {sizes[0] // 8} bytes and result tile size {sizes[1] // 8} bytes"
            )


class PackOp(_Packing, name="cuda_tile.pack", since="13.3", opcode=0x6F):
    """The bytes that hold a tile, low bits first."""

    source = operand(Number4Tile, "the input")
    result = result(I8Tile, "its bytes")


class UnpackOp(_Packing, name="cuda_tile.unpack", since="13.3", opcode=0x70):
    """The tile that bytes hold."""

    source = operand(I8Tile, "the bytes")
    result = result(Number4Tile, "the tile in them")


class _GridQuery(TileOp):
    """Three scalars, one per dimension of the grid."""

    traits = (Pure,)

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        return [SCALAR_I32] * 3


class GetTileBlockIdOp(_GridQuery, name="cuda_tile.get_tile_block_id", since="13.1", opcode=0x30):
    """The coordinates of the running tile block in the grid."""

    blockId_x = result(ScalarI32, "place along x")
    blockId_y = result(ScalarI32, "place along y")
    blockId_z = result(ScalarI32, "place along z")
    assembly_format = "attr-dict `:` custom<CudaTileType>(type($blockId_x))"


class GetNumTileBlocksOp(_GridQuery, name="cuda_tile.get_num_tile_blocks", since="13.1", opcode=0x2E):
    """The number of tile blocks of the grid."""

    gridSize_x = result(ScalarI32, "blocks along x")
    gridSize_y = result(ScalarI32, "blocks along y")
    gridSize_z = result(ScalarI32, "blocks along z")
    assembly_format = "attr-dict `:` custom<CudaTileType>(type($gridSize_x))"

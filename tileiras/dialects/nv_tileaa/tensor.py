"""Operations that make, reshape, combine and reduce tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.dialects.arith import ConstantOp, constant_integer, integer_like
from tileiras.ir import (
    ArrayAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    FloatType,
    HasParent,
    IntegerAttr,
    IntegerType,
    Operation,
    Pure,
    ReturnLike,
    SingleBlock,
    TensorType,
    Terminator,
    Type,
    UnitAttr,
    Value,
    VerifyError,
    attribute,
    element_type_of,
    f32,
    operand,
    region,
    result,
    variadic_operand,
    variadic_result,
)

from .attributes import SignednessAttr

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


class SplatOp(Operation, name="nv_tileaa.splat", traits=(Pure,)):
    """A tensor with all elements equal to the scalar."""

    operand = operand()
    result = result(TensorType)
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    verifies_locally = True

    def verify_op(self) -> None:
        if self.result.type.element_type is not self.operand.type:
            raise VerifyError(f"expects elements of type {self.operand.type}, but got {self.result.type.element_type}")


def splat_integer(value: Value) -> int | None:
    """The signed constant that a number, or each element of a tensor, is; None for other values."""
    op = value.defining_op
    if isinstance(op, SplatOp):
        return constant_integer(op.operand)
    if not isinstance(op, ConstantOp) or not isinstance(op.value, DenseElementsAttr) or not op.value.is_splat:
        return constant_integer(value)
    element = element_type_of(value.type)
    return IntegerAttr(op.value.stored_bits()[0], element).value if isinstance(element, IntegerType) else None


def _expect_elements(tensor: TensorType, *types: Type) -> None:
    """Raise VerifyError unless `types` are, or have, elements of the tensor's type."""
    for type in types:
        if element_type_of(type) is not tensor.element_type:
            raise VerifyError(f"expects elements of type {tensor.element_type}, but got {element_type_of(type)}")


class UnsplatOp(Operation, name="nv_tileaa.unsplat", traits=(Pure,)):
    """The only element of a tensor."""

    operand = operand(TensorType)
    result = result()
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    verifies_locally = True

    def verify_op(self) -> None:
        if self.operand.type.num_elements != 1:
            raise VerifyError(f"expects a tensor of one element, but got {self.operand.type}")
        _expect_elements(self.operand.type, self.result.type)


class MakeRangeOp(Operation, name="nv_tileaa.make_range", traits=(Pure,)):
    """0, 1, 2, ... along one dimension."""

    result = result(TensorType)
    assembly_format = "attr-dict `:` type($result)"

    verifies_locally = True

    def verify_op(self) -> None:
        type = self.result.type
        if type.rank != 1 or not isinstance(type.element_type, IntegerType):
            raise VerifyError(f"expects integers along one dimension, but got {type}")


class _Shape(Operation):
    traits = (Pure,)
    operand = operand(TensorType)
    result = result(TensorType)
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    verifies_locally = True

    def verify_op(self) -> None:
        _expect_elements(self.operand.type, self.result.type)


class ViewOp(_Shape, name="nv_tileaa.view"):
    """The same elements in row-major order under another shape."""

    def verify_op(self) -> None:
        super().verify_op()
        if self.operand.type.num_elements != self.result.type.num_elements:
            raise VerifyError("requires the same number of elements")


class BroadcastOp(_Shape, name="nv_tileaa.broadcast"):
    """Repeats along the dimensions of size one; the rank stays."""

    def verify_op(self) -> None:
        super().verify_op()
        source, target = self.operand.type.shape, self.result.type.shape
        if len(source) != len(target) or any(s not in (1, t) for s, t in zip(source, target)):
            raise VerifyError(f"cannot broadcast {self.operand.type} to {self.result.type}")


class PermuteOp(_Shape, name="nv_tileaa.permute"):
    """Result dimension i is operand dimension `permutation[i]`."""

    permutation = attribute(DenseArrayAttr)

    def verify_op(self) -> None:
        super().verify_op()
        order = self.permutation.elements
        if sorted(order) != list(range(self.operand.type.rank)):
            raise VerifyError("expects a permutation of the operand's dimensions")
        if self.result.type.shape != tuple(self.operand.type.shape[d] for d in order):
            raise VerifyError(f"cannot permute {self.operand.type} to {self.result.type}")


class CatOp(Operation, name="nv_tileaa.cat", traits=(Pure,)):
    """`lhs` and then `rhs` along `dim`."""

    lhs = operand(TensorType)
    rhs = operand(TensorType)
    dim = attribute(IntegerAttr)
    result = result(TensorType)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)"

    def verify_op(self) -> None:
        lhs, rhs, whole, dim = self.lhs.type, self.rhs.type, self.result.type, self.dim.value
        if not 0 <= dim < lhs.rank:
            raise VerifyError(f"expects a dimension of {lhs}, but got {dim}")
        _expect_elements(lhs, rhs, whole)
        sizes = [type.shape[:dim] + type.shape[dim + 1 :] for type in (lhs, rhs, whole) if type.rank == lhs.rank]
        if sizes != [sizes[0]] * 3 or whole.shape[dim] != lhs.shape[dim] + rhs.shape[dim]:
            raise VerifyError(f"cannot concatenate {lhs} and {rhs} along dimension {dim} to {whole}")


def _verify_slice(part: TensorType, whole: TensorType, coords: Sequence[Value]) -> None:
    """Raise VerifyError unless `whole` is divided into parts, one of them at `coords`."""
    _expect_elements(whole, part)
    if part.rank != whole.rank or any(n % size for n, size in zip(whole.shape, part.shape)):
        raise VerifyError(f"cannot cut {whole} into {part}")
    if len(coords) != whole.rank:
        raise VerifyError(f"expects {whole.rank} coordinates, but got {len(coords)}")


class ExtractSliceOp(Operation, name="nv_tileaa.extract_slice", traits=(Pure,)):
    """The part of `source` at `coords`, counted in units of the result's shape."""

    source = operand(TensorType)
    coords = variadic_operand(integer_like)
    result = result(TensorType)
    assembly_format = "$source `[` $coords `]` attr-dict `:` type($source) `,` `(` type($coords) `)` `->` type($result)"

    def verify_op(self) -> None:
        _verify_slice(self.result.type, self.source.type, self.coords)

    def fold(self) -> tuple[Value] | None:
        """The only part of a tile is the tile: its coordinates can but be zero."""
        return (self.source,) if self.result.type is self.source.type else None


class InsertSliceOp(Operation, name="nv_tileaa.insert_slice", traits=(Pure,)):
    """`dest` with the part at `coords` (counted in units of the slice's shape) replaced."""

    source = operand(TensorType, "the slice")
    dest = operand(TensorType)
    coords = variadic_operand(integer_like)
    result = result(TensorType)
    assembly_format = (
        "$source `into` $dest `[` $coords `]` attr-dict"
        " `:` type($source) `,` type($dest) `,` `(` type($coords) `)` `->` type($result)"
    )

    def verify_op(self) -> None:
        _verify_slice(self.source.type, self.dest.type, self.coords)
        if self.result.type is not self.dest.type:
            raise VerifyError(f"expects a result of type {self.dest.type}, but got {self.result.type}")


COLLECTIVES = tuple(f"{dialect}.{name}" for dialect in ("nv_tileaa", "nv_tileas") for name in ("reduce", "scan"))
"""Operations with a combiner, at both levels."""


class YieldOp(Operation, name="nv_tileaa.yield", traits=(Pure, ReturnLike, Terminator, HasParent(*COLLECTIVES))):
    """Ends the region of a reduce or scan."""

    values = variadic_operand()
    assembly_format = "attr-dict ($values^ `:` type($values))?"


class _Collective(Operation):
    """Inputs combined along `dim` by a region over scalars.

    The region's arguments are the running values (one per input), then the next elements (one per input); it yields the
    new running values.  `identities` has one constant per input.
    """

    inputs = variadic_operand(TensorType)
    dim = attribute(IntegerAttr)
    identities = attribute(ArrayAttr)
    terminator = "nv_tileaa.yield"
    results_ = variadic_result()
    body = region("the combiner")

    def verify_op(self) -> None:
        count = len(self.inputs)
        for value in self.inputs:
            if not 0 <= self.dim.value < value.type.rank:
                raise VerifyError(f"expects a dimension of {value.type}, but got {self.dim.value}")
        if len(self.body.blocks) != 1:
            raise VerifyError("expects one block")
        block = self.body.block
        if len(block.arguments) != 2 * count or len(self.results) != count or len(block.last.operands) != count:
            raise VerifyError("expects two region arguments, one yielded value and one result per input")
        if block.last.name != self.terminator:
            raise VerifyError(f"expects regions to end with '{self.terminator}'")
        first = self.inputs[0].type if count else None
        elements = [value.type.element_type for value in self.inputs]
        if [argument.type for argument in block.arguments] != 2 * elements:
            raise VerifyError("expects region arguments of the elements' types, those of all inputs twice")
        if [value.type for value in block.last.operands] != elements:
            raise VerifyError("expects the region to yield values of the elements' types")
        for value, entry in zip(self.inputs, self.results):
            if value.type.with_element_type(first.element_type) is not first:
                raise VerifyError(f"expects inputs of one shape and layout, but got {first} and {value.type}")
            shape = self.result_shape(value.type.shape)
            _expect_elements(value.type, entry.type)
            if (entry.type.shape if isinstance(entry.type, TensorType) else ()) != shape:
                raise VerifyError(f"expects a result of shape {list(shape)}, but got {entry.type}")

    def result_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the result for an input of this one."""
        return shape

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.print_operands(self.inputs)
        printer.print_optional_attr_dict(self.attributes)
        printer.write(" : (")
        for number, value in enumerate(self.inputs):
            printer.write(", " if number else "")
            printer.print_type(value.type)
        printer.write(") -> (")
        for number, value in enumerate(self.results):
            printer.write(", " if number else "")
            printer.print_type(value.type)
        printer.write(") ")
        printer.print_region(self.body)

    @classmethod
    def parse_custom(cls, parser: Parser) -> Any:
        operands = parser.parse_operand_list()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated(parser.parse_type, "(", ")")
        parser.parse_punctuation("->")
        results = parser.parse_comma_separated(parser.parse_type, "(", ")")
        if len(types) != len(operands):
            raise parser.error(parser.offset, f"expected {len(operands)} operand types, got {len(types)}")
        values = [parser.resolve_operand(value, type) for value, type in zip(operands, types)]
        body = parser.parse_region()
        return cls.create(values, results, attributes, (body,), location=parser.location)


class ReduceOp(_Collective, name="nv_tileaa.reduce", traits=(Pure, SingleBlock)):
    """Results lack dimension `dim`; a result of rank 0 is a scalar."""

    def result_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[: self.dim.value] + shape[self.dim.value + 1 :]


class ScanOp(_Collective, name="nv_tileaa.scan", traits=(Pure, SingleBlock)):
    """Inclusive; from the end when `reverse`."""

    reverse = attribute(UnitAttr, optional=True)


def verify_product(a: TensorType, b: TensorType, c: TensorType, d: TensorType) -> None:
    """Raise VerifyError unless `d = a @ b + c` has shapes that fit."""
    if c is not d:
        raise VerifyError(f"expects the accumulator's type for the result, but got {c} and {d}")
    if d.rank not in (2, 3):
        raise VerifyError(f"expects rank-2 or rank-3 tensor for result, but got ({d.rank})")
    if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        raise VerifyError("expects the shape of operand #A and #B to be compatible")
    if d.shape != (*a.shape[:-1], b.shape[-1]):
        raise VerifyError("expects the shape of operand #C is compatible with operands #A and #B")


class DotOp(Operation, name="nv_tileaa.dot", traits=(Pure,)):
    """`a @ b + c` over the last two dimensions, with an optional leading batch dimension."""

    a = operand(TensorType, "[batch x] M x K")
    b = operand(TensorType, "[batch x] K x N")
    c = operand(TensorType, "[batch x] M x N")
    signedness_a = attribute(SignednessAttr, "of integer elements", optional=True)
    signedness_b = attribute(SignednessAttr, "of integer elements", optional=True)
    result = result(TensorType)
    assembly_format = "$a `,` $b `,` $c attr-dict `:` type($a) `,` type($b) `->` type($result)"

    def verify_shapes(self) -> None:
        """Raise VerifyError unless the operands fit."""
        verify_product(*(value.type for value in (self.a, self.b, self.c, self.result)))

    def verify_op(self) -> None:
        a, b, c = (value.type.element_type for value in (self.a, self.b, self.c))
        self.verify_shapes()
        if len({isinstance(element, FloatType) for element in (a, b, c)}) > 1:
            raise VerifyError("expected the element types of A, B, C, and D to be either all integers or all floats.")
        if a.width != b.width:
            raise VerifyError(f"expects #A and #B have same bit width but got {a.width} and {b.width}")
        if isinstance(a, FloatType):
            if a.width == 4:
                raise VerifyError("fp4 mma should expect scaling factors")
            if c.keyword not in ("f16", "f32") and a.width == 8:
                raise VerifyError(f"expects #C element type to be either f32 or f16, but got {c}")
            if c.keyword != "f32" and a.keyword in ("bf16", "tf32"):
                raise VerifyError(f"expects #C element type to be f32, but got {c}")
            return
        for name, signedness in (("A", self.signedness_a), ("B", self.signedness_b)):
            if signedness is None:
                raise VerifyError(f"expect signedness attribute for operand {name}")


class BlockScaledMmaOp(Operation, name="nv_tileaa.block_scaled_mma", traits=(Pure,)):
    """`(a * scale_a) @ (b * scale_b) + c`, where one scale serves a run of elements along K."""

    a = operand(TensorType, "[batch x] M x K")
    b = operand(TensorType, "[batch x] K x N")
    c = operand(TensorType, "[batch x] M x N")
    scale_a = operand(TensorType, "[batch x] M x K / block")
    scale_b = operand(TensorType, "[batch x] K / block x N")
    result = result(TensorType)
    assembly_format = (
        "$a `scale` $scale_a `,` $b `scale` $scale_b `,` $c attr-dict"
        " `:` type($a) `,` type($scale_a) `,` type($b) `,` type($scale_b) `->` type($result)"
    )

    @property
    def block(self) -> int:
        """How many elements share a scale."""
        return self.a.type.shape[-1] // self.scale_a.type.shape[-1]

    @property
    def all_columns(self) -> TensorType:
        """The type of all of B."""
        return self.b.type

    def verify_op(self) -> None:
        verify_product(self.a.type, self.all_columns, self.c.type, self.result.type)
        if self.scale_a.type.element_type is not self.scale_b.type.element_type:
            raise VerifyError("sfa and sfb element type mismatch")
        if self.c.type.element_type is not f32:
            raise VerifyError("expects c type to be Float32")
        a, b = self.scale_a.type.shape, self.scale_b.type.shape
        if len(a) != self.a.type.rank or len(b) != self.b.type.rank or not all((*a, *b)):
            raise VerifyError("expects scales of the rank of their factors")
        if a[:-2] != b[:-2] or a[:-1] != self.a.type.shape[:-1] or b[-1] != self.all_columns.shape[-1]:
            raise VerifyError("expects scales for the rows of A and the columns of B")
        if a[-1] != b[-2]:
            raise VerifyError(f"Scale factor vector size mismatch:{a[-1]}, {b[-2]}")
        if self.a.type.shape[-1] % a[-1]:
            raise VerifyError("expects runs of equal length along K")


Dot = DotOp | BlockScaledMmaOp

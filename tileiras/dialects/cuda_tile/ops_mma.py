"""Matrix multiplications: `acc + lhs x rhs` over the last two dimensions, with an optional batch dimension in front."""

from __future__ import annotations

from typing import Any

from tileiras.ir import (
    AllRanksMatch,
    AllTypesMatch,
    FloatType,
    Pure,
    UnitAttr,
    VerifyError,
    attribute,
    bf16,
    f4E2M1FN,
    f8E4M3FN,
    f8E5M2,
    f8E8M0FNU,
    f16,
    f32,
    f64,
    fnv8E5M3FNU,
    i8,
    i32,
    operand,
    result,
    tf32,
)

from .attributes import SignednessAttr
from .constraints import TileOf
from .operation import TileOp
from .traits import ElementTypesMatch
from .verifiers import shape_text

ACCUMULATORS: dict[Any, tuple] = {
    f4E2M1FN: (f16, f32),
    f8E4M3FN: (f16, f32),
    f8E5M2: (f16, f32),
    f16: (f16, f32),
    bf16: (f32,),
    tf32: (f32,),
    f32: (f32,),
    f64: (f64,),
}
"""Element types of mmaf: factor -> accumulators."""


def _match(names: tuple[str, str], shapes: tuple, dims: tuple[int, int], lead: str = "") -> None:
    """Dimension `dims[0]` of one tile is as large as dimension `dims[1]` of the other."""
    first, second = names
    one, two = shapes[0][dims[0]], shapes[1][dims[1]]
    if one != two:
        raise VerifyError(
            f"{lead}shape error: dim {dims[0]} of {first} ({one}) and dim {dims[1]} of {second} ({two}) must match,"
            f" but got {first} shape ({shape_text(shapes[0])}) and {second} shape ({shape_text(shapes[1])})"
        )


def verify_shapes(op: MmaFOp | MmaFScaledOp | MmaIOp) -> int:
    """Raise VerifyError unless the shapes are those of a product; return the number of batch dimensions."""
    lhs, rhs, acc = (value.type.shape for value in (op.lhs, op.rhs, op.acc))
    if len(lhs) not in (2, 3):
        raise VerifyError("operands must be 2D or 3D tiles")
    batch = len(lhs) - 2
    if batch:
        _match(("lhs", "rhs"), (lhs, rhs), (0, 0))
        _match(("lhs", "acc"), (lhs, acc), (0, 0))
    # The reference puts a space in front of these three.
    _match(("lhs", "rhs"), (lhs, rhs), (batch + 1, batch), " ")
    _match(("lhs", "acc"), (lhs, acc), (batch, batch), " ")
    _match(("rhs", "acc"), (rhs, acc), (batch + 1, batch + 1), " ")
    return batch


class MmaFOp(TileOp, name="cuda_tile.mmaf", since="13.1", opcode=0x49, group="Floating Point"):
    """Product of floating-point matrices."""

    traits = (
        Pure,
        AllTypesMatch("acc", "result"),
        ElementTypesMatch("lhs", "rhs"),
        AllRanksMatch("lhs", "rhs", "acc"),
    )
    lhs = operand(TileOf(f16, bf16, f32, f64, tf32, f8E4M3FN, f8E5M2, name="mmaf operand tile type"), "M x K")
    rhs = operand(TileOf(f16, bf16, f32, f64, tf32, f8E4M3FN, f8E5M2, name="mmaf operand tile type"), "K x N")
    acc = operand(TileOf(f16, f32, f64, name="mmaf acc/result tile type"), "M x N, added to the product")
    fast_acc = attribute(
        UnitAttr, "8-bit factors may be summed with less than f32 precision, as sm_89 and sm_90 do", optional=True,
        since="13.3",
    )  # fmt: skip
    result = result(TileOf(f16, f32, f64, name="mmaf acc/result tile type"), "M x N")
    assembly_format = (
        "$lhs `,` $rhs `,` $acc (`fast_acc` $fast_acc^)? attr-dict `:` custom<CudaTileType>(type($lhs)) `,`"
        " custom<CudaTileType>(type($rhs)) `,` custom<CudaTileType>(type($acc))"
    )

    def verify_op(self) -> None:
        verify_shapes(self)
        factor, total = self.lhs.type.element_type, self.acc.type.element_type
        allowed = ACCUMULATORS.get(factor)
        if allowed is None:
            raise VerifyError(f"unsupported input element type: '{factor}'")
        if total not in allowed:
            words = ", ".join(f"'{type}'" for type in allowed)
            raise VerifyError(
                f"unsupported combination of element types. Input type '{factor}' expects accumulator/result type to be"
                f" one of {{{words}}}, but got '{total}'"
            )


_SCALES = TileOf(f8E4M3FN, f8E8M0FNU, name="mmaf_scaled scale tile type", newer=(fnv8E5M3FNU,))


class MmaFScaledOp(TileOp, name="cuda_tile.mmaf_scaled", since="13.3", opcode=0x72, group="Floating Point"):
    """Product of 8- or 4-bit floating-point matrices whose blocks along K share a scale."""

    traits = (
        Pure,
        AllTypesMatch("acc", "result"),
        ElementTypesMatch("lhs", "rhs"),
        ElementTypesMatch("lhs_scale", "rhs_scale"),
        AllRanksMatch("lhs", "rhs", "acc", "lhs_scale", "rhs_scale"),
    )
    lhs = operand(TileOf(f8E4M3FN, f8E5M2, f4E2M1FN, name="mmaf_scaled operand tile type"), "M x K")
    rhs = operand(TileOf(f8E4M3FN, f8E5M2, f4E2M1FN, name="mmaf_scaled operand tile type"), "K x N")
    acc = operand(TileOf(f32, name="mmaf_scaled result tile type"), "M x N, added to the product")
    lhs_scale = operand(_SCALES, "M x K/block")
    rhs_scale = operand(_SCALES, "K/block x N")
    result = result(TileOf(f32, name="mmaf_scaled result tile type"), "M x N")
    assembly_format = (
        "$lhs `,` $rhs `,` $acc `,` $lhs_scale `,` $rhs_scale attr-dict `:` custom<CudaTileType>(type($lhs)) `,`"
        " custom<CudaTileType>(type($rhs)) `,` custom<CudaTileType>(type($acc)) `,`"
        " custom<CudaTileType>(type($lhs_scale)) `,` custom<CudaTileType>(type($rhs_scale))"
    )

    def verify_op(self) -> None:
        batch = verify_shapes(self)
        lhs, rhs = self.lhs.type.shape, self.rhs.type.shape
        lhs_scale, rhs_scale = self.lhs_scale.type.shape, self.rhs_scale.type.shape
        if batch:
            _match(("lhs", "lhs_scale"), (lhs, lhs_scale), (0, 0))
            _match(("rhs", "rhs_scale"), (rhs, rhs_scale), (0, 0))
        row, column = batch, batch + 1
        _match(("lhs", "lhs_scale"), (lhs, lhs_scale), (row, row))
        _match(("rhs", "rhs_scale"), (rhs, rhs_scale), (column, column))
        _match(("lhs_scale", "rhs_scale"), (lhs_scale, rhs_scale), (column, row))
        factor, scale = self.lhs.type.element_type, self.lhs_scale.type.element_type
        if scale is not f8E8M0FNU and factor is not f4E2M1FN:
            raise VerifyError(
                f"unsupported combination of element types. Scale type '{scale}' expects lhs and rhs element types"
                f" to be '{f4E2M1FN}', but got '{factor}'"
            )
        if lhs[column] % lhs_scale[column]:
            raise VerifyError(
                f"shape error: dim {column} of lhs_scale ({lhs_scale[column]}) must be a divisor of dim {column} of lhs"
                f" ({lhs[column]}), but got lhs_scale shape ({shape_text(lhs_scale)}) and lhs shape ({shape_text(lhs)})"
            )
        self._verify_block(lhs[column] // lhs_scale[column], factor, scale)

    @staticmethod
    def _verify_block(block: int, factor: FloatType, scale: FloatType) -> None:
        """Blocks are as long as the block-scaled mma instructions have them (PTX ISA, mma .block_scale)."""
        requires = "requires block scale factor of lhs_scale and rhs_scale to be"
        if factor is not f4E2M1FN:
            if block != 32:
                raise VerifyError(f"shape error: f8 element type {requires} 32, but got {block}")
        elif scale is f8E4M3FN:
            if block != 16:
                raise VerifyError(
                    f"shape error: f4E2M1FN element type with f8E4M3FN scales {requires} 16, but got {block}"
                )
        elif block not in (16, 32):
            raise VerifyError(
                f"shape error: f4E2M1FN element type with {scale} scales {requires} 16 or 32, but got {block}"
            )


class MmaIOp(TileOp, name="cuda_tile.mmai", since="13.1", opcode=0x4A, group="Integer"):
    """Product of 8-bit integer matrices, summed in 32 bits."""

    traits = (
        Pure,
        AllTypesMatch("acc", "result"),
        ElementTypesMatch("lhs", "rhs"),
        AllRanksMatch("lhs", "rhs", "acc"),
    )
    lhs = operand(TileOf(i8, name="mmai operand tile type"), "M x K")
    rhs = operand(TileOf(i8, name="mmai operand tile type"), "K x N")
    acc = operand(TileOf(i32, name="mmai acc tile type"), "M x N, added to the product")
    signedness_lhs = attribute(SignednessAttr, "whether lhs is read as signed or unsigned")
    signedness_rhs = attribute(SignednessAttr, "whether rhs is read as signed or unsigned")
    result = result(TileOf(i32, name="mmai result tile type"), "M x N")
    assembly_format = (
        "$lhs `,` $rhs `,` $acc custom<Signedness>($signedness_lhs) custom<Signedness>($signedness_rhs) attr-dict `:`"
        " custom<CudaTileType>(type($lhs)) `,` custom<CudaTileType>(type($rhs)) `,` custom<CudaTileType>(type($acc))"
    )

    def verify_op(self) -> None:
        verify_shapes(self)

"""Warp-level matrix instructions and asynchronous copies (PTX ISA, "mma", "ldmatrix", "cp.async")."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.dialects.llvm.base import llvm_type, pointer
from tileiras.dialects.llvm.types import LLVMPointerType, llvm_text
from tileiras.ir import (
    AttrSizedOperandSegments,
    Convergent,
    IntegerAttr,
    MemoryRead,
    MemoryWrite,
    Value,
    VerifyError,
    attribute,
    i32,
    operand,
    optional_operand,
    result,
    variadic_operand,
)

from .attributes import (
    BlockScaleFormatAttr,
    LdStMatrixEltTypeAttr,
    LoadCacheModifierAttr,
    MMABlockScaleKindAttr,
    MMAIntOverflowAttr,
    MMALayoutAttr,
    MMATypeAttr,
    ScaleVecSizeAttr,
)
from .base import NVVMOp, intrinsic
from .intrinsics import Intrinsic

if TYPE_CHECKING:
    pass


class _MmaOp(NVVMOp):
    """Base of the dots: `shape` is M, N and K in one."""

    def __init__(
        self,
        *operands: Value | Sequence[Value],
        shape: tuple[int, int, int] | None = None,
        **by_name: object,
    ) -> None:
        if shape is not None:
            by_name.update({name: IntegerAttr(size, i32) for name, size in zip("mnk", shape)})
        super().__init__(*operands, **by_name)


def _by_types(find: Callable[[Any], Intrinsic]) -> Callable[[Any], Intrinsic]:
    """Cache `target` for all operations of equal attributes and types: a dot has hundreds, and the verifier and the
    writers call it."""
    cache: dict[tuple, Intrinsic] = {}

    @functools.wraps(find)
    def target(self: Any) -> Intrinsic:
        key = (*self.attributes.items(), *[value.type for value in (*self._operands, *self._results)])
        row = cache.get(key)
        if row is None:
            row = cache[key] = find(self)
        return row

    return target


class MmaOp(_MmaOp, name="nvvm.mma.sync", traits=(Convergent, AttrSizedOperandSegments)):
    """`mma.sync`: D = A * B + C over a warp, A row-major, B column-major.

    Operands are the registers of each fragment in PTX order: `<2 x half>` for f16, i32 (two bf16, one tf32, four 8-bit
    values) for the other packed types, f64 for f64.  The result is a struct of the D registers.  `intOverflowBehavior`
    determines integer sums that do not fit 32 bits; without it they wrap.
    """

    operandA = variadic_operand(llvm_type)
    operandB = variadic_operand(llvm_type)
    operandC = variadic_operand(llvm_type)
    m = attribute(IntegerAttr)
    n = attribute(IntegerAttr)
    k = attribute(IntegerAttr)
    multiplicandAPtxType = attribute(MMATypeAttr)
    multiplicandBPtxType = attribute(MMATypeAttr)
    accumulatorPtxType = attribute(MMATypeAttr)
    intOverflowBehavior = attribute(MMAIntOverflowAttr, optional=True)
    res = result(llvm_type)
    assembly_format = (
        "`A` `[` $operandA `]` `B` `[` $operandB `]` `C` `[` $operandC `]` attr-dict"
        " `:` functional-type(operands, results)"
    )

    @_by_types
    def target(self) -> Intrinsic:
        a, b, d = (t.value for t in (self.multiplicandAPtxType, self.multiplicandBPtxType, self.accumulatorPtxType))
        shape = f"mma.m{self.m.value}n{self.n.value}k{self.k.value}.row.col"
        if a == "f16":
            name = f"{shape}.{d}.{d}"
        elif a in ("e4m3", "e5m2"):
            name = f"{shape}.{d}.{a}.{b}.{d}"
        else:
            overflow = self.intOverflowBehavior
            saturating = ".satfinite" if overflow is not None and overflow.value == "satfinite" else ""
            name = f"{shape}{saturating}.{a}" if a == b else f"{shape}{saturating}.{a}.{b}"
        row = intrinsic(name)
        entry = tuple(llvm_text(value.type) for value in self.operands)
        if entry != row.operands or llvm_text(self.res.type) != row.result:
            raise VerifyError(
                f"expects fragments ({', '.join(row.operands)}) -> {row.result}, got ({', '.join(entry)})"
                f" -> {llvm_text(self.res.type)}"
            )
        return row


class MmaBlockScaleOp(_MmaOp, name="nvvm.mma.block_scale", traits=(Convergent, AttrSizedOperandSegments)):
    """`mma.sync` with `.block_scale`: D = (A * scale A) * (B * scale B) + C.

    The scales of a row or column are the low bytes of one i32, in the first threads that hold the row or column: byte
    and thread selectors are 0.
    """

    operandA = variadic_operand(llvm_type)
    operandB = variadic_operand(llvm_type)
    operandC = variadic_operand(llvm_type)
    scaleA = operand(i32)
    scaleB = operand(i32)
    m = attribute(IntegerAttr)
    n = attribute(IntegerAttr)
    k = attribute(IntegerAttr)
    multiplicandAPtxType = attribute(MMATypeAttr)
    multiplicandBPtxType = attribute(MMATypeAttr)
    kind = attribute(MMABlockScaleKindAttr)
    scaleVecSize = attribute(ScaleVecSizeAttr)
    blockScaleFormat = attribute(BlockScaleFormatAttr)
    res = result(llvm_type)
    assembly_format = (
        "`A` `[` $operandA `]` `B` `[` $operandB `]` `C` `[` $operandC `]` `scaleA` $scaleA `scaleB` $scaleB attr-dict"
        " `:` functional-type(operands, results)"
    )

    @_by_types
    def target(self) -> Intrinsic:
        types = f"{self.multiplicandAPtxType.value}.{self.multiplicandBPtxType.value}"
        return intrinsic(
            f"mma.block.scale.m{self.m.value}n{self.n.value}k{self.k.value}.row.col.{self.kind.value}"
            f".scale.{self.scaleVecSize.value[1:]}x.f32.{types}.f32.{self.blockScaleFormat.value}"
        )

    def call_operands(self) -> list[Any]:
        selectors = ["0", "0"]
        return [
            *self.operandA, *self.operandB, *self.operandC, self.scaleA, *selectors, self.scaleB, *selectors,
        ]  # fmt: skip


_MATRICES = {"b16": "m8n8", "b8": "m16n16"}
"""Elements of the matrices of `ldmatrix` -> their shape."""


class LdMatrixOp(NVVMOp, name="nvvm.ldmatrix", traits=(MemoryRead,)):
    """`ldmatrix`: `num` matrices from shared memory, of 8x8 elements of 16 bits or 16x16 of 8; lane l gives the address
    of row l."""

    ptr = operand(pointer)
    num = attribute(IntegerAttr, "1, 2 or 4")
    layout = attribute(MMALayoutAttr, "`col` transposes")
    eltType = attribute(LdStMatrixEltTypeAttr, "`b16`, the default, or `b8`", optional=True)
    res = result(llvm_type)
    assembly_format = "$ptr attr-dict `:` functional-type($ptr, $res)"

    def target(self) -> Intrinsic:
        _check_space(self.ptr, 3)
        trans = ".trans" if self.layout.value == "col" else ""
        type = "b16" if self.eltType is None else self.eltType.value
        row = intrinsic(f"ldmatrix.sync.aligned.{_MATRICES[type]}.x{self.num.value}{trans}.{type}.p3")
        if llvm_text(self.res.type) != row.result:
            raise VerifyError(f"expects result {row.result}")
        return row


class StMatrixOp(NVVMOp, name="nvvm.stmatrix", traits=(MemoryWrite,)):
    """`stmatrix`: the inverse of ldmatrix."""

    ptr = operand(pointer)
    sources = variadic_operand(i32)
    layout = attribute(MMALayoutAttr)
    assembly_format = "$ptr `,` $sources attr-dict `:` type(operands)"

    def target(self) -> Intrinsic:
        _check_space(self.ptr, 3)
        trans = ".trans" if self.layout.value == "col" else ""
        return intrinsic(f"stmatrix.sync.aligned.m8n8.x{len(self.sources)}{trans}.b16.p3")


class CpAsyncOp(NVVMOp, name="nvvm.cp.async.shared.global", traits=(MemoryRead, MemoryWrite)):
    """`cp.async`: 4, 8 or 16 bytes from global to shared memory; bytes from `cpSize` on are written as zero."""

    dst = operand(pointer)
    src = operand(pointer)
    cpSize = optional_operand(i32)
    size = attribute(IntegerAttr, "bytes")
    modifier = attribute(LoadCacheModifierAttr, "`cg` needs 16 bytes")
    assembly_format = "$dst `,` $src (`,` $cpSize^)? attr-dict `:` type(operands)"

    def target(self) -> Intrinsic:
        _check_space(self.dst, 3)
        _check_space(self.src, 1)
        suffix = ".s" if self.cpSize is not None else ""
        return intrinsic(f"cp.async.{self.modifier.value}.shared.global.{self.size.value}{suffix}")


class CpAsyncCommitGroupOp(NVVMOp, name="nvvm.cp.async.commit.group", traits=(MemoryRead, MemoryWrite)):
    assembly_format = "attr-dict"

    def target(self) -> Intrinsic:
        return intrinsic("cp.async.commit.group")


class CpAsyncWaitGroupOp(NVVMOp, name="nvvm.cp.async.wait.group", traits=(MemoryRead, MemoryWrite)):
    """Waits until at most `n` of the thread's groups are in flight."""

    n = attribute(IntegerAttr)
    assembly_format = "attr-dict"

    def target(self) -> Intrinsic:
        if self.n.value < 0:
            raise VerifyError("expects a number of groups of at least 0")
        return intrinsic("cp.async.wait.group")

    def call_operands(self) -> list[Any]:
        return [str(self.n.value)]


class CpAsyncWaitAllOp(NVVMOp, name="nvvm.cp.async.wait.all", traits=(MemoryRead, MemoryWrite)):
    assembly_format = "attr-dict"

    def target(self) -> Intrinsic:
        return intrinsic("cp.async.wait.all")


def _check_space(value: Value, space: int) -> None:
    if value.type is not LLVMPointerType(space):
        raise VerifyError(f"expects a pointer into address space {space}, got '{value.type}'")

"""Addresses, loads, stores and atomics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.ir import (
    Attribute,
    DenseArrayAttr,
    IntegerAttr,
    MemoryAllocate,
    MemoryRead,
    MemoryWrite,
    Pure,
    StringAttr,
    Type,
    UnitAttr,
    Value,
    VectorType,
    VerifyError,
    attribute,
    i1,
    i32,
    operand,
    result,
    variadic_operand,
)

from .attributes import SYNC_SCOPES, AtomicBinOpAttr, AtomicOrderingAttr
from .base import LLVMOp, alignment_attribute, check_alignment, integer_like, llvm_type, pointer, pointer_like
from .types import LLVMStructType

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer

    from .types import LLVMPointerType

DYNAMIC_INDEX = -(2**31)
"""Stands in `rawConstantIndices` for an index that is an operand."""


class GEPOp(LLVMOp, name="llvm.getelementptr", traits=(Pure,)):
    """An address: `base` plus indices counted in `elem_type`."""

    base = operand(pointer_like)
    dynamicIndices = variadic_operand(integer_like)
    rawConstantIndices = attribute(DenseArrayAttr, "constant indices, DYNAMIC_INDEX where an operand is meant")
    elem_type = attribute(Type, "the type that the first index counts")
    inbounds = attribute(UnitAttr, "the address stays inside the object", optional=True)
    res = result(pointer_like)
    assembly_format = (
        "(`inbounds` $inbounds^)? $base `` custom<GEPIndices>($dynamicIndices, $rawConstantIndices) attr-dict"
        " `:` functional-type(operands, results) `,` $elem_type"
    )

    @classmethod
    def at(
        cls,
        base: Value,
        indices: Sequence[Value | int],
        elem_type: Type,
        *,
        inbounds: bool = True,
        res: LLVMPointerType | VectorType | None = None,
    ) -> GEPOp:
        """The address of `base[indices...]`, each index a value or a number, of type `res` unless it follows.

        Every access has one: they are built without inference of the fields.
        """
        operands = (base, *[index for index in indices if not isinstance(index, int)])
        constants = [index if isinstance(index, int) else DYNAMIC_INDEX for index in indices]
        attributes: dict[str, Attribute] = {
            "rawConstantIndices": DenseArrayAttr(i32, constants),
            "elem_type": elem_type,
        }
        if inbounds:
            attributes["inbounds"] = UnitAttr()
        types = cls.infer_result_types(operands, attributes) if res is None else (res,)
        return cls.create(operands, types, attributes)

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        base = operands[0].type
        if not isinstance(base, VectorType):
            for index in operands[1:]:
                if isinstance(index.type, VectorType):
                    return [VectorType(index.type.shape, base)]
        return [base]

    def indices(self) -> list[Value | int]:
        """All indices in order, numbers where they are constant."""
        dynamic = iter(self.dynamicIndices)
        return [next(dynamic) if i == DYNAMIC_INDEX else i for i in self.rawConstantIndices]

    def verify_op(self) -> None:
        dynamic = sum(index == DYNAMIC_INDEX for index in self.rawConstantIndices)
        if dynamic != len(self.dynamicIndices):
            raise VerifyError(f"expected {dynamic} dynamic indices, got {len(self.dynamicIndices)}")
        if not len(self.rawConstantIndices):
            raise VerifyError("expected at least one index")

    @classmethod
    def parse_GEPIndices(cls, parser: Parser) -> Any:
        dynamic: list[Any] = []

        def index() -> int:
            number = parser.parse_optional_integer()
            if number is not None:
                return number
            dynamic.append(parser.parse_operand())
            return DYNAMIC_INDEX

        constants = parser.parse_comma_separated(index, "[", "]")
        return dynamic, DenseArrayAttr(i32, constants)

    def print_GEPIndices(self, printer: Printer, dynamic: Sequence[Value], constants: DenseArrayAttr) -> None:
        operands = iter(dynamic)
        printer.write("[")
        for number, constant in enumerate(constants):
            if number:
                printer.write(", ")
            if constant == DYNAMIC_INDEX:
                printer.print_operand(next(operands))
            else:
                printer.write(str(constant))
        printer.write("]")


class _AtomicClause(LLVMOp):
    """`atomic syncscope("device") acquire`, nothing for a plain access."""

    __slots__ = ()

    @classmethod
    def parse_Atomic(cls, parser: Parser) -> Any:
        if not parser.parse_optional_keyword("atomic"):
            return None, None
        scope = cls.parse_SyncScope(parser)
        return scope, AtomicOrderingAttr(parser.parse_any_keyword())

    def print_Atomic(self, printer: Printer, scope: StringAttr | None, ordering: AtomicOrderingAttr | None) -> None:
        if ordering is None or ordering.value == "not_atomic":
            return
        printer.write(" atomic")
        self.print_SyncScope(printer, scope)
        printer.write(f" {ordering.value}")


def _check_atomic(op: LoadOp | StoreOp, forbidden: tuple[str, ...]) -> None:
    check_alignment(op.alignment)
    ordering = op.ordering
    if ordering is None or ordering.value == "not_atomic":
        if op.syncscope is not None:
            raise VerifyError("expected syncscope only on an atomic access")
        return
    if ordering.value in forbidden:
        raise VerifyError(f"unsupported ordering '{ordering.value}'")
    if op.alignment is None:
        raise VerifyError("expected alignment for atomic access")
    _check_scope(op.syncscope)


def _check_scope(scope: StringAttr | None) -> None:
    # Any other name is fatal in the NVPTX back end.
    if scope is not None and scope.value not in SYNC_SCOPES:
        raise VerifyError(f"unsupported NVPTX synchronization scope '{scope.value}'")


class LoadOp(_AtomicClause, name="llvm.load", traits=(MemoryRead,)):
    """A load.  `alignment`, in bytes, decides how wide the instruction may be: always state it."""

    addr = operand(pointer)
    alignment = attribute(IntegerAttr, "in bytes", optional=True)
    volatile_ = attribute(UnitAttr, optional=True)
    nontemporal = attribute(UnitAttr, optional=True)
    invariant = attribute(UnitAttr, "the memory is not written while the kernel runs", optional=True)
    ordering = attribute(AtomicOrderingAttr, optional=True)
    syncscope = attribute(StringAttr, optional=True)
    res = result(llvm_type)
    assembly_format = (
        "(`volatile` $volatile_^)? $addr `` custom<Atomic>($syncscope, $ordering) (`invariant` $invariant^)? attr-dict"
        " `:` type($addr) `->` type($res)"
    )

    def __init__(self, *operands: Value, alignment: int | None = None, **by_name: object) -> None:
        super().__init__(*operands, alignment=alignment_attribute(alignment), **by_name)

    def verify_op(self) -> None:
        _check_atomic(self, ("release", "acq_rel"))


class StoreOp(_AtomicClause, name="llvm.store", traits=(MemoryWrite,)):
    value = operand(llvm_type)
    addr = operand(pointer)
    alignment = attribute(IntegerAttr, "in bytes", optional=True)
    volatile_ = attribute(UnitAttr, optional=True)
    nontemporal = attribute(UnitAttr, optional=True)
    ordering = attribute(AtomicOrderingAttr, optional=True)
    syncscope = attribute(StringAttr, optional=True)
    assembly_format = (
        "(`volatile` $volatile_^)? $value `,` $addr `` custom<Atomic>($syncscope, $ordering) attr-dict"
        " `:` type($value) `,` type($addr)"
    )

    def __init__(self, *operands: Value, alignment: int | None = None, **by_name: object) -> None:
        super().__init__(*operands, alignment=alignment_attribute(alignment), **by_name)

    def verify_op(self) -> None:
        _check_atomic(self, ("acquire", "acq_rel"))


class AllocaOp(LLVMOp, name="llvm.alloca", traits=(MemoryAllocate,)):
    """Memory of the thread (local space)."""

    arraySize = operand(integer_like)
    elem_type = attribute(Type)
    alignment = attribute(IntegerAttr, "in bytes", optional=True)
    res = result(pointer)
    assembly_format = "$arraySize `x` $elem_type attr-dict `:` functional-type(operands, results)"

    def __init__(self, *operands: Value, alignment: int | None = None, **by_name: object) -> None:
        super().__init__(*operands, alignment=alignment_attribute(alignment), **by_name)

    def verify_op(self) -> None:
        check_alignment(self.alignment)


class AtomicRMWOp(LLVMOp, name="llvm.atomicrmw", traits=(MemoryRead, MemoryWrite)):
    """An atomic update that returns the old value.

    LLVM 22's NVPTX back end drops order and scope here: every one becomes `atom` with PTX's defaults, relaxed and gpu.
    So only `monotonic` at scope `device` is accepted; for the others use nvvm.atom.
    """

    ptr = operand(pointer)
    val = operand(llvm_type)
    bin_op = attribute(AtomicBinOpAttr)
    ordering = attribute(AtomicOrderingAttr)
    syncscope = attribute(StringAttr, optional=True)
    alignment = attribute(IntegerAttr, "in bytes", optional=True)
    res = result(llvm_type)
    assembly_format = (
        "`` custom<BinOp>($bin_op) $ptr `,` $val `` custom<SyncScope>($syncscope) `` custom<Ordering>($ordering)"
        " attr-dict `:` type($ptr) `,` type($val)"
    )
    typed_as = 1

    @classmethod
    def parse_BinOp(cls, parser: Parser) -> Any:
        return AtomicBinOpAttr(parser.parse_any_keyword().lstrip("_"))

    def print_BinOp(self, printer: Printer, op: AtomicBinOpAttr) -> None:
        printer.write(" " + AtomicBinOpAttr.spelled.get(op.value, op.value))

    @classmethod
    def parse_Ordering(cls, parser: Parser) -> Any:
        return AtomicOrderingAttr(parser.parse_any_keyword())

    def print_Ordering(self, printer: Printer, ordering: AtomicOrderingAttr) -> None:
        printer.write(f" {ordering.value}")

    def verify_op(self) -> None:
        check_alignment(self.alignment)
        if self.res.type is not self.val.type:
            raise VerifyError("result type must be the value's")
        scope = self.syncscope.value if self.syncscope is not None else ""
        if self.ordering.value != "monotonic" or scope != "device":
            raise VerifyError("NVPTX drops order and scope: only 'syncscope(\"device\") monotonic' keeps its meaning")


class AtomicCmpXchgOp(LLVMOp, name="llvm.cmpxchg", traits=(MemoryRead, MemoryWrite)):
    """Compare and exchange; the result is the old value and whether it was exchanged."""

    ptr = operand(pointer)
    cmp = operand(llvm_type)
    val = operand(llvm_type)
    success_ordering = attribute(AtomicOrderingAttr)
    failure_ordering = attribute(AtomicOrderingAttr)
    syncscope = attribute(StringAttr, optional=True)
    alignment = attribute(IntegerAttr, "in bytes", optional=True)
    res = result(LLVMStructType)
    assembly_format = (
        "$ptr `,` $cmp `,` $val `` custom<SyncScope>($syncscope) `` custom<Ordering>($success_ordering)"
        " `` custom<Ordering>($failure_ordering) attr-dict `:` type($ptr) `,` type($val)"
    )

    parse_Ordering = AtomicRMWOp.__dict__["parse_Ordering"]
    print_Ordering = AtomicRMWOp.print_Ordering

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        return [LLVMStructType((operands[2].type, i1))]

    @classmethod
    def infer_operand_types(cls, types: dict[str, Any]) -> dict[str, Any]:
        return {"cmp": types["val"]}

    def verify_op(self) -> None:
        check_alignment(self.alignment)
        _check_scope(self.syncscope)
        if self.cmp.type is not self.val.type:
            raise VerifyError("expected both values to have one type")
        if self.res.type is not LLVMStructType((self.val.type, i1)):
            raise VerifyError("expected a result of the value's type and i1")
        if self.failure_ordering.value in ("release", "acq_rel"):
            raise VerifyError(f"unsupported failure ordering '{self.failure_ordering.value}'")


class FenceOp(LLVMOp, name="llvm.fence", traits=(MemoryRead, MemoryWrite)):
    """Orders the thread's memory operations at a scope."""

    ordering = attribute(AtomicOrderingAttr)
    syncscope = attribute(StringAttr, optional=True)
    assembly_format = "`` custom<SyncScope>($syncscope) `` custom<Ordering>($ordering) attr-dict"

    parse_Ordering = AtomicRMWOp.__dict__["parse_Ordering"]
    print_Ordering = AtomicRMWOp.print_Ordering

    def verify_op(self) -> None:
        _check_scope(self.syncscope)
        if self.ordering.value in ("not_atomic", "unordered", "monotonic"):
            raise VerifyError("can be given only acquire, release, acq_rel, and seq_cst orderings")


class AddressOfOp(LLVMOp, name="llvm.mlir.addressof", traits=(Pure,)):
    """The address of a global or function."""

    global_name = attribute(doc="the symbol")
    res = result(pointer)
    assembly_format = "$global_name attr-dict `:` type($res)"

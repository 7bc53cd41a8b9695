"""Debug records: which variable a value or a place in memory is.  They have no code and no results."""

from __future__ import annotations

from tileiras.ir import (
    Attribute,
    DenseArrayAttr,
    MemoryWrite,
    TypedAttribute,
    UnitAttr,
    VerifyError,
    attribute,
    i64,
    operand,
)

from .base import LLVMOp, llvm_type, pointer


class DebugRecordOp(LLVMOp):
    """Base of the records; `var_info` is a `#debuginfo.di_local_variable`, `expression` the operations to apply to the
    value, a `#debuginfo.di_expression` without a fragment."""

    __slots__ = ()
    var_info: Attribute
    expression: Attribute | None

    def verify_op(self) -> None:
        if self.expression is not None and self.expression.name != "debuginfo.di_expression":
            raise VerifyError(f"expected an expression, got {self.expression}")
        if self.expression is not None and self.expression.fragment is not None:  # type: ignore[attr-defined]
            raise VerifyError("expected an expression without a fragment, which is an attribute of its own")
        if self.var_info.name != "debuginfo.di_local_variable":
            raise VerifyError(f"expected a local variable, got {self.var_info}")
        if self.var_info.type is None:  # type: ignore[attr-defined]
            raise VerifyError("expected a variable with a type")


class DbgValueOp(DebugRecordOp, name="llvm.intr.dbg.value", traits=(MemoryWrite,)):
    """The variable, or the bits [offset, offset + size) of it that `fragment` names, is this value from here on.

    With `deref` the value is an address, and the variable is in memory there.
    """

    value = operand(llvm_type)
    var_info = attribute(Attribute)
    expression = attribute(Attribute, optional=True)
    fragment = attribute(TypedAttribute(DenseArrayAttr, i64, "i64 dense array attribute"), optional=True)
    deref = attribute(UnitAttr, optional=True)

    def verify_op(self) -> None:
        """Reject invalid fragments, for which LLVM drops the debug information of the module."""
        super().verify_op()
        if self.fragment is None:
            return
        whole = self.var_info.type.size
        offset, size = self.fragment.elements if len(self.fragment) == 2 else (0, 0)
        if not (0 <= offset and 0 < size < whole and offset + size <= whole):
            raise VerifyError(
                f"expects a fragment [offset, size] that is a part of the {whole} bits of the variable, "
                f"got {list(self.fragment)}"
            )

    assembly_format = (
        "qualified($var_info) (`expression` qualified($expression)^)? (`fragment` $fragment^)? (`deref` $deref^)?"
        " `=` $value `:` type($value) attr-dict"
    )


class DbgDeclareOp(DebugRecordOp, name="llvm.intr.dbg.declare", traits=(MemoryWrite,)):
    """The variable lives at this address."""

    addr = operand(pointer)
    var_info = attribute(Attribute)
    expression = attribute(Attribute, optional=True)
    assembly_format = (
        "qualified($var_info) (`expression` qualified($expression)^)? `=` $addr `:` type($addr) attr-dict"
    )


class FakeUseOp(LLVMOp, name="llvm.intr.fake.use", traits=(MemoryWrite,)):
    """Keeps a value although nothing computes with it, for the debugger to see."""

    value = operand(llvm_type)
    assembly_format = "$value `:` type($value) attr-dict"

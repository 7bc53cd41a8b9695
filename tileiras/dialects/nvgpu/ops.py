"""The operations of nvgpu, made of the rows of their table when they are first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tileiras.dialects import nvvm
from tileiras.ir import Operation
from tileiras.ir.fields import Field
from tileiras.ir.registry import GeneratedOperations

from .rows import ASSEMBLY, EITHER, INTRINSIC, ROWS, Row


class MachineOp(Operation):
    """Base of operations that are an instruction of the machine; `row` is the entry of the table."""

    row: ClassVar[Row]


class NVGPUOp(MachineOp):
    """Base of the dialect's operations.

    An operation is valid if the instruction exists in which it ends: the nvvm operation with the same operands says so.
    """

    def verify_op(self) -> None:
        row = self.row
        if row.check is not None:
            row.check(self)
        if row.nvvm and (row.lowered is not None or not row.replaces):
            lowered = getattr(nvvm, row.nvvm)
            shadow = lowered.__new__(lowered)
            # It uses no values, and is thrown away.
            shadow._operands, shadow._results = self._operands, self._results
            shadow.attributes = self.attributes if row.lowered is None else row.lowered(self.attributes)
            shadow.verify_op()


_BY = {
    INTRINSIC: "an intrinsic", ASSEMBLY: "inline assembly", EITHER: "an intrinsic or inline assembly, by the operands",
}  # fmt: skip


def _summary(source: type[Operation] | None) -> str:
    """The first paragraph about an nvvm operation."""
    text = (source.__dict__.get("__doc__") or f"`{source.name}`.") if source is not None else ""
    return " ".join(text.partition("\n\n")[0].split())


def generate(
    base: type[MachineOp], name: str, row: Row, replaces: tuple[str, ...], own: Mapping[str, Any]
) -> type[Operation]:
    """A class with the fields of the row's nvvm operation, but for the attributes that it replaces, and its own."""
    source = getattr(nvvm, row.nvvm) if row.nvvm else None
    members: dict[str, Any] = {
        "__doc__": f"{row.doc or _summary(source)}  LLVM: {_BY[row.by]}.",
        "__module__": base.__module__, "name": name, "row": row,
        "traits": row.traits or tuple([type(trait) for trait in (source.trait_instances if source else ())]),
        "assembly_format": row.syntax or (source.assembly_format if source else "attr-dict"),
        "typed_as": source.typed_as if source else None,
    }  # fmt: skip
    for field in source.fields if source else ():
        if field.name not in replaces:
            members[field.accessor] = Field(
                field.kind, field.constraint, field.doc, field.arity, field.since, field.default,
                "" if field.name == field.accessor else field.name,
            )  # fmt: skip
    members.update((field_name, result()) for field_name, result in own.items())
    class_name = "".join(part.capitalize() for part in name.partition(".")[2].replace(".", "_").split("_")) + "Op"
    return type(class_name, (base,), members)


def _operation_class(key: str, row: Row) -> type[Operation]:
    return generate(NVGPUOp, f"nvgpu.{key}", row, row.replaces, row.own)


NVGPU = GeneratedOperations("nvgpu.", ROWS, _operation_class)
"""The classes by their names without the dialect: `NVGPU["mbarrier.init"]`."""

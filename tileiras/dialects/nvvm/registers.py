"""Special registers: one operation each, `nvvm.read.ptx.sreg.tid.x : i32`."""

from __future__ import annotations

from typing import Any

from tileiras.ir import i32, i64, result

from .base import EFFECT_TRAITS, NVVMOp, intrinsic
from .intrinsics import INTRINSICS, Intrinsic

_PREFIX = "read.ptx.sreg."


class SpecialRegisterOp(NVVMOp):
    """Base of the operations that read a special register."""

    __slots__ = ()

    def target(self) -> Intrinsic:
        return intrinsic(self.name.removeprefix("nvvm."))

    @classmethod
    def infer_result_types(cls, operands: Any, attributes: Any) -> list[Any]:
        return [i64 if INTRINSICS[cls.name.removeprefix("nvvm.")].result == "i64" else i32]


def _make(row: Intrinsic) -> type[SpecialRegisterOp]:
    register = row.name.removeprefix(_PREFIX)
    members: dict[str, Any] = {
        "__doc__": f"Reads `%{register}`.",
        "__module__": __name__,
        "name": "nvvm." + row.name,
        "traits": EFFECT_TRAITS[row.effects],
        "res": result(i64 if row.result == "i64" else i32),
        "assembly_format": "attr-dict `:` type($res)",
    }
    words = register.replace(".", "_").split("_")
    return type("".join(w.capitalize() for w in words) + "Op", (SpecialRegisterOp,), members)


SPECIAL_REGISTERS: dict[str, type[SpecialRegisterOp]] = {
    row.name.removeprefix(_PREFIX): _make(row) for row in INTRINSICS.values() if row.name.startswith(_PREFIX)
}
"""The classes by register name: `SPECIAL_REGISTERS["tid.x"]()`."""

"""Tensor maps that a kernel writes (PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy", "membar / fence")."""

from __future__ import annotations

from typing import ClassVar

from tileiras.dialects.llvm.base import llvm_type, pointer
from tileiras.ir import (
    Convergent,
    IntegerAttr,
    MemoryRead,
    MemoryWrite,
    StringAttr,
    Type,
    VerifyError,
    attribute,
    i32,
    i64,
    operand,
)

from .base import Assembly, NVVMOp
from .bulk_copies import GENERIC, GLOBAL, PTX86, SHARED, check_spaces

PTX83 = (8, 3)
_EFFECTS = (MemoryRead, MemoryWrite)

REPLACES, _REPLACES_ATOMICITY = "=90a,100f,110f,120f", "=100f,110f,120f"
"""PTX ISA, "Target ISA Notes" of tensormap.replace."""

ATOMICITY = {16: 0, 32: 1}
"""Bytes that a swizzle keeps together -> `.swizzle_atomicity`; 16 is the default of a map."""

FIELDS: dict[str, tuple[Type, bool, bool]] = {
    "global_address": (i64, False, False),
    "rank": (i32, False, False),
    "box_dim": (i32, True, False),
    "global_dim": (i32, True, False),
    "global_stride": (i64, True, False),
    "element_stride": (i32, True, False),
    "elemtype": (i32, False, True),
    "interleave_layout": (i32, False, True),
    "swizzle_mode": (i32, False, True),
    "fill_mode": (i32, False, True),
    "swizzle_atomicity": (i32, False, True),
}
"""Field -> its type, whether each dimension has one, and whether the value is part of the instruction."""


class TensormapReplaceOp(NVVMOp, name="nvvm.tensormap.replace", traits=_EFFECTS):
    """A field of a map in shared memory; `ord` is the dimension, innermost first."""

    addr = operand(pointer)
    value = operand(llvm_type)
    field = attribute(StringAttr)
    ord = attribute(IntegerAttr, optional=True)
    assembly_format = "$field $addr `,` $value attr-dict `:` type(operands)"

    def target(self) -> Assembly:
        check_spaces(self, addr=SHARED)
        name = self.field.value
        if name not in FIELDS or FIELDS[name][2]:
            raise VerifyError(f"expects a field that has a value of its own at run time, got '{name}'")
        type, by_dimension, _ = FIELDS[name]
        if self.value.type is not type or by_dimension != (self.ord is not None):
            raise VerifyError(f"expects a value of type {type} for '{name}'{', and a dimension' * by_dimension}")
        at = f"{self.ord.value}, " if self.ord is not None else ""
        text = f"tensormap.replace.tile.{name}.shared::cta.b1024.b{type.width} [$0], {at}$1;"
        letter = "l" if type is i64 else "r"
        return Assembly(text, f"r,{letter},~{{memory}}", REPLACES, PTX83, side_effects=True)


class TensormapReplaceModeOp(NVVMOp, name="nvvm.tensormap.replace.mode", traits=_EFFECTS):
    """A field of a map in shared memory whose value is part of the instruction."""

    addr = operand(pointer)
    field = attribute(StringAttr)
    value = attribute(IntegerAttr)
    assembly_format = "$field $addr `,` $value attr-dict `:` type(operands)"

    def target(self) -> Assembly:
        check_spaces(self, addr=SHARED)
        name = self.field.value
        if name not in FIELDS or not FIELDS[name][2]:
            raise VerifyError(f"expects a field whose value is known, got '{name}'")
        text = f"tensormap.replace.tile.{name}.shared::cta.b1024.b32 [$0], {self.value.value};"
        if name == "swizzle_atomicity":
            return Assembly(text, "r,~{memory}", _REPLACES_ATOMICITY, PTX86, side_effects=True)
        return Assembly(text, "r,~{memory}", REPLACES, PTX83, side_effects=True)


class TensormapCpFenceproxyOp(NVVMOp, name="nvvm.tensormap.cp_fenceproxy", traits=(*_EFFECTS, Convergent)):
    """A warp copies a map from shared to global memory, and releases it to the proxy that copies read maps through."""

    dst = operand(pointer)
    src = operand(pointer)
    assembly_format = "$dst `,` $src attr-dict `:` type(operands)"

    BYTES: ClassVar[int] = 128

    def target(self) -> Assembly:
        check_spaces(self, dst=GLOBAL)
        check_spaces(self, src=SHARED)
        text = (
            "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
            f"[$0], [$1], {self.BYTES};"
        )
        return Assembly(text, "l,r,~{memory}", "90", PTX83, side_effects=True)


class FenceProxyTensormapAcquireOp(NVVMOp, name="nvvm.fence.proxy.tensormap.acquire", traits=_EFFECTS):
    """Makes released changes of a map visible to copies of this thread."""

    addr = operand(pointer)
    assembly_format = "$addr attr-dict `:` type(operands)"

    def target(self) -> Assembly:
        check_spaces(self, addr=GENERIC)
        text = f"fence.proxy.tensormap::generic.acquire.gpu [$0], {TensormapCpFenceproxyOp.BYTES};"
        return Assembly(text, "l,~{memory}", "90", PTX83, side_effects=True)

"""nv_tileas to the llvm and nvvm dialects: what every thread does with its share of every tile.

A tensor becomes one LLVM vector with an element for each register of its layout, scalars stay scalars, structured
control flow becomes blocks.  Files are op families: `arith`, `conversions`, `floats`, `math`, `shape`, `memory` (with
`views` for addresses and `access` for the instructions), `convert_layout`, `reduce`, `dot`, `control_flow`;
`synchronization` places barriers.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from typing import Any

from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import llvm
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import DenseElementsAttr, Location, Operation, StringAttr, TensorType, UnitAttr, i8
from tileiras.layout.arena import ARENA_ALIGNMENT
from tileiras.targets import Target

from . import arith, control_flow, memory, shape
from .function import SHARED_ARENA, FunctionLowering, Pattern
from .types import held_bits, memory_type

COMMON = (arith, control_flow, memory, shape)
"""The files with rules that nearly every kernel takes."""

FAMILIES: Mapping[str, set[str]] = {
    "alloca": {"nv_tileas.alloca", "nv_tileas.dealloc"},
    "atomics": {"nv_tileas.atomic_cas", "nv_tileas.atomic_rmw", "nv_tileas.tiled_atomic_rmw"},
    "conversions": {
        "arith.bitcast", "arith.extsi", "arith.extui", "arith.fptosi", "arith.fptoui", "arith.sitofp", "arith.trunci",
        "arith.uitofp", "nv_tileas.fp_to_fp",
    },
    "convert_layout": {"nv_tileas.convert_layout"},
    "debug": {"nv_tileas.assert"},
    "dot": {"nv_tileas.block_scaled_mma", "nv_tileas.dot"},
    "floats": {
        "nv_tileas.addf", "nv_tileas.divf", "nv_tileas.fma", "nv_tileas.mulf", "nv_tileas.mulhisi",
        "nv_tileas.mulhiui", "nv_tileas.sqrt", "nv_tileas.subf",
    },
    "grid": {"nv_tileas.fence_alias", "nv_tileas.gdc_launch_dependents", "nv_tileas.gdc_wait"},
    "math": {
        "arith.remf", "math.absf", "math.absi", "math.atan2", "math.ceil", "math.cos", "math.cosh", "math.exp",
        "math.exp2", "math.floor", "math.fpowi", "math.log", "math.log2", "math.powf", "math.rsqrt", "math.sin",
        "math.sinh", "math.tan", "math.tanh",
    },
    "print": {"nv_tileas.print"},
    "reduce": {"nv_tileas.reduce"},
    "scan": {"nv_tileas.scan"},
    "slices": {"nv_tileas.cat", "nv_tileas.extract_slice", "nv_tileas.insert_slice"},
    "staging": {
        "nv_tileas.alloc_tensor", "nv_tileas.async.commit_group", "nv_tileas.async.load",
        "nv_tileas.async.tiled_load", "nv_tileas.async.wait", "nv_tileas.copy", "nv_tileas.dealloc_tensor",
        "nv_tileas.store_tensor",
    },
}  # fmt: skip
"""The others, and the operations for which each is loaded: half of a small compilation is loading code."""


def patterns(names: Collection[str]) -> dict[type[Operation], Pattern]:
    """The rules for a function that has operations of these names."""
    table: dict[type[Operation], Pattern] = {}
    for family in COMMON:
        table.update(family.PATTERNS)
    for family, operations in FAMILIES.items():
        if not operations.isdisjoint(names):
            table.update(importlib.import_module(f"{__name__}.{family}").PATTERNS)
    return table


def convert_tileas_to_llvm(
    module: Operation,
    target: Target,
    engine: DiagnosticEngine | None = None,
    *,
    flush_to_zero: bool = False,
    approximate: bool = False,
    variables: bool = False,
) -> None:
    """Converts the functions and globals of `module`, a builtin module, in place.

    `flush_to_zero`: all f32 arithmetic treats subnormals as zero; `approximate`: f32 division and square root need
    not be rounded correctly; `variables`: keep what says which variables values are.  Raises CompileError (code 5) with
    located diagnostics.
    """
    engine = engine if engine is not None else DiagnosticEngine()
    body = module.regions[0].blocks[0]
    declared: dict[str, Operation] = {}
    needs_shared: Location | None = None
    for op in list(body.operations):
        if isinstance(op, aa.FuncOp):
            names = {inner.name for inner in op.walk()}
            lowering = FunctionLowering(op, patterns(names), target, engine, flush_to_zero, approximate, variables)
            body.insert_before(lowering.run(), op)
            for name, declaration in lowering.declared.items():
                declared.setdefault(name, declaration)
            for text, name in lowering.strings.items():
                body.insert_before(_string_constant(name, text, op.location), op)
            if needs_shared is None and lowering.shared_bytes > 0:
                needs_shared = op.location
        elif isinstance(op, aa.GlobalOp):
            body.insert_before(_global(op), op)
        else:
            continue
        op.erase()
    if flush_to_zero:
        module.attributes["nvvm.reflect_ftz"] = UnitAttr()
    if approximate:
        module.attributes["nvvm.reflect_approx"] = UnitAttr()
    first = body.first
    if needs_shared is not None:
        body.insert_before(_shared_arena(needs_shared), first)
    for declaration in declared.values():
        body.append(declaration)


def _shared_arena(location: Location) -> Operation:
    """A size of zero makes it extern in PTX, sized by the launch."""
    return llvm.GlobalOp(
        sym_name=StringAttr(SHARED_ARENA),
        global_type=llvm.LLVMArrayType(0, i8),
        linkage=llvm.LinkageAttr("external"),
        addr_space=3,
        alignment=ARENA_ALIGNMENT,
        location=location,
    )


def _global(op: Any) -> Operation:
    element, patterns = op.value.type.element_type, op.value.element_bits()
    if element.width == 4:
        padded = [*patterns, 0]
        held, patterns = i8, [padded[n] & 15 | padded[n + 1] << 4 for n in range(0, len(patterns), 2)]
    else:
        held = memory_type(element)
    size = held.width // 8
    data = b"".join((held_bits(element, p) & 256**size - 1).to_bytes(size, "little") for p in patterns)
    value = DenseElementsAttr(TensorType((len(patterns),), held), data)
    alignment = max(op.alignment.value, size) if op.alignment is not None else size
    # The host may write what is public between launches, a constant as well: nothing is known of its content.
    return llvm.GlobalOp(
        sym_name=op.sym_name,
        global_type=llvm.LLVMArrayType(len(patterns), held),
        linkage=llvm.LinkageAttr("internal" if op.is_private else "external"),
        constant=op.constant if op.is_private else None,
        value=value,
        addr_space=1,
        alignment=alignment,
        location=op.location,
    )


def _string_constant(name: str, text: str, location: Location) -> Operation:
    data = text + "\0"
    return llvm.GlobalOp(
        sym_name=StringAttr(name),
        global_type=llvm.LLVMArrayType(len(data.encode("utf-8", "surrogateescape")), i8),
        linkage=llvm.LinkageAttr("internal"),
        constant=UnitAttr(),
        value=StringAttr(data),
        addr_space=1,
        alignment=1,
        location=location,
    )


__all__ = ["FAMILIES", "convert_tileas_to_llvm", "patterns"]

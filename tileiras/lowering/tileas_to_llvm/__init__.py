"""nv_tileas to the llvm and nvvm dialects: what every thread does with its share of every tile.

A tensor becomes one LLVM vector with an element for each register of its layout, scalars stay scalars, structured
control flow becomes blocks.  Files are op families: `arith`, `conversions`, `floats`, `math`, `shape`, `memory` (with
`views` for addresses and `access` for the instructions), `convert_layout`, `reduce`, `dot`, `control_flow`;
`synchronization` places barriers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import llvm
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import DenseElementsAttr, Location, Operation, StringAttr, TensorType, UnitAttr, i8
from tileiras.targets import Target

from . import (
    alloca,
    arith,
    atomics,
    control_flow,
    conversions,
    convert_layout,
    debug,
    dot,
    floats,
    grid,
    math,
    memory,
    print,
    reduce,
    scan,
    shape,
    slices,
    staging,
)
from .function import SHARED_ARENA, FunctionLowering, Pattern
from .types import held_bits, memory_type

_FAMILIES = (
    arith,
    conversions,
    floats,
    math,
    shape,
    slices,
    memory,
    staging,
    atomics,
    alloca,
    grid,
    convert_layout,
    reduce,
    scan,
    dot,
    control_flow,
    debug,
    print,
)

PATTERNS: Mapping[type[Operation], Pattern] = {
    cls: pattern for family in _FAMILIES for cls, pattern in family.PATTERNS.items()
}


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
            alloca.place_in_shared(op)
            lowering = FunctionLowering(op, PATTERNS, target, engine, flush_to_zero, approximate, variables)
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
    """Aligned for the widest swizzle; a size of zero makes it extern in PTX, sized by the launch."""
    return llvm.GlobalOp(
        sym_name=StringAttr(SHARED_ARENA),
        global_type=llvm.LLVMArrayType(0, i8),
        linkage=llvm.LinkageAttr("external"),
        addr_space=3,
        alignment=1024,
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
    alignment = op.alignment.value if op.alignment is not None else size
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


__all__ = ["PATTERNS", "convert_tileas_to_llvm"]

"""nv_tileas to the llvm and nvvm dialects: the program of one thread, for its share of every tile.

A tensor becomes one LLVM vector with an element for each register of its layout, scalars stay scalars, structured
control flow becomes blocks.  Files are op families: `arith`, `conversions`, `floats`, `math`, `shape`, `memory` (with
`views` for addresses and `access` for the instructions), `convert_layout`, `reduce`, `dot`, `control_flow`.

No decision about synchronization, memory or the shape of a launch is made here: nv_tileas contains them.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any

from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import llvm
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.ir import DenseElementsAttr, Location, Operation, StringAttr, TensorType, UnitAttr, i8
from tileiras.layout.arena import ARENA_ALIGNMENT
from tileiras.lazy import lazy_names
from tileiras.targets import Target

# Nearly every kernel takes rules of these files.
from . import arith, control_flow, memory, shape
from .function import SHARED_ARENA, FunctionLowering, Pattern
from .types import held_bits, memory_type

FAMILIES: Mapping[str, Mapping[str, str]] = {
    "arith": {
        "arith.constant": "constant", "arith.addi": "addi", "arith.subi": "subi", "arith.muli": "muli",
        "arith.shli": "shli", "arith.shrsi": "shrsi", "arith.shrui": "shrui", "arith.divsi": "divsi",
        "arith.divui": "divui", "arith.ceildivui": "ceil_div_unsigned", "arith.ceildivsi": "ceil_div_signed",
        "arith.floordivsi": "floor_div_signed", "arith.remsi": "remsi", "arith.remui": "remui", "arith.andi": "andi",
        "arith.ori": "ori", "arith.xori": "xori", "arith.maxsi": "maxsi", "arith.maxui": "maxui",
        "arith.minsi": "minsi", "arith.minui": "minui", "arith.maximumf": "maximumf", "arith.minimumf": "minimumf",
        "arith.maxnumf": "maxnumf", "arith.minnumf": "minnumf", "arith.negf": "negate",
        "arith.cmpi": "compare_integers", "arith.cmpf": "compare_floats", "arith.select": "select",
        "nv_tileas.assume": "assume",
    },
    "control_flow": {
        "scf.for": "lower_for", "scf.if": "lower_if", "scf.while": "lower_while", "nv_tileaa.return": "lower_return",
    },
    "memory": {
        "nv_tileas.tiled_load": "tiled_load", "nv_tileas.tiled_store": "tiled_store", "nv_tileas.load": "load",
        "nv_tileas.store": "store", "nv_tileas.addptr": "add_pointer", "nv_tileas.ptr_to_int": "pointer_to_integer",
        "nv_tileas.int_to_ptr": "integer_to_pointer", "nv_tileas.bitcast": "same_value",
        "nv_tileas.make_memref": "nothing", "nv_tileas.block_tile": "nothing", "nv_tileas.create_mem_token": "nothing",
        "nv_tileas.join_mem_token": "nothing", "nv_tileas.get_dim_size": "dim_size",
        "nv_tileas.get_global": "get_global",
    },
    "shape": {
        "nv_tileas.splat": "splat", "nv_tileas.unsplat": "unsplat", "nv_tileas.make_range": "make_range",
        "nv_tileas.view": "rename", "nv_tileas.permute": "rename", "nv_tileas.broadcast": "broadcast",
        "nv_tileas.unpack": "rename", "nv_tileas.shifted": "shifted",
        "nv_tileas.get_program_id": "program_id", "nv_tileas.get_num_programs": "num_programs",
        "nv_tileas.get_cta_rank": "cta_rank",
    },
    "agents": {f"{names.PIPELINE}agent_switch": "agent_switch"},
    "alloca": {"nv_tileas.alloca": "alloca", "nv_tileas.dealloc": "dealloc"},
    "atomics": {
        "nv_tileas.atomic_rmw": "atomic_rmw", "nv_tileas.atomic_cas": "atomic_cas",
        "nv_tileas.tiled_atomic_rmw": "tiled_atomic_rmw",
    },
    "barriers": {"nv_tileas.barrier": "barrier"},
    "conversions": {
        "nv_tileas.fp_to_fp": "fp_to_fp", "arith.extsi": "extend_signed", "arith.extui": "extend_unsigned",
        "arith.trunci": "truncate", "arith.sitofp": "from_signed", "arith.uitofp": "from_unsigned",
        "arith.fptosi": "to_signed", "arith.fptoui": "to_unsigned", "arith.bitcast": "bitcast",
    },
    "convert_layout": {"nv_tileas.convert_layout": "convert_layout"},
    "debug": {"nv_tileas.assert": "lower_assert"},
    "delays": {names.DELAY: "delay"},
    "dot": {"nv_tileas.dot": "dot", "nv_tileas.block_scaled_mma": "block_scaled"},
    "floats": {
        "nv_tileas.addf": "add", "nv_tileas.subf": "subtract", "nv_tileas.mulf": "multiply",
        "nv_tileas.divf": "divide", "nv_tileas.fma": "fma", "nv_tileas.sqrt": "sqrt",
        "nv_tileas.mulhiui": "multiply_high_unsigned", "nv_tileas.mulhisi": "multiply_high_signed",
    },
    "grid": {
        "nv_tileas.gdc_wait": "gdc_wait", "nv_tileas.gdc_launch_dependents": "gdc_launch_dependents",
        "nv_tileas.fence_alias": "fence_alias",
    },
    "math": {
        "math.absf": "absolute", "math.ceil": "ceil", "math.floor": "floor", "math.absi": "absolute_integer",
        "math.fpowi": "power_integer", "math.exp": "exp", "math.exp2": "exp2", "math.log": "log", "math.log2": "log2",
        "math.rsqrt": "rsqrt", "math.sin": "sin", "math.cos": "cos", "math.tan": "tan", "math.sinh": "sinh",
        "math.cosh": "cosh", "math.tanh": "tanh", "math.powf": "powf", "math.atan2": "atan2",
        "arith.remf": "remainder",
    },
    "map_memory": {
        names.MAP_RESERVE: "reserve", f"{names.MAP_MEMORY}open": "open_slot", names.MAP_BUILD: "build",
        f"{names.MAP_MEMORY}release": "release",
    },
    "pipes": {
        **{
            f"{names.PIPELINE}{name}": name
            for name in (
                "create_pipeline", "destroy_pipeline", "create_iterator", "inc_iter", "get_stage", "producer_acquire",
                "producer_tail", "producer_commit", "consumer_wait", "consumer_release", "consumer_tail",
            )
        },
    },
    "neighbors": {names.NEIGHBOR_COUNTER: "neighbor_counter", names.IS_SAME_TILE: "is_same_tile"},
    "print": {"nv_tileas.print": "lower_print"},
    "reduce": {"nv_tileas.reduce": "reduce"},
    "scan": {"nv_tileas.scan": "scan"},
    "slices": {
        "nv_tileas.cat": "cat", "nv_tileas.extract_slice": "extract_slice", "nv_tileas.insert_slice": "insert_slice",
    },
    "stage_tiles": {
        **{
            f"{names.PIPELINE}{name}": name
            for name in ("producer_write", "consumer_read", "produce_one", "consume_one")
        },
        "nv_tileas.async.bulk_load": "bulk_load", "nv_tileas.async.bulk_store": "bulk_store",
    },
    "staging": {
        "nv_tileas.alloc_tensor": "alloc_tensor", "nv_tileas.dealloc_tensor": "dealloc_tensor",
        "nv_tileas.async.tiled_load": "async_tiled_load", "nv_tileas.async.load": "async_load",
        "nv_tileas.async.commit_group": "commit_group", "nv_tileas.async.wait": "wait",
        "nv_tileas.store_tensor": "store_tensor", "nv_tileas.copy": "copy",
    },
    "tensor_copies": {
        "nv_tileas.make_tma_desc": "make_tma_desc", "nv_tileas.async.tma_load": "tma_load",
        "nv_tileas.async.tma_store": "tma_store", names.TMA_STORE_STAGE: "tma_store_stage",
        names.TMA_STORE_TAIL: "tma_store_tail",
    },
    "tensor_dot": {f"{names.TENSOR_MEMORY}dot": "dot"},
    "tensor_memory": {
        f"{names.TENSOR_MEMORY}open": "open_columns",
        **{
            f"{names.TENSOR_MEMORY}{name}": name
            for name in ("reserve", "release", "alloc", "slice", "dealloc", "load", "store", "scale", "commit", "wait")
        },
    },
    "warpgroup_dot": {
        "nv_tileas.async.to_async": "to_async", "nv_tileas.async.create_none": "create_none",
        "nv_tileas.async.dot": "async_dot", "nv_tileas.async.commit_dots": "commit_dots",
        "nv_tileas.async.future_wait": "future_wait", "nv_tileas.fence_proxy_async": "fence_proxy_async",
    },
    "warpgroup_turns": {"nv_tileas.async.wait_turn": "wait_turn", "nv_tileas.async.end_turn": "end_turn"},
}  # fmt: skip
"""The files of rules: their operations, and the function `rule(op, args, lowering)` of the file that lowers each.

A file is loaded for the first operation of its own: half of a small compilation is loading code.
"""

_FILE = {operation: family for family, rules in FAMILIES.items() for operation in rules}


@functools.cache
def pattern(cls: type[Operation]) -> Pattern | None:
    """The rule for an operation; None if absent."""
    family = _FILE.get(cls.name)
    if family is None:
        return None
    return getattr(importlib.import_module(f"{__name__}.{family}"), FAMILIES[family][cls.name])


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
    not be rounded correctly; `variables`: keep the debug operations that bind values to variables.  Raises CompileError
    (code 5) with located diagnostics.
    """
    engine = engine if engine is not None else DiagnosticEngine()
    body = module.regions[0].blocks[0]
    declared: dict[str, Operation] = {}
    needs_shared: Location | None = None
    for op in list(body.operations):
        if isinstance(op, aa.FuncOp):
            lowering = FunctionLowering(op, pattern, target, engine, flush_to_zero, approximate, variables)
            if any(tileas.PARTS in inner.attributes for inner in op.walk()):
                # Loaded for such kernels only.
                from .parts import postpone

                postpone(lowering)
            body.insert_before(lowering.run(), op)
            for name, declaration in lowering.declared.items():
                declared.setdefault(name, declaration)
            for text, name in lowering.strings.items():
                body.insert_before(_string_constant(name, text, op.location), op)
            for variable in lowering.module_memory:
                body.insert_before(variable, op)
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


def _global(op: aa.GlobalOp) -> Operation:
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
    # The host may write a public global between launches, even a constant: its contents are not known.
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


__all__ = ["FAMILIES", "convert_tileas_to_llvm", "pattern"]


__getattr__ = lazy_names(__name__, globals())

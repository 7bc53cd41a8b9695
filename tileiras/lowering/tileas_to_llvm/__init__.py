"""nv_tileas to the program of one thread, for its share of every tile.

A tensor becomes one LLVM vector with an element for each register of its layout, scalars stay scalars, structured
control flow becomes blocks.  `emit` is the frame of a function; `elementwise`, `memory` and `collective` give a thread
its share; `tensor_core` and `pipes` give the instructions of the machine their registers and addresses: matrix
instructions, asynchronous copies, barriers, clusters.  The instructions are `nv_tileas.thread` operations here.

Arithmetic of elements is that of arith and math, on scalars and vectors; operations of addresses and conversions are
those of llvm and nvvm.

No decision about synchronization, memory or the shape of a launch is made here: nv_tileas contains them.
"""

from __future__ import annotations

import functools
import importlib
import keyword
from collections.abc import Mapping
from typing import Any

from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import llvm, memref
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import DenseElementsAttr, Location, Operation, StringAttr, TensorType, UnitAttr, i8
from tileiras.layout.arena import ARENA_ALIGNMENT
from tileiras.support.lazy import lazy_names
from tileiras.targets import Target

# Nearly every kernel takes rules of these files.
from .elementwise import arith, shape
from .emit import control_flow
from .emit.function import SHARED_ARENA, FunctionLowering, Pattern
from .emit.types import held_bits, memory_type
from .memory import load_store

FAMILIES: Mapping[str, str] = {
    "emit.control_flow": "scf.for scf.if scf.while nv_tileaa.return",
    "elementwise.arith":
        "arith.constant arith.addi arith.subi arith.muli arith.shli arith.shrsi arith.shrui arith.divsi arith.divui "
        "arith.ceildivui arith.ceildivsi arith.floordivsi arith.remsi arith.remui arith.andi arith.ori arith.xori "
        "arith.maxsi arith.maxui arith.minsi arith.minui arith.maximumf arith.minimumf arith.maxnumf arith.minnumf "
        "arith.negf arith.cmpi arith.cmpf arith.select nv_tileas.assume",
    "elementwise.conversions":
        "nv_tileas.fp_to_fp arith.extsi arith.extui arith.trunci arith.sitofp arith.uitofp arith.fptosi arith.fptoui "
        "arith.bitcast",
    "elementwise.floats":
        "nv_tileas.addf nv_tileas.subf nv_tileas.mulf nv_tileas.divf nv_tileas.fma nv_tileas.sqrt nv_tileas.mulhiui "
        "nv_tileas.mulhisi",
    "elementwise.math":
        "math.absf math.ceil math.floor math.absi math.fpowi math.exp math.exp2 math.log math.log2 math.rsqrt "
        "math.sin math.cos math.tan math.sinh math.cosh math.tanh math.powf math.atan2 arith.remf",
    "elementwise.shape":
        "nv_tileas.splat nv_tileas.unsplat nv_tileas.make_range nv_tileas.view nv_tileas.permute nv_tileas.broadcast "
        "nv_tileas.unpack nv_tileas.shifted nv_tileas.get_program_id nv_tileas.get_num_programs "
        "nv_tileas.get_cta_rank",
    "memory.alloca": "nv_tileas.alloca nv_tileas.dealloc",
    "memory.atomics": "nv_tileas.atomic_rmw nv_tileas.atomic_cas nv_tileas.tiled_atomic_rmw",
    "memory.calls": "nv_tileas.extern_elementwise nv_tileas.extern_call",
    "memory.debug": "nv_tileas.assert",
    "memory.load_store":
        "nv_tileas.tiled_load nv_tileas.tiled_store nv_tileas.load nv_tileas.store nv_tileas.addptr "
        "nv_tileas.ptr_to_int nv_tileas.int_to_ptr nv_tileas.bitcast nv_tileas.make_memref nv_tileas.block_tile "
        "nv_tileas.create_mem_token nv_tileas.join_mem_token nv_tileas.get_dim_size nv_tileas.get_global",
    "memory.print": "nv_tileas.print",
    "collective.convert_layout": "nv_tileas.convert_layout",
    "collective.reduce": "nv_tileas.reduce",
    "collective.scan": "nv_tileas.scan",
    "collective.slices": "nv_tileas.cat nv_tileas.extract_slice nv_tileas.insert_slice",
    "tensor_core.dot": "nv_tileas.dot nv_tileas.block_scaled_mma",
    "tensor_core.tensor_dot": "nv_tileas.tensor_memory.dot",
    "tensor_core.tensor_memory":
        "nv_tileas.tensor_memory.open nv_tileas.tensor_memory.reserve nv_tileas.tensor_memory.release "
        "nv_tileas.tensor_memory.alloc nv_tileas.tensor_memory.slice nv_tileas.tensor_memory.dealloc "
        "nv_tileas.tensor_memory.load nv_tileas.tensor_memory.store nv_tileas.tensor_memory.scale "
        "nv_tileas.tensor_memory.commit nv_tileas.tensor_memory.wait",
    "tensor_core.warpgroup_dot":
        "nv_tileas.async.to_async nv_tileas.async.create_none nv_tileas.async.dot nv_tileas.async.commit_dots "
        "nv_tileas.async.future_wait nv_tileas.fence_proxy_async",
    "tensor_core.warpgroup_turns": "nv_tileas.async.wait_turn nv_tileas.async.end_turn",
    "pipes.agents": "nv_tileas.async.pipeline.agent_switch",
    "pipes.barriers": "nv_tileas.barrier",
    "pipes.delays": "nv_tileas.delay",
    "pipes.grid": "nv_tileas.gdc_wait nv_tileas.gdc_launch_dependents nv_tileas.fence_alias",
    "pipes.map_memory":
        "nv_tileas.map_memory.reserve nv_tileas.map_memory.assemble nv_tileas.map_memory.open "
        "nv_tileas.map_memory.build nv_tileas.map_memory.release",
    "pipes.neighbors": "nv_tileas.neighbor_counter nv_tileas.is_same_tile",
    "pipes.pipes":
        "nv_tileas.async.pipeline.create_pipeline nv_tileas.async.pipeline.destroy_pipeline "
        "nv_tileas.async.pipeline.create_iterator nv_tileas.async.pipeline.inc_iter "
        "nv_tileas.async.pipeline.get_stage nv_tileas.async.pipeline.producer_acquire "
        "nv_tileas.async.pipeline.producer_tail nv_tileas.async.pipeline.producer_commit "
        "nv_tileas.async.pipeline.consumer_wait nv_tileas.async.pipeline.consumer_release "
        "nv_tileas.async.pipeline.consumer_tail",
    "pipes.stage_tiles":
        "nv_tileas.async.pipeline.producer_write nv_tileas.async.pipeline.consumer_read "
        "nv_tileas.async.pipeline.produce_one nv_tileas.async.pipeline.consume_one nv_tileas.async.bulk_load "
        "nv_tileas.async.bulk_store",
    "pipes.staging":
        "nv_tileas.alloc_tensor nv_tileas.dealloc_tensor nv_tileas.async.tiled_load nv_tileas.async.load "
        "nv_tileas.async.commit_group nv_tileas.async.wait nv_tileas.store_tensor nv_tileas.copy",
    "pipes.tensor_copies":
        "nv_tileas.make_tma_desc nv_tileas.async.tma_load nv_tileas.async.tma_store nv_tileas.async.tma_store_stage "
        "nv_tileas.async.tma_store_tail",
}  # fmt: skip
"""The files of rules and the operations that each lowers.  The rule of an operation is the function of the same name,
without the dialect and with an underscore behind keywords of Python: `rule(op, args, lowering)`.

A file is loaded for the first operation of its own: half of a small compilation is loading code.
"""

_FILES = {operation: file for file, operations in FAMILIES.items() for operation in operations.split()}


@functools.cache
def pattern(cls: type[Operation]) -> Pattern | None:
    """The rule for an operation; None if absent."""
    file = _FILES.get(cls.name)
    if file is None:
        return None
    rule = cls.name.rpartition(".")[2]
    return getattr(importlib.import_module(f"{__name__}.{file}"), f"{rule}_" if keyword.iskeyword(rule) else rule)


def convert_tileas_to_llvm(
    module: Operation,
    target: Target,
    engine: DiagnosticEngine | None = None,
    *,
    flush_to_zero: bool = False,
    approximate: bool = False,
    variables: bool = False,
    wide_indices: bool = False,
) -> None:
    """Convert the functions and globals of `module`, a builtin module, in place.

    `flush_to_zero`: all f32 arithmetic treats subnormals as zero; `approximate`: f32 division and square root need
    not be rounded correctly; `variables`: keep the debug operations that bind values to variables; `wide_indices`:
    offsets in addresses have 64 bits.  Raises CompileError (code 5) with located diagnostics.
    """
    engine = engine if engine is not None else DiagnosticEngine()
    body = module.regions[0].blocks[0]
    declarations: dict[str, Operation] = {}
    needs_shared: Location | None = None
    for op in list(body.operations):
        if isinstance(op, aa.FuncOp):
            lowering = FunctionLowering(op, pattern, target, engine, flush_to_zero, approximate, variables)
            lowering.emit.wide_indices = wide_indices
            if any(tileas.PARTS in inner.attributes for inner in op.walk()):
                # Loaded for such kernels only.
                from .memory.parts import postpone

                postpone(lowering)
            body.insert_before(lowering.run(), op)
            for name, declaration in lowering.declared.items():
                declarations.setdefault(name, declaration)
            for text, name in lowering.strings.items():
                body.insert_before(llvm.string_constant(name, text, op.location), op)
            for variable in lowering.module_memory:
                body.insert_before(variable, op)
            if needs_shared is None and lowering.shared_bytes > 0:
                needs_shared = op.location
            op.erase()
        elif isinstance(op, aa.GlobalOp):
            op.become(memref.GlobalOp)
    if flush_to_zero:
        module.attributes["nvvm.reflect_ftz"] = UnitAttr()
    if approximate:
        module.attributes["nvvm.reflect_approx"] = UnitAttr()
    first = body.first
    if needs_shared is not None:
        body.insert_before(_shared_arena(needs_shared), first)
    for declaration in declarations.values():
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


__all__ = ["FAMILIES", "convert_tileas_to_llvm", "pattern"]


__getattr__ = lazy_names(__name__, globals())

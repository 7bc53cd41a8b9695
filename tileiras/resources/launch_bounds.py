"""How many CTAs of a kernel an SM is to hold at least, which bounds the registers of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.pipes import CreatePipelineOp
from tileiras.ir import IntegerAttr, TensorType, UnitAttr, i32
from tileiras.targets import Target, registers_per_thread

from .limits import RESERVE, threads_of

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa


def assign_launch_shape(func: Any, target: Target, engine: DiagnosticEngine) -> None:
    """Writes the shape of a launch to the function: warps of a CTA, CTAs of a cluster, CTAs on an SM at least."""
    func.attributes[tileas.BLOCK_WARPS] = IntegerAttr(tileas.block_warps(func), i32)
    ctas = func.kernel_spec.num_ctas or 1
    if ctas > 1 and not target.has("cluster"):
        engine.remark(func.location, f"{target.name} has no clusters: the tile block is one CTA")
        ctas = 1
    func.attributes[tileas.CLUSTER_CTAS] = IntegerAttr(ctas, i32)
    if not any(op.ctas is not None for op in func.walk() if isinstance(op, CreatePipelineOp)):
        func.attributes.pop(tileas.CLUSTER_BLOCKS, None)  # no copies are for other tile blocks
    if ctas > 1 and not any(isinstance(op, tileas.GetCtaRankOp) for op in func.walk()):
        # What nobody has shared out is to happen once.
        func.attributes[tileas.FIRST_CTA] = UnitAttr()
    shared_bytes = func.attributes[tileas.SHARED_MEMORY].value
    asked = func.kernel_spec.occupancy
    least = asked or least_ctas(func)
    if least is None and fills_half(shared_bytes, target):
        least = 1
    if asked:
        threads = threads_of(func)
        fit, why = min(
            # sm_75 reserves nothing, so that a CTA may take no shared memory at all.
            (target.shared_per_sm // max(1, shared_bytes + target.shared_reserved), f"{shared_bytes} bytes"),
            (target.threads // threads, f"{threads} threads"),
        )
        least = min(asked, max(1, fit))
        if least < asked:
            engine.remark(func.location, f"{least} CTAs to an SM instead of {asked}: each has {why}")
    if least is not None:
        func.attributes[tileas.MIN_CTAS] = IntegerAttr(least, i32)


def least_ctas(func: aa.FuncOp) -> int | None:
    """minBlocksPerSM: 1 where the tiles take all registers that a thread can have, or more than two CTAs have room for;
    None to leave it open, as where the kernel itself asks for a number.

    Agents that set their registers need a number: ptxas 13.5 passes over `setmaxnreg` where `.reqntid` alone bounds the
    registers that threads start with (its message C7508).

    Told nothing, ptxas 13.5 gives some kernels that no number of registers holds 32 or 40 of them, and spills all the
    rest: twelve tiles of 64x128 f32 made 2304 bytes of local memory, a block-scaled dot of 128x256 for sm_120 3248.
    Others it keeps to what two CTAs leave, and spills what is above.  Most would get more registers for this word than
    they need, so that fewer CTAs fit on an SM.
    """
    spec = func.kernel_spec
    if spec.occupancy:
        return None
    if any(
        op.name == names.AGENT_SWITCH and any(op.max_regs.elements if op.max_regs is not None else ())
        for op in func.body.blocks[0].operations
    ):
        return 1
    threads = threads_of(func)
    most, of_two = registers_per_thread(threads), registers_per_thread(threads, 2)
    if _elements(func) <= of_two * threads:
        return None
    # Several modules, for kernels with large tiles only.
    from .registers import LiveRegisters
    from .shared_memory import takes_rounds

    # Accumulators of dots stay in registers, whereas ptxas rematerializes some of what goes into other tiles.
    loops = (
        op
        for op in func.walk()
        if isinstance(op, scf.ForOp) and any(isinstance(inner, tileas.DOTS) for inner in op.walk())
    )
    live = LiveRegisters()
    tiles = live.of_block(func.body.blocks[0])
    if tiles > of_two * 9 // 8 or any(live.of_loop(loop) > of_two for loop in loops):
        return 1
    # An operand that goes through shared memory in rounds is all in registers before the dot reads it.
    in_rounds = (op.result for op in func.walk() if isinstance(op, tileas.ConvertLayoutOp) and takes_rounds(op))
    needed = max(tiles, max(map(live.words, in_rounds), default=0))
    return 1 if needed + RESERVE > most else None


def fills_half(shared_bytes: int, target: Target) -> bool:
    """Whether a second CTA finds no shared memory on an SM, so that registers left to one are of no use.

    ptxas does not know how much the launch gives: it kept a split-K dot for sm_90 to 52 registers where it
    takes 76 for 9 % fewer instructions.
    """
    return 2 * (shared_bytes + target.shared_reserved) > target.shared_per_sm


def _elements(func: aa.FuncOp) -> int:
    """Of all tiles together, as words of 32 bits: above the registers that they take at a time."""
    types = (value.type for op in func.walk() for value in op.results)
    tensors = (type for type in types if isinstance(type, TensorType))
    return sum(type.num_elements * max(32, getattr(type.element_type, "width", 64)) // 32 for type in tensors)

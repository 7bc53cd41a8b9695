"""How many CTAs of a kernel an SM is to hold at least, which bounds the registers of a thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tileiras import resources
from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.pipes import CreatePipelineOp
from tileiras.ir import IntegerAttr, TensorType, UnitAttr, i32
from tileiras.layout.tensor_memory import COLUMNS
from tileiras.reasons import Reason
from tileiras.targets import Occupancy, Target, occupancy, registers_per_thread
from tileiras.targets.sm import WARP_SIZE

from .limits import RESERVE, threads_of

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext


class AssignLaunchBounds(FunctionPass):
    name = "tileas-assign-launch-bounds"
    requires = "SYNCHRONIZED"
    leaves = "PLACED"
    needs = "all tiles and barriers where they will be; the bytes of shared memory"
    establishes = (
        "`nv_tileas.block_warps` and `nv_tileas.cluster_ctas` on functions, `nv_tileas.min_ctas` where shared memory "
        "bounds the CTAs of an SM, ptxas may come to fewer than a kernel asks for, or its tiles take more registers "
        "than two CTAs have"
    )
    keeps = "operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        assign_launch_shape(func, gpu, context.engine)


def assign_launch_shape(func: Any, target: Target, engine: DiagnosticEngine) -> None:
    """Write the shape of a launch to the function: warps of a CTA, CTAs of a cluster, CTAs on an SM at least."""
    func.attributes[tileas.BLOCK_WARPS] = IntegerAttr(tileas.block_warps(func), i32)
    ctas = func.kernel_spec.num_ctas or 1
    if ctas > 1 and not target.has("cluster"):
        engine.emit(Remark(Reason("kernel.no-clusters", target=target.name), func.location))
        ctas = 1
    func.attributes[tileas.CLUSTER_CTAS] = IntegerAttr(ctas, i32)
    if not any(op.ctas is not None for op in func.walk() if isinstance(op, CreatePipelineOp)):
        func.attributes.pop(tileas.CLUSTER_BLOCKS, None)  # no copies are for other tile blocks
    if ctas > 1 and not any(isinstance(op, tileas.GetCtaRankOp) for op in func.walk()):
        # Work that is not distributed over the CTAs must happen once.
        func.attributes[tileas.FIRST_CTA] = UnitAttr()
    for op in func.body.blocks[0].operations:
        if op.name == names.MAP_RESERVE:
            slots = map_slots(target, tileas.block_warps(func), func.attributes[tileas.SHARED_MEMORY].value)
            op.attributes["slots"] = IntegerAttr(slots, i32)
    least = least_ctas(func, target, engine)
    if least is not None:
        func.attributes[tileas.MIN_CTAS] = IntegerAttr(least, i32)


MOST_SMS = 256
"""The most SMs of a GPU, with room above the 192 of the largest (sm_120's full GB202)."""


def map_slots(target: Target, warps: int, shared: int = 0) -> int:
    """The slots for tensor maps: as many as CTAs with this number of warps and bytes of shared memory can be resident.
    No CTA waits for the slot of another, since another CTA of its cluster might wait for it."""
    resident = occupancy(target, WARP_SIZE * warps, 0, shared).ctas
    return MOST_SMS * (1 << (max(1, resident) - 1).bit_length())


def least_ctas(func: aa.FuncOp, target: Target, engine: DiagnosticEngine) -> int | None:
    """minBlocksPerSM, which bounds the registers that ptxas gives a thread; None to leave these to ptxas.

    Without a bound, ptxas weighs registers against CTAs, and gives few registers to a kernel that needs few.  With a
    bound, it uses all registers that so many CTAs leave a thread, so that an SM holds no more CTAs.  Hence the bound is
    the number of CTAs that fit in shared memory, since ptxas does not see the bytes that the launch adds; the occupancy
    that the kernel requests is passed only if ptxas might reach fewer CTAs by itself.
    """
    threads = WARP_SIZE * tileas.block_warps(func)
    room = min(rooms(func, target, threads), key=lambda each: each.ctas)
    result = func.kernel_spec.occupancy or 1
    ctas = min(result, max(1, room.ctas))
    if ctas < result:
        engine.emit(Remark(Reason("kernel.fewer-ctas", ctas=ctas, asked=result, cause=room.reason), func.location))
    if _sets_registers(func):
        # ptxas 13.5 passes over `setmaxnreg` where `.reqntid` alone bounds the registers that threads start with (its
        # message C7508).
        return ctas
    bounded = room.ctas < occupancy(target, threads, 0, 0).ctas
    if bounded and room.ctas <= 1:
        return 1
    if bounded:
        # Several modules, for such kernels only.
        if resources.register_bounds.enough_registers(func) <= registers_per_thread(threads, room.ctas):
            return room.ctas
    least = _by_registers(func, threads, ctas, engine) if ctas > 1 else None
    return least or (1 if _takes_all_registers(func) else None)


def _by_registers(func: aa.FuncOp, threads: int, ctas: int, engine: DiagnosticEngine) -> int | None:
    """The word for a kernel that should have several CTAs on an SM; None where ptxas is to choose."""
    if resources.register_bounds.registers_alone(func) <= registers_per_thread(threads, ctas):
        return None
    least_registers, estimate = (
        resources.register_bounds.least_registers(func),
        resources.expected_registers.expected_registers(func, 1),
    )
    least = _ctas_within(least_registers, threads, ctas)
    if least < ctas:
        result = func.kernel_spec.occupancy
        cause = Reason("kernel.registers-needed", registers=least_registers)
        engine.emit(Remark(Reason("kernel.fewer-ctas", ctas=least, asked=result, cause=cause), func.location))
        if least <= _ctas_within(estimate, threads, ctas):
            return None
    return least


def _ctas_within(registers: int, threads: int, most: int) -> int:
    """How many CTAs, at least one and at most so many, leave each thread its registers."""
    return next(ctas for ctas in range(most, 0, -1) if ctas == 1 or registers_per_thread(threads, ctas) >= registers)


def rooms(func: aa.FuncOp, target: Target, threads: int) -> Iterator[Occupancy]:
    """CTAs that an SM has room for, regardless of registers."""
    yield occupancy(target, threads, 0, func.attributes[tileas.SHARED_MEMORY].value)
    for op in func.walk():
        if op.name == names.TENSOR_RESERVE:
            columns = op.attributes["columns"].value
            yield Occupancy(COLUMNS // columns, Reason("kernel.limited-by-columns", columns=columns))


def _sets_registers(func: aa.FuncOp) -> bool:
    """Whether agents set their registers."""
    return any(
        op.name == names.AGENT_SWITCH and any(op.max_regs.elements if op.max_regs is not None else ())
        for op in func.body.blocks[0].operations
    )


def _takes_all_registers(func: aa.FuncOp) -> bool:
    """Whether tiles take all registers that a thread can have, or more than two CTAs have room for.

    Without a bound, ptxas 13.5 gives 32 or 40 registers to some kernels that fit in no number of registers, and spills
    all else: twelve tiles of 64x128 f32 took 2304 bytes of local memory, a block-scaled dot of 128x256 for sm_120 3248.
    Others it limits to the registers that two CTAs leave, and spills the excess.  With this bound, most kernels would
    get more registers than they need, so that fewer CTAs fit on an SM.
    """
    threads = threads_of(func)
    most, of_two = registers_per_thread(threads), registers_per_thread(threads, 2)
    if _elements(func) <= of_two * threads:
        return False
    # Imported here: several modules, needed only for kernels with large tiles.
    # Accumulators of dots stay in registers, whereas ptxas rematerializes some operands of other tiles.
    loops = (
        op
        for op in func.walk()
        if isinstance(op, scf.ForOp) and any(isinstance(inner, tileas.DOTS) for inner in op.walk())
    )
    live = resources.registers.LiveRegisters()
    tiles = live.of_block(func.body.blocks[0])
    if tiles > of_two * 9 // 8 or any(live.of_loop(loop) > of_two for loop in loops):
        return True
    # An operand that goes through shared memory in rounds is all in registers before the dot reads it.
    in_rounds = (
        op.result
        for op in func.walk()
        if isinstance(op, tileas.ConvertLayoutOp) and resources.shared_memory.takes_rounds(op)
    )
    registers = max(tiles, max(map(live.words, in_rounds), default=0))
    return registers + RESERVE > most


def _elements(func: aa.FuncOp) -> int:
    """Of all tiles together, as words of 32 bits: above the registers that they take at a time."""
    types = (value.type for op in func.walk() for value in op.results)
    tensors = (type for type in types if isinstance(type, TensorType))
    return sum(type.num_elements * max(32, getattr(type.element_type, "width", 64)) // 32 for type in tensors)

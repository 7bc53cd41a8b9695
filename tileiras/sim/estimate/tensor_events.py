"""Timing of dots of tensor cores and of transfers of tensor memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.sim.emulator.launch.recording import Multiply, Transfer
from tileiras.sim.errors import SimulationError
from tileiras.sim.estimate.barriers import Cause
from tileiras.sim.estimate.events import Event
from tileiras.sim.estimate.in_flight import Done, Warp
from tileiras.sim.estimate.machine import mma_flops
from tileiras.targets.rates import SUB_CORES

if TYPE_CHECKING:
    from tileiras.sim.estimate.engine import Simulation

LEAST_TCGEN05 = 42.0
"""Cycles of the shortest dot of 64 rows: m64n64k16 and m64n128k16 both take 54.5 with 12 of latency (microbenchmark
"utcmma", B200); m64n256k16 takes the time of its FLOP."""
_WARPGROUP = 4


def type_key(multiply: Multiply) -> str:
    """The key of the operands in `rates.Gpu.tensor`."""
    name = multiply.type
    key = {"bf16": "f16", "f16": "f16", "tf32": "tf32", "f64": "f64"}.get(name)
    if key is None:
        key = "i8" if name[0] in "sub" else "f4" if name == "e2m1" and multiply.k >= 64 else "f8"
    return "f16_f16" if key == "f16" and multiply.accumulator == "f16" else key


def tensor_rate(engine: Simulation, multiply: Multiply) -> float:
    """FLOP per cycle of an SM."""
    key = type_key(multiply)
    table = engine.gpu.mma_sync if multiply.kind == "mma" else engine.gpu.tensor
    rate = table.get(key) or engine.gpu.tensor.get(key)
    if not rate:
        raise SimulationError(f"{engine.gpu.name} has no tensor cores for {multiply.type}")
    return rate

def begin_product(engine: Simulation, warp: Warp, event: Event, index: int, at: float) -> Done:
    multiply: Multiply = event.operation  # type: ignore[assignment]
    rate = tensor_rate(engine, multiply)
    work = 2.0 * multiply.m * multiply.n * multiply.k
    latency = engine.gpu.latency
    sm = warp.sm
    sm.calculated(type_key(multiply), work / (_WARPGROUP if multiply.kind == "wgmma" else 1))
    if multiply.kind == "wgmma":
        # Each of the four warps multiplies 16 rows on its own sub-core; B is read once for all of them.
        cycles = work / rate
        free = sm.units["tensor"].free[warp.sub_core]
        start = max(at, free)
        size = multiply.a_bytes + multiply.b_bytes
        cycles = max(cycles, size / engine.gpu.bytes_per_cycle["shared"])
        if warp.warp % _WARPGROUP == 0:
            warp.cluster.operands[warp.rank, warp.warp] = sm.read_operands(start, cycles, size)
        ready = warp.cluster.operands.get((warp.rank, warp.warp - warp.warp % _WARPGROUP), start)
        cycles = max(cycles, ready - start)
        sm.units["tensor"].take(warp.sub_core, at, cycles)
        end = start + cycles + latency.get("wgmma", 0.0)
        cause = Cause("tensor", warp.number, index, at, start, end)
        group = warp.groups["wgmma"]
        if end >= group.open:
            group.open, group.cause = end, cause
        if warp.warp % _WARPGROUP == 0:
            engine.span(warp, "tensor", f"wgmma m{multiply.m}n{multiply.n}k{multiply.k}", start, end, index)
        return at + 1, "tensor core", cause
    return _tcgen05(engine, warp, multiply, work / rate, index, at)

def multiply_in_registers(engine: Simulation, warp: Warp, index: int, at: float) -> Done:
    """Issue a machine instruction of an `mma`, which may be one of several for the PTX instruction."""
    instruction = engine.machine.instructions[index]
    cycles = engine.tensor_cycles.get(index)
    if cycles is None:
        cycles = engine.tensor_cycles[index] = _cycles_in_registers(engine, index)
    if not cycles:
        return at, "", None
    key, flop = engine.tensor_flop[index]
    warp.sm.calculated(key, flop)
    start = warp.sm.units["tensor"].take(warp.sub_core, at, cycles)
    cause = Cause("tensor", warp.number, index, at, start, start + cycles)
    if instruction.write_scoreboard is not None:
        return start + max(cycles, engine.gpu.latency["mma_sync"]), "tensor core result", cause
    # Stall counts cover the latency; the warp issues nothing before its tensor core has accepted the dot.
    return start + max(1, instruction.stall), "tensor pipe", cause

def _cycles_in_registers(engine: Simulation, index: int) -> float:
    """Cycles for which an instruction of an `mma` occupies the tensor core of its sub-core; 0 if the launch has no
    dots."""
    instruction = engine.machine.instructions[index]
    multiply = engine.products.get(instruction.ptx_line)
    if multiply is None:  # the line belongs to a neighbouring instruction
        multiply = next(iter(engine.products.values()), None)
        if multiply is None:
            return 0.0
    work = mma_flops(instruction)
    if work is None:
        work = 2.0 * multiply.m * multiply.n * multiply.k * engine.machine.parts[index]
    engine.tensor_flop[index] = (type_key(multiply), work)
    return work * SUB_CORES / tensor_rate(engine, multiply)

def _tcgen05(
    engine: Simulation, warp: Warp, multiply: Multiply, cycles: float, index: int, at: float
) -> Done:
    """Dots of one CTA, or of both of a pair."""
    blocks = multiply.blocks
    cycles /= blocks
    if multiply.m <= 64 * blocks:
        cycles = max(cycles, LEAST_TCGEN05)
    first = warp.rank & ~1 if blocks == 2 else warp.rank
    ranks = range(first, min(first + blocks, engine.members))
    start = max(at, *(engine.sms[rank].units["tensor"].free[0] for rank in ranks))
    # A is prefetched into a separate buffer: m64n256k16 takes 64 cycles though both operands take 80 of the port.
    cycles = max(cycles, multiply.b_bytes / engine.gpu.bytes_per_cycle["shared"])
    size = multiply.a_bytes + multiply.b_bytes
    ready = max(engine.sms[rank].read_operands(start, cycles, size) for rank in ranks)
    cycles = max(cycles, ready - start)
    for rank in ranks:
        for sub_core in range(SUB_CORES):
            engine.sms[rank].units["tensor"].take(sub_core, start, cycles)
    end = start + cycles + engine.gpu.latency.get("tcgen05", 0.0)
    cause = Cause("tensor", warp.number, index, at, start, end)
    queue = warp.cluster.tensor_queue
    queue[warp.rank] = max(queue.get(warp.rank, 0.0), end)
    engine.span(warp, "tensor", f"tcgen05 m{multiply.m}n{multiply.n}k{multiply.k}", start, end, index)
    return at + engine.gpu.latency.get("tcgen05_issue", 1.0), "tensor core", cause

def transfer_tensor_memory(engine: Simulation, warp: Warp, event: Event, index: int, at: float) -> Done:
    transfer: Transfer = event.operation  # type: ignore[assignment]
    sm, latency = warp.sm, engine.gpu.latency
    if transfer.kind == "wait":
        return max(at, warp.tensor_loads), "tensor memory", None
    if transfer.kind == "cp":
        start = max(at, sm.units["tensor"].free[0])
        end = start + latency.get("tcgen05_cp", 70.0)
        for sub_core in range(SUB_CORES):
            sm.units["tensor"].take(sub_core, start, end - start)
        queue = warp.cluster.tensor_queue
        queue[warp.rank] = max(queue.get(warp.rank, 0.0), end)
        return at + 1, "tensor memory", Cause("tensor", warp.number, index, at, start, end)
    cycles = transfer.bytes / engine.gpu.bytes_per_cycle.get("tensor_memory", 512.0)
    start = sm.units["tensor_memory"].take(0, at, cycles)
    end = start + cycles + latency.get("tcgen05_ld", latency["shared"])
    warp.tensor_loads = max(warp.tensor_loads, end)
    return end, "tensor memory", Cause("tensor_memory", warp.number, index, at, start, end)

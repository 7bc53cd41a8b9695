"""Timing of memory accesses and asynchronous copies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tileiras.sim.emulator.launch.recording import Copy
from tileiras.sim.estimate.barrier_events import key_of
from tileiras.sim.estimate.barriers import Cause
from tileiras.sim.estimate.events import SECTOR, Access, Event, ThreadCopy
from tileiras.sim.estimate.in_flight import Done, Signal, Update, Warp
from tileiras.targets.sm import WARP_SIZE

if TYPE_CHECKING:
    from tileiras.codegen.machine_code import Instruction
    from tileiras.sim.estimate.engine import Simulation

STORE_QUEUE = 512.0
"""Cycles of work by which stores may be ahead of L2 and DRAM: the depth of these queues is unpublished; with less
than a memory's latency, loads and stores could not overlap."""


def access_memory(engine: Simulation, warp: Warp, event: Event, index: int, at: float) -> Done:
    access: Access = event.operation  # type: ignore[assignment]
    sm, latency = warp.sm, engine.gpu.latency
    if access.space == "shared":
        end = sm.shared_access(at, access.wavefronts)
        cause = Cause("shared", warp.number, index, at, end - access.wavefronts, end)
        return end + (latency["shared"] if not access.write or access.atomic else 0), "shared memory", cause
    if access.space == "local":
        return _local(engine, warp, access.addresses.tolist(), access.size, access.write, index, at)
    if access.atomic and access.addresses.size == 1:
        engine.updates.append(Update(warp.cluster.number, int(access.addresses[0]), at))
    start, end = sm.global_access(at, access, warp.cluster.number, cached=not access.write and not access.atomic)
    cause = Cause("l2", warp.number, index, at, start, end)
    if access.write and not access.atomic:
        # Stores are posted, until those not yet accepted by L2 and DRAM fill the queues.
        until = sm.backlog(at) - STORE_QUEUE
        return (until, "store queue", cause) if until > at else (start, "global memory", cause)
    return end, "global memory", cause

def _local(
    engine: Simulation, warp: Warp, places: list[int], size: int, write: bool, index: int, at: float
) -> Done:
    """Local memory is cached by L1 and written back to L2; words of one place are contiguous across lanes, so that a
    word of a warp is a line."""
    sm, latency = warp.sm, engine.gpu.latency
    words = sorted({place // 4 + word for place in places for word in range(max(1, size // 4))})
    cycles = max(1.0, len(places) * size / engine.gpu.bytes_per_cycle["l1"])
    start = sm.units["l1"].take(0, at, cycles)
    end = start + cycles
    cause = Cause("l1", warp.number, index, at, start, end)
    sectors = [(warp.number << _PLACES | word) << 2 | part for word in words for part in range(4)]
    missing, _ = sm.cache.misses(sectors, _LOCAL)
    if missing:
        # A line that is fetched displaces one that was written.
        l2_start, l2_end = sm.l2_transfer(end, missing * SECTOR * (1 if write else 2), 0.0)
        cause = Cause("l2", warp.number, index, at, l2_start, l2_end)
        if write:
            until = sm.backlog(at) - STORE_QUEUE
            return (until, "store queue", cause) if until > at else (end, "local memory", cause)
        return l2_end + latency["l2"], "local memory", cause
    return end + (0 if write else latency["l1"]), "local memory", cause


def spill(engine: Simulation, warp: Warp, instruction: Instruction, index: int, at: float) -> Done:
    """A load or store of local memory that ptxas has added, of all lanes of a warp."""
    size = next((int(each) // 8 for each in instruction.modifiers if each in ("64", "128")), 4)
    match = _OFFSET.search(" ".join(instruction.operands))
    place = int(match[1], 0) if match is not None else 0
    return _local(engine, warp, [place] * WARP_SIZE, size, instruction.opcode == "STL", index, at)


_OFFSET = re.compile(r"\+\s*(0x[0-9a-f]+)\s*\]")
_LOCAL = 1 << 12
"""Owner of local lines in L1, beyond the numbers of clusters."""
_PLACES = 20
"""Bits of the number of a word of local memory."""


def begin_copy(engine: Simulation, warp: Warp, event: Event, index: int, at: float) -> Done:
    copy: Copy = event.operation  # type: ignore[assignment]
    if isinstance(copy, ThreadCopy):
        start, end = _cp_async(engine, warp, copy, at)
    else:
        start, end = _bulk(engine, warp, copy, at)
    cause = Cause("tma" if copy.kind != "cp.async" else "l2", warp.number, index, at, start, end)
    engine.span(
        warp, "tma" if copy.kind != "cp.async" else "cp.async", f"{copy.kind} {copy.direction}", start, end, index
    )
    for place in copy.barriers:
        signal = Signal(warp.cluster, key_of(engine, place), 0, -copy.bytes, cause)
        engine.push(
            end + (0 if place.cta % engine.members == warp.rank else engine.gpu.latency.get("dsmem", 0)), signal
        )
    if not copy.barriers:
        group = warp.groups["cp.async" if copy.kind == "cp.async" else "bulk"]
        if end >= group.open:
            group.open, group.cause = end, cause
        group.reads = max(group.reads, start + copy.bytes / engine.gpu.bytes_per_cycle["shared"])
    return at + 2, "asynchronous copy", cause

def _cp_async(engine: Simulation, warp: Warp, copy: ThreadCopy, at: float) -> tuple[float, float]:
    sm = warp.sm
    if not copy.addresses.size:
        return at, at + engine.gpu.latency["shared"]
    served = sm.units["lsu"].take(0, at, max(32 / engine.gpu.lanes["lsu"], copy.element / 4)) + 1
    size = copy.sectors * SECTOR
    missing = sm.shares.missing(copy, size)
    start, end = sm.l2_transfer(served, size, missing)
    # The data pass the port when they arrive, once, and with the conflicts of their addresses.
    smem_end = sm.copied(served, copy.wavefronts * engine.gpu.bytes_per_cycle["shared"])
    return start, max(end + sm.latency(missing), smem_end)

def _bulk(engine: Simulation, warp: Warp, copy: Copy, at: float) -> tuple[float, float]:
    """The engine processes a row of up to 128 bytes per cycle and moves the rows through L2's port."""
    sm, latency = warp.sm, engine.gpu.latency
    rate = engine.gpu.bytes_per_cycle["tma"]
    cycles = max(copy.bytes / rate, float(copy.rows))
    start = sm.units["tma"].take(0, at, cycles)
    targets = {target % engine.members for target in copy.destinations} or {warp.rank}
    smem_end = max(engine.sms[target].copied(start, copy.bytes) for target in targets)
    if copy.direction == "shared" or copy.addresses is None:
        return start, max(start + cycles, smem_end) + latency.get("dsmem", latency["l2"])
    if not copy.addresses.size:
        return start, start + cycles + latency["tma"]  # the box is completely outside the tensor
    size = copy.addresses.size * copy.element
    missing = sm.shares.missing(copy, size)
    _, end = sm.l2_transfer(start, size, missing)
    return start, max(end, smem_end) + latency.get("tma", 0) + (
        sm.latency(missing) if copy.direction == "load" else latency["l2"]
    )

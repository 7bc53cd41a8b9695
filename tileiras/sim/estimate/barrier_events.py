"""Timing of groups of asynchronous operations, of barriers and of released registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.sim.emulator.launch.recording import (
    Arrive,
    BarrierInit,
    BlockBarrier,
    ClusterBarrier,
    Commit,
    PhaseWait,
    Place,
    SetRegisters,
    Sleep,
    WaitGroup,
)
from tileiras.sim.estimate.barriers import BlockBarrierState, Cause, TransactionBarrier, Waiting
from tileiras.sim.estimate.events import Event
from tileiras.sim.estimate.in_flight import Cluster, Done, Group, Mbarrier, Signal, Warp
from tileiras.sim.estimate.machine import COMMITS
from tileiras.targets.sm import WARP_SIZE

if TYPE_CHECKING:
    from tileiras.sim.estimate.engine import Simulation


def key_of(engine: Simulation, place: Place) -> tuple[int, int]:
    return place.cta % engine.members, place.offset


def commit(engine: Simulation, warp: Warp, event: Event, index: int, at: float) -> Done:
    commit: Commit = event.operation  # type: ignore[assignment]
    if commit.kind == "tcgen05":
        end = (
            max(at, warp.cluster.tensor_queue.get(warp.rank, 0.0)) + engine.gpu.latency.get("tcgen05_commit", 0.0) / 2
        )
        cause = Cause("tensor", warp.number, index, at, at, end)
        for place in commit.barriers:
            engine.push(end, Signal(warp.cluster, key_of(engine, place), 1, 0, cause))
        return at + 1, "tensor core", cause
    if commit.kind == "wgmma":
        return at, "", None  # the groups of the machine code count
    group = warp.groups[commit.kind]
    if commit.barriers:
        cause = group.cause or Cause("warp", warp.number, index, at, at, at)
        for place in commit.barriers:
            engine.push(max(at, group.open), Signal(warp.cluster, key_of(engine, place), commit.count, 0, cause))
        return at + 1, "asynchronous copy", cause
    group.committed.append((group.reads, group.open, group.cause))
    return at + 1, "", None


def wait_for_group(engine: Simulation, warp: Warp, event: Event, index: int, at: float) -> Done:
    wait: WaitGroup = event.operation  # type: ignore[assignment]
    if wait.kind == "wgmma":
        return at, "", None
    group = warp.groups[wait.kind]
    if wait.uncommitted:
        group.committed.append((group.reads, group.open, group.cause))
    end, cause = _wait_end(group, wait.pending, wait.reads, at)
    return end, "asynchronous copy", cause


def _wait_end(group: Group, pending: int, reads: bool, at: float) -> tuple[float, Cause | None]:
    """When at most `pending` groups are in flight, and the cause."""
    due = group.committed[: len(group.committed) - pending] if pending else group.committed
    end, cause = at, None
    for read_end, complete, by in due:
        until = read_end if reads else complete
        if until > end:
            end, cause = until, by
    if due:
        del group.committed[: max(0, len(due) - 1)]
    return end, cause


def hand_on_products(warp: Warp, group: int, at: float) -> Done:
    """Execute a machine instruction that closes a group of `wgmma`, or waits for groups: `Segment.group`."""
    products = warp.groups["wgmma"]
    if group == COMMITS:
        products.committed.append((products.reads, products.open, products.cause))
        return at, "", None
    end, cause = _wait_end(products, group, False, at)
    return end, "tensor core", cause


def _barrier(engine: Simulation, cluster: Cluster, key: tuple[int, int]) -> TransactionBarrier:
    barrier = cluster.transactions.get(key)
    if barrier is None:
        barrier = cluster.transactions[key] = TransactionBarrier(1)
    return barrier


def init_barrier(engine: Simulation, warp: Warp, event: Event, index: int, at: float) -> Done:
    init: BarrierInit = event.operation  # type: ignore[assignment]
    rank, offset = key = key_of(engine, init.barrier)
    result = warp.cluster.transactions[key] = TransactionBarrier(init.count)
    engine.mbarriers.append(Mbarrier(warp.cluster.number, rank, offset, at, result))
    return at + engine.gpu.latency["shared"], "shared memory", None


def arrive(engine: Simulation, warp: Warp, event: Event, index: int, at: float) -> Done:
    arrive: Arrive = event.operation  # type: ignore[assignment]
    cause = Cause("warp", warp.number, index, at, at, at)
    key = key_of(engine, arrive.barrier)
    far = 0.0 if key[0] == warp.rank else engine.gpu.latency.get("dsmem", 0.0)
    engine.push(at + far, Signal(warp.cluster, key, arrive.count, arrive.bytes, cause))
    return at + 4, "mbarrier", None


def deliver(engine: Simulation, signal: Signal) -> None:
    barrier = _barrier(engine, signal.cluster, signal.key)
    completed = barrier.completed
    free = barrier.change(signal.arrivals, signal.transactions, signal.cause)
    barrier.counts_bytes |= signal.transactions != 0
    if barrier.completed != completed:
        barrier.phases.append(engine.now)
    engine.free(free, engine.now, "mbarrier", "mbarrier", signal.cause)


def wait_for_phase(engine: Simulation, warp: Warp, event: Event, index: int, at: float) -> Done | None:
    wait: PhaseWait = event.operation  # type: ignore[assignment]
    barrier = _barrier(engine, warp.cluster, key_of(engine, wait.barrier))
    if barrier.first_parity is None:
        barrier.first_parity = wait.parity & 1
    if not wait.blocking or barrier.passes(wait.parity):
        return at + engine.gpu.latency.get("mbarrier", engine.gpu.latency["shared"]), "mbarrier", None
    barrier.waiting.append((wait.parity, Waiting(warp, at, index)))
    return None


def meet_block(engine: Simulation, warp: Warp, event: Event, index: int, at: float) -> Done | None:
    result: BlockBarrier = event.operation  # type: ignore[assignment]
    key = (warp.rank, result.number)
    state = warp.cluster.block_barriers.setdefault(key, BlockBarrierState())
    state.arrive(warp.number)
    state.expected = result.threads
    cause = Cause("warp", warp.number, index, at, at, at)
    if result.waits:
        state.waiting.append(Waiting(warp, at, index))
    if state.complete(32 * warp.cluster.live[warp.rank]):
        engine.free(state.release(), at, "barrier", "barrier", cause)
    return None if result.waits else (at + 1, "barrier", None)


def meet_cluster(
    engine: Simulation, warp: Warp, event: Event, index: int, at: float
) -> Done | None:
    result: ClusterBarrier = event.operation  # type: ignore[assignment]
    state = warp.cluster.barrier
    if not result.waits:
        cause = Cause("warp", warp.number, index, at, at, at)
        live = sum(warp.cluster.live.values())
        engine.free(state.arrive(warp.number, live, cause), at, "cluster_barrier", "cluster barrier", cause)
        return at + 1, "", None
    if state.joined.get(warp.number, -1) < state.phase:
        return at + engine.gpu.latency.get("barrier", 0.0), "cluster barrier", state.cause
    state.waiting.append(Waiting(warp, at, index))
    return None


def set_registers(engine: Simulation, warp: Warp, event: Event, index: int, at: float) -> Done | None:
    """`setmaxnreg`: registers return to the CTA's pool, or are taken from it once it has enough, in the order of
    requests (PTX ISA, "setmaxnreg")."""
    result: SetRegisters = event.operation  # type: ignore[assignment]
    cluster, rank = warp.cluster, warp.rank
    more = WARP_SIZE * (result.count - (warp.registers or engine.registers))
    waiting = cluster.waiting_for_registers.setdefault(rank, [])
    warp.registers = result.count
    if more > 0 and (waiting or more > cluster.registers.get(rank, 0)):
        waiting.append((more, Waiting(warp, at, index)))
        return None
    cluster.registers[rank] = cluster.registers.get(rank, 0) - more
    cause = Cause("warp", warp.number, index, at, at, at)
    while waiting and waiting[0][0] <= cluster.registers[rank]:
        count, first = waiting.pop(0)
        cluster.registers[rank] -= count
        engine.free([first], at, "barrier", "registers", cause)
    return at + engine.gpu.latency["barrier"], "registers", None


def sleep(engine: Simulation, warp: Warp, event: Event, index: int, at: float) -> Done:
    """`nanosleep` takes from nothing to twice its operand (PTX ISA, "nanosleep"): the operand."""
    result: Sleep = event.operation  # type: ignore[assignment]
    return at + result.nanoseconds * engine.gpu.sustained_mhz / 1000, "sleep", None

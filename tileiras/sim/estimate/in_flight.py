"""State of a simulation: warps and their waits, clusters and their barriers; and its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tileiras.sim.errors import SimulationError
from tileiras.sim.estimate.barriers import BlockBarrierState, Cause, ClusterBarrierState, TransactionBarrier, Waiting
from tileiras.sim.estimate.paths import Step
from tileiras.sim.estimate.units import Multiprocessor

Done = tuple[float, str, Cause | None]
"""(end of an operation for its warp, stall reason until then, cause of the end)."""
_COPY_GROUPS = ("cp.async", "bulk", "wgmma")


class StalledForever(SimulationError):
    """Warps wait for each other: the replayed traces are not a complete execution."""


class WarpWork(NamedTuple):
    """Work of one warp of a cluster."""

    rank: int
    warp: int
    steps: Sequence[Step]


class Span(NamedTuple):
    """A stretch of time of a warp or a unit, for drawing; ``track`` is the warp's number or the unit's name."""

    sm: int
    track: int | str
    name: str
    start: float
    end: float
    instruction: int


class Wait(NamedTuple):
    """A wait of a warp that was ended by another warp or a unit."""

    start: float
    end: float
    reason: str
    instruction: int
    cause: Cause | None


class Group:
    """Asynchronous operations of one warp and kind: the latest completion of the uncommitted ones, and the committed
    groups."""

    __slots__ = ("cause", "committed", "open", "reads", "read_done")

    def __init__(self) -> None:
        self.open = 0.0
        self.reads = 0.0
        self.cause: Cause | None = None
        self.committed: list[tuple[float, float, Cause | None]] = []  # (sources read, done, cause)


class Warp:
    """A warp in flight."""

    __slots__ = (
        "causes", "cluster", "ended", "event", "groups", "held", "limit", "log", "marks", "number", "phase", "place",
        "rank", "reasons", "registers", "saved", "scoreboards", "segment", "servers", "sm", "start", "step", "sub_core",
        "tensor_loads", "warp", "work",
    )  # fmt: skip

    def __init__(
        self, number: int, place: int, work: WarpWork, cluster: Cluster, sm: Multiprocessor, sub_core: int
    ) -> None:
        """``place``: of its work among that of its cluster."""
        self.number = number
        self.place = place
        self.work = work.steps
        self.limit = len(work.steps)
        """Step before which the simulation stops, or the number of steps."""
        self.rank = work.rank
        self.warp = work.warp
        self.cluster = cluster
        self.sm = sm
        self.sub_core = sub_core
        self.servers = sm.servers[sub_core]
        self.start = self.ended = 0.0
        self.step = self.segment = self.event = self.phase = 0
        self.saved = 0.0
        self.held = 0
        self.registers = 0
        """Registers of each of its threads, as last set."""
        self.scoreboards = [0.0] * 6
        self.reasons = [""] * 6
        self.causes: list[Cause | None] = [None] * 6
        self.groups = {kind: Group() for kind in _COPY_GROUPS}
        self.tensor_loads = 0.0
        self.log: list[Wait] = []
        self.marks: list[tuple[int, float]] = []  # (block of the loop's head, time of the back edge)


class Cluster:
    """CTAs that run together, and their barriers."""

    __slots__ = (
        "barrier", "block_barriers", "live", "number", "operands", "registers", "slot", "tensor_queue", "transactions",
        "waiting_for_registers",
    )  # fmt: skip

    def __init__(self, number: int, slot: int, live: dict[int, int]) -> None:
        self.number = number
        self.slot = slot
        self.live = live  # rank -> warps that have not ended
        self.transactions: dict[tuple[int, int], TransactionBarrier] = {}
        self.block_barriers: dict[tuple[int, int], BlockBarrierState] = {}
        self.barrier = ClusterBarrierState()
        self.operands: dict[tuple[int, int], float] = {}  # (rank, first warp of a group) -> when its dot has them
        self.tensor_queue: dict[int, float] = {}  # rank -> completion of its dots so far
        self.registers: dict[int, int] = {}  # rank -> registers that its warps have released
        self.waiting_for_registers: dict[int, list[tuple[int, Waiting]]] = {}  # rank -> (count, waiting warp), in order


class Signal(NamedTuple):
    """Arrivals or bytes that come to an mbarrier."""

    cluster: Cluster
    key: tuple[int, int]
    arrivals: int
    transactions: int
    cause: Cause


class Mbarrier(NamedTuple):
    """An initialised mbarrier."""

    cluster: int
    rank: int
    offset: int
    """In the shared memory of its CTA, in bytes."""
    since: float
    barrier: TransactionBarrier


class Update(NamedTuple):
    """A thread updated one address of global memory, atomically."""

    cluster: int
    address: int
    at: float


class Outcome(NamedTuple):
    """Outcome of a simulation; times are cycles."""

    cycles: float
    """Until the last warp had ended and all stores had reached memory."""
    ends: tuple[float, ...]
    """End of each cluster, in the order in which they began."""
    warps: tuple[Warp, ...]
    sms: tuple[Multiprocessor, ...]
    issued: dict[int, int]
    """Machine instruction -> number of times that warps issued it."""
    stalls: dict[tuple[int, str], float]
    """(machine instruction, reason) -> cycles that warps waited there."""
    spans: list[Span]
    updates: list[Update]
    """Approximately in order of time, as events are."""
    mbarriers: list[Mbarrier]
    """In the order in which they were initialised."""

"""Barriers of the simulated machine: waiting warps, and the arrivals that release them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tileiras.sim.estimate.in_flight import Warp


class Cause(NamedTuple):
    """Cause of the end of a wait: work of a unit that a warp requested, or the arrival of a warp. Times are cycles."""

    unit: str
    warp: int
    instruction: int
    """Number of the requesting machine instruction."""
    issued: float
    start: float
    """When the unit began."""
    end: float


class Waiting(NamedTuple):
    warp: Warp
    since: float
    instruction: int


class TransactionBarrier:
    """An mbarrier. Does not check for excess arrivals; the emulator reports them."""

    __slots__ = (
        "cause", "completed", "counts_bytes", "expected", "first_parity", "pending", "phases", "transactions",
        "waiting",
    )  # fmt: skip

    def __init__(self, count: int) -> None:
        self.expected = self.pending = count
        self.transactions = 0
        self.completed = 0
        self.waiting: list[tuple[int, Waiting]] = []
        self.cause: Cause | None = None
        self.phases: list[float] = []  # end of each phase
        self.counts_bytes = False
        self.first_parity: int | None = None  # parity of the first wait

    def passes(self, parity: int) -> bool:
        """Whether the phase of ``parity`` is complete."""
        return self.completed & 1 != parity & 1

    def change(self, arrivals: int, transactions: int, cause: Cause) -> list[Waiting]:
        """Apply arrivals and a change of the pending bytes (negative when they arrive); returns the warps that this
        releases."""
        self.pending -= arrivals
        self.transactions += transactions
        if self.pending > 0 or self.transactions != 0:
            return []
        self.pending = self.expected
        self.completed += 1
        self.cause = cause
        free = [waiting for parity, waiting in self.waiting if self.passes(parity)]
        self.waiting = [each for each in self.waiting if not self.passes(each[0])]
        return free


class BlockBarrierState:
    """One of the 16 barriers of a CTA."""

    __slots__ = ("arrived", "expected", "waiting")

    def __init__(self) -> None:
        self.arrived: set[int] = set()
        self.expected = 0
        self.waiting: list[Waiting] = []

    def arrive(self, warp: int) -> None:
        """A warp arrives as a whole, even if its threads arrive one after the other."""
        self.arrived.add(warp)

    def complete(self, live: int) -> bool:
        """Whether all have arrived; ``live``: number of live threads, for a barrier without a count."""
        return 0 < 32 * len(self.arrived) >= (self.expected or live)

    def release(self) -> list[Waiting]:
        free, self.waiting = self.waiting, []
        self.arrived = set()
        self.expected = 0
        return free


class ClusterBarrierState:
    """The barrier of a cluster; ``phase``: completed phases, ``joined``: warp -> the phase it arrived in."""

    __slots__ = ("arrived", "cause", "joined", "phase", "waiting")

    def __init__(self) -> None:
        self.arrived = 0
        self.phase = 0
        self.joined: dict[int, int] = {}
        self.waiting: list[Waiting] = []
        self.cause: Cause | None = None

    def arrive(self, warp: int, live: int, cause: Cause) -> list[Waiting]:
        self.joined[warp] = self.phase
        self.arrived += 1
        return self.check(live, cause)

    def check(self, live: int, cause: Cause) -> list[Waiting]:
        """``live``: warps of the cluster that have not ended."""
        if not self.arrived or self.arrived < live:
            return []
        self.phase += 1
        self.arrived = 0
        self.cause = cause
        free, self.waiting = self.waiting, []
        return free

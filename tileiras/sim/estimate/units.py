"""Units of a multiprocessor as servers: each serves requests in order, at its rate; its load is counted by unit and
over time."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from math import exp

from tileiras.sim.emulator.launch.recording import Copy
from tileiras.sim.estimate.events import LINE, SECTOR, Access
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.rates import SHARED_PIPES, SUB_CORES, Gpu

BIN = 128
"""Cycles of one bin of the histories over time."""

BURST = 512.0
"""Cycles of work by which an SM may be ahead of its share of L2 and DRAM: only the sum of all SMs is limited, and those
that compute leave their shares to the others. Assumed: half of an iteration of a product's loop."""
ASYNCHRONOUS = 256.0
"""Cycles of work by which dots and copies may be ahead of the port of shared memory that they share: the time of one
dot. Assumed."""

L1_AND_SHARED: dict[str, int] = {
    "sm_75": 96, "sm_80": 192, "sm_86": 128, "sm_87": 192, "sm_88": 128, "sm_89": 128, "sm_90": 256, "sm_100": 256,
    "sm_103": 256, "sm_107": 256, "sm_110": 256, "sm_120": 128, "sm_121": 128,
}  # fmt: skip
"""KiB of the unified L1 cache and shared memory of an SM (CUDA C++ Programming Guide, "Compute Capabilities":
unified data cache)."""

SUB_CORE_UNITS = (
    "issue",
    "fma",
    "half",
    "imad",
    "alu",
    "mufu",
    "ex2",
    "conversion",
    "fp64",
    "uniform",
    "branch",
    "operands",
    "tensor",
)
SM_UNITS = ("lsu", "shuffle", "shared", "l1", "tma", "l2", "dram", "tensor_memory")
#: Unit -> its name in results.
TITLES = {
    "issue": "issue", "fma": "FMA", "half": "FP16", "imad": "IMAD", "alu": "ALU", "mufu": "MUFU", "ex2": "MUFU",
    "conversion": "conversion", "fp64": "FP64", "uniform": "uniform", "branch": "branch", "operands": "register banks",
    "tensor": "tensor",
    "lsu": "LSU", "shuffle": "shuffle", "shared": "shared memory", "l1": "L1", "tma": "TMA", "l2": "L2", "dram": "DRAM",
    "tensor_memory": "tensor memory",
}  # fmt: skip


class Shares(NamedTuple):
    """Share of one SM in the resources that all SMs share."""

    l2: float
    """Bytes per cycle."""
    dram: float
    dram_bytes: Callable[[Access | Copy], float]
    """Bytes of an access of the recording that L2 exchanges with DRAM."""
    miss: Callable[[Access], float]
    """Share of a sector that DRAM serves on the cluster's first touch by a load."""
    displacing: float = 1.0
    """DRAM bytes per missed byte, with the write-backs that it causes."""

    def missing(self, access: Access | Copy, size: float) -> float:
        """The same as a share of the ``size`` bytes that go through L2."""
        return min(1.0, self.dram_bytes(access) / size)


_OWNER = 48
"""Bits above an address."""


class Cache:
    """L1: lines of 128 bytes in LRU order, with the sectors present."""

    def __init__(self, size: int) -> None:
        self.lines: OrderedDict[int, int] = OrderedDict()
        self.capacity = max(16, size // LINE)
        self.asked: dict[int, int] = {}
        """Sectors by line that have missed before: DRAM serves only the first miss."""

    def __deepcopy__(self, memo: dict[int, object]) -> Cache:
        result = copy.copy(self)
        result.lines, result.asked = self.lines.copy(), self.asked.copy()
        return result

    def misses(self, sectors: list[int], owner: int) -> tuple[int, int]:
        """(missing sectors, those of them never requested before); all are present afterwards.

        Clusters that replay one trace represent clusters with other addresses: ``owner`` distinguishes them.
        """
        count = first = 0
        lines, result = self.lines, self.asked
        for sector in sectors:
            line, bit = sector >> 2 | owner << _OWNER, 1 << (sector & 3)
            present = lines.pop(line, 0)
            if not present & bit:
                count += 1
                before = result.get(line, 0)
                if not before & bit:
                    first += 1
                    result[line] = before | bit
            lines[line] = present | bit
        while len(lines) > self.capacity:
            lines.popitem(last=False)
        return count, first


class Chip:
    """L2 and DRAM as the SMs of one cluster see them: together they have their shares, one alone may use all of it.

    ``free``: unit -> when the requests so far are served at the rate of the shares.
    """

    def __init__(self, shares: Shares, members: int) -> None:
        self.free = {"l2": 0.0, "dram": 0.0}
        self.rates = {"l2": shares.l2 * members, "dram": shares.dram * members}
        self.load = {"l2": 0.0, "dram": 0.0}
        self.since = {"l2": 0.0, "dram": 0.0}

    def serve(self, unit: str, at: float, size: float) -> tuple[float, float]:
        """(when a request is served, recent utilisation of the unit)."""
        cycles = size / self.rates[unit]
        self.free[unit] = max(self.free[unit], at) + cycles
        interval = at - self.since[unit]
        if interval > 0:
            self.load[unit] *= exp(-interval / _RECENT)
            self.since[unit] = at
        self.load[unit] += cycles
        return self.free[unit], min(_FULL, self.load[unit] / _RECENT)


_RECENT = 2048.0
"""Cycles over which the utilisation is averaged that determines waits in queues."""
_FULL = 0.95
"""Utilisation beyond which queues are those of the servers, which are modeled as such."""
QUEUE = 20.0
"""Cycles of service of one request in the queues of L2 and DRAM: at the utilisation u, a request waits for
u / (1 - u) of it. Assumed: a few requests per slice."""


def queued(utilisation: float) -> float:
    """Cycles that a request waits for others (M/M/1)."""
    return QUEUE * utilisation / (1.0 - utilisation)


class Unit:
    """The servers of a unit and their load."""

    __slots__ = ("busy", "free", "requests")

    def __init__(self, servers: list[float], history: bool) -> None:
        self.free = servers
        """When each server has finished its requests."""
        self.busy = 0.0
        """Cycles of all servers together."""
        self.requests: list[tuple[float, float]] | None = [] if history else None
        """Beginning and cycles of each request, in order."""

    def take(self, server: int, at: float, cycles: float) -> float:
        """Occupy a server for `cycles` cycles; returns when it begins."""
        free = self.free
        start = free[server]
        if start < at:
            start = at
        free[server] = start + cycles
        self.busy += cycles
        if self.requests is not None:
            self.requests.append((start, cycles))
        return start

    def count(self, start: float, cycles: float) -> None:
        """Count the unit as busy, whether or not others have to wait for it."""
        self.busy += cycles
        if self.requests is not None:
            self.requests.append((start, cycles))

    def load(self) -> dict[int, float]:
        """Stretch of `BIN` cycles -> cycles for which servers were busy in it."""
        bins: dict[int, float] = {}
        for start, cycles in self.requests or ():
            at = int(start) // BIN
            if start + cycles <= (at + 1) * BIN:
                bins[at] = bins.get(at, 0.0) + cycles
                continue
            while cycles > 0:
                part = min(cycles, (at + 1) * BIN - start)
                bins[at] = bins.get(at, 0.0) + part
                cycles -= part
                at += 1
                start = at * BIN
        return bins


class Multiprocessor:
    """An SM: its units, caches and queues."""

    def __init__(
        self, gpu: Gpu, shares: Shares, cache_bytes: int, chip: Chip | None = None, history: bool = True
    ) -> None:
        """``chip``: shared with the other SMs of the cluster; ``history``: whether units keep their requests."""
        self.gpu = gpu
        self.shares = shares
        self.chip = chip or Chip(shares, 1)
        self.port = 0.0
        """When the port of shared memory has served all requests so far, those of dots and copies included."""
        self.l2_port = 0.0
        self.flops: dict[str, float] = {}
        """Type of operands -> FLOP of dots."""
        self.units: dict[str, Unit] = {}
        for name in SUB_CORE_UNITS:
            self.units[name] = Unit([0.0] * (1 if name in SHARED_PIPES else SUB_CORES), history)
        for name in SM_UNITS:
            self.units[name] = Unit([0.0], history)
        if gpu.lanes.get("ex2") == gpu.lanes.get("mufu"):
            self.units["ex2"].free = self.units["mufu"].free  # one unit
        self.servers = tuple(
            {name: (unit, sub_core if len(unit.free) > 1 else 0) for name, unit in self.units.items()}
            for sub_core in range(SUB_CORES)
        )
        """For each sub-core its server of each unit, with the unit."""
        self.cache = Cache(cache_bytes)
        self.stored = 0.0
        """When L2 has received the stores of threads so far."""
        self.operand_reads = (0.0, 0.0)
        """End of the current operand reads of tensor cores from shared memory, and their share of its port."""

    # -- shared memory ---------------------------------------------------------------------------------------------

    def shared_access(self, at: float, wavefronts: float) -> float:
        """Completion of an access by the port; slower while tensor cores read their operands through it."""
        until, share = self.operand_reads
        cycles = wavefronts / max(0.1, 1.0 - share) if at < until else wavefronts
        self.units["lsu"].take(0, at, 32 / self.gpu.lanes["lsu"])
        free = self.units["shared"].free
        start = max(at, free[0], self.port - ASYNCHRONOUS)
        free[0] = start + cycles
        self._through_port(start, wavefronts)
        return start + cycles

    def _through_port(self, at: float, cycles: float) -> float:
        """When the port has served a request beside all others."""
        start = max(self.port, at)
        self.port = start + cycles
        self.units["shared"].count(start, cycles)
        return self.port

    def copied(self, at: float, size: float) -> float:
        """Earliest completion of a copy of ``size`` bytes to or from shared memory."""
        return self._through_port(at, size / self.gpu.bytes_per_cycle["shared"]) - ASYNCHRONOUS

    # -- global memory ---------------------------------------------------------------------------------------------

    def l2_transfer(self, at: float, size: float, missing: float) -> tuple[float, float]:
        """(when L2 and DRAM begin with ``size`` bytes, when they have moved them); ``missing``: share of DRAM."""
        start = max(at, self.l2_port)
        self.l2_port = end = start + size / min(self.gpu.bytes_per_cycle["l2"], self.chip.rates["l2"])
        served, busy = self.chip.serve("l2", at, size)
        self.units["l2"].count(max(start, served - size / self.chip.rates["l2"]), size / self.shares.l2)
        end = max(end, served - BURST) + queued(busy)
        if missing:
            volume = size * missing * self.shares.displacing
            served, busy = self.chip.serve("dram", at, volume)
            self.units["dram"].count(max(start, served - volume / self.chip.rates["dram"]), volume / self.shares.dram)
            end = max(end, served - BURST + queued(busy))
        return start, end

    def backlog(self, at: float) -> float:
        """When L2, DRAM and the port of shared memory have finished their requests."""
        return max(at, self.chip.free["l2"], self.chip.free["dram"])

    def latency(self, missing: float) -> float:
        """Latency of a load that hits L2 or, with a probability, goes to DRAM."""
        latency = self.gpu.latency
        return latency["l2"] + missing * (latency["dram"] - latency["l2"])

    def global_access(self, at: float, access: Access, owner: int, cached: bool) -> tuple[float, float]:
        """(when a load or store of a warp has left the SM, when its result is there)."""
        sectors = access.sectors
        cycles = max(access.lines, access.bytes / self.gpu.bytes_per_cycle["l1"])
        # Addresses by lanes, data by the 128 bytes of a register.
        self.units["lsu"].take(0, at, max(32 / self.gpu.lanes["lsu"], access.size / 4))
        served = self.units["l1"].take(0, at, cycles) + cycles
        if cached:
            misses, first = self.cache.misses(sectors.tolist(), owner)
            if not misses:
                return served, served + self.gpu.latency["l1"]
            missing = self.shares.miss(access) * first / misses
        else:
            misses = sectors.size
            missing = self.shares.missing(access, misses * SECTOR)
        start, end = self.l2_transfer(served, misses * SECTOR, missing)
        end += (access.turns - 1) * self.gpu.latency["update"] if access.atomic else 0.0
        if access.write:
            self.stored = max(self.stored, end)
        return start, end + self.latency(missing)

    def calculated(self, key: str, work: float) -> None:
        self.flops[key] = self.flops.get(key, 0.0) + work

    # -- tensor cores ----------------------------------------------------------------------------------------------

    def read_operands(self, start: float, cycles: float, size: float) -> float:
        """Tensor cores read ``size`` bytes of shared memory during the dot, or for as long as the port takes.

        Returns the earliest end of the dot: the port serves threads and copies as well.
        """
        port = size / self.gpu.bytes_per_cycle["shared"]
        if not port:
            return start
        # A comes from a buffer of its own where both take longer than the dot (`tensor_events._tcgen05`).
        port = min(port, cycles)
        self.operand_reads = (max(self.operand_reads[0], start + cycles), port / cycles)
        return self._through_port(start, port) - ASYNCHRONOUS

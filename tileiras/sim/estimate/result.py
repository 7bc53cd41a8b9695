"""What an estimate says, as data."""

from __future__ import annotations

from typing import Any

from tileiras.named_tuple import NamedTuple

BOUNDS = ("tensor", "MUFU", "issue", "shared memory", "L2", "DRAM", "latency", "barrier wait", "power")
"""What can bound a kernel, besides pipes that it may use to the full (`FMA`, `ALU`, `FP64`, `LSU` and so on)."""


class Stall(NamedTuple):
    """Cycles that warps wait at a machine instruction for one reason."""

    address: int
    instruction: str
    ptx_line: int
    source: tuple[str, int] | None
    reason: str
    share: float
    """Of all the time of all warps."""


class LineStall(NamedTuple):
    """The same for a line of PTX (file: None) or of the source; ``reasons``: share by reason, the largest first."""

    file: str | None
    line: int
    share: float
    reasons: dict[str, float]


class Occupied(NamedTuple):
    """How the grid fills the GPU."""

    ctas: int
    """Resident on an SM at once, of those that the launch has for it."""
    limit: str
    """What keeps one more away."""
    warps: int
    """Resident on an SM at once."""
    active_sms: int
    waves: float
    """CTAs of the grid over those that are resident on all SMs."""


class Link(NamedTuple):
    """A stretch of the critical path, the earliest first: a warp or a unit, what it does, and for how many cycles."""

    who: str
    what: str
    ptx_line: int
    source: tuple[str, int] | None
    cycles: float


class SteadyLoop(NamedTuple):
    """The loop whose iterations were not all simulated, or could have been left out."""

    ptx_lines: tuple[int, int]
    trips: int
    """Of the longest execution."""
    simulated: int
    """Iterations of it that were."""
    period: int
    """Iterations after which all warps do the same again."""
    cycles: float
    """Of one iteration."""
    critical_path: tuple[Link, ...]
    """Of one period."""


class Phase(NamedTuple):
    """A stretch of the simulated time: what bounds it, and how busy the units are."""

    start: float
    """Microseconds from the beginning of the first CTA, in simulated time."""
    end: float
    bound: str
    utilization: dict[str, float]


class Pipe(NamedTuple):
    """A ring of stages that warps hand to each other, of one CTA, over the simulated time."""

    cluster: int
    """Which of those that were simulated."""
    cta: int
    """Its rank in the cluster."""
    offset: int
    """Of its first mbarrier in the CTA's shared memory, in bytes."""
    stages: int
    full: float
    """Stages that are full, on average."""
    empty_share: float
    """Of the time, in which none is full: who drains them waits, or has nothing left to do."""
    full_share: float
    """Of the time, in which all are: who fills them is ahead."""
    levels: tuple[tuple[float, int], ...]
    """(microseconds from the beginning of the first CTA, stages that are full from then on); the last is the end."""


class Estimate(NamedTuple):
    """How long a launch takes, and why."""

    entry: str
    gpu: str
    microseconds: float
    """Of the launch, with what starting it costs."""
    cycles: float
    """Of the SMs, without that."""
    bound: str
    """What bounds it most of the time: see `BOUNDS`."""
    bounds: dict[str, float]
    """Bound -> share of the time."""
    utilization: dict[str, float]
    """Unit -> share of what it could do, on the SMs that have work."""
    stalls: tuple[Stall, ...]
    """The largest first; with ``issued`` they are all the time of all warps."""
    issued: float
    """Share of the warps' time in which they issue."""
    occupancy: Occupied
    steady: SteadyLoop | None
    """None for a kernel without a long loop."""
    phases: tuple[Phase, ...]
    pipes: tuple[Pipe, ...]
    """How full they are; of kernels whose warps hand tiles to each other through mbarriers."""
    notes: tuple[str, ...]
    """What was extrapolated and how that was found out, or why nothing was."""
    trace: dict[str, Any]
    """Of the simulated time, as Chrome and Perfetto read it: processes are SMs, with a track for each warp, agent
    (warps that take one path) and unit, and counters of the full stages of pipes."""

    def by_ptx_line(self) -> list[LineStall]:
        return _by_line(self.stalls, lambda stall: (None, stall.ptx_line))

    def by_source(self) -> list[LineStall]:
        """Of stalls whose source line is known."""
        return _by_line(self.stalls, lambda stall: stall.source)

    def by_reason(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for stall in self.stalls:
            found[stall.reason] = found.get(stall.reason, 0.0) + stall.share
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))

    def to_json(self, trace: bool = False) -> dict[str, Any]:
        """All of it but, unless asked for, the trace, of what JSON has."""
        found = _plain(self)
        if not trace:
            del found["trace"]
        return found

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from tileiras.html_table import table

        busy = sorted(self.utilization.items(), key=lambda each: (-each[1], each[0]))[:6]
        held = self.occupancy
        rows = [
            ("time", f"{self.microseconds:.4g} us"), ("bound by", self.bound),
            ("units", ", ".join(f"{name} {share:.0%}" for name, share in busy)),
            ("warps wait for", ", ".join(f"{name} {share:.0%}" for name, share in list(self.by_reason().items())[:6])),
            ("occupancy", f"{held.ctas} CTAs, {held.warps} warps an SM ({held.limit})"),
            ("waves", f"{held.waves:.3g}"),
        ]  # fmt: skip
        return table(f"{self.entry} on {self.gpu}", rows)

    def __str__(self) -> str:
        lines = [f"{self.entry} on {self.gpu}: {self.microseconds:.4g} us, bound by {self.bound}"]
        busy = sorted(self.utilization.items(), key=lambda each: (-each[1], each[0]))
        lines.append("units: " + ", ".join(f"{name} {share:.0%}" for name, share in busy[:6] if share >= 0.005))
        reasons = list(self.by_reason().items())[:6]
        lines.append(f"warps: issue {self.issued:.0%}, " + ", ".join(f"{name} {share:.0%}" for name, share in reasons))
        held = self.occupancy
        lines.append(f"{held.ctas} CTAs, {held.warps} warps an SM ({held.limit}), {held.waves:.3g} waves")
        return "\n".join([*lines, *self.notes])


def _by_line(stalls: tuple[Stall, ...], key) -> list[LineStall]:
    found: dict[tuple[str | None, int], dict[str, float]] = {}
    for stall in stalls:
        place = key(stall)
        if place is not None and place[1]:
            reasons = found.setdefault(place, {})
            reasons[stall.reason] = reasons.get(stall.reason, 0.0) + stall.share
    rows = [
        LineStall(file, line, sum(reasons.values()), dict(sorted(reasons.items(), key=lambda each: -each[1])))
        for (file, line), reasons in found.items()
    ]
    return sorted(rows, key=lambda row: (-row.share, row.file or "", row.line))


def _plain(value: Any) -> Any:
    if hasattr(value, "_fields"):
        return {name: _plain(each) for name, each in zip(value._fields, value)}
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value

"""The estimate as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.diagnostics import plural
from tileiras.sim.estimate import uncertainty
from tileiras.sim.estimate.uncertainty import Needs
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import rates

if TYPE_CHECKING:
    from tileiras.sim.estimate.drawing import Drawing

NO_NEEDS = Needs(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
BOUNDS = ("tensor", "MUFU", "issue", "shared memory", "L2", "DRAM", "latency", "barrier wait", "power")
"""Bounds of a kernel, besides pipes that it may saturate (`FMA`, `ALU`, `FP64`, `LSU` and so on)."""


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
    """Resident on an SM at once, of those assigned to it."""
    limit: str
    """The resource that limits residency."""
    warps: int
    """Resident on an SM at once."""
    active_sms: int
    waves: float
    """CTAs of the grid over those that are resident on all SMs."""

    def __str__(self) -> str:
        return f"{plural(self.ctas, 'CTA')}, {plural(self.warps, 'warp')} an SM ({self.limit})"


class Link(NamedTuple):
    """A segment of the critical path, the earliest first: a warp or a unit, its activity, and its cycles."""

    who: str
    what: str
    ptx_line: int
    source: tuple[str, int] | None
    cycles: float


class SteadyLoop(NamedTuple):
    """A loop with a steady state, whose iterations were or could have been simulated in part only."""

    ptx_lines: tuple[int, int]
    trips: int
    """Of the longest execution."""
    simulated: int
    """Its simulated iterations."""
    period: int
    """Iterations after which all warps repeat their behavior."""
    cycles: float
    """Of one iteration."""
    critical_path: tuple[Link, ...]
    """Of one period."""


class Phase(NamedTuple):
    """A stretch of the simulated time, its bound, and the utilization of the units."""

    start: float
    """Microseconds from the beginning of the first CTA, in simulated time."""
    end: float
    bound: str
    utilization: dict[str, float]


class Pipe(NamedTuple):
    """A pipe of one CTA over the simulated time."""

    cluster: int
    """Number of the simulated cluster."""
    cta: int
    """Its rank in the cluster."""
    offset: int
    """Of its first mbarrier in the CTA's shared memory, in bytes."""
    stages: int
    full: float
    """Stages that are full, on average."""
    empty_share: float
    """Share of the time without a full stage: the consumer waits, or has no work left."""
    full_share: float
    """Share of the time with all stages full: the producer is ahead."""
    levels: tuple[tuple[float, int], ...]
    """(microseconds from the beginning of the first CTA, stages that are full from then on); the last is the end."""


class Estimate(NamedTuple):
    """Estimated time of a launch, with its bounds."""

    entry: str
    gpu: str
    microseconds: float
    """Of the launch, with launch overhead."""
    cycles: float
    """Of the SMs, without launch overhead."""
    bound: str
    """The bound of most of the time: see `BOUNDS`."""
    bounds: dict[str, float]
    """Bound -> share of the time."""
    utilization: dict[str, float]
    """Unit -> share of its peak throughput, on the SMs that have work."""
    stalls: tuple[Stall, ...]
    """The largest first; with ``issued`` they add up to the time of all warps."""
    issued: float
    """Share of the warps' time in which they issue."""
    occupancy: Occupied
    steady: SteadyLoop | None
    """None for a kernel without a long loop."""
    phases: tuple[Phase, ...]
    pipes: tuple[Pipe, ...]
    """Fill levels of the pipes of a kernel."""
    notes: tuple[str, ...]
    """Extrapolations and their evidence, or the reason for simulating everything."""
    drawing: Drawing | None
    """Of the simulated time, from which `trace` is made."""
    low: float = 0.0
    """Microseconds: the least over the parameters that are not known (`uncertainty`)."""
    high: float = 0.0
    """The most."""
    needs: Needs = NO_NEEDS
    """Parts of the time by the parameters that they depend on: comparisons are made under the same parameters."""
    doubt: str = ""
    """Why the figure is not to be relied on; empty if nothing speaks against it."""
    teraflops: dict[str, float] = {}
    """Type of the operands of dots -> throughput of the launch."""

    def faster_than(self, other: Estimate) -> bool:
        """Whether it takes less time than another on the same GPU, for all values of the unknown parameters; a figure
        in doubt is no evidence."""
        return not (self.doubt or other.doubt) and uncertainty.faster(self.needs, other.needs, rates.gpu(self.gpu))

    @property
    def trace(self) -> dict[str, Any]:
        """The simulated time for Chrome and Perfetto: processes are SMs, with a track for each warp, agent (warps
        with one path) and unit, and counters of the full stages of pipes."""
        return {} if self.drawing is None else self.drawing.trace_events()

    @property
    def headline(self) -> str:
        """The figure with its interval and doubt."""
        text = f"{self.microseconds:.4g} us ({self.low:.4g} to {self.high:.4g})"
        return f"{text}, in doubt: {self.doubt}" if self.doubt else text

    def by_ptx_line(self) -> list[LineStall]:
        return _by_line(self.stalls, lambda stall: (None, stall.ptx_line))

    def by_source(self) -> list[LineStall]:
        """Stalls with a known source line, by line."""
        return _by_line(self.stalls, lambda stall: stall.source)

    def by_reason(self) -> dict[str, float]:
        result: dict[str, float] = {}
        for stall in self.stalls:
            result[stall.reason] = result.get(stall.reason, 0.0) + stall.share
        return dict(sorted(result.items(), key=lambda each: (-each[1], each[0])))

    def to_json(self, trace: bool = False) -> dict[str, Any]:
        """The estimate as JSON values; the trace is included only if requested."""
        result = _plain(self._replace(drawing=None))
        del result["drawing"]
        if trace:
            result["trace"] = self.trace
        return result

    def _repr_html_(self) -> str:
        """HTML for notebooks."""
        from tileiras.support.html_table import table

        busy = sorted(self.utilization.items(), key=lambda each: (-each[1], each[0]))[:6]
        rows = [
            ("time", self.headline), ("bound by", self.bound),
            ("units", ", ".join(f"{name} {share:.0%}" for name, share in busy)),
            ("warps wait for", ", ".join(f"{name} {share:.0%}" for name, share in list(self.by_reason().items())[:6])),
            ("occupancy", str(self.occupancy)),
            ("waves", f"{self.occupancy.waves:.3g}"),
        ]  # fmt: skip
        return table(f"{self.entry} on {self.gpu}", rows)

    def __str__(self) -> str:
        lines = [f"{self.entry} on {self.gpu}: {self.headline}, bound by {self.bound}"]
        busy = sorted(self.utilization.items(), key=lambda each: (-each[1], each[0]))
        lines.append("units: " + ", ".join(f"{name} {share:.0%}" for name, share in busy[:6] if share >= 0.005))
        reasons = list(self.by_reason().items())[:6]
        lines.append(f"warps: issue {self.issued:.0%}, " + ", ".join(f"{name} {share:.0%}" for name, share in reasons))
        lines.append(f"{self.occupancy}, {self.occupancy.waves:.3g} waves")
        return "\n".join([*lines, *self.notes])


def _by_line(stalls: tuple[Stall, ...], key) -> list[LineStall]:
    result: dict[tuple[str | None, int], dict[str, float]] = {}
    for stall in stalls:
        place = key(stall)
        if place is not None and place[1]:
            reasons = result.setdefault(place, {})
            reasons[stall.reason] = reasons.get(stall.reason, 0.0) + stall.share
    rows = [
        LineStall(file, line, sum(reasons.values()), dict(sorted(reasons.items(), key=lambda each: -each[1])))
        for (file, line), reasons in result.items()
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

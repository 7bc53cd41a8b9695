"""Verdicts as data."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from tileiras.order.certificate import NO, UNKNOWN

from .coverage import Uncovered

FORMAT = 2
"""Version of the JSON format of verdicts."""

RIGHT, WRONG, FAULT, INCONCLUSIVE = STATUSES = ("right", "wrong", "fault-of-program", "inconclusive")

NO_LAUNCH = "no-launch"
"""Kind of the finding with the reason why no launch fits."""


TIME_IS_UP = "the time is up"
"""Prefix of findings on cases that the budget left out."""


@dataclass(frozen=True)
class Finding:
    """One finding of a launch.

    `kind`: `value`, `emulation`, `program`, `undefined`, `excluded`, `no-rule`, `unjudged`, `no-launch`, `blame`;
    `location` is that of the operation in the source, where it is known, and `ptx_line` the line of the PTX.
    """

    kind: str
    message: str
    location: str = ""
    launch: int | None = None
    ptx_line: int | None = None

    @property
    def is_wrong(self) -> bool:
        return self.kind in ("value", "emulation")

    def __str__(self) -> str:
        severity = "error" if self.is_wrong else "warning" if self.kind == "program" else "note"
        lead = f"{self.location}: " if self.location else ""
        behind = "" if self.launch is None else f" [launch {self.launch}]"
        return f"{lead}{severity}: {self.message}{behind}"


@dataclass(frozen=True)
class LaunchReport:
    """One launch, and how it ended."""

    number: int
    grid: tuple[int, ...]
    arguments: tuple[str, ...]
    values: str
    status: str
    seeds: tuple[int | None, ...] = ()
    worst_ulps: float = 0.0
    undefined: int = 0
    unbounded: int = 0
    """Floating-point elements whose error bound admits any value, so that they were not compared."""

    def __str__(self) -> str:
        return (
            f"launch {self.number}: {self.status}; grid {'x'.join(map(str, self.grid))}, {self.values} values,"
            f" {', '.join(self.arguments)}"
        )


@dataclass(frozen=True)
class Blame:
    """The cause of wrong code.

    `kind`: `pass`, the first whose output is wrong; `decision`, the first optional one that has to be left out; then
    `lowering`, where all that passes leave is right, and `unknown`.  `number` counts passes, or optional decisions,
    from 1.  `operation` is the first whose value differs, or that stores one that does, `location` its place in the
    source.
    """

    kind: str
    pass_name: str
    number: int
    operation: str
    location: str
    message: str


@dataclass(frozen=True)
class Verdict:
    """The verdict on one entry of one artifact."""

    status: str
    entry: str
    gpu_name: str
    launches: tuple[LaunchReport, ...] = ()
    findings: tuple[Finding, ...] = ()
    coverage: dict[str, tuple[int, int]] = field(default_factory=dict)
    uncovered: tuple[Uncovered, ...] = ()
    worst_ulps: float = 0.0
    excluded: int = 0
    """Launches that were drawn and that the program does not allow."""
    location: str = ""
    """The entry's place, for findings without a more specific one."""
    ptx: str = ""
    """The digest (sha256) of the PTX that was judged."""
    order: dict[str, Any] | None = None
    """The certificate of order (`tileiras.order.certificate`) with places; None for an image without one."""

    @property
    def right(self) -> int:
        """Launches that were right."""
        return sum(each.status == RIGHT for each in self.launches)

    @property
    def is_deterministic(self) -> bool | None:
        """Whether results are the same from run to run; None if that is not known."""
        if self.order is None:
            return None
        says = {out["repeatable"] for out in self.order["outputs"]}
        return False if NO in says else None if UNKNOWN in says else True

    @property
    def is_cut_short(self) -> bool:
        """Whether the budget ended the check."""
        return any(each.message.startswith(TIME_IS_UP) for each in self.findings)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings that make the verdict not right; empty for a verdict that fails no build."""
        if self.status == WRONG:
            return tuple(each for each in self.findings if each.is_wrong)
        return tuple(each for each in self.findings if each.kind == "program") if self.status == FAULT else ()

    def short(self) -> dict[str, Any]:
        """The summary in NAME.json and in reports."""
        return {
            "status": self.status, "launches": len(self.launches), "right": self.right, "worst_ulps": self.worst_ulps,
            "deterministic": self.is_deterministic,
            "coverage": {kind: list(counts) for kind, counts in self.coverage.items()}, "ptx": self.ptx,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Any) -> Verdict:
        """The inverse of `to_json`.  Raises ValueError for data of another format."""
        try:
            if data["format"] != FORMAT or data["status"] not in STATUSES:
                raise ValueError("a verdict of another format")
            names = {each.name for each in dataclasses.fields(cls)}
            result = {name: value for name, value in data.items() if name in names}
            return cls(**{
                **result,
                "launches": tuple(_row(LaunchReport, each) for each in data["launches"]),
                "findings": tuple(_row(Finding, each) for each in data["findings"]),
                "coverage": {kind: tuple(counts) for kind, counts in data["coverage"].items()},
                "uncovered": tuple(Uncovered(**each) for each in data["uncovered"]),
                "blame": None if data.get("blame") is None else _row(Blame, data["blame"]),
            })  # fmt: skip
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no verdict: {error}") from None
    blame: Blame | None = None
    """The pass at fault for wrong code, if it was requested."""

    def to_json(self) -> dict[str, Any]:
        data = dataclasses.asdict(self)
        data["uncovered"] = [each._asdict() for each in self.uncovered]
        return {"format": FORMAT, **data}

    def summary(self) -> str:
        """Status, launches, the largest error, and covered and uncovered cases."""
        lines = [
            f"{self.entry} on {self.gpu_name}: {self.status}; {self.right} of {len(self.launches)} launches right,"
            f" largest error {self.worst_ulps:.3g} units in the last place"
        ]
        if unbounded := sum(each.unbounded for each in self.launches):
            lines.append(f"  {unbounded} elements of results have no bound of error, and were not compared")
        shares = [f"{kind} {reached} of {total}" for kind, (reached, total) in self.coverage.items()]
        lines.append(f"  covered: {', '.join(shares) or 'nothing'}")
        if self.order is not None:
            from .order import words

            lines += [f"  {line}" for line in words(self.order)]
        for each in self.uncovered:
            lines.append("  not covered: " + ": ".join(filter(None, (each.location, each.operation, each.case))))
        return "\n".join(lines)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.findings), self.summary()])


def _row(kind: Any, data: Any) -> Any:
    """A finding or a launch of JSON, whose tuples are lists."""
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in data.items()})

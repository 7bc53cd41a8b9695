"""Verdicts as data."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from .coverage import Uncovered

FORMAT = 1
"""Of a verdict's JSON."""

RIGHT, WRONG, FAULT, INCONCLUSIVE = STATUSES = ("right", "wrong", "fault-of-program", "inconclusive")

NO_LAUNCH = "no-launch"
"""Kind of the finding that gives the reason where no launch fits."""


TIME_IS_UP = "the time is up"
"""How the findings begin that say what the budget left out."""


@dataclass(frozen=True)
class Finding:
    """One thing that a launch showed.

    `kind`: `value`, `emulation`, `program`, `undefined`, `excluded`, `no-rule`, `unjudged`, `no-launch`; `location` is
    that of the operation in the source, where it is known, and `ptx_line` the line of the PTX.
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
    """Elements of floats for which the bound of error admits any value: nothing is known of them."""

    def __str__(self) -> str:
        return (
            f"launch {self.number}: {self.status}; grid {'x'.join(map(str, self.grid))}, {self.values} values,"
            f" {', '.join(self.arguments)}"
        )


@dataclass(frozen=True)
class Verdict:
    """About one entry of one artifact."""

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
    """The entry's place, for what has no better one."""
    ptx: str = ""
    """The digest (sha256) of the PTX that was judged."""
    order: dict[str, Any] | None = None
    """The certificate of order (`tileiras.order.certificate`) with places; None for an image without one."""

    @property
    def right(self) -> int:
        """Launches that were right."""
        return sum(each.status == RIGHT for each in self.launches)

    @property
    def is_cut_short(self) -> bool:
        """Whether the budget ended the check."""
        return any(each.message.startswith(TIME_IS_UP) for each in self.findings)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings for which the verdict is not right; none of a verdict that fails no build."""
        if self.status == WRONG:
            return tuple(each for each in self.findings if each.is_wrong)
        return tuple(each for each in self.findings if each.kind == "program") if self.status == FAULT else ()

    def short(self) -> dict[str, Any]:
        """What NAME.json and a report say of it."""
        return {
            "status": self.status, "launches": len(self.launches), "right": self.right, "worst_ulps": self.worst_ulps,
            "coverage": {kind: list(counts) for kind, counts in self.coverage.items()}, "ptx": self.ptx,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Any) -> Verdict:
        """The inverse of `to_json`.  Raises ValueError for what is none of this format."""
        try:
            if data["format"] != FORMAT or data["status"] not in STATUSES:
                raise ValueError("a verdict of another format")
            known = {each.name for each in dataclasses.fields(cls)}
            given = {name: value for name, value in data.items() if name in known}
            return cls(**{
                **given,
                "launches": tuple(_row(LaunchReport, each) for each in data["launches"]),
                "findings": tuple(_row(Finding, each) for each in data["findings"]),
                "coverage": {kind: tuple(counts) for kind, counts in data["coverage"].items()},
                "uncovered": tuple(Uncovered(**each) for each in data["uncovered"]),
            })  # fmt: skip
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no verdict: {error}") from None

    def to_json(self) -> dict[str, Any]:
        data = dataclasses.asdict(self)
        data["uncovered"] = [each._asdict() for each in self.uncovered]
        return {"format": FORMAT, **data}

    def summary(self) -> str:
        """Status, launches, the largest error, and what was covered and what was not."""
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

"""Results of a sweep over options: as a table, as bars, as data, and in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tileiras.report.svg import Drawing
from tileiras.report.tuning import Candidate, Tuned
from tileiras.support.named_tuple import NamedTuple

FORMAT = 2
"""Version of a sweep's JSON."""

_BAR = "█"
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#57606a}.c0{fill:#4c78a8}.c2{fill:#54a24b}"
    "@media(prefers-color-scheme:dark){text{fill:#9198a1}}"
)


class Sweep(NamedTuple):
    """Candidates of one kernel, ranked for one launch."""

    kernel: str
    entry: str
    gpu: str
    target: str
    grid: str
    """As given: it may be computed from constants."""
    tuned: Tuned
    backend: str = "estimate"
    """Or `cuda`: times are measured."""

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT, "kernel": self.kernel, "entry": self.entry, "gpu": self.gpu, "target": self.target,
            "backend": self.backend,
            "grid": self.grid, "best": dict(self.tuned.options),
            "constants": self.tuned.constants, "ties": [dict(each) for each in self.tuned.ties],
            "candidates": [_row(each) for each in self.tuned.candidates],
        }  # fmt: skip

    def _repr_html_(self) -> str:
        from tileiras.support.html_table import table

        rows = [(name_of(each), _time(each), _bound(each) or each.why) for each in self.tuned.candidates]
        return table(f"{self.entry} on {self.gpu}", rows, ("options", "time", ""))


def _row(candidate: Candidate) -> dict[str, Any]:
    estimate = candidate.estimate
    return {
        "constants": dict(candidate.constants), "options": dict(candidate.options),
        "microseconds": candidate.microseconds, "why": candidate.why,
        "bound": estimate.bound if estimate is not None else None,
        "utilization": dict(estimate.utilization) if estimate is not None else None,
        "ctas": estimate.occupancy.ctas if estimate is not None else None,
    }  # fmt: skip


def name_of(candidate: Candidate) -> str:
    """`TM=64, num-warps=8`."""
    constants = [f"{name}={value}" for name, value in candidate.constants.items()]
    return ", ".join([*constants, *([text_of(candidate.options)] if candidate.options or not constants else [])])


def text_of(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', '-')}={value}" for name, value in options.items()) or "defaults"


def _time(candidate: Candidate) -> str:
    return "" if candidate.microseconds is None else f"{candidate.microseconds:.4g} us"


def _bound(candidate: Candidate) -> str:
    return f"bound by {candidate.estimate.bound}" if candidate.estimate is not None else ""


def table(sweep: Sweep, width: int) -> str:
    """The candidates as lines of at most `width` columns, the fastest first, with a bar each."""
    rows = sweep.tuned.candidates
    least = rows[0].microseconds or 0.0
    longest = max((row.microseconds or 0.0 for row in rows), default=1.0)
    names = max(len(name_of(row)) for row in rows)
    lines = [f"{sweep.entry} on {sweep.gpu}, grid {sweep.grid}"]
    for row in rows:
        line = name_of(row).ljust(names)
        if row.microseconds is None:
            lines.append(f"{line}  left out: {row.why}")
            continue
        line += f"  {_time(row):>10}  {row.microseconds / least - 1:+7.1%}  "
        room = width - len(line) - len(_bound(row)) - 1
        bar = _BAR * max(1, round(row.microseconds / longest * min(room, 30))) if room > 4 else ""
        lines.append(f"{line}{_bound(row)} {bar}")
    ties = len(sweep.tuned.ties) - 1
    if ties and sweep.backend == "estimate":
        lines.append(f"{ties} more within a tenth of the best, which the model cannot tell apart")
    return "\n".join(line[:width].rstrip() for line in lines)


def plot(sweep: Sweep) -> str:
    """The candidates as bars, as a file of SVG."""
    rows: Sequence[Candidate] = [row for row in sweep.tuned.candidates if row.microseconds is not None]
    row_height, origin, width = 24.0, 380.0, 900.0
    drawing = Drawing(width, row_height * (len(rows) + 1) + 8, f"{sweep.entry} on {sweep.gpu}: time by options")
    drawing.style(_STYLE)
    drawing.text(4, 16, f"{sweep.entry} on {sweep.gpu}, grid {sweep.grid}")
    longest = max(row.microseconds or 0.0 for row in rows)
    for number, row in enumerate(rows, 1):
        y, time = number * row_height, row.microseconds or 0.0
        drawing.text(origin - 8, y + 16, name_of(row)[-60:], "end")
        kind = "c2" if row is sweep.tuned.candidates[0] else "c0"
        drawing.rect(origin, y + 3, time / longest * (width - origin - 100), row_height - 6, kind, name_of(row))
        drawing.text(origin + time / longest * (width - origin - 100) + 6, y + 16, _time(row))
    return drawing.markup() + "\n"

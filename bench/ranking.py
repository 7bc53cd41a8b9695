"""The summary of a table of estimates: ratios, geometric means by kind of kernel, the rows that are worst and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.libraries import Divisor
from tileiras.sim.estimate import uncertainty
from tileiras.sim.estimate.uncertainty import Needs
from tileiras.targets import rates

WORST = 10


class Taken(NamedTuple):
    """The estimated time of code for a launch, or the reason for its absence."""

    microseconds: float | None
    bound: str = ""
    refusal: str = ""
    units: dict[str, float] = {}
    """The busiest: share of their peak."""
    waits: dict[str, float] = {}
    """The largest: share of the warps' time."""
    occupancy: str = ""
    seconds: float = 0.0
    """That the estimate itself took."""
    low: float = 0.0
    high: float = 0.0
    """Of the interval of the time, in microseconds."""
    needs: list[float] = []
    """`sim.estimate.uncertainty.Needs`, to compare under the same parameters."""

    def reason(self) -> str:
        """The bound of the code, in one line."""
        units = ", ".join(f"{name} {share:.0%}" for name, share in self.units.items())
        waits = ", ".join(f"{name} {share:.0%}" for name, share in self.waits.items())
        return f"{self.microseconds:.1f} us, {self.bound}; units {units}; waits {waits}; {self.occupancy}"


class Ranked(NamedTuple):
    """A kernel on a GPU: our code by plan, and the reference compiler's."""

    name: str
    gpu: str
    dots: bool
    """Whether it multiplies matrices; it streams arrays if not."""
    ours: dict[str, Taken]
    theirs: Taken | None
    wrong: str = ""
    """The difference in the first cluster's results, or the reason for a missing comparison."""
    before: dict[str, Taken] = {}
    """Our code of another commit by plan, under the same model."""
    library: Divisor | None = None
    """The published time of a library."""

    def ratio(self, plan: str) -> float | None:
        """Of our time to the reference's: above 1 ours takes longer."""
        mine = self.ours.get(plan)
        if mine is None or self.theirs is None or mine.microseconds is None or self.theirs.microseconds is None:
            return None
        return mine.microseconds / self.theirs.microseconds

    def library_ratio(self, plan: str) -> float | None:
        """Of our time to the library's; not comparable if their numerics differ."""
        mine = self.ours.get(plan)
        if mine is None or mine.microseconds is None or self.library is None:
            return None
        return mine.microseconds / self.library.microseconds

    def ratios(self, plan: str) -> tuple[float, float] | None:
        """(least, largest) ratio over the parameters that are not known, the same for both."""
        mine = self.ours.get(plan)
        if mine is None or self.theirs is None or not mine.needs or not self.theirs.needs:
            return None
        ratio = compared(mine, self.theirs, self.gpu)
        return None if ratio is None else ratio[1:]

    def claim(self, plan: str) -> str:
        """`faster` or `slower` where ours is for all values of the parameters, else empty."""
        ratios = self.ratios(plan)
        return "" if ratios is None else "faster" if ratios[1] < 1 else "slower" if ratios[0] > 1 else ""


def compared(one: Taken, other: Taken, gpu: str) -> tuple[float, float, float] | None:
    """The ratio of two times, and its extremes over the parameters that are not known, the same for both."""
    if one.microseconds is None or other.microseconds is None:
        return None
    ratio = one.microseconds / other.microseconds
    if not one.needs or not other.needs:
        return ratio, ratio, ratio
    return ratio, *uncertainty.ratios(Needs(*one.needs), Needs(*other.needs), rates.gpu(gpu))


def head(plans: Sequence[str], reference: bool) -> str:
    cells = ["kernel", "GPU"]
    for plan in plans:
        cells += [f"{plan} us", "bound"]
    cells += ["reference us", "bound", *(f"{plan} ratio" for plan in plans)] if reference else []
    cells += ["library", "library us", *(f"{plan} to library" for plan in plans), "results"]
    return f"| {' | '.join(cells)} |\n{'|---' * len(cells)}|"


def line(row: Ranked, reference: bool) -> str:
    cells = [row.name, row.gpu]
    for item in (*row.ours.values(), *([row.theirs] if reference else [])):
        if item is None or item.microseconds is None:
            cells += ["-", (item.refusal if item is not None else "")[:60]]
        else:
            cells += [f"{item.microseconds:.1f}", item.bound]
    if reference:
        cells += [_ratio(row, plan) for plan in row.ours]
    cells += _library_cells(row)
    return f"| {' | '.join([*cells, row.wrong[:80]])} |"


def _library_cells(row: Ranked) -> list[str]:
    if row.library is None:
        return ["", "", *("" for _ in row.ours)]
    mark = " (other numerics)" if row.library.numerics else ""
    ratios = (row.library_ratio(plan) for plan in row.ours)
    return [row.library.library, f"{row.library.microseconds:.1f}",
            *("-" if ratio is None else f"{ratio:.2f}{mark}" for ratio in ratios)]  # fmt: skip


def _ratio(row: Ranked, plan: str) -> str:
    ratio, result = row.ratio(plan), row.ratios(plan)
    if ratio is None:
        return "-"
    return f"{ratio:.2f}" if result is None else f"{ratio:.2f} ({result[0]:.2f} to {result[1]:.2f})"


KINDS: dict[str, Callable[[Ranked], bool]] = {
    "all": lambda row: True,
    "with dots": lambda row: row.dots,
    "streaming": lambda row: not row.dots,
}


def mean(ratios: Sequence[float]) -> float:
    """The geometric one."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def means(rows: Sequence[Ranked]) -> list[str]:
    """A line for each GPU and plan: the geometric mean of the ratios to the reference, by kind of kernel."""
    lines = []
    for gpu in dict.fromkeys(row.gpu for row in rows):
        for plan in dict.fromkeys(plan for row in rows if row.gpu == gpu for plan in row.ours):
            words = []
            for kind, of_kind in KINDS.items():
                some = [row for row in rows if row.gpu == gpu and of_kind(row) and row.ratio(plan) is not None]
                if some:
                    words.append(f"{kind} {_mean_with_interval(some, plan)} ({len(some)})")
            if words:
                lines.append(f"{gpu}, {plan}: ours takes of the reference's time {', '.join(words)}")
    return lines


def library_means(rows: Sequence[Ranked]) -> list[str]:
    """A line for each GPU and plan: the geometric mean of the ratios to libraries' published times, and the rows that
    are not in it because their numerics differ."""
    lines = []
    for gpu, plan in dict.fromkeys((row.gpu, plan) for row in rows for plan in row.ours):
        known = [row for row in rows if row.gpu == gpu and row.library_ratio(plan) is not None]
        like = [row.library_ratio(plan) or 1.0 for row in known if row.library and not row.library.numerics]
        if like:
            lines.append(f"{gpu}, {plan}: ours takes of the time of libraries {mean(like):.2f} ({len(like)})")
        lines += [f"{gpu}, {plan}: not in the mean: {row.name}, {row.library.library}: {row.library.numerics}"
                  for row in known if row.library and row.library.numerics]  # fmt: skip
    return lines


def _mean_with_interval(rows: Sequence[Ranked], plan: str) -> str:
    """The geometric mean of the ratios, and its extremes over the parameters where all rows have them."""
    result = [row.ratios(plan) for row in rows]
    known = [pair for pair in result if pair is not None]
    text = f"{mean([row.ratio(plan) or 1.0 for row in rows]):.2f}"
    if len(known) < len(rows):
        return text
    return f"{text} between {mean([low for low, _ in known]):.2f} and {mean([high for _, high in known]):.2f}"


def best_plans(rows: Sequence[Ranked]) -> list[str]:
    """A line for each GPU and plan besides the first: its time over that of the first, and how often it is faster for
    all values of the parameters that are not known."""
    lines = []
    for gpu in dict.fromkeys(row.gpu for row in rows):
        here = [row for row in rows if row.gpu == gpu and row.ours]
        first, *others = dict.fromkeys(plan for row in here for plan in row.ours)
        for plan in others:
            pairs = [(row.ours[plan], row.ours[first]) for row in here if plan in row.ours and first in row.ours]
            ratios = [ratio for one, other in pairs if (ratio := compared(one, other, gpu)) is not None]
            # Code that is the same takes the same.
            changed = [ratio for ratio, _, _ in ratios if ratio != 1]
            if changed:
                faster = sum(most < 1 for _, _, most in ratios)
                lines.append(f"{gpu}, {plan}: takes {mean(changed):.2f} of the time of {first} where it is other code "
                             f"({len(changed)} of {len(ratios)}), faster in {faster}")  # fmt: skip
    return lines


def worst(rows: Sequence[Ranked], count: int = WORST) -> list[str]:
    """The rows whose ratio is largest, under the best of the plans, with the bounds of both."""
    items = []
    for row in rows:
        ratios = {plan: ratio for plan in row.ours if (ratio := row.ratio(plan)) is not None}
        if ratios:
            plan = min(ratios, key=lambda name: ratios[name])
            items.append((ratios[plan], plan, row))
    lines = []
    for ratio, plan, row in sorted(items, key=lambda each: -each[0])[:count]:
        assert row.theirs is not None
        lines += [f"{ratio:.2f} {row.name} on {row.gpu}", f"  {plan}: {row.ours[plan].reason()}",
                  f"  reference: {row.theirs.reason()}"]  # fmt: skip
    return lines


MARGIN = 1.01
"""A row is worse than at another commit if its time is larger by more for all values of the parameters."""


def worsened(rows: Sequence[Ranked]) -> list[str]:
    """The rows whose code takes longer than that of another commit for all values of the parameters that are not
    known, or has lost its estimate."""
    lines = []
    for row in rows:
        for plan, old in row.before.items():
            new = row.ours.get(plan)
            if new is None or old.microseconds is None:
                continue
            if new.microseconds is None:
                lines.append(f"worse: {row.name} on {row.gpu}, {plan}: {old.microseconds:.1f} us before, now no"
                             f" estimate: {new.refusal}")  # fmt: skip
                continue
            ratio = compared(new, old, row.gpu)
            if ratio is not None and ratio[1] > MARGIN:
                _, least, most = ratio
                lines.append(f"worse: {row.name} on {row.gpu}, {plan}: {old.microseconds:.1f} us before, now"
                             f" {new.microseconds:.1f}, {least:.2f} to {most:.2f} times as long")  # fmt: skip
    return lines


def changed(rows: Sequence[Ranked]) -> list[str]:
    """A line for each GPU and plan: the geometric mean of the times over those of another commit."""
    lines = []
    for gpu, plan in dict.fromkeys((row.gpu, plan) for row in rows for plan in row.before):
        pairs = [(row.ours[plan].microseconds, row.before[plan].microseconds) for row in rows
                 if row.gpu == gpu and plan in row.before and plan in row.ours]  # fmt: skip
        ratios = [new / old for new, old in pairs if new is not None and old is not None]
        if ratios:
            other = sum(ratio != 1 for ratio in ratios)
            lines.append(f"{gpu}, {plan}: takes {mean(ratios):.3f} of the time before ({other} of {len(ratios)} rows"
                         " differ)")  # fmt: skip
    return lines


def failures(rows: Sequence[Ranked]) -> list[str]:
    """Code without an estimate, and results that differ."""
    lines = []
    for row in rows:
        for name, result in (*row.ours.items(), ("reference", row.theirs)):
            if result is not None and result.microseconds is None:
                lines.append(f"no estimate: {row.name} on {row.gpu}, {name}: {result.refusal}")
        if row.wrong:
            lines.append(f"results: {row.name} on {row.gpu}: {row.wrong}")
    return lines

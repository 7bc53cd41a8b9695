"""Estimates of published ladders beside their figures: errors by half, order within ladders, coverage of intervals."""

from __future__ import annotations

import itertools
import math
import multiprocessing
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench import ladder_launches
from bench.halves import calibrates
from bench.ladders import LADDERS, Ladder, Step
from tileiras.diagnostics import CompileError
from tileiras.sim.errors import SimulationError
from tileiras.sim.estimate import uncertainty
from tileiras.sim.estimate.uncertainty import Needs
from tileiras.targets import rates

WORST_BAR = 0.35
HELD = 0.8
"""Share of published times that intervals are to hold."""
APART = 0.15
"""Steps of a ladder whose published times differ by more have to come out in their order."""


class Rung(NamedTuple):
    """The estimate of one step."""

    ladder: Ladder
    step: Step
    microseconds: float | None
    bound: str
    """The bound, or the reason for the lack of an estimate."""
    seconds: float
    low: float = 0.0
    high: float = 0.0
    doubt: str = ""
    busiest: float = 0.0
    """The largest utilisation of a unit."""
    needs: Needs | None = None

    @property
    def published(self) -> float:
        return self.ladder.microseconds(self.step)

    @property
    def error(self) -> float | None:
        return None if self.microseconds is None else self.microseconds / self.published - 1


def chosen(gpus: Sequence[str], parts: Sequence[str]) -> list[tuple[int, int]]:
    """(number of the ladder, number of its step) of the rows to estimate."""
    return [
        (number, at) for number, ladder in enumerate(LADDERS) for at, step in enumerate(ladder.steps)
        if (not gpus or ladder.gpu in gpus)
        and (not parts or any(part in f"{ladder.name} {step.name}" for part in parts))
    ]  # fmt: skip


def estimates(rows: Sequence[tuple[int, int]], sources: Path, jobs: int) -> list[Rung]:
    """Estimate rows, each in a process of its own, and print each as it comes."""
    print(HEAD, flush=True)
    rungs = []
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
        for rung in pool.imap(_judge, [(*row, sources) for row in rows], chunksize=1):
            rungs.append(rung)
            print(line(rung), flush=True)
    return rungs


def _judge(row: tuple[int, int, Path]) -> Rung:
    number, at, sources = row
    ladder = LADDERS[number]
    return judge(ladder, ladder.steps[at], sources)


def judge(ladder: Ladder, step: Step, sources: Path) -> Rung:
    from tileiras.sim import estimate

    begin = time.process_time()
    try:
        value = ladder_launches.launch(ladder, step, sources)
        result = estimate(value.ptx, value.entry, value.grid, value.arguments, gpu=ladder.gpu, metadata=value.metadata)
    except (CompileError, SimulationError, ladder_launches.NoSource) as error:
        reason = f"{error}".strip().split("\n")[0]
        return Rung(ladder, step, None, reason, time.process_time() - begin)
    busiest = max(result.utilization.values(), default=0.0)
    return Rung(ladder, step, result.microseconds, result.bound, time.process_time() - begin, result.low, result.high,
                result.doubt, busiest, result.needs)  # fmt: skip


HEAD = "| ladder | step | published us | estimated us | interval | error | bound |\n|---|---|---|---|---|---|---|"


def line(rung: Rung) -> str:
    name, published = rung.ladder.name, f"{rung.published:.1f}{' (recalled)' * rung.step.recalled}"
    if rung.error is None:
        return f"| {name} | {rung.step.name} | {published} | - | - | - | {rung.bound} |"
    interval = f"{rung.low:.1f} to {rung.high:.1f}"
    bound = rung.bound + (f", in doubt: {rung.doubt}" if rung.doubt else "")
    time = f"{rung.microseconds:.1f} | {interval} | {rung.error:+.0%}"
    return f"| {name} | {rung.step.name} | {published} | {time} | {bound} |"


# ---- figures -----------------------------------------------------------------------------------------------------


def summary(rungs: Sequence[Rung]) -> list[str]:
    """Lines for each half and for both together."""
    halves = {
        "calibrating half": [each for each in rungs if calibrates(each.ladder.name)],
        "judging half": [each for each in rungs if not calibrates(each.ladder.name)],
        "both": list(rungs),
    }
    lines = [f"{name}: {text}" for name, some in halves.items() if some for text in figures(some)]
    result = residual(halves["calibrating half"])
    if result is not None:
        lines.append(f"calibrating half: intervals hold {HELD:.0%} from a residual of {result:.0%}; "
                     f"the model has {uncertainty.RESIDUAL:.0%}")  # fmt: skip
    return lines


def residual(rungs: Sequence[Rung]) -> float | None:
    """The least residual, in whole hundredths, of intervals that hold `HELD` of the published times; None if none is
    below 1 or too few are without doubt.

    A quantile of split conformal prediction (Lei et al., arXiv 1604.04173): of n needed residuals the one at
    (n + 1) times `HELD`, rounded up, so that it holds for further rows of the same kind as well.
    """
    known = [each for each in rungs if each.needs is not None and not each.doubt]
    needed = sorted(_needed(each) for each in known)
    place = math.ceil((len(needed) + 1) * HELD)
    return needed[place - 1] if 0 < place <= len(needed) and needed[place - 1] < 1 else None


def _needed(rung: Rung) -> float:
    """The least residual whose interval contains the published time."""
    assert rung.needs is not None
    for hundredths in range(100):
        low, high = uncertainty.interval(rung.needs, rates.gpu(rung.ladder.gpu), hundredths / 100)
        if low <= rung.published <= high:
            return hundredths / 100
    return 1.0


def figures(rungs: Sequence[Rung]) -> list[str]:
    known = [each for each in rungs if each.error is not None and not each.doubt]
    lines = [f"estimated without doubt {len(known)} of {len(rungs)}"]
    if known:
        errors = [abs(each.error or 0.0) for each in known]
        inside = sum(each.low <= each.published <= each.high for each in known)
        widths = sorted((each.high - each.low) / 2 / (each.microseconds or 1.0) for each in known)
        lines[0] += (
            f"; error mean {sum(errors) / len(errors):.1%}, worst {max(errors):.0%}, "
            f"{sum(error > WORST_BAR for error in errors)} above {WORST_BAR:.0%}; "
            f"intervals cover {inside} of {len(known)}, half-width median {widths[len(widths) // 2]:.0%}, "
            f"at most {widths[-1]:.0%}"
        )
    right, pairs, tau = order(known)
    if pairs:
        lines.append(f"order: {right} of {pairs} pairs of a ladder that differ by more than {APART:.0%}; tau {tau:.2f}")
    return lines


def order(rungs: Sequence[Rung]) -> tuple[int, int, float]:
    """(pairs in order, pairs, Kendall's tau over all pairs of a ladder, ties of published times left out)."""
    right = pairs = concordant = every = 0
    for one, other in itertools.combinations(rungs, 2):
        if one.ladder.name != other.ladder.name or one.published == other.published:
            continue
        fast, slow = sorted((one, other), key=lambda each: each.published)
        difference = (slow.microseconds or 0.0) - (fast.microseconds or 0.0)
        every += 1
        concordant += (difference > 0) - (difference < 0)
        if slow.published > fast.published * (1 + APART):
            pairs += 1
            right += difference > 0
    return right, pairs, concordant / every if every else 0.0

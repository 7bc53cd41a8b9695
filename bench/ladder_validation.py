"""Estimates of published ladders beside their figures: errors by half, order within ladders, coverage of intervals."""

from __future__ import annotations

import functools
import multiprocessing
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench import figures, ladder_launches
from bench.figures import Compared
from bench.halves import calibrates
from bench.kept_rows import KeptRows, digest, model_version
from bench.ladders import AUDITED, LADDERS, Ladder, Step
from tileiras.diagnostics import CompileError
from tileiras.sim.errors import SimulationError
from tileiras.sim.estimate import uncertainty
from tileiras.sim.estimate.uncertainty import Needs


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
        return self.compared.error

    @property
    def compared(self) -> Compared:
        return Compared(self.ladder.name, self.ladder.gpu, self.published, self.microseconds, self.low, self.high,
                        self.doubt, self.needs)  # fmt: skip


def chosen(gpus: Sequence[str], parts: Sequence[str]) -> list[tuple[int, int]]:
    """(number of the ladder, number of its step) of the rows to estimate."""
    return [
        (number, at) for number, ladder in enumerate(LADDERS) for at, step in enumerate(ladder.steps)
        if (not gpus or ladder.gpu in gpus)
        and (not parts or any(part in f"{ladder.name} {step.name}" for part in parts))
    ]  # fmt: skip


def estimates(rows: Sequence[tuple[int, int]], sources: Path, jobs: int, kept: Path | None = None) -> list[Rung]:
    """Estimate rows, each in a process of its own, and print each as it comes."""
    print(HEAD, flush=True)
    rungs = []
    model_version()  # of all processes
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
        for rung in pool.imap(functools.partial(_judge, sources=sources, kept=kept), rows, chunksize=1):
            rungs.append(rung)
            print(line(rung), flush=True)
    return rungs


def _judge(row: tuple[int, int], sources: Path, kept: Path | None) -> Rung:
    """The rung of a row, from a file of rows if it has that of this model."""
    number, at = row
    ladder = LADDERS[number]
    step, rows = ladder.steps[at], KeptRows(kept)
    key = digest(ladder.name, f"{step}", model_version())
    value = rows.get(key)
    if value is None:
        rung = judge(ladder, step, sources)
        if rung.microseconds is not None:
            rows.put(key, rung[2:])
        return rung
    *others, needs = value
    return Rung(ladder, step, *others, Needs(*needs))


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


def halves(rungs: Sequence[Rung]) -> dict[str, list[Compared]]:
    return {
        "calibrating half": [each.compared for each in rungs if calibrates(each.ladder.name)],
        "judging half": [each.compared for each in rungs if not calibrates(each.ladder.name)],
    }


def summary(rungs: Sequence[Rung]) -> list[str]:
    """Lines for each half, for both together and for the rows of `AUDITED`."""
    parts = halves(rungs)
    audited = [each.compared for each in rungs if each.step.name in AUDITED.get(each.ladder.name, ())]
    parts |= {"both halves": [each.compared for each in rungs], "audited": audited}
    lines = [f"{name}: {text}" for name, some in parts.items() if some for text in figures.lines(some)]
    result = figures.residual(parts["calibrating half"])
    if result is not None:
        lines.append(f"calibrating half: intervals hold {figures.HELD:.0%} from a residual of {result:.0%}; "
                     f"the model has {uncertainty.RESIDUAL:.0%}")  # fmt: skip
    return lines

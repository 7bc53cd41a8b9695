"""python -m bench calibrate [--runs N]

Runs the micro-kernels of `bench/probes.py` on this machine's GPU and proposes constants of the clock as a diff of
`tileiras/targets/measured_rates.py`.  A proposed constant is the one under which the estimates of a micro-kernel's two
launches differ by as much as the measured times.  Constants that agree with the table are left as they are.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.probes import PROBES, Launch, Probe
from tileiras.sim.estimate.images import load
from tileiras.sim.estimate.model import Model
from tileiras.targets import measured_rates, rates
from tileiras.targets.rate_tables import Figure
from tileiras.targets.rates import Gpu

AGREE = 0.03
"""Relative difference up to which a constant stays."""
_PRECISE = 0.002
_MOST_STEPS = 6

Device = Callable[[Launch], float]
"""Microseconds of a launch."""


class Proposal(NamedTuple):
    place: str
    before: float
    value: float

    @property
    def changes(self) -> bool:
        return abs(self.value / self.before - 1) > AGREE


def estimated(launch: Launch, gpu: Gpu) -> float:
    """Microseconds by the clock."""
    model = Model(load(launch.ptx, "k", gpu), (launch.grid,), gpu, launch.arguments)
    model.prepare()
    return model.estimate().microseconds


def calibrate(row: str, device: Device, source: str, probes: Sequence[Probe] = PROBES) -> list[Proposal]:
    """The constants that a device has, in the order of the probes; each is used by those after it."""
    taken = dict(measured_rates.MEASURED.get(row, {}))
    result = []
    for probe in probes:
        gpu = rates.joined(row, taken)
        if not probe.applies(gpu):
            continue
        short, long = probe.launches(gpu.target.name, gpu.sms)
        before = gpu.sources[probe.place].value
        value = _solved(row, taken, probe.place, before, (short, long), device(long) - device(short))
        result.append(Proposal(probe.place, before, value))
        if result[-1].changes:
            taken[probe.place] = Figure(value, source, "measured")
    return result


def _solved(
    row: str, taken: Mapping[str, Figure], place: str, before: float, launches: tuple[Launch, Launch], measured: float
) -> float:
    """The value of a constant under which the estimated difference is the measured one, by secants of its inverse or
    itself: times are linear in latencies, and in the inverse of rates."""

    def difference(value: float) -> float:
        gpu = rates.joined(row, {**taken, place: Figure(value, "", "measured")})
        short, long = (estimated(each, gpu) for each in launches)
        return long - short

    inverse = not place.startswith("latency.")
    one, other = before, before * 1.05
    first, second = difference(one), difference(other)
    for _ in range(_MOST_STEPS):
        if abs(second / measured - 1) < _PRECISE or first == second:
            break
        x, y = (1 / one, 1 / other) if inverse else (one, other)
        x += (measured - first) * (y - x) / (second - first)
        # Beyond the range in which the constant determines the time, a step stays within a factor of two.
        following = min(max(1 / x if inverse and x > 0 else x, other / 2), other * 2)
        one, first, other = other, second, following
        second = difference(other)
    return float(f"{other:.4g}")


# ---- the diff ----------------------------------------------------------------------------------------------------


def diff(row: str, proposals: Sequence[Proposal], source: str) -> str:
    """A unified diff of the table of measured figures; empty if all agree."""
    changed = [each for each in proposals if each.changes]
    if not changed:
        return ""
    path = Path(measured_rates.__file__)
    table = {name: dict(figures) for name, figures in measured_rates.MEASURED.items()}
    table.setdefault(row, {}).update((each.place, Figure(each.value, source, "measured")) for each in changed)
    before = path.read_text()
    head, mark, _ = before.partition("MEASURED: dict[str, Mapping[str, Figure]] = {\n")
    lines = [head + mark]
    for name, figures in sorted(table.items()):
        rows = "".join(f"        {place!r}: Figure({figure.value!r}, {figure.source!r}, {figure.kind!r}),\n"
                       for place, figure in sorted(figures.items()))  # fmt: skip
        lines.append(f"    {name!r}: {{\n{rows}    }},\n")
    after = "".join(lines).replace("'", '"') + "}  # fmt: skip\n"
    name = f"tileiras/targets/{path.name}"
    return "".join(
        difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{name}", f"b/{name}")
    )


def report(proposals: Sequence[Proposal]) -> list[str]:
    lines = ["| constant | table | measured |", "|---|---|---|"]
    return lines + [f"| {each.place} | {each.before:g} | {each.value:g}{' (proposed)' * each.changes} |"
                    for each in proposals]  # fmt: skip


def on_gpu(runs: int) -> Device:
    from tileiras import runtime

    return lambda launch: runtime.measure(
        launch.ptx, "k", launch.grid, launch.arguments, runs=runs, metadata=launch.metadata()
    )


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="calibrate", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--runs", type=int, default=21)
    options = parser.parse_args(arguments)
    from tileiras import runtime
    from tileiras.runtime.driver import load_driver

    if not runtime.available():
        print("calibrate: needs a GPU and its driver", file=sys.stderr)
        return 2
    cuda = load_driver()
    name = cuda.device_name()
    gpu = rates.of_device(name)
    if gpu is None:
        print(f"calibrate: no row for {name} in tileiras/targets/rate_tables.py", file=sys.stderr)
        return 2
    source = f"bench calibrate on {name}, driver of CUDA {'.'.join(map(str, cuda.version()))}"
    proposals = calibrate(gpu.name, on_gpu(options.runs), source)
    print(*report(proposals), "", diff(gpu.name, proposals, source), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

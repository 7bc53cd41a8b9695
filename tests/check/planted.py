"""`python -m tests.check.planted`: how many faults, planted one at a time in the PTX of many kernels, a check finds.

Each line is a fault: the kernel, the target, the kind, the statement, and the launch that finds it, `survivor`, or
`equivalent` where ptxas makes the same machine code of both texts or a rule of `equivalent` proves it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import random
import re
import signal
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tileiras
from tests.check.equivalent import proof
from tests.check.faults import ALL_KINDS, Fault, faults
from tileiras.check import judging, launches
from tileiras.check.checker import SEEDS
from tileiras.check.coverage import Coverage
from tileiras.check.facts import facts
from tileiras.check.fitting import Fitted, Unfit, fit
from tileiras.check.judging import Image, Reference, hold, interpreted, rounded_otherwise
from tileiras.check.verdict import WRONG
from tileiras.codegen import ptxas
from tileiras.diagnostics import CompileError
from tileiras.ir import Operation
from tileiras.sim.errors import SimulationError
from tileiras.sim.interpreter.machine import InterpreterError
from tileiras.units import entries_of, entry_name

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
STEPS = 200_000
"""Instructions of warps after which a launch counts as endless: right launches, which are held to it too, take less."""
GENERATED = "generated:"
"""A kernel that `tests.generator` draws by the number behind it."""


class Kernel(NamedTuple):
    """One entry and its code under the options of its build."""

    name: str
    gpu_name: str
    module: Operation
    entry: Operation
    ptx: str
    metadata: Any


def names() -> list[str]:
    patterns = ("*.mlir", "*.py", "kernels/*.mlir", "kernels/*.py")
    return sorted(path.relative_to(EXAMPLES).as_posix() for pattern in patterns for path in EXAMPLES.glob(pattern))


def kernels(name: str, gpu_name: str) -> Iterator[Kernel]:
    """The entries of an example or of a generated kernel.  Raises CompileError."""
    options: dict[str, Any] = {}
    source: Any = EXAMPLES / name
    if name.startswith(GENERATED):
        from tests.generator.judge import draw

        case = draw(int(name.removeprefix(GENERATED)), targets=(gpu_name,))
        source, options, gpu_name = case.kernel.source(case.build.decorator), case.build.options, case.build.gpu_name
    module = tileiras.parse(source)
    for entry in entries_of(module):
        artifact = tileiras.compile(source, gpu_name=gpu_name, entry=entry_name(entry), **options)
        metadata = artifact.kernels[0].artifacts.get(".json")
        yield Kernel(name, gpu_name, module, entry, artifact.text, json.loads(metadata) if metadata else None)


class Expired(BaseException):
    """The time of a kernel is over; not to be caught as an exception of the checker."""


@contextlib.contextmanager
def alarm(seconds: float) -> Iterator[None]:
    def expire(*_: object) -> None:
        raise Expired

    previous = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


class Launches:
    """The launches of a check of one kernel, each interpreted once for all faults."""

    def __init__(self, kernel: Kernel, seconds: float) -> None:
        self.kernel = kernel
        self.deadline = time.monotonic() + seconds
        self.facts = facts(kernel.entry)
        self.name = entry_name(kernel.entry)
        self.coverage = Coverage(kernel.entry)
        self._plans = iter([*launches.plans(self.facts), *launches.edge_plans(self.facts)])
        self._ready: list[tuple[Fitted, Reference, Any]] = []
        self._seen: set[Any] = set()

    def __iter__(self) -> Iterator[tuple[Fitted, Reference, Any]]:
        number = 0
        while number < len(self._ready) or self._next():
            yield self._ready[number]
            number += 1

    def _next(self) -> bool:
        for plan in self._plans:
            if time.monotonic() > self.deadline and self._ready:
                return False
            try:
                launch = fit(self.kernel.entry, self.kernel.module, self.facts, plan)
                key = (launch.grid, plan.kind, launch.describe(), plan.is_aliased)
                again = functools.partial(
                    interpreted, self.kernel.module, self.name, launch, self.coverage, {}
                )
                if key not in self._seen:
                    self._seen.add(key)
                    self._ready.append((launch, again(), again))
                    return True
            except (Unfit, InterpreterError):
                continue
        return False

    def find(self, ptx: str) -> str:
        """The launch that finds a fault, with its finding; empty where none does."""
        image = Image(ptx, self.name, self.kernel.metadata)
        for number, (launch, reference, again) in enumerate(self):
            seeds = SEEDS[:1] if launch.plan.is_edge else SEEDS
            try:
                judged = hold(self.facts, image, launch, number, seeds, reference, again)
            except SimulationError as error:
                return f"launch {number}: {str(error).splitlines()[0]}"
            if judged.status == WRONG:
                finding = next(each for each in judged.findings if each.is_wrong)
                return f"launch {number} ({launch.plan.kind}): {finding.message[:100]}"
        finding = rounded_otherwise(self.kernel.module, image)
        return f"roundings: {finding.message}" if finding is not None else ""


@functools.lru_cache(maxsize=64)
def machine_code(ptx: str, gpu_name: str) -> dict[str, bytes] | None:
    """The sections of code and constants of the cubin; None where ptxas refuses the text."""
    try:
        cubin = ptxas.assemble(ptx, gpu_name).cubin
    except CompileError:
        return None
    start, size, count, strings = *struct.unpack_from("<Q", cubin, 40), *struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, start + size * n) for n in range(count)]
    table = cubin[headers[strings][4] :]
    sections = {table[h[0] : table.index(0, h[0])].decode(): cubin[h[4] : h[4] + h[5]] for h in headers if h[1] != 8}
    # `.nv.info` has resources and attributes that go with the code.
    return {name: data for name, data in sections.items() if re.match(r"\.text|\.nv\.(constant|info|global)", name)}


def is_equivalent(kernel: Kernel, ptx: str) -> bool | None:
    """Whether the machine code is the same; None for a text that ptxas refuses, which is no fault of a running code."""
    changed = machine_code(ptx, kernel.gpu_name)
    return None if changed is None else changed == machine_code(kernel.ptx, kernel.gpu_name)


def _survivor(searched: Launches, fault: Fault) -> str:
    same = is_equivalent(searched.kernel, fault.ptx)
    if same is None:
        return "refused by ptxas"
    divisors = {each.position: each.divisor for each in searched.facts.parameters}
    why = "the machine code is the same" if same else proof(fault, searched.kernel.ptx, divisors)
    return f"equivalent: {why}" if why else "survivor"


def drawn(kernel: Kernel, kinds: tuple[str, ...], each: int, draw: random.Random) -> list[Fault]:
    chosen = []
    for kind in kinds:
        every = faults(kernel.ptx, kind)
        chosen += draw.sample(every, min(each, len(every)))
    return chosen


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.check.planted", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=2, help="faults of each kind in a kernel")
    parser.add_argument("--count", type=int, default=1000, help="faults in all")
    parser.add_argument("--kernels", default="", help="names, separated by commas; all examples")
    parser.add_argument("--generated", type=int, default=12, help="generated kernels besides")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--kinds", default=",".join(ALL_KINDS))
    parser.add_argument("--seconds", type=float, default=1e9, help="no further fault is planted then")
    parser.add_argument("--budget", type=float, default=12.0, help="seconds after which a kernel gets no more launches")
    given = parser.parse_args(arguments)
    judging.STEP_LIMIT = STEPS
    draw, targets, deadline = random.Random(given.seed), given.targets.split(","), time.monotonic() + given.seconds
    chosen = given.kernels.split(",") if given.kernels else names()
    if not given.kernels:
        chosen += [f"{GENERATED}{draw.randrange(1 << 20)}" for _ in range(given.generated)]
        draw.shuffle(chosen)
    outcomes: Counter[tuple[str, str]] = Counter()
    used: set[tuple[str, str]] = set()
    planted = 0
    for number, name in enumerate(chosen):
        gpu_name = targets[(number + given.seed) % len(targets)]
        try:
            entries = list(kernels(name, gpu_name))
        except CompileError:
            continue
        for kernel in entries:
            begin, searched = time.monotonic(), Launches(kernel, given.budget)
            if begin > deadline or planted >= given.count:
                break
            try:
                with alarm(5 * given.budget):
                    wrong = searched.find(kernel.ptx)
            except Expired:
                print(f"{name}\t{gpu_name}\tleft out: a launch takes too long", flush=True)
                continue
            print(f"{name}\t{gpu_name}\tright code\t{time.monotonic() - begin:.1f} s\t{wrong or 'right'}", flush=True)
            outcomes["right code", "called wrong" if wrong else "right"] += 1
            if wrong:
                continue
            for fault in drawn(kernel, tuple(given.kinds.split(",")), given.each, draw):
                if time.monotonic() > deadline:
                    break
                outcome = found = searched.find(fault.ptx)
                if not found:
                    outcome = _survivor(searched, fault)
                used.add((name, gpu_name))
                planted += 1
                outcomes[fault.kind, "found" if found else outcome.partition(":")[0]] += 1
                columns = (name, gpu_name, fault.kind, f"{fault.line} -> {fault.changed}", outcome)
                print(*(" ".join(each.split()) for each in columns), sep="\t", flush=True)
    print(*_table(outcomes, used), sep="\n")
    return 0


def _table(outcomes: Counter[tuple[str, str]], used: set[tuple[str, str]]) -> Iterator[str]:
    yield f"{len(used)} kernels on {len({gpu_name for _, gpu_name in used})} targets"
    for kind in (*ALL_KINDS, "right code", ""):
        count = Counter({  # of the kind, or of all
            outcome: sum(n for (k, o), n in outcomes.items() if o == outcome and kind in ("", k))
            for outcome in ("found", "survivor", "equivalent", "refused by ptxas", "right", "called wrong")
        })
        if sum(count.values()):
            told = ", ".join(f"{n} {outcome}" for outcome, n in count.items() if n)
            judged = count["found"] + count["survivor"]
            yield f"{kind or 'all'}: {told}" + (f"; {100 * count['found'] / judged:.1f} %" if judged else "")


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.check.planted`: how many faults, planted one at a time in the PTX of many kernels, a check finds.

Each line is a fault: the kernel, the target, the kind, the statement, and the launch that finds it, `survivor`, or
`equivalent` where ptxas makes the same machine code of both texts or a rule of `equivalent` proves it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import random
import re
import signal
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tests.check.equivalent import by_rule, place_of, proof
from tests.check.faults import ALL_KINDS, Fault, faults
from tests.check.specimens import Kernel, chosen, kernels
from tests.check.undefined import Undefined
from tileiras.check import judging, launches
from tileiras.check.boundaries import Boundaries
from tileiras.check.checker import SEEDS
from tileiras.check.coverage import Coverage
from tileiras.check.facts import facts
from tileiras.check.fitting import Fitted, Plan, Unfit, fit
from tileiras.check.judging import Image, Reference, hold, interpreted, orders, rounded_otherwise
from tileiras.check.verdict import WRONG
from tileiras.codegen import ptxas
from tileiras.diagnostics import CompileError
from tileiras.sim.errors import SimulationError
from tileiras.sim.interpreter.machine import InterpreterError
from tileiras.stages.units import entry_name

SURVIVOR = "survivor"
STEPS = 600_000
"""Instructions of warps after which a launch counts as endless: right launches, which are held to it too, take less."""
MOST = 12
"""Faults of one kind in one kernel."""
PROOF = 6.0
"""Processor seconds of launches after which a proof is tried: most faults are found before."""
RULED = 1.0
"""The same for faults that a rule proves without a solver or an assembler."""


class CalledWrong(Exception):
    """The right code is wrong in a launch."""


class Equivalent(Exception):
    """A changed text has been proven to be no fault."""


class Expired(BaseException):
    """The time of a kernel is over; not to be caught as an exception of the checker."""


@contextlib.contextmanager
def alarm(seconds: float) -> Iterator[None]:
    def expire(*_: object) -> None:
        raise Expired

    previous = signal.signal(signal.SIGPROF, expire)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


class Launches:
    """The launches of a check of one kernel, each interpreted once for all faults."""

    def __init__(self, kernel: Kernel, seconds: float) -> None:
        self.kernel = kernel
        self.seconds = seconds
        self.facts = facts(kernel.entry)
        self.name = entry_name(kernel.entry)
        self.coverage = Coverage(kernel.entry)
        self.undefined = Undefined.of(kernel.entry, self.facts)
        self._right: dict[Any, str] = {}
        self._known: dict[str, tuple[Fitted, Reference, Any] | None] = {}

    def _launch(self, plan: Plan) -> tuple[Fitted, Reference, Any] | None:
        key = repr(plan)
        if key not in self._known:
            self._known[key] = None
            with contextlib.suppress(Unfit, InterpreterError):
                launch = fit(self.kernel.entry, self.kernel.module, self.facts, plan)
                again = functools.partial(interpreted, self.kernel.module, self.name, launch, self.coverage, {})
                self._known[key] = (launch, again(), again)
        return self._known[key]

    def find(self, ptx: str, survivor: Callable[[], str], proof_after: float = PROOF) -> str:
        """The launch that finds a fault, with its finding; empty where none does.  Raises CalledWrong where the right
        code is wrong in that launch, too, and Equivalent with the result of `survivor`, which is called after so many
        seconds, for a text that is no fault."""
        image = Image(ptx, self.name, self.kernel.metadata)
        if (finding := rounded_otherwise(self.kernel.module, image)) is not None:
            return f"roundings: {finding.message}"
        begin, is_open = time.process_time(), True
        boundaries, deadline = Boundaries(self.facts), begin + self.seconds
        seen: set[Any] = set()
        for plan in launches.every(self.facts, boundaries, ptx):
            ready = self._launch(plan)
            if time.process_time() > deadline and seen:
                break
            if is_open and time.process_time() > begin + proof_after:
                is_open = False
                if (outcome := survivor()) != SURVIVOR:
                    raise Equivalent(outcome)
            key = None if ready is None else (ready[0].grid, plan.kind, ready[0].describe(), plan.is_aliased)
            if ready is None or key in seen:
                continue
            number = len(seen)
            seen.add(key)
            result = self._held(image, ready, number, boundaries)
            if result:
                if key not in self._right:
                    self._right[key] = self._held(replace(image, ptx=self.kernel.ptx), ready, number, None)
                if self._right[key]:
                    raise CalledWrong(self._right[key])
                return f"launch {number} ({plan.kind}): {result}"
        return ""

    def _held(
        self, image: Image, ready: tuple[Fitted, Reference, Any], number: int, boundaries: Boundaries | None
    ) -> str:
        launch, reference, again = ready
        seeds = orders(image.ptx, number, launch.plan.is_edge, SEEDS)
        try:
            judged = hold(self.facts, image, launch, number, seeds, reference, again, boundaries=boundaries)
        except SimulationError as error:
            return str(error).splitlines()[0]
        if judged.status != WRONG:
            return ""
        return next(each for each in judged.findings if each.is_wrong).message[:100]


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
    if why := by_rule(fault, searched.kernel.ptx, searched.facts, searched.undefined):
        return f"equivalent: {why}"
    same = is_equivalent(searched.kernel, fault.ptx)
    if same is None:
        return "refused by ptxas"
    why = "the machine code is the same" if same else _proof(searched, fault)
    return f"equivalent: {why}" if why else SURVIVOR


def _proof(searched: Launches, fault: Fault) -> str:
    return proof(fault, searched.kernel.ptx, searched.facts, searched.undefined)


def drawn(known: list[Kernel], kinds: Sequence[str], count: int, draw: random.Random) -> list[list[Fault]]:
    """`count` faults, as many of each kind as there are, spread over the kernels; those of each kernel."""
    each = -(-count // len(kinds))
    taken: list[list[Fault]] = [[] for _ in known]
    for kind in kinds:
        waiting = []
        for number, kernel in enumerate(known):
            every = faults(kernel.ptx, kind)
            few = draw.sample(every, min(each, len(every), MOST))
            # Kernels take turns: the first fault of each, then the second of each.
            waiting += [(turn, draw.random(), number, fault) for turn, fault in enumerate(few)]
        for _, _, number, fault in sorted(waiting, key=lambda row: row[:3])[:each]:
            taken[number].append(fault)
    return taken


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.check.planted", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000, help="faults in all")
    parser.add_argument("--kernels", default="", help="TARGET:NAME, separated by commas; those of `specimens`")
    parser.add_argument("--kinds", default=",".join(ALL_KINDS))
    parser.add_argument("--seconds", type=float, default=1e9, help="no further fault is planted then")
    parser.add_argument("--budget", type=float, default=20.0, help="processor seconds of launches for a fault")
    options = parser.parse_args(arguments)
    judging.STEP_LIMIT = STEPS
    draw, deadline = random.Random(options.seed), time.monotonic() + options.seconds
    rows = chosen(draw)
    if options.kernels:
        rows = [(name, gpu_name) for gpu_name, _, name in (each.partition(":") for each in options.kernels.split(","))]
    known: list[Kernel] = []
    for name, gpu_name in rows:
        try:
            known += kernels(name, gpu_name)
        except CompileError as error:
            print(f"{name}\t{gpu_name}\tleft out: {str(error).splitlines()[0]}", flush=True)
    outcomes: Counter[tuple[str, str]] = Counter()
    used: set[tuple[str, str]] = set()
    planted = list(zip(known, drawn(known, options.kinds.split(","), options.count, draw)))
    draw.shuffle(planted)
    for kernel, planned in planted:
        if planned and time.monotonic() < deadline:
            _plant(kernel, planned, options.budget, deadline, outcomes, used)
    print(*_table(outcomes, used), sep="\n")
    return 0


def _plant(
    kernel: Kernel, planned: list[Fault], budget: float, deadline: float, outcomes: Counter[tuple[str, str]],
    used: set[tuple[str, str]],
) -> None:  # fmt: skip
    searched, head = Launches(kernel, budget), (kernel.name, kernel.gpu_name)
    for fault in planned:
        if time.monotonic() > deadline:
            break
        begin = time.process_time()
        outcome_of = functools.partial(_survivor, searched, fault)
        try:
            with alarm(8 * budget):
                is_ruled = by_rule(fault, kernel.ptx, searched.facts, searched.undefined)
                outcome = result = searched.find(fault.ptx, outcome_of, RULED if is_ruled else PROOF)
        except CalledWrong as error:
            outcomes["right code", "called wrong"] += 1
            print(*head, "right code", f"called wrong: {error}", sep="\t", flush=True)
            return
        except Equivalent as proven:
            result, outcome = "", str(proven)
        except Expired:
            result = outcome = ""
        outcome = outcome or outcome_of()
        used.add(head)
        outcomes[fault.kind, "found" if result else outcome.partition(":")[0]] += 1
        number = kernel.ptx.count("\n", 0, place_of(fault, kernel.ptx)) + 1
        changed, seconds = f"{number}: {fault.line} -> {fault.changed}", f"{time.process_time() - begin:.1f} s"
        columns = (*head, fault.kind, changed, seconds, outcome)
        print(*(" ".join(each.split()) for each in columns), sep="\t", flush=True)


def _table(outcomes: Counter[tuple[str, str]], used: set[tuple[str, str]]) -> Iterator[str]:
    yield f"{len(used)} kernels on {len({gpu_name for _, gpu_name in used})} targets"
    for kind in (*ALL_KINDS, "right code", ""):
        count = Counter({  # of the kind, or of all
            outcome: sum(n for (k, o), n in outcomes.items() if o == outcome and kind in ("", k))
            for outcome in ("found", "survivor", "equivalent", "refused by ptxas", "right", "called wrong")
        })
        if sum(count.values()):
            text = ", ".join(f"{n} {outcome}" for outcome, n in count.items() if n)
            judged = count["found"] + count["survivor"]
            yield f"{kind or 'all'}: {text}" + (f"; {100 * count['found'] / judged:.1f} %" if judged else "")


if __name__ == "__main__":
    sys.exit(main())

"""One generated kernel under one build: compiled, assembled where ptxas is installed, executed and compared."""

from __future__ import annotations

import functools
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tileiras
from tests.generator.choices import Choices, Draw
from tests.generator.decisions import Watch
from tests.generator.forms import FORMS
from tests.generator.kernel import Generated
from tests.generator.modules import Module
from tests.generator.options import TARGETS, Build, Weights, build, sm_number
from tileiras.api import checked_options, compile_with
from tileiras.check.coverage import Coverage
from tileiras.check.facts import facts
from tileiras.check.fitting import Fitted, Plan
from tileiras.check.judging import Image, hold, sums_narrowly
from tileiras.check.judging import interpreted as run_with_bounds
from tileiras.check.verdict import RIGHT, WRONG
from tileiras.codegen import ptxas, toolkit
from tileiras.diagnostics import CompileError, Severity
from tileiras.ir import Operation
from tileiras.sim import emulate, interpret
from tileiras.sim.errors import SimulationError
from tileiras.sim.interpreter.machine import InterpreterError
from tileiras.stages.units import entries_of

_TOO_LARGE = re.compile(r"needs \d+ bytes of shared memory")
"""A refusal for want of memory: the drawn tiles are larger than the target's SM."""
SECONDS = 120
"""Processor time after which a case counts as slow."""
INTERPRETED = 10
"""One case in so many holds the interpreter against NumPy as well."""
FINE = ("right", "too large")


class Verdict(NamedTuple):
    """`status`: right; wrong: a result differs; fault: the emulator refuses the code; refused: the compiler or ptxas
    does; too large: the target has too little shared memory; internal: an exception; slow; interpreter: the interpreter
    differs from NumPy, and the code does not; program: a generated module is not well defined.

    `decisions` are the rows of TileAS that changed the module.
    """

    seed: int
    form: str
    build: str
    status: str
    detail: str
    seconds: float
    family: str = ""
    maps: str = "none"
    strategy: str = "auto"
    decisions: Sequence[str] = ()

    @property
    def target(self) -> str:
        return self.build.split()[0]

    @property
    def way(self) -> tuple[str, str]:
        """The key by which failures are the same: the status, and the message without its numbers."""
        message = re.sub(r" at `.*|%[\w.]+|0x[0-9a-f]+|\d+", "", self.detail)
        return self.status, "" if self.status in ("wrong", "slow") else message


class Slow(BaseException):
    """A case exceeded its processor time; not to be caught as an exception of the compiler."""


class Case(NamedTuple):
    """The draws of a number: a kernel, its build, and the choices themselves."""

    number: int
    family: str
    kernel: Generated | Module
    build: Build
    draws: tuple[Draw, ...]
    """Those of the kernel; the first is that of the family."""
    seed: int | None
    """Orders the warps; None for lock step."""


def draw(
    number: int, forms: Sequence[str] = tuple(FORMS), targets: tuple[str, ...] = TARGETS,
    weights: Weights = Weights(), replaced: Mapping[int, Any] | None = None,
) -> Case:  # fmt: skip
    """The case of a number, the same on every machine; `replaced` draws are those of `Choices`."""
    pick = Choices(number, replaced)
    family = pick.choices(forms, [FORMS[name][0] * weights.forms.get(name, 1) for name in forms])[0]
    kernel = FORMS[family][1](pick)
    draws = tuple(pick.draws)
    able = tuple(name for name in targets if sm_number(name) >= kernel.needs)
    given = build(pick, able or ("sm_120",), weights, kernel.warps)
    given.options.update(kernel.options)
    return Case(number, family, kernel, given, draws, number)


def judge(case: Case) -> Verdict:
    """Execute one case; never raises for a fault of the compiler."""
    begin = time.process_time()
    watch = Watch()
    status, detail = limited(lambda: _judged(case, watch))
    seconds = round(time.process_time() - begin, 2)
    result = case.build
    return Verdict(case.number, case.kernel.form, str(result), status, detail, seconds, case.family, result.maps,
                   result.strategy, tuple(watch.decisions))  # fmt: skip


def limited(work: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """Status and detail of work that may take `SECONDS` of processor time."""

    def expire(*_: object) -> None:
        raise Slow

    previous = signal.signal(signal.SIGPROF, expire)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return work()
    except Slow:
        return "slow", f"more than {SECONDS} s"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def compiled(source: Any, given: Build, watch: Watch | None = None) -> tileiras.Artifact | tuple[str, str]:
    """Assembled code, or the status and the detail of a failure."""
    options = dict(given.options)
    try:
        checked = checked_options(given.gpu_name, options.pop("opt_level", 3), options)
        artifact = compile_with(source, checked, "ptx", instrumentation=[] if watch is None else [watch])
        if toolkit.find_program("ptxas") is not None:
            ptxas.assemble(artifact.text, given.gpu_name)
    except CompileError as error:
        failure = next(each for each in error.diagnostics if each.severity is Severity.ERROR)
        if _TOO_LARGE.search(failure.message):
            return "too large", failure.message
        return ("internal" if "internal error" in failure.message else "refused"), failure.message
    except Exception as error:  # noqa: BLE001  An unexpected exception is a finding.
        return "internal", f"{type(error).__name__}: {error}"
    return artifact


def _judged(case: Case, watch: Watch) -> tuple[str, str]:
    if isinstance(case.kernel, Module):
        module = tileiras.parse(case.kernel.source(case.build.decorator, case.build.entries))
        return held(module, case.kernel.grid, case.kernel.memory_slots(), case.build, case.seed, watch)
    artifact = compiled(case.kernel.source(case.build.decorator, case.build.entries), case.build, watch)
    if isinstance(artifact, tuple):
        return artifact
    metadata = next(each for each in artifact.kernels if each.name == "kernel").metadata
    slots, outputs = case.kernel.slots()
    leader = 0 if case.seed is None else case.seed % 32
    try:
        emulate(artifact.text, "kernel", case.kernel.grid, slots, metadata=metadata, seed=case.seed, leader=leader)
    except SimulationError as error:
        return "fault", str(error).splitlines()[0]
    except Exception as error:  # noqa: BLE001
        return "internal", f"emulator: {type(error).__name__}: {error}"
    if difference := case.kernel.check(outputs):
        return "wrong", difference
    if case.number % INTERPRETED == 0 and (difference := interpreted(case.kernel, case.build.decorator)):
        return "interpreter", difference
    return "right", ""


def held(
    module: Operation, grid: tuple[int, int, int], arguments: Sequence[Any], given: Build, seed: int | None,
    watch: Watch | None = None,
) -> tuple[str, str]:  # fmt: skip
    """Status and detail of the first entry of a module on a launch, by the interpreter's bounds."""
    artifact = compiled(module, given, watch)
    if isinstance(artifact, tuple):
        return artifact
    entry = entries_of(module)[0]
    launch = Fitted(grid, list(arguments), Plan({}, "given"))
    narrow = sums_narrowly(given.gpu_name)
    again = functools.partial(
        run_with_bounds, module, "kernel", launch, Coverage(entry), given.options, narrow_f8=narrow
    )
    metadata = next(each for each in artifact.kernels if each.name == "kernel").metadata
    try:
        judged = hold(facts(entry), Image(artifact.text, "kernel", metadata), launch, 0, (seed,), again(), again)
    except InterpreterError as error:
        return "program", error.diagnostic.message
    except Exception as error:  # noqa: BLE001  An unexpected exception is a finding.
        return "internal", f"{type(error).__name__}: {error}"
    if judged.status == RIGHT:
        return "right", ""
    finding = judged.findings[-1]
    if judged.status != WRONG:
        return ("program" if finding.kind == "program" else judged.status), finding.message
    return ("wrong" if finding.kind == "value" else "fault"), finding.message


def interpreted(kernel: Generated | Module, decorator: str = "") -> str:
    """A sentence about the first result in which the interpreter differs from NumPy, or nothing.

    Tells a mistake of the generator from one of the compiler.
    """
    slots, outputs = kernel.slots()
    interpret(kernel.source(decorator), "kernel", kernel.grid, slots)
    return kernel.check(outputs)

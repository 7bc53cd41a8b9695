"""One generated kernel under one build: compiled, assembled where ptxas is installed, executed and compared."""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

import tileiras
from tests.generator import attention, products, rows, scaled
from tests.generator.kernel import Generated
from tests.generator.options import TARGETS, Build, build, sm_number
from tileiras.codegen import ptxas, toolkit
from tileiras.diagnostics import CompileError, Severity
from tileiras.sim import emulate, interpret
from tileiras.sim.errors import SimulationError

FORMS: dict[str, tuple[int, Callable[[random.Random], Generated]]] = {
    "product": (10, products.product),
    "scaled": (4, scaled.scaled_product),
    "attention": (5, attention.forward),
    "decode": (3, attention.decode),
    "dq": (2, attention.query_gradient),
    "dkdv": (3, attention.key_gradient),
    "along": (4, rows.along),
    "rows": (2, rows.normalised),
    "gather": (1, rows.gathered),
}
"""Weight and generator of each form."""
_TOO_LARGE = re.compile(r"needs \d+ bytes of shared memory")
"""A refusal for want of memory: the drawn tiles are larger than the target's SM."""
SECONDS = 120
"""Processor time after which a case counts as slow."""


class Verdict(NamedTuple):
    """`status`: right; wrong: a result differs; fault: the emulator refuses the code; refused: the compiler or ptxas
    does; too large: the target has too little shared memory; internal: an exception; slow."""

    seed: int
    form: str
    build: str
    status: str
    detail: str
    seconds: float


class Slow(BaseException):
    """A case exceeded its processor time; not to be caught as an exception of the compiler."""


def draw(
    seed: int, forms: tuple[str, ...] = tuple(FORMS), targets: tuple[str, ...] = TARGETS
) -> tuple[Generated, Build]:
    """The kernel and the build of a seed, the same on every machine."""
    pick = random.Random(seed)
    form = pick.choices(forms, [FORMS[name][0] for name in forms])[0]
    kernel = FORMS[form][1](pick)
    able = tuple(name for name in targets if sm_number(name) >= kernel.needs)
    return kernel, build(pick, able or ("sm_120",))


def judge(seed: int, kernel: Generated, given: Build) -> Verdict:
    """Execute one case; never raises for a fault of the compiler."""
    begin = time.process_time()

    def expire(*_: object) -> None:
        raise Slow

    previous = signal.signal(signal.SIGPROF, expire)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        status, detail = _judged(seed, kernel, given)
    except Slow:
        status, detail = "slow", f"more than {SECONDS} s"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
    return Verdict(seed, kernel.form, str(given), status, detail, round(time.process_time() - begin, 2))


def _judged(seed: int, kernel: Generated, given: Build) -> tuple[str, str]:
    try:
        artifact = tileiras.compile(kernel.bytecode(given.hints), gpu_name=given.gpu_name, **given.options)
        if toolkit.find_program("ptxas") is not None:
            ptxas.assemble(artifact.text, given.gpu_name)
    except CompileError as error:
        failure = next(each for each in error.diagnostics if each.severity is Severity.ERROR)
        if _TOO_LARGE.search(failure.message):
            return "too large", failure.message
        return ("internal" if "internal error" in failure.message else "refused"), failure.message
    except Exception as error:  # noqa: BLE001  An unexpected exception is a finding.
        return "internal", f"{type(error).__name__}: {error}"
    compiled = next(each for each in artifact.kernels if each.name == "kernel")
    slots, outputs = kernel.slots()
    try:
        emulate(artifact.text, "kernel", kernel.grid, slots, metadata=compiled.metadata, seed=seed, leader=seed % 32)
    except SimulationError as error:
        return "fault", str(error).splitlines()[0]
    except Exception as error:  # noqa: BLE001
        return "internal", f"emulator: {type(error).__name__}: {error}"
    difference = kernel.check(outputs)
    return ("wrong", difference) if difference else ("right", "")


def interpreted(kernel: Generated, hints: str = "") -> str:
    """A sentence about the first result in which the interpreter differs from NumPy, or nothing.

    Tells a mistake of the generator from one of the compiler.
    """
    slots, outputs = kernel.slots()
    interpret(kernel.bytecode(hints), "kernel", kernel.grid, slots)
    return kernel.check(outputs)

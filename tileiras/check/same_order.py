"""Whether two builds of a program have the same bits as results: as their certificates claim, and as the emulator
executes them on launches that are found."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tileiras.ir import Operation
from tileiras.named_tuple import NamedTuple
from tileiras.sim import emulate
from tileiras.sim.emulator.errors import EmulationError, UndescribedParameters, UnsupportedInstruction
from tileiras.sim.errors import ArgumentMismatch
from tileiras.sim.memory import _raw_bytes

from . import launches, order
from .facts import facts
from .fitting import Fitted, Unfit, fit
from .judging import LEADER, STEP_LIMIT, Image

SEEDS: tuple[int | None, ...] = (None, 1)
"""Lock step, and a random order of warps."""


class Executed(NamedTuple):
    """What the executions of both builds showed."""

    launches: int
    different: dict[int, int]
    """The argument, and in how many launches its bits differ."""
    problem: str = ""
    """Why nothing, or nothing more, was executed."""


class Comparison(NamedTuple):
    entry: str
    claims: tuple[order.Claim, ...]
    executed: Executed

    @property
    def contradictions(self) -> list[order.Claim]:
        """Claims of equal results that an execution shows to be wrong."""
        return [each for each in self.claims if each.says == order.SAME and self.executed.different.get(each.argument)]

    @property
    def says(self) -> str:
        """Of all outputs together."""
        said = {each.says for each in self.claims}
        return next((each for each in (order.DIFFERENT, order.UNKNOWN) if each in said), order.SAME)

    def to_json(self) -> dict[str, Any]:
        outputs = [
            {
                "argument": each.argument, "claim": each.says, "reasons": [r._asdict() for r in each.reasons],
                "different": self.executed.different.get(each.argument, 0),
            }
            for each in self.claims
        ]  # fmt: skip
        return {
            "entry": self.entry, "claim": self.says, "outputs": outputs, "launches": self.executed.launches,
            "contradiction": bool(self.contradictions), **({"problem": p} if (p := self.executed.problem) else {}),
        }  # fmt: skip

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        lines = []
        for each in self.claims:
            memory = f"argument {each.argument}" if each.argument >= 0 else "the results"
            count = self.executed.different.get(each.argument, 0)
            seen = f"; executed: other bits in {count} of {self.executed.launches} launches"
            what = {order.SAME: "bitwise equal", order.DIFFERENT: "may differ"}.get(each.says, "not known to be equal")
            wrong = "error: " if each in self.contradictions else ""
            lines.append(f"{wrong}{self.entry}: {memory}: {what}{seen}")
            lines += [f"    {reason}" for reason in each.reasons]
        if self.executed.problem:
            lines.append(f"  not executed further: {self.executed.problem}")
        return lines


def execute(
    module: Operation, entry: Operation, images: Sequence[Image], budget: float, most: int = 8,
    given: Sequence[tuple[Sequence[int], Sequence[Any]]] = (),
) -> Executed:  # fmt: skip
    """Runs both images on the same launches: those that are given, and up to `most` that are found."""
    deadline = time.monotonic() + budget
    count, different = 0, {}
    for launch in _launches(module, entry, most, given):
        if count and time.monotonic() > deadline:
            return Executed(count, different, "the time is up")
        try:
            for position in _differing(launch, images):
                different[position] = different.get(position, 0) + 1
        except (EmulationError, UnsupportedInstruction, UndescribedParameters, ArgumentMismatch) as error:
            return Executed(count, different, str(error))
        count += 1
    return Executed(count, different, "" if count else "no launch was found")


def _launches(module: Operation, entry: Operation, most: int, given: Sequence[Any]) -> Any:
    from .checker import GIVEN
    from .fitting import Plan

    for grid, arguments in given:
        yield Fitted((*grid, 1, 1, 1)[:3], list(arguments), Plan({}, GIVEN))  # type: ignore[arg-type]
    known = facts(entry)
    for plan in [*launches.plans(known)][:most]:
        try:
            yield fit(entry, module, known, plan)
        except Unfit:
            continue


def _differing(launch: Fitted, images: Sequence[Image]) -> set[int]:
    """The arguments whose bits differ between the images, in some order of warps."""
    results: list[Mapping[int, bytes]] = []
    for seed in SEEDS:
        for image in images:
            arguments = launch.copies()
            emulate(
                image.ptx, image.entry, launch.grid, arguments, metadata=image.metadata, seed=seed,
                step_limit=STEP_LIMIT, leader=0 if seed is None else LEADER, hidden=image.hidden,
            )  # fmt: skip
            arrays = enumerate(arguments)
            results.append({n: bytes(_raw_bytes(a)[0]) for n, a in arrays if isinstance(a, np.ndarray)})
    return {number for number in results[0] if len({result[number] for result in results}) > 1}

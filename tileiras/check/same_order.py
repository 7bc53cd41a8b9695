"""Bitwise equality of two builds: claimed by their certificates of order, and executed in the emulator."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tileiras.ir import Operation
from tileiras.sim import emulate
from tileiras.sim.emulator.errors import EmulationError, UndescribedParameters, UnsupportedInstruction
from tileiras.sim.errors import ArgumentMismatch
from tileiras.sim.memory import _raw_bytes
from tileiras.support.named_tuple import NamedTuple

from . import launches, order
from .facts import facts
from .fitting import Fitted, Plan, Unfit, fit
from .judging import LEADER, STEP_LIMIT, Image

SEEDS: tuple[int | None, ...] = (None, 1)
"""Lock step, and a random order of warps."""

GIVEN = "given"
"""Kind of values of a launch from the user."""


class Executed(NamedTuple):
    """Result of the launches of both builds."""

    launches: int
    different: dict[int, int]
    """Argument -> number of launches with different bits."""
    problem: str = ""
    """Reason why launches are missing."""


class Comparison(NamedTuple):
    """Claims and executions for one entry."""

    entry: str
    claims: tuple[order.Claim, ...]
    executed: Executed

    @property
    def contradictions(self) -> list[order.Claim]:
        """Claims of equal bits for outputs with different bits in a launch."""
        return [each for each in self.claims if each.says == order.SAME and self.executed.different.get(each.argument)]

    @property
    def says(self) -> str:
        """The claim on all outputs together."""
        says = {each.says for each in self.claims}
        return next((each for each in (order.DIFFERENT, order.UNKNOWN) if each in says), order.SAME)

    def to_json(self) -> dict[str, Any]:
        outputs = [
            {
                "argument": each.argument, "claim": each.says, "reasons": [one._asdict() for one in each.differences],
                "different": self.executed.different.get(each.argument, 0),
            }
            for each in self.claims
        ]  # fmt: skip
        return {
            "entry": self.entry, "claim": self.says, "outputs": outputs, "launches": self.executed.launches,
            "contradiction": bool(self.contradictions), **({"problem": p} if (p := self.executed.problem) else {}),
        }  # fmt: skip

    def __str__(self) -> str:
        lines = []
        for each in self.claims:
            memory = f"argument {each.argument}" if each.argument >= 0 else "the results"
            count = self.executed.different.get(each.argument, 0)
            bits = f"executed: other bits in {count} of {self.executed.launches} launches"
            says = {order.SAME: "bitwise equal", order.DIFFERENT: "may differ"}.get(each.says, "not known to be equal")
            severity = "error: " if each in self.contradictions else ""
            lines.append(f"{severity}{self.entry}: {memory}: {says}; {bits}")
            lines += [f"    {difference}" for difference in each.differences]
        if self.executed.problem:
            lines.append(f"  not executed further: {self.executed.problem}")
        return "\n".join(lines)


def execute(
    module: Operation, entry: Operation, images: Sequence[Image], budget: float, most: int = 8,
    user_launches: Sequence[tuple[Sequence[int], Sequence[Any]]] = (),
) -> Executed:  # fmt: skip
    """Run both images on the launches given by the user and on up to `most` generated ones, within `budget` seconds."""
    deadline = time.monotonic() + budget
    count = 0
    different: dict[int, int] = {}
    for launch in _launches(module, entry, most, user_launches):
        if count and time.monotonic() > deadline:
            return Executed(count, different, "the time is up")
        try:
            for position in _differing(launch, images):
                different[position] = different.get(position, 0) + 1
        except (EmulationError, UnsupportedInstruction, UndescribedParameters, ArgumentMismatch) as error:
            return Executed(count, different, str(error))
        count += 1
    return Executed(count, different, "" if count else "the program has no launch that fits")


def _launches(module: Operation, entry: Operation, most: int, user_launches: Sequence[Any]) -> Iterator[Fitted]:
    for grid, arguments in user_launches:
        yield Fitted((*grid, 1, 1, 1)[:3], list(arguments), Plan({}, GIVEN))  # type: ignore[arg-type]
    parameters = facts(entry)
    for plan in [*launches.plans(parameters)][:most]:
        try:
            yield fit(entry, module, parameters, plan)
        except Unfit:
            continue


def _differing(launch: Fitted, images: Sequence[Image]) -> set[int]:
    """The arguments whose bits differ between images or between orders of warps."""
    results: list[dict[int, bytes]] = []
    for seed in SEEDS:
        for image in images:
            arguments = launch.copies()
            with launch.reachable():
                emulate(
                    image.ptx, image.entry, launch.grid, arguments, metadata=image.metadata, seed=seed,
                    step_limit=STEP_LIMIT, leader=0 if seed is None else LEADER, hidden=image.hidden,
                )  # fmt: skip
            arrays = enumerate(launch.results(arguments))
            results.append({n: bytes(_raw_bytes(a)[0]) for n, a in arrays if isinstance(a, np.ndarray)})
    return {number for number in results[0] if len({result[number] for result in results}) > 1}

"""Executions that begin alike: their common part is simulated once.

A loop is simulated at three lengths, a queue of CTAs at as many. The longest execution is simulated up to the first
step in which a warp of a shorter one does something else; a copy of the simulation then goes on with the shorter one.
If the loop is then simulated at greater lengths, these go on from the common part as well (`Trunk`). The outcomes are
those of separate simulations.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from operator import is_

from tileiras.sim.estimate.engine import Simulation
from tileiras.sim.estimate.in_flight import Outcome, Warp, WarpWork
from tileiras.sim.estimate.paths import Step

Execution = Sequence[Sequence[WarpWork]]
"""The work of the warps of each cluster, in the order in which clusters begin."""


class Trunk:
    """The common part of executions so far, for longer ones."""

    def __init__(self) -> None:
        self.simulation: Simulation | None = None
        self.execution: Execution = ()
        """That of the simulation."""

    def reaches(self, execution: Execution, history: bool) -> bool:
        """Whether an execution can go on from here."""
        simulation = self.simulation
        if simulation is None or history and not simulation.history or simulation.begun > len(execution):
            return False
        limits = _limits(execution, self.execution)
        return all(warp.step <= _limit(warp, limits) for warp in simulation.warps)


def outcomes(
    create: Callable[[bool], Simulation], executions: Sequence[Execution], slots: int, history: bool,
    trunk: Trunk | None = None,
) -> list[Outcome]:  # fmt: skip
    """The outcome of each execution, the longest last: all have as many clusters, or those that they have are equal.

    ``create``: a new simulation with or without a history; ``history``: whether the outcome of the longest one has it;
    ``trunk``: of earlier calls, left where an execution that is longer still is expected to go on. Raises
    StalledForever.
    """
    *shorter, longest = executions
    before = shorter[-1] if shorter else ()
    if trunk is not None and trunk.reaches(longest, history):
        simulation = trunk.simulation
        assert simulation is not None
        before = before or trunk.execution
        _go_on_with(simulation, longest)
    else:
        simulation = create(history)
        simulation.queue = longest
        simulation.begin(slots)
    result = []
    for execution in shorter:
        limits = _limits(execution, longest)
        if not _proceed(simulation, limits, len(execution) if len(execution) < len(longest) else -1):
            result.append(create(False).run(execution, slots))
            continue
        fork = _copy(simulation, False)
        _go_on_with(fork, execution)
        result.append(fork.finish())
    if trunk is not None and before:
        # Executions are cut in the middle, so that half of the further steps precedes the cut.
        limits = [
            [same + (len(own.steps) - len(less.steps)) // 2 for same, less, own in zip(*each)]
            for each in zip(_limits(before, longest), before, longest)
        ]
        _proceed(simulation, limits, -1)
        trunk.simulation, trunk.execution = simulation, longest
        simulation = _copy(simulation, history)
    _go_on_with(simulation, longest)
    return [*result, simulation.finish()]


def _proceed(simulation: Simulation, limits: Sequence[Sequence[int]], most_begun: int) -> bool:
    """Simulate until a warp reaches its limit; False if one is beyond it."""
    if simulation.begun > len(limits) or any(warp.step > _limit(warp, limits) for warp in simulation.warps):
        return False
    for warp in simulation.warps:
        warp.limit = _limit(warp, limits)
    if all(warp.step < warp.limit or warp.limit == len(warp.work) for warp in simulation.warps):
        simulation.most_begun = most_begun
        simulation.proceed()
    return True


def _limits(one: Execution, other: Execution) -> list[list[int]]:
    return [list(map(_common, *works)) for works in zip(one, other)]


def _limit(warp: Warp, limits: Sequence[Sequence[int]]) -> int:
    return limits[warp.cluster.number][warp.place]


def _common(one: WarpWork, other: WarpWork) -> int:
    """Number of steps that are the same in two executions, with the blocks of the steps behind them."""
    if one.steps is other.steps:
        return len(one.steps)
    same = 0
    while same < min(len(one.steps), len(other.steps)) and _same(one.steps[same], other.steps[same]):
        same += 1
    return max(0, same - 1)  # the end of a step depends on the block of the next one


def _same(one: Step, other: Step) -> bool:
    return one.block == other.block and len(one.events) == len(other.events) and all(
        at == place and len(events) == len(others) and all(map(is_, events, others))
        for (at, events), (place, others) in zip(one.events, other.events)
    )  # fmt: skip


def _go_on_with(simulation: Simulation, execution: Execution) -> None:
    simulation.queue = execution
    simulation.most_begun = -1
    for warp in simulation.warps:
        warp.work = execution[warp.cluster.number][warp.place].steps
        warp.limit = len(warp.work)


def _copy(simulation: Simulation, history: bool) -> Simulation:
    """A copy that shares the parts that a simulation does not change; without a history unless ``history``."""
    sms = simulation.sms
    histories = [unit.requests for sm in sms for unit in sm.units.values()] + [warp.log for warp in simulation.warps]
    shared = [
        simulation.machine, simulation.gpu, simulation.products, simulation.queue, simulation.spans,
        *histories, *(sm.shares for sm in sms), *(warp.work for warp in simulation.warps),
    ]  # fmt: skip
    result = copy.deepcopy(simulation, {id(each): each for each in shared})
    result.history, result.spans = history, list(simulation.spans) if history else []
    for warp in result.warps:
        warp.log = list(warp.log) if history else []
    for sm in result.sms:
        for unit in sm.units.values():
            unit.requests = list(unit.requests or ()) if history else None
    return result

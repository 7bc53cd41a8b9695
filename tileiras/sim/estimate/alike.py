"""Executions that begin alike: their common part is simulated once.

A loop is simulated at three lengths, a queue of CTAs at as many. The longest execution is simulated up to the first
step in which a warp of a shorter one does something else; a copy of the simulation then goes on with the shorter one.
The outcomes are those of separate simulations.
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


def outcomes(
    create: Callable[[bool], Simulation], executions: Sequence[Execution], slots: int, history: bool
) -> list[Outcome]:
    """The outcome of each execution, the longest last: all have as many clusters, or those that they have are equal.

    ``create``: a new simulation with or without a history; ``history``: whether the outcome of the longest one has it.
    Raises StalledForever.
    """
    *shorter, longest = executions
    simulation = create(history)
    simulation.queue = longest
    simulation.begin(slots)
    result = []
    for execution in shorter:
        limits = [list(map(_common, *works)) for works in zip(execution, longest)]
        if simulation.begun > len(execution) or any(warp.step > _limit(warp, limits) for warp in simulation.warps):
            result.append(create(False).run(execution, slots))
            continue
        for warp in simulation.warps:
            warp.limit = _limit(warp, limits)
        if all(warp.step < warp.limit or warp.limit == len(warp.work) for warp in simulation.warps):
            simulation.most_begun = len(execution) if len(execution) < len(longest) else -1
            simulation.proceed()
        fork = _copy(simulation)
        _go_on_with(fork, execution)
        result.append(fork.finish())
    _go_on_with(simulation, longest)
    return [*result, simulation.finish()]


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


def _copy(simulation: Simulation) -> Simulation:
    """A copy that shares the parts that a simulation does not change, and has no history."""
    sms = simulation.sms
    histories = [unit.requests for sm in sms for unit in sm.units.values()] + [warp.log for warp in simulation.warps]
    shared = [
        simulation.machine, simulation.gpu, simulation.products, simulation.queue, simulation.spans,
        *histories, *(sm.shares for sm in sms), *(warp.work for warp in simulation.warps),
    ]  # fmt: skip
    result = copy.deepcopy(simulation, {id(each): each for each in shared})
    result.history, result.spans = False, []
    for warp in result.warps:
        warp.log = []
    for sm in result.sms:
        for unit in sm.units.values():
            unit.requests = None
    return result

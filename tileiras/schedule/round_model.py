"""How long a round of a scheduled loop takes when one agent executes its operations in their order.

A placement says when operations could begin; this model says when they do.  The agent issues one after the other: it
waits for what an operation uses, and is busy for as long as its threads compute.  Products go to the tensor cores,
which take them in the order in which they come, while the agent goes on; whoever uses a result waits for it.  Rounds
are walked through until they are alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas

from .dependence_graph import LoopGraph
from .resource_table import Unit

_ROUNDS = 8
"""Rounds that are walked through; the later half is measured."""


def round_cycles(graph: LoopGraph, seats: Sequence[tuple[int, int]]) -> float:
    """Cycles of a round of a loop whose operations have these seats (stage, place), by their numbers."""
    count = len(seats)
    order = sorted(range(count), key=lambda number: seats[number][1])
    before: list[list[tuple[int, int]]] = [[] for _ in seats]
    for wait in graph.waits:
        if wait.value is not None and not isinstance(wait.value.type, aa.MemTokenType):
            rounds = seats[wait.target][0] + wait.distance - seats[wait.source][0]
            before[wait.target].append((wait.source, rounds))
    done: list[list[float]] = []
    agent = tensor = 0.0
    ends = []
    for number in range(_ROUNDS):
        done.append([0.0] * count)
        for each in order:
            ready = max((done[number - n][source] for source, n in before[each] if n <= number), default=0.0)
            cost = graph.costs[each]
            longest = max(cost.busy.values(), default=0.0)
            begin = max(agent, ready)
            if isinstance(graph.operations[each], tileas.DOTS) and cost.busy.get(Unit.TENSOR):
                start = max(begin, tensor)
                tensor = start + cost.busy[Unit.TENSOR]
                agent = begin + cost.busy.get(Unit.ISSUE, 0.0)
                done[number][each] = start + cost.latency
            else:
                agent = begin + longest if longest else agent
                done[number][each] = begin + cost.latency
        ends.append(agent)
    half = _ROUNDS // 2
    # The tensor cores may fall behind an agent that never waits for them.
    return max((ends[-1] - ends[half - 1]) / half, sum(cost.busy.get(Unit.TENSOR, 0.0) for cost in graph.costs))

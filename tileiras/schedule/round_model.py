"""How long an iteration of a scheduled loop takes when warps execute its operations in their order (a *round*).

A placement says when operations could begin; this model says when they do.  Groups of four warps, one for each
scheduler of an SM, issue one operation after the other: a group waits for the operands of an operation, and for the
units that execute it.  Dots go to the tensor cores, which execute them in the order of issue while the group
continues; the users of a result wait for it.  At the end of a round asynchronous dots are waited for, except those
to which another one only adds, and all groups wait for each other, as for the tiles of the next round: within one, a
group may compute under the dots of another.  Rounds are simulated until they repeat.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.analysis.dots_in_flight import carried_in_flight, is_asynchronous, is_only_added_to
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Operation
from tileiras.support.named_tuple import NamedTuple

from .dependence_graph import LoopGraph
from .resource_table import Unit

GROUP = 4
"""Warps that have one scheduler each."""

_ROUNDS = 6
"""Rounds that are simulated; the later half is measured."""

_MOST_GROUPS = 4
"""The most groups that are simulated; more give no new information."""


class Span(NamedTuple):
    """When a group executes an operation, given by its number, in a round: cycles from the beginning of the first
    round.  Dots occupy the tensor cores, and the group does not wait for them."""

    round: int
    group: int
    operation: int
    begin: float
    end: float


def round_spans(graph: LoopGraph, slots: Sequence[tuple[int, int]], warps: int = GROUP) -> list[Span]:
    """The spans of a loop's operations in the last two of the simulated rounds, which are alike."""
    walk = _Walk(graph, slots, min(_MOST_GROUPS, max(1, warps // GROUP)))
    walk.spans = spans = []
    first = _ROUNDS - 2
    start = walk.ends()[first - 1]
    return [
        each._replace(round=each.round - first, begin=each.begin - start, end=each.end - start)
        for each in spans
        if each.round >= first
    ]


def round_cycles(graph: LoopGraph, slots: Sequence[tuple[int, int]], warps: int = GROUP) -> float:
    """Cycles of a round of a loop whose operations have these slots (stage, order), by their numbers, in a CTA of
    `warps` warps."""
    groups = min(_MOST_GROUPS, max(1, warps // GROUP))
    ends = _Walk(graph, slots, groups).ends()
    half = _ROUNDS // 2
    # The tensor cores may fall behind warps that never wait for them.
    return max((ends[-1] - ends[half - 1]) / half, sum(cost.busy.get(Unit.TENSOR, 0.0) for cost in graph.costs))


class _Walk:
    """Rounds of a loop, executed by groups that share the units of an SM."""

    def __init__(self, graph: LoopGraph, slots: Sequence[tuple[int, int]], groups: int) -> None:
        self._groups = groups
        self._order = sorted(range(len(slots)), key=lambda number: slots[number][1])
        self._before: list[list[tuple[int, int]]] = [[] for _ in slots]
        for wait in graph.waits:
            if wait.value is not None and not isinstance(wait.value.type, aa.MemTokenType):
                rounds = slots[wait.target][0] + wait.distance - slots[wait.source][0]
                self._before[wait.target].append((wait.source, rounds))
        self._tensor = [cost.busy.get(Unit.TENSOR, 0.0) / groups if isinstance(op, tileas.DOTS) else 0.0
                        for op, cost in zip(graph.operations, graph.costs)]  # fmt: skip
        self._issue = [cost.busy.get(Unit.ISSUE, 0.0) / groups for cost in graph.costs]
        self._longest = [max(cost.busy.values(), default=0.0) / groups for cost in graph.costs]
        in_flight = () if any(stage for stage, _ in slots) else carried_in_flight(graph.loop).values()
        self._waited_for = [number for number, op in enumerate(graph.operations)
                            if _is_waited_for(op) and op not in in_flight]  # fmt: skip
        self.spans: list[Span] | None = None
        """The executed operations; recorded only if it is a list."""
        self._latency = [cost.latency - max(cost.busy.values(), default=0.0) for cost in graph.costs]

    def ends(self) -> list[float]:
        """When each round has ended."""
        tensor = lanes = start = 0.0
        ends: list[list[list[float]]] = []
        result = []
        for number in range(_ROUNDS):
            ends.append([[0.0] * len(self._order) for _ in range(self._groups)])
            clocks, at = [start] * self._groups, [0] * self._groups
            while (group := self._next(clocks, at)) is not None:
                each = self._order[at[group]]
                at[group] += 1
                begin = clocks[group]
                for source, rounds in self._before[each]:
                    if rounds <= number:
                        begin = max(begin, ends[number - rounds][group][source])
                end = begin
                if self._tensor[each]:
                    end = tensor = max(begin, tensor) + self._tensor[each]
                    clocks[group] = begin + self._issue[each]
                elif self._longest[each]:
                    end = lanes = clocks[group] = max(begin, lanes) + self._longest[each]
                ends[number][group][each] = end + self._latency[each]
                if self.spans is not None:
                    busy = self._tensor[each] or self._longest[each]
                    self.spans.append(Span(number, group, each, end - busy, end))
            start = max([*clocks, *(ends[number][group][each] for each in self._waited_for
                                    for group in range(self._groups))])  # fmt: skip
            result.append(start)
        return result

    def _next(self, clocks: Sequence[float], at: Sequence[int]) -> int | None:
        """The group that is furthest behind, of those that have not ended their round."""
        waiting = [group for group in range(self._groups) if at[group] < len(self._order)]
        return min(waiting, key=lambda group: (clocks[group], group), default=None)


def _is_waited_for(op: Operation) -> bool:
    """Whether a dot is asynchronous and complete at the end of its round: something other than the next dot uses
    it."""
    return is_asynchronous(op) and not is_only_added_to(op)

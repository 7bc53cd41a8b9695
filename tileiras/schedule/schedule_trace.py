"""The schedules of loops as events for a timeline viewer: a process for each entry; in it a track for each stage of a
loop whose loads run ahead, one for the loads of another agent, and one for each stage of the ring of a load.

An event is an operation of the first group of warps, from its start to its end in cycles by the static model of an
iteration (`round_model.py`); two iterations are shown, so that the second one shows which source iterations overlap.
In a loop whose cycles are not known, operations that have an order start at it and last until the next one's.
"""

from __future__ import annotations

import math
from typing import Any

from tileiras.analysis.copied_loads import loads_of
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Operation
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import find_copy_atom, target

from .cost_model import operation_cost
from .dependence_graph import LoopGraph, loop_graph
from .resource_table import resources
from .round_model import Span, round_spans
from .schedule_analysis import analysis_of, is_published
from .staging import staged_load

_ROUNDS = 2

_RUN_AHEAD = (tileas.PLAIN, tileas.UNSPECIALIZE, tileas.WARP_SPECIALIZE)
"""Schedules of loops whose loads run ahead through rings."""

Slots = tuple[tuple[int, int], ...]
"""Stage and order of each operation of a loop."""


def placement_events(module: Operation, before: int = 0) -> list[dict[str, Any]]:
    """Events of Chrome's trace format for the loops of a module that have a schedule, with one microsecond per
    cycle: a process for each entry, numbered behind the first `before`, with the tracks of its loops one after the
    other."""
    result: list[dict[str, Any]] = []
    process = before
    for func in [op for op in module.walk() if isinstance(op, aa.FuncOp)]:
        tracks = _Tracks(process + 1)
        for loop in [op for op in func.walk() if isinstance(op, scf.ForOp)]:
            tracks.add_loop(func, loop)
        if tracks.events:
            process += 1
            names = {"name": f"entry {func.sym_name.value}: cycles"}
            result += [{"name": "process_name", "ph": "M", "pid": process, "tid": 0, "args": names}, *tracks.events]
    return result


class _Tracks:
    """The tracks of one entry, and the events on them."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._next = 0
        self.events: list[dict[str, Any]] = []

    def _track(self, label: str) -> int:
        track, self._next = self._next, self._next + 1
        place = {"pid": self._process, "tid": track}
        self.events.append({"name": "thread_name", "ph": "M", **place, "args": {"name": label}})
        self.events.append({"name": "thread_sort_index", "ph": "M", **place, "args": {"sort_index": track}})
        return track

    def _event(self, name: str, track: int, begin: float, end: float, **arguments: object) -> None:
        self.events.append({
            "name": name, "ph": "X", "ts": round(begin, 1), "dur": round(end - begin, 1),
            "pid": self._process, "tid": track, "args": arguments,
        })  # fmt: skip

    def add_loop(self, func: aa.FuncOp, loop: scf.ForOp) -> None:
        schedule: Any = loop.attributes.get(tileas.LOOP_SCHEDULE)
        if schedule is None or schedule.kind not in _RUN_AHEAD:
            return
        slots = analysis_of(loop).slots if is_published(loop) else _as_written(loop)
        graph, table = _graph(func, loop), resources(target(func.target_spec.value))
        warps = func.kernel_spec.num_warps
        if graph is not None:
            spans = [span for span in round_spans(graph, slots, warps) if span.group == 0]
        elif is_published(loop):
            spans = _places(slots)
        else:
            return
        place = loop.location.resolve()
        where = "loop" if place is None else f"loop at {place.filename}:{place.line}"
        title = f"{where}, {schedule.kind}, {schedule.stages} stages of tiles"
        count = 1 + max((stage for stage, _ in slots), default=0)
        stages = [self._track(f"{title}: stage {n}: iteration i" + f" - {n}" * bool(n)) for n in range(count)]
        operations = list(loop.body.block.operations)
        ahead = _that_run_ahead(loop)
        agent = self._track(f"{title}: agent that loads") if schedule.kind == tileas.WARP_SPECIALIZE and ahead else None
        for span in spans:
            op, (stage, order) = operations[span.operation], slots[span.operation]
            track = agent if agent is not None and op in ahead else stages[stage]
            cost = operation_cost(op, warps, table) if graph is not None else None
            self._event(
                op.name, track, span.begin, span.end, stage=stage, order=order, round=span.round,
                **({} if cost is None else {"latency": round(cost.latency, 1)}),
            )  # fmt: skip
        if graph is not None:
            for load in ahead:
                latency = operation_cost(load, warps, table).latency
                self._ring(title, load, schedule.stages, latency, _uses(load, spans, operations))

    def _ring(self, title: str, load: Any, stages: int, latency: float, uses: _Uses | None) -> None:
        """A track for each stage of the ring of a load: its copies, as many iterations ahead as the use of the stage's
        previous tile allows, and the time from the first user of a tile to the end of the last one."""
        if uses is None:
            return
        place = load.location.resolve()
        where = "" if place is None else f" at {place.filename}:{place.line}"
        ahead = min(stages - 1, math.floor((uses.issue - uses.end) / uses.interval) + stages)
        tracks = [self._track(f"{title}: {load.name}{where}: stage {n} of {stages} of its ring") for n in range(stages)]
        for iteration in range(stages + _ROUNDS):
            offset = iteration * uses.interval
            issued = uses.issue + offset - ahead * uses.interval
            track = tracks[iteration % stages]
            begin = uses.begin + offset
            if issued >= 0:
                self._event("copy", track, issued, min(issued + latency, max(begin, issued)), iteration=iteration,
                            latency=round(latency, 1))  # fmt: skip
            self._event("tile in use", track, begin, uses.end + offset, iteration=iteration)


class _Uses(NamedTuple):
    """In the first round: the issue of a load, and the cycles in which its tile is used; cycles of an iteration."""

    issue: float
    begin: float
    end: float
    interval: float


def _uses(load: Any, spans: list[Span], operations: list[Operation]) -> _Uses | None:
    """None for a tile without a user that takes time."""
    numbers = {op: number for number, op in enumerate(operations)}
    reached, pending = {load}, [load]
    while pending:
        for user in (user for result in pending.pop().results for user in result.users):
            # Behind a dot, the value is no longer the tile.
            if user in numbers and user not in reached:
                reached.add(user)
                pending += [] if isinstance(user, tileas.DOTS) else [user]
    reached.discard(load)
    first = [span for span in spans if span.round == 0]
    of = [span for span in first if operations[span.operation] in reached and span.end > span.begin]
    issue = next((span.begin for span in first if operations[span.operation] is load), None)
    later = {span.operation: span.begin for span in spans if span.round == 1}
    if not of or issue is None:
        return None
    interval = later[of[0].operation] - of[0].begin
    return _Uses(issue, min(span.begin for span in of), max(span.end for span in of), interval)


def _as_written(loop: scf.ForOp) -> Slots:
    return tuple((0, number) for number in range(len(list(loop.body.block.operations)) - 1))


def _that_run_ahead(loop: scf.ForOp) -> list[Any]:
    return [load for load in loads_of(loop) if tileas.RUNS_AHEAD in load.attributes]


def _graph(func: aa.FuncOp, loop: scf.ForOp) -> LoopGraph | None:
    """The dependences and costs of a loop; None where the time of an operation is not known."""
    if any(isinstance(op, (scf.ForOp, scf.WhileOp)) for op in loop.walk() if op is not loop):
        return None
    gpu = target(func.target_spec.value)
    atom = find_copy_atom(gpu, "global", "shared", asynchronous=True)
    if atom is None:
        return None
    staged = [each for load in _that_run_ahead(loop) if (each := staged_load(load, loop, atom)) is not None]
    return loop_graph(loop, gpu, func.kernel_spec.num_warps, staged)


def _places(slots: Slots) -> list[Span]:
    return [
        Span(number, 0, op, number * len(slots) + order, number * len(slots) + order + 1)
        for number in range(_ROUNDS)
        for op, (_, order) in enumerate(slots)
    ]

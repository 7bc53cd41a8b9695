"""The schedules of loops as events for a timeline viewer: a track for each stage of a loop whose loads run ahead, and
one for the loads of another agent.

An event is an operation of the first group of warps, from its start to its end in cycles by the static model of an
iteration (`round_model.py`); two iterations are shown, so that the second one shows which source iterations overlap.
In a loop whose cycles are not known, operations that have an order start at it and last until the next one's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileiras.analysis.copied_loads import loads_of
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Operation
from tileiras.targets import find_copy_atom, target

from .dependence_graph import loop_graph
from .round_model import Span, round_spans
from .schedule_analysis import analysis_of, is_published
from .staging import staged_load

_ROUNDS = 2

_RUN_AHEAD = (tileas.PLAIN, tileas.UNSPECIALIZE, tileas.WARP_SPECIALIZE)
"""Schedules of loops whose loads run ahead through rings."""

Slots = tuple[tuple[int, int], ...]
"""Stage and order of each operation of a loop."""


def placement_events(module: Operation) -> list[dict[str, Any]]:
    """Events of Chrome's trace format for the loops of a module that have a schedule, with one microsecond per
    cycle."""
    found: list[dict[str, Any]] = []
    funcs = [op for op in module.walk() if isinstance(op, aa.FuncOp)]
    loops = [(func, op) for func in funcs for op in func.walk() if isinstance(op, scf.ForOp)]
    for process, (func, loop) in enumerate(loops, 1):
        found += _of_loop(func, loop, process)
    return found


def _of_loop(func: aa.FuncOp, loop: scf.ForOp, process: int) -> Iterator[dict[str, Any]]:
    schedule: Any = loop.attributes.get(tileas.LOOP_SCHEDULE)
    if schedule is None or schedule.kind not in _RUN_AHEAD:
        return
    slots = analysis_of(loop).slots if is_published(loop) else _as_written(loop)
    spans, unit = _spans(func, loop, slots), "cycles"
    if spans is None:
        if not is_published(loop):
            return
        spans, unit = _places(slots), "places"
    stages = 1 + max((stage for stage, _ in slots), default=0)
    labels = [f"stage {stage}: iteration i - {stage}" if stage else "stage 0: iteration i" for stage in range(stages)]
    loads = set(_that_run_ahead(loop)) if schedule.kind == tileas.WARP_SPECIALIZE else set()
    if loads:
        labels.append("agent that loads")
    place = loop.location.resolve()
    where = "" if place is None else f" at {place.filename}:{place.line}"
    name = f"loop{where}: {schedule.kind}, {schedule.stages} stages of tiles, {unit}"
    yield {"name": "process_name", "ph": "M", "pid": process, "tid": 0, "args": {"name": name}}
    for track, label in enumerate(labels):
        yield {"name": "thread_name", "ph": "M", "pid": process, "tid": track, "args": {"name": label}}
    operations = list(loop.body.block.operations)
    for span in spans:
        op, (stage, order) = operations[span.operation], slots[span.operation]
        yield {
            "name": op.name, "ph": "X", "ts": round(span.begin, 1), "dur": round(span.end - span.begin, 1),
            "pid": process, "tid": stages if op in loads else stage,
            "args": {"stage": stage, "order": order, "round": span.round},
        }  # fmt: skip


def _as_written(loop: scf.ForOp) -> Slots:
    return tuple((0, number) for number in range(len(list(loop.body.block.operations)) - 1))


def _that_run_ahead(loop: scf.ForOp) -> list[Any]:
    return [load for load in loads_of(loop) if tileas.RUNS_AHEAD in load.attributes]


def _spans(func: aa.FuncOp, loop: scf.ForOp, slots: Slots) -> list[Span] | None:
    """The operations of the first group of warps in two iterations; None where the time of an operation is not
    known."""
    if any(isinstance(op, (scf.ForOp, scf.WhileOp)) for op in loop.walk() if op is not loop):
        return None
    gpu = target(func.target_spec.value)
    atom = find_copy_atom(gpu, "global", "shared", asynchronous=True)
    if atom is None:
        return None
    staged = [each for load in _that_run_ahead(loop) if (each := staged_load(load, loop, atom)) is not None]
    graph = loop_graph(loop, gpu, func.kernel_spec.num_warps, staged)
    if graph is None:
        return None
    return [span for span in round_spans(graph, slots, func.kernel_spec.num_warps) if span.group == 0]


def _places(slots: Slots) -> list[Span]:
    return [
        Span(number, 0, op, number * len(slots) + order, number * len(slots) + order + 1)
        for number in range(_ROUNDS)
        for op, (_, order) in enumerate(slots)
    ]

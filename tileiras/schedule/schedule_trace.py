"""The placement of a loop's operations as events for a timeline viewer: a track for each stage of each loop.

An event stands at the operation's place in a round of the loop and lasts until the next one's; a round begins where the
one before has ended, and the second one shows which iterations overlap.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Operation

from .schedule_analysis import analysis_of, is_published

_ROUNDS = 2


def placement_events(module: Operation) -> list[dict[str, Any]]:
    """Events of Chrome's trace format for the loops of a module whose operations have stages and places."""
    found: list[dict[str, Any]] = []
    loops = [op for op in module.walk() if isinstance(op, scf.ForOp) and is_published(op)]
    for process, loop in enumerate(loops, 1):
        analysis = analysis_of(loop)
        schedule: Any = loop.attributes[tileas.LOOP_SCHEDULE]
        place = loop.location.resolve()
        where = "" if place is None else f" at {place.filename}:{place.line}"
        name = f"loop{where}: {schedule.kind}, {schedule.stages} stages of tiles"
        found.append({"name": "process_name", "ph": "M", "pid": process, "tid": 0, "args": {"name": name}})
        count = len(analysis.operations)
        for stage in range(analysis.stages):
            label = {"name": f"stage {stage}: iteration i - {stage}" if stage else "stage 0: iteration i"}
            found.append({"name": "thread_name", "ph": "M", "pid": process, "tid": stage, "args": label})
        for number in range(_ROUNDS):
            for op, (stage, order) in zip(analysis.operations, analysis.slots):
                found.append({
                    "name": op.name, "ph": "X", "ts": number * count + order, "dur": 1, "pid": process, "tid": stage,
                    "args": {"stage": stage, "order": order, "round": number},
                })  # fmt: skip
    return found

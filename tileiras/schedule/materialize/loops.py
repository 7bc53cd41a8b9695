"""Makes loops what the schedules that they carry say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tileiras.analysis.copied_loads import loads_of
from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.schedule.induction_variable import can_look_ahead
from tileiras.targets import CopyAtom, Target, find_copy_atom

from .register_prefetch import prefetch_loads
from .software_pipeline import pipeline

Rewrite = Callable[[scf.ForOp, Sequence[tileas.Load], int, "CopyAtom | None"], bool]

REWRITES: Mapping[str, Rewrite] = {tileas.PLAIN: pipeline, tileas.PREFETCH: prefetch_loads}
"""Kind of schedule -> `rewrite(loop, loads, stages, atom)`, which moves the loads that run ahead, in place, and says
whether it could; `atom` copies asynchronously to shared memory, and is None where the target has none that does."""


def materialize_loops(func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None) -> None:
    """Rewrites the loops of a function of nv_tileas, in place, as their schedules say.

    A loop that cannot be rewritten so stays as it is, with a remark.
    """
    atom = find_copy_atom(target, "global", "shared", asynchronous=True)
    for loop in [op for op in func.walk() if isinstance(op, scf.ForOp)]:
        loads = [op for op in loads_of(loop) if op.attributes.pop(tileas.RUNS_AHEAD, None) is not None]
        if loads and not _rewrite(loop, loads, atom):
            loop.attributes[tileas.LOOP_SCHEDULE] = tileas.LoopScheduleAttr(tileas.SERIAL, 1)
            if engine is not None:
                engine.remark(loop.location, "Failed to pipeline loop: its loads cannot run ahead as its schedule says")


def _rewrite(loop: scf.ForOp, loads: Sequence[tileas.Load], atom: CopyAtom | None) -> bool:
    schedule = loop.attributes[tileas.LOOP_SCHEDULE]
    assert isinstance(schedule, tileas.LoopScheduleAttr)
    rewrite = REWRITES.get(schedule.kind)
    return rewrite is not None and can_look_ahead(loop) and rewrite(loop, loads, schedule.stages, atom)

"""Consistency of partitions, `nv_tile.aws.partition`: operations that another agent is to execute.

Loads leave a loop together, since a function with pipes has no rings beside them; dots into tensor memory leave an
agent together, since its groups of dots are counted.  An operation of an agent other than the first one has left
already.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileiras import analysis
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.attributes import CORRECTION, DOT, LOAD, STORE
from tileiras.ir import Operation

Finding = tuple[Operation, str]

NAMES = {
    LOAD: (tileas.TiledLoadOp.name, tileas.LoadOp.name),
    DOT: (names.TENSOR_DOT,),
    STORE: (tileas.TiledStoreOp.name,),
    CORRECTION: (names.TENSOR_SCALE,),
}
"""Partition -> its operations."""


def partition_errors(func: aa.FuncOp) -> Iterator[Finding]:
    """The inconsistent marks of a function of nv_tileas, as operations and messages that follow their names."""
    kinds: dict[Operation, str] = {}
    for op in func.walk():
        mark = op.attributes.get(tileas.PARTITION)
        if mark is None:
            continue
        if not isinstance(mark, tileas.PartitionAttr):
            yield op, f"expects #nv_tileas.partition for '{tileas.PARTITION}', got {mark}"
            continue
        kinds[op] = mark.value
        wrong = _place_error(op, mark.value)
        if wrong:
            yield op, wrong
    yield from _left_behind(func, kinds)


def _place_error(op: Operation, kind: str) -> str:
    if op.name not in NAMES[kind]:
        return f"is in partition '{kind}', which has {' and '.join(NAMES[kind])} only"
    agent = analysis.pipes.agent_of(op)
    if kind == LOAD:
        loop = op.parent_op
        schedule = loop.attributes.get(tileas.LOOP_SCHEDULE) if isinstance(loop, scf.ForOp) else None
        if not isinstance(schedule, tileas.LoopScheduleAttr) or schedule.kind != "warp_specialize":
            return "is in partition 'load', but in no loop of the schedule warp_specialize"
        return "" if agent is None else "is in partition 'load', but in an agent already"
    if agent is None or agent is not agent.parent_op.agents[0]:  # type: ignore[union-attr]
        return f"is in partition '{kind}', but not in the first agent of a switch"
    return ""


def _left_behind(func: aa.FuncOp, kinds: dict[Operation, str]) -> Iterator[Finding]:
    """Operations without a mark that have to leave together with marked ones."""
    loops = {op.parent_op for op, kind in kinds.items() if kind == LOAD}
    agents = {analysis.pipes.agent_of(op) for op, kind in kinds.items() if kind == DOT}
    if not loops and not agents:
        return
    for op in func.walk():
        if op in kinds:
            continue
        if tileas.RUNS_AHEAD in op.attributes and op.parent_op in loops:
            yield op, "runs ahead and is in no partition, other loads of its loop are in partition 'load'"
        elif op.name == names.TENSOR_DOT and analysis.pipes.agent_of(op) in agents:
            yield op, "is in no partition, other dots of its agent are in partition 'dot'"

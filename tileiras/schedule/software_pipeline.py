"""Loops whose loads run ahead: the tiles of later iterations are on their way while this one computes.

With S stages, the copies of iteration i + S - 1 start in iteration i, into the stage that iteration i - 1 has read:

    for s in 0 .. S - 2:  if iteration s exists: start its copies into stage s;  commit
    for i in ...:
      wait until the group of iteration i is there, in all threads
      if iteration i + S - 1 exists: start its copies into the stage that was read last;  commit
      ... read stage i mod S ...

One barrier, at the wait, both publishes what the copies brought and says that all threads have read the stage before
it is overwritten.  A group is committed in every iteration, copies or not, so that the wait's count is a constant.
"""

from __future__ import annotations

from typing import Any

from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Block, Builder, IntegerAttr, Region, Value, i32
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import layout_of, with_layout
from tileiras.named_tuple import NamedTuple
from tileiras.targets import CopyAtom, Target, find_copy_atom

from .loop_counter import LoopCounter, binary, can_look_ahead, compare, end_no_earlier, integer, trips
from .register_prefetch import prefetch, prefetched_loads
from .remarks import ScheduleRemarks
from .resident_factors import copy_where_used, keep_factors
from .shared_memory import SCRATCH_BYTES, SCRATCH_USERS, conversion_bytes, live_bytes, shared_budget
from .staging import (
    LOADS,
    StagedLoad,
    computed_again,
    erase_unused,
    joined,
    read_in,
    staged_load,
    start_copy,
)

DEFAULT_STAGES = 3
MAX_STAGES = 8


class Outcome(NamedTuple):
    """Of the loops with loads that could run ahead: how many got a pipeline, how many had no room for one."""

    pipelined: int = 0
    refused: int = 0


def pipeline_loops(
    func: Any, target: Target, stages: int | None = None, engine: DiagnosticEngine | None = None
) -> Outcome:
    """Pipelines the loops of a function of nv_tileas, in place; `stages` overrides the number chosen for each."""
    atom = find_copy_atom(target, "global", "shared", asynchronous=True)
    remarks = ScheduleRemarks(engine, func.sym_name.value) if engine is not None and engine.remarks else None
    loops = [op for op in func.walk() if isinstance(op, scf.ForOp)]
    if atom is None:
        return Outcome(sum([_prefetch(loop, func, target, stages, remarks) for loop in loops]))
    if (func.kernel_spec.occupancy or 1) > 1:
        _leave_room(func, loops, atom, target, engine)
    keep_factors(func, atom, shared_budget(func, target), engine)
    short = any(tileas.SHORT_OF_REGISTERS in loop.attributes for loop in loops)
    outcomes: list[bool | None] = []
    for loop in loops:
        loads = [op for op in loop.body.block.operations if isinstance(op, LOADS)]
        if remarks is None:
            found = [staged for load in loads if (staged := staged_load(load, loop, atom)) is not None]
        else:
            found = remarks.staged(loop, loads, lambda load, why, loop=loop: staged_load(load, loop, atom, why))
        if found and can_look_ahead(loop):
            outcomes.append(_pipeline(loop, found, func, target, atom, stages, engine, remarks))
        elif found and remarks is not None:
            remarks.as_written(loop, "later values of its counter cannot be compared with its bound")
    if short:
        from .carried_tiles import keep_carried

        keep_carried(func, target, engine)
    return Outcome(outcomes.count(True), outcomes.count(False))


def _prefetch(loop: Any, func: Any, target: Target, stages: int | None, remarks: ScheduleRemarks | None) -> bool:
    """Whether loads of a loop run ahead in registers, one iteration, as they can on every target."""
    loads = prefetched_loads(loop, func) if can_look_ahead(loop) and stages != 1 and trips(loop) != 1 else []
    reason = f"{target.name} has no asynchronous copy"
    if loads:
        if remarks is not None:
            remarks.prefetched(loop, [each.load for each in loads], reason)
        prefetch(loop, loads)
    elif remarks is not None:
        remarks.as_written(loop, reason)
    return bool(loads)


def _leave_room(
    func: Any, loops: list[Any], atom: CopyAtom, target: Target, engine: DiagnosticEngine | None
) -> None:
    """Has fewer CTAs on an SM than a kernel asks for when as many leave no shared memory for two stages of each load
    that could run ahead.  What is loaded where it is used has to wait in registers as well."""
    asked = func.kernel_spec.occupancy
    wanted = 0
    for loop in loops:
        loads = [op for op in loop.body.block.operations if isinstance(op, LOADS)]
        found = [staged for load in loads if (staged := staged_load(load, loop, atom)) is not None]
        if found and trips(loop) != 1:
            wanted = max(wanted, 2 * sum(s.stage_bytes for s in found) + _scratch_bytes(loop, found))
    while func.kernel_spec.occupancy > 1 and wanted > shared_budget(func, target):
        func.attributes["kernel_spec"] = func.kernel_spec.with_occupancy(func.kernel_spec.occupancy - 1)
    if func.kernel_spec.occupancy < asked and engine is not None:
        engine.remark(
            func.location,
            f"{func.kernel_spec.occupancy} CTAs to an SM instead of {asked}:"
            f" loads that run ahead need {wanted} bytes of shared memory",
        )


def _pipeline(
    loop: Any,
    found: list[StagedLoad],
    func: Any,
    target: Target,
    atom: CopyAtom,
    stages: int | None,
    engine: DiagnosticEngine | None,
    remarks: ScheduleRemarks | None = None,
) -> bool | None:
    """Whether the loop got its pipeline; None when it is not worth one."""
    budget = shared_budget(func, target) - live_bytes(loop)
    wanted = stages or _wanted_stages(found)
    known = trips(loop)
    if known is not None:
        wanted = min(wanted, known)
    if wanted < 2:
        if remarks is not None:
            remarks.as_written(loop, "one stage was asked for" if stages == 1 else "it runs at most once")
        return None
    staged = list(found)
    while staged:
        fitting = (budget - _scratch_bytes(loop, staged)) // sum(s.stage_bytes for s in staged)
        if fitting >= 2:
            break
        # The largest load stays synchronous, the others may still run ahead.
        staged.remove(max(staged, key=lambda s: s.stage_bytes))
    if engine is not None and len(staged) < len(found):
        engine.remark(
            loop.location,
            f"{len(found) - len(staged)} of {len(found)} loads do not run ahead: no shared memory is left",
        )
    others = [each.load for each in found if each not in staged]
    if not staged:
        _copy_where_used(loop, others, found, func, target, atom, engine)
        if engine is not None:
            engine.remark(loop.location, "Failed to pipeline loop")
        if remarks is not None:
            remarks.as_written(loop, "no shared memory is left")
        return False
    number = min(wanted, fitting)
    if engine is not None and number < wanted:
        engine.remark(loop.location, f"{number} pipeline stages instead of {wanted}: no shared memory is left")
    if remarks is not None:
        remarks.pipelined(loop, staged, number, wanted, atom)
    pipeline = _Pipeline(loop, staged, number, atom)
    pipeline.run()
    _copy_where_used(pipeline.loop, others, found, func, target, atom, engine)
    return True


def _copy_where_used(
    loop: Any, loads: list[Any], found: list[StagedLoad], func: Any, target: Target, atom: CopyAtom,
    engine: DiagnosticEngine | None,
) -> None:  # fmt: skip
    """What does not run ahead need not go through registers either, if shared memory holds it once."""
    if not loads:
        return
    left = shared_budget(func, target) - live_bytes(loop) - _scratch_bytes(loop, found)
    count = copy_where_used(loop, loads, left, atom)
    if count and engine is not None:
        engine.remark(loop.location, f"{count} of them go to shared memory where they are used")


def _scratch_bytes(loop: Any, found: list[StagedLoad]) -> int:
    """What is left for what stays in the loop."""
    staged = {leaf.convert for each in found for leaf in each.leaves} | {each.load for each in found}
    users = [op for op in loop.walk() if isinstance(op, SCRATCH_USERS) and op not in staged]
    if not users:
        return 0
    least, most = SCRATCH_BYTES
    return min(most, max(least, *(conversion_bytes(op) for op in users if isinstance(op, tileas.ConvertLayoutOp)), 0))


def _wanted_stages(found: list[StagedLoad]) -> int:
    hints = [s.load.attributes[aa.LATENCY].value for s in found if aa.LATENCY in s.load.attributes]
    return min(MAX_STAGES, max(2, *hints)) if hints else DEFAULT_STAGES


class _Pipeline:
    """The rewriting of one loop."""

    def __init__(self, loop: Any, staged: list[StagedLoad], stages: int, atom: CopyAtom) -> None:
        self.loop = loop
        self.staged = staged
        self.stages = stages
        self.atom = atom
        self.outer = Builder.before(loop)
        self.outer.location = loop.location
        end_no_earlier(self.outer, loop)
        self.counter = LoopCounter(loop)

    def run(self) -> None:
        loop, outer = self.loop, self.outer
        types = [s.buffer_type(self.stages) for s in self.staged]
        self.buffers = [outer.insert(tileas.AllocTensorOp(result=type)).results[0] for type in types]
        self.tokens = [joined(outer, s.tokens) for s in self.staged]
        numbers = [integer(outer, s) for s in range(self.stages)]
        self._prologue(numbers)
        new = self._extended(numbers[0])
        read = new.body.block.arguments[-1]
        wait = self._head(new, read)
        self._read_stages(new, read, wait)
        after = Builder.before(new.next)
        after.location = loop.location
        for buffer in reversed(self.buffers):
            after.insert(tileas.DeallocTensorOp(buffer))

    # -- copies -------------------------------------------------------------------------------------------------------

    def _start(self, builder: Builder, exists: Value, counter: Any, stage: Value) -> None:
        """If the iteration exists, its copies into `stage`; a group in any case.  `counter(builder)`: its number."""
        body = Block()
        inner = Builder.at_end(body)
        inner.location = self.loop.location
        values = {self.loop.induction_variable: counter(inner)}

        def again(value: Value) -> Value:
            return computed_again(value, values, self.loop.body.block, inner)

        for staged, buffer, token in zip(self.staged, self.buffers, self.tokens):
            inner.location = staged.load.location
            start_copy(inner, staged.load, buffer, stage, token, self.atom, again)
        inner.location = self.loop.location
        inner.insert(scf.YieldOp.create(()))
        builder.insert(scf.IfOp.create((exists,), (), {}, (Region([body]), Region())))
        builder.insert(tileas.AsyncCommitGroupOp())

    def _prologue(self, numbers: list[Value]) -> None:
        loop, outer = self.loop, self.outer
        first = self.counter.runs(outer)
        self._start(outer, first, lambda builder: loop.lower_bound, numbers[0])
        for s in range(1, self.stages - 1):
            more, ahead = self.counter.later(outer, loop.lower_bound, s)
            exists = binary(outer, arith.AndIOp, first, more)

            def counter(builder: Builder, ahead: Value = ahead) -> Value:
                return binary(builder, arith.AddIOp, loop.lower_bound, ahead)

            self._start(outer, exists, counter, numbers[s])

    def _head(self, new: Any, read: Value) -> Any:
        """The wait and the copies for a later iteration, at the head of the body: what the iteration before has read,
        the one before stage `read`, is overwritten."""
        head = Builder.at_start(new.body.block)
        head.location = self.loop.location
        pending = IntegerAttr(self.stages - 2, i32)
        wait = head.insert(tileas.AsyncWaitOp(pending=pending, result_token=aa.MemTokenType()))
        counter = new.induction_variable
        exists, ahead = self.counter.later(head, counter, self.stages - 1)
        write = self._neighbour(head, read, -1)
        self._start(head, exists, lambda builder: binary(builder, arith.AddIOp, counter, ahead), write)
        return wait

    def _neighbour(self, builder: Builder, stage: Value, step: int) -> Value:
        """The stage before or after this one, going around.  It costs an instruction or three; carried through the
        loop beside the other, it would cost a register."""
        last = self.stages - 1
        if last == 1:
            return binary(builder, arith.SubIOp, integer(builder, 1), stage)
        end, start = (last, 0) if step > 0 else (0, last)
        wraps = compare(builder, "eq", stage, integer(builder, end))
        moved = binary(builder, arith.AddIOp, stage, integer(builder, step))
        return builder.insert(arith.SelectOp(wraps, integer(builder, start), moved)).results[0]

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _extended(self, read: Value) -> Any:
        """The loop with the stage that is read carried along, as its last value."""
        old = self.loop
        block = old.body.block
        reading = block.add_argument(i32, old.location)
        end = block.last
        tail = Builder.before(end)
        tail.location = old.location
        end.operands = (*end.operands, self._neighbour(tail, reading, 1))
        self.loop = new = old.replace_with_additional_yields((read,))
        return new

    def _read_stages(self, new: Any, read: Value, wait: Any) -> None:
        for staged, buffer in zip(self.staged, self.buffers):
            load = staged.load
            made: dict[LinearLayout, Value] = {}

            def reading(layout: LinearLayout, load: Any = load, buffer: Value = buffer, made: dict = made) -> Value:
                if layout not in made:
                    type = with_layout(load.data.type, layout)
                    copy = tileas.CopyOp(buffer, read, result=type, location=load.location)
                    load.parent.insert_before(copy, load)
                    made[layout] = copy.results[0]
                return made[layout]

            for leaf in staged.leaves:
                value = read_in(leaf.convert.operand, layout_of(leaf.convert.result.type), load, reading)
                leaf.convert.replace_all_uses_with((value,))
                leaf.convert.erase()
            erase_unused(load.data)
            if load.data.has_uses:
                load.data.replace_all_uses_with(reading(staged.writer))
            token = tileas.JoinMemTokenOp.create(
                [v for v in (load.token, wait.result_token) if v is not None],
                (wait.result_token.type,),
                location=load.location,
            )
            load.parent.insert_before(token, load)
            load.result_token.replace_all_uses_with(token.results[0])
            load.erase()

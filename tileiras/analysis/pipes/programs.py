"""Operations of agents on pipes and barriers: each agent's program, interpreted on its own, as a list of events.

Besides iterators and tokens, only the numbers that control loops and branches are computed, from known values and from
the values that `pipe_assumptions` assumes for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, Literal

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import nvvm, scf
from tileiras.dialects.nv_tileas.agents import YieldOp
from tileiras.dialects.nv_tileas.neighbors import IsSameTileOp
from tileiras.dialects.nv_tileas.pipes import (
    ConsumeOneOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateIteratorOp,
    CreatePipelineOp,
    DestroyPipelineOp,
    IncIterOp,
    PipelineIteratorType,
    ProduceOneOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerTailOp,
)
from tileiras.ir import Block, Operation, Value
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.sm import WARP_SIZE

from ..warpgroup_turns import THREADS, TURNS, meetings, parts_of, warps_of
from . import agent_of, pipe_of
from .assumptions import (
    ALWAYS,
    BY_TURNS,
    CLUSTER,
    NAMED,
    ROUNDS,
    Assumption,
    Decisive,
    Impossible,
    Key,
    compute,
    computes,
    constant_of,
    has_events,
    is_place_in_cluster,
    key_of,
)

Finding = tuple[Operation, str]
Side = Literal["full", "empty", "free"]
"""`free`: empty in all CTAs of a cluster that fill each other's stages."""

Kind = Literal["wait", "know", "arrive"]
"""Kind of an event: an agent waits for a phase, takes it for complete, or arrives."""

Where = Any
"""An mbarrier as (pipe, stage, side, (how often the pipe was destroyed, group)), a named barrier as (number, threads).
"""

MOST_EVENTS = 4096
"""Limit for one agent."""

Opening = ProducerAcquireOp | ConsumerWaitOp | ProduceOneOp | ConsumeOneOp
Closing = ProducerCommitOp | ConsumerReleaseOp | ProduceOneOp | ConsumeOneOp


class Event(NamedTuple):
    """One step of an agent, or of one of its warpgroups.  At an mbarrier, `parity` is the parity waited for, and `turn`
    the number of the phase meant; at a named barrier, `turn` counts the agent's own waits.  `weight`: arrivals, in
    agents, or in threads of a named barrier.  `alone`: in this round, each CTA of a cluster fills by itself a stage
    that the CTAs could fill together."""

    op: Operation
    kind: Kind
    where: Where
    parity: int = 0
    turn: int = 0
    weight: int | Fraction = 1
    alone: bool = False


class PipeIterator(NamedTuple):
    """Position of an iterator: the stage, and the number of rounds before; the iterator itself holds their parity."""

    stage: int
    rounds: int

    @property
    def parity(self) -> int:
        return self.rounds & 1


class TooLong(Exception):
    """A program of more than `MOST_EVENTS` events."""


class Run:
    """The events of one agent under an assumption; those of warpgroup `part` if the agent's warpgroups take turns.

    Raises TooLong and Impossible.  `wrong` is an error that does not depend on other agents.
    """

    def __init__(
        self, program: Block, number: int, decisive: Decisive, assumption: Assumption, part: int = 0, cta: int = 0
    ) -> None:
        self.number = number
        self.part = part
        self.parts = parts_of(program)
        self.cta = cta
        """Its rank in the cluster."""
        self.events: list[Event] = []
        self.wrong: Finding | None = None
        self._decisive = decisive.values
        self._assumption = assumption
        self._turns: dict[Key, int] = {}
        self._values: dict[Value, Any] = {}
        self._held: dict[tuple[CreatePipelineOp, Side, int], list[int]] = {}
        self._alone: dict[tuple[CreatePipelineOp, int], bool] = {}
        """Whether this CTA alone fills a stage that the CTAs of its cluster could fill together."""
        self._lives: dict[Any, int] = {}
        """How often each pipe has been destroyed: a pipe in a loop is created and destroyed in every iteration."""
        self._warps = warps_of(program) // self.parts
        self._share = 1 if self.parts == 1 else Fraction(1, self.parts)
        self._block(program)

    def _number(self, value: Value) -> int:
        number = self._values.get(value)
        if number is None:
            op = value.defining_op
            if op is not None and computes(op):
                number = compute(op, self._number)
            else:
                number = self._assumption[key_of(value)]
                if is_place_in_cluster(op):
                    number += self._place(op, number)
            # A value outside of agents is computed once; one inside may differ in each iteration.
            if op is None or agent_of(op) is None:
                self._values[value] = number
        return number

    def _place(self, op: Any, number: int) -> int:
        """The distance from the tile block of the cluster that the assumption names to the requested one."""
        return (self.cta if op.neighbor is None else op.neighbor.value) - number % CLUSTER

    def _carried(self, values: Iterable[Value]) -> list[Any]:
        return [self._held_by(value) for value in values]

    def _held_by(self, value: Value) -> int | PipeIterator | None:
        """A decisive number, an iterator, or the stage of a token; None for other values."""
        if value in self._decisive:
            return self._number(value)
        if isinstance(value.type, PipelineIteratorType):
            return self._iterator(value)
        return self._values.get(value)

    def _block(self, block: Block) -> list[Any]:
        """Run a block and return the operands of its terminator."""
        for op in block.operations:
            if isinstance(op, (scf.YieldOp, YieldOp)):
                return self._carried(op.operands)
            self._operation(op)
        return []

    def _operation(self, op: Operation) -> None:
        rule = _RULES.get(type(op))
        if rule is not None:
            rule(self, op)
        elif op.name in TURNS:
            self._take_turns(op)
        elif computes(op) and op.results[0] in self._decisive:
            self._values[op.results[0]] = compute(op, self._number)

    def _bind(self, targets: Iterable[Value], values: Iterable[Any]) -> None:
        self._values.update((target, value) for target, value in zip(targets, values) if value is not None)

    def _pass_by(self, results: Iterable[Value], values: Iterable[Value]) -> None:
        """Bind the results of a loop that is not run: it yields its initial iterators and tokens."""
        for result, value in zip(results, values):
            if result not in self._decisive:
                self._bind([result], [self._held_by(value)])

    def _loop(self, op: scf.ForOp) -> None:
        if not has_events(op):
            self._pass_by(op.results, op.init_args)
            return
        carried = self._carried(op.init_args)
        at, end, step = (self._number(value) for value in (op.lower_bound, op.upper_bound, op.step))
        if step <= 0:
            raise Impossible
        while at < end:
            self._values[op.induction_variable] = at
            self._bind(op.iter_args, carried)
            carried = self._block(op.body.block)
            at += step
        self._bind(op.results, carried)

    def _while(self, op: scf.WhileOp) -> None:
        if not has_events(op):
            self._pass_by(op.results, op.inits)
            return
        carried = self._carried(op.inits)
        for further in reversed(range(1 + self._assumption[ROUNDS])):
            self._bind(op.before.block.arguments, carried)
            for inner in op.before.block.operations:
                if inner is not op.before.block.last:
                    self._operation(inner)
            end: Any = op.before.block.last
            values = self._carried(end.args)
            if not further or not self._number(end.condition):
                self._bind(op.results, values)
                return
            self._bind(op.after.block.arguments, values)
            carried = self._block(op.after.block)

    def _branch(self, op: scf.IfOp) -> None:
        if has_events(op):
            region = op.then_region if self._number(op.condition) else op.else_region
            self._bind(op.results, self._block(region.blocks[0]) if region.blocks else [])

    def _create_iterator(self, op: CreateIteratorOp) -> None:
        self._values[op.result] = PipeIterator(0, 0)

    def _inc_iter(self, op: IncIterOp) -> None:
        self._values[op.result] = self._following(op)

    def _following(self, op: IncIterOp) -> PipeIterator:
        pipe: Any = pipe_of(op.iterator)
        return _stages_on(self._iterator(op.iterator), pipe, 1 if op.by is None else self._number(op.by))

    def _iterator(self, value: Value) -> PipeIterator:
        """The position of an iterator, which may be defined outside of the agents."""
        entry = self._values.get(value)
        if entry is not None:
            return entry
        op = value.defining_op
        if isinstance(op, CreateIteratorOp):
            return PipeIterator(0, 0)
        if isinstance(op, IncIterOp):
            return self._following(op)
        raise Impossible

    def _emit(self, event: Event) -> None:
        if len(self.events) >= MOST_EVENTS:
            raise TooLong
        self.events.append(event)

    def _turn(self, key: Key) -> int:
        turn = self._turns.get(key, 0)
        self._turns[key] = turn + 1
        return turn

    def _wait(self, op: Opening) -> int:
        """Emit the wait for the stage at which the iterator is."""
        pipe: Any = pipe_of(op.token)
        at = self._iterator(op.iterator)
        produces = isinstance(op, (ProducerAcquireOp, ProduceOneOp))
        side: Side = "empty" if produces else "full"
        group = self._group(op, pipe)
        where = pipe, at.stage, side, (self._lives.get(pipe, 0), group)
        # The producer's first round waits for the phase before the first one, which counts as complete.
        # If agents take stages by turns, only the iterator determines the round that an agent means.
        turn = (self._turn(("wait", where)) if pipe.by_turns is None else at.rounds) - produces
        if getattr(op, "fresh", None) is None:
            kind: Kind = "wait" if getattr(op, "known", None) is None else "know"
            self._emit(Event(op, kind, where, at.parity ^ produces, turn, self._share_of(pipe)))
        elif turn >= 0:
            self.wrong = self.wrong or (op, "acquires a stage as fresh that has been filled before")
        if produces and pipe.alone is not None:
            free = pipe, at.stage, "free", where[3]
            together = getattr(op, "together", None)
            alone = together is not None and not self._number(together)
            self._alone[pipe, at.stage] = alone
            self._emit(Event(op, "arrive", free, alone=alone))
            turn = self._turn(("wait", free))
            if not alone:
                self._emit(Event(op, "wait", free, at.parity, turn))
        self._held.setdefault((pipe, side, group), []).append(at.stage)
        return at.stage

    def _group(self, op: Any, pipe: CreatePipelineOp) -> int:
        """The group of warps of a pipe that an operation names, or else its own."""
        if pipe.groups is None:
            return 0
        return self.part if getattr(op, "group", None) is None else op.group.value

    def _share_of(self, pipe: CreatePipelineOp) -> int | Fraction:
        """The share of an agent's arrival on a pipe: a group of warps of the pipe arrives by itself, with weight 1."""
        return self._share if pipe.groups is None else 1

    def _open(self, op: ProducerAcquireOp | ConsumerWaitOp) -> None:
        self._values[op.result] = self._wait(op)

    def _arrive(self, op: Closing, stage: int | None) -> None:
        pipe: Any = pipe_of(op.token)
        produces = isinstance(op, (ProducerCommitOp, ProduceOneOp))
        group = self._group(op, pipe)
        stages = self._held.get((pipe, "empty" if produces else "full", group), [])
        if stage is None or stage not in stages:
            text = ("releases a stage that it has not waited for", "commits a stage that it has not acquired")[produces]
            self.wrong = self.wrong or (op, text)
            return
        stages.remove(stage)
        where = pipe, stage, "full" if produces else "empty", (self._lives.get(pipe, 0), group)
        if not produces:
            self._turn(("give back", where))
        alone = produces and self._alone.get((pipe, stage), False)
        self._emit(Event(op, "arrive", where, weight=self._share_of(pipe), alone=alone))

    def _close(self, op: ProducerCommitOp | ConsumerReleaseOp) -> None:
        if getattr(op, "last", None) is None:
            self._arrive(op, self._values.get(op.token))

    def _tail(self, op: ProducerTailOp) -> None:
        """Emit the waits until each stage that the agent has filled is empty."""
        pipe: Any = op.producer.defining_op
        at = self._iterator(op.iterator)
        for _ in range(pipe.num_stages.value):
            where = pipe, at.stage, "empty", (self._lives.get(pipe, 0), self._group(op, pipe))
            # An agent that drains the pipe waits for the stages that it has released itself.
            rounds = self._turns.get(("wait", where), self._turns.get(("give back", where), 0))
            if pipe.by_turns is not None:
                rounds = at.rounds
            self._emit(Event(op, "wait", where, at.parity ^ 1, rounds - 1))
            at = _stages_on(at, pipe, 1)

    def _destroy(self, op: DestroyPipelineOp) -> None:
        """End a life of a pipe and drop its held stages: those waited for last need not be released."""
        pipe: Any = op.producer.defining_op
        self._lives[pipe] = self._lives.get(pipe, 0) + 1
        for key in [key for key in self._held if key[0] is pipe]:
            self._held.pop(key)

    def _whole(self, op: ProduceOneOp | ConsumeOneOp) -> None:
        stage = self._wait(op)
        self._block(op.body.block)
        self._arrive(op, stage)

    def _compare_tiles(self, op: IsSameTileOp) -> None:
        """Bind an assumed result; in a loop over tiles, every round of the cluster's last tile block exists for all."""
        if op.result not in self._decisive:
            return
        assumed, turn = self._assumption[key_of(op.result)], self._turn(("compared", op))
        same = assumed == ALWAYS or assumed == BY_TURNS and turn % 2 == 0
        if op.counter is not None:
            last = self._number(op.counter) + CLUSTER - 1 - self.cta
            same = same and last < self._number(op.counter.block.parent_op.upper_bound)  # type: ignore[attr-defined]
        self._values[op.result] = int(same)

    def _named_barrier(self, op: Any) -> None:
        if isinstance(op, tileas.BarrierOp):
            number, threads = op.id.value, None if op.threads is None else op.threads.value
        else:
            operands = op.barrierId, op.numberOfThreads
            number, threads = (None if each is None else constant_of(each) for each in operands)
        if number is None or threads is None:
            return
        where = number, threads
        self._emit(Event(op, "arrive", where, weight=WARP_SIZE * self._warps))
        if not isinstance(op, nvvm.BarrierArriveOp):
            self._emit(Event(op, "wait", where, turn=self._turn(where)))

    def _take_turns(self, op: Operation) -> None:
        for kind, number in meetings(op, self.part, self.parts):
            where = number, THREADS
            if kind == "arrive":
                self._emit(Event(op, "arrive", where, weight=THREADS // 2))
            else:
                self._emit(Event(op, "wait", where, turn=self._turn(where)))


_RULES: dict[type[Operation], Callable[..., None]] = {
    CreateIteratorOp: Run._create_iterator, IncIterOp: Run._inc_iter,
    ProducerAcquireOp: Run._open, ConsumerWaitOp: Run._open,
    ProducerCommitOp: Run._close, ConsumerReleaseOp: Run._close,
    ProduceOneOp: Run._whole, ConsumeOneOp: Run._whole, DestroyPipelineOp: Run._destroy,
    ProducerTailOp: Run._tail,
    scf.ForOp: Run._loop, scf.WhileOp: Run._while, scf.IfOp: Run._branch,
    IsSameTileOp: Run._compare_tiles, **dict.fromkeys(NAMED, Run._named_barrier),
}  # fmt: skip


def _stages_on(at: PipeIterator, pipe: CreatePipelineOp, count: int) -> PipeIterator:
    if count < 0:
        raise Impossible
    rounds, stage = divmod(at.stage + count, pipe.num_stages.value)
    return PipeIterator(stage, at.rounds + rounds)

"""What agents do to pipes and barriers: the program of each, run on its own, as a list of events.

Besides iterators and tokens only numbers are computed that decide how often loops run and which way branches go: of
what is known, and of what `pipe_assumptions` has for the rest.
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
from tileiras.named_tuple import NamedTuple
from tileiras.targets.sm import WARP_SIZE

from .pipe_assumptions import (
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
from .pipes import agent_of, pipe_of
from .warpgroup_turns import THREADS, TURNS, meetings, parts_of, warps_of

Finding = tuple[Operation, str]
Side = Literal["full", "empty", "free"]
"""`free`: empty in all CTAs of a cluster that fill each other's stages."""

What = Literal["wait", "know", "arrive"]
"""What an agent does: it waits for a phase, takes it for complete, or arrives."""

Where = Any
"""An mbarrier as (pipe, stage, side, how often the pipe was destroyed), a named barrier as (number, threads)."""

MOST_EVENTS = 4096
"""Of one agent."""

Opening = ProducerAcquireOp | ConsumerWaitOp | ProduceOneOp | ConsumeOneOp
Closing = ProducerCommitOp | ConsumerReleaseOp | ProduceOneOp | ConsumeOneOp


class Event(NamedTuple):
    """One step of an agent, or of a warpgroup of it.  Of an mbarrier, `parity` is the one that it waits for, and `turn`
    the number of the phase that it means; of a named barrier `turn` counts its own.  `weight`: arrivals, in agents, or
    threads of a named barrier.  `alone`: of a stage that CTAs of a cluster could fill together, in a round in which
    each does so by itself."""

    op: Operation
    what: What
    where: Where
    parity: int = 0
    turn: int = 0
    weight: int | Fraction = 1
    alone: bool = False


class PipeIterator(NamedTuple):
    """Where an iterator is: the stage, and the number of rounds before, of which it holds the parity."""

    stage: int
    rounds: int

    @property
    def parity(self) -> int:
        return self.rounds & 1


class TooLong(Exception):
    """A program of more than `MOST_EVENTS` events."""


class Run:
    """The events of one agent under an assumption; of an agent whose warpgroups take turns, those of warpgroup `part`.

    Raises TooLong and Impossible.  `wrong` is what is wrong whatever others do.
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
        """Whether this CTA alone fills a stage that others of its cluster could."""
        self._lives: dict[Any, int] = {}
        """How often each pipe has been destroyed: one in a loop is created and destroyed in every iteration."""
        self._warps = warps_of(program) // self.parts
        self._share = 1 if self.parts == 1 else Fraction(1, self.parts)
        self._block(program)

    def _number(self, value: Value) -> int:
        found = self._values.get(value)
        if found is None:
            op = value.defining_op
            if op is not None and computes(op):
                found = compute(op, self._number)
            else:
                found = self._assumption[key_of(value)]
                if is_place_in_cluster(op):
                    found += self._place(op, found)
            # What stands outside of agents is computed once; what is inside may be another number in each iteration.
            if op is None or agent_of(op) is None:
                self._values[value] = found
        return found

    def _place(self, op: Any, number: int) -> int:
        """How far the tile block that is asked for is from the one of its cluster that an assumption names."""
        return (self.cta if op.neighbor is None else op.neighbor.value) - number % CLUSTER

    def _carried(self, values: Iterable[Value]) -> list[Any]:
        return [self._held_by(value) for value in values]

    def _held_by(self, value: Value) -> int | PipeIterator | None:
        """A number that decides something, an iterator, the stage of a token; None for what does not matter."""
        if value in self._decisive:
            return self._number(value)
        if isinstance(value.type, PipelineIteratorType):
            return self._iterator(value)
        return self._values.get(value)

    def _block(self, block: Block) -> list[Any]:
        """Runs a block; the operands of its terminator."""
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
        """A loop that is not run yields iterators and tokens as it was given them."""
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
            passed = self._carried(end.args)
            if not further or not self._number(end.condition):
                self._bind(op.results, passed)
                return
            self._bind(op.after.block.arguments, passed)
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
        """What an iterator holds, which may come from outside of the agents."""
        found = self._values.get(value)
        if found is not None:
            return found
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
        """An agent waits for the stage that its iterator is at."""
        pipe: Any = pipe_of(op.token)
        at = self._iterator(op.iterator)
        produces = isinstance(op, (ProducerAcquireOp, ProduceOneOp))
        side: Side = "empty" if produces else "full"
        group = self._group(op, pipe)
        where = pipe, at.stage, side, (self._lives.get(pipe, 0), group)
        # The producer's first round waits for the phase before the first one, which counts as complete.
        # Of stages that agents take by turns, its iterator alone says which one an agent means.
        turn = (self._turn(("wait", where)) if pipe.by_turns is None else at.rounds) - produces
        if getattr(op, "fresh", None) is None:
            what: What = "wait" if getattr(op, "known", None) is None else "know"
            self._emit(Event(op, what, where, at.parity ^ produces, turn, self._share_of(pipe)))
        elif turn >= 0:
            self.wrong = self.wrong or (op, "acquires a stage as fresh that has been filled before")
        if produces and pipe.ctas is not None:
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
        """Of the groups of warps of a pipe that which an operation names, or the own one."""
        if pipe.groups is None:
            return 0
        return self.part if getattr(op, "group", None) is None else op.group.value

    def _share_of(self, pipe: CreatePipelineOp) -> int | Fraction:
        """Of an arrival that an agent makes on a pipe: a group of warps arrives by itself."""
        return self._share if pipe.groups is None else 1

    def _open(self, op: ProducerAcquireOp | ConsumerWaitOp) -> None:
        self._values[op.result] = self._wait(op)

    def _arrive(self, op: Closing, stage: int | None) -> None:
        pipe: Any = pipe_of(op.token)
        produces = isinstance(op, (ProducerCommitOp, ProduceOneOp))
        group = self._group(op, pipe)
        held = self._held.get((pipe, "empty" if produces else "full", group), [])
        if stage is None or stage not in held:
            text = ("releases a stage that it has not waited for", "commits a stage that it has not acquired")[produces]
            self.wrong = self.wrong or (op, text)
            return
        held.remove(stage)
        where = pipe, stage, "full" if produces else "empty", (self._lives.get(pipe, 0), group)
        if not produces:
            self._turn(("give back", where))
        alone = produces and self._alone.get((pipe, stage), False)
        self._emit(Event(op, "arrive", where, weight=self._share_of(pipe), alone=alone))

    def _close(self, op: ProducerCommitOp | ConsumerReleaseOp) -> None:
        if getattr(op, "last", None) is None:
            self._arrive(op, self._values.get(op.token))

    def _tail(self, op: ProducerTailOp) -> None:
        """An agent waits until each stage that it has filled is empty."""
        pipe: Any = op.producer.defining_op
        at = self._iterator(op.iterator)
        for _ in range(pipe.num_stages.value):
            where = pipe, at.stage, "empty", (self._lives.get(pipe, 0), self._group(op, pipe))
            # Who drains the pipe waits for what it has had given back itself.
            rounds = self._turns.get(("wait", where), self._turns.get(("give back", where), 0))
            self._emit(Event(op, "wait", where, at.parity ^ 1, rounds - 1))
            at = _stages_on(at, pipe, 1)

    def _destroy(self, op: DestroyPipelineOp) -> None:
        """What was waited for last need not be released."""
        pipe: Any = op.producer.defining_op
        self._lives[pipe] = self._lives.get(pipe, 0) + 1
        for key in [key for key in self._held if key[0] is pipe]:
            self._held.pop(key)

    def _whole(self, op: ProduceOneOp | ConsumeOneOp) -> None:
        stage = self._wait(op)
        self._block(op.body.block)
        self._arrive(op, stage)

    def _compare_tiles(self, op: IsSameTileOp) -> None:
        """The last tile block of a cluster has no round of a loop over tiles that another one has not."""
        if op.result not in self._decisive:
            return
        assumed, turn = self._assumption[key_of(op.result)], self._turn(("compared", op))
        same = assumed == ALWAYS or assumed == BY_TURNS and turn % 2 == 0
        if op.counter is not None:
            last = self._number(op.counter) + CLUSTER - 1 - self.cta
            same = same and last < self._number(op.counter.block.parent_op.upper_bound)  # type: ignore[attr-defined]
        self._values[op.result] = int(same)

    def _named(self, op: Any) -> None:
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
        for what, number in meetings(op, self.part, self.parts):
            where = number, THREADS
            if what == "arrive":
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
    IsSameTileOp: Run._compare_tiles, **dict.fromkeys(NAMED, Run._named),
}  # fmt: skip


def _stages_on(at: PipeIterator, pipe: CreatePipelineOp, count: int) -> PipeIterator:
    if count < 0:
        raise Impossible
    rounds, stage = divmod(at.stage + count, pipe.num_stages.value)
    return PipeIterator(stage, at.rounds + rounds)

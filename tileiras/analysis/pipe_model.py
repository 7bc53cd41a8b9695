"""A bounded model check of a function's pipes: every order in which its agents can take turns, before code exists.

Each agent is run on its own with the values that matter, iterators and tokens, and leaves the list of its events: it
waits for an mbarrier or a named barrier, or arrives there.  How far an mbarrier has come follows from how far each
agent is in its list, so a state is one position an agent, and all states that can be reached are looked at.

An mbarrier tells phases apart by their parity alone.  In every state in which an agent waits, the phase that it waits
for has to be the current or the preceding one; an earlier or a later one of the same parity is taken for it (PTX ISA,
"mbarrier.test_wait").

Bounds: loops whose trip count is not a constant, or one above `EXACT_TRIPS`, run each number of times in `_trips`;
loops of different agents with the same bounds run equally often, and so do all loops whose bounds only one agent has.
Branches on one condition go one way in all agents.  Copies land some time, so that arrivals count at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Literal

from tileiras.dialects import arith, nvvm, scf
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp, YieldOp
from tileiras.dialects.nv_tileas.pipes import (
    ConsumeOneOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateIteratorOp,
    CreatePipelineOp,
    IncIterOp,
    ProduceOneOp,
    ProducerAcquireOp,
    ProducerCommitOp,
)
from tileiras.ir import Block, Operation, Region, Value
from tileiras.named_tuple import NamedTuple
from tileiras.targets.sm import WARP_SIZE

from .pipes import PipeUses, agent_of, pipe_of

Finding = tuple[Operation, str]

EXACT_TRIPS = 32
"""Loops with more trips than this are run a few times only."""

MOST_EVENTS = 4096
"""Of one agent; longer programs are looked at up to here."""

MOST_STATES = 100_000
MOST_ASSUMPTIONS = 27

Side = Literal["full", "empty"]


class Iterator_(NamedTuple):
    """What an iterator holds: the stage, and the parity of the rounds before."""

    stage: int
    parity: int


class Event(NamedTuple):
    """One step of an agent.  Of an mbarrier, `where` is (pipe, stage, side), `parity` the one that the agent waits for,
    and `turn` the number of the phase that it means; of a named barrier `where` is its number and its threads, and
    `turn` counts the agent's own.  `weight`: arrivals, in agents, or threads of a named barrier."""

    op: Operation
    what: Literal["wait", "arrive"]
    where: Any
    parity: int = 0
    turn: int = 0
    weight: int = 1


def order_errors(func: Operation, uses: PipeUses) -> Iterator[Finding]:
    """The first state that is wrong, as the operation of an agent and what is wrong with it; for each assumption about
    loops and branches until one fails."""
    if not uses.pipes:
        return
    for programs in _groups(func):
        keys = _open_choices(programs)
        for assumption in _assumptions(keys, max(pipe.num_stages.value for pipe in uses.pipes)):
            runs = [_Run(program, number, assumption) for number, program in enumerate(programs)]
            wrong = next((run.wrong for run in runs if run.wrong), None) or _explore(runs, uses)
            if wrong:
                yield wrong[0], wrong[1] + _spelled(assumption)
                return


def _groups(func: Any) -> Iterator[list[Block]]:
    """The programs that run beside each other: those of a switch, or the function's own."""
    switches = [op for op in func.walk() if isinstance(op, AgentSwitchOp)]
    for switch in switches:
        yield [region.block for region in switch.regions]
    own = [op for op in func.walk() if isinstance(op, (ProducerAcquireOp, ProduceOneOp)) and agent_of(op) is None]
    if own:
        yield [func.body.blocks[0]]


# ---- assumptions -----------------------------------------------------------------------------------------------------

ALONE = "alone"
"""Stands for all loops and branches that depend on what only one agent computes."""


class Assumption(NamedTuple):
    """Trips of the loops, and ways of the branches, by what they depend on."""

    choices: dict[Any, int]


def _key(value: Value, depth: int = 8) -> Any:
    """What a value is computed of: equal for values of different agents that are computed alike."""
    op = value.defining_op
    if op is None or agent_of(op) is None or depth == 0:
        return value
    if op.regions:
        return value
    number = list(op.results).index(value)
    return op.name, tuple(op.attributes.items()), number, tuple(_key(operand, depth - 1) for operand in op.operands)


def _constant(value: Value) -> int | None:
    op: Any = value.defining_op
    return op.value.value if isinstance(op, arith.ConstantOp) and hasattr(op.value, "value") else None


def _trip_count(loop: Any) -> int | None:
    """The trips of a loop with constant bounds that are few enough to be run all."""
    bounds = [_constant(value) for value in (loop.lower_bound, loop.upper_bound, loop.step)]
    if None in bounds or bounds[2] <= 0:  # type: ignore[operator]
        return None
    lower, upper, step = bounds
    trips = max(0, -(-(upper - lower) // step))  # type: ignore[operator]
    return trips if trips <= EXACT_TRIPS else None


def _choice_key(op: Any) -> Any:
    """What decides how often a loop runs or which way a branch goes."""
    if isinstance(op, scf.ForOp):
        return "for", tuple(_key(value) for value in (op.lower_bound, op.upper_bound, op.step))
    if isinstance(op, scf.IfOp):
        return "if", _key(op.condition)
    return "while", op


def _open_choices(programs: list[Block]) -> dict[Any, Any]:
    """Choice -> the choice that it is tied to, for loops and branches around events."""
    found: dict[Any, set[int]] = {}
    for number, program in enumerate(programs):
        for op in _walk(program):
            if isinstance(op, (scf.ForOp, scf.WhileOp, scf.IfOp)) and _has_events(op):
                if not isinstance(op, scf.ForOp) or _trip_count(op) is None:
                    found.setdefault(_choice_key(op), set()).add(number)
    shared = len(programs) > 1
    return {key: key if len(agents) > 1 or not shared else (ALONE, key[0] == "if") for key, agents in found.items()}


def _walk(block: Block) -> Iterator[Operation]:
    for op in block.operations:
        yield from op.walk()


def _has_events(op: Operation) -> bool:
    return any(isinstance(inner, _EVENTS) for inner in op.walk())


def _trips(depth: int) -> tuple[int, ...]:
    """Numbers of trips for loops: the least ones, and one after which every stage has been used twice."""
    return tuple(sorted({0, 1, 2, 2 * depth + 1}))


def _assumptions(keys: dict[Any, Any], depth: int) -> Iterator[Assumption]:
    tied = list(dict.fromkeys(keys.values()))
    ways = [(0, 1) if key[0] == "if" or key == (ALONE, True) else _trips(depth) for key in tied]
    combinations = itertools.islice(itertools.product(*ways), MOST_ASSUMPTIONS)
    # Beyond the first ones, all loops the same number of times and all branches the same way.
    alike = ([each[min(number, len(each) - 1)] for each in ways] for number in range(4))
    seen = set()
    for combination in itertools.chain(map(tuple, alike), combinations):
        if combination not in seen:
            seen.add(combination)
            values = dict(zip(tied, combination))
            yield Assumption({key: values[tie] for key, tie in keys.items()})


def _spelled(assumption: Assumption) -> str:
    trips = sorted({value for key, value in assumption.choices.items() if key[0] != "if"})
    if not trips:
        return ""
    return f" (with loops of {' or '.join(map(str, trips))} trips)"


# ---- the program of an agent -----------------------------------------------------------------------------------------

_NAMED = (tileas.BarrierOp, nvvm.BarrierOp, nvvm.BarrierArriveOp)
_EVENTS = (
    ProducerAcquireOp, ProducerCommitOp, ConsumerWaitOp, ConsumerReleaseOp, ProduceOneOp, ConsumeOneOp, IncIterOp,
    *_NAMED,
)  # fmt: skip


class _TooLong(Exception):
    pass


class _Run:
    """The events of one agent under an assumption."""

    def __init__(self, program: Block, number: int, assumption: Assumption) -> None:
        self.number = number
        self.events: list[Event] = []
        self.wrong: Finding | None = None
        self._assumption = assumption
        self._turns: dict[Any, int] = {}
        self._values: dict[Value, Any] = {}
        self._held: dict[tuple[CreatePipelineOp, Side], list[int]] = {}
        self._warps = _warps(program)
        try:
            self._block(program)
        except _TooLong:
            pass

    def _block(self, block: Block) -> list[Any]:
        """Runs a block; what its terminator hands on."""
        for op in block.operations:
            if isinstance(op, (scf.YieldOp, YieldOp)):
                return [self._values.get(value) for value in op.operands]
            self._operation(op)
        return []

    def _operation(self, op: Any) -> None:
        if isinstance(op, CreateIteratorOp):
            self._values[op.result] = Iterator_(0, 0)
        elif isinstance(op, IncIterOp):
            self._values[op.result] = self._next(op)
        elif isinstance(op, (ProducerAcquireOp, ConsumerWaitOp)):
            self._values[op.result] = self._wait(op)
        elif isinstance(op, (ProducerCommitOp, ConsumerReleaseOp)):
            self._arrive(op, self._values.get(op.token))
        elif isinstance(op, (ProduceOneOp, ConsumeOneOp)):
            stage = self._wait(op)
            self._block(op.body.block)
            self._arrive(op, stage)
        elif isinstance(op, scf.ForOp):
            self._loop(op)
        elif isinstance(op, scf.WhileOp):
            self._while(op)
        elif isinstance(op, scf.IfOp):
            self._branch(op)
        elif isinstance(op, _NAMED):
            self._named(op)

    def _bind(self, targets: Any, values: list[Any]) -> None:
        self._values.update(zip(targets, values))

    def _loop(self, op: Any) -> None:
        carried = [self._values.get(value) for value in op.init_args]
        trips = _trip_count(op)
        for _ in range((self._choice(op) if trips is None else trips) if _has_events(op) else 0):
            self._bind(op.iter_args, carried)
            carried = self._block(op.body.block)
        self._bind(op.results, carried)

    def _while(self, op: Any) -> None:
        carried = [self._values.get(value) for value in op.inits]
        for last in [False] * self._choice(op) + [True]:
            self._bind(op.before.block.arguments, carried)
            for inner in op.before.block.operations:
                if inner is not op.before.block.last:
                    self._operation(inner)
            passed = [self._values.get(value) for value in op.before.block.last.args]
            if last:
                self._bind(op.results, passed)
                return
            self._bind(op.after.block.arguments, passed)
            carried = self._block(op.after.block)

    def _branch(self, op: Any) -> None:
        region = op.then_region if self._choice(op) else op.else_region
        self._bind(op.results, self._block(region.blocks[0]) if region.blocks else [])

    def _choice(self, op: Any) -> int:
        return self._assumption.choices.get(_choice_key(op), 0)

    def _next(self, op: IncIterOp) -> Iterator_:
        at, pipe = self._values[op.iterator], pipe_of(op.iterator)
        stage = at.stage + 1
        return Iterator_(0, at.parity ^ 1) if stage == pipe.num_stages.value else Iterator_(stage, at.parity)  # type: ignore[union-attr]

    def _emit(self, event: Event) -> None:
        if len(self.events) >= MOST_EVENTS:
            raise _TooLong
        self.events.append(event)

    def _turn(self, key: Any) -> int:
        turn = self._turns.get(key, 0)
        self._turns[key] = turn + 1
        return turn

    def _wait(self, op: Any) -> int:
        """An agent waits for the stage that its iterator is at."""
        pipe: Any = pipe_of(op.token)
        at = self._values[op.iterator]
        produces = isinstance(op, (ProducerAcquireOp, ProduceOneOp))
        side: Side = "empty" if produces else "full"
        where = pipe, at.stage, side
        # The producer's first round waits for the phase before the first one, which counts as complete.
        turn = self._turn(("wait", where)) - produces
        self._emit(Event(op, "wait", where, at.parity ^ produces, turn))
        self._held.setdefault((pipe, side), []).append(at.stage)
        return at.stage

    def _arrive(self, op: Any, stage: int | None) -> None:
        pipe: Any = pipe_of(op.token)
        produces = isinstance(op, (ProducerCommitOp, ProduceOneOp))
        held = self._held.get((pipe, "empty" if produces else "full"), [])
        if stage is None or stage not in held:
            text = ("releases a stage that it has not waited for", "commits a stage that it has not acquired")[produces]
            self.wrong = self.wrong or (op, text)
            return
        held.remove(stage)
        self._emit(Event(op, "arrive", (pipe, stage, "full" if produces else "empty")))

    def _named(self, op: Any) -> None:
        if isinstance(op, tileas.BarrierOp):
            number, threads = op.id.value, None if op.threads is None else op.threads.value
        else:
            number, threads = (None if each is None else _constant(each) for each in (op.barrierId, op.numberOfThreads))
        if number is None or threads is None:
            return
        where = number, threads
        self._emit(Event(op, "arrive", where, weight=WARP_SIZE * self._warps))
        if not isinstance(op, nvvm.BarrierArriveOp):
            self._emit(Event(op, "wait", where, turn=self._turn(where)))


def _warps(program: Block) -> int:
    """The warps of an agent; those that the kernel gives count as one, as its barriers are not looked at."""
    region: Region = program.parent  # type: ignore[assignment]
    switch: Any = region.parent
    return switch.warps(1)[list(switch.regions).index(region)] if isinstance(switch, AgentSwitchOp) else 1


# ---- all orders ------------------------------------------------------------------------------------------------------


class _Counts:
    """How many arrivals each agent has made, by place and position in its list, and how many end a phase."""

    def __init__(self, runs: list[_Run], uses: PipeUses) -> None:
        self._made: list[dict[Any, list[int]]] = []
        self._needed: dict[Any, int] = {}
        for run in runs:
            made: dict[Any, list[int]] = {event.where: [0] for event in run.events if event.what == "arrive"}
            for event in run.events:
                arrived = event.where if event.what == "arrive" else None
                for where, line in made.items():
                    line.append(line[-1] + (event.weight if where == arrived else 0))
                self._needed[event.where] = _needed(event, uses)
            self._made.append(made)

    def phases(self, where: Any, state: tuple[int, ...]) -> int:
        """Completed phases."""
        arrived = sum(made[where][at] for made, at in zip(self._made, state) if where in made)
        return arrived // self._needed[where]


def _needed(event: Event, uses: PipeUses) -> int:
    """Arrivals that end a phase: of the agent that fills a stage, of all that drain it, of the threads of a barrier."""
    if isinstance(event.where[0], CreatePipelineOp):
        pipe, _, side = event.where
        return 1 if side == "full" else max(1, len(uses.draining(pipe)))
    return event.where[1]


def _explore(runs: list[_Run], uses: PipeUses) -> Finding | None:
    """What is wrong in the first state that is."""
    counts = _Counts(runs, uses)
    start = tuple(0 for _ in runs)
    ends = tuple(len(run.events) for run in runs)
    seen = {start}
    pending = [start]
    while pending and len(seen) < MOST_STATES:
        state = pending.pop()
        moved = False
        for number, run in enumerate(runs):
            if state[number] == ends[number]:
                continue
            event = run.events[state[number]]
            passes, wrong = _passes(event, counts, state)
            if wrong:
                return event.op, wrong
            if passes:
                moved = True
                following = (*state[:number], state[number] + 1, *state[number + 1 :])
                if following not in seen:
                    seen.add(following)
                    pending.append(following)
        if not moved and state != ends:
            return _deadlock(runs, state, ends)
        if state == ends:
            left = _left_over(counts, runs, state, uses)
            if left:
                return left
    return None


def _passes(event: Event, counts: _Counts, state: tuple[int, ...]) -> tuple[bool, str]:
    """Whether an agent goes on, and what is wrong with that."""
    if event.what == "arrive":
        return True, ""
    phases = counts.phases(event.where, state)
    if not isinstance(event.where[0], CreatePipelineOp):
        return phases > event.turn, ""
    passes, complete = (phases & 1) != event.parity, phases > event.turn
    if passes == complete:
        return passes, ""
    stage, side = event.where[1:]
    if passes:
        return True, f"goes on before stage {stage} is {side}: its iterator is at another round than the stage"
    return False, f"waits for a round of stage {stage} that is over: its iterator has not followed the stage"


def _deadlock(runs: list[_Run], state: tuple[int, ...], ends: tuple[int, ...]) -> Finding:
    """The first agent that waits, and what every one of them waits for."""
    texts: list[str] = []
    first: Operation | None = None
    for run, at, end in zip(runs, state, ends):
        who = f"agent {run.number}" if len(runs) > 1 else "the kernel"
        if at == end:
            texts.append(f"{who} has ended")
            continue
        event = run.events[at]
        first = first or event.op
        place = event.op.location.resolve()
        line = f" at line {place.line}" if place is not None and place.line else ""
        if isinstance(event.where[0], CreatePipelineOp):
            pipe, stage, side = event.where
            texts.append(f"{who} waits{line} for stage {stage} of {pipe.num_stages.value} to be {side}")
        else:
            texts.append(f"{who} waits{line} at barrier {event.where[0]}")
    assert first is not None
    return first, f"waits for ever: {'; '.join(texts)}"


def _left_over(counts: _Counts, runs: list[_Run], state: tuple[int, ...], uses: PipeUses) -> Finding | None:
    """A stage that is being filled by asynchronous copies when all agents have ended."""
    waits: dict[Any, int] = {}
    for run in runs:
        for event in run.events:
            if event.what == "wait":
                waits[event.where] = waits.get(event.where, 0) + 1
    for run in runs:
        for event in run.events:
            if event.what == "arrive" and isinstance(event.where[0], CreatePipelineOp):
                pipe, stage, side = event.where
                asynchronous = side == "full" and pipe.kinds[0] != "st_shared"
                readers = max(1, len(uses.draining(pipe)))
                if asynchronous and counts.phases(event.where, state) * readers > waits.get(event.where, 0):
                    return event.op, f"leaves copies into stage {stage} in flight when the agents end"
    return None

"""A bounded model check of a function's pipes: every interleaving of its agents, before code exists.

`pipe_programs.py` makes the list of events of each agent: it waits for an mbarrier or a named barrier, or arrives
there; warpgroups of an agent that take turns have a list each.  The phase of an mbarrier follows from the positions of
the agents in their lists, so a state is one position for each agent, and all reachable states are explored.

An mbarrier distinguishes phases by their parity alone.  In every state in which an agent waits, the phase that it waits
for has to be the current or the preceding one; an earlier or a later one of the same parity is taken for it (PTX ISA,
"mbarrier.test_wait").

CTAs of a cluster that fill each other's stages run the same programs concurrently; two represent all.  If each is a
tile block of its own, they have consecutive numbers, and may run loops more or less often.

Bounds: an unknown number, such as a trip count given by an argument, takes a few values, up to one by which every stage
is used twice, and so does the round after which a loop without a counter ends at the latest; for several unknown
numbers, at most `MOST_ASSUMPTIONS` combinations are checked.  Copies complete eventually, so arrivals count at once.
Programs of more than `MOST_EVENTS` events are not checked, and of one assumption no more than `MOST_STATES` states;
`unchecked` is called in both cases.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

from tileiras.diagnostics import plural
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.dialects.nv_tileas.pipes import CreatePipelineOp, ProduceOneOp, ProducerAcquireOp
from tileiras.ir import Block, BlockArgument, Operation
from tileiras.reasons import Reason

from ..ranges import RangeAnalysis
from ..warpgroup_turns import parts_of
from . import PipeUses, agent_of, protocol_of
from .assumptions import ROUNDS, Assumption, Decisive, Impossible, Key, candidates, has_events
from .programs import MOST_EVENTS, Event, Finding, Run, TooLong, Where

MOST_STATES = 50_000
"""Limit for one assumption; further states are not explored."""

Unchecked = Callable[[Operation, Reason], None]
"""Callback with the operation whose agents are not checked completely, and the reason."""

MOST_ASSUMPTIONS = 27

CTAS = 2
"""Number of CTAs of a cluster that are modelled: each waits for all others in the same way."""


def order_errors(func: aa.FuncOp, uses: PipeUses, unchecked: Unchecked | None = None) -> Iterator[Finding]:
    """The error in the first wrong state, as the operation of an agent and a message."""
    if not uses.pipes:
        return
    depth = max(pipe.num_stages.value for pipe in uses.pipes)
    for programs in _groups(func):
        decisive = Decisive(programs)
        decisive.note_steps()
        beyond: set[type[Exception]] = set()
        for assumption in _assumptions(_choices(programs, decisive, depth)):
            try:
                wrong = _check(programs, decisive, assumption, uses)
            except (TooLong, _TooMany) as error:
                if unchecked is not None and type(error) not in beyond:
                    beyond.add(type(error))
                    where = _spell(assumption, decisive)
                    unchecked(
                        _around(programs),
                        Reason("agents.orders-beyond-events", limit=MOST_EVENTS, where=where)
                        if isinstance(error, TooLong)
                        else Reason("agents.orders-beyond-states", limit=MOST_STATES, where=where),
                    )
                continue
            if wrong:
                yield wrong[0], wrong[1] + _spell(assumption, decisive)
                return


def _groups(func: aa.FuncOp) -> Iterator[list[Block]]:
    """The programs that run concurrently: those of a switch, or the function's own."""
    for switch in [op for op in func.walk() if isinstance(op, AgentSwitchOp)]:
        yield [region.block for region in switch.regions]
    if any(isinstance(op, (ProducerAcquireOp, ProduceOneOp)) and agent_of(op) is None for op in func.walk()):
        yield [func.body.blocks[0]]


class _TooMany(Exception):
    """More states than `MOST_STATES`."""


def _around(programs: list[Block]) -> Operation:
    """The operation that contains the programs of agents."""
    parent = programs[0].parent_op
    assert parent is not None
    return parent


def _choices(programs: list[Block], decisive: Decisive, depth: int) -> dict[Key, list[int]]:
    """The values to assume for each unknown number, and for the trips of loops without a counter."""
    ranges = RangeAnalysis()
    choices = {key: candidates(key, value, decisive.scale, depth, ranges) for key, value in decisive.unknown.items()}
    inside = (inner for program in programs for outer in program.operations for inner in outer.walk())
    if any(isinstance(op, scf.WhileOp) and has_events(op) for op in inside):
        choices[ROUNDS] = [0, 1, 2, 2 * depth + 1]
    return choices


def _assumptions(choices: dict[Key, list[int]]) -> Iterator[Assumption]:
    """The assumptions to check: first the same choice for all numbers, then combinations up to the limit."""
    ways = list(choices.values())
    longest = max(map(len, ways), default=1)
    alike = (tuple(each[min(number, len(each) - 1)] for each in ways) for number in range(longest))
    combinations = itertools.islice(itertools.product(*ways), MOST_ASSUMPTIONS)
    for combination in dict.fromkeys(itertools.chain(alike, combinations)):
        yield dict(zip(choices, combination))


def _spell(assumption: Assumption, decisive: Decisive) -> str:
    """The assumption in words, if it is not empty."""
    parts = []
    for key, number in assumption.items():
        value = decisive.unknown.get(key)
        if isinstance(value, BlockArgument):
            parts.append(f"argument {value.index} is {number}")
        elif value is not None and value.defining_op is not None:
            parts.append(f"'{value.defining_op.name}'{_line(value.defining_op)} is {number}")
        else:
            parts.append(f"loops without a counter end after {plural(number, 'round')}")
    return f" (where {', '.join(parts)})" if parts else ""


def _line(op: Operation) -> str:
    place = op.location.resolve()
    return f" at line {place.line}" if place is not None and place.line else ""


def _check(programs: list[Block], decisive: Decisive, assumption: Assumption, uses: PipeUses) -> Finding | None:
    """Check all orders under one assumption.  Raises TooLong and _TooMany.

    CTAs of a cluster wait for each other only at pipes that they fill together.  If a function has other pipes too, one
    CTA is checked by itself with all pipes, then several CTAs with the shared pipes only.  This covers all deadlocks: a
    CTA that waits forever waits for another CTA, or for an agent of its own that does, or would wait without the other
    CTAs as well.
    """
    shared = {pipe for pipe in uses.pipes if pipe.ctas is not None}
    if shared and len(shared) < len(uses.pipes):
        if any(pipe.by_turns is not None for pipe in shared):
            # An agent that takes turns stays in the round of its iterator only because it waits for its turn.
            shared |= {pipe for pipe in uses.pipes if not pipe.buffers}
        return _check_ctas(programs, decisive, assumption, uses, 1) or _check_ctas(
            programs, decisive, assumption, uses, CTAS, shared
        )
    return _check_ctas(programs, decisive, assumption, uses, CTAS if shared else 1)


def _check_ctas(
    programs: list[Block], decisive: Decisive, assumption: Assumption, uses: PipeUses, ctas: int,
    only: set[CreatePipelineOp] | None = None,
) -> Finding | None:  # fmt: skip
    """The first error in any order of the agents of a cluster of `ctas` CTAs, or None.  `only`: the pipes whose events
    are considered."""
    try:
        runs = [
            Run(program, number, decisive, assumption, part, cta)
            for cta in range(ctas)
            for number, program in enumerate(programs)
            for part in range(parts_of(program))
        ]
    except Impossible:
        return None
    for run in runs:
        if run.wrong:
            return run.wrong
        if only is not None:
            run.events = [event for event in run.events if event.where[0] in only]
    return _taken_twice(runs) or _explore(runs, uses)


# ---- all orders ------------------------------------------------------------------------------------------------------


class _Counts:
    """The arrivals of each agent, by barrier, CTA and position in its list, and the arrivals that complete a phase."""

    def __init__(self, runs: list[Run], uses: PipeUses) -> None:
        self._made: list[dict[Any, list[int | Fraction]]] = []
        self._needed: dict[Any, int] = {}
        ctas = range(1 + max(run.cta for run in runs))
        for run in runs:
            result: dict[Any, list[int | Fraction]] = {}
            for event in run.events:
                if event.kind == "arrive":
                    result.update(((event.where, cta), [0]) for cta in _receivers(event, run.cta, ctas))
            for event in run.events:
                value = _receivers(event, run.cta, ctas) if event.kind == "arrive" else ()
                # A CTA that fills a stage alone arrives for all CTAs that could fill it together.
                weight = event.weight * (len(ctas) if event.alone else 1)
                for (where, cta), line in result.items():
                    line.append(line[-1] + (weight if where == event.where and cta in value else 0))
                self._needed[event.where] = _arrival_count(event, uses, ctas)
            self._made.append(result)

    def phases(self, where: Where, cta: int, state: tuple[int, ...]) -> int:
        """Completed phases."""
        arrived = sum(result[where, cta][at] for result, at in zip(self._made, state) if (where, cta) in result)
        return int(arrived // self._needed[where])


def _receivers(event: Event, own: int, ctas: range) -> Iterable[int]:
    """The CTAs at whose mbarriers an arrival counts: all of them if they fill each other's stages."""
    is_shared = isinstance(event.where[0], CreatePipelineOp) and _is_of_all(event.where) and not event.alone
    return ctas if is_shared else (own,)


def _is_of_all(where: Where) -> bool:
    """Whether all CTAs of the cluster arrive at an mbarrier."""
    pipe, _, side, _ = where
    return pipe.ctas is not None and (side != "empty" or pipe.is_freed_by_all)


def _arrival_count(event: Event, uses: PipeUses, ctas: range) -> int:
    """Arrivals that complete a phase: of all agents that fill a stage, or that drain it, or of the threads of a named
    barrier."""
    if isinstance(event.where[0], CreatePipelineOp):
        pipe, _, side, _ = event.where
        if side == "empty":
            return _readers(pipe, uses) * (len(ctas) if _is_of_all(event.where) else 1)
        fillers = 1 if pipe.by_turns is not None else max(1, len(uses.filling(pipe)))
        return len(ctas) if _is_of_all(event.where) else fillers
    return event.where[1]


def _readers(pipe: CreatePipelineOp, uses: PipeUses) -> int:
    """The number of agents that drain each stage."""
    return 1 if pipe.by_turns is not None else max(1, len(uses.draining(pipe)))


def _taken_twice(runs: list[Run]) -> Finding | None:
    """The error that two agents of a pipe whose agents take turns use the same stage in the same round, or None."""
    owner: dict[Any, Run] = {}
    for run in runs:
        for event in run.events:
            pipe = event.where[0]
            if event.kind == "arrive" or not isinstance(pipe, CreatePipelineOp) or pipe.by_turns is None:
                continue
            other = owner.setdefault((event.where, event.turn, run.cta), run)
            if other is not run:
                does = "drains" if event.where[2] == "full" else "fills"
                return event.op, f"{does} stage {event.where[1]} in a round in which agent {other.number} does"
    return None


def _canonical(state: tuple[int, ...], ctas: int) -> tuple[int, ...]:
    """The representative of all states that differ by a permutation of CTAs, which run the same programs."""
    if ctas == 1:
        return state
    count = len(state) // ctas
    parts = sorted(state[cta * count : (cta + 1) * count] for cta in range(ctas))
    return tuple(at for part in parts for at in part)


def _run_alike(runs: list[Run], ctas: int) -> bool:
    """Whether all CTAs have the same events: tile blocks of a cluster may run loops more or less often."""
    count = len(runs) // ctas
    lists = [[(event.kind, event.where) for event in run.events] for run in runs]
    return all(lists[number] == lists[number % count] for number in range(len(runs)))


def _explore(runs: list[Run], uses: PipeUses) -> Finding | None:
    """Explore all reachable states and return the first error, or None.  Raises _TooMany."""
    counts = _Counts(runs, uses)
    start = tuple(0 for _ in runs)
    ends = tuple(len(run.events) for run in runs)
    ctas = 1 + max(run.cta for run in runs)
    if not _run_alike(runs, ctas):
        ctas = 1
    seen = {start}
    pending = [start]
    while pending:
        if len(seen) >= MOST_STATES:
            raise _TooMany
        state = pending.pop()
        progress = False
        for number, run in enumerate(runs):
            if state[number] == ends[number]:
                continue
            event = run.events[state[number]]
            passes, wrong = _passes(event, run.cta, counts, state)
            if wrong:
                return event.op, wrong
            if passes:
                progress = True
                following = _canonical((*state[:number], _behind(run, state[number]), *state[number + 1 :]), ctas)
                if following not in seen:
                    seen.add(following)
                    pending.append(following)
        if not progress and state != ends:
            return _deadlock(runs, state, ends)
        if state == ends:
            rest = _left_over(counts, runs, state, uses)
            if rest:
                return rest
    return None


def _behind(run: Run, at: int) -> int:
    """The position of an agent after an event.

    A wait and the arrival that follows it are one step: other agents cannot observe that the wait alone has been
    passed, and each wait is checked in every state in which an agent is there.
    """
    arrives = run.events[at].kind == "wait" and at + 1 < len(run.events) and run.events[at + 1].kind == "arrive"
    return at + 1 + arrives


def _passes(event: Event, cta: int, counts: _Counts, state: tuple[int, ...]) -> tuple[bool, str]:
    """Whether an agent continues past an event, and the error in doing so or in waiting, or ""."""
    if event.kind == "arrive":
        return True, ""
    phases = counts.phases(event.where, cta, state)
    if event.kind == "know":
        stage = event.where[1]
        return True, "" if phases > event.turn else f"goes on before stage {stage} is empty, which it takes for known"
    if not isinstance(event.where[0], CreatePipelineOp):
        return phases > event.turn, ""
    passes, complete = (phases & 1) != event.parity, phases > event.turn
    if passes == complete:
        return passes, ""
    _, stage, side, _ = event.where
    if passes:
        return True, f"goes on before stage {stage} is {side}: its iterator is at another round than the stage"
    return False, f"waits for a round of stage {stage} that is over: its iterator has not followed the stage"


def _deadlock(runs: list[Run], state: tuple[int, ...], ends: tuple[int, ...]) -> Finding:
    """The operation of the first agent that waits, and a message with the wait of every agent."""
    texts: list[str] = []
    first: Operation | None = None
    for run, at, end in zip(runs, state, ends):
        who = f"agent {run.number}" if any(other.number for other in runs) else "the kernel"
        who += f", warpgroup {run.part}," if run.parts > 1 else ""
        who += f" of CTA {run.cta}" if runs[-1].cta else ""
        if at == end:
            texts.append(f"{who} has ended")
            continue
        event = run.events[at]
        first = first or event.op
        line = _line(event.op)
        if isinstance(event.where[0], CreatePipelineOp):
            pipe, stage, side, _ = event.where
            texts.append(f"{who} waits{line} for stage {stage} of {pipe.num_stages.value} to be {side}")
        else:
            texts.append(f"{who} waits{line} at barrier {event.where[0]}")
    assert first is not None
    return first, f"waits for ever: {'; '.join(texts)}"


def _left_over(counts: _Counts, runs: list[Run], state: tuple[int, ...], uses: PipeUses) -> Finding | None:
    """The error that a stage is still being filled by asynchronous copies when all agents have ended, or None."""
    waits: dict[Any, int | Fraction] = {}
    for run in runs:
        for event in run.events:
            if event.kind == "wait":
                waits[event.where, run.cta] = waits.get((event.where, run.cta), 0) + event.weight
    for run in runs:
        for event in run.events:
            if event.kind == "arrive" and isinstance(event.where[0], CreatePipelineOp):
                pipe, stage, side, _ = event.where
                asynchronous = side == "full" and protocol_of(pipe).is_asynchronous
                readers = _readers(pipe, uses)
                phases = counts.phases(event.where, run.cta, state)
                if asynchronous and phases * readers > waits.get((event.where, run.cta), 0):
                    return event.op, f"leaves copies into stage {stage} in flight when the agents end"
    return None

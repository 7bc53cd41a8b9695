"""Steady states of loops: found in the traces, and cut out of them.

An iteration of a loop has a signature: the PTX blocks it visits, the mbarriers it waits for with their parities, and
the barriers it reaches. If signatures repeat with some period, iterations in the middle can be left out, a multiple of
the periods of all warps at a time, and the rest is still a valid execution: barriers see whole rounds of their phases.
The engine checks whether each further iteration then takes the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from tileiras.sim.emulator.launch.recording import BlockBarrier, PhaseWait
from tileiras.sim.estimate.events import ClusterTrace, WarpTrace
from tileiras.support.named_tuple import NamedTuple

LEAST_ITERATIONS = 8
"""Loops with fewer iterations are replayed whole."""
_MOST_PERIOD = 24
_NEARLY = 8
"""Most iterations by which loops of cooperating warps may differ, as pipelines peel some."""


class Loop(NamedTuple):
    """One execution of a loop by a warp."""

    head: int
    """The PTX block that the back edge targets."""
    starts: tuple[int, ...]
    """Positions in the trace of the beginnings of iterations, and the position after the last."""

    @property
    def trips(self) -> int:
        return len(self.starts) - 1


class WarpLoops(NamedTuple):
    """Executions of a warp's longest loop, its period in iterations, and the numbers of aperiodic iterations at the
    start and at the end."""

    loops: tuple[Loop, ...]
    period: int
    lead: int
    tail: int


class SteadyState(NamedTuple):
    """Iterations that can be left out of a cluster's traces."""

    period: int
    """Iterations that are left out at a time: the least common multiple of the warps' periods."""
    trips: int
    """Iterations of the longest loop."""
    executions: int
    """How often a warp runs through the loop."""
    most: int
    """Iterations that can be left out of each execution while one period remains."""
    warps: dict[tuple[int, int], WarpLoops]
    """By rank and warp; warps without such a loop are absent."""
    lines: tuple[int, int]
    """First and last line of the PTX of the loop of most instructions."""


def loops_of(trace: WarpTrace) -> list[Loop]:
    """Executions of loops: from the first visit of the target of a back edge to the exit."""
    visits = trace.visits
    heads = {visits[at] for at in range(1, len(visits)) if visits[at] <= visits[at - 1]}
    loops: list[Loop] = []
    running: dict[int, list[int]] = {}
    for at, number in enumerate(visits):
        back = at > 0 and number <= visits[at - 1]
        if back:
            # A branch back to before a loop's head leaves the loop.
            for head in [head for head in running if head > number]:
                _finish(loops, head, running.pop(head), at)
        if number in heads:
            if back and number in running:
                running[number].append(at)
            else:
                if number in running:
                    _finish(loops, number, running.pop(number), at)
                running[number] = [at]
    for head, starts in running.items():
        _finish(loops, head, starts, len(visits))
    return loops


def _finish(loops: list[Loop], head: int, starts: list[int], end: int) -> None:
    if len(starts) > 1:
        # The last iteration is as long as the one before; the rest is after the loop.
        loops.append(Loop(head, (*starts, min(end, starts[-1] + starts[-1] - starts[-2]))))


def _signatures(trace: WarpTrace, loop: Loop) -> list[tuple]:
    signatures = []
    for start, end in zip(loop.starts, loop.starts[1:]):
        items: list[object] = []
        for at in range(start, end):
            for event in trace.events.get(at, ()):
                operation = event.operation
                if isinstance(operation, PhaseWait):
                    items.append((event.line, operation.barrier.offset, operation.parity))
                elif isinstance(operation, BlockBarrier):
                    items.append((event.line, operation.number))
        signatures.append((tuple(trace.visits[start:end]), tuple(items)))
    return signatures


def _period(signatures: Sequence[tuple]) -> tuple[int, int, int] | None:
    """(period, iterations before the periodic part, iterations after it); None if no period occurs three times."""
    count = len(signatures)
    for period in range(1, min(_MOST_PERIOD, count // 3) + 1):
        same = [signatures[at] == signatures[at + period] for at in range(count - period)]
        # The longest stretch in which every iteration is like the one a period later.
        best, start, run = 0, 0, 0
        for at, equal in enumerate((*same, False)):
            if equal:
                run += 1
                continue
            if run > best:
                best, start = run, at - run
            run = 0
        if best >= max(2 * period, (count * 3) // 5 - period):
            return period, start, count - (start + best + period)
    return None


def find(cluster: ClusterTrace, lines: dict[int, tuple[int, ...]]) -> SteadyState | None:
    """The steady state of a cluster; ``lines``: PTX block -> its lines. None if no long loop is steady in all warps
    that run it."""
    longest: dict[tuple[int, int], list[Loop]] = {}
    for trace in cluster.warps:
        loops = loops_of(trace)
        if loops:
            most = max(loop.trips for loop in loops)
            head = next(loop.head for loop in loops if loop.trips == most)
            longest[trace.rank, trace.warp] = [loop for loop in loops if loop.head == head]
    trips = max((loop.trips for loops in longest.values() for loop in loops), default=0)
    if trips < LEAST_ITERATIONS:
        return None
    warps: dict[tuple[int, int], WarpLoops] = {}
    for trace in cluster.warps:
        loops = longest.get((trace.rank, trace.warp), [])
        if not loops or max(loop.trips for loop in loops) < trips - _NEARLY:
            continue
        result = [_period(_signatures(trace, loop)) for loop in loops]
        if any(each is None for each in result):
            return None
        value = [each for each in result if each is not None]
        warps[trace.rank, trace.warp] = WarpLoops(
            tuple(loops),
            lcm(*(each[0] for each in value)),
            max(each[1] for each in value),
            max(each[2] for each in value),
        )
    executions = {len(each.loops) for each in warps.values()}
    if len(executions) != 1:
        return None
    period = lcm(*(each.period for each in warps.values()))
    room = min(
        loop.trips - each.lead - each.tail - period for each in warps.values() for loop in each.loops
    )  # fmt: skip
    most = max(0, room) // period * period
    if not most:
        return None
    return SteadyState(period, trips, executions.pop(), most, warps, _extent(cluster, warps, lines))


def _extent(cluster: ClusterTrace, warps: dict[tuple[int, int], WarpLoops], lines: dict[int, tuple[int, ...]]) -> tuple:
    best: tuple[int, int, int] = (0, 0, 0)
    for trace in cluster.warps:
        own = warps.get((trace.rank, trace.warp))
        if own is None:
            continue
        loop = own.loops[0]
        inside = [line for at in range(loop.starts[0], loop.starts[1]) for line in lines[trace.visits[at]]]
        if len(inside) > best[0]:
            best = (len(inside), min(inside), max(inside))
    return best[1:]


def cut(cluster: ClusterTrace, state: SteadyState, count: int) -> ClusterTrace:
    """The cluster without ``count`` iterations (a multiple of the period) of each execution of its loop."""
    if not count:
        return cluster
    warps = []
    for trace in cluster.warps:
        own = state.warps.get((trace.rank, trace.warp))
        warps.append(trace if own is None else _cut_warp(trace, own, count))
    return cluster._replace(warps=tuple(warps))


def _cut_warp(trace: WarpTrace, own: WarpLoops, count: int) -> WarpTrace:
    part = WarpTrace(trace.rank, trace.warp)
    cuts: list[tuple[int, int]] = []
    for loop in own.loops:
        # From the middle of the periodic part.
        first = own.lead + max(0, (loop.trips - own.lead - own.tail - count) // 2)
        cuts.append((loop.starts[first], loop.starts[first + count]))
    at = 0
    for start, end in (*cuts, (len(trace.visits), len(trace.visits))):
        offset = len(part.visits) - at
        part.visits += trace.visits[at:start]
        part.lanes += trace.lanes[at:start]
        for position in range(at, start):
            events = trace.events.get(position)
            if events is not None:
                part.events[position + offset] = events
        at = end
    return part

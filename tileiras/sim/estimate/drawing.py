"""A simulation as Chrome trace events, which Perfetto reads as well, and its critical path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tileiras.codegen.machine_code import Instruction
from tileiras.sim.estimate.in_flight import Outcome, Span, Wait, Warp
from tileiras.sim.estimate.result import Link, Pipe
from tileiras.sim.estimate.units import TITLES
from tileiras.support.named_tuple import NamedTuple

_LEAST_DRAWN = 2.0
"""Duration of the shortest wait that is drawn, in cycles."""
_UNIT_TRACK = 10_000
_AGENT_TRACK = 5_000
_MOST_LINKS = 2000
_SHORT_LINK = 8.0


class Track(NamedTuple):
    """The life of a warp."""

    rank: int
    number: int
    """In the simulation."""
    warp: int
    """In its CTA."""
    cluster: int
    start: float
    ended: float
    log: Sequence[Wait]


class Drawing(NamedTuple):
    """The parts of a simulation that its trace shows, without the events of the recording."""

    sms: int
    agents: tuple[tuple[Track, ...], ...]
    """Groups of warps with the same path through the machine code."""
    spans: Sequence[Span]
    pipes: Sequence[Pipe]
    code: Sequence[Instruction]
    clock_mhz: float

    def trace_events(self) -> dict[str, Any]:
        """Chrome trace events; times are microseconds from the beginning of the first CTA."""
        events: list[dict[str, Any]] = []
        clock_mhz = self.clock_mhz
        for rank in range(self.sms):
            events.append(_name("process_name", rank, 0, f"SM of CTA {rank} of the cluster"))
        for number, warps in enumerate(self.agents):
            track = _AGENT_TRACK + number
            rank = warps[0].rank
            names = ", ".join(str(warp.warp) for warp in warps if warp.cluster == warps[0].cluster)
            events.append(_name("thread_name", rank, track, f"agent {number}: warps {names} of a CTA"))
            events += [_slice(rank, track, "runs", start, end, clock_mhz) for start, end in _running(warps)]
            for warp in warps:
                title = f"warp {warp.warp}, agent {number}, CTA {warp.cluster}"
                events.append(_name("thread_name", rank, warp.number, title))
                for wait in warp.log:
                    if wait.end - wait.start >= _LEAST_DRAWN:
                        at = self.code[wait.instruction]
                        events.append(_slice(rank, warp.number, wait.reason, wait.start, wait.end, clock_mhz, at))
                events += [_slice(rank, warp.number, "runs", start, end, clock_mhz) for start, end in _running([warp])]
        return {"traceEvents": [*events, *self._of_units(), *self._of_pipes()], "displayTimeUnit": "ns"}

    def _of_units(self) -> Iterator[dict[str, Any]]:
        names = dict.fromkeys(str(each.track) for each in self.spans)
        tracks = {name: _UNIT_TRACK + index for index, name in enumerate(names)}
        for rank in range(self.sms):
            for name, track in tracks.items():
                yield _name("thread_name", rank, track, TITLES.get(name, name))
        for span in self.spans:
            at = self.code[span.instruction]
            yield _slice(span.sm, tracks[str(span.track)], span.name, span.start, span.end, self.clock_mhz, at)

    def _of_pipes(self) -> Iterator[dict[str, Any]]:
        for pipe in self.pipes:
            name = f"pipe at byte {pipe.offset}, CTA {pipe.cluster}.{pipe.cta}"
            for at, level in pipe.levels:
                yield {"ph": "C", "pid": pipe.cta, "tid": 0, "name": name, "ts": at, "args": {"full stages": level}}


def drawing(outcome: Outcome, code: Sequence[Instruction], clock_mhz: float, pipes: Sequence[Pipe]) -> Drawing:
    """Select the parts of a simulation that its trace shows."""
    agents: dict[tuple, list[Track]] = {}
    for warp in outcome.warps:
        path = (warp.rank, tuple(step.block for step in warp.work))
        track = Track(warp.rank, warp.number, warp.warp, warp.cluster.number, warp.start, warp.ended, warp.log)
        agents.setdefault(path, []).append(track)
    return Drawing(len(outcome.sms), tuple(map(tuple, agents.values())), outcome.spans, pipes, code, clock_mhz)


def _name(kind: str, process: int, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": track, "args": {"name": name}}


def _slice(process: int, track: int, name: str, start: float, end: float, clock_mhz: float,
           at: Instruction | None = None) -> dict[str, Any]:  # fmt: skip
    event: dict[str, Any] = {
        "ph": "X", "pid": process, "tid": track, "name": name, "ts": start / clock_mhz,
        "dur": (end - start) / clock_mhz,
    }  # fmt: skip
    if at is not None:
        event["args"] = {"instruction": at.name, "address": at.address, "ptx_line": at.ptx_line}
        if at.source is not None:
            event["args"]["source"] = f"{at.source[0]}:{at.source[1]}"
    return event


def _running(warps: Sequence[Track]) -> list[tuple[float, float]]:
    """Intervals in which at least one of them does not wait."""
    stretches: list[tuple[float, float]] = []
    for warp in warps:
        at = warp.start
        for wait in sorted(warp.log):
            if wait.end - wait.start >= _LEAST_DRAWN and wait.start >= at:
                if wait.start > at:
                    stretches.append((at, wait.start))
                at = wait.end
        if warp.ended > at:
            stretches.append((at, warp.ended))
    merged: list[tuple[float, float]] = []
    for start, end in sorted(stretches):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


# ---- the critical path -------------------------------------------------------------------------------------------


def critical_path(
    outcome: Outcome, code: Sequence[Instruction], begin: float, warp: Warp, end: float
) -> tuple[Link, ...]:
    """Critical path to ``warp`` at the time ``end``, back to ``begin``: alternating execution and waits, each
    followed to its cause."""
    links: list[Link] = []
    logs = {each.number: sorted(each.log, key=lambda wait: wait.end) for each in outcome.warps}
    at, now = warp, end
    while now > begin and len(links) < _MOST_LINKS:
        wait = _last_wait(logs[at.number], now)
        since = max(begin, wait.end if wait is not None else at.start)
        if now > since:
            links.append(_link(f"warp {at.warp}", "runs", code, _near(logs[at.number], now), now - since))
        if wait is None or wait.end <= begin:
            break
        cause = wait.cause
        if cause is None or cause.issued >= wait.end:
            links.append(
                _link(f"warp {at.warp}", wait.reason, code, wait.instruction, wait.end - max(begin, wait.start))
            )
            now = wait.start
            continue
        issued = max(begin, cause.issued)
        if cause.unit == "warp":
            links.append(_link(f"warp {at.warp}", f"{wait.reason}: arrival", code, wait.instruction, wait.end - issued))
        else:
            # A unit is in use from the request on, first for others if it was busy.
            unit_end = min(cause.end, wait.end)
            if wait.end > max(begin, unit_end):
                cycles = wait.end - max(begin, unit_end)
                links.append(_link(f"warp {at.warp}", wait.reason, code, wait.instruction, cycles))
            if unit_end > issued:
                title = TITLES.get(cause.unit, cause.unit)
                links.append(_link(title, "works", code, cause.instruction, unit_end - issued))
        at, now = outcome.warps[cause.warp], cause.issued
    links.reverse()
    return _join(links)


def _join(links: list[Link]) -> tuple[Link, ...]:
    """Merge neighbours of one kind, and links of few cycles into the one before."""
    result: list[Link] = []
    for link in links:
        if result and (link.cycles < _SHORT_LINK or (result[-1].who, result[-1].what) == (link.who, link.what)):
            result[-1] = result[-1]._replace(cycles=result[-1].cycles + link.cycles)
        else:
            result.append(link)
    return tuple(result)


def _last_wait(log: list[Wait], now: float) -> Wait | None:
    """The last wait ended by that time that another warp or a unit ended."""
    last_wait = None
    for wait in log:
        if wait.end > now:
            break
        if wait.end - wait.start >= _LEAST_DRAWN:
            last_wait = wait
    return last_wait


def _near(log: list[Wait], now: float) -> int:
    instruction = 0
    for wait in log:
        if wait.end > now:
            break
        instruction = wait.instruction
    return instruction


def _link(who: str, activity: str, code: Sequence[Instruction], instruction: int, cycles: float) -> Link:
    at = code[instruction]
    return Link(who, activity, at.ptx_line, at.source, cycles)

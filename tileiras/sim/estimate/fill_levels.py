"""Number of full stages of each pipe over the simulated time.

A stage has two mbarriers: a phase of the first completes when the stage is full, a phase of the second when it is empty
again; all full barriers precede the empty ones (`tileiras.targets.pipe_protocol`, CUTLASS's `PipelineAsync`). PTX does
not name them. A producer finds the phase before the first one complete, so the first wait for an empty stage has parity
1, and only full barriers count bytes. A candidate is confirmed as a pipe by its phases, which alternate.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tileiras.sim.estimate.in_flight import Mbarrier, Outcome
from tileiras.sim.estimate.result import Pipe
from tileiras.support.named_tuple import NamedTuple

_BYTES = 8
"""Of an mbarrier (PTX ISA, "Size and alignment of mbarrier object")."""


class _Kind(NamedTuple):
    """Usage pattern of mbarriers."""

    counts_bytes: bool
    starts_over: bool
    """Whether the first wait is for the phase before the first one."""
    arrivals: int
    """Arrivals of a phase."""


class _Run(NamedTuple):
    """Neighbouring mbarriers with the same usage pattern."""

    kind: _Kind
    barriers: list[Mbarrier]


def pipes(outcome: Outcome, clock_mhz: float) -> tuple[Pipe, ...]:
    """Pipes of all simulated CTAs, in the order of CTAs and of addresses."""
    result = []
    for barriers in _by_cta(outcome.mbarriers):
        runs = _runs(barriers)
        at = 0
        while at + 1 < len(runs):
            full, empty = runs[at : at + 2]
            stages = min(len(full.barriers), len(empty.barriers))
            pairs = list(zip(full.barriers[-stages:], empty.barriers[:stages]))
            adjacent = pairs[-1][0].offset + _BYTES == pairs[0][1].offset
            if adjacent and _may_be(full.kind, empty.kind) and all(_alternate(*pair) for pair in pairs):
                result.append(_pipe(pairs, outcome.ends[pairs[0][0].cluster], clock_mhz))
                at += 1
            at += 1
    return tuple(result)


def _may_be(full: _Kind, empty: _Kind) -> bool:
    """A barrier pair is a pipe only if it shows one of two patterns: two barriers at which warps meet in turn
    alternate as well."""
    return (empty.starts_over or full.counts_bytes) and not full.starts_over and not empty.counts_bytes


def _by_cta(barriers: Sequence[Mbarrier]) -> list[list[Mbarrier]]:
    """Barriers of one CTA by address; a repeated initialisation of an address begins a later group."""
    groups: dict[tuple[int, int, int], list[Mbarrier]] = {}
    times: dict[tuple[int, int, int], int] = {}
    for each in barriers:
        key = (each.cluster, each.rank, each.offset)
        times[key] = times.get(key, -1) + 1
        groups.setdefault((each.cluster, each.rank, times[key]), []).append(each)
    return [sorted(groups[key], key=lambda each: each.offset) for key in sorted(groups)]


def _runs(barriers: Sequence[Mbarrier]) -> list[_Run]:
    """Group barriers into runs; stages that a short loop does not reach count as stages of the run before them."""
    runs: list[_Run] = []
    for each in barriers:
        state = each.barrier
        kind = _Kind(state.counts_bytes, state.first_parity == 1, state.expected)
        last = runs[-1] if runs and runs[-1].barriers[-1].offset + _BYTES == each.offset else None
        is_idle = state.first_parity is None and not state.phases
        if last is not None and (kind == last.kind or is_idle and state.expected == last.kind.arrivals):
            last.barriers.append(each)
        else:
            runs.append(_Run(kind, [each]))
    return runs


def _alternate(full: Mbarrier, empty: Mbarrier) -> bool:
    """Whether the phases of a stage alternate: full, empty, full and so on."""
    filled, emptied = full.barrier.phases, empty.barrier.phases
    return (
        0 <= len(filled) - len(emptied) <= 1
        and all(before <= after for before, after in zip(filled, emptied))
        and all(before <= after for before, after in zip(emptied, filled[1:]))
    )


def _pipe(pairs: Sequence[tuple[Mbarrier, Mbarrier]], end: float, clock_mhz: float) -> Pipe:
    first = pairs[0][0]
    changes: dict[float, int] = {}
    for full, empty in pairs:
        for barrier, change in ((full, 1), (empty, -1)):
            for at in barrier.barrier.phases:
                changes[at] = changes.get(at, 0) + change
    level, levels = 0, [(first.since, 0)]
    for at in sorted(changes):
        if changes[at]:
            level += changes[at]
            levels.append((at, level))
    levels.append((max(end, levels[-1][0]), level))
    stages = len(pairs)
    lasting = [0.0] * (stages + 1)
    for (start, count), (until, _) in pairwise(levels):
        lasting[count] += until - start
    total = sum(lasting) or 1.0
    return Pipe(
        first.cluster, first.rank, first.offset, stages,
        sum(count * cycles for count, cycles in enumerate(lasting)) / total, lasting[0] / total, lasting[-1] / total,
        tuple((at / clock_mhz, count) for at, count in levels),
    )  # fmt: skip

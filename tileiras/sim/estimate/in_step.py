"""CTAs of an SM that stay in phase: they pass the barriers of their blocks together.

CTAs that begin together and share units fairly keep the distance between them, so that none loads while another
computes. The order in which servers take requests may also part them, until they alternate. Hardware does either:
of three loops of one stage that differ in the layout of shared memory alone, two run as if in phase and one between
both (gau-nernst/learn-cuda, README of 02b, v3 to v5 on A100).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tileiras.sim.estimate.barriers import Cause, Waiting

if TYPE_CHECKING:
    from tileiras.sim.estimate.in_flight import Outcome

def meets(outcome: Outcome) -> bool:
    """Whether the warps of a simulation have waited for each other at barriers of their blocks."""
    return any(reason == "barrier" for _, reason in outcome.stalls)


Free = Callable[[list[Waiting], float, str, str, Cause | None], None]
"""`Simulation.free`."""


class _Held:
    __slots__ = ("cause", "cluster", "ordinal", "waiting")

    def __init__(self, cluster: int, ordinal: int, waiting: list[Waiting], cause: Cause) -> None:
        self.cluster = cluster
        self.ordinal = ordinal
        self.waiting = waiting
        self.cause = cause


class InStep:
    """Barriers of the clusters of each generation: those that fill the slots of an SM one after the other."""

    def __init__(self, slots: int, clusters: int, free: Free) -> None:
        self.slots = slots
        self.clusters = clusters
        self.free = free
        self.passed: dict[tuple[int, int, int], dict[int, int]] = {}
        """(generation, rank, barrier) -> cluster -> barriers that its warps have completed."""
        self.held: dict[tuple[int, int, int], list[_Held]] = {}
        self.ended: set[int] = set()

    def complete(self, cluster: int, key: tuple[int, int], waiting: list[Waiting], at: float, cause: Cause) -> None:
        """All warps of a cluster have arrived: they go on when the other clusters of its generation have, too."""
        place = (cluster // self.slots, *key)
        passed = self.passed.setdefault(place, {})
        passed[cluster] = passed.get(cluster, 0) + 1
        self.held.setdefault(place, []).append(_Held(cluster, passed[cluster], waiting, cause))
        self._release(place, at)

    def end(self, cluster: int, at: float) -> None:
        """A cluster has ended: the others no longer wait for it."""
        self.ended.add(cluster)
        for place in [place for place in self.held if place[0] == cluster // self.slots]:
            self._release(place, at)

    def _release(self, place: tuple[int, int, int], at: float) -> None:
        first = place[0] * self.slots
        live = [each for each in range(first, min(first + self.slots, self.clusters)) if each not in self.ended]
        passed = self.passed[place]
        least = min((passed.get(each, 0) for each in live), default=0)
        held = self.held[place]
        self.held[place] = [each for each in held if live and each.ordinal > least]
        for each in held:
            if not live or each.ordinal <= least:
                self.free(each.waiting, at, "barrier", "barrier", each.cause)

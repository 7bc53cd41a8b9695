"""Which clusters of a grid are recorded, and what these say of the others.

The first cluster and those at the ends of the axes are looked at first.  Where an axis ends in other work than it
begins with, work may grow along it (causal attention), or end earlier from some cluster on (loops over tiles that do
not come out even).  What is in between is recorded until either is known: clusters on a line between their neighbours
stand for those beside them, and an edge is searched until its sides are found, to a part in 32 of a long axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import numpy as np

from tileiras.named_tuple import NamedTuple

_BENT = 0.1
"""Of the difference along an axis: how far work may be off the line between its neighbours."""
_NEAR = 32
"""Which part of an axis two neighbours may be apart without anything between them being recorded."""
_AT_ONCE = 7
"""Clusters between two neighbours that are recorded in one go: one more costs little beside others of its length."""
MOST = 40
"""Clusters that are recorded at most."""


class Sampled(NamedTuple):
    """Clusters of a grid of the ``shape`` (x, y, z), counted in clusters, by their number: x comes first."""

    shape: tuple[int, int, int]
    work: Mapping[int, int]
    """Number of a cluster -> basic blocks that its warps visited."""
    kinds: Mapping[int, tuple]
    """Number of a cluster -> the paths of its warps."""

    def uneven(self) -> list[int]:
        """Axes at whose end clusters do other work than at their beginning."""
        return [
            axis for axis, extent in enumerate(self.shape)
            if extent > 1 and self.kinds[number(self.shape, axis, extent - 1)] != self.kinds[0]
        ]  # fmt: skip

    def along(self, axis: int) -> list[int]:
        """Where clusters of an axis, at the start of the others, are known."""
        before = prod(self.shape[:axis])
        return sorted(
            place // before for place in self.work if place % before == 0 and place // before < self.shape[axis]
        )

    def missing(self) -> list[int]:
        """Clusters to record next, by number; empty when the work of all is known well enough."""
        found: set[int] = set()
        for axis in self.uneven():
            known = self.along(axis)
            work = {at: self.work[number(self.shape, axis, at)] for at in known}
            if len(known) == 2:
                found.update(number(self.shape, axis, known[1] // part) for part in (2, 4))
                continue
            allowed = _BENT * (max(work.values()) - min(work.values()))
            bent = {known[0], known[-1]}
            for before, at, behind in zip(known, known[1:], known[2:]):
                share = (at - before) / (behind - before)
                if abs(work[at] - (work[before] + share * (work[behind] - work[before]))) > allowed:
                    bent.add(at)
            if len(bent) == 2:
                continue  # a line from end to end
            for start, end in zip(known, known[1:]):
                kinds = (self.kinds[number(self.shape, axis, at)] for at in (start, end))
                far = end - start > max(1, self.shape[axis] // _NEAR)
                if far and start in bent and end in bent and len(set(kinds)) == 2:
                    steps = min(_AT_ONCE + 1, end - start)
                    found.update(
                        number(self.shape, axis, start + (end - start) * step // steps) for step in range(1, steps)
                    )
        found -= set(self.work)
        return sorted(found)[: max(0, MOST - len(self.work))]

    def weights(self) -> dict[int, float]:
        """Number of a recorded cluster -> which part of the grid it stands for; they are 1 together.

        What a cluster has is taken to be what the first has, and what its place along each uneven axis adds to that,
        by interpolation between those recorded.
        """
        found = dict.fromkeys(sorted(self.work), 0.0)
        found[0] = 1.0
        for axis in self.uneven():
            known = self.along(axis)
            places = np.arange(self.shape[axis])
            for index, at in enumerate(known):
                hat = np.zeros(len(known))
                hat[index] = 1.0
                share = float(np.interp(places, known, hat).mean())
                found[number(self.shape, axis, at)] += share
                found[0] -= share
        return found

    def every(self, values: Mapping[int, float]) -> np.ndarray:
        """What the clusters of the grid have of something, (x, y, z), by what the recorded have of it."""
        origin = values[0]
        total = np.full(self.shape, origin)
        for axis in self.uneven():
            known = self.along(axis)
            here = [values[number(self.shape, axis, at)] for at in known]
            shape = [1, 1, 1]
            shape[axis] = self.shape[axis]
            total = total + (np.interp(np.arange(self.shape[axis]), known, here) - origin).reshape(shape)
        return total


def block_order(shape: Sequence[int], group: int) -> np.ndarray:
    """Of each cluster, in the order in which they start, the number whose work it does; x comes first in both.

    ``group`` is NAME.json's ``block_group``: the fewest rows of the grid of ``shape`` that have as many clusters form a
    group, and a group's clusters count its rows' numbers from the end, all rows at a time.  With 0 each does the
    work of its own number.
    """
    columns, height, depth = (*shape, 1, 1)[:3]
    rows = height * depth
    started = np.arange(columns * rows)
    if not group:
        return started
    whole = -(-group // columns)
    first = started // columns // whole * whole
    members = np.minimum(whole, rows - first)
    place = started - first * columns
    return columns - 1 - place // members + columns * (first + place % members)


def number(shape: Sequence[int], axis: int, at: int) -> int:
    """The number of the cluster at a place of one axis and the start of the others."""
    return at * prod(shape[:axis])


def ends(shape: Sequence[int]) -> list[int]:
    """The first cluster, and those at the ends of the axes."""
    return sorted({0, *(number(shape, axis, extent - 1) for axis, extent in enumerate(shape))})


def sampled(shape: Sequence[int], places: Iterable[int], visits: Iterable[Sequence[Sequence[int]]]) -> Sampled:
    """``visits``: of each cluster in ``places``, by warp, the basic blocks that it visited."""
    work: dict[int, int] = {}
    kinds: dict[int, tuple] = {}
    for place, warps in zip(places, visits):
        work[place] = sum(map(len, warps))
        kinds[place] = kind_of(warps)
    x, y, z = (*shape, 1, 1)[:3]
    return Sampled((x, y, z), work, kinds)


def kind_of(visits: Iterable[Sequence[int]]) -> tuple:
    """Clusters whose warps take the same paths are of one kind."""
    return tuple(hash(tuple(warp)) for warp in visits)

"""Clusters of a grid to record, and weights of the recorded clusters.

The first cluster and those at the ends of the axes are recorded first. If the work at the end of an axis differs from
that at its beginning, it may grow along the axis (causal attention), or change at some cluster (loops over tiles whose
trip counts do not divide evenly). Clusters in between are recorded until either is established: clusters on a line
between their neighbours represent those beside them, and an edge is searched until its sides are found, to 1/32 of a
long axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import numpy as np

from tileiras.support.named_tuple import NamedTuple

_BENT = 0.1
"""Deviation of work from the line between its neighbours, as a share of the difference along the axis."""
_NEAR = 32
"""Neighbours at most 1/32 of an axis apart need no cluster recorded between them."""
_AT_ONCE = 7
"""Clusters between two neighbours that are recorded together: one more costs little beside others of its length."""
MOST = 40
"""Most clusters that are recorded."""


class Sampled(NamedTuple):
    """Clusters of a grid of the ``shape`` (x, y, z), counted in clusters, by their number: x comes first."""

    shape: tuple[int, int, int]
    work: Mapping[int, int]
    """Number of a cluster -> basic blocks that its warps visited."""
    kinds: Mapping[int, tuple]
    """Number of a cluster -> the paths of its warps."""

    def uneven(self) -> list[int]:
        """Axes whose last cluster does other work than the first."""
        return [
            axis for axis, extent in enumerate(self.shape)
            if extent > 1 and self.kinds[number(self.shape, axis, extent - 1)] != self.kinds[0]
        ]  # fmt: skip

    def along(self, axis: int) -> list[int]:
        """Recorded positions along an axis, at position 0 of the other axes."""
        before = prod(self.shape[:axis])
        return sorted(
            place // before for place in self.work if place % before == 0 and place // before < self.shape[axis]
        )

    def missing(self) -> list[int]:
        """Numbers of the clusters to record next; empty if the work of all is known well enough."""
        result: set[int] = set()
        for axis in self.uneven():
            points = self.along(axis)
            work = {at: self.work[number(self.shape, axis, at)] for at in points}
            if len(points) == 2:
                result.update(number(self.shape, axis, points[1] // part) for part in (2, 4))
                continue
            allowed = _BENT * (max(work.values()) - min(work.values()))
            bent = {points[0], points[-1]}
            for before, at, behind in zip(points, points[1:], points[2:]):
                share = (at - before) / (behind - before)
                if abs(work[at] - (work[before] + share * (work[behind] - work[before]))) > allowed:
                    bent.add(at)
            if len(bent) == 2:
                continue  # a line from end to end
            for start, end in zip(points, points[1:]):
                kinds = (self.kinds[number(self.shape, axis, at)] for at in (start, end))
                far = end - start > max(1, self.shape[axis] // _NEAR)
                if far and start in bent and end in bent and len(set(kinds)) == 2:
                    steps = min(_AT_ONCE + 1, end - start)
                    result.update(
                        number(self.shape, axis, start + (end - start) * step // steps) for step in range(1, steps)
                    )
        result -= set(self.work)
        return sorted(result)[: max(0, MOST - len(self.work))]

    def weights(self) -> dict[int, float]:
        """Number of a recorded cluster -> its share of the grid; the shares add up to 1.

        The work of a cluster is modeled as that of the first plus, for each uneven axis, a term interpolated between
        the recorded clusters.
        """
        shares = dict.fromkeys(sorted(self.work), 0.0)
        shares[0] = 1.0
        for axis in self.uneven():
            points = self.along(axis)
            places = np.arange(self.shape[axis])
            for index, at in enumerate(points):
                hat = np.zeros(len(points))
                hat[index] = 1.0
                share = float(np.interp(places, points, hat).mean())
                shares[number(self.shape, axis, at)] += share
                shares[0] -= share
        return shares

    def every(self, values: Mapping[int, float]) -> np.ndarray:
        """Value of each cluster of the grid (x, y, z), interpolated from the values of the recorded clusters."""
        origin = values[0]
        total = np.full(self.shape, origin)
        for axis in self.uneven():
            points = self.along(axis)
            here = [values[number(self.shape, axis, at)] for at in points]
            shape = [1, 1, 1]
            shape[axis] = self.shape[axis]
            total = total + (np.interp(np.arange(self.shape[axis]), points, here) - origin).reshape(shape)
        return total


def block_order(shape: Sequence[int], group: int) -> np.ndarray:
    """For each cluster, in launch order, the number of the cluster whose work it does; x comes first in both.

    ``group`` is NAME.json's ``block_group``: the fewest rows of the grid of ``shape`` with as many clusters form a
    group, and a group's clusters count its rows' numbers from the end, all rows at a time. With 0 each does the work of
    its own number.
    """
    columns, height, depth = (*shape, 1, 1)[:3]
    rows = height * depth
    numbers = np.arange(columns * rows)
    if not group:
        return numbers
    whole = -(-group // columns)
    first = numbers // columns // whole * whole
    members = np.minimum(whole, rows - first)
    place = numbers - first * columns
    return columns - 1 - place // members + columns * (first + place % members)


def number(shape: Sequence[int], axis: int, at: int) -> int:
    """Number of the cluster at a position of one axis and position 0 of the others."""
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

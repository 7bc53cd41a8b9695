"""The bounds in a code, and the sizes at which a launch tests them.

`i < n` and `i <= n` differ only where a thread has `i == n`.  A launch in lock step tells for each comparison of
integers how far its operands are apart.  Where one of them follows a size of the launch, another size makes them equal:
the next size is the one that is expected to do so for the most comparisons.  An expectation that fails shows that the
comparison does not depend on that size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from .facts import Facts, Parameter

_FARTHEST = 1 << 13
"""Differences beyond it are not bridged by a size."""
_TWICE = 2
"""Launches in which each comparison should meet its bound: in one, another mask may hide the element."""
_MOST_TILES = {False: 2, True: 5}
"""Tiles of a size, by whether loops run along it: past the depth of a ring of loads."""


class Boundaries:
    """The comparisons of one code in the launches so far."""

    def __init__(self, facts: Facts) -> None:
        self.positions = [each.position for each in facts.parameters if each.kind == "size"]
        self.met: Counter[int] = Counter()
        """Launches in which operands were equal, by line of the PTX."""
        self._apart: dict[int, tuple[dict[int, int], np.ndarray]] = {}
        """Line -> the sizes of a launch, and the differences of its operands there."""
        self._independent: set[tuple[int, int, int]] = set()
        """(line, parameter, sign): the difference does not change with the parameter so."""
        self._now: dict[int, list[np.ndarray]] = {}

    def compared(self, line: int, differences: np.ndarray) -> None:
        """Takes the differences of a comparison's operands from the emulator."""
        if self.met[line] < _TWICE:
            self._now.setdefault(line, []).append(differences[np.abs(differences) <= _FARTHEST])

    def end(self, numbers: Mapping[int, int]) -> None:
        """A launch with these sizes has been executed."""
        sizes = {position: numbers.get(position, 0) for position in self.positions}
        for line, parts in self._now.items():
            differences = np.unique(np.concatenate(parts))
            if 0 in differences:
                self.met[line] += 1
            else:
                self._refute(line, sizes)
            self._apart[line] = (sizes, differences)
        self._now = {}

    def _refute(self, line: int, sizes: Mapping[int, int]) -> None:
        if line not in self._apart:
            return
        before, differences = self._apart[line]
        for position, size in sizes.items():
            for sign in (1, -1):
                if size != before[position] and sign * (size - before[position]) in differences:
                    self._independent.add((line, position, sign))

    def expected(self, parameter: Parameter, most: int) -> np.ndarray:
        """For each size of a parameter up to `most`, the comparisons that are expected to meet their bound."""
        votes = np.zeros(most + 1)
        for line, (sizes, differences) in self._apart.items():
            if self.met[line] >= _TWICE:
                continue
            weight = 0.25 if self.met[line] else 1.0
            for sign in (1, -1):
                if (line, parameter.position, sign) not in self._independent:
                    found = sizes[parameter.position] + sign * differences[differences != 0]
                    found = found[(found > 0) & (found <= most) & (found % parameter.divisor == 0)]
                    votes[found] += weight
        return votes

    def choose(self, members: Sequence[Parameter]) -> dict[int, int]:
        """Sizes of a group, which have the same number of tiles; empty where no bound is expected to be met."""
        tile = max(1, *(each.tile for each in members))
        tiles = _MOST_TILES[any(each.counts_trips for each in members)]
        chosen: dict[int, int] = {}
        count: int | None = None
        for member in members:
            own = member.tile or tile
            votes = self.expected(member, tiles * own)
            # Larger launches take longer.
            votes /= 2 + np.arange(votes.size) / own
            if count is not None:
                votes[: (count - 1) * own + 1] = 0
                votes[count * own + 1 :] = 0
            best = int(votes.argmax())
            if votes[best] > 0:
                chosen[member.position] = best
                count = count or -(-best // own)
        return chosen

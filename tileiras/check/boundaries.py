"""The bounds in a code, and the sizes at which a launch tests them.

`i < n` and `i <= n` differ only where a thread has `i == n`.  A launch in lock step tells for each comparison of
integers how far its operands are apart.  Where one of them follows a size of the launch, another size makes them equal:
the next size is the one that is expected to do so for the most comparisons of a launch, whose other sizes stay.  An
expectation that fails often shows that the comparison does not depend on that size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .facts import Facts, Parameter

_FARTHEST = 1 << 13
"""Differences beyond it are not bridged by a size."""
_TWICE = 2
"""Launches in which each comparison should meet its bound: in one, another mask may hide the element."""
_FAILURES = 12
"""Expectations that fail before a comparison counts as independent of a size; one counts as four if nothing else
changed.  The block in which operands were equal may not be in the grid."""
_TRIES = 2
"""Choices of a size for a parameter: a launch may get another one instead, where tiles lie outside of their views."""
_KEPT = 4
"""Launches that are remembered for a comparison."""
_MOST_TILES = {False: 2, True: 5}
"""Tiles of a size, by whether loops run along it: past the depth of a ring of loads."""


class _Apart(NamedTuple):
    """The differences of the operands of one comparison in one launch, each once."""

    differences: np.ndarray
    values: frozenset[int]


class _Open(NamedTuple):
    """Comparisons of one launch that have not met their bounds: their lines, the differences of all together, and for
    each line the weight of its votes and the number of its differences."""

    lines: list[int]
    differences: np.ndarray
    weights: np.ndarray
    counts: np.ndarray


class Boundaries:
    """The comparisons of one code in the launches so far."""

    def __init__(self, facts: Facts) -> None:
        self.positions = [each.position for each in facts.parameters if each.kind == "size"]
        self.met: Counter[int] = Counter()
        """Launches in which operands were equal, by line of the PTX."""
        self._apart: dict[int, dict[tuple[int, ...], _Apart]] = {}
        """Line -> the sizes of the smallest launches that executed it -> the differences of its operands there."""
        self._failed: Counter[tuple[int, int, int]] = Counter()
        """(line, parameter, sign) -> expectations that failed: the difference does not change with the parameter so."""
        self._now: dict[int, list[np.ndarray]] = {}
        self._choices: Counter[tuple[int, int]] = Counter()
        """(parameter, size) -> how often the size was chosen."""

    @property
    def is_open(self) -> bool:
        """Whether a comparison that was executed has met its bound in too few launches, or none was executed."""
        return not self._apart or any(self.met[line] < _TWICE for line in self._apart)

    def compared(self, line: int, differences: np.ndarray) -> None:
        """Take the differences of a comparison's operands from the emulator."""
        if self.met[line] < _TWICE:
            self._now.setdefault(line, []).append(differences[np.abs(differences) <= _FARTHEST])

    def end(self, numbers: Mapping[int, int]) -> None:
        """A launch with these sizes has been executed."""
        sizes = tuple(numbers.get(position, 0) for position in self.positions)
        now = {line: np.unique(np.concatenate(parts)) for line, parts in self._now.items()}
        is_met = {line for line, differences in now.items() if 0 in differences}
        self.met.update(is_met)
        for line, launches in self._apart.items():
            if line in is_met or self.met[line] >= _TWICE:
                continue
            for before, apart in launches.items():
                changes = [(at, new - old) for at, old, new in zip(self.positions, before, sizes) if new != old]
                for position, change in changes:
                    for sign in (1, -1):
                        if sign * change in apart.values:
                            self._failed[line, position, sign] += 4 if len(changes) == 1 else 1
        for line, differences in now.items():
            rows = self._apart.setdefault(line, {})
            rows[sizes] = _Apart(differences, frozenset(differences.tolist()))
            if len(rows) > _KEPT:
                del rows[max(rows, key=sum)]
        self._now = {}

    def choose(self, groups: Sequence[Sequence[Parameter]], one: bool) -> dict[int, int]:
        """Sizes of all groups; empty where no bound is expected to be met.

        The members of a group have the same number of tiles.  `one`: only the group changes that meets the most bounds.
        """
        bases: dict[tuple[int, ...], dict[int, np.ndarray]] = {}
        for line, launches in self._apart.items():
            for sizes, apart in launches.items() if self.met[line] < _TWICE else ():
                bases.setdefault(sizes, {})[line] = apart.differences
        best: tuple[float, dict[int, int], dict[int, int]] = (0.0, {}, {})
        for sizes, lines in bases.items():
            base = dict(zip(self.positions, sizes))
            open_lines = self._open(lines)
            changes = [change for group in groups if (change := self._group(group, open_lines, base))[0] > 0]
            if one and changes:
                changes = [max(changes, key=lambda each: each[0])]
            votes = sum(each for each, _ in changes)
            if votes > best[0]:
                best = votes, base, {key: size for _, choice in changes for key, size in choice.items()}
        _, base, choice = best
        self._choices.update((key, size) for key, size in choice.items() if base[key] != size)
        return base | choice

    def _group(
        self, members: Sequence[Parameter], lines: _Open, base: Mapping[int, int]
    ) -> tuple[float, dict[int, int]]:
        """Votes for the best sizes of a group, and the sizes."""
        tile = max(1, *(each.tile for each in members))
        tiles = _MOST_TILES[any(each.counts_trips for each in members)]
        sizes: dict[int, int] = {}
        total, count = 0.0, 0
        for member in members:
            own = member.tile or tile
            most = max(tiles * own, base[member.position])
            votes = self._votes(member, lines, base[member.position], most)
            # Larger launches take longer.
            votes /= 2 + np.arange(votes.size) / own
            if count:
                votes[: (count - 1) * own + 1] = 0
                votes[count * own + 1 :] = 0
            best = int(votes.argmax())
            if votes[best] > 0:
                sizes[member.position] = best
                total += votes[best]
                count = count or -(-best // own)
        if sizes:
            first = next(iter(sizes.values()))
            for member in members:
                if member.position not in sizes:
                    as_before = -(-base[member.position] // (member.tile or tile)) == count
                    sizes[member.position] = base[member.position] if as_before else first
        return total, sizes

    def _open(self, lines: Mapping[int, np.ndarray]) -> _Open:
        differences = [each[each != 0] for each in lines.values()]
        weights = np.array([0.25 if self.met[line] else 1.0 for line in lines])
        return _Open(list(lines), np.concatenate(differences), weights, np.array([each.size for each in differences]))

    def _votes(self, parameter: Parameter, lines: _Open, size: int, most: int) -> np.ndarray:
        """For each size up to `most` of a parameter, the comparisons that are expected to meet their bound."""
        votes = np.zeros(most + 1)
        for sign in (1, -1):
            may_follow = [self._failed[line, parameter.position, sign] < _FAILURES for line in lines.lines]
            others = size + sign * lines.differences
            fits = (others > 0) & (others <= most) & (others % parameter.divisor == 0)
            weights = np.repeat(lines.weights * may_follow, lines.counts)
            votes += np.bincount(others[fits], weights[fits], most + 1)
        for (position, choice), count in self._choices.items():
            if position == parameter.position and count >= _TRIES and choice <= most:
                votes[choice] = 0
        return votes

"""What is known of a value: which quantities of a launch, sums and places in memory it is made of."""

from __future__ import annotations

from collections.abc import Iterable

from tileiras.ir import Value
from tileiras.named_tuple import NamedTuple

Quantities = frozenset[str]
"""Of a launch (`certificate`), or of a run: `@N` is what operation N, an atomic update, finds in memory, `&N` what
another tile block wrote, which operation N makes visible."""

NONE: frozenset = frozenset()


class Mask(NamedTuple):
    """A condition that differs along `dims` of a tile: where it does not hold, there is padding in the place of data
    (`padding`), or the other value of a selection."""

    quantities: Quantities
    dims: frozenset[int]
    padding: bool


class Facts(NamedTuple):
    """What a value is made of."""

    value: Quantities = NONE
    """Quantities that it is computed with."""
    order: Quantities = NONE
    """Quantities that decide which terms its sums have."""
    sums: frozenset[int] = NONE
    reads: frozenset[Value] = NONE
    """Coordinates and pointers of what it is loaded from."""
    masks: frozenset[Mask] = NONE

    @property
    def quantities(self) -> Quantities:
        """All that decide about it, where it is a condition or a bound."""
        if not self.masks:
            return self.value | self.order
        return self.value.union(self.order, *(mask.quantities for mask in self.masks))

    def flat(self) -> Facts:
        """Of an element whose place in the tile is not known any more."""
        return Facts(self.quantities, self.order, self.sums, self.reads) if self.masks else self


NOTHING = Facts()


def join(facts: Iterable[Facts]) -> Facts:
    """What is made of several values."""
    kinds = [each for each in dict.fromkeys(facts) if each is not NOTHING]
    if len(kinds) < 2:
        return kinds[0] if kinds else NOTHING
    return Facts(*(field[0].union(*field[1:]) for field in zip(*kinds)))


def of_run(quantities: Iterable[str]) -> list[tuple[str, int]]:
    """Those of quantities that may differ from run to run: their marks and operations."""
    return sorted((each[0], int(each[1:])) for each in quantities if each[0] in "@&")

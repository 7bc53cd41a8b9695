"""The lattice of the dataflow analysis: launch quantities, sums and memory places that a value depends on."""

from __future__ import annotations

from collections.abc import Iterable

from tileiras.ir import Value
from tileiras.support.named_tuple import NamedTuple

Quantities = frozenset[str]
"""Launch quantities (`certificate`) and two kinds of values that may differ from run to run: `@N`, the old value that
atomic update N returns, and `&N`, data of another tile block that operation N makes visible."""

NONE: frozenset = frozenset()


class Mask(NamedTuple):
    """A condition that varies along `dims` of a tile.

    Elements with a false condition are padding (`padding`) or the other operand of a `select`.
    """

    quantities: Quantities
    dims: frozenset[int]
    padding: bool


class Facts(NamedTuple):
    """Dependences of one value."""

    value: Quantities = NONE
    """Quantities that enter the computation."""
    order: Quantities = NONE
    """Quantities that select the terms of its sums."""
    sums: frozenset[int] = NONE
    reads: frozenset[Value] = NONE
    """Coordinates and pointers of the loads that it is computed from."""
    masks: frozenset[Mask] = NONE

    @property
    def quantities(self) -> Quantities:
        """All quantities, for a condition or a loop bound."""
        if not self.masks:
            return self.value | self.order
        return self.value.union(self.order, *(mask.quantities for mask in self.masks))

    def flat(self) -> Facts:
        """The same without dimensions, for operations that move elements."""
        return Facts(self.quantities, self.order, self.sums, self.reads) if self.masks else self


NOTHING = Facts()


def join(facts: Iterable[Facts]) -> Facts:
    """Least upper bound."""
    distinct = [each for each in dict.fromkeys(facts) if each is not NOTHING]
    if len(distinct) < 2:
        return distinct[0] if distinct else NOTHING
    return Facts(*(field[0].union(*field[1:]) for field in zip(*distinct)))


def of_run(quantities: Iterable[str]) -> list[tuple[str, int]]:
    """The marks and operation numbers of the quantities that may differ from run to run."""
    return sorted((each[0], int(each[1:])) for each in marks_of_run(frozenset(quantities)))


def of_launch(quantities: Quantities) -> Quantities:
    """The launch quantities alone."""
    return frozenset(each for each in quantities if each[0] not in "@&")


def marks_of_run(quantities: Quantities) -> Quantities:
    """The quantities that may differ from run to run."""
    return frozenset(each for each in quantities if each[0] in "@&")


def is_of_launch(quantity: str) -> bool:
    """Whether a quantity is the same in all tile blocks of a launch."""
    return quantity[0] in "gp"


def is_block(quantity: str) -> bool:
    """Whether a quantity is a tile block number."""
    return quantity[0] == "b"


def is_argument(quantity: str) -> bool:
    """Whether a quantity is a scalar argument."""
    return quantity[0] == "p"

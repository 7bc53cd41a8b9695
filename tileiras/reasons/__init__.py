"""Reasons: the choices and refusals of the compiler as codes with arguments.

    Reason("agents.no-registers-by-agent", target="sm_80")

is spelled `agents.no-registers-by-agent target=sm_80`.  A pass gives the code and the arguments; the tables of this
package have, for every code, the text, the documented name of its remark and the remedy (docs/reasons.md).  Reports,
filters and tests compare codes and arguments; texts are for readers only and may change.

The tables are loaded when a text is needed: a refusal that is not shown costs one object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .row import Row

Argument = int | str
"""Numbers and names; texts are composed in the tables only."""


class Reason:
    """A code with arguments; `cause`: the reason behind it."""

    __slots__ = ("code", "arguments", "cause")

    def __init__(self, code: str, /, *, cause: "Reason | None" = None, **arguments: Argument) -> None:
        self.code = code
        self.arguments: Mapping[str, Argument] = arguments
        self.cause = cause

    def __iter__(self) -> Iterator["Reason"]:
        """The reason and its causes, outermost first."""
        current: Reason | None = self
        while current is not None:
            yield current
            current = current.cause

    @property
    def row(self) -> Row:
        return row_of(self.code)

    @property
    def text(self) -> str:
        """The text of the reason alone."""
        return self.row.filled(self.row.text, self.arguments)

    @property
    def remedy(self) -> str:
        """The change that removes the obstacle; empty for choices."""
        return self.row.filled(self.row.remedy, self.arguments)

    def __str__(self) -> str:
        """The texts of the reason and its causes."""
        return ": ".join(each.text for each in self)

    def spelled(self) -> str:
        """The codes and arguments of the reason and its causes."""
        from .spelling import spell

        return "; ".join(spell(each.code, each.arguments) for each in self)

    @classmethod
    def parse(cls, spelled: str) -> "Reason":
        """The inverse of `spelled`; raises ValueError if malformed."""
        from .spelling import parse

        return cls.restored(parse(spelled))

    def as_values(self) -> list[Any]:
        """Codes and arguments as plain values, outermost first.  Pairs keep their order in JSON with sorted keys."""
        return [[each.code, [list(item) for item in each.arguments.items()]] for each in self]

    @classmethod
    def restored(cls, row: list[Any]) -> "Reason":
        """The inverse of `row`; raises ValueError if malformed."""
        result: Reason | None = None
        for code, pairs in reversed(row):
            arguments = dict(pairs)
            if set(row_of(code).arguments) != set(arguments):
                raise ValueError(f"arguments of '{code}' are not {sorted(arguments)}")
            result = cls(code, cause=result, **arguments)
        if result is None:
            raise ValueError("no code")
        return result

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reason) and self.as_values() == other.as_values()

    def __hash__(self) -> int:
        return hash(self.code)

    def __repr__(self) -> str:
        return f"Reason({self.spelled()!r})"


def row_of(code: str) -> Row:
    """The row of a code; raises ValueError for an unknown one."""
    # Ten modules, for texts only.
    from .table import ROWS

    row = ROWS.get(code)
    if row is None:
        raise ValueError(f"no reason has the code '{code}'")
    return row

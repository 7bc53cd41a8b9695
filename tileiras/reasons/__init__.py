"""Reasons: the choices and refusals of the compiler as codes with arguments.

    Reason("agents.no-registers-by-agent", target="sm_80")

is spelled `agents.no-registers-by-agent target=sm_80`.  A pass gives the code and the arguments; the tables of this
package have, for every code, the text, the documented name of its remark and the remedy (docs/reasons.md).  Reports,
filters and tests compare codes and arguments; texts are for readers only and may change.

The tables are loaded when a text is needed: a refusal that is not shown costs one object.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .row import Row

Argument = int | str
"""Numbers and names; texts are composed in the tables only."""

PATTERN = re.compile(r"([a-z]+)\.(?:\*|[a-z0-9]+(?:-[a-z0-9]+)*)")
"""A code, or all codes of a subject (`agents.*`)."""

_PLAIN = re.compile(r"[\w.+:*/$'@%-]+")
"""Values that are spelled without quotes."""


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
        return _FORMATTER.vformat(self.row.text, (), self.arguments)

    @property
    def remedy(self) -> str:
        """The change that removes the obstacle; empty for choices."""
        return _FORMATTER.vformat(self.row.remedy, (), self.arguments)

    def __str__(self) -> str:
        """The texts of the reason and its causes."""
        return ": ".join(each.text for each in self)

    def spelled(self) -> str:
        """The codes and arguments of the reason and its causes."""
        return "; ".join(" ".join((each.code, *map(_spelled, each.arguments.items()))) for each in self)

    def stored(self) -> list[Any]:
        """Codes and arguments as plain values, outermost first.  Pairs keep their order in JSON with sorted keys."""
        return [[each.code, [list(item) for item in each.arguments.items()]] for each in self]

    @classmethod
    def restored(cls, stored: list[Any]) -> "Reason":
        """The inverse of `stored`; raises ValueError if malformed."""
        found: Reason | None = None
        for code, pairs in reversed(stored):
            arguments = dict(pairs)
            if set(row_of(code).arguments) != set(arguments):
                raise ValueError(f"arguments of '{code}' are not {sorted(arguments)}")
            found = cls(code, cause=found, **arguments)
        if found is None:
            raise ValueError("no code")
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reason) and self.stored() == other.stored()

    def __hash__(self) -> int:
        return hash(self.spelled())

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


def parse(spelled: str) -> Reason:
    """The inverse of `Reason.spelled`; raises ValueError if malformed."""
    stored: list[Any] = []
    end = 0
    for match in _WORD.finditer(spelled):
        if match.start() != end:
            raise ValueError(f"malformed reason: {spelled!r}")
        end = match.end()
        code, name, value = match.groups()
        if code is not None:
            stored.append([code, {}])
        elif not stored:
            raise ValueError(f"malformed reason: {spelled!r}")
        else:
            stored[-1][1][name] = _value(value)
    if end != len(spelled):
        raise ValueError(f"malformed reason: {spelled!r}")
    return Reason.restored(stored)


_WORD = re.compile(r'(?:^|; )([a-z]+\.[a-z0-9-]+)| (\w+)=("(?:[^"\\]|\\.)*"|[^ ;"]+)')


def _spelled(argument: tuple[str, Argument]) -> str:
    name, value = argument
    if isinstance(value, int):
        return f"{name}={value}"
    # Digits alone would be parsed as a number.
    return f"{name}={value if _PLAIN.fullmatch(value) and not _is_number(value) else json.dumps(value)}"


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+", text) is not None


def _value(spelled: str) -> Argument:
    if spelled.startswith('"'):
        return json.loads(spelled)
    return int(spelled) if _is_number(spelled) else spelled


class _Formatter(string.Formatter):
    """`{warps:warp}` is `1 warp` or `4 warps`."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return f"{value} {format_spec}{'' if value == 1 else 's'}" if format_spec else str(value)


_FORMATTER = _Formatter()

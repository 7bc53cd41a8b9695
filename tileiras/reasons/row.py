"""A row of the tables of reasons."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

from tileiras.support.named_tuple import NamedTuple

GENERAL = "RemarkKernelSchedule"
"""Name of remarks that have no documented one."""


class Row(NamedTuple):
    """`text` has the arguments in braces, `{warps:warp}` with a counted noun; so may `remedy`, the change that removes
    the obstacle, empty for choices.  `name` and `kind` are those of the remark that states the reason; a reason behind
    another one needs neither.  `also`: arguments that the text does not print."""

    text: str
    remedy: str = ""
    name: str = ""
    kind: str = "analysis"
    also: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of all arguments, those of the text first."""
        fields = [field for _, field, _, _ in string.Formatter().parse(self.text) if field is not None]
        return (*dict.fromkeys(fields), *self.also)

    @property
    def is_choice(self) -> bool:
        """Whether a remark states it, and it is no obstacle behind another statement."""
        return bool(self.name)

    @staticmethod
    def filled(text: str, arguments: Mapping[str, Any]) -> str:
        return _FORMATTER.vformat(text, (), arguments)


class _Formatter(string.Formatter):
    """`{warps:warp}` is `1 warp` or `4 warps`."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return f"{value} {format_spec}{'' if value == 1 else 's'}" if format_spec else str(value)


_FORMATTER = _Formatter()


def choice(text: str) -> Row:
    """The row of a statement without a documented name."""
    return Row(text, name=GENERAL)

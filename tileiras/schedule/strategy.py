"""The strategy of a kernel's loops: one value, built once from the options of a compilation.

    strategy={loads=agent variant=light stages=3}

Passes take it as one option, spelled as above: fields that are left out have their defaults.  `Strategy.of` builds it
from the documented options (`opt-level`, `pipeline-strategy`, `v2-opt-level`, `rrt-size-threshold`,
`unspecialized-pipeline-num-stages`, `max-constraint-iterations`), `parse` from text; `str` and `options` are their
inverses.  No other module reads these options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Protocol

from tileiras.support.named_tuple import NamedTuple


class Loads(Enum):
    """The warps that issue loads ahead of the loop iteration that uses their tiles."""

    NONE = "none"
    """Loads stay in their iteration: all loops are serial."""
    ALL_WARPS = "all-warps"
    AGENT = "agent"
    BY_RULE = "by-rule"
    """An agent where a rule predicts a gain (`warp_specialize.py`), else all warps."""


class Variant(Enum):
    """The schedule of the agent that computes, where another one loads."""

    LIGHT = "light"
    """Operations keep their order."""
    HEAVY = "heavy"
    """Operations are placed, so that iterations may overlap (`agent_stages.py`)."""


class Overlap(Enum):
    """The loops whose iterations overlap (`overlap.py`)."""

    OFF = "off"
    BY_RULE = "by-rule"
    """Loops without a loading agent, where that leaves a thread registers."""
    MODEL = "model"
    """Loops for which the static model predicts a gain."""
    SEARCH = "search"
    """As `MODEL`, also beside other warps, and small loops are searched for a shorter placement."""


class _Options(Protocol):
    """Values of the documented options by name: all of a compilation, or those of a stage."""

    def __getitem__(self, name: str, /) -> Any: ...


class Strategy(NamedTuple):
    """Immutable; the defaults are those of passes in a hand-written pipeline."""

    loads: Loads = Loads.ALL_WARPS
    variant: Variant = Variant.HEAVY
    overlap: Overlap = Overlap.OFF
    stages: int | None = None
    """Iterations whose tiles are live at a time; None if chosen for each loop."""
    placements: int = 10
    """Placements of a loop that are tried until one fits into registers."""
    table: int = 4096
    """Entries of the reservation table with which the heavy variant places a loop; a loop with a larger one keeps the
    order of its operations, as under the light one."""

    @classmethod
    def of(cls, options: _Options) -> Strategy:
        level, stages = options["v2-opt-level"], options["unspecialized-pipeline-num-stages"]
        loads = _REQUESTS[options["pipeline-strategy"]] if options["opt-level"] >= SCHEDULED else Loads.NONE
        if loads is Loads.BY_RULE and (level > 0 or stages is not None):
            loads = Loads.ALL_WARPS  # the two options belong to the unspecialized pipeline
        variant = Variant.LIGHT if options["rrt-size-threshold"] == 0 else Variant.HEAVY
        overlap = _LEVELS[min(level, len(_LEVELS) - 1)]
        if loads is Loads.BY_RULE and variant is Variant.HEAVY:
            overlap = Overlap.BY_RULE
        if loads is Loads.BY_RULE and options["opt-level"] < AGENTS_BY_RULE:
            loads = Loads.ALL_WARPS
        table = options["rrt-size-threshold"] or cls._field_defaults["table"]
        return cls(loads, variant, overlap, stages, options["max-constraint-iterations"], table)

    def options(self) -> dict[str, str | int]:
        """Keyword arguments of `tileiras.compile` that request it."""
        result: dict[str, str | int] = {"pipeline_strategy": _NAMES[self.loads]}
        if self.loads is Loads.ALL_WARPS and self.overlap is Overlap.BY_RULE:
            result = {"pipeline_strategy": _NAMES[Loads.BY_RULE], "opt_level": SCHEDULED}
        if self.overlap in _LEVELS[1:]:
            result["v2_opt_level"] = _LEVELS.index(self.overlap)
        if self.variant is Variant.LIGHT:
            result["rrt_size_threshold"] = 0
        elif self.table != Strategy().table:
            result["rrt_size_threshold"] = self.table
        if self.stages is not None:
            result["unspecialized_pipeline_num_stages"] = self.stages
        if self.placements != Strategy().placements:
            result["max_constraint_iterations"] = self.placements
        return result

    @classmethod
    def parse(cls, text: str) -> Strategy:
        """The value of a pass option; raises ValueError with the accepted fields or values."""
        values: dict[str, Any] = {}
        for word in text.removeprefix("{").removesuffix("}").split():
            name, _, value = word.partition("=")
            if name not in _FIELDS:
                raise ValueError(f"a field of {', '.join(_FIELDS)}")
            values[name] = _FIELDS[name](name, value)
        return cls(**values)

    def __str__(self) -> str:
        """The fields that differ from their defaults."""
        rows = ((name, value) for name, value in self._asdict().items() if value != self._field_defaults[name])
        words = (f"{name}={value.value if isinstance(value, Enum) else value}" for name, value in rows)
        return f"{{{' '.join(words)}}}"

    @property
    def may_have_agents(self) -> bool:
        return self.loads in (Loads.AGENT, Loads.BY_RULE)

    @property
    def is_by_rule(self) -> bool:
        """Whether a rule decides if an agent loads."""
        return self.loads is Loads.BY_RULE

    @property
    def searches(self) -> bool:
        return self.overlap is Overlap.SEARCH

    @property
    def agents(self) -> str:
        """The variant of warp specialization, for remarks."""
        if not self.is_by_rule:
            return self.variant.value
        return _NAMES[self.loads] + ("" if self.variant is Variant.HEAVY else f"-{self.variant.value}")


_NAMES = {Loads.NONE: "none", Loads.ALL_WARPS: "unspecialize", Loads.AGENT: "warp-specialize", Loads.BY_RULE: "auto"}
"""The value of `pipeline-strategy` that requests each kind of loads."""

_REQUESTS = {name: loads for loads, name in _NAMES.items()}

_LEVELS = (Overlap.OFF, Overlap.MODEL, Overlap.SEARCH)
"""The overlap of each `v2-opt-level`; higher levels are as the last one."""

SCHEDULED = 2
"""The lowest optimization level at which loads run ahead of their loop; below, all loops are serial."""

AGENTS_BY_RULE = 3
"""The lowest optimization level at which a rule may choose agents; below, they are made only on request."""

MAX_STAGES = 8
"""The most stages that can be requested."""


def _member(kind: type[Enum]) -> Callable[[str, str], Enum]:
    def parse(name: str, text: str) -> Enum:
        members = {each.value: each for each in kind}
        if text not in members:
            raise ValueError(f"{name}={', '.join(members)}")
        return members[text]

    return parse


def _number(accepted: range) -> Callable[[str, str], int]:
    def parse(name: str, text: str) -> int:
        if re.fullmatch("[0-9]{1,9}", text) is None or int(text) not in accepted:
            raise ValueError(f"{name}={accepted[0]} to {accepted[-1]}")
        return int(text)

    return parse


_FIELDS: Mapping[str, Callable[[str, str], Any]] = {
    "loads": _member(Loads),
    "variant": _member(Variant),
    "overlap": _member(Overlap),
    "stages": _number(range(1, MAX_STAGES + 1)),
    "placements": _number(range(10**9)),
    "table": _number(range(1, 10**9)),
}
"""Field -> parser of its text."""

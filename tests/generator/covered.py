"""Coverage by decision: which row of TileAS changed a module, on which target, with which maps and strategy.

`covered.json` counts cases of earlier runs.  Draws prefer pairs that it lacks: families whose kernels reach a row
that a target, a kind of map or a strategy lacks, and that target, kind or strategy.  A pair that cannot occur counts
as such by a rule of `IMPOSSIBLE`, with its reason.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.generator.decisions import ROWS
from tests.generator.forms import FORMS
from tests.generator.judge import Verdict
from tests.generator.options import MAPS, STRATEGIES, TARGETS, Weights
from tileiras.stages.tileas import DECISIONS
from tileiras.targets import sm

COMMITTED = Path(__file__).with_name("covered.json")
AXES = {"target": TARGETS, "maps": tuple(MAPS), "strategy": tuple(STRATEGIES)}
CASES = "cases"
STRONGEST = 4.0
"""The factor of the choice that lacks most pairs."""


class Pair(NamedTuple):
    decision: str
    axis: str
    value: str


class Counts(NamedTuple):
    """By family, target, kind of map and strategy: how many cases there were, and in how many of them each row changed
    the module."""

    family: dict[str, dict[str, int]]
    target: dict[str, dict[str, int]]
    maps: dict[str, dict[str, int]]
    strategy: dict[str, dict[str, int]]

    def missing(self) -> list[Pair]:
        """The pairs that can occur and have not."""
        return [pair for pair in pairs() if not self.count(pair) and not reason(pair)]

    def count(self, pair: Pair) -> int:
        return getattr(self, pair.axis).get(pair.value, {}).get(pair.decision, 0)


def contradicted(counts: Counts) -> list[Pair]:
    """Pairs that have occurred although a rule says that they cannot."""
    return [pair for pair in pairs() if counts.count(pair) and reason(pair)]


def counted(verdicts: Iterable[Verdict]) -> Counts:
    counts = Counts({}, {}, {}, {})
    for verdict in verdicts:
        if not verdict.decisions:
            continue
        for axis in Counts._fields:
            row = getattr(counts, axis).setdefault(getattr(verdict, axis), collections.Counter())
            row.update([CASES, *verdict.decisions])
    return counts


def added(first: Counts, second: Counts) -> Counts:
    total = Counts({}, {}, {}, {})
    for axis in Counts._fields:
        for part in (getattr(first, axis), getattr(second, axis)):
            for value, row in part.items():
                getattr(total, axis).setdefault(value, collections.Counter()).update(row)
    return total


def read(path: Path = COMMITTED) -> Counts:
    return Counts(**json.loads(path.read_text(encoding="utf-8")))


def write(counts: Counts, path: Path) -> None:
    path.write_text(json.dumps(counts._asdict(), indent=1, sort_keys=True) + "\n", encoding="utf-8")


def pairs() -> Iterator[Pair]:
    for decision in ROWS:
        for axis, values in AXES.items():
            for value in values:
                yield Pair(decision, axis, value)


# -- impossible pairs ------------------------------------------------------------------------------------------------

_NEEDS = {
    "tileas-pair-tile-blocks": ("tcgen05",), "tileas-pair-dots": ("tcgen05",), "tileas-fit-tensor-memory": ("tcgen05",),
    "tileas-specialize-mma": ("tcgen05",), "tileas-specialize-correction": ("tcgen05",),
    "tileas-materialize-async": ("wgmma", "tcgen05"),
    "tileas-cluster-tile-blocks": ("wgmma",), "tileas-order-warpgroups": ("wgmma",), "tileas-plan-cta": ("cluster",),
    "tileas-promote-accumulators": ("narrow_f8_sums",), "tileas-slice-batches": ("wgmma", "tcgen05"),
    "tileas-round-in-boxes": ("tma",), "tileas-specialize-stores": ("tma",), "lower-tma-load-store-to-async": ("tma",),
    "tileas-attach-tma-desc-args": ("tma",), "tileas-ping-pong": ("wgmma",),
    "tileas-materialize-schedule": ("setmaxnreg",), "tileas-resolve-agent-boundary": ("setmaxnreg",),
    "tileas-smem-operands loop-invariant": ("cp_async",), "tileas-smem-operands in-loops": ("cp_async",),
    "tileas-smem-operands outside-loops": ("cp_async",),
    "tileas-interleave-copies after tileas-generate-schedule": ("cp_async",),
    "tileas-split-loop-steps": ("cp_async",), "tileas-lower-occupancy shared-memory": ("cp_async",),
    "tileas-mark-short-loops": ("cp_async",), "tileas-spill-loop-carried": ("cp_async",),
    "tileas-rematerialize": ("cp_async",),
}  # fmt: skip
"""Row -> features of targets (`tileiras.targets.sm`), one of which the row needs."""
_NEEDS_MAPS = {
    "tileas-round-in-boxes": ("host", "device"), "lower-tma-load-store-to-async": ("host", "device"),
    "tileas-attach-tma-desc-args": ("host", "device"), "tileas-specialize-stores": ("host",),
    "tileas-cluster-tile-blocks": ("host",),
}  # fmt: skip
"""Row -> creators of tensor maps with which it works."""
_NEEDS_AGENTS = (
    "tileas-materialize-schedule", "tileas-resolve-agent-boundary", "tileas-specialize-mma", "tileas-specialize-stores",
    "tileas-specialize-correction", "tileas-ping-pong", "tileas-order-warpgroups", "tileas-cluster-tile-blocks",
)  # fmt: skip


def _feature(pair: Pair) -> str:
    features = _NEEDS.get(pair.decision, ())
    if pair.axis != "target" or not features or any(sm.target(pair.value).has(each) for each in features):
        return ""
    return f"{pair.value} has no {' or '.join(features)}"


def _maps(pair: Pair) -> str:
    kinds = _NEEDS_MAPS.get(pair.decision)
    is_other = pair.axis == "maps" and kinds is not None and pair.value not in kinds
    return f"works with tensor-maps={' or '.join(kinds or ())} only" if is_other else ""


def _boxes(pair: Pair) -> str:
    is_serial = pair.decision == "tileas-attach-tma-desc-args" and pair.value == "none" and pair.axis == "strategy"
    return "without loads that run ahead there are no tensor maps" if is_serial else ""


def _agents(pair: Pair) -> str:
    is_other = pair.axis == "strategy" and pair.decision in _NEEDS_AGENTS and pair.value in ("none", "unspecialize")
    return "works on agents, which this strategy does not create" if is_other else ""


def _rules(pair: Pair) -> str:
    is_other = pair.decision == "tileas-ping-pong" and pair.axis == "strategy" and pair.value != "auto"
    return "a rule of pipeline-strategy=auto decides; no operation of the language requests it" if is_other else ""


def _schedules(pair: Pair) -> str:
    row = DECISIONS[ROWS.index(pair.decision)]
    is_omitted = pair.axis == "strategy" and pair.value == "none" and row.schedules
    return "omitted where loads must not run ahead" if is_omitted else ""


IMPOSSIBLE: tuple[Callable[[Pair], str], ...] = (_schedules, _feature, _maps, _boxes, _agents, _rules)


def reason(pair: Pair) -> str:
    """Why a pair cannot occur, or nothing."""
    return next((text for rule in IMPOSSIBLE if (text := rule(pair))), "")


# -- weights ---------------------------------------------------------------------------------------------------------


def weights(counts: Counts) -> Weights:
    """Factors from 1 to `STRONGEST`, the same wherever the counts are."""
    missing = counts.missing()
    wanted = collections.Counter(pair.decision for pair in missing)
    forms = {name: _reach(counts.family.get(name, {}), wanted) for name in FORMS}
    values = {axis: collections.Counter(pair.value for pair in missing if pair.axis == axis) for axis in AXES}
    return Weights(_factors(forms), *(_factors(values[axis]) for axis in AXES))


def _reach(row: Mapping[str, int], wanted: Mapping[str, int]) -> float:
    """The missing pairs of rows that cases of a family reach, by how often they do; unseen families count as any."""
    cases = row.get(CASES, 0)
    return sum(count * (row.get(decision, 0) + 0.5) / (cases + 1) for decision, count in wanted.items())


def _factors(needs: Mapping[str, float]) -> dict[str, float]:
    most = max(needs.values(), default=0)
    return {name: round(1 + (STRONGEST - 1) * need / most, 3) for name, need in needs.items()} if most else {}


# -- text ------------------------------------------------------------------------------------------------------------


def table(counts: Counts) -> list[str]:
    """The rows of TileAS with pairs that no case has, and how many pairs there are."""
    missing = counts.missing()
    lines = ["| decision | targets | maps | strategies |", "|---|---|---|---|"]
    for decision in ROWS:
        cells = [", ".join(pair.value for pair in missing if pair[:2] == (decision, axis)) for axis in AXES]
        if any(cells):
            lines.append(f"| {decision} | {' | '.join(cells)} |")
    every = list(pairs())
    impossible = sum(bool(reason(pair)) for pair in every)
    covered = len(every) - impossible - len(missing)
    what = "pairs of a decision and a target, map or strategy"
    total = f"{what}: {covered} covered, {len(missing)} not, {impossible} impossible"
    return [*(lines if missing else []), total]


def impossible_table() -> list[str]:
    """Each row with pairs that cannot occur, and the reasons."""
    lines = ["| decision | not with | reason |", "|---|---|---|"]
    for decision in ROWS:
        reasons: dict[str, list[str]] = {}
        for pair in pairs():
            if pair.decision == decision and (text := reason(pair)):
                reasons.setdefault(text.replace(f"{pair.value} has", "has"), []).append(pair.value)
        lines += [f"| {decision} | {', '.join(values)} | {text} |" for text, values in reasons.items()]
    return lines

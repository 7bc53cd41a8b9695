"""Headline figures of a kernel, their comparison between builds, and answers to common questions."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from tileiras.report.model import LEVELS, Kernel, Report
from tileiras.support.named_tuple import NamedTuple


class Figure(NamedTuple):
    """A number with its unit and its explanation."""

    name: str
    value: float | int | None
    """None if it is unknown."""
    unit: str
    why: str = ""

    @property
    def text(self) -> str:
        if self.value is None:
            return "not known"
        number = f"{self.value:.4g}" if isinstance(self.value, float) else str(self.value)
        return f"{number} {self.unit}".rstrip()


def figures(kernel: Kernel) -> list[Figure]:
    """All of them, in the order in which they are shown."""
    resources = kernel.resources or {}
    limits = resources.get("occupancy") or {}
    launch = kernel.launch or {}
    block = launch.get("block")
    time = kernel.timing.estimate if kernel.timing is not None else {}
    result = [
        Figure("CTAs on an SM", limits.get("ctas"), "", f"limited by {limits['limit']}" if limits.get("limit") else ""),
        Figure("warps on an SM", limits.get("warps"), f"of {limits['most_warps']}" if limits.get("most_warps") else ""),
        Figure("registers of a thread", resources.get("registers"), ""),
        Figure("shared memory of a CTA", resources.get("shared"), "bytes"),
        Figure("stack of a thread", resources.get("stack"), "bytes"),
        Figure("spills stored", resources.get("spill_stores"), "bytes"),
        Figure("spills loaded", resources.get("spill_loads"), "bytes"),
        Figure("threads of a CTA", block[0] * block[1] * block[2] if block else None, ""),
        Figure("machine instructions", _instructions(kernel), ""),
        Figure("layout conversions", len(kernel.conversions) if "tileas" in kernel.levels else None, "",
               _through_memory(kernel)),
        Figure("obstacles", len(kernel.obstacles) if kernel.choices else None, ""),
    ]  # fmt: skip
    if time:
        held_by = time["occupancy"]
        result += [
            Figure(f"time on {time['gpu']}", float(time["microseconds"]), "us", f"estimated, bound by {time['bound']}"),
            Figure("waves", float(held_by["waves"]), "", _tail(float(held_by["waves"]))),
        ]
    return result


def _instructions(kernel: Kernel) -> int | None:
    if kernel.memory is not None and kernel.memory.registers:
        return len(kernel.memory.registers)
    return None


def _through_memory(kernel: Kernel) -> str:
    count = sum(each.kind == "shared memory" for each in kernel.conversions)
    return f"{count} through shared memory" if count else ""


def _tail(waves: float) -> str:
    """Share of the GPU that the last wave fills."""
    part = waves % 1
    return f"the last one fills {part:.0%} of the GPU" if part else "no tail"


# ---- answers -----------------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """A question of a kernel's author, answered from the report."""

    question: str
    answer: str
    places: tuple[int, ...] = ()


def answers(kernel: Kernel) -> list[Answer]:
    """Occupancy limit, narrow accesses with their remedies, and the lines where warps stall."""
    result = []
    limits = (kernel.resources or {}).get("occupancy")
    if limits:
        ctas = f"{limits['ctas']} CTA{'s' * (limits['ctas'] != 1)} run on an SM at once, limited by {limits['limit']}."
        fix = next((each.remedy for each in kernel.obstacles if each.kind == "occupancy"), "")
        result.append(Answer("Why not more CTAs on an SM?", f"{ctas} {_sentence(fix)}".strip()))
    narrow = [each for each in kernel.obstacles if each.kind == "access"]
    for each in narrow:
        text = f"{each.what}, because {each.why}. {_sentence(each.remedy)}".strip()
        result.append(Answer("Which access is not vectorised?", text, each.places))
    if kernel.choices and not narrow:
        result.append(Answer("Which access is not vectorised?", "None: all of them move 16 bytes at once, or their "
                            "whole share of a tile."))  # fmt: skip
    if kernel.timing is not None:
        result.append(_waiting(kernel, ("barrier", "mbarrier", "cluster barrier"), "Which barrier costs most?"))
        result.append(_waiting(kernel, (), "Where do warps wait longest?"))
    return result


def _waiting(kernel: Kernel, reasons: Sequence[str], question: str) -> Answer:
    """The line with the longest stalls, for any reason or for the given ones."""
    assert kernel.timing is not None
    most, best = 0.0, None
    for each in kernel.timing.stalls:
        share = sum(part for reason, part in each.reasons.items() if not reasons or reason in reasons)
        if share > most:
            most, best = share, each
    if best is None:
        return Answer(question, "No source line has any.")
    of = f" ({max(best.reasons, key=lambda reason: best.reasons[reason])})" if not reasons else ""
    return Answer(question, f"{best.file}:{best.line}: {most:.1%} of the warps' time{of}.", best.places)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "." if text else ""


# ---- against another report --------------------------------------------------------------------------------------

DIFFERENCE_LINES = 400


class Compared(NamedTuple):
    """One figure of two reports."""

    name: str
    before: str
    after: str
    change: float | None
    """Of `after` to `before`, None where one is not a number or `before` is 0."""


class TextChange(NamedTuple):
    """Differences in the text of a level."""

    level: str
    added: int
    removed: int
    difference: str
    """A unified diff, cut off after DIFFERENCE_LINES."""


class Difference(NamedTuple):
    """A kernel of a report against the same one of another."""

    kernel: str
    """`Kernel.key`."""
    other: str
    figures: tuple[Compared, ...]
    options: tuple[Compared, ...]
    texts: tuple[TextChange, ...]
    gone: tuple[str, ...]
    """Obstacles that only the other report has."""
    new: tuple[str, ...]
    """Obstacles that only this report has."""
    stages: tuple[Compared, ...]
    """Durations of stages, in seconds."""


def differences(report: Report, other: Report) -> tuple[Difference, ...]:
    """Compare the kernels of `report` with those of `other`: of the same source, name and target, else of the same
    name and target, else of the same name."""
    result = []
    for kernel in report.kernels:
        same = _counterpart(kernel, other)
        if same is not None:
            result.append(_difference(kernel, same))
    return tuple(result)


def _counterpart(kernel: Kernel, other: Report) -> Kernel | None:
    candidates = [each for each in other.kernels if each.name == kernel.name]
    order = sorted(candidates, key=lambda each: (each.key != kernel.key, each.target != kernel.target))
    return order[0] if order else None


def _difference(kernel: Kernel, other: Kernel) -> Difference:
    before = {figure.name: figure for figure in figures(other)}
    after = {figure.name: figure for figure in figures(kernel)}
    rows = [_compare(name, before.get(name), after.get(name)) for name in dict.fromkeys([*after, *before])]
    names = sorted({*kernel.options, *other.options})
    options = [
        Compared(name, str(other.options.get(name, "default")), str(kernel.options.get(name, "default")), None)
        for name in names if kernel.options.get(name) != other.options.get(name)
    ]  # fmt: skip
    if (kernel.target, kernel.opt_level) != (other.target, other.opt_level):
        levels = [f"{each.target} O{each.opt_level}" for each in (other, kernel)]
        options.insert(0, Compared("target", levels[0], levels[1], None))
    texts = [_text_change(level, kernel, other) for level in LEVELS if level in kernel.levels and level in other.levels]
    mine, theirs = ({f"{each.what}: {each.why}" for each in one.obstacles} for one in (kernel, other))
    return Difference(
        kernel.key, other.key, tuple(rows), tuple(options), tuple(each for each in texts if each is not None),
        tuple(sorted(theirs - mine)), tuple(sorted(mine - theirs)), tuple(_stage_times(kernel, other)),
    )  # fmt: skip


def _compare(name: str, before: Figure | None, after: Figure | None) -> Compared:
    old, new = (each.value if each is not None else None for each in (before, after))
    change = new / old - 1 if old and new is not None else None
    return Compared(name, before.text if before else "not known", after.text if after else "not known", change)


def _text_change(level: str, kernel: Kernel, other: Kernel) -> TextChange | None:
    before, after = other.levels[level].text.splitlines(), kernel.levels[level].text.splitlines()
    if before == after:
        return None
    rows = list(difflib.unified_diff(before, after, "before", "after", lineterm="", n=2))
    added = sum(row.startswith("+") for row in rows[2:])
    removed = sum(row.startswith("-") for row in rows[2:])
    if len(rows) > DIFFERENCE_LINES:
        rows = [*rows[:DIFFERENCE_LINES], f"... {len(rows) - DIFFERENCE_LINES} further lines"]
    return TextChange(level, added, removed, "\n".join(rows))


def _stage_times(kernel: Kernel, other: Kernel) -> list[Compared]:
    before = {stage.name: stage.seconds for stage in other.stages}
    rows = []
    for stage in kernel.stages:
        old, new = before.get(stage.name), stage.seconds
        times = ["not known" if each is None else f"{1000 * each:.0f} ms" for each in (old, new)]
        rows.append(Compared(stage.name, times[0], times[1], new / old - 1 if old and new is not None else None))
    return rows

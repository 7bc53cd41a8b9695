"""A report as Markdown, for a pull request: figures, answers, obstacles, stages, and differences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tileiras.report.figures import Difference, answers, figures
from tileiras.report.model import Kernel, Report, Verdict


def markdown(report: Report, against: Sequence[Difference] = ()) -> str:
    parts = [f"# {_plain(report.title)}", ""]
    parts += [f"- {_plain(each)}" for each in report.missing] + [""] * bool(report.missing)
    compared = {each.kernel: each for each in against}
    for kernel in report.kernels:
        parts += _kernel(kernel)
        if kernel.key in compared:
            parts += _difference(compared[kernel.key])
    return "\n".join(parts).rstrip("\n") + "\n"


def _kernel(kernel: Kernel) -> list[str]:
    level = "" if kernel.opt_level is None else f" O{kernel.opt_level}"
    parts = [f"## {_plain(kernel.name)} ({_plain(kernel.source)}, {kernel.target}{level})", ""]
    parts += _table(("", "", ""), [(each.name, each.text, each.why) for each in figures(kernel)])
    result = answers(kernel)
    if result:
        parts += [f"- **{each.question}** {_where(kernel, each.places)}{_plain(each.answer)}" for each in result] + [""]
    if kernel.obstacles:
        rows = [(_where(kernel, each.places), each.what, each.why, each.remedy) for each in kernel.obstacles]
        parts += ["### Obstacles", "", *_table(("location", "choice", "reason", "remedy"), rows)]
    if kernel.options:
        rows = [(name, str(value)) for name, value in kernel.options.items()]
        parts += ["### Options", "", *_table(("option", "value"), rows)]
    if kernel.order:
        rows = [(_where(kernel, each.places), each.kind, each.message) for each in kernel.order]
        parts += ["### Order of sums", "", *_table(("where", "kind", "what"), rows)]
    if kernel.verdict is not None:
        parts += _verdict(kernel, kernel.verdict)
    rows = [(each.name, each.outcome, _seconds(each.seconds), "; ".join(each.why)) for each in kernel.stages]
    parts += ["### Stages", "", *_table(("stage", "outcome", "time", "reason"), rows)]
    if kernel.missing:
        parts += ["### Not available", "", *(f"- {_plain(each)}" for each in kernel.missing), ""]
    return parts


def _verdict(kernel: Kernel, verdict: Verdict) -> list[str]:
    shares = ", ".join(f"{kind} {reached} of {total}" for kind, (reached, total) in verdict.coverage.items())
    line = (
        f"**{_plain(verdict.status)}**: {verdict.right} of {verdict.launches} launches right, largest error"
        f" {verdict.worst_ulps:.3g} units in the last place; covered: {_plain(shares) or 'nothing'}"
    )
    rows = [(_where(kernel, each.places), each.kind, each.message) for each in (*verdict.findings, *verdict.uncovered)]
    return ["### Verdict", "", line, "", *(_table(("where", "kind", "what"), rows) if rows else [])]


def _difference(difference: Difference) -> list[str]:
    rows = [(each.name, each.before, each.after, "" if each.change is None else f"{each.change:+.1%}")
            for each in difference.figures if each.before != each.after]  # fmt: skip
    parts = ["### Against the other build", ""]
    parts += _table(("", "before", "after", ""), rows) if rows else ["No figure is different.", ""]
    if difference.options:
        parts += _table(("option", "before", "after"), [(e.name, e.before, e.after) for e in difference.options])
    if difference.texts:
        texts = [(each.level, f"+{each.added}", f"-{each.removed}") for each in difference.texts]
        parts += _table(("level", "lines added", "lines removed"), texts)
    parts += [f"- gone: {_plain(each)}" for each in difference.gone]
    parts += [f"- new: {_plain(each)}" for each in difference.new]
    return [*parts, ""]


def _where(kernel: Kernel, places: Sequence[int]) -> str:
    return f"{kernel.places[places[0]].file}:{kernel.places[places[0]].line} " if places else ""


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.0f} ms"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(map(_plain, row))} |" for row in rows), ""]


_MARKS = str.maketrans({mark: "\\" + mark for mark in "\\`*_[]<>|#~&!"})


def _plain(text: str) -> str:
    """Escape text for Markdown."""
    return " ".join(text.translate(_MARKS).split())

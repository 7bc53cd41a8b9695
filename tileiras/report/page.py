"""A report as one HTML file: no network access, no scripts but its own, and a kernel's text is never markup.

Jinja2 escapes all input except the output of `highlight` and `charts`, which is already escaped; the page's policy
lists scripts and styles by their digests, so that no others run.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import json
from collections.abc import Sequence
from typing import Any

from tileiras.report import charts
from tileiras.report.figures import Difference, answers, figures
from tileiras.report.model import LEVELS, Kernel, Report, as_json

PAGE, STYLE, SCRIPT = "page.html.j2", "page.css", "page.js"

FIRST_SHOWN = ("source", "tileas", "sass")
"""Levels that are initially open."""


def page(report: Report, against: Sequence[Difference] = ()) -> str:
    """The text of the file.  Raises ImportError without Jinja2 or Pygments (extra `report`)."""
    import jinja2

    style, script = _part(STYLE), _part(SCRIPT)
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(milliseconds=_milliseconds, places=charts.attribute, percent=lambda x: f"{x:+.1%}")
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    compared = {each.kernel: each for each in against}
    return environment.from_string(_part(PAGE)).render(
        report=report, policy=policy, style=_safe(style), script=_safe(script),
        kernels=[_fields(number, kernel, compared.get(kernel.key)) for number, kernel in enumerate(report.kernels)],
        data=_safe(_data(report)), levels=LEVELS, first_shown=FIRST_SHOWN,
    )  # fmt: skip


def _fields(number: int, kernel: Kernel, difference: Difference | None) -> dict[str, Any]:
    """Template variables of a kernel."""
    memory = kernel.memory
    return {
        "id": f"k{number}", "it": kernel, "figures": figures(kernel), "answers": answers(kernel),
        "levels": [_level(kernel, name) for name in LEVELS if name in kernel.levels],
        "arena": _safe(charts.arena(memory)) if memory is not None and memory.areas else "",
        "tensor_memory": _safe(charts.tensor_memory(memory)) if memory is not None and memory.tensor else "",
        "registers": _safe(charts.registers(kernel)) if memory is not None and memory.registers else "",
        "timeline": _safe(charts.timeline(kernel.timing)) if kernel.timing is not None else "",
        "roofline": _safe(charts.roofline(kernel.timing.roofline)) if kernel.timing is not None else "",
        "stalls": _safe(charts.stalls(kernel.timing.stalls)) if kernel.timing is not None else "",
        "difference": difference, "where": lambda places: _where(kernel, places),
    }  # fmt: skip


def _level(kernel: Kernel, name: str) -> dict[str, Any]:
    from tileiras.report import highlight

    level = kernel.levels[name]
    marked = highlight.lines(level.text.rstrip("\n"), highlight.lexer_of(name, level.file))
    remarks = _remark_lines(kernel) if name == "source" else {}
    rows = []
    for number, line in enumerate(marked):
        places = level.places[number] if number < len(level.places) else ()
        ptx = level.ptx_lines[number] if number < len(level.ptx_lines) else 0
        rows.append({"text": _safe(line), "places": charts.attribute(places), "ptx": ptx,
                     "notes": remarks.get(places[0], ()) if places else ()})  # fmt: skip
    return {"name": name, "file": level.file, "rows": rows}


def _remark_lines(kernel: Kernel) -> dict[int, list[str]]:
    """Remarks by line of the source."""
    remark_lines: dict[int, list[str]] = {}
    for choice in kernel.choices:
        if choice.places:
            text = ", ".join(f"{name} = {value}" for name, value in choice.arguments.items())
            reason = f": {choice.reason}" if choice.reason else ""
            remark_lines.setdefault(choice.places[0], []).append(
                f"{choice.message}{f' ({text})' if text else ''}{reason}"
            )
    return remark_lines


def _where(kernel: Kernel, places: Sequence[int]) -> str:
    return f"{kernel.places[places[0]].file}:{kernel.places[places[0]].line}" if places else ""


def _data(report: Report) -> str:
    """Data of the page's script, and the figures, as JSON that cannot end the script element."""
    kernels = [
        {
            "key": kernel.key, "places": [f"{place.file}:{place.line}" for place in kernel.places],
            "layouts": as_json(kernel.layouts),
            "figures": {figure.name: figure.value for figure in figures(kernel)},
            "timing": as_json(kernel.timing.estimate) if kernel.timing is not None else None,
        }
        for kernel in report.kernels
    ]  # fmt: skip
    text = json.dumps({"kernels": kernels}, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e").replace("\u2028", "\\u2028")


def _part(name: str) -> str:
    return importlib.resources.files("tileiras.report").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _safe(text: str) -> Any:
    """Mark text as escaped markup."""
    import markupsafe

    return markupsafe.Markup(text)


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.0f} ms"

"""HTML tables for notebooks, used by `_repr_html_` of results."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def table(caption: str, rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """An HTML table with all text escaped; without a head, the first column holds row headers."""
    parts = [f"<table><caption>{html.escape(caption)}</caption>"]
    if head:
        parts.append("<tr>" + "".join(f"<th>{html.escape(each)}</th>" for each in head) + "</tr>")
    for row in rows:
        first, *others = (html.escape(str(each)) for each in row)
        name = f"<td>{first}</td>" if head else f"<th>{first}</th>"
        parts.append(f"<tr>{name}" + "".join(f"<td>{each}</td>" for each in others) + "</tr>")
    return "".join([*parts, "</table>"])

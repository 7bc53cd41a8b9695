"""The tables of `docs/passes.md` that follow from declarations: python docs/passes_tables.py writes them anew."""

from __future__ import annotations

import re
from pathlib import Path

from tileiras.driver import tileir_pipeline
from tileiras.passes import lookup_pass, names

PAGE = Path(__file__).with_name("passes.md")


def contracts() -> str:
    rows = ["| pass | needs | establishes | keeps |", "|---|---|---|---|"]
    for name in names():
        result = lookup_pass(name)
        rows.append(f"| `{name}` | {result.needs} | {result.establishes} | {result.keeps} |")
    return "\n".join(rows)


def options() -> str:
    rows = ["| option | type | default | documented consumer | read here by |", "|---|---|---|---|---|"]
    rows += [f"| `{name}` | {kind} | {default} | {consumer} | {ours} |"
             for name, kind, default, consumer, ours in tileir_pipeline.option_rows()]  # fmt: skip
    return "\n".join(rows)


def levels() -> str:
    rows = ["| level | documented | ours | |", "|---|---|---|---|"]
    for row in tileir_pipeline.ROWS:
        ours = ", ".join(f"`{name}`" for name in row.ours) or "none"
        rows.append(f"| O{row.level} | `{row.documented}` | {ours} | {row.remark} |")
    return "\n".join(rows)


def page(text: str) -> str:
    """The text with its tables, which stand between `<!-- NAME -->` and `<!-- end -->`, as they are now."""
    for name, table in (("contracts", contracts()), ("options", options()), ("levels", levels())):
        text = re.sub(rf"(<!-- {name} -->\n).*?(<!-- end -->)", rf"\1\n{_escaped(table)}\n\n\2", text, flags=re.DOTALL)
    return text


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

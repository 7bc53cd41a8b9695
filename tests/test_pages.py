"""The pages of docs/, README.md and CHANGELOG.md: short lines, links that lead somewhere, all pages listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tileiras.stages.tileas import DECISIONS

ROOT = Path(__file__).parents[1]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")))
WIDTH = 120


def long_lines(text: str) -> list[int]:
    """Numbers of lines above WIDTH; those of tables do not count, nor URLs in code, which cannot be broken."""
    found, fenced = [], False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.startswith("```")
        in_code = fenced or line.startswith("    ")
        if len(line) > WIDTH and not line.startswith("|") and not (in_code and "://" in line):
            found.append(number)
    return found


def test_long_lines_are_found():
    long = "x" * (WIDTH + 1)
    text = (
        f"short\n{long}\n|{long}\n    https://{long}\n    {long}\n```\nhttps://{long}\n{long}\n```\n- https://{long}\n"
    )
    assert long_lines(text) == [2, 5, 8, 10]


@pytest.mark.parametrize("page", PAGES)
def test_lines_are_short(page):
    assert long_lines((ROOT / page).read_text(encoding="utf-8")) == []


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_pages_and_headings(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), link


def test_readme_lists_all_pages():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = text[text.rindex("<!-- end -->") :]
    assert [page for page in PAGES if page.startswith("docs/") and f"]({page})" not in listed] == []


def test_architecture_has_the_decisions_in_their_order():
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    section = text.split("## The decisions of TileAS", 1)[1].split("\n## ", 1)[0]
    written = re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE)
    order = dict.fromkeys(row.name for row in DECISIONS)
    clean_ups = {"cse", "dce"}
    assert written == [name for name in order if name not in clean_ups]

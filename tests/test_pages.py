"""The pages of docs/, README.md and CHANGELOG.md: short lines, links that lead somewhere, all pages listed."""

from __future__ import annotations

import re

import pytest

from tests.prose import ROOT, defined
from tileiras.passes import PASSES
from tileiras.stages.tileas import DECISIONS

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/reports/*.md"))
)
WIDTH = 120


def long_lines(text: str) -> list[int]:
    """Numbers of lines above WIDTH; those of tables do not count, nor URLs in code, which cannot be broken."""
    result, fenced = [], False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.startswith("```")
        in_code = fenced or line.startswith("    ")
        if len(line) > WIDTH and not line.startswith("|") and not (in_code and "://" in line):
            result.append(number)
    return result


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


def test_changes_of_a_version_are_short():
    """One line for each change that a user sees; figures belong to docs/reports."""
    versions = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert [version.partition("\n")[0] for version in versions if version.strip().count("\n") >= 60] == []


def paragraphs(text: str) -> list[str]:
    """The blocks of a page between empty lines, without headings and comments."""
    return [block for block in text.strip().split("\n\n") if not block.startswith(("#", "<!--"))]


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_pages_name_their_readers_and_the_next_pages(page):
    first, *_, last = paragraphs((ROOT / page).read_text(encoding="utf-8"))
    assert first.startswith("For "), "the first paragraph names the readers: For users who ..."
    assert last.startswith("Next: ") and "](" in last, "the last paragraph leads on: Next: [page](page.md) for ..."


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


def absent(text: str) -> list[str]:
    """The places `PATH.py:NAME` of a text whose file, or whose name in the file, does not exist."""
    lacking = []
    for path, name in re.findall(r"`([\w/]+\.py):(\w+)`", text):
        file = next((base / path for base in (ROOT / "tileiras", ROOT) if (base / path).is_file()), None)
        if file is None or name not in defined(file):
            lacking.append(f"{path}:{name}")
    return lacking


def test_the_measure_of_places():
    text = "`support/lazy.py:lazy_names`, `tests/test_pages.py:absent`, `api.py:no_such`, `no/such.py:name`"
    assert absent(text) == ["api.py:no_such", "no/such.py:name"]


@pytest.mark.parametrize("page", PAGES)
def test_named_places_exist(page):
    assert absent((ROOT / page).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page, questions", [("docs/architecture.md", 5), ("docs/build.md", 7)])
def test_pages_answer_by_place(page, questions):
    text = (ROOT / page).read_text(encoding="utf-8")
    section = text.split("## Places of decisions", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("|")][2:]
    assert len([row for row in rows if row[0].strip()]) == questions
    assert all(re.search(r"`[\w/]+\.py:\w+`", row[1]) for row in rows)


def test_code_of_decisions_exists():
    """The last column of the table of decisions names files of `tileiras/`, later ones of a row in the same folder; the
    module that declares the pass is one of them."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    section = text.split("## The decisions of TileAS", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `([\w-]+)` \|.*\| ([^|]*) \|$", section, re.MULTILINE)
    assert len(rows) > 40
    for pass_name, code in rows:
        folder, files = ROOT / "tileiras", []
        for path in re.findall(r"`([^`]+)`", code):
            files.append(ROOT / "tileiras" / path if (ROOT / "tileiras" / path).exists() else folder / path)
            folder = files[-1].parent
        assert files and all(file.exists() for file in files), (pass_name, code)
        module = PASSES[pass_name].module
        declared = ROOT / "tileiras" / f"{module.replace('.', '/')}.py"
        assert declared in files or module.startswith("passes."), (pass_name, module)

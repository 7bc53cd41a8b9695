"""docs/glossary.md: every term has its place in the code, and the words that it replaces are not used."""

from __future__ import annotations

import re

import pytest

from tests.prose import ROOT, defined, passages

PAGE = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.startswith("|")][2:]
REPLACED = sorted(word for *_, words in ROWS for word in words.split(", ") if word)


def test_terms_are_in_order():
    terms = [row[0] for row in ROWS]
    assert terms == sorted(set(terms), key=str.lower) and len(terms) > 30


@pytest.mark.parametrize("term, code", [(row[0], row[2]) for row in ROWS])
def test_each_term_has_its_place_in_the_code(term, code):
    path, name = re.fullmatch(r"`([\w/]+\.py)(?::(\w+))?`", code).groups("")
    assert (ROOT / "tileiras" / path).is_file()
    assert not name or name in defined(ROOT / "tileiras" / path)


@pytest.fixture(scope="module")
def prose():
    paths = [*ROOT.glob("tileiras/**/*.py"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/reports/*.md")]
    return {path: " ".join(" ".join(passages(path)).split()) for path in paths if path.name != "glossary.md"}


@pytest.mark.parametrize("word", REPLACED)
def test_replaced_words_are_not_used(prose, word):
    pattern = re.compile(rf"\b{word}s?\b", re.IGNORECASE)
    assert [path.name for path, text in prose.items() if pattern.search(text)] == []

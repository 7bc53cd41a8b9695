"""The pages of docs/dialects/ match the declarations."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
spec = importlib.util.spec_from_file_location("dialect_reference", DOCS / "dialect_reference.py")
dialect_reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dialect_reference)


@pytest.mark.parametrize("dialect", dialect_reference.DIALECTS)
def test_page_matches_the_declarations(dialect):
    written = (DOCS / "dialects" / f"{dialect}.md").read_text(encoding="utf-8")
    assert written == dialect_reference.page(dialect), "run: python docs/dialect_reference.py"

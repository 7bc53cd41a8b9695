"""README.md and docs/targets.md have the limits of each target, and the features that PTX of the examples uses."""

import importlib.util
from pathlib import Path

import pytest

from tileiras.options import GPU_NAMES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def tables():
    spec = importlib.util.spec_from_file_location("targets_table", DOCS / "targets_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_limits(tables):
    table = tables.limits()
    assert len(table) == 2 + len(GPU_NAMES)
    text = (DOCS / "targets.md").read_text(encoding="utf-8")
    assert "\n".join(table) in text, "run: python docs/targets_table.py"
    assert tables.page(text, {"limits": table}) == text


def test_the_page_lists_the_drivers(tables):
    text = (DOCS / "targets.md").read_text(encoding="utf-8")
    assert "\n".join(tables.drivers()) in text, "run: python docs/targets_table.py"


def test_the_pages_list_the_instructions_of_the_examples(tables):
    table = tables.rows()
    assert [name for row in table[2:] for name in row.split("|")[1].strip().split(", ")] == list(GPU_NAMES)
    for path in tables.PAGES:
        text = path.read_text(encoding="utf-8")
        assert "\n".join(table) in text, "run: python docs/targets_table.py"
        assert tables.page(text, {"instructions": table}) == text

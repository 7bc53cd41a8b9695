"""README.md and docs/targets.md say what the compiler uses of each target as the PTX of the examples has it."""

import importlib.util
from pathlib import Path

from tileiras.options import GPU_NAMES

DOCS = Path(__file__).parents[2] / "docs"


def test_the_pages_say_what_the_examples_use():
    spec = importlib.util.spec_from_file_location("targets_table", DOCS / "targets_table.py")
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    table = tables.rows()
    assert len(table) == 2 + len(GPU_NAMES)
    for path in tables.PAGES:
        text = path.read_text(encoding="utf-8")
        assert "\n".join(table) in text, "run: python docs/targets_table.py"
        assert tables.page(text, table) == text

"""The bench of 10,000 kernels on a tree that is smaller: `python -m bench large_tree` is the whole."""

import sys

from project import CHECKOUT

sys.path.insert(0, CHECKOUT)

import pytest

from bench import large_tree  # noqa: E402


@pytest.mark.slow
def test_a_large_tree_is_served_from_the_store_and_found_clean(tmp_path):
    count = 150
    rows = {row.name: row for row in large_tree.measure(count, str(tmp_path))}
    assert (rows["first build"].ran, rows["first build"].served) == (
        5 * large_tree.DISTINCT, 5 * (count - large_tree.DISTINCT)
    )  # fmt: skip
    assert (rows["one leaf"].ran, rows["one leaf"].served) == (1, 0)
    for name in ("null", "null again", "null, whole graph"):
        assert (rows[name].ran, rows[name].served) == (0, 0)
    assert max(row.gib for row in rows.values()) < large_tree.LIMIT_GIB

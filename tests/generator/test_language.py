"""Words of the dialect that drawn kernels have."""

from __future__ import annotations

import pytest

import tileiras
from tests.generator import language
from tests.generator.forms import FORMS
from tests.generator.judge import draw
from tests.generator.language import vocabulary, words

MODULE = """
cuda_tile.module @m {
  entry @k(%x: tile<ptr<i8>>) {
    %token = make_token : token
    %one = constant <i8: 1> : tile<i8>
    %old, %after = atomic_rmw_tko acq_rel device %x, add, %one token = %token
        : tile<ptr<i8>>, tile<i8> -> tile<i8>, token
    return
  }
}
"""
REACHED = {
    "through views": "atomic_red_view_tko", "updated": "atomic_rmw_tko memory_scope=sys", "rotated": "extract",
    "shared": "atomic_cas_tko memory_ordering_semantics=acquire", "activated": "make_partition_view",
    "experts": "make_gather_scatter_view", "copied": "make_strided_view", "program": "element i16",
}  # fmt: skip
"""Family -> a word that one of its first kernels has."""


def test_words_are_operations_cases_types_and_ranks():
    module = tileiras.parse(MODULE.replace("i8", "i32"))
    assert {"atomic_rmw_tko", "atomic_rmw_tko mode=add", "atomic_rmw_tko memory_scope=device", "element i32", "rank 0",
            "atomic_rmw_tko of i32"} <= set(words(module))  # fmt: skip
    known = vocabulary()
    assert {"atomic_rmw_tko mode=xor", "load_view_tko", "element f8E5M2", "rank 4"} <= known
    assert "atomic_rmw_tko of i32" not in known


@pytest.mark.parametrize("form", REACHED)
def test_families_reach_words_of_their_own(form):
    for number in range(40):
        case = draw(number, (form,))
        if REACHED[form] in set(words(tileiras.parse(case.kernel.source()))):
            return
    pytest.fail(f"no kernel of {form} has {REACHED[form]}")


def test_the_command_names_missing_words(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["language.py", "2", "--forms", "rotated"])
    assert language.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert "atomic_rmw_tko" in lines and "load_view_tko" not in lines and "words of the dialect" in lines[-1]
    assert set(REACHED) <= set(FORMS)

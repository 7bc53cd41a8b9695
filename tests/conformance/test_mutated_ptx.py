"""A small part of the sweep of mutated kernels: both errors and right results occur."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from mutated_ptx import judge, main, mutant, mutate, subjects

SUBJECTS = subjects()


@pytest.mark.parametrize("name", [subject.name for subject in SUBJECTS])
def test_the_kernels_are_right_as_they_are(name):
    (subject,) = (subject for subject in SUBJECTS if subject.name == name)
    assert all(subject.run(subject.ptx, seed) for seed in (None, 0, 1))


def test_mutants_are_errors_or_right():
    outcomes = {number: judge(number, SUBJECTS)[1] for number in range(60)}
    assert {number: outcome for number, outcome in outcomes.items() if outcome not in ("right", "error")} == {}
    counts = Counter(outcomes.values())
    assert counts["right"] > 5 and counts["error"] > 25


def test_a_mutant_is_the_same_every_time():
    assert mutant(17, SUBJECTS)[1:] == mutant(17, SUBJECTS)[1:]
    assert all(mutant(number, SUBJECTS)[1] != mutant(number, SUBJECTS)[0].ptx for number in range(40))


def test_figures_are_kept_to_go_on_from(tmp_path, capsys, monkeypatch):
    """A second run executes only the missing mutants; the figures equal those of a single run."""
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    for arguments in (["20", "--figures", whole], ["8", "--figures", parts], ["20", "--figures", parts]):
        monkeypatch.setattr("sys.argv", ["mutated_ptx.py", *map(str, arguments), "--kernels", "pipeline,exchange"])
        assert main() == 0
    assert whole.read_text() == parts.read_text()
    first, _, last = (text.rpartition(";")[0] for text in capsys.readouterr().out.split(" s\n")[:3])
    assert first == last and "20 different texts" in first
    monkeypatch.setattr("sys.argv", ["mutated_ptx.py", "20", "--figures", str(parts), "--seed", "5"])
    with pytest.raises(SystemExit, match="is of another run"):
        main()


def test_labels_stay_where_they_are():
    """A deleted statement may be followed by two others."""
    ptx = "{\nadd.u32 %r1, %r1, 1;\nDRAIN: \nREADY: bar.sync 0;\nadd.u32 %r1, %r1, 1;\n}\n"
    mutants = {mutate(ptx, None, random.Random(number)) for number in range(50)}
    assert len(mutants) > 5
    assert all(re.search(r";\nDRAIN: \nREADY:", mutant) for mutant in mutants)

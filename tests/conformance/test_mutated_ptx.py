"""A small part of the sweep of mutated kernels: errors or right results, of both some."""

from __future__ import annotations

from collections import Counter

import pytest
from mutated_ptx import judge, mutant, subjects

SUBJECTS = subjects()


@pytest.mark.parametrize("name", [subject.name for subject in SUBJECTS])
def test_the_kernels_are_right_as_they_are(name):
    (subject,) = (subject for subject in SUBJECTS if subject.name == name)
    assert all(subject.run(subject.ptx, seed) for seed in (None, 0, 1))


def test_mutants_are_errors_or_right():
    # In the last two a product is waited for after its stage has been filled again.
    outcomes = {number: judge(number, SUBJECTS)[1] for number in (*range(60), 4532, 4996)}
    assert outcomes[4532] == outcomes[4996] == "error"
    assert {number: outcome for number, outcome in outcomes.items() if outcome not in ("right", "error")} == {}
    counts = Counter(outcomes.values())
    assert counts["right"] > 5 and counts["error"] > 25


def test_a_mutant_is_the_same_every_time():
    assert mutant(17, SUBJECTS)[1:] == mutant(17, SUBJECTS)[1:]
    assert sum(mutant(number, SUBJECTS)[1] != mutant(number, SUBJECTS)[0].ptx for number in range(40)) > 30

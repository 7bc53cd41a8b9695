"""The generator is deterministic, agrees with the interpreter, and a sample of its kernels is right."""

from __future__ import annotations

import numpy as np
import pytest

from tests.generator.choices import Choices
from tests.generator.judge import FORMS, draw, interpreted, judge


@pytest.mark.parametrize("form", FORMS)
def test_a_seed_gives_one_kernel(form):
    first, second = (FORMS[form][1](Choices(7)) for _ in range(2))
    assert (first.text(), first.constants, first.grid) == (second.text(), second.constants, second.grid)
    for one, other in zip(first.slots()[0], second.slots()[0], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("form", FORMS)
def test_numpy_and_the_interpreter_agree(form):
    for seed in range(2):
        kernel, given = draw(seed, (form,))
        assert interpreted(kernel, given.hints) == ""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("form", FORMS)
def test_sampled_kernels_are_right(form):
    for seed in range(5000, 5004):
        verdict = judge(seed, *draw(seed, (form,)))
        assert verdict.status == "right", verdict

"""The generator is deterministic and agrees with the interpreter; the first cases of its sequence are right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.generator import covered
from tests.generator.__main__ import main
from tests.generator.choices import Choices
from tests.generator.forms import FORMS
from tests.generator.judge import FINE, draw, interpreted, judge
from tests.generator.options import Weights

ROOT = Path(__file__).resolve().parents[2]
FIXED_RUN = 30
"""Cases of the plain sequence that every run of the tests judges."""


@pytest.mark.parametrize("form", FORMS)
def test_a_number_gives_one_kernel(form):
    first, second = (FORMS[form][1](Choices(7)) for _ in range(2))
    assert (first.text(), first.constants, first.grid) == (second.text(), second.constants, second.grid)
    for one, other in zip(first.slots()[0], second.slots()[0], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("form", FORMS)
def test_numpy_and_the_interpreter_agree(form):
    case = draw(1, (form,))
    assert interpreted(case.kernel, case.build.decorator) == ""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("form", FORMS)
def test_numpy_and_the_interpreter_agree_on_more(form):
    for number in range(2, 6):
        case = draw(number, (form,))
        assert interpreted(case.kernel, case.build.decorator) == ""


def test_rows_that_are_loaded_are_updated_by_one_tile_block():
    """Otherwise the program has a race, whose outcome no order of warps shows in every case."""
    loads = [each for number in range(200) if "load_offset" in (each := FORMS["updated"][1](Choices(number))).body]
    assert any(each.grid[0] > 1 for each in loads)
    for kernel in loads:
        rows, height = kernel.arguments[1].value, len(kernel.arguments[2].value)
        inside = rows[rows < height]
        assert kernel.grid[0] == 1 or len(set(inside)) == len(inside), kernel.body


@pytest.fixture(scope="module")
def weights() -> Weights:
    return covered.weights(covered.read())


@pytest.mark.sampled(15)
@pytest.mark.parametrize("number", range(FIXED_RUN))
def test_the_fixed_run_is_right(number, weights):
    verdict = judge(draw(number, weights=weights))
    assert verdict.status in FINE, verdict


def test_the_command_judges_the_same_cases(capfd, tmp_path, weights):
    """A run of two cases from their number on; its figures are not judged again."""
    figures = tmp_path / "figures"
    arguments = ["2", "--seed", "3", "--forms", "places,along", "--figures", str(figures)]
    assert main(arguments) == 0
    lines = figures.read_text().splitlines()
    case = draw(3, ("places", "along"), weights=weights)
    assert len(lines) == 2 and any(str(case.build) in line and case.kernel.form in line for line in lines)
    assert main(arguments) == 0 and figures.read_text().splitlines() == lines
    shown = capfd.readouterr().out
    assert "| all |" in shown and "impossible" in shown


def test_a_build_runs_them_for_some_time():
    words = [sys.executable, "-m", "SCons", "-n", "conformance", "fuzz=7", "seed=3", "workers=1"]
    stdout = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    commands = [line for line in stdout.splitlines() if "tests/" in line]
    assert len(commands) == 1 and commands[0].endswith("tests/generator --seconds 7 --seed 3 --jobs 1")

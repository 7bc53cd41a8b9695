"""Cases that are run of tests with several independent parameters."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pairwise import pairwise, sample, spaced


@pytest.mark.parametrize("sizes", [(3, 4, 2), (14, 2, 2), (6, 3, 6), (2, 2, 2, 2, 2)])
def test_every_two_values_meet_in_fewer_combinations(sizes):
    axes = [[f"{axis}{value}" for value in range(size)] for axis, size in enumerate(sizes)]
    result = pairwise(axes)
    every = list(itertools.product(*axes))
    assert result == [each for each in every if each in result] and result == pairwise(axes)
    for one, other in itertools.combinations(range(len(axes)), 2):
        assert {(each[one], each[other]) for each in result} == set(itertools.product(axes[one], axes[other]))
    assert len(result) < len(every) * 0.7


def test_two_parameters_have_no_fewer():
    assert pairwise([[1, 2], [3, 4]]) == [(1, 3), (1, 4), (2, 3), (2, 4)]


@pytest.mark.parametrize(("option", "count"), [((), 4), (("--every-combination",), 8)])
def test_the_runner_of_all_has_every_combination(tmp_path, option, count):
    case = "import pytest\n@pytest.mark.pairwise(a=[1, 2], b='xy', c=[None, 0])\ndef test_it(a, b, c):\n    pass\n"
    (tmp_path / "test_case.py").write_text(case)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", *option, str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
    assert f"{count} passed" in done.stdout


@pytest.mark.parametrize("length", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("count", [1, 2, 5, 10])
def test_samples_are_spread_over_all_cases(count, length):
    chosen = sorted(spaced(count, length))
    assert len(chosen) == min(count, length) and 0 <= chosen[0] and chosen[-1] < length
    assert all(behind - before <= -(-length // count) for before, behind in zip(chosen, chosen[1:], strict=False))


@pytest.mark.parametrize(("sizes", "count"), [((4, 2), 4), ((6, 2, 2), 6), ((2, 3, 4), 4), ((3, 5), 5), ((9, 2), 3)])
def test_samples_have_every_value_of_a_parameter(sizes, count):
    cases = [dict(zip("abc", each)) for each in itertools.product(*map(range, sizes))]
    chosen = [cases[at] for at in sample(count, cases)]
    assert len(chosen) == count
    for name, size in zip("abc", sizes):
        assert size > count or {case[name] for case in chosen} == set(range(size))


def test_samples_of_one_parameter_are_spaced():
    assert sample(3, [{"a": at} for at in range(12)]) == spaced(3, 12)

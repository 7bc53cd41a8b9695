"""Hints are advice: a meaningless hint is named, and counts as absent."""

import pytest

from tileiras.dialects.cuda_tile.attributes import OptimizationHintsAttr
from tileiras.ir import parse_attribute


def hints(text):
    return parse_attribute(f"#cuda_tile.optimization_hints<{text}>")


def test_architecture_wins_over_default():
    result = hints("default = {occupancy = 2}, sm_90 = {occupancy = 4}")
    assert isinstance(result, OptimizationHintsAttr)
    assert result.hint("sm_90", "occupancy") == 4
    assert result.hint("sm_80", "occupancy") == 2
    assert result.hint("sm_90", "latency") is None


def test_switch_is_a_bool():
    assert hints("sm_90 = {allow_tma = false}").hint("sm_90", "allow_tma") is False


def test_clusters_count_as_absent_where_unsupported():
    result = hints("default = {num_cta_in_cga = 2}")
    assert result.hint("sm_80", "num_cta_in_cga") is None
    assert result.hint("sm_90", "num_cta_in_cga") == 2


@pytest.mark.parametrize(
    ("text", "operation", "problem"),
    [
        ("sm_91 = {occupancy = 2}", "cuda_tile.entry", "unknown hint key sm_91"),
        ("sm_90 = {latency = 2}", "cuda_tile.entry", "latency is not known hint for current Operation"),
        ("sm_80 = {num_cta_in_cga = 2}", "cuda_tile.entry", "expected 1 for sm_80.num_cta_in_cga"),
        ("sm_90 = {num_cta_in_cga = 3}", "cuda_tile.entry", "expected power-of-two ≤ 16 for sm_90.num_cta_in_cga"),
        (
            "sm_90 = {latency = 11}",
            "cuda_tile.load_ptr_tko",
            "integer value in the range [1, 10] is expected for sm_90.latency",
        ),
        ("sm_90 = {allow_tma = 1}", "cuda_tile.load_view_tko", "boolean value expected for sm_90.allow_tma"),
        ('sm_90 = {occupancy = "all"}', "cuda_tile.entry", "integer value expected for sm_90.occupancy"),
    ],
)
def test_problem_is_named(text, operation, problem):
    assert hints(text).problems(operation) == [problem]


def test_good_hints_have_no_problems():
    assert hints("default = {occupancy = 8}, sm_100 = {num_cta_in_cga = 2}").problems("cuda_tile.entry") == []


def test_keys_that_are_no_words_are_printed_as_strings():
    result = hints('"de\\01ault" = {"o ccupancy" = 3}')
    assert '"de\\01ault" = {"o ccupancy" = 3}' in str(result)
    assert parse_attribute(str(result)) is result

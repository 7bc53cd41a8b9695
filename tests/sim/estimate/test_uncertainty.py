"""Intervals over unknown parameters, and comparisons under the same parameters."""

from math import hypot, log

import pytest

from tileiras.sim.estimate import uncertainty
from tileiras.sim.estimate.uncertainty import Needs
from tileiras.targets import best_published, rates
from tileiras.targets.rates import gpu

H200 = gpu("H200")


def needs(l2: float = 0.0, dram: float = 0.0, tensor: float = 0.0, other: float = 0.0, rest: float = 0.0) -> Needs:
    return Needs(l2, dram, tensor, other, rest, 0.0)


def test_the_parts_of_a_time_are_the_time():
    result = uncertainty.split(102.0, {"L2": 60.0, "tensor": 80.0, "issue": 90.0, "FMA": 20.0}, 2.0)
    assert result == Needs(60.0, 0.0, 80.0, 90.0, 10.0, 2.0)
    assert result.under(uncertainty.NEUTRAL) == 102.0


def test_a_known_unit_varies_with_clock_and_model_alone():
    low, high = uncertainty.interval(needs(other=100.0), H200)
    clock = uncertainty.spreads(H200)["clock"]
    assert log(high / 100) == pytest.approx(hypot(log(1 / (1 - clock)), log(1 + uncertainty.RESIDUAL)))
    assert log(100 / low) == pytest.approx(hypot(log(1 + clock), log(1 + uncertainty.RESIDUAL)))


def test_copies_do_not_depend_on_the_clock_of_the_sms():
    time = needs(dram=100.0)
    assert time.under({**uncertainty.NEUTRAL, "clock": 0.9}) == time.under(uncertainty.NEUTRAL)


@pytest.mark.parametrize("part", ["l2", "dram", "rest"])
def test_unknown_values_widen_the_interval(part):
    low, high = uncertainty.interval(needs(**{part: 100.0}), H200)
    assert low < 100 / (1 + uncertainty.RESIDUAL) and high > 100 * (1 + uncertainty.RESIDUAL)


def test_no_corner_exceeds_the_peak_of_the_tensor_cores():
    for name in rates.names():
        chosen = gpu(name)
        assert all(factors["tensor"] * chosen.tensor_reach <= 1.0001 for factors in uncertainty.corners(chosen))


def test_launches_with_one_parameter_are_compared_under_it():
    """Twice the traffic takes longer at any bandwidth, though the intervals of the times overlap."""
    one, other = needs(l2=100.0), needs(l2=110.0)
    assert uncertainty.interval(one, H200)[1] > uncertainty.interval(other, H200)[0]
    assert uncertainty.faster(one, other, H200) and not uncertainty.faster(other, one, H200)
    assert uncertainty.ratios(one, other, H200) == pytest.approx((1 / 1.1, 1 / 1.1))


def test_overlapping_bounds_leave_launches_unranked():
    one, other = needs(l2=100.0), needs(other=104.0)
    assert not uncertainty.faster(one, other, H200) and not uncertainty.faster(other, one, H200)


def test_the_best_published_figures_are_below_the_peaks():
    for (name, element), figure in best_published.BEST.items():
        chosen = gpu(name)
        assert figure.value * 1e6 <= chosen.tensor[element] * chosen.sms * chosen.clock_mhz * 1.001
        assert figure.source

"""Clocks at a power limit: those of published kernels, and their effect on times."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from bench.probes import PROBES  # noqa: E402
from tests.machine_code import needs_tools  # noqa: E402
from tileiras.sim import estimate  # noqa: E402
from tileiras.sim.estimate import power, uncertainty  # noqa: E402
from tileiras.sim.estimate.uncertainty import NEUTRAL, Needs  # noqa: E402
from tileiras.targets import rates  # noqa: E402

MAX_Q = rates.gpu("RTX PRO 6000 Max-Q")
CYCLES = 1e6


def clock(tensor: float, l2: float, dram: float = 0.0, gpu: rates.Gpu = MAX_Q, element: str = "f16") -> float:
    """MHz of a launch with shares of the peaks of tensor cores and L2; ``dram``: its microseconds."""
    needs = Needs(0.0, dram, 0.0, CYCLES / gpu.sustained_mhz, 0.0, 0.0)
    flops = {element: tensor * 188 * MAX_Q.tensor[element] * CYCLES}
    return power.clock(needs, flops, l2 * MAX_Q.l2_bytes_per_cycle * CYCLES, gpu)


@pytest.mark.parametrize(
    "tensor, l2, element, measured",
    [(0.74, 0.89, "f16", 1640), (0.77, 0.66, "f8", 1685), (0.247, 0.314, "f16", 2159)],
)
def test_kernels_of_the_source_have_their_clocks(tensor, l2, element, measured):
    assert clock(tensor, l2, element=element) == pytest.approx(measured, rel=0.01)


def test_a_kernel_of_no_constant_has_its_clock():
    """`mma_warptile` at 8192 cubed: 6.94 million cycles by its profile, 4.52 to 4.61 ms by its table."""
    assert clock(0.85, 0.68) == pytest.approx(1520, rel=0.1)


def test_more_work_in_a_cycle_lowers_the_clock_from_the_boards():
    clocks = [clock(share, share) for share in (0.0, 0.3, 0.6, 0.9)]
    assert clocks[0] == MAX_Q.sustained_mhz and clocks == sorted(clocks, reverse=True) and clocks[3] < clocks[1]


def test_waits_for_dram_draw_less_than_dots():
    assert clock(0.9, 0.9, dram=2 * CYCLES / MAX_Q.sustained_mhz) > clock(0.9, 0.9)


def test_a_board_without_published_clocks_keeps_its_own():
    gpu = rates.gpu("H200")
    assert not gpu.power and clock(0.9, 0.9, gpu=gpu) == gpu.sustained_mhz


def test_bytes_of_dram_take_as_long_at_every_clock():
    needs = Needs(40.0, 100.0, 60.0, 50.0, 10.0, 2.0)
    lower = power.at(needs, 0.5)
    assert lower.under(NEUTRAL) == needs.under({**NEUTRAL, "clock": 0.5}) == 120.0 + 20.0 + 2.0
    assert lower.dram == needs.dram


def test_the_clocks_source_is_that_of_the_limit():
    kinds = {name: rates.gpu(name).sources["power.reference_mhz"].kind for name in ("RTX 5090", "RTX PRO 6000")}
    assert kinds == {"RTX 5090": "fitted", "RTX PRO 6000": "assumed"}
    for name, kind in kinds.items():
        assert uncertainty.spreads(rates.gpu(name))["clock"] == uncertainty.SPREADS[kind]


@needs_tools
def test_an_estimate_has_the_clock_of_its_limit():
    """Dots in registers on all SMs, at the tensor cores' peak without L2."""
    (dots,) = (probe for probe in PROBES if probe.place == "mma_sync.f16")
    launch = dots.launches("sm_120", MAX_Q.sms)[1]
    result = estimate(launch.ptx, "k", (launch.grid,), launch.arguments, gpu=MAX_Q.name)
    limit = clock(result.utilization["tensor"], 0.0)
    assert limit < 0.9 * MAX_Q.sustained_mhz
    spent = result.microseconds - MAX_Q.launch_microseconds
    assert result.cycles / spent == pytest.approx(limit, rel=0.05) and "power limit" in " ".join(result.notes)
    assert result.low < result.microseconds < result.high

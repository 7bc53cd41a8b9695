"""`bench calibrate` on a stand-in for a GPU: the clock itself, with constants that differ from the table's."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import calibrate  # noqa: E402
from bench.probes import PROBES  # noqa: E402
from tests.machine_code import needs_tools
from tileiras.targets import rates  # noqa: E402
from tileiras.targets.rate_tables import Figure  # noqa: E402

pytestmark = needs_tools

OTHER = {"sustained_mhz": 1700.0, "latency.shared": 26.0, "latency.l2": 300.0, "mma_sync.f16": 3000.0,
         "l2_bytes_per_cycle": 4200.0, "dram_reach": 0.88, "latency.update": 2.0}  # fmt: skip


def device(**figures: float) -> calibrate.Device:
    """An H200 with these constants."""
    gpu = rates.joined("H200", {place: Figure(value, "", "measured") for place, value in figures.items()})
    return lambda launch: calibrate.estimated(launch, gpu)


def test_there_is_a_value_of_the_test_for_every_probe():
    assert {probe.place for probe in PROBES} == OTHER.keys()


@pytest.mark.slow
def test_all_constants_of_a_device_are_recovered():
    proposals = calibrate.calibrate("H200", device(**OTHER), "a test")
    assert {each.place: each.value for each in proposals} == pytest.approx(OTHER, rel=0.02)
    assert all(each.changes for each in proposals)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("place", ["latency.l2", "latency.shared", "mma_sync.f16", "latency.update"])
def test_a_constant_makes_the_estimate_the_measured_time(place):
    some = [probe for probe in PROBES if probe.place == place]
    (proposal,) = calibrate.calibrate("H200", device(**{place: OTHER[place]}), "a test", some)
    assert proposal.value == pytest.approx(OTHER[place], rel=0.01)
    assert proposal.before == rates.gpu("H200").sources[place].value


def test_the_proposal_is_a_diff_that_the_table_reads(tmp_path):
    proposals = [calibrate.Proposal("latency.l2", 263.0, 300.0), calibrate.Proposal("dram_reach", 0.967, 0.96)]
    text = calibrate.diff("H200", proposals, "a test")
    folder = tmp_path / "tileiras" / "targets"
    folder.mkdir(parents=True)
    (folder / "measured_rates.py").write_text(Path(calibrate.measured_rates.__file__).read_text())
    subprocess.run(["patch", "-p1"], input=text, text=True, cwd=tmp_path, check=True, capture_output=True)
    names: dict = {}
    exec((folder / "measured_rates.py").read_text(), names)
    assert names["MEASURED"] == {"H200": {"latency.l2": Figure(300.0, "a test", "measured")}}
    gpu = rates.joined("H200", names["MEASURED"]["H200"])
    assert gpu.latency["l2"] == 300.0 and gpu.sources["latency.l2"].kind == "measured"


def test_a_device_that_agrees_with_the_table_changes_nothing():
    some = [probe for probe in PROBES if probe.place == "mma_sync.f16"]
    proposals = calibrate.calibrate("H200", device(), "a test", some)
    assert calibrate.diff("H200", proposals, "a test") == ""

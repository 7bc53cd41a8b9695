"""GPUs as data: every number has a source, and the numbers give the peaks that the makers publish."""

import pytest

from tileiras.diagnostics import CompileError, ExitCode
from tileiras.targets import rates
from tileiras.targets.rate_tables import ARCHITECTURES, KINDS
from tileiras.targets.sm import TARGETS


def test_every_number_of_every_gpu_has_a_source():
    for name in rates.names():
        gpu = rates.gpu(name)
        numbers = {
            f"{field}.{key}" if isinstance(value, dict) else field
            for field, value in gpu._asdict().items()
            if isinstance(value, (int, float, dict)) and field != "sources"
            for key in (value if isinstance(value, dict) else [""])
        }
        assert numbers == gpu.sources.keys()
        assert all(figure.source and figure.kind in KINDS and figure.value >= 0 for figure in gpu.sources.values())


def test_architectures_with_the_same_units_have_the_same_keys():
    lanes = {frozenset(row.lanes) for row in ARCHITECTURES.values()}
    assert len(lanes) == 1
    for chip, row in ARCHITECTURES.items():
        target = TARGETS[chip]
        assert row.mma_sync.keys() <= row.tensor.keys() | {"i8"}
        assert {"shared", "l1", "l2", "dram", "mma_sync", "barrier"} <= row.latency.keys()
        assert ("wgmma" in row.latency) or not target.has("wgmma")
        assert ("tma" in row.latency and "mbarrier" in row.latency) or not target.has("tma")
        assert ("tcgen05" in row.latency and "tensor_memory" in row.bytes_per_cycle) or chip not in ("sm_100", "sm_103")
        assert row.latency["l1"].value < row.latency["l2"].value < row.latency["dram"].value


@pytest.mark.parametrize(
    "name, teraflops",
    # Dense f16 with accumulation in f32, of the makers' data sheets.
    [("T4", 65), ("A100", 312), ("A10", 125), ("L4", 121), ("RTX 3090", 71), ("RTX 4090", 165), ("H100", 989),
     ("H100 PCIe", 756), ("H200", 989), ("B200", 2250), ("RTX 5090", 209.5), ("RTX PRO 6000", 504)],
)  # fmt: skip
def test_the_peak_of_the_tensor_cores_is_the_data_sheets(name, teraflops):
    gpu = rates.gpu(name)
    assert gpu.tensor["f16"] * gpu.sms * gpu.clock_mhz * 1e6 == pytest.approx(teraflops * 1e12, rel=0.01)


def test_times_are_those_of_the_sustained_clock():
    """Boards of the RTX 5090 boost beyond the clock of their data sheet; without a publication it is the same."""
    gpu, other = rates.gpu("RTX 5090"), rates.gpu("A100")
    assert gpu.sustained_mhz > gpu.clock_mhz and other.sustained_mhz == other.clock_mhz
    moved = gpu.dram_bytes_per_cycle * gpu.sustained_mhz * 1e6
    assert moved == pytest.approx(gpu.dram_bytes_per_second * gpu.dram_reach)


def test_a_name_is_found_in_any_spelling():
    assert rates.gpu("rtx-pro-6000").name == rates.gpu("RTXPRO6000").name == "RTX PRO 6000"
    assert {rates.gpu(name).name for name in rates.names()} == set(rates.names())


@pytest.mark.parametrize(
    "device, name",
    [("NVIDIA H200", "H200"), ("NVIDIA H100 80GB HBM3", "H100"), ("NVIDIA H100 PCIe", "H100 PCIe"), ("Tesla T4", "T4"),
     ("NVIDIA A100-SXM4-80GB", "A100"), ("NVIDIA A10", "A10"), ("NVIDIA GeForce RTX 5090", "RTX 5090"),
     ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000")],
)  # fmt: skip
def test_a_device_is_found_by_the_drivers_name(device, name):
    assert rates.of_device(device).name == name


@pytest.mark.parametrize(
    "device", ["NVIDIA L40S", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA A1000"]
)
def test_another_product_is_not_taken_for_one_of_the_table(device):
    assert rates.of_device(device) is None


def test_an_unknown_gpu_is_one_diagnostic_with_valid_names():
    with pytest.raises(CompileError, match="unknown GPU 'H300'") as error:
        rates.gpu("H300")
    assert error.value.code == ExitCode.CONFIGURATION
    assert all(name in str(error.value) for name in rates.names())


@pytest.mark.parametrize(
    "name, runs, refuses",
    [
        ("H200", ("sm_90", "sm_90a"), ("sm_80", "sm_100", "sm_100a")),
        ("L4", ("sm_80", "sm_86", "sm_89"), ("sm_75", "sm_90")),
        ("A100", ("sm_80",), ("sm_86", "sm_75")),
        ("B300", ("sm_100", "sm_100f", "sm_103a"), ("sm_100a", "sm_110", "sm_120")),
        ("RTX 5090", ("sm_120", "sm_120a", "sm_120f"), ("sm_121", "sm_100f")),
    ],
)
def test_which_binaries_a_gpu_runs(name, runs, refuses):
    gpu = rates.gpu(name)
    assert [target for target in runs if not gpu.runs(target)] == []
    assert [target for target in refuses if gpu.runs(target)] == []

"""Statements of the comparison with published times about its rows."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pytest

from bench import validation  # noqa: E402
from bench.halves import calibrates
from bench.ladders import LADDERS
from bench.published import Published, published  # noqa: E402
from bench.real_sizes import BENCHMARKS, Constant, slots  # noqa: E402
from bench.validation import Row  # noqa: E402
from tests.machine_code import needs_tools
from tileiras.targets import rates  # noqa: E402


def row(kernel: str, config: dict, measured: float, estimated: float | None, fitted: bool = False) -> Row:
    return Row(Published("B200", kernel, config, measured, fitted), kernel, estimated, "DRAM", 0.0)


def norm(algorithm: str, measured: float, estimated: float) -> Row:
    return row("rms_norm", {"algo": algorithm, "dtype": "f16", "columns": 1024}, measured, estimated)


def test_the_error_excludes_fitted_and_missing_estimates():
    rows = [row("matmul", {}, 100, 200, fitted=True), row("fmha", {}, 100, 90), row("transpose", {}, 10, 13),
            row("batch_matmul", {}, 10, None)]  # fmt: skip
    first, second, *_ = validation.summary(rows)
    assert first == "estimated: 3 of 4"
    assert "mean 20.0%" in second and "worst 30.0%" in second and "at transpose on B200" in second


def test_variants_of_one_task_have_to_come_out_in_their_order():
    rows = [norm("gather", 50, 60), norm("regular", 80, 55), norm("persistent", 52, 40), row("fmha", {}, 10, 5)]
    pairs = [(fast.published.config["algo"], slow.published.config["algo"]) for fast, slow in validation.variants(rows)]
    assert pairs == [("gather", "regular"), ("persistent", "regular")]  # 50 and 52 are too near
    assert any(line == "order of variants: 1 of 2 pairs right" for line in validation.summary(rows))


def test_published_figures_name_known_benchmarks_and_gpus():
    rows = published()
    assert len(rows) > 60 and all(each.kernel in BENCHMARKS and each.microseconds > 0 for each in rows)
    assert {rates.gpu(each.gpu).name for each in rows} == {each.gpu for each in rows}
    fitted = {each.gpu for each in rows if each.fitted}
    marked = {name for name in rates.names() if any(f.kind == "fitted" for f in rates.gpu(name).sources.values())}
    # A fitted figure comes from rows that are marked, or from a ladder of the calibrating half.
    calibrating = {rates.gpu(ladder.gpu).target for ladder in LADDERS if calibrates(ladder.name)}
    assert fitted <= marked and all(rates.gpu(name).target in calibrating for name in marked - fitted)


def test_a_launch_of_a_benchmark_is_as_its_configuration_says():
    kernels = ("matmul", "fmha", "rms_norm", "transpose")
    by_kernel = {each.kernel: each for each in published() if each.kernel in kernels}
    for kernel, each in by_kernel.items():
        launch = BENCHMARKS[kernel](each.config, rates.gpu(each.gpu))
        arrays = [value for value in launch.values if hasattr(value, "strides")]
        plain = [value for value in launch.values if not isinstance(value, Constant)]
        assert len(slots(launch.values)) == sum(1 + 2 * a.ndim for a in arrays) + len(plain) - len(arrays)
        assert all(extent > 0 for extent in launch.grid)


@pytest.mark.slow
@needs_tools
def test_wgmma_comes_out_faster_than_mma_sync_on_hopper():
    from bench import stand_ins

    (_, slow), (_, fast) = stand_ins.shares()
    assert 0.4 < slow < 0.65 and 0.9 < fast <= 1.0

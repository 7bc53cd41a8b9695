"""Figures that are not to be relied on say so, and no command decides by them."""

import sys
from pathlib import Path

import numpy as np
import pytest
from micro_kernels import OUT, chained_wgmma, estimate, fma_chain

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import tileiras
from bench import estimates, ranking
from bench.estimates import Timed
from bench.ranking import Ranked
from tests.kernels.dots import matmul
from tests.machine_code import needs_tools
from tileiras.cli import tileiras_run
from tileiras.sim.estimate import doubt, model, uncertainty
from tileiras.sim.estimate.images import load
from tileiras.sim.estimate.machine import pipe_cycles
from tileiras.sim.estimate.model import Model
from tileiras.targets import best_published
from tileiras.targets.rate_tables import Figure
from tileiras.targets.rates import gpu

H200 = gpu("H200")
REASON = "a reason"
SAXPY = str(Path(__file__).resolve().parents[3] / "examples" / "saxpy.mlir")
SIZE, DEPTH = 256, 512


@pytest.fixture
def doubted(monkeypatch):
    monkeypatch.setattr(model.doubt, "doubts", lambda *_: [doubt.Doubt(REASON, 0.5, 2.0)])


def test_a_joined_path_widens_the_interval_by_its_share():
    (reason,) = doubt.doubts(0.25, {}, H200)
    assert "25%" in reason.reason and not doubt.doubts(doubt.DOUBTFUL, {}, H200)
    low, high = doubt.widen((90.0, 120.0), [reason])
    assert (low, high) == pytest.approx((67.5, 160.0))


def test_a_throughput_above_the_best_published_is_in_doubt():
    best = best_published.best("H200", "f16").value
    (reason,) = doubt.doubts(0.0, {"f16": 1.2 * best, "f8": 1.0}, H200)
    assert "TFLOP/s of f16" in reason.reason
    # The time of the best published is inside.
    assert doubt.widen((90.0, 100.0), [reason]) == pytest.approx((90.0, 120.0))
    assert not doubt.doubts(0.0, {"f16": best}, H200)


@needs_tools
def test_an_estimate_above_the_best_published_is_flagged(monkeypatch):
    plain = estimate(chained_wgmma(256), [OUT])
    (rate,) = plain.teraflops.values()
    monkeypatch.setitem(best_published.BEST, ("H200", "f16"), Figure(rate / 2, "a page"))
    flagged = estimate(chained_wgmma(256), [OUT])
    assert not plain.doubt and "more than the best published" in flagged.doubt
    assert flagged.microseconds == plain.microseconds and flagged.high == pytest.approx(2 * plain.high)


@needs_tools
def test_a_unit_above_all_of_the_time_is_an_error(monkeypatch):
    monkeypatch.setattr(model, "utilization_of", lambda *_: {"FMA": 1.02})
    with pytest.raises(AssertionError, match="busy for more than all of the time"):
        estimate(fma_chain(), [OUT])


@needs_tools
@pytest.mark.parametrize("name, target", [("H200", "sm_90"), ("A100", "sm_80")])
def test_busy_cycles_cover_the_multiply_adds_of_f32(name, target):
    chosen = gpu(name)
    artifact = tileiras.compile("examples/matmul_f32.mlir", gpu_name=target, emit="cubin", lineinfo=True)
    a, b = np.zeros((SIZE, DEPTH), np.float32), np.zeros((DEPTH, SIZE), np.float32)
    arguments = [a, b, np.zeros((SIZE, SIZE), np.float32), SIZE, SIZE, DEPTH]
    run, runs = grid_of(artifact, "matmul_f32", chosen, (SIZE // 32, SIZE // 32), arguments)
    lanes = 32 / pipe_cycles("fma", chosen)
    assert SIZE * SIZE * DEPTH <= run.busy["fma"] * runs * lanes < 1.2 * SIZE * SIZE * DEPTH


@needs_tools
def test_dots_have_the_operations_of_the_product():
    product = matmul((64, 64, 64), "f16", steps=4)
    artifact = tileiras.compile(product.text, gpu_name="sm_90", emit="cubin", lineinfo=True)
    arguments = [*product.inputs, *(each.copy() for each in product.outputs)]
    run, runs = grid_of(artifact, "k", H200, (2,), arguments)
    assert sum(run.flops.values()) * runs == pytest.approx(2 * 2 * 64 * 64 * 256)


def grid_of(artifact, entry, chosen, grid, arguments):
    """(the run of an SM, the number of such runs in the grid)."""
    launch = Model(load(artifact, entry, chosen, None, grid, arguments), grid, chosen, arguments)
    launch.prepare()
    run = launch.grid()[1]
    return run, launch._runs(run)


@needs_tools
def test_a_figure_in_doubt_is_no_claim(doubted):
    slow, fast = (estimate(fma_chain(trips=trips), [OUT]) for trips in (60, 20))
    assert fast.doubt == REASON and not fast.faster_than(slow)
    assert fast._replace(doubt="").faster_than(slow._replace(doubt=""))
    assert not fast._replace(doubt="").faster_than(slow)
    low, high = uncertainty.interval(fast.needs, H200)
    assert (fast.low, fast.high) == pytest.approx((low / 2, high * 2))


@needs_tools
def test_rows_in_doubt_are_refused_by_name(doubted):
    result = estimate(fma_chain(), [OUT])
    row = estimates.taken(Timed(result, "", 1.0))
    assert row.microseconds is None and row.refusal == f"in doubt: {REASON}"
    ranked = Ranked("kernel", "H200", False, {"plain": row}, estimates.taken(Timed(result._replace(doubt=""), "", 1.0)))
    assert ranked.ratio("plain") is None and not ranked.claim("plain") and not ranking.means([ranked])
    assert ranking.failures([ranked]) == [f"no estimate: kernel on H200, plain: in doubt: {REASON}"]


@needs_tools
def test_tune_rejects_candidates_in_doubt(doubted):
    x = np.arange(4096, dtype=np.float32)
    arguments = [x, np.ones(4096, np.float32), 2.0, 4096]
    with pytest.raises(tileiras.CompileError) as caught:
        tileiras.tune(SAXPY, 4, arguments, [{"num_warps": 4}], "A100")
    assert f"the estimate is in doubt: {REASON}" in str(caught.value)


@needs_tools
def test_the_command_prints_the_doubt_beside_the_figure(doubted, capsys):
    launch = ["--grid", "3", "f32[3000]=ones", "f32[3000]=ones", "f32=2", "i32=3000"]
    assert tileiras_run.main([SAXPY, "--backend", "estimate", *launch]) == 0
    first = capsys.readouterr().out.split("\n")[0]
    assert first.startswith("saxpy on H200: ") and f"in doubt: {REASON}" in first


@needs_tools
def test_a_profile_and_its_estimate_are_one_run(monkeypatch, capsys):
    prepared = []
    before = Model.prepare
    monkeypatch.setattr(Model, "prepare", lambda self: (prepared.append(self), before(self))[1])
    launch = ["--grid", "3", "f32[3000]=ones", "f32[3000]=ones", "f32=2", "i32=3000"]
    assert tileiras_run.main([SAXPY, "--profile", "--backend", "estimate", *launch]) == 0
    assert len(prepared) == 1 and "bound by" in capsys.readouterr().out

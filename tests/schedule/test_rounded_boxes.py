"""Operands of f32 that tensor maps round to tf32 during the copy: as threads round them, in every plan, and by threads
where no map rounds as the program states."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tileiras
from tests.agents.running import sites, survives
from tests.kernels import tensor_maps as kernels
from tests.kernels.reasons import causes
from tests.machine_code import assemble
from tileiras.sim import emulate

SEEDS = (None, 0)
BOX, RUN, BY_THREADS = "cp.async.bulk.tensor", "cp.async.c", "cvt.rn.tf32"
PRODUCT = {"sm_90": "wgmma.mma_async", "sm_100": "tcgen05.mma", "sm_120": "mma.sync"}
PLANS = [{}, {"pipeline_strategy": "unspecialize"}, {"pipeline_strategy": "warp-specialize"},
         {"pipeline_strategy": "unspecialize", "v2_opt_level": 1}]  # fmt: skip
ROUNDINGS = {"nearest_even": lambda bits: 0xFFF + (bits >> 13 & 1), "nearest_away": lambda bits: 0x1000,
             "zero": lambda bits: 0}  # fmt: skip


def matmul(rounding: str = "nearest_even", hints: str = "", **options) -> str:
    """C = A B of f32, whose tiles are rounded to tf32."""
    m, n, k = kernels.TILES
    text = kernels.matmul(**options).replace("f16", "f32")
    operands = (("a", (m, k)), ("b", (k, n)))
    rounded = "\n".join(
        f"%{name}_t = ftof %{name} rounding<{rounding}> : tile<{x}x{y}xf32> -> tile<{x}x{y}xtf32>"
        for name, (x, y) in operands
    )
    product = f"{rounded}\n%next = mmaf %a_t, %b_t, %acc : tile<{m}x{k}xtf32>, tile<{k}x{n}xtf32>"
    text, count = re.subn(r"%next = mmaf %a, %b, %acc : \S+, \S+(?=,)", product, text)
    assert count == text.count("mmaf") > 0
    return text.replace(") {\n", f") optimization_hints = <{hints}> {{\n", 1) if hints else text


class Arrays:
    """A and B of f32 with many numbers between two of tf32, and the launch that multiplies them."""

    def __init__(self, m: int, n: int, k: int) -> None:
        self.sizes = m, n, k
        random = np.random.default_rng(7)
        shapes = (m, k + 4 + -(k + 4) % 8), (k, n + 4 + -(n + 4) % 8)
        self.a, self.b = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
        for array in (self.a, self.b):
            bits = array.view(np.uint32)
            bits[::3] = bits[::3] & 0xFFFFE000 | 0x1000

    def launch(self, code: str, metadata, seed: int | None = None, steps: int | None = None) -> np.ndarray:
        (m, n, k), (rows, columns, step) = self.sizes, kernels.TILES
        c = np.full((m, n + 4 + -n % 4), -7, np.float32)
        a, b = self.a.copy(), self.b.copy()
        count = -(-k // step) if steps is None else steps
        arguments = [a, m, k, a.shape[1], b, k, n, b.shape[1], c, m, n, c.shape[1], count]
        grid = -(-m // rows), -(-n // columns)
        assert emulate(code, "k", grid, arguments, metadata, seed=seed).searched_races
        return c

    def check(self, code: str, metadata, seed: int | None, rounding: str = "nearest_even") -> None:
        m, n, k = self.sizes
        result = self.launch(code, metadata, seed)
        wanted = {mode: rounded(self.a[:, :k], mode) @ rounded(self.b[:, :n], mode) for mode in ROUNDINGS}
        away = {mode: np.abs(result[:, :n] - each).max() for mode, each in wanted.items()}
        assert (result[:, n:] == -7).all() and away.pop(rounding) < 1e-4 < 1e-3 < min(away.values())


def rounded(values: np.ndarray, mode: str) -> np.ndarray:
    bits = values.view(np.uint32).astype(np.uint64)
    return (bits + ROUNDINGS[mode](bits) & 0xFFFFE000).astype(np.uint32).view(np.float32).astype(np.float64)


def compiled(text: str, gpu: str, **options):
    return tileiras.compile(text, gpu_name=gpu, **{"tensor_maps": "host", **options})


def maps(artifact) -> list[str]:
    """The types of elements of hidden maps."""
    hidden = artifact.kernels[0].metadata["hidden_parameters"]
    return [re.search(r"element=(\w+)", each["fill"])[1] for each in hidden]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("gpu", "tensor_maps", "plan"),
    [(gpu, "host", plan) for gpu in PRODUCT for plan in PLANS] + [("sm_90", "device", {}), ("sm_100", "device", {})],
    ids=str,
)
def test_maps_round_as_the_program_says(gpu, plan, tensor_maps, ptxas):
    artifact = compiled(matmul(), gpu, tensor_maps=tensor_maps, **plan)
    assert BOX in artifact.text and PRODUCT[gpu] in artifact.text
    assert BY_THREADS not in artifact.text and RUN not in artifact.text
    if tensor_maps == "host":
        assert maps(artifact)[:2] == ["tf32", "tf32"]
    assemble(artifact.text, gpu)
    for seed in SEEDS:
        Arrays(70, 34, 68).check(artifact.text, artifact.kernels[0].metadata, seed)


@pytest.mark.parametrize("gpu", PRODUCT)
def test_infinities_and_nans(gpu):
    """And the largest finite numbers, which round to infinity."""
    arrays = Arrays(64, 32, 68)
    arrays.a[3, 5], arrays.a[5, 7], arrays.a[9, 11] = np.inf, np.nan, np.finfo(np.float32).max
    by_maps, by_threads = (compiled(matmul(), gpu, tensor_maps=kind) for kind in ("host", "none"))
    assert BY_THREADS in by_threads.text and maps(by_threads) == []
    result = [arrays.launch(each.text, each.kernels[0].metadata) for each in (by_maps, by_threads)]
    np.testing.assert_array_equal(*result)
    (inside,) = {each[:, :32].tobytes(): each[:, :32] for each in result}.values()
    assert np.isinf(inside[[3, 9]]).all() and np.isnan(inside[5]).all() and np.isfinite(inside[10:]).all()


@pytest.mark.parametrize("rounding", ["zero", "nearest_away"])
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100"])
def test_other_roundings_are_the_threads(gpu, rounding):
    artifact = compiled(matmul(rounding), gpu)
    assert BOX in artifact.text and set(maps(artifact)) == {"f32"}
    for seed in SEEDS[:2]:
        Arrays(70, 34, 68).check(artifact.text, artifact.kernels[0].metadata, seed, rounding)


AROUND = ("for %again in (%zero to %steps, step %one) : tile<i32> {", "continue\n}")


def refused(artifact) -> list[str]:
    return causes(artifact.diagnostics, "maps.unused")


def test_threads_round_where_boxes_cannot_come_after_all():
    """On sm_100 commits free the stages, which may come behind a loop inside of another one."""
    artifact = compiled(matmul(around=AROUND), "sm_100", pipeline_strategy="unspecialize", emit_remarks=True)
    assert "maps.commits-behind-loop" in refused(artifact)
    assert BY_THREADS in artifact.text and RUN in artifact.text and "tf32" not in maps(artifact)
    for seed in SEEDS:
        Arrays(64, 34, 68).check(artifact.text, artifact.kernels[0].metadata, seed)


def test_threads_round_where_agents_are_refused():
    """A loop that could have boxes with agents only, in a kernel whose warps are too many for them."""
    options = {"pipeline_strategy": "warp-specialize", "num_warps": 32}
    artifact = compiled(matmul(around=AROUND), "sm_100", **options)
    assert BY_THREADS in artifact.text and RUN in artifact.text and "tf32" not in maps(artifact)
    Arrays(64, 34, 68).check(artifact.text, artifact.kernels[0].metadata, 0)


@pytest.mark.parametrize(("gpu", "finds_room"), [("sm_90", True), ("sm_100", False)])
def test_a_tile_that_finds_no_room_is_rounded_where_it_is_loaded(gpu, finds_room, monkeypatch):
    """Loops whose dots warps execute take smaller steps first (`tileas-split-loop-steps`)."""
    monkeypatch.setattr(kernels, "TILES", (256, 256, 64))
    artifact = compiled(matmul(), gpu, pipeline_strategy="unspecialize", num_warps=8)
    assert (BY_THREADS not in artifact.text) == finds_room and "tf32" in maps(artifact)
    Arrays(200, 60, 130).check(artifact.text, artifact.kernels[0].metadata, 0)


@pytest.mark.parametrize(("steps", "plan"), [(0, PLANS[1]), (1, PLANS[1]), (0, PLANS[2]), (1, PLANS[2])])
def test_few_iterations(steps, plan):
    artifact = compiled(matmul(), "sm_100", **plan)
    result = Arrays(64, 64, 96).launch(artifact.text, artifact.kernels[0].metadata, 0, steps)
    assert np.isfinite(result[:, :64]).all() and (result[:, :64] == 0).all() == (steps == 0)


@pytest.mark.parametrize("tensor_maps", ["host", "device"])
def test_pairs_of_ctas(tensor_maps, monkeypatch):
    monkeypatch.setattr(kernels, "TILES", (256, 64, 32))
    artifact = compiled(matmul(hints="sm_100 = {num_cta_in_cga = 2}"), "sm_100", tensor_maps=tensor_maps,
                        pipeline_strategy="warp-specialize")  # fmt: skip
    assert "cta_group::2.kind::tf32" in artifact.text and BY_THREADS not in artifact.text
    for seed in SEEDS:
        Arrays(200, 34, 68).check(artifact.text, artifact.kernels[0].metadata, seed)


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS[1:3], ids=lambda plan: " ".join(plan.values()))
def test_their_synchronization_is_minimal(plan):
    artifact = compiled(matmul(), "sm_100", **plan)
    arrays = Arrays(64, 64, 288)

    def judge(code, seed):
        arrays.check(code, artifact.kernels[0].metadata, seed)

    assert survives(artifact.text, judge, SEEDS)
    lines = [line for line, broken in sites(artifact.text) if survives(broken, judge, (None, 0, 1))]
    # The emulator does not ask for it where commits, and no other CTA's copies, arrive.
    assert set(lines) <= {"fence.mbarrier_init.release.cluster;"}

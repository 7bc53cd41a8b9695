"""Random delays where warps wait for each other: the same results, from instructions that are the same every time."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.agents.running import SEEDS
from tests.kernels.dots import attention_like, matmul
from tests.kernels.gradients import of_queries, repeated
from tests.kernels.rows import centered_rows
from tests.kernels.tile_rounds import rounds
from tests.kernels.views import Kernel, operations
from tileiras import compile
from tileiras.codegen import ptxas as assembler
from tileiras.dialects.nv_tileas.delays import DelayOp
from tileiras.sim import emulate, estimate
from tileiras.synchronization.delays import DELAYED

DELAYED_BY_OPTION = {"enable_random_delay": True}
SPECIALIZED = {**DELAYED_BY_OPTION, "pipeline_strategy": "warp-specialize"}
NO_PIPELINE, LEAST = {"pipeline_strategy": "none"}, {"opt_level": 0}
RING = {**DELAYED_BY_OPTION, "pipeline_strategy": "unspecialize"}

KERNELS = {
    "agents": (lambda: matmul((64, 32, 64), steps=4), "sm_90", SPECIALIZED),
    "agents and boxes": (lambda: matmul((64, 32, 64), steps=4), "sm_90", {**SPECIALIZED, "tensor_maps": "host"}),
    "tiles in rounds": (rounds, "sm_90", SPECIALIZED),
    "attention": (lambda: attention_like(1, rows=64, columns=64, depth=32, steps=3), "sm_90", SPECIALIZED),
    "ring": (lambda: matmul((64, 32, 64), steps=4), "sm_90", RING),
    "conversions that join": (lambda: matmul((64, 32, 64), steps=4), "sm_80", {**DELAYED_BY_OPTION, **NO_PIPELINE}),
    "conversions that join, sm_75": (lambda: matmul((64, 32, 64), steps=2), "sm_75", DELAYED_BY_OPTION),
    "conversions that join, -O0": (lambda: matmul((64, 32, 64), steps=2), "sm_90", {**DELAYED_BY_OPTION, **LEAST}),
    "ring of warps": (lambda: matmul((32, 32, 32), steps=4), "sm_80", RING),
    "tensor memory": (lambda: matmul((128, 64, 64), steps=3), "sm_100", SPECIALIZED),
    "reductions": (centered_rows, "sm_120", {**DELAYED_BY_OPTION, "num_warps": 4}),
}  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", KERNELS)
def test_results_are_the_same_in_every_order(name, ptxas):
    make, gpu, options = KERNELS[name]
    kernel: Kernel = make()
    artifact = kernel.compiled(gpu, emit="ptx", **options)
    assert "nanosleep.u32" in artifact.text
    assert not assembler.assemble(artifact.text, gpu, ptxas=ptxas).messages
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


def test_every_wait_and_arrival_has_a_seed_of_its_own():
    module = matmul((64, 32, 64), steps=4).tileas("sm_90", **SPECIALIZED)
    delays = operations(module, DelayOp)
    assert len(delays) > 8 and len({op.seed.value for op in delays}) == len(delays)
    delayed = [op for op in module.walk() if op.name in DELAYED]
    assert delayed and all(isinstance(op.prev, DelayOp) for op in delayed)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("options", [SPECIALIZED, {**DELAYED_BY_OPTION, **NO_PIPELINE}], ids=["agents", "none"])
def test_two_ctas_of_a_tile_are_launched_as_tiles(gpu, options):
    """Delays go by the number of the CTA, the tile block's own is the cluster's, which a tile launch has for both."""
    kernel = repeated(of_queries(2), 2)  # reads the number of its tile block
    artifact = kernel.compiled(gpu, emit="cubin", num_ctas=2, tile_launch=True, **options)
    ptx = artifact.kernels[0].artifacts[".ptx"].decode()
    assert "nanosleep.u32" in ptx and "clusterid" in ptx
    kernel.emulated(artifact, ptx=ptx)


def test_nothing_sleeps_unless_asked():
    assert not operations(matmul((64, 32, 64), steps=4).tileas("sm_90"), DelayOp)


def test_the_same_program_has_the_same_delays():
    first, second = (matmul((64, 32, 64), steps=4).compiled("sm_90", emit="ptx", **SPECIALIZED) for _ in range(2))
    assert first.text == second.text


def test_a_name_may_hold_any_bytes():
    """Names of bytecode are no UTF-8 always; seeds follow from them."""
    text = matmul((64, 32, 64), steps=4).text
    names = ["k", "\\FF"]
    artifacts = [compile(text.replace("@k(", f'@"{name}"('), gpu_name="sm_90", emit="tileas", **SPECIALIZED)
                 for name in names]  # fmt: skip
    assert all(artifact.text.count("delay") > 4 for artifact in artifacts)


SLEEPER = """
cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>) {
    %i = iota : tile<128xi32>
    %s = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
    %b = broadcast %s : tile<1xptr<i32>> -> tile<128xptr<i32>>
    %q = offset %b, %i : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
    %sum = reduce %i dim=0 identities=[0 : i32] : tile<128xi32> -> tile<i32>
    (%x: tile<i32>, %y: tile<i32>) {
      %z = addi %x, %y : tile<i32>
      yield %z : tile<i32>
    }
    %r = reshape %sum : tile<i32> -> tile<1xi32>
    %w = broadcast %r : tile<1xi32> -> tile<128xi32>
    %t = store_ptr_tko weak %q, %w : tile<128xptr<i32>>, tile<128xi32> -> token
    return
  }
}
"""


def test_warps_sleep_for_different_times_on_the_clock(ptxas):
    """A launch takes longer by at least the total sleep of each warp, and by at most the sum of the longest sleeps."""
    times = {}
    for delayed in (False, True):
        result = compile(SLEEPER.encode(), gpu_name="sm_90", num_warps=4, enable_random_delay=delayed)
        times[delayed] = estimate(result, "k", 1, [np.zeros(128, np.int32)], gpu="H200").microseconds
    text = result.kernels[0].artifacts[".ptx"].decode()
    out = np.zeros(128, np.int32)
    emulate(text, "k", 1, [out])
    assert (out == 127 * 64).all()
    constants = re.findall(r"mul\.lo\.u32 part, %r\d+, (\d+); mul\.hi\.u32 part, part, (\d+)", text)
    sleeps = [[(warp * int(seed) % 2**32) * int(longest) >> 32 for warp in range(1, 5)] for seed, longest in constants]
    assert sleeps and all(len(set(each)) == 4 for each in sleeps)
    least, most = max(map(sum, zip(*sleeps))), sum(map(max, sleeps))
    assert least - 100 < 1000 * (times[True] - times[False]) < most + 100

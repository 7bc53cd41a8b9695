"""The cost of a loop iteration on an SM: figures that can be worked out by hand."""

import pytest

from tests.kernels import pipelined
from tests.kernels.tileaa import SPEC
from tests.tileas_stage import LAYOUTS, through
from tileiras.dialects import scf
from tileiras.ir import parse_module
from tileiras.schedule.cost_model import LoopCost, loop_cost, stages
from tileiras.schedule.resource_table import STANDS_FOR, Unit, product_of, resources
from tileiras.targets import TARGETS, rates, target


def cost_of(text: str, gpu: str, to: str = LAYOUTS, warps: int = 4) -> LoopCost:
    module = through(parse_module(text, "test.mlir"), to, gpu)
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    cost = loop_cost(loop, target(gpu), warps)
    assert cost is not None
    return cost


def matmul(monkeypatch: pytest.MonkeyPatch, m: int, n: int, k: int) -> str:
    for name, extent in (("M", m), ("N", n), ("K", k)):
        monkeypatch.setattr(pipelined, name, extent)
    return pipelined.matmul()


def elementwise(body: str, carried: str = "%y", extent: int = 16384) -> str:
    tile = f"tensor<{extent}xf32>"
    return f"""
builtin.module {{
  nv_tileaa.func @k(%n: i32) attributes {SPEC % 4} {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %start = arith.constant dense<1.0> : {tile}
    %sum = scf.for %i = %zero to %n step %one iter_args(%x = %start) -> ({tile}) : i32 {{
      {body.replace("TILE", tile)}
      scf.yield {carried} : {tile}
    }}
    nv_tileaa.return
  }}
}}
"""


@pytest.mark.parametrize("gpu, rate", [("sm_80", 2048), ("sm_120", 1024)])
def test_a_product_takes_its_operations_at_the_rate_of_mma_sync(monkeypatch, gpu, rate):
    cost = cost_of(matmul(monkeypatch, 64, 64, 32), gpu)
    assert cost.busy[Unit.TENSOR] == 2 * 64 * 64 * 32 / rate
    assert cost.busy[Unit.L2] == pytest.approx((64 * 32 + 32 * 64) * 2 / resources(target(gpu)).rate[Unit.L2])


def test_a_product_of_warpgroups_takes_the_peak(monkeypatch):
    """wgmma m64n128k16 f16 takes 64 cycles (Luo et al.): 2 x 4 of them in a step of 128x128x64."""
    cost = cost_of(matmul(monkeypatch, 128, 128, 64), "sm_90")
    assert cost.busy[Unit.TENSOR] == 512
    # One accumulator: the next product begins when the tensor core has done this one.
    assert cost.recurrence_mii == 512
    # The operands take longer than the dot: their 32 KB from L2, and longest their copies and reads in shared memory.
    assert cost.busy[Unit.L2] == pytest.approx(32768 / resources(target("sm_90")).rate[Unit.L2])
    assert cost.bound == "shared memory" and cost.mii == cost.busy[Unit.SHARED] > cost.busy[Unit.L2] > 512


def test_a_dot_without_an_instruction_multiplies_and_adds(monkeypatch):
    text = matmul(monkeypatch, 16, 16, 16).replace("xf16", "xf32").replace("<f16>", "<f32>")
    cost = cost_of(text, "sm_80")
    assert Unit.TENSOR not in cost.busy and cost.busy[Unit.FMA] == 16**3 / 64


@pytest.mark.parametrize("gpu, lanes", [("sm_80", 16), ("sm_90", 16), ("sm_100", 16), ("sm_103", 32)])
def test_exponentials_take_the_mufu(gpu, lanes):
    cost = cost_of(elementwise("%y = math.exp2 %x : TILE"), gpu)
    assert cost.busy[Unit.MUFU] == 16384 / lanes
    assert cost.busy[Unit.ISSUE] == 16384 / 32 / 4
    # Each iteration needs the one before: the unit's time and its latency.
    latency = rates.gpu(STANDS_FOR[int(gpu[3:])]).latency["mufu"]
    assert cost.recurrence_mii == 16384 / lanes + latency and cost.bound == "recurrence"


@pytest.mark.parametrize("gpu, lanes", [("sm_80", 64), ("sm_90", 128)])
def test_additions_take_the_lanes_of_the_target(gpu, lanes):
    cost = cost_of(elementwise("%y = nv_tileaa.addf %x, %x : TILE"), gpu)
    assert cost.busy == {Unit.ISSUE: 16384 / 32 / 4, Unit.FMA: 16384 / lanes}


def test_values_not_carried_have_no_recurrence():
    cost = cost_of(elementwise("%y = math.exp2 %x : TILE", carried="%start"), "sm_90")
    assert cost.recurrence_mii == 0 and cost.bound == "MUFU" and cost.mii == 1024


def test_values_that_change_places_wait_half_as_often():
    """Of two values that iterations exchange, each is computed from the other of the iteration before."""
    text = elementwise("%y = math.exp2 %x : TILE")
    text = text.replace("iter_args(%x = %start)", "iter_args(%x = %start, %z = %start)")
    text = text.replace("-> (tensor<16384xf32>) : i32", "-> (tensor<16384xf32>, tensor<16384xf32>) : i32")
    text = text.replace("%sum = scf.for", "%sum:2 = scf.for")
    text = text.replace("scf.yield %y : tensor<16384xf32>", "scf.yield %z, %y : tensor<16384xf32>, tensor<16384xf32>")
    assert cost_of(text, "sm_90").recurrence_mii == pytest.approx((1024 + 20) / 2)


def test_a_loop_inside_counts_as_often_as_it_runs():
    inner = """%three = arith.constant 3 : i32
      %y = scf.for %j = %zero to %three step %one iter_args(%w = %x) -> (TILE) : i32 {
        %v = nv_tileaa.addf %w, %w : TILE
        scf.yield %v : TILE
      }"""
    result = outer_cost(elementwise(inner))
    assert result is not None and result.busy[Unit.FMA] == 3 * 16384 / 128
    assert outer_cost(elementwise(inner).replace("%zero to %three", "%zero to %n")) is None


def outer_cost(text: str) -> LoopCost | None:
    module = through(parse_module(text, "test.mlir"), LAYOUTS, "sm_90")
    (outer,) = (op for op in module.walk() if isinstance(op, scf.ForOp) and not isinstance(op.parent_op, scf.ForOp))
    return loop_cost(outer, target("sm_90"), 4)


@pytest.mark.parametrize("latency, hold, interval, depth", [(700, 0, 512, 3), (1000, 512, 512, 4), (10, 0, 512, 2)])
def test_stages_cover_tiles_in_flight_or_in_use(latency, hold, interval, depth):
    assert stages(latency, hold, interval) == depth


def test_every_target_has_a_product():
    for name, row in TARGETS.items():
        product = rates.gpu(product_of(row)).target
        assert product.number <= row.number, name
        family = {number // 10 for number in STANDS_FOR}
        assert row.number // 10 not in family or product.number // 10 == row.number // 10, name
        assert set(resources(row).rate) == set(Unit) - {Unit.TENSOR}

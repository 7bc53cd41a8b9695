"""Sizes meet the bounds in the code; lengths in memory, deep rings and large numbers have launches of their own."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.kernels.checked import DOUBLED, module, rows
from tileiras.check import launches
from tileiras.check.boundaries import Boundaries
from tileiras.check.facts import Facts, facts
from tileiras.check.fitting import Fitted, Unfit, fit
from tileiras.sim import emulate
from tileiras.stages.units import entries_of


def fitted(text: str, ptx: str = "") -> tuple[Facts, list[Fitted]]:
    parsed = tileiras.parse(text)
    (entry,) = entries_of(parsed)
    described, every = facts(entry), []
    for plan in launches.every(described, Boundaries(described), ptx):
        try:
            every.append(fit(entry, parsed, described, plan))
        except Unfit:
            continue
    return described, every


def executed(text: str, gpu_name: str) -> tuple[str, Boundaries, list[dict[int, int]]]:
    """The PTX, the bounds that its launches met, and the sizes of the launches."""
    parsed = tileiras.parse(text)
    (entry,) = entries_of(parsed)
    described, artifact = facts(entry), tileiras.compile(text, gpu_name=gpu_name)
    boundaries, sizes = Boundaries(described), []
    for plan in launches.every(described, boundaries, artifact.text):
        launch = fit(entry, parsed, described, plan)
        emulate(
            artifact.text, "k", launch.grid, launch.copies(), metadata=artifact.kernels[0].metadata, seed=None,
            compared=boundaries.compared,
        )  # fmt: skip
        boundaries.end(launch.plan.numbers)
        sizes.append(launch.plan.numbers)
    return artifact.text, boundaries, sizes


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_100"])
def test_every_bound_of_a_mask_is_met(gpu_name):
    ptx, boundaries, sizes = executed(DOUBLED, gpu_name)
    bounds = [n for n, line in enumerate(ptx.splitlines(), 1) if "setp.lt" in line or "setp.gt" in line]
    assert bounds and all(boundaries.met[line] for line in bounds)
    assert len(sizes) < launches.MOST, "no launch is left for bounds that are met"


def test_bounds_that_are_never_equal_take_no_launches():
    text = rows("%result = addf %value, %value : tile<256xf32>", assume="div_by<16>")
    assert len(executed(text, "sm_80")[2]) <= 8 + launches.RANDOM_LAUNCHES


def test_a_size_makes_the_operands_of_a_comparison_equal():
    described, _ = fitted(DOUBLED)
    (group,) = [[described.parameters[each] for each in group] for group in described.groups]
    boundaries = Boundaries(described)
    boundaries.compared(7, np.array([37 - 100, 37 - 100 + 64]))
    boundaries.end({2: 100})
    sizes = boundaries.choose([group], one=False)
    assert sizes[2] in (37, 101, 100 + 63, 100 - 1)
    for _ in range(4):
        boundaries.compared(7, np.array([0]))
        boundaries.end(sizes)
    assert boundaries.choose([group], one=False) == {}


def test_a_size_that_launches_do_not_get_is_chosen_twice_at_most():
    described, _ = fitted(DOUBLED)
    (group,) = [[described.parameters[each] for each in group] for group in described.groups]
    boundaries = Boundaries(described)
    boundaries.compared(7, np.array([37 - 100]))
    boundaries.end({2: 100})
    sizes = [boundaries.choose([group], one=False).get(2) for _ in range(5)]
    assert sizes.count(37) == 2 and sizes[-1] is None, "the launch of each has another size, which ends nothing"


SUMS = """
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %less = constant <i32: 15> : tile<i32>
    %tile = constant <i32: 16> : tile<i32>
    %block, %y, %z = get_tile_block_id : tile<i32>
    {bound}
    %more = addi %length, %less : tile<i32>
    %trips = divi %more, %tile signed rounding<zero> : tile<i32>
    %in = make_tensor_view %x, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %tiles = make_partition_view %in
        : partition_view<tile=(16), padding_value = zero, tensor_view<?xf32, strides=[1]>>
    %start = constant <f32: 0.0> : tile<16xf32>
    %sum = for %step in (%zero to %trips, step %one) : tile<i32> iter_values(%partial = %start) -> (tile<16xf32>) {{
      %value, %t1 = load_view_tko weak %tiles[%step]
          : partition_view<tile=(16), padding_value = zero, tensor_view<?xf32, strides=[1]>>, tile<i32>
            -> tile<16xf32>, token
      %next = addf %partial, %value : tile<16xf32>
      continue %next : tile<16xf32>
    }}
    %to = make_tensor_view %out, shape = [16], strides = [1] : tensor_view<16xf32, strides=[1]>
    %all = make_partition_view %to : partition_view<tile=(16), tensor_view<16xf32, strides=[1]>>
    %t2 = store_view_tko weak %sum, %all[%zero]
        : tile<16xf32>, partition_view<tile=(16), tensor_view<16xf32, strides=[1]>>, tile<i32> -> token"""
PARAMETERS = "%x: tile<ptr<f32>>, %out: tile<ptr<f32>>, %n: tile<i32>, %lengths: tile<ptr<i32>>"
FROM_MEMORY = module(
    SUMS.format(bound="%length, %t0 = load_ptr_tko weak %lengths : tile<ptr<i32>> -> tile<i32>, token"), PARAMETERS
)


def test_lengths_in_memory_have_the_trips_of_sizes():
    described, every = fitted(FROM_MEMORY)
    assert described.parameters[3].counts_trips and described.parameters[3].tile == 16
    trips = {-(-int(launch.arguments[3][0]) // 16) for launch in every}
    assert {0, 1, 2, 3, 5} <= trips and max(trips) >= 9
    assert all(launch.arguments[2] > 16 * (trip - 1) for launch in every for trip in [-(-launch.arguments[3][0] // 16)])


def test_a_deep_ring_is_used_a_third_time():
    barriers = "\n".join(f"mbarrier.init.shared.b64 [smem+{8 * n}], %r1;" for n in range(14))
    assert launches.ring_trips(f".entry k {{ {barriers} }}") == 15
    _, every = fitted(FROM_MEMORY, f".entry k {{ {barriers} }}")
    assert max(-(-int(launch.arguments[3][0]) // 16) for launch in every) > 14


def test_blocks_that_bound_loops_count_trips():
    text = rows("""
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %result = for %step in (%zero to %block, step %one) : tile<i32> iter_values(%p = %value) -> (tile<256xf32>) {
      %next = addf %p, %value : tile<256xf32>
      continue %next : tile<256xf32>
    }""")
    described, every = fitted(text)
    assert described.parameters[2].counts_trips and max(launch.grid[0] for launch in every) > 3


def test_padding_that_is_only_read_past_is_nan():
    text = module("""
    %zero = constant <i32: 0> : tile<i32>
    %block, %y, %z = get_tile_block_id : tile<i32>
    %in = make_tensor_view %x, shape = [%n, 16], strides = [%s, 1] : tile<i32> -> tensor_view<?x16xf32, strides=[?, 1]>
    %tiles = make_partition_view %in : partition_view<tile=(1x16), tensor_view<?x16xf32, strides=[?, 1]>>
    %to = make_tensor_view %out, shape = [%n, 16], strides = [%s, 1]
        : tile<i32> -> tensor_view<?x16xf32, strides=[?, 1]>
    %stores = make_partition_view %to : partition_view<tile=(1x16), tensor_view<?x16xf32, strides=[?, 1]>>
    %value, %t0 = load_view_tko weak %tiles[%block, %zero]
        : partition_view<tile=(1x16), tensor_view<?x16xf32, strides=[?, 1]>>, tile<i32> -> tile<1x16xf32>, token
    %t1 = store_view_tko weak %value, %stores[%block, %zero]
        : tile<1x16xf32>, partition_view<tile=(1x16), tensor_view<?x16xf32, strides=[?, 1]>>, tile<i32> -> token""",
        "%x: tile<ptr<f32>>, %out: tile<ptr<f32>>, %n: tile<i32>, %s: tile<i32>",
    )  # fmt: skip
    padded = [launch for launch in fitted(text)[1] if launch.arguments[3] > 16 and launch.arguments[2] > 1
              and launch.plan.kind in ("whole", "normal")]  # fmt: skip
    assert padded
    for launch in padded:
        x, out, _, stride = launch.arguments
        assert np.isnan(x[16:stride]).all() and not np.isnan(x[:16]).any() and not np.isnan(out).any()


def test_large_numbers_reach_arguments_that_functions_reduce():
    _, every = fitted(DOUBLED.replace("%n: tile<i32>", "%n: tile<i32>, %f: tile<f32>"))
    numbers = [abs(launch.arguments[3]) for launch in every]
    assert max(numbers) >= 40 and min(numbers) < 1

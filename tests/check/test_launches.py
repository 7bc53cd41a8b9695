"""Launches are found: sizes, strides, grids and memory that fit a kernel."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tileiras
from tests.check.fitting_plans import launches_of
from tests.kernels.checked import DOUBLED, module, pointers, rows, with_tile
from tileiras.check import launches
from tileiras.check.boundaries import Boundaries
from tileiras.check.facts import Facts, facts
from tileiras.check.fitting import fit
from tileiras.check.values import DISTINCT
from tileiras.stages.units import entries_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_sizes_lie_around_the_edges_of_a_tile():
    _, fitted = launches_of(DOUBLED)
    sizes = {each.arguments[2] for each in fitted}
    assert {1, 255, 256, 257, 513} <= sizes


def test_arrays_have_just_the_elements_that_views_cover():
    for launch in launches_of(DOUBLED)[1]:
        x, out, size = launch.arguments
        assert len(x) == len(out) == max(size, 1)
        assert launch.grid[0] == max(1, -(-size // 256)) and launch.grid[1:] == (1, 1)


def test_a_loop_between_two_numbers_has_any_count_of_trips():
    body = """
    %one = constant <i32: 1> : tile<i32>
    %sum = for %i in (%low to %high, step %one) : tile<i32> iter_values(%count = %one) -> (tile<i32>) {
      %next = addi %count, %i : tile<i32>
      continue %next : tile<i32>
    }
    %t = store_ptr_tko weak %x, %sum : tile<ptr<i32>>, tile<i32> -> token"""
    text = module(body, "%x: tile<ptr<i32>>, %low: tile<i32>, %high: tile<i32>")
    verdict = tileiras.check(text, gpu_name="sm_90")
    assert verdict.status == "right" and verdict.coverage["loop trips"] == (3, 3)


def _numbered(*axes: int) -> str:
    """Store the numbers of the tile block along some axes at the element that they count."""
    lines = ["%b0, %b1, %b2 = get_tile_block_id : tile<i32>", "%eight = constant <i32: 8> : tile<i32>"]
    lines.append("%s0 = constant <i32: 0> : tile<i32>")
    for number, axis in enumerate(axes):
        lines.append(f"%m{number} = muli %s{number}, %eight : tile<i32>")
        lines.append(f"%s{number + 1} = addi %m{number}, %b{axis} : tile<i32>")
    place = f"%s{len(axes)}"
    lines.append(f"%at = offset %x, {place} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>")
    lines.append(f"%t = store_ptr_tko weak %at, {place} : tile<ptr<i32>>, tile<i32> -> token")
    return module("\n".join(lines), "%x: tile<ptr<i32>>")


@pytest.mark.parametrize("axis", range(3))
def test_one_axis_of_the_grid_has_up_to_four_tile_blocks(axis):
    assert max(each.grid[axis] for each in launches_of(_numbered(axis))[1]) == 4


def test_each_axis_of_the_grid_has_three_tile_blocks():
    assert (np.max([each.grid for each in launches_of(_numbered(0, 1, 2))[1]], axis=0) >= 3).all()


def test_values_are_of_every_kind():
    assert {launch.plan.kind for launch in launches_of(DOUBLED)[1]} == set(launches.KINDS)


GATHERED = """
    %view = make_tensor_view %rows, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xi32, strides=[1]>
    %parts = make_partition_view %view : partition_view<tile=(16)PADDED, tensor_view<?xi32, strides=[1]>>
    %block, %b1, %b2 = get_tile_block_id : tile<i32>
    %chosen, %t0 = load_view_tko weak %parts[%block]
        : partition_view<tile=(16)PADDED, tensor_view<?xi32, strides=[1]>>, tile<i32> -> tile<16xi32>, token
    %flat = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
    %all = broadcast %flat : tile<1xptr<f32>> -> tile<16xptr<f32>>
    %at = offset %all, %chosen : tile<16xptr<f32>>, tile<16xi32> -> tile<16xptr<f32>>
    %values, %t1 = load_ptr_tko weak %at : tile<16xptr<f32>> -> tile<16xf32>, token
"""


@pytest.mark.parametrize("padded", [False, True])
def test_tiles_of_addresses_are_whole_without_padding(padded):
    """A partial tile has undefined elements; rows of addresses are all different in half of the launches."""
    text = GATHERED.replace("PADDED", ", padding_value = zero" * padded)
    entry = entries_of(tileiras.parse(module(text, "%rows: tile<ptr<i32>>, %x: tile<ptr<f32>>, %n: tile<i32>")))[0]
    described = facts(entry)
    plans = list(launches.edge_plans(described, Boundaries(described)))
    assert all(plan.numbers[2] % 16 == 0 for plan in plans) != padded
    assert {plan.limit for plan in plans} == {None, DISTINCT}


COUNTS = """
    %view = make_tensor_view %x, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %parts = make_partition_view %view : partition_view<tile=(16), tensor_view<?xf32, strides=[1]>>
    %zero = constant <i32: 0> : tile<i32>
    %numbers, %t0 = load_view_tko weak %parts[%zero]
        : partition_view<tile=(16), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<16xf32>, token
    %places = ftoi %numbers signed rounding<nearest_int_to_zero> : tile<16xf32> -> tile<16xi32>
    %four = constant <i32: 4> : tile<16xi32>
    %bins = addi %places, %four : tile<16xi32>
    %flat = reshape %counts : tile<ptr<i32>> -> tile<1xptr<i32>>
    %all = broadcast %flat : tile<1xptr<i32>> -> tile<16xptr<i32>>
    %at = offset %all, %bins : tile<16xptr<i32>>, tile<16xi32> -> tile<16xptr<i32>>
    %t1 = store_ptr_tko weak %at, %four : tile<16xptr<i32>>, tile<16xi32> -> token
"""


def test_floats_that_choose_elements_have_values_in_the_search():
    _, fitted = launches_of(module(COUNTS, "%x: tile<ptr<f32>>, %counts: tile<ptr<i32>>, %n: tile<i32>"))
    launch = fitted[0]
    assert launch.plan.kind == "whole" and len(launch.arguments[1]) == 5 + launch.arguments[0].max() > 5


@pytest.mark.parametrize(("assumption", "holds"), [
    ("div_by<16>", lambda n: n % 16 == 0), ("bounded<100, 300>", lambda n: 100 <= n <= 300),
])  # fmt: skip
def test_assumptions_on_sizes_hold(assumption, holds):
    text = rows("%result = negf %value : tile<256xf32>", assume=assumption)
    sizes = [each.arguments[2] for each in launches_of(text)[1]]
    assert len(set(sizes)) > 2 and all(map(holds, sizes))


PRODUCT = """
    %am = make_tensor_view %a, shape = [%m, %k], strides = [%sa, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %bm = make_tensor_view %b, shape = [%j, %n], strides = [%sb, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %at = make_partition_view %am
        : partition_view<tile=(16x8), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
    %bt = make_partition_view %bm
        : partition_view<tile=(8x16), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
    %row, %column, %unused = get_tile_block_id : tile<i32>
    %rows, %steps = get_index_space_shape %at
        : partition_view<tile=(16x8), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>> -> tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<16x16xf32>
    %sum = for %step in (%zero to %steps, step %one) : tile<i32> iter_values(%part = %none) -> (tile<16x16xf32>) {
      %x, %t0 = load_view_tko weak %at[%row, %step]
          : partition_view<tile=(16x8), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32>
          -> tile<16x8xf32>, token
      %y, %t1 = load_view_tko weak %bt[%step, %column]
          : partition_view<tile=(8x16), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32>
          -> tile<8x16xf32>, token
      %next = mmaf %x, %y, %part : tile<16x8xf32>, tile<8x16xf32>, tile<16x16xf32>
      continue %next : tile<16x16xf32>
    }"""
SIZES = "%m: tile<i32>, %k: tile<i32>, %j: tile<i32>, %n: tile<i32>, %sa: tile<i32>, %sb: tile<i32>"


def test_sizes_that_one_loop_counts_go_together():
    described, fitted = launches_of(module(PRODUCT, f"%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, {SIZES}"))
    assert sorted(map(sorted, described.groups)) == [[2], [3, 4], [5]]
    depths = {each.arguments[3] for each in fitted}
    assert all(each.arguments[3] == each.arguments[4] for each in fitted)
    assert {0, 8, 24} <= depths and max(depths) > 4 * 8, "no trip, one, several, more than rings are deep"


def test_rows_are_padded_where_strides_are_parameters():
    _, fitted = launches_of(module(PRODUCT, f"%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, {SIZES}"))
    gaps = {each.arguments[6] - each.arguments[3] for each in fitted if each.arguments[3]}
    assert 0 in gaps and any(gap > 0 for gap in gaps) and min(gaps) >= 0
    for launch in fitted:
        a, _, m, k, *_, stride, _ = launch.arguments
        assert len(a) == max((m - 1) * stride + k if m and k else 0, 1)


def test_memory_behind_raw_pointers_is_found_by_executing():
    text = module(f"""
    %block, %y, %z = get_tile_block_id : tile<i32>{pointers("%x", "i16", 64)}
    %values, %t0 = load_ptr_tko weak %at : tile<64xptr<i16>> -> tile<64xi16>, token
    %sums = addi %values, %values : tile<64xi16>
    %t1 = store_ptr_tko weak %at, %sums : tile<64xptr<i16>>, tile<64xi16> -> token""", "%x: tile<ptr<i16>>")
    for launch in launches_of(text)[1]:
        assert len(launch.arguments[0]) == 64 * launch.grid[0] and launch.grid[0] > 1


def test_integers_that_number_tiles_stay_inside():
    text = rows("""
    %at, %t2 = load_ptr_tko weak %which : tile<ptr<i32>> -> tile<i32>, token
    %other, %t3 = load_view_tko weak %in_tiles[%at]
        : partition_view<tile=(64), padding_value = zero, tensor_view<?xf32, strides=[1]>>, tile<i32>
        -> tile<64xf32>, token
    %result = addf %value, %other : tile<64xf32>""", 64)  # fmt: skip
    text = text.replace("%n: tile<i32>)", "%n: tile<i32>, %which: tile<ptr<i32>>)")
    fitted = launches_of(text)[1]
    assert len(fitted) >= 6 and all(0 <= each.arguments[3][0] <= each.arguments[2] // 64 for each in fitted)


def with_second_view(size: str, parameters: str) -> str:
    """Add the tiles of an array `w`, of `size` elements, to those of the first."""
    return rows(f"""
    %in2 = make_tensor_view %w, shape = [{size}], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %tiles2 = make_partition_view %in2
        : partition_view<tile=(64), padding_value = zero, tensor_view<?xf32, strides=[1]>>
    %other, %t3 = load_view_tko weak %tiles2[%block]
        : partition_view<tile=(64), padding_value = zero, tensor_view<?xf32, strides=[1]>>, tile<i32>
        -> tile<64xf32>, token
    %result = addf %value, %other : tile<64xf32>""", 64).replace(
        "%n: tile<i32>)", f"%n: tile<i32>, {parameters})")  # fmt: skip


def test_inputs_of_one_type_are_one_array_once():
    text = with_second_view("%n", "%w: tile<ptr<f32>>")
    copies = [each.copies() for each in launches_of(text)[1]]
    shared = [each for each in copies if each[0] is each[3]]
    assert len(shared) == 1 and not any(np.shares_memory(each[0], each[1]) for each in copies)


def test_a_plan_is_the_same_in_every_process():
    first, second = (launches_of(DOUBLED)[1] for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one.arguments, other.arguments))


def test_further_sizes_are_many_and_small():
    described = launches_of(DOUBLED)[0]
    sizes = [plan.numbers[2] for plan in launches.edge_plans(described, Boundaries(described))]
    assert len(sizes) == launches.RANDOM_LAUNCHES and len(set(sizes)) > len(sizes) // 2 and max(sizes) <= 512
    assert len({size % 16 for size in sizes}) > 12 and {(size - 1) % 256 // 32 for size in sizes} == set(range(8))


def test_counters_start_at_zero():
    text = module("""
    %one = constant <i32: 1> : tile<i32>
    %old, %t0 = atomic_rmw_tko relaxed device %count, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %place = offset %out, %old : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %t1 = store_ptr_tko weak %place, %one : tile<ptr<i32>>, tile<i32> -> token""",
        "%count: tile<ptr<i32>>, %out: tile<ptr<i32>>",
    )  # fmt: skip
    fitted = launches_of(text)[1]
    assert fitted and all(not launch.arguments[0].any() for launch in fitted)
    assert any(launch.arguments[1].any() for launch in fitted)


def test_a_threshold_of_hashes_takes_parts_of_the_range():
    text = rows("""
    %lane = iota : tile<64xi32>
    %bits = constant <i32: 7> : tile<64xi32>
    %hash = xori %lane, %bits : tile<64xi32>
    %one = reshape %limit : tile<i32> -> tile<1xi32>
    %limits = broadcast %one : tile<1xi32> -> tile<64xi32>
    %stays = cmpi less_than %hash, %limits, unsigned : tile<64xi32> -> tile<64xi1>
    %none = constant <f32: 0.0> : tile<64xf32>
    %result = select %stays, %value, %none : tile<64xi1>, tile<64xf32>""", 64)  # fmt: skip
    described, fitted = launches_of(text.replace("%n: tile<i32>)", "%n: tile<i32>, %limit: tile<i32>)"))
    assert described.parameters[3].is_threshold and not described.parameters[2].is_threshold
    assert {1 << 30, -1 << 30} <= {each.arguments[3] for each in fitted}


def test_sizes_of_one_index_end_apart_in_the_last_tile():
    described = launches_of(with_second_view("%m", "%w: tile<ptr<f32>>, %m: tile<i32>"))[0]
    pairs = [(plan.numbers[2], plan.numbers[4]) for plan in launches.edge_plans(described, Boundaries(described))]
    assert described.groups == [[2, 4]] and all(-(-n // 64) == -(-m // 64) for n, m in pairs)
    assert any(n != m for n, m in pairs) and any(n == m for n, m in pairs)


def test_a_size_that_a_tile_number_asks_for_keeps_its_part():
    sizes = {each.arguments[2] for each in launches_of(with_tile(3, 64))[1]}
    assert min(sizes) > 3 * 64 and any(size % 64 for size in sizes)


MASKED = module(f"""
    %block, %y, %z = get_tile_block_id : tile<i32>{pointers("%out", "i32", 64)}
    %size = reshape %n : tile<i32> -> tile<1xi32>
    %sizes = broadcast %size : tile<1xi32> -> tile<64xi32>
    %mask = cmpi less_than %places, %sizes, signed : tile<64xi32> -> tile<64xi1>
    %done = store_ptr_tko weak %at, %places, %mask : tile<64xptr<i32>>, tile<64xi32>, tile<64xi1> -> token
""", "%out: tile<ptr<i32>>, %n: tile<i32>")


@pytest.mark.parametrize(("text", "has_spare"), [(MASKED, True), (DOUBLED, False)], ids=["masks", "views"])
def test_masks_hold_back_a_block_that_launchers_round_up_to(text, has_spare):
    parsed = tileiras.parse(text)
    (entry,) = entries_of(parsed)
    described = facts(entry)
    spare = []
    for plan in launches.edge_plans(described, Boundaries(described)):
        launch = fit(entry, parsed, described, plan)
        elements = launch.grid[0] * (64 if has_spare else 256)
        spare.append(elements - len(launch.arguments[-2]) >= (64 if has_spare else 256))
    assert any(spare) is has_spare and not all(spare)


def test_quotients_rounded_down_are_places():
    """Of Python's `//` and `%` the front end makes a quotient that a select corrects."""
    text = MASKED.replace("%mask = cmpi less_than %places", """
    %one = constant <i32: 1> : tile<64xi32>
    %zero = constant <i32: 0> : tile<64xi32>
    %rest = remi %places, %sizes signed : tile<64xi32>
    %negative = cmpi less_than %rest, %zero, signed : tile<64xi32> -> tile<64xi1>
    %lower = subi %places, %one : tile<64xi32>
    %chosen = select %negative, %lower, %places : tile<64xi1>, tile<64xi32>
    %mask = cmpi less_than %chosen""")
    parameter = facts(entries_of(tileiras.parse(text))[0]).parameters[1]
    assert parameter.kind == "size" and not parameter.is_threshold


def test_numbers_that_may_be_negative_are():
    counted = facts(entries_of(tileiras.parse("examples/saxpy.mlir"))[0])
    assert {plan.numbers[3] for plan in launches.negative_plans(counted)} == {-1}
    extents = facts(entries_of(tileiras.parse(DOUBLED))[0])
    assert not list(launches.negative_plans(extents)), "a view has no negative size"


RING = "mbarrier.init.shared.b64 [smem], 1;\nsetp.eq.b32 \t%p1, %r2, 4;\nselp.b32 \t%r3, 0, %r2, %p1;\n"


def product() -> Facts:
    text = module(PRODUCT, f"%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, {SIZES}")
    return facts(entries_of(tileiras.parse(text))[0])


def test_floating_parameters_are_large_with_several_blocks():
    parsed = tileiras.parse(EXAMPLES / "kernels" / "rope.py")
    (entry,) = entries_of(parsed)
    described = facts(entry)
    fitted = [fit(entry, parsed, described, plan) for plan in launches.scalar_plans(described)]
    assert {each.arguments[14] for each in fitted} == {-40.0, -20.0, 2e5, 0.0}
    assert all(each.grid[0] > 1 for each in fitted)


@pytest.mark.parametrize("place", [0, 1, -1])
def test_faults_in_the_reduction_of_large_angles_are_found(place):
    source = EXAMPLES / "kernels" / "rope.py"
    ptx = tileiras.compile(source, gpu_name="sm_100").text
    shift = [*re.finditer(r"shl\.b64 \s*%rd\d+, %rd\d+, 32;", ptx)][place]
    changed = f"{ptx[: shift.start()]}{shift[0].replace('32;', '33;')}{ptx[shift.end() :]}"
    assert tileiras.check(source, gpu_name="sm_100", image=changed).status == "wrong"


def test_loops_end_at_each_stage_of_a_ring_in_each_phase():
    assert launches.ring_depth(RING) == 4 and launches.ring_depth("setp.eq.b32 %p1, %r2, 4;") == 0
    every = [*launches.plans(product(), launches.ring_trips(RING)), *launches.ring_plans(product(), RING)]
    assert set(range(2 * 4 + 1)) <= {-(-plan.numbers[3] // 8) for plan in every}


def test_a_loop_goes_on_until_a_wrong_count_of_arrivals_shows():
    """A barrier that expects three arrivals instead of four is ahead by a phase at the fourth use of its stage."""
    code = RING.replace("[smem], 1", "[smem], %r9") + "mov.b32 \t%r9, 4;\n"
    assert launches.drift_trips(RING) == 0 and launches.drift_trips(code) == 4 * 5 + 1
    *_, last = launches.ring_plans(product(), code)
    assert -(-last.numbers[3] // 8) == 21 and last.is_edge


def test_later_tile_blocks_have_trips_for_wrong_counts():
    """Tiles of 16 keys for 32 queries: the eighth tile block of causal attention has 16 trips."""
    entry = entries_of(tileiras.parse(EXAMPLES / "kernels" / "attention.py"))[1]
    code = RING.replace("[smem], 1", "[smem], %r9").replace(", 4;", ", 3;") + "mov.b32 \t%r9, 4;\n"
    *_, last = launches.ring_plans(facts(entry), code)
    assert launches.drift_trips(code) == 16 and last.blocks == (8, 1, 1)


def test_a_loop_behind_another_has_whole_tiles():
    """The first loop ends at a parameter, where the second one begins, which ends with the view."""
    body = """
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %view = make_tensor_view %x, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %tiles = make_partition_view %view : TILES
    %count = get_index_space_shape %tiles : TILES -> tile<i32>
    for %i in (%zero to %m, step %one) : tile<i32> {
      %value = constant <f32: 1.0> : tile<256xf32>
      %t = store_view_tko weak %value, %tiles[%i] : tile<256xf32>, TILES, tile<i32> -> token
      continue
    }
    for %i in (%m to %count, step %one) : tile<i32> {
      %value = constant <f32: 2.0> : tile<256xf32>
      %t = store_view_tko weak %value, %tiles[%i] : tile<256xf32>, TILES, tile<i32> -> token
      continue
    }""".replace("TILES", "partition_view<tile=(256), tensor_view<?xf32, strides=[1]>>")
    (entry,) = entries_of(tileiras.parse(module(body, "%x: tile<ptr<f32>>, %n: tile<i32>, %m: tile<i32>")))
    plans = list(launches.split_plans(facts(entry)))
    assert [(plan.numbers[1], plan.numbers[2]) for plan in plans] == [(3 * 256, 0), (3 * 256, 1)]


def test_views_have_room_beyond_a_constant_count_of_tiles():
    """A tile block that goes on to the fourth tile writes there."""
    body = """
    %first, %y, %z = get_tile_block_id : tile<i32>
    %step, %ny, %nz = get_num_tile_blocks : tile<i32>
    %end = constant <i32: 3> : tile<i32>
    %view = make_tensor_view %x, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %tiles = make_partition_view %view : TILES
    for %i in (%first to %end, step %step) : tile<i32> {
      %value = constant <f32: 1.0> : tile<256xf32>
      %t = store_view_tko weak %value, %tiles[%i] : tile<256xf32>, TILES, tile<i32> -> token
      continue
    }""".replace("TILES", "partition_view<tile=(256), tensor_view<?xf32, strides=[1]>>")
    parsed = tileiras.parse(module(body, "%x: tile<ptr<f32>>, %n: tile<i32>"))
    (entry,) = entries_of(parsed)
    described = facts(entry)
    assert described.constant_trips == 3
    sizes = [fit(entry, parsed, described, plan).arguments[1] for plan in launches.roomy_plans(described)]
    assert sizes == [1024, 1025]


@pytest.mark.parametrize("name", ["matmul_f16.py", "kernels/matmul_grouped.py"])
def test_a_view_goes_on_where_another_one_ends(name):
    """A trip too many of a loop over the tiles of both reads there, where there is NaN, and multiplies by the zeros
    behind the other."""
    parsed = tileiras.parse(EXAMPLES / name)
    (entry,) = entries_of(parsed)
    described = facts(entry)
    groups = [each for each in described.groups if any(described.parameters[at].counts_trips for at in each)]
    several = next(each for each in groups if len(each) > 1)
    tiles = [
        tuple(-(-plan.numbers[at] // described.parameters[at].tile) for at in several)
        for plan in launches.roomy_plans(described)
    ]  # fmt: skip
    assert len(set(tiles)) == 2 and all(min(each) < max(each) for each in tiles)


def test_each_kernel_of_a_code_for_clusters_has_grids_of_its_own():
    code = f".entry a() {{ {RING} }} .entry b() .reqnctapercluster 2, 1, 1 {{ {RING} }}"
    plans = list(launches.ring_plans(product(), code))
    assert {plan.blocks for plan in plans} == {(1, 1, 1), (2, 1, 1), (3, 1, 1), (1, 3, 1)}
    assert all(-(-plan.numbers[2] // 16) >= plan.blocks[0] for plan in plans), "rows for each tile block"


def test_values_of_arrays_keep_assertions():
    body = """
    %bound = constant <f32: 0.0> : tile<256xf32>
    %holds = cmpf greater_than ordered %value, %bound : tile<256xf32> -> tile<256xi1>
    assert %holds, "positive only" : tile<256xi1>
    %result = sqrt %value rounding<approx> : tile<256xf32>"""
    verdict = tileiras.check(rows(body, padding="pos_inf"), gpu_name="sm_90")
    assert verdict.status == "right" and verdict.coverage["operations"][0] == verdict.coverage["operations"][1]
    assert sum(each.status == "right" for each in verdict.launches) > 4

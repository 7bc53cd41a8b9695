"""Sizes of launches settle by trials on guarded memory."""

from __future__ import annotations

import pytest

import tileiras
from tests.check.fitting_plans import launches_of
from tests.kernels.checked import module, rows
from tileiras.check import launches
from tileiras.check.facts import facts
from tileiras.check.fitting import fit
from tileiras.stages.units import entries_of


@pytest.mark.parametrize("first", [0, 2])
def test_sizes_follow_a_constant_count_of_tiles(first):
    """Forty tiles are more than a search takes one by one, and end at the last one."""
    body = f"""
    %start = constant <i32: 0> : tile<i32>
    %step = constant <i32: 1> : tile<i32>
    %end = constant <i32: 40> : tile<i32>
    %from = constant <i32: {first}> : tile<i32>
    %view = make_tensor_view %x, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %tiles = make_partition_view %view : TILES
    for %i in (%start to %end, step %step) : tile<i32> {{
      %number = addi %from, %i : tile<i32>
      %value = constant <f32: 1.0> : tile<64xf32>
      %t = store_view_tko weak %value, %tiles[%number] : tile<64xf32>, TILES, tile<i32> -> token
      continue
    }}""".replace("TILES", "partition_view<tile=(64), tensor_view<?xf32, strides=[1]>>")
    sizes = {each.arguments[1] for each in launches_of(module(body, "%x: tile<ptr<f32>>, %n: tile<i32>"))[1]}
    assert sizes and {-(-size // 64) for size in sizes} == {first + 40}


def test_sizes_double_where_no_counter_says_how_far():
    """One repair for each tile would not end."""
    view = "tensor_view<?xf32, strides=[1]>"
    tiles = f"partition_view<tile=(512), padding_value = zero, {view}>"
    text = rows(f"""
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %end = constant <i32: 50> : tile<i32>
    %result = for %i in (%zero to %end, step %one) : tile<i32> iter_values(%sum = %value) -> (tile<512xf32>) {{
      %even = muli %i, %two : tile<i32>
      %other, %t2 = load_view_tko weak %in_tiles[%even] : {tiles}, tile<i32> -> tile<512xf32>, token
      %next = addf %sum, %other : tile<512xf32>
      continue %next : tile<512xf32>
    }}""", tile=512)  # fmt: skip
    _, fitted = launches_of(text)
    assert fitted and all(99 * 512 < each.arguments[2] for each in fitted)


def test_sizes_settle_for_each_of_many_views():
    """Tile 3 of each view lies beyond its size, a parameter that no other view has."""
    count, view = 9, "tensor_view<?x?xf32, strides=[?,1]>"
    tiles = f"partition_view<tile=(1x16), padding_value = zero, {view}>"
    body = ["%far = constant <i32: 3> : tile<i32>"]
    for n in range(count):
        body += [
            f"%view_{n} = make_tensor_view %x{n}, shape = [%r{n}, %c{n}], strides = [%s{n}, 1] : tile<i32> -> {view}",
            f"%tiles_{n} = make_partition_view %view_{n} : {tiles}",
            f"%value_{n}, %t{n} = load_view_tko weak %tiles_{n}[%far, %far] : {tiles}, tile<i32>"
            " -> tile<1x16xf32>, token",
        ]
    parameters = (f"%x{n}: tile<ptr<f32>>, %r{n}: tile<i32>, %c{n}: tile<i32>, %s{n}: tile<i32>" for n in range(count))
    _, fitted = launches_of(module("\n".join(body), ", ".join(parameters)))
    assert fitted and all(
        each.arguments[4 * n + 1] > 3 and each.arguments[4 * n + 2] > 3 * 16 for each in fitted for n in range(count)
    )


DECIDES = {
    "sums": ("%r = addf %value, %value : tile<256xf32>", False),
    "a comparison": ("""%zero = constant <f32: 0.0> : tile<256xf32>
    %is = cmpf less_than ordered %value, %zero : tile<256xf32> -> tile<256xi1>
    %r = select %is, %value, %zero : tile<256xi1>, tile<256xf32>""", True),
    "bits": ("""%bits = bitcast %value : tile<256xf32> -> tile<256xi32>
    %r = itof %bits signed : tile<256xi32> -> tile<256xf32>""", True),
}  # fmt: skip


@pytest.mark.parametrize("name", DECIDES)
def test_floats_are_computed_where_they_may_decide(name):
    body, may_decide = DECIDES[name]
    parsed = tileiras.parse(rows(body.replace("%r ", "%result ")))
    (entry,) = entries_of(parsed)
    described = facts(entry)
    assert described.reads_floats == may_decide
    fitted = [fit(entry, parsed, described, plan) for plan in launches.plans(described)]
    described.reads_floats = True
    again = [fit(entry, parsed, described, plan) for plan in launches.plans(described)]
    assert [(each.grid, each.describe()) for each in fitted] == [(each.grid, each.describe()) for each in again]

"""Statements of certificates of order on programs: repeatability, and dependences on launch quantities."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from certificates import certificate, output  # noqa: E402

from tests.kernels import summed  # noqa: E402
from tests.kernels.checked import module  # noqa: E402

KERNELS = Path(__file__).resolve().parents[2] / "examples" / "kernels"
ROWS, COLUMNS, WIDTH = "p2", "p3", "p5"


def example(name: str) -> str:
    return (KERNELS / name).read_text()


@pytest.mark.parametrize("name", summed.OF_ROWS)
def test_a_row_depends_on_its_own_length_alone(name):
    out = output(summed.OF_ROWS[name](), 1)
    assert out.repeatable == "yes"
    assert out.depends() == {COLUMNS: "order"}


def test_an_element_of_a_product_depends_on_the_depth_alone():
    out = output(summed.product(), 2)
    assert (out.repeatable, out.depends()) == ("yes", {"p4": "order"})
    assert {"grid", "block", "p3", WIDTH} == set(certificate(summed.product()).invariant(out))


def test_float_additions_of_several_tile_blocks_differ():
    result = certificate(summed.shared_sums())
    (out,) = result.outputs
    assert out.repeatable == "no" and {"grid.z", "block.z", COLUMNS} <= set(out.order)
    (cause,) = result.causes
    assert cause.says == "no" and [each.op for each in result.sums if each.kind == "atomic"] == [cause.op]


def test_integer_additions_of_several_tile_blocks_are_the_same():
    out = output(summed.counts(), 1)
    assert out.repeatable == "yes" and {"grid.x", ROWS} <= set(out.order)


UPDATE = (
    "%old, %k = atomic_rmw_tko {order} device {place}, {mode}, %one"
    " : tile<ptr<i32>>, tile<i32> -> tile<i32>, token"
)
HEAD = (
    "%block, %y, %z = get_tile_block_id : tile<i32>\n%blocks, %ny, %nz = get_num_tile_blocks : tile<i32>\n"
    "%one = constant <i32: 1> : tile<i32>\n%zero = constant <i32: 0> : tile<i32>"
)


def update(mode: str = "add", place: str = "%p", order: str = "relaxed") -> str:
    return UPDATE.format(order=order, place=place, mode=mode)


def kernel(*lines: str) -> str:
    """With a counter %p, and arrays %x and %out of %n integers each."""
    text = "%p: tile<ptr<i32>>, %x: tile<ptr<i32>>, %out: tile<ptr<i32>>, %n: tile<i32>"
    return module("\n".join([HEAD, *lines]), text)


def load(value: str, at: str, order: str = "weak") -> str:
    return (
        f"%at_{value} = offset %x, %{at} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
        f"%{value}, %k_{value} = load_ptr_tko {order} %at_{value} : tile<ptr<i32>> -> tile<i32>, token"
    )


def store(value: str, at: str) -> str:
    return (
        f"%to_{at} = offset %out, %{at} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
        f"%s_{at} = store_ptr_tko weak %to_{at}, %{value} : tile<ptr<i32>>, tile<i32> -> token"
    )


def taken(count: str) -> str:
    """A tile block takes numbers from the counter while they are below %n, and copies the element of each."""
    return kernel(
        f"loop {{\n{update()}\n%done = cmpi greater_than_or_equal %old, %n, signed : tile<i32> -> tile<i1>",
        "if %done {\nbreak\n}",
        load("v", "old"), f"%w = addi %v, %{count} : tile<i32>", store("w", "old"), "continue\n}",
    )  # fmt: skip


OF_NUMBERS = {
    "a number that is stored": (kernel(update(), store("old", "block")), "no"),
    "a place that is taken": (kernel(update(), load("v", "block"), store("v", "old")), "unknown"),
    "what is read": (kernel(update(), load("v", "old"), store("v", "block")), "unknown"),
    "whether it is written": (
        kernel(
            update(), "%first = cmpi equal %old, %zero, signed : tile<i32> -> tile<i1>",
            f"if %first {{\n{store('one', 'block')}\n}}",
        ), "unknown",
    ),
    "work that is taken": (taken("one"), "yes"),
    "work that is taken by somebody": (taken("block"), "unknown"),
    "nothing": (kernel(update(), load("v", "block"), store("v", "block")), "yes"),
}  # fmt: skip


@pytest.mark.parametrize("what", OF_NUMBERS)
def test_old_values_of_a_counter(what):
    """The counter gives tile blocks numbers in the order in which they arrive."""
    text, says = OF_NUMBERS[what]
    assert output(text, 2).repeatable == says
    loops = "loop" in text
    assert output(text, 0).repeatable == ("unknown" if loops else "yes"), "of the counter, whose values say when to end"


@pytest.mark.parametrize("mode, says", [("add", "yes"), ("max", "yes"), ("xor", "yes"), ("xchg", "unknown")])
def test_updates_whose_order_does_not_matter(mode, says):
    assert output(kernel(update(mode)), 0).repeatable == says


def test_updates_of_two_kinds_are_not_known():
    other = update("max").replace("%old, %k", "%old2, %k2")
    assert output(kernel(update("add"), other), 0).repeatable == "unknown"


def test_turns_at_a_lock_differ():
    result = certificate(example("spin_lock.mlir"))
    total = next(out for out in result.outputs if out.argument == 1)
    assert total.repeatable == "no" and "turns" in " ".join(cause.why for cause in result.causes)


@pytest.mark.parametrize("name, argument", [("last_block_reduction.mlir", 4), ("prefix_sum.mlir", 1)])
def test_data_of_other_tile_blocks_are_unknown(name, argument):
    assert output(example(name), argument).repeatable == "unknown"


def test_partial_sums_of_tile_blocks_are_the_same():
    """The kernel acquires, and each tile block stores to an element of its own."""
    assert output(example("last_block_reduction.mlir"), 2).repeatable == "yes"


def test_a_flag_is_not_known():
    """The kernel reads, in no order, elements that other tile blocks write."""
    text = kernel(load("v", "block", "relaxed device"), store("v", "block")).replace("offset %out", "offset %x")
    assert output(text, 1).repeatable == "unknown"
    assert output(text.replace("relaxed device", "weak"), 1).repeatable == "yes"


ELEMENTS = {
    "of a row": ("%i", "yes"), "of half a row": ("%halves", "unknown"), "at loaded places": ("%loaded", "unknown"),
    "two apart": ("%doubles", "yes"),
}  # fmt: skip


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements_of_a_tile_at_one_place(name):
    """Ordered stores to one element are no data race, but have no order."""
    places, says = ELEMENTS[name]
    tile, pointers = "tile<4xi32>", "tile<4xptr<i32>>"
    text = kernel(f"""
    %i = iota : {tile}
    %twos = constant <i32: 2> : {tile}
    %halves = divi %i, %twos unsigned : {tile}
    %doubles = muli %i, %twos : {tile}
    %x1 = reshape %x : tile<ptr<i32>> -> tile<1xptr<i32>>
    %xs = broadcast %x1 : tile<1xptr<i32>> -> {pointers}
    %from = offset %xs, %i : {pointers}, {tile} -> {pointers}
    %loaded, %t = load_ptr_tko weak %from : {pointers} -> {tile}, token
    %o1 = reshape %out : tile<ptr<i32>> -> tile<1xptr<i32>>
    %os = broadcast %o1 : tile<1xptr<i32>> -> {pointers}
    %to = offset %os, {places} : {pointers}, {tile} -> {pointers}
    %u = store_ptr_tko relaxed device %to, %loaded : {pointers}, {tile} -> token
""")
    assert output(text, 2).repeatable == says


def test_rows_of_an_unknown_length_may_overlap():
    """The argument may be 0: weak stores would be a data race then, ordered ones would not."""
    text = kernel("%row = muli %block, %n : tile<i32>", load("v", "block"), store("v", "row"))
    assert output(text, 2).repeatable == "yes"
    ordered = text.replace("store_ptr_tko weak", "store_ptr_tko relaxed device")
    assert output(ordered, 2).repeatable == "unknown"
    assert output(ordered.replace("muli %block, %n", "muli %block, %one"), 2).repeatable == "yes"


def multicast(kind: str, element: str, order: str) -> str:
    """Each tile block stores the sums, or the largest, of copies of its tile."""
    tensor = f"tensor_view<64x{element}, strides=[1], #cuda_tile.ptr_attr<multicast>>"
    view, plain = f"partition_view<tile=(64), {tensor}>", f"tensor_view<64x{element}, strides=[1]>"
    reduction = f"attributes {{reduction = #cuda_tile.multimem_reduction_kind<{kind}>}}"
    return module(f"""
    {HEAD}
    %mv = make_tensor_view %m, shape = [64], strides = [1] : {tensor}
    %mt = make_partition_view %mv : {view}
    %pv = make_tensor_view %p, shape = [64], strides = [1] : {plain}
    %pt = make_partition_view %pv : partition_view<tile=(64), {plain}>
    %v, %t = multimem_load_reduce_view_tko {order} %mt[%block] {reduction}
        : {view}, tile<i32> -> tile<64x{element}>, token
    %u = store_view_tko weak %v, %pt[%block]
        : tile<64x{element}>, partition_view<tile=(64), {plain}>, tile<i32> -> token
""", f"%m: tile<ptr<{element}, <multicast>>>, %p: tile<ptr<{element}>>")


@pytest.mark.parametrize("kind, element, order, says", [
    ("add", "f32", "weak", "no"), ("max", "f16", "weak", "yes"), ("add", "i32", "weak", "yes"),
    ("add", "i32", "relaxed sys", "unknown"), ("add", "i32", "acquire device", "unknown"),
])  # fmt: skip
def test_copies_behind_multicast_addresses(kind, element, order, says):
    """Float additions round in the hardware's order; ordered loads may see copies while devices write them."""
    assert output(multicast(kind, element, order), 1).repeatable == says


def test_ordered_loads_may_see_writes_of_others():
    text = kernel(load("v", "block", "acquire device"), store("v", "block"))
    assert output(text, 2).repeatable == "unknown"
    assert output(text.replace("acquire device", "weak"), 2).repeatable == "yes"


DEPENDS = {
    "another place": ("%i = addi %block, %n : tile<i32>", load("v", "i"), store("v", "block"), {"p3": "reads"}),
    "the same place": ("%i = addi %block, %n : tile<i32>", load("v", "i"), store("v", "i"), {}),
    "a place beside": ("%i = addi %block, %one : tile<i32>", load("v", "i"), store("v", "block"), {}),
    "a mirrored place": (
        "%i = muli %block, %blocks : tile<i32>", load("v", "block"), store("v", "i"),
        {"block.x": "reads", "grid.x": "reads"},
    ),
    "a number": ("%i = addi %block, %n : tile<i32>", load("v", "block"), store("i", "block"),
                 {"block.x": "value", "p3": "value"}),
}  # fmt: skip


@pytest.mark.parametrize("what", DEPENDS)
def test_dependences_of_an_element(what):
    *lines, depends = DEPENDS[what]
    assert output(kernel(*lines), 2).depends() == depends


BASES = {"%zero": {}, "%n": {"p3": "reads"}, "%blocks": {"grid.x": "reads"}}


@pytest.mark.parametrize("number", BASES)
def test_bases_of_views_select_the_data(number):
    tensor = "tensor_view<64xi32, strides=[1]>"
    tiles = f"partition_view<tile=(4), {tensor}>"
    text = kernel(f"""
    %base = offset %x, {number} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %xv = make_tensor_view %base, shape = [64], strides = [1] : {tensor}
    %xs = make_partition_view %xv : {tiles}
    %ov = make_tensor_view %out, shape = [64], strides = [1] : {tensor}
    %os = make_partition_view %ov : {tiles}
    %v, %t = load_view_tko weak %xs[%block] : {tiles}, tile<i32> -> tile<4xi32>, token
    %u = store_view_tko weak %v, %os[%block] : tile<4xi32>, {tiles}, tile<i32> -> token
""")
    assert output(text, 2).depends() == BASES[number]


def test_a_grid_that_shares_out_a_row_is_in_its_order():
    """Partial sums, one for each tile block along z, that nothing adds up."""
    at = "%place = offset %p_out, %part"
    text = summed.shared_sums().replace("%place = offset %p_out, %block", at)
    text = text[: text.index("%old, %done")] + (
        "%done = store_ptr_tko weak %places, %s : tile<1xptr<f32>>, tile<1xf32> -> token\n    return\n  }\n}\n"
    )
    out = output(text, 1)
    assert out.repeatable == "yes"
    assert out.depends() == {"block.z": "order", "grid.z": "order", COLUMNS: "order", "block.x": "reads"}




def test_counters_of_loops_around_enter_a_sum_as_values():
    """The loop around carries nothing; its counter is a term of the sum in each of its iterations."""
    text = module(f"""{HEAD}
    %none = constant <f32: 0.0> : tile<f32>
    for %row in (%zero to %n, step %one) : tile<i32> {{
      %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<f32>) {{
        %term = itof %row signed rounding<nearest_even> : tile<i32> -> tile<f32>
        %next = addf %acc, %term rounding<nearest_even> : tile<f32>
        continue %next : tile<f32>
      }}
      %to = offset %out, %row : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
      %stored = store_ptr_tko weak %to, %sum : tile<ptr<f32>>, tile<f32> -> token
      continue
    }}""", "%out: tile<ptr<f32>>, %n: tile<i32>")  # fmt: skip
    result = certificate(text)
    assert [each.kind for each in result.sums] == ["loop"]
    assert [(out.repeatable, out.depends()["p1"]) for out in result.outputs] == [("yes", "order")]

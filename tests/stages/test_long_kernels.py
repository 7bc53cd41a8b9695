"""Long kernels: no recursion along a chain of operations, and time in proportion to the operations."""

import sys

import pytest

import tileiras

TILE = "tile<16x16xf32>"
VIEW = "partition_view<tile=(16x16), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>"


def _loop(body, result):
    """A kernel whose loop carries the tile %sum through `body`."""
    return f"""cuda_tile.module @m {{
  entry @long(%p: tile<ptr<f32>>, %n: tile<i32>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %array = make_tensor_view %p, shape = [%n, %n], strides = [%n, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %tiles = make_partition_view %array : {VIEW}
    %row, %column, %unused = get_tile_block_id : tile<i32>
    %first = constant <f32: 0.0> : {TILE}
    %all = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%sum = %first) -> ({TILE}) {{
{body}
      continue {result} : {TILE}
    }}
    %done = store_view_tko weak %all, %tiles[%row, %column] : {TILE}, {VIEW}, tile<i32> -> token
    return
  }}
}}
"""


def _load(name, index="%i"):
    return f"      {name}, {name}_token = load_view_tko weak %tiles[%row, {index}] : {VIEW}, tile<i32> -> {TILE}, token"


def test_a_chain_longer_than_the_stack():
    lines, value = [_load("%x")], "%x"
    for number in range(1200):
        lines.append(f"      %v{number} = addf {value}, %sum : {TILE}")
        value = f"%v{number}"
    text = tileiras.compile(_loop("\n".join(lines), value), gpu_name="sm_90", emit="llvm").text
    assert text.count("fadd") >= 1200


def _calls(text):
    """Calls of functions that a kernel takes up to nv_tileas."""
    count = 0

    def on_event(frame, event, argument):
        nonlocal count
        count += event == "call"

    tileiras.compile(text, gpu_name="sm_90", emit="tileas")  # fills caches
    sys.setprofile(on_event)
    try:
        tileiras.compile(text, gpu_name="sm_90", emit="tileas")
    finally:
        sys.setprofile(None)
    return count


def _with_loads(loads):
    """A loop with this number of loads."""
    lines, value = [], "%sum"
    for number in range(loads):
        lines.append(f"      %c{number} = constant <i32: {number}> : tile<i32>")
        lines.append(f"      %j{number} = addi %i, %c{number} : tile<i32>")
        lines.append(_load(f"%x{number}", f"%j{number}"))
        lines.append(f"      %v{number} = addf {value}, %x{number} : {TILE}")
        value = f"%v{number}"
    return _loop("\n".join(lines), value)


def test_time_grows_with_the_loads_of_a_loop():
    few, many = _calls(_with_loads(16)), _calls(_with_loads(64))
    assert many < 6 * few, (few, many)


def _with_mask(steps):
    """Elements selected by a number that each step computes from two uses of the one before."""
    numbers = "tile<16x16xi32>"
    lines = [
        _load("%x"),
        "      %lanes = iota : tile<16xi32>",
        "      %one_row = reshape %lanes : tile<16xi32> -> tile<1x16xi32>",
    ]
    lines.append(f"      %v0 = broadcast %one_row : tile<1x16xi32> -> {numbers}")
    lines.append("      %n_scalar = reshape %n : tile<i32> -> tile<1x1xi32>")
    lines.append(f"      %bound = broadcast %n_scalar : tile<1x1xi32> -> {numbers}")
    for step in range(steps):
        lines.append(f"      %u{step} = xori %v{step}, %bound : {numbers}")
        lines.append(f"      %v{step + 1} = muli %v{step}, %u{step} : {numbers}")
    lines.append(f"      %mask = cmpi less_than %v{steps}, %bound, signed : {numbers} -> tile<16x16xi1>")
    lines.append(f"      %y = select %mask, %x, %sum : tile<16x16xi1>, {TILE}")
    return _loop("\n".join(lines), "%y")


def test_time_grows_with_the_chain_of_a_mask():
    few, many = _calls(_with_mask(4)), _calls(_with_mask(14))
    assert many < 4 * few, (few, many)


def _with_index(steps):
    """A load whose index each step computes from two uses of the number before."""
    lines = []
    value = "%i"
    for step in range(steps):
        lines.append(f"      %u{step} = xori {value}, %row : tile<i32>")
        lines.append(f"      %v{step} = muli {value}, %u{step} : tile<i32>")
        value = f"%v{step}"
    lines += [_load("%x", value), f"      %y = addf %sum, %x : {TILE}"]
    return _loop("\n".join(lines), "%y")


def test_time_grows_with_the_chain_of_an_index():
    few, many = _calls(_with_index(4)), _calls(_with_index(14))
    assert many < 3 * few, (few, many)


def _with_operand(steps):
    """A dot of an operand that each step computes from two uses of the tile before."""
    view = "partition_view<tile=(64x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>"
    tile = "tile<64x64xf16>"
    lines = []
    for name in "ab":
        lines.append(
            f"%{name}, %{name}_token = load_view_tko weak %tiles[%row, %i] : {view}, tile<i32> -> {tile}, token"
        )
    value = "%a"
    for step in range(steps):
        lines.append(f"%u{step} = addf {value}, %a : {tile}")
        lines.append(f"%v{step} = mulf {value}, %u{step} : {tile}")
        value = f"%v{step}"
    lines.append(f"%y = mmaf {value}, %b, %sum : {tile}, {tile}, tile<64x64xf32>")
    text = _loop("\n".join(lines), "%y").replace(TILE, "tile<64x64xf32>").replace("16x16", "64x64")
    return (
        text.replace("tile<ptr<f32>>, %n", "tile<ptr<f16>>, %out: tile<ptr<f32>>, %n")
        .replace("xf32, strides=[?,1]>\n", "xf16, strides=[?,1]>\n")
        .replace(f"%tiles = make_partition_view %array : {VIEW.replace('16x16', '64x64')}",
                 f"""%tiles = make_partition_view %array : {view}
    %matrix = make_tensor_view %out, shape = [%n, %n], strides = [%n, 1]
        : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %sums = make_partition_view %matrix : {VIEW.replace('16x16', '64x64')}""")
        .replace("%all, %tiles", "%all, %sums")
    )  # fmt: skip


def test_time_grows_with_the_chain_of_an_operand():
    few, many = _calls(_with_operand(4)), _calls(_with_operand(18))
    assert many < 4 * few, (few, many)


@pytest.mark.parametrize("gpu_name", ["sm_90", "cpu"])
@pytest.mark.parametrize("kernel", [_with_mask, _with_index, _with_operand])
def test_chains_of_all_kinds_longer_than_the_stack(kernel, gpu_name):
    assert tileiras.compile(kernel(600), gpu_name=gpu_name, emit="llvm").text.count("mul") > 300


def _chain(step):
    """A loaded tile after many steps, each of the tile that the one before gave."""
    lines = [_load("%x0")]
    for number in range(400):
        lines.append(step.format(old=f"%x{number}", new=f"%x{number + 1}", name=f"%y{number}"))
    lines.append(f"%y = addf %x400, %sum : {TILE}")
    return _loop("\n".join(lines), "%y")


PERMUTE = f"{{new}} = permute {{old}} [1, 0] : {TILE} -> {TILE}"
RESHAPE = f"""{{name}} = reshape {{old}} : {TILE} -> tile<1x16x16xf32>
{{new}} = reshape {{name}} : tile<1x16x16xf32> -> {TILE}"""
REJOIN = f"""{{name}} = reshape {{old}} : {TILE} -> tile<256xf32>
{{new}} = reshape {{name}} : tile<256xf32> -> {TILE}"""
FIRST_ROW = f"""{{name}} = extract {{old}}[%zero, %zero] : {TILE} -> tile<1x16xf32>
{{new}} = broadcast {{name}} : tile<1x16xf32> -> {TILE}"""


@pytest.mark.parametrize("gpu_name", ["sm_90", "cpu"])
@pytest.mark.parametrize("step", [PERMUTE, RESHAPE, REJOIN, FIRST_ROW], ids=["permute", "reshape", "rejoin", "row"])
def test_renamings_longer_than_the_stack(step, gpu_name):
    assert "fadd" in tileiras.compile(_chain(step), gpu_name=gpu_name, emit="llvm").text


def _row_beside_a_dot(steps):
    """A loaded row, broadcast, goes through many steps on its way to the sum with a product."""
    row = "tile<1x16xf32>"
    lines = [_load("%a"), f"%b = extract %a[%zero, %zero] : {TILE} -> {row}", f"%x0 = broadcast %b : {row} -> {TILE}"]
    lines += [f"%x{step + 1} = exp %x{step} : {TILE}" for step in range(steps)]
    lines += [f"%dot = mmaf %a, %a, %sum : {TILE}, {TILE}, {TILE}", f"%y = addf %dot, %x{steps} : {TILE}"]
    return _loop("\n".join(lines), "%y")


def test_a_row_beside_a_dot_longer_than_the_stack():
    assert "fadd" in tileiras.compile(_row_beside_a_dot(600), gpu_name="sm_90", emit="llvm").text

"""Small kernels to check."""

from __future__ import annotations


def module(body: str, parameters: str) -> str:
    return f"cuda_tile.module @m {{\n  entry @k({parameters}) {{\n{body}\n    return\n  }}\n}}\n"


def rows(operations: str, tile: int = 256, element: str = "f32", assume: str = "", padding: str = "zero") -> str:
    """`out[i] = f(x[i])` over `n` elements; `operations` make `%result` of `%value`."""
    view = f"tensor_view<?x{element}, strides=[1]>"
    loads = f"partition_view<tile=({tile}), padding_value = {padding}, {view}>"
    stores = f"partition_view<tile=({tile}), {view}>"
    size = "%n" if not assume else "%m"
    lines = f"""
    %block, %y, %z = get_tile_block_id : tile<i32>
    {f"%m = assume {assume}, %n : tile<i32>" if assume else ""}
    %in = make_tensor_view %x, shape = [{size}], strides = [1] : tile<i32> -> {view}
    %to = make_tensor_view %out, shape = [{size}], strides = [1] : tile<i32> -> {view}
    %in_tiles = make_partition_view %in : {loads}
    %out_tiles = make_partition_view %to : {stores}
    %value, %t0 = load_view_tko weak %in_tiles[%block] : {loads}, tile<i32> -> tile<{tile}x{element}>, token
    {operations}
    %t1 = store_view_tko weak %result, %out_tiles[%block] : tile<{tile}x{element}>, {stores}, tile<i32> -> token"""
    return module(lines, f"%x: tile<ptr<{element}>>, %out: tile<ptr<{element}>>, %n: tile<i32>")


def pointers(argument: str, element: str, tile: int, distance: int = 0) -> str:
    """`%places`, the indices of the elements of tile block %block, and pointers `%at` to them; `distance` lies between
    neighbouring tile blocks (0: a tile)."""
    t, p = f"tile<{tile}x", f"ptr<{element}>"
    return f"""
    %apart = constant <i32: {distance or tile}> : tile<i32>
    %first = muli %block, %apart : tile<i32>
    %one_first = reshape %first : tile<i32> -> tile<1xi32>
    %firsts = broadcast %one_first : tile<1xi32> -> {t}i32>
    %lane = iota : {t}i32>
    %places = addi %firsts, %lane : {t}i32>
    %base = reshape {argument} : tile<{p}> -> tile<1x{p}>
    %bases = broadcast %base : tile<1x{p}> -> {t}{p}>
    %at = offset %bases, %places : {t}{p}>, {t}i32> -> {t}{p}>"""


def with_tile(number: int, tile: int = 256) -> str:
    """Add the tile of a constant number to each tile of a row."""
    view = "tensor_view<?xf32, strides=[1]>"
    return rows(f"""
    %far = constant <i32: {number}> : tile<i32>
    %other, %t2 = load_view_tko weak %in_tiles[%far]
        : partition_view<tile=({tile}), padding_value = zero, {view}>, tile<i32> -> tile<{tile}xf32>, token
    %result = addf %value, %other : tile<{tile}xf32>""", tile)  # fmt: skip


def row_sums(tile: int = 256) -> str:
    """The sum of each tile of a row, in every element of the result's tile."""
    t = f"tile<{tile}xf32>"
    return rows(f"""
    %sum = reduce %value dim=0 identities=[0.0 : f32] : {t} -> tile<f32> (%a: tile<f32>, %b: tile<f32>) {{
      %c = addf %a, %b : tile<f32>
      yield %c : tile<f32>
    }}
    %one = reshape %sum : tile<f32> -> tile<1xf32>
    %result = broadcast %one : tile<1xf32> -> {t}""", tile)  # fmt: skip


DOUBLED = rows("%result = addf %value, %value : tile<256xf32>")
"""Adds every element to itself."""

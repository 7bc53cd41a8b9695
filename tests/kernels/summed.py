"""Kernels for certificates of order.  Sizes are arguments, so that a launch may have few rows or many.

Each kernel reads a matrix `x` of `rows` by `columns` and writes the result of a row to that row of `out`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tileiras.layout.reduction_order import CombinedStep

from .checked import module

ADD = "(%a: tile<f32>, %b: tile<f32>) {\n %c = addf %a, %b : tile<f32>\n yield %c : tile<f32>\n}"


def matrix(name: str, tile: tuple[int, int], rows: str, columns: str, element: str = "f32") -> str:
    """%NAME, a matrix at the parameter %p_NAME, by padded tiles."""
    tensor = f"tensor_view<?x?x{element}, strides=[?,1]>"
    return (
        f"%t_{name} = make_tensor_view %p_{name}, shape = [%{rows}, %{columns}], strides = [%{columns}, 1]"
        f" : tile<i32> -> {tensor}\n"
        f"%{name} = make_partition_view %t_{name} : {view_type(tile, element)}"
    )


def view_type(tile: tuple[int, int], element: str = "f32") -> str:
    tensor = f"tensor_view<?x?x{element}, strides=[?,1]>"
    return f"partition_view<tile=({tile[0]}x{tile[1]}), padding_value = zero, {tensor}>"


def load(value: str, view: str, at: str, tile: tuple[int, int], element: str = "f32") -> str:
    result = f"tile<{tile[0]}x{tile[1]}x{element}>"
    text = f"%{value}, %k_{value} = load_view_tko weak %{view}[{at}]"
    return f"{text} : {view_type(tile, element)}, tile<i32> -> {result}, token"


def store(value: str, view: str, at: str, tile: tuple[int, int], element: str = "f32") -> str:
    stored = f"tile<{tile[0]}x{tile[1]}x{element}>"
    text = f"%e_{value} = store_view_tko weak %{value}, %{view}[{at}]"
    return f"{text} : {stored}, {view_type(tile, element)}, tile<i32> -> token"


def summed(value: str, source: str, tile: tuple[int, int]) -> str:
    """%VALUE, the sums of the rows of %SOURCE, as a column."""
    rows = tile[0]
    types = f"tile<{rows}x{tile[1]}xf32> -> tile<{rows}xf32>"
    return (
        f"%r_{value} = reduce %{source} dim=1 identities=[0.0 : f32] : {types} {ADD}\n"
        f"%{value} = reshape %r_{value} : tile<{rows}xf32> -> tile<{rows}x1xf32>"
    )


BLOCK = (
    "%block, %across, %part = get_tile_block_id : tile<i32>\n"
    "%blocks, %n_across, %parts = get_num_tile_blocks : tile<i32>\n"
    "%zero = constant <i32: 0> : tile<i32>\n%one = constant <i32: 1> : tile<i32>"
)
ROWS = "%p_x: tile<ptr<f32>>, %p_out: tile<ptr<f32>>, %rows: tile<i32>, %columns: tile<i32>"


def _of_rows(tile: tuple[int, int], body: str, result: tuple[int, int]) -> str:
    out = matrix("out", result, "rows", "one" if result[1] == 1 else "columns")
    return module("\n".join([BLOCK, matrix("x", tile, "rows", "columns"), out, body]), ROWS)


def row_sums(rows: int = 4, columns: int = 256) -> str:
    """Sums of rows; a tile has all columns."""
    tile = rows, columns
    at = "%block, %zero"
    body = [load("v", "x", at, tile), summed("s", "v", tile), store("s", "out", at, (rows, 1))]
    return _of_rows(tile, "\n".join(body), (rows, 1))


def long_row_sums(rows: int = 1, columns: int = 128) -> str:
    """Sums of rows, tile after tile: a loop carries the tile to which each is added."""
    tile = rows, columns
    t = f"tile<{rows}x{columns}xf32>"
    body = f"""
    %width = constant <i32: {columns}> : tile<i32>
    %steps = divi %columns, %width signed rounding<positive_inf> : tile<i32>
    %first = constant <f32: 0.0> : {t}
    %sum = for %j in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %first) -> ({t}) {{
      {load("v", "x", "%block, %j", tile)}
      %next = addf %acc, %v : {t}
      continue %next : {t}
    }}
    {summed("s", "sum", tile)}
    {store("s", "out", "%block, %zero", (rows, 1))}"""
    return _of_rows(tile, body, (rows, 1))


def every_nth_row(columns: int = 256) -> str:
    """Sums of rows by tile blocks that take every nth row."""
    tile = 1, columns
    body = f"""
    for %row in (%block to %rows, step %blocks) : tile<i32> {{
      {load("v", "x", "%row, %zero", tile)}
      {summed("s", "v", tile)}
      {store("s", "out", "%row, %zero", (1, 1))}
      continue
    }}"""
    return _of_rows(tile, body, (1, 1))


def centered_rows(columns: int = 256) -> str:
    """Each row less its mean, over the root of its mean square: a layer norm."""
    tile = 1, columns
    t, one = f"tile<1x{columns}xf32>", "tile<1x1xf32>"
    body = f"""
    %share = constant <f32: {1 / columns}> : {one}
    {load("v", "x", "%block, %zero", tile)}
    {summed("s", "v", tile)}
    %mean = mulf %s, %share : {one}
    %means = broadcast %mean : {one} -> {t}
    %d = subf %v, %means : {t}
    %q = mulf %d, %d : {t}
    {summed("u", "q", tile)}
    %power = mulf %u, %share : {one}
    %scale = rsqrt %power : {one}
    %scales = broadcast %scale : {one} -> {t}
    %y = mulf %d, %scales : {t}
    {store("y", "out", "%block, %zero", tile)}"""
    return _of_rows(tile, body, tile)


def running_sums(columns: int = 256) -> str:
    """The inclusive prefix sums of each row."""
    tile, t = (1, columns), f"tile<1x{columns}xf32>"
    scan = f"%y = scan %v dim=1 reverse=false identities=[0.0 : f32] : {t} -> {t} {ADD}"
    body = [load("v", "x", "%block, %zero", tile), scan, store("y", "out", "%block, %zero", tile)]
    return _of_rows(tile, "\n".join(body), tile)


def shared_sums(columns: int = 128) -> str:
    """Sums of rows: tile blocks along z take every nth tile, and add their partial sums atomically."""
    tile, t = (1, columns), f"tile<1x{columns}xf32>"
    body = f"""
    %width = constant <i32: {columns}> : tile<i32>
    %steps = divi %columns, %width signed rounding<positive_inf> : tile<i32>
    %first = constant <f32: 0.0> : {t}
    %sum = for %j in (%part to %steps, step %parts) : tile<i32> iter_values(%acc = %first) -> ({t}) {{
      {load("v", "x", "%block, %j", tile)}
      %next = addf %acc, %v : {t}
      continue %next : {t}
    }}
    %s = reduce %sum dim=1 identities=[0.0 : f32] : {t} -> tile<1xf32> {ADD}
    %place = offset %p_out, %block : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %places = reshape %place : tile<ptr<f32>> -> tile<1xptr<f32>>
    %old, %done = atomic_rmw_tko relaxed device %places, addf, %s
        : tile<1xptr<f32>>, tile<1xf32> -> tile<1xf32>, token"""
    return module("\n".join([BLOCK, matrix("x", tile, "rows", "columns"), body]), ROWS)


def counts(elements: int = 128) -> str:
    """A histogram of rows: integer counts, incremented atomically."""
    t = f"tile<{elements}x"
    body = f"""
    {BLOCK}
    %length = constant <i32: {elements}> : tile<i32>
    %from = muli %block, %length : tile<i32>
    %i = iota : {t}i32>
    %from_1 = reshape %from : tile<i32> -> tile<1xi32>
    %froms = broadcast %from_1 : tile<1xi32> -> {t}i32>
    %places = addi %froms, %i : {t}i32>
    %n_1 = reshape %rows : tile<i32> -> tile<1xi32>
    %n = broadcast %n_1 : tile<1xi32> -> {t}i32>
    %inside = cmpi less_than %places, %n, signed : {t}i32> -> {t}i1>
    %x_1 = reshape %p_x : tile<ptr<i32>> -> tile<1xptr<i32>>
    %xs = broadcast %x_1 : tile<1xptr<i32>> -> {t}ptr<i32>>
    %at = offset %xs, %places : {t}ptr<i32>>, {t}i32> -> {t}ptr<i32>>
    %none = constant <i32: 0> : {t}i32>
    %number, %k = load_ptr_tko weak %at, %inside, %none : {t}ptr<i32>>, {t}i1>, {t}i32> -> {t}i32>, token
    %o_1 = reshape %p_out : tile<ptr<i32>> -> tile<1xptr<i32>>
    %os = broadcast %o_1 : tile<1xptr<i32>> -> {t}ptr<i32>>
    %to = offset %os, %number : {t}ptr<i32>>, {t}i32> -> {t}ptr<i32>>
    %ones = constant <i32: 1> : {t}i32>
    %old, %done = atomic_rmw_tko relaxed device %to, add, %ones, %inside
        : {t}ptr<i32>>, {t}i32>, {t}i1> -> {t}i32>, token"""
    return module(body, "%p_x: tile<ptr<i32>>, %p_out: tile<ptr<i32>>, %rows: tile<i32>")


def product(m: int = 16, n: int = 16, k: int = 32, element: str = "f16") -> str:
    """`out` = `x` times `w`, whose `columns` rows have as many columns as `out`."""
    left, right, tile = (m, k), (k, n), (m, n)
    types = f"tile<{m}x{k}x{element}>, tile<{k}x{n}x{element}>, tile<{m}x{n}xf32>"
    body = f"""
    {BLOCK}
    {matrix("x", left, "rows", "columns", element)}
    {matrix("w", right, "columns", "width", element)}
    {matrix("out", tile, "rows", "width")}
    %depth = constant <i32: {k}> : tile<i32>
    %steps = divi %columns, %depth signed rounding<positive_inf> : tile<i32>
    %first = constant <f32: 0.0> : tile<{m}x{n}xf32>
    %sum = for %j in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %first) -> (tile<{m}x{n}xf32>) {{
      {load("a", "x", "%block, %j", left, element)}
      {load("b", "w", "%j, %across", right, element)}
      %next = mmaf %a, %b, %acc : {types}
      continue %next : tile<{m}x{n}xf32>
    }}
    {store("sum", "out", "%block, %across", tile)}"""
    text = f"%p_x: tile<ptr<{element}>>, %p_w: tile<ptr<{element}>>, %p_out: tile<ptr<f32>>"
    return module(body, f"{text}, %rows: tile<i32>, %columns: tile<i32>, %width: tile<i32>")


OF_ROWS = {
    "row_sums": row_sums, "long_row_sums": long_row_sums, "every_nth_row": every_nth_row,
    "centered_rows": centered_rows, "running_sums": running_sums,
}  # fmt: skip
"""Kernels of f32 matrices that compute one result per row."""


def in_order(steps: Sequence[CombinedStep], row: np.ndarray) -> np.float32:
    """The sum of a row in the order of the steps; each place holds a partial sum that includes its element."""
    values = row.copy()
    places = np.arange(len(row))
    for step in steps:
        if step.chained:
            offsets = [0]
            for basis in step.chained:
                offsets += [offset ^ basis for offset in offsets]
            parts = np.sort(np.stack([places ^ offset for offset in offsets]), axis=0)
            taken = values[parts[0]]
            for part in parts[1:]:
                taken = taken + values[part]
            values = taken
        for basis in step.bases:
            values = values + values[places ^ basis]
    assert len(set(values.view(np.uint32))) == 1
    return values[0]

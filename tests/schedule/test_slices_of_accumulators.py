"""Parts that programs take of accumulators in tensor memory: of columns, of lanes, of both, and parts of parts."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import tileiras
from tileiras.check.verdict import RIGHT


class Cut(NamedTuple):
    """The shape of a part, and its place counted in parts."""

    shape: tuple[int, int]
    at: tuple[int, int]


CUTS = {
    "lanes": ((128, 64), [Cut((64, 64), (1, 0))]),
    "columns": ((128, 64), [Cut((128, 16), (0, 3))]),
    "lanes and columns": ((128, 64), [Cut((32, 16), (3, 1))]),
    "accumulators": ((256, 32), [Cut((128, 32), (1, 0))]),
    "lanes, exchanged": ((16, 64), [Cut((16, 32), (0, 1))]),
    "columns, exchanged": ((16, 64), [Cut((8, 64), (1, 0))]),
    "columns of columns": ((128, 64), [Cut((128, 32), (0, 1)), Cut((128, 8), (0, 2))]),
    "lanes of columns": ((128, 64), [Cut((128, 32), (0, 1)), Cut((64, 16), (1, 1))]),
}  # fmt: skip


def _tile(shape: tuple[int, int], element: str) -> str:
    return f"tile<{shape[0]}x{shape[1]}x{element}>"


def _view(name: str, shape: tuple[int, int], element: str) -> tuple[str, str]:
    """Operations that make a view of one tile, and its type."""
    rows, columns = shape
    tensor = f"tensor_view<{rows}x{columns}x{element}, strides=[{columns},1]>"
    view = f"partition_view<tile=({rows}x{columns}), {tensor}>"
    sizes = f"shape = [{rows}, {columns}], strides = [{columns}, 1]"
    made = f"%{name}_t = make_tensor_view %{name}_p, {sizes} : {tensor}\n"
    return f"{made}%{name}_v = make_partition_view %{name}_t : {view}\n", view


def _text(shape: tuple[int, int], cuts: list[Cut]) -> str:
    left, right = (shape[0], 32), (32, shape[1])
    lines = ["%zero = constant <i32: 0> : tile<i32>\n"]
    for name, tile in (("a", left), ("b", right)):
        made, view = _view(name, tile, "f16")
        lines.append(f"{made}%{name}, %{name}_k = load_view_tko weak %{name}_v[%zero, %zero]"
                     f" : {view}, tile<i32> -> {_tile(tile, 'f16')}, token\n")  # fmt: skip
    whole = _tile(shape, "f32")
    lines.append(f"%c = constant <f32: 0.0> : {whole}\n%part0 = mmaf %a, %b, %c"
                 f" : {_tile(left, 'f16')}, {_tile(right, 'f16')}, {whole}\n")  # fmt: skip
    for number, cut in enumerate(cuts):
        part = _tile(cut.shape, "f32")
        lines.append(f"%i{number} = constant <i32: {cut.at[0]}> : tile<i32>\n"
                     f"%j{number} = constant <i32: {cut.at[1]}> : tile<i32>\n"
                     f"%part{number + 1} = extract %part{number}[%i{number}, %j{number}]"
                     f" : {whole} -> {part}\n")  # fmt: skip
        whole = part
    made, view = _view("r", cuts[-1].shape, "f32")
    lines.append(f"{made}%k = store_view_tko weak %part{len(cuts)}, %r_v[%zero, %zero]"
                 f" : {whole}, {view}, tile<i32> -> token\nreturn\n")  # fmt: skip
    parameters = "%a_p: tile<ptr<f16>>, %b_p: tile<ptr<f16>>, %r_p: tile<ptr<f32>>"
    return f"cuda_tile.module @m {{\nentry @k({parameters}) {{\n{''.join(lines)}}}\n}}\n"


@pytest.mark.parametrize("name", CUTS)
def test_a_part_of_an_accumulator_is_right(name):
    verdict = tileiras.check(_text(*CUTS[name]), gpu_name="sm_100", budget=0.5)
    assert verdict.status == RIGHT, verdict.findings


def test_columns_are_loaded_without_the_others():
    """The part of 16 columns is a part of the buffer, and only its columns are read."""
    ptx = tileiras.compile(_text(*CUTS["columns"]), gpu_name="sm_100").text
    assert ".x64" not in ptx and "tcgen05.ld" in ptx

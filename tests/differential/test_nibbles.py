"""Elements of four bits in memory: compiled against interpreted, whole bytes and parts of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.tiles import run

COPY = """cuda_tile.module @m {{
  {declared}
  entry @k(%p: tile<ptr<f4E2M1FN>>, %q: tile<ptr<f4E2M1FN>>) {{
    %x, %y, %z = get_tile_block_id : tile<i32>
    {source}
    %pt = make_tensor_view %s, shape = [{rows}, {columns}], strides = [{stride}, 1] : {tensor}
    %pv = make_partition_view %pt : {padded}
    %qt = make_tensor_view %q, shape = [{rows}, {columns}], strides = [{stride}, 1] : {tensor}
    %qv = make_partition_view %qt : {plain}
    %v, %t0 = load_view_tko {load} %pv[%x, %y] : {padded}, tile<i32> -> tile<{tile}xf4E2M1FN>, token
    %t1 = store_view_tko {store} %v, %qv[%x, %y] token = %t0 : tile<{tile}xf4E2M1FN>, {plain}, tile<i32> -> token
    return
  }}
}}
"""


def copy(rows: int, columns: int, stride: int, tile: tuple[int, int], order: str = "", load="weak",
         store="weak", source="%s = assume div_by<16>, %p", declared="") -> str:  # fmt: skip
    tensor = f"tensor_view<{rows}x{columns}xf4E2M1FN, strides=[{stride},1]>"
    shape = f"tile=({tile[0]}x{tile[1]})"
    return COPY.format(
        rows=rows, columns=columns, stride=stride, tensor=tensor, tile=f"{tile[0]}x{tile[1]}",
        padded=f"partition_view<{shape}, padding_value = zero, {tensor}{order}>",
        plain=f"partition_view<{shape}, {tensor}{order}>", load=load, store=store,
        source=f"{source} : tile<ptr<f4E2M1FN>>", declared=declared,
    )  # fmt: skip


CASES = [
    ("whole", 8, 64, 64, (8, 64), ""),
    ("ragged", 7, 50, 64, (4, 16), ""),
    ("odd rows", 6, 33, 33, (4, 16), ""),
    ("turned", 16, 32, 32, (16, 8), ", dim_map=[1, 0]"),
    ("few", 1, 2, 2, (1, 2), ""),
]


@pytest.mark.parametrize("name, rows, columns, stride, tile, order", CASES)
def test_copies(name, rows, columns, stride, tile, order):
    """Elements beside those of a row keep their values."""
    size = -(-rows * stride // 2) + 3  # to a whole word, around which parts of a byte are stored
    size += -size % 4
    generator = np.random.default_rng(4)
    result = [generator.integers(0, 256, size).astype(np.uint8) for _ in range(2)]
    grid = tuple(-(-n // t) for n, t in zip((rows, columns) if not order else (columns, rows), tile))
    text = copy(rows, columns, stride, tile, order)
    for gpu_name in ("sm_80", "sm_100"):
        source, target = run(text, grid, result, gpu_name, legalize_types=True)
        wanted = [n // 2 for r in range(rows) for n in range(r * stride, r * stride + columns - 1, 2) if n % 2 == 0]
        assert (target[wanted] == source[wanted]).all()


@pytest.mark.parametrize("load, store", [("acquire device", "release sys"), ("relaxed sys", "relaxed tl_blk")])
def test_orders(load, store):
    items = [np.arange(64).astype(np.uint8), np.zeros(64, np.uint8)]
    text = copy(3, 31, 32, (4, 16), load=load, store=store)
    run(text, (1, 2), items, "sm_100")


def test_a_global_is_packed():
    """The sixteen numbers of the format in the order of their bits."""
    magnitudes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    elements = ", ".join(f"{sign}{m}" for sign in ("", "-") for m in magnitudes)
    text = copy(2, 8, 8, (2, 8), source="%s = get_global @g",
                declared=f"global @g <f4E2M1FN: [{elements}]> : tile<16xf4E2M1FN>")  # fmt: skip
    target = run(text, 1, [np.zeros(8, np.uint8), np.zeros(8, np.uint8)], "sm_90", legalize_types=True)[1]
    assert target.tolist() == [n | n + 1 << 4 for n in range(0, 16, 2)]

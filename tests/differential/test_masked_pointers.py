"""Masked accesses through pointers that test only the ends of a vector, at every kind of edge."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.tiles import assert_same, compiled
from tileiras.sim import emulate, interpret

TARGETS = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")

ROW = """cuda_tile.module @m {{
  entry @k(%p0: tile<ptr<{t}>>, %q0: tile<ptr<{t}>>, %lo: tile<i32>, %hi: tile<i32>) {{
    %p1 = assume div_by<16>, %p0 : tile<ptr<{t}>>
    %q1 = assume div_by<16>, %q0 : tile<ptr<{t}>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %size = constant <i32: {n}> : tile<i32>
    %start = muli %x, %size : tile<i32>
    {starts}
    %lane = iota : tile<{n}xi32>
    %i = addi %start_n, %lane : tile<{n}xi32>
    {bounds}
    {mask}
    {pointers}
    %none = constant <{t}: {padding}> : tile<{n}x{t}>
    %v, %t0 = load_ptr_tko weak %p, %m, %none : tile<{n}xptr<{t}>>, tile<{n}xi1>, tile<{n}x{t}> -> tile<{n}x{t}>, token
    %w = {double} : tile<{n}x{t}>
    %t1 = store_ptr_tko weak %q, %w, %m token=%t0 : tile<{n}xptr<{t}>>, tile<{n}x{t}>, tile<{n}xi1> -> token
    return
  }}
}}
"""


def repeated(name, source, element, n):
    """A scalar `n` times."""
    return f"""%{name}_1 = reshape %{source} : tile<{element}> -> tile<1x{element}>
    %{name} = broadcast %{name}_1 : tile<1x{element}> -> tile<{n}x{element}>"""


COMPARISONS = {
    "below": ["less_than %i, %hi_n, signed"],
    "not above": ["less_than_or_equal %i, %hi_n, signed"],
    "above, turned over": ["less_than %lo_n, %i, signed"],
    "from": ["greater_than_or_equal %i, %lo_n, signed"],
    "between": ["greater_than_or_equal %i, %lo_n, signed", "less_than %i, %hi_n, signed"],
    "below two": ["less_than %i, %hi_n, unsigned", "less_than %i, %lo_n, signed"],
}


def row(element, n, comparisons):
    lines = [f"%m{number} = cmpi {text} : tile<{n}xi32> -> tile<{n}xi1>" for number, text in enumerate(comparisons)]
    last = len(lines) - 1
    if last:
        lines.append(f"%m = andi %m0, %m1 : tile<{n}xi1>")
    else:
        lines[0] = lines[0].replace("%m0", "%m", 1)
    pointers = [
        f"""{repeated(name + "_n", name + "1", f"ptr<{element}>", n)}
    %{name} = offset %{name}_n, %i : tile<{n}xptr<{element}>>, tile<{n}xi32> -> tile<{n}xptr<{element}>>"""
        for name in "pq"
    ]
    floating = element[0] in "fb"
    return ROW.format(
        t=element,
        n=n,
        starts=repeated("start_n", "start", "i32", n),
        bounds="\n    ".join(repeated(f"{name}_n", name, "i32", n) for name in ("lo", "hi")),
        mask="\n    ".join(lines),
        pointers="\n    ".join(pointers),
        padding="7.0" if floating else "7",
        double="addf %v, %v rounding<nearest_even>" if floating else "addi %v, %v",
    )


EDGES = [(0, 300), (-9, 301), (3, 299), (100, 101), (250, 40), (256, 256), (129, 255), (0, 0), (-300, -3), (5, 10**6)]


def run_row(text, dtype, gpu_name="sm_80", n=256, edges=EDGES, **options):
    artifact, metadata = compiled(text, gpu_name, **options)
    for lo, hi in edges:
        values = np.random.default_rng(0).integers(-9, 9, 2 * n).astype(dtype)
        expected, actual = np.zeros(2 * n, dtype), np.zeros(2 * n, dtype)
        interpret(text, "k", 2, [values.copy(), expected, lo, hi])
        result = emulate(artifact.text, "k", 2, [values.copy(), actual, lo, hi], metadata=metadata["k"])
        assert result.searched_races
        assert_same(f"{lo}..{hi}", actual, expected, [])
    return artifact.text


def widths(ptx):
    """Bits of each load and store of global memory."""
    matches = re.findall(r"(?:ld|st)\.global(?:\.v(\d))?\.[bf](\d+)", ptx)
    return [int(count or 1) * int(bits) for count, bits in matches]


@pytest.mark.parametrize("comparisons", COMPARISONS.values(), ids=COMPARISONS)
def test_every_kind_of_comparison(comparisons):
    text = row("f32", 256, comparisons)
    ptx = run_row(text, np.float32, num_warps=1)
    assert 128 in widths(ptx) and 32 in widths(ptx)


@pytest.mark.parametrize(
    ("element", "dtype"), [("f64", "f8"), ("f16", "f2"), ("i8", "i1"), ("i16", "i2"), ("i64", "i8")]
)
def test_every_width_of_elements(element, dtype):
    ptx = run_row(row(element, 256, COMPARISONS["between"]), dtype, num_warps=1)
    bits = 8 * np.dtype(dtype).itemsize
    assert set(widths(ptx)) == {bits, min(128, 256 // 32 * bits)}


@pytest.mark.parametrize("gpu_name", TARGETS)
def test_every_target(gpu_name):
    run_row(row("f32", 256, COMPARISONS["between"]), np.float32, gpu_name, edges=EDGES[:4])


def test_other_masks_are_looked_at_element_by_element():
    """A mask of numbers unequal to a given one may exclude a single element anywhere in a vector."""
    ptx = run_row(row("f32", 256, ["not_equal %i, %hi_n, signed"]), np.float32, num_warps=1)
    assert set(widths(ptx)) == {32}


def test_two_elements_of_a_thread_are_no_reason_for_a_branch():
    ptx = run_row(row("f32", 256, COMPARISONS["below"]), np.float32, num_warps=4)
    assert set(widths(ptx)) == {32}


def test_numbers_that_are_not_aligned_are_looked_at_one_by_one():
    """Runs that begin three before a multiple of a vector's length: addresses are aligned, numbers may go past the
    largest one."""
    text = row("f32", 256, COMPARISONS["below"])
    moved = "%three = constant <i32: 3> : tile<256xi32>\n    %i = addi %j, %three : tile<256xi32>\n    "
    text = text.replace("%i = addi", "%j = addi").replace("%hi_n_1", moved + "%hi_n_1", 1)
    text = re.sub(r"(offset %\w+), %i", r"\1, %j", text)
    assert set(widths(run_row(text, np.float32, num_warps=1))) == {32}


# ---- rows ------------------------------------------------------------------------------------------------------------

ROWS = """cuda_tile.module @m {{
  entry @k(%p0: tile<ptr<f16>>, %q0: tile<ptr<f16>>, %r: tile<ptr<i32>>, %rows: tile<i32>, %lo: tile<i32>,
           %hi: tile<i32>) {{
    %p = assume div_by<16>, %p0 : tile<ptr<f16>>
    %q = assume div_by<16>, %q0 : tile<ptr<f16>>
    %zero = constant <i32: 0> : tile<i32>
    %from = make_tensor_view %r, shape = [16], strides = [1] : tensor_view<16xi32, strides=[1]>
    %view = make_partition_view %from : partition_view<tile=(16), tensor_view<16xi32, strides=[1]>>
    %row, %t0 = load_view_tko weak %view[%zero] : partition_view<tile=(16), tensor_view<16xi32, strides=[1]>>, tile<i32>
      -> tile<16xi32>, token
    {all_rows}
    %none = constant <i32: 0> : tile<16xi32>
    %m0 = cmpi less_than %row, %rows_n, signed : tile<16xi32> -> tile<16xi1>
    %m1 = cmpi greater_than_or_equal %row, %none, signed : tile<16xi32> -> tile<16xi1>
    %m2 = andi %m0, %m1 : tile<16xi1>
    %column = iota : tile<64xi32>
    {bounds}
    {mask}
    %mr = reshape %m2 : tile<16xi1> -> tile<16x1xi1>
    %mc = reshape %m : tile<64xi1> -> tile<1x64xi1>
    %mrs = broadcast %mr : tile<16x1xi1> -> tile<16x64xi1>
    %mcs = broadcast %mc : tile<1x64xi1> -> tile<16x64xi1>
    %both = andi %mrs, %mcs : tile<16x64xi1>
    %pitch = constant <i32: 72> : tile<16xi32>
    %source = muli %row, %pitch : tile<16xi32>
    %place = iota : tile<16xi32>
    %target = muli %place, %pitch : tile<16xi32>
    {offsets}
    %padding = constant <f16: 7.0> : tile<16x64xf16>
    %v, %t1 = load_ptr_tko weak %p_t, %both, %padding : tile<16x64xptr<f16>>, tile<16x64xi1>, tile<16x64xf16>
      -> tile<16x64xf16>, token
    %t2 = store_ptr_tko weak %q_t, %v, %mcs token=%t1 : tile<16x64xptr<f16>>, tile<16x64xf16>, tile<16x64xi1> -> token
    return
  }}
}}
"""


def rows(comparisons):
    def offset(name, start):
        lines = [
            f"%{start}_1 = reshape %{start} : tile<16xi32> -> tile<16x1xi32>",
            f"%{start}_n = broadcast %{start}_1 : tile<16x1xi32> -> tile<16x64xi32>",
            f"%{start}_c = reshape %column : tile<64xi32> -> tile<1x64xi32>",
            f"%{start}_m = broadcast %{start}_c : tile<1x64xi32> -> tile<16x64xi32>",
            f"%{start}_o = addi %{start}_n, %{start}_m : tile<16x64xi32>",
            f"%{name}_1 = reshape %{name} : tile<ptr<f16>> -> tile<1x1xptr<f16>>",
            f"%{name}_n = broadcast %{name}_1 : tile<1x1xptr<f16>> -> tile<16x64xptr<f16>>",
            f"%{name}_t = offset %{name}_n, %{start}_o : tile<16x64xptr<f16>>, tile<16x64xi32> -> tile<16x64xptr<f16>>",
        ]
        return "\n    ".join(lines)

    lines = [f"%c{number} = cmpi {text} : tile<64xi32> -> tile<64xi1>" for number, text in enumerate(comparisons)]
    lines.append("%m = andi %c0, %c1 : tile<64xi1>" if len(lines) > 1 else lines.pop().replace("%c0", "%m", 1))
    return ROWS.format(
        all_rows=repeated("rows_n", "rows", "i32", 16),
        bounds="\n    ".join(repeated(f"{name}_n", name, "i32", 64) for name in ("lo", "hi")),
        mask="\n    ".join(lines).replace("%i,", "%column,").replace(", %i,", ", %column,"),
        offsets=offset("p", "source") + "\n    " + offset("q", "target"),
    )


@pytest.mark.parametrize("gpu_name", ["sm_75", "sm_90"])
@pytest.mark.parametrize("kind", ["below", "from", "between"])
def test_rows_that_are_not_wanted_leave_the_others_wide(kind, gpu_name):
    text = rows(COMPARISONS[kind])
    artifact, metadata = compiled(text, gpu_name, num_warps=2)
    # The ends of a one-sided comparison show that no element is wanted; other vectors are moved only if all are.
    assert bool(re.search(r"^\s+ld\.global\.v4", artifact.text, re.MULTILINE)) is (kind == "between")
    assert re.search(r"@%p\d+ ld\.global\.v4", artifact.text)
    values = np.random.default_rng(0).integers(-9, 9, (9, 72)).astype(np.float16)
    for seed, (lo, hi) in enumerate([(0, 64), (0, 60), (5, 57), (8, 8), (-3, 70), (63, 64), (0, 0)]):
        chosen = np.random.default_rng(seed).integers(-2, 11, 16).astype(np.int32)
        expected, actual = np.zeros((16, 72), np.float16), np.zeros((16, 72), np.float16)
        interpret(text, "k", 1, [values.copy(), expected, chosen, 9, lo, hi])
        emulate(artifact.text, "k", 1, [values.copy(), actual, chosen, 9, lo, hi], metadata=metadata["k"])
        assert_same(f"{lo}..{hi}", actual, expected, [])


VIEW = "gather_scatter_view<tile=(16x32), padding_value = neg_inf, tensor_view<?x?xf32, strides=[?,1]>, sparse_dim=0>"

GATHERED = f"""cuda_tile.module @m {{
  entry @k(%p0: tile<ptr<f32>>, %q0: tile<ptr<f32>>, %r: tile<ptr<i32>>, %m: tile<i32>, %n: tile<i32>,
           %s0: tile<i32>) {{
    %p = assume div_by<16>, %p0 : tile<ptr<f32>>
    %q = assume div_by<16>, %q0 : tile<ptr<f32>>
    %s = assume div_by<4>, %s0 : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %width = constant <i32: 32> : tile<i32>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %column = muli %x, %width : tile<i32>
    %from = make_tensor_view %r, shape = [16], strides = [1] : tensor_view<16xi32, strides=[1]>
    %view = make_partition_view %from : partition_view<tile=(16), tensor_view<16xi32, strides=[1]>>
    %row, %t0 = load_view_tko weak %view[%zero] : partition_view<tile=(16), tensor_view<16xi32, strides=[1]>>, tile<i32>
      -> tile<16xi32>, token
    %a = make_tensor_view %p, shape = [%m, %n], strides = [%s, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %b = make_tensor_view %q, shape = [%m, %n], strides = [%s, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %va = make_gather_scatter_view %a : {VIEW}
    %vb = make_gather_scatter_view %b : {VIEW}
    %v, %t1 = load_view_tko weak %va[%row, %column] : {VIEW}, tile<16xi32>, tile<i32> -> tile<16x32xf32>, token
    %w = addf %v, %v : tile<16x32xf32>
    %t2 = store_view_tko weak %w, %vb[%row, %column] : tile<16x32xf32>, {VIEW}, tile<16xi32>, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
@pytest.mark.parametrize(("m", "n", "pitch"), [(20, 64, 64), (20, 61, 64), (9, 33, 40), (30, 3, 4), (5, 90, 92)])
def test_views_that_gather_and_scatter(m, n, pitch, gpu_name):
    artifact, metadata = compiled(GATHERED, gpu_name, num_warps=2)
    assert {"ld.global.v4", "st.global.v4"} <= set(re.findall(r"(?:ld|st)\.global\.v4", artifact.text))
    values = np.random.default_rng(0).integers(-9, 9, (m, pitch)).astype(np.float32)
    chosen = np.random.default_rng(1).permutation(32)[:16].astype(np.int32) - 1
    expected, actual = np.zeros((m, pitch), np.float32), np.zeros((m, pitch), np.float32)
    interpret(GATHERED, "k", -(-n // 32), [values.copy(), expected, chosen, m, n, pitch])
    emulate(artifact.text, "k", -(-n // 32), [values.copy(), actual, chosen, m, n, pitch], metadata=metadata["k"])
    assert_same("gathered", actual, expected, [])

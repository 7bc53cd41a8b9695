"""Every operation whose elements depend on others of its tile, in tile blocks of several CTAs: interpreted, emulated.

A row of the table is a body that makes %r of %a; its cells are numbers of CTAs and targets.  The CTAs share the
stores along the free dimension, or the first one does all of them: the remark has to be the row's.
"""

from __future__ import annotations

import io
import json
from typing import NamedTuple

import numpy as np
import pytest

import tileiras
from tests.kernels.reasons import stated
from tests.kernels.tiles import Tile, kernel_text
from tileiras.sim import emulate, interpret

ROWS, COLUMNS = 16, 32
T = f"tile<{ROWS}x{COLUMNS}xi32>"
POINTERS = f"tile<{ROWS}x{COLUMNS}xptr<i32>>"
FLAT = f"tile<{ROWS * COLUMNS}xi32>"
SCALAR = "tile<i32>"
SUM = f"(%x: {SCALAR}, %y: {SCALAR}) {{\n%z = addi %x, %y : {SCALAR}\nyield %z : {SCALAR}\n}}"
LARGER = f"""(%x: {SCALAR}, %y: {SCALAR}, %i: {SCALAR}, %j: {SCALAR}) {{
  %d = cmpi greater_than %x, %y, signed : {SCALAR} -> tile<i1>
  %e = cmpi equal %x, %y, signed : {SCALAR} -> tile<i1>
  %f = cmpi less_than %i, %j, signed : {SCALAR} -> tile<i1>
  %g = andi %e, %f : tile<i1>
  %c = ori %d, %g : tile<i1>
  %m = select %c, %x, %y : tile<i1>, {SCALAR}
  %n = select %c, %i, %j : tile<i1>, {SCALAR}
  yield %m, %n : {SCALAR}, {SCALAR}
}}"""
SMALLER = LARGER.replace("greater_than", "less_than")
PLACES = f"""%i0 = iota : tile<{ROWS}xi32>
  %i1 = iota : tile<{COLUMNS}xi32>
  %j0 = reshape %i0 : tile<{ROWS}xi32> -> tile<{ROWS}x1xi32>
  %j1 = reshape %i1 : tile<{COLUMNS}xi32> -> tile<1x{COLUMNS}xi32>
  %k0 = broadcast %j0 : tile<{ROWS}x1xi32> -> {T}
  %k1 = broadcast %j1 : tile<1x{COLUMNS}xi32> -> {T}
  %many = constant <i32: {COLUMNS}> : {T}
  %first = muli %k0, %many : {T}
  %at = addi %first, %k1 : {T}"""
ADDRESSES = f"""%b = reshape %p_a : tile<ptr<i32>> -> tile<1x1xptr<i32>>
  %d = broadcast %b : tile<1x1xptr<i32>> -> {POINTERS}"""
SPREAD = f"%r = addi %a, %s : {T}"


def scan(dim: int, reverse: bool = False, of: str = "%a", to: str = "%r", type: str = T) -> str:
    text = f"dim={dim} reverse={str(reverse).lower()} identities=[0 : i32]"
    return f"{to} = scan {of} {text} : {type} -> {type} {SUM}"


def reduced(dim: int) -> str:
    left, thin = ((COLUMNS, f"1x{COLUMNS}"), (ROWS, f"{ROWS}x1"))[dim]
    return f"""%e = reduce %a dim={dim} identities=[0 : i32] : {T} -> tile<{left}xi32> {SUM}
      %f = reshape %e : tile<{left}xi32> -> tile<{thin}xi32>
      %s = broadcast %f : tile<{thin}xi32> -> {T}
      {SPREAD}"""


def extreme(dim: int, combiner: str, identity: int) -> str:
    """Positions of the first extremes along a dimension."""
    left, thin = ((COLUMNS, f"1x{COLUMNS}"), (ROWS, f"{ROWS}x1"))[dim]
    return f"""{PLACES}
      %e, %f = reduce %a, %at dim={dim} identities=[{identity} : i32, -1 : i32]
        : {T}, {T} -> tile<{left}xi32>, tile<{left}xi32> {combiner}
      %g = reshape %f : tile<{left}xi32> -> tile<{thin}xi32>
      %s = broadcast %g : tile<{thin}xi32> -> {T}
      {SPREAD}"""


def strided(stride: int) -> str:
    """Tiles of half of the rows, that far from each other."""
    tensor = f"tensor_view<{ROWS}x{COLUMNS}xi32, strides=[{COLUMNS},1]>"
    view = f"strided_view<tile=({ROWS // 2}x{COLUMNS}), traversal_strides=[{stride},{COLUMNS}], {tensor}>"
    return f"""%t = make_tensor_view %p_a, shape = [{ROWS}, {COLUMNS}], strides = [{COLUMNS}, 1] : {tensor}
      %v = make_strided_view %t : {view}
      %r, %k = load_view_tko weak %v[%one, %zero] : {view}, tile<i32> -> tile<{ROWS // 2}x{COLUMNS}xi32>, token"""


def in_a_loop(made_in: str) -> str:
    """A tile loaded in each round, through a view, or tensor and view, made there; no other is the same."""
    tensor = f"tensor_view<{ROWS - 1}x{COLUMNS}xi32, strides=[{COLUMNS},1]>"
    view = f"partition_view<tile=({ROWS}x{COLUMNS}), padding_value = zero, {tensor}>"
    tensor_made = f"%t = make_tensor_view %p_a, shape = [{ROWS - 1}, {COLUMNS}], strides = [{COLUMNS}, 1] : {tensor}"
    return f"""%nx, %ny, %nz = get_num_tile_blocks : tile<i32>
      %n = addi %nx, %one : tile<i32>
      {tensor_made if made_in == "view" else ""}
      %r = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%s = %a) -> ({T}) {{
        {tensor_made if made_in == "tensor" else ""}
        %v = make_partition_view %t : {view}
        %l, %k = load_view_tko weak %v[%zero, %zero] : {view}, tile<i32> -> {T}, token
        %u = addi %s, %l : {T}
        continue %u : {T}
      }}"""


class Row(NamedTuple):
    body: str
    shared: bool
    """Whether the CTAs share %r, for as many as each number in the table."""
    shape: tuple[int, ...] = (ROWS, COLUMNS)


PERMUTED = f"""%t = permute %a [1, 0] : {T} -> tile<{COLUMNS}x{ROWS}xi32>
  {scan(0, of="%t", to="%u", type=f"tile<{COLUMNS}x{ROWS}xi32>")}
  %r = permute %u [1, 0] : tile<{COLUMNS}x{ROWS}xi32> -> {T}"""
LINE = f"%l = reshape %a : {T} -> {FLAT}\n{{}}\n%r = reshape %m : {FLAT} -> {T}"
TABLE = {
    "elements": Row(f"%r = muli %a, %a : {T}", True),
    "scan_along_rows": Row(scan(1), True),
    "scan_along_columns": Row(scan(0), True),
    "scan_backwards": Row(scan(0, reverse=True), True),
    "scan_of_a_line": Row(LINE.format(scan(0, of="%l", to="%m", type=FLAT)), False),
    "scan_backwards_of_a_line": Row(LINE.format(scan(0, True, of="%l", to="%m", type=FLAT)), False),
    "scan_both_ways": Row(f"{scan(0, to='%s')}\n{scan(1, of='%s')}", False),
    "scan_permuted": Row(PERMUTED, True),
    "scan_of_two": Row(f"""{PLACES}
      %r, %s = scan %a, %at dim=0 reverse=false identities=[-2147483648 : i32, -1 : i32] : {T}, {T} -> {T}, {T}
      {LARGER}""", True),
    "scan_of_a_reduction": Row(f"""%e = reduce %a dim=1 identities=[0 : i32] : {T} -> tile<{ROWS}xi32> {SUM}
      {scan(0, of="%e", type=f"tile<{ROWS}xi32>")}""", False, (ROWS,)),
    "scan_in_a_loop": Row(f"""%n = constant <i32: 2> : tile<i32>
      %r = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%s = %a) -> ({T}) {{
        {scan(0, of="%s", to="%u")}
        continue %u : {T}
      }}""", True),
    "scan_of_ranges": Row(f"{PLACES}\n{scan(0, of='%at', to='%s')}\n{SPREAD}", True),
    "reduce_rows": Row(reduced(1), True),
    "reduce_columns": Row(reduced(0), True),
    "argmax_of_rows": Row(extreme(1, LARGER, -(1 << 31)), True),
    "argmax_of_columns": Row(extreme(0, LARGER, -(1 << 31)), True),
    "argmin_of_rows": Row(extreme(1, SMALLER, (1 << 31) - 1), True),
    "argmin_of_columns": Row(extreme(0, SMALLER, (1 << 31) - 1), True),
    "cat_of_columns": Row(f"""%s = addi %a, %a : {T}
      %t = cat %a, %s dim = 1 : {T}, {T} -> tile<{ROWS}x{2 * COLUMNS}xi32>
      %r = muli %t, %t : tile<{ROWS}x{2 * COLUMNS}xi32>""", False, (ROWS, 2 * COLUMNS)),
    "cat": Row(f"""%t = cat %a, %a dim = 0 : {T}, {T} -> tile<{2 * ROWS}x{COLUMNS}xi32>
      %z = iota : tile<{2 * ROWS}xi32>
      %y = reshape %z : tile<{2 * ROWS}xi32> -> tile<{2 * ROWS}x1xi32>
      %x = broadcast %y : tile<{2 * ROWS}x1xi32> -> tile<{2 * ROWS}x{COLUMNS}xi32>
      %r = muli %t, %x : tile<{2 * ROWS}x{COLUMNS}xi32>""", False, (2 * ROWS, COLUMNS)),
    "extract": Row(f"%r = extract %a[%one, %zero] : {T} -> tile<{ROWS // 2}x{COLUMNS}xi32>", False,
                   (ROWS // 2, COLUMNS)),
    "permute": Row(f"%r = permute %a [1, 0] : {T} -> tile<{COLUMNS}x{ROWS}xi32>", True, (COLUMNS, ROWS)),
    "reshape": Row(LINE.format(f"%m = muli %l, %l : {FLAT}"), True),
    "iota": Row(f"%i = iota : {FLAT}\n%j = reshape %i : {FLAT} -> {T}\n%r = muli %a, %j : {T}", True),
    "gather": Row(f"""{PLACES}\n{ADDRESSES}
      %o = constant <i32: {ROWS * COLUMNS - 1}> : {T}
      %n = subi %o, %at : {T}
      %q = offset %d, %n : {POINTERS}, {T} -> {POINTERS}
      %r, %k = load_ptr_tko weak %q : {POINTERS} -> {T}, token""", True),
    "gather_of_promised_runs": Row(f"""{PLACES}\n{ADDRESSES}
      %q = offset %d, %at : {POINTERS}, {T} -> {POINTERS}
      %h = assume div_by<16, every {COLUMNS} along 1>, %q : {POINTERS}
      %r, %k = load_ptr_tko weak %h : {POINTERS} -> {T}, token""", True),
    "scatter_after_gather": Row(f"""{PLACES}\n{ADDRESSES}
      %o = constant <i32: {ROWS * COLUMNS - 1}> : {T}
      %n = subi %o, %at : {T}
      %q = offset %d, %n : {POINTERS}, {T} -> {POINTERS}
      %r, %k = load_ptr_tko weak %q : {POINTERS} -> {T}, token
      %p = offset %d, %at : {POINTERS}, {T} -> {POINTERS}
      %l = join_tokens %k_a, %k : token
      %m = store_ptr_tko weak %p, %r token=%l : {POINTERS}, {T} -> token""", False),
    "overlapping_tiles": Row(strided(2), True, (ROWS // 2, COLUMNS)),
    "tiles_with_odd_distance": Row(strided(3), True, (ROWS // 2, COLUMNS)),
    "view_made_in_a_loop": Row(in_a_loop("view"), True),
    "tensor_view_made_in_a_loop": Row(in_a_loop("tensor"), True),
    "product": Row(f"""%f = trunci %a : {T} -> tile<{ROWS}x{COLUMNS}xi8>
      %g = reshape %f : tile<{ROWS}x{COLUMNS}xi8> -> tile<{COLUMNS}x{ROWS}xi8>
      %c = constant <i32: 1> : tile<{ROWS}x{ROWS}xi32>
      %r = mmai %f, %g, %c signed signed
        : tile<{ROWS}x{COLUMNS}xi8>, tile<{COLUMNS}x{ROWS}xi8>, tile<{ROWS}x{ROWS}xi32>""", False, (ROWS, ROWS)),
    "update_with_results": Row(f"""{PLACES}\n{ADDRESSES}
      %q = offset %d, %at : {POINTERS}, {T} -> {POINTERS}
      %r, %k = atomic_rmw_tko relaxed device %q, add, %at : {POINTERS}, {T} -> {T}, token""", False),
    "exchange_with_results": Row(f"""{PLACES}\n{ADDRESSES}
      %q = offset %d, %at : {POINTERS}, {T} -> {POINTERS}
      %r, %k = atomic_cas_tko relaxed device %q, %a, %at : {POINTERS}, {T} -> {T}, token""", False),
    "print_in_order": Row(f"""%e = reduce %a dim=1 identities=[0 : i32] : {T} -> tile<{ROWS}xi32> {SUM}
      %k = print_tko "%d", %e : tile<{ROWS}xi32> -> token
      %l = print_tko "then %d", %a token=%k : {T} -> token
      %r = addi %a, %a : {T}""", False),
    "assert": Row(f"""%c = cmpi less_than %a, %a, signed : {T} -> tile<{ROWS}x{COLUMNS}xi1>
      %n = constant <i1: true> : tile<{ROWS}x{COLUMNS}xi1>
      %d = xori %c, %n : tile<{ROWS}x{COLUMNS}xi1>
      assert %d, "equal" : tile<{ROWS}x{COLUMNS}xi1>
      %r = addi %a, %a : {T}""", False),
    "condition_of_a_tile": Row(f"""%e = extract %a[%zero, %zero] : {T} -> tile<1x1xi32>
      %f = reshape %e : tile<1x1xi32> -> tile<i32>
      %c = cmpi less_than %f, %one, signed : tile<i32> -> tile<i1>
      %r = if %c -> ({T}) {{
        {scan(0, to="%s")}
        yield %s : {T}
      }} else {{
        yield %a : {T}
      }}""", False),
    "loop_until": Row(f"""%n = constant <i32: 3> : tile<i32>
      %r = loop iter_values(%s = %a, %i = %zero) : {T}, tile<i32> -> {T} {{
        %c = cmpi greater_than_or_equal %i, %n, signed : tile<i32> -> tile<i1>
        if %c {{
          break %s : {T}
        }}
        {scan(1, of="%s", to="%u")}
        %j = addi %i, %one : tile<i32>
        continue %u, %j : {T}, tile<i32>
      }}""", False),
}  # fmt: skip
CTAS, TARGETS = (1, 2, 4, 8), ("sm_80", "sm_90", "sm_100", "sm_120")


def check(name: str, gpu_name: str, num_ctas: int | None, hints: str = "") -> None:
    """One cell.  Raises AssertionError where the code does something else than the kernel."""
    row = TABLE[name]
    array = np.random.default_rng(0).integers(-9, 9, (ROWS, COLUMNS)).astype(np.int32)
    tiles = Tile("a", "i32", array), Tile("r", "i32", np.zeros(row.shape, np.int32))
    body = f"%one = constant <i32: 1> : tile<i32>\n{row.body}"
    text = kernel_text([tiles[0]], body, [tiles[1]])
    text = text.replace(") {", f") optimization_hints=<{hints}> {{", 1) if hints else text
    expected, actual = ([tile.array.copy() for tile in tiles] for _ in range(2))
    printed = io.StringIO()
    interpret(text, "k", 1, expected, output=printed)
    artifact = tileiras.compile(text, gpu_name=gpu_name, num_ctas=num_ctas)
    result = emulate(artifact.text, "k", 1, actual, metadata=json.loads(artifact.kernels[0].artifacts[".json"]))
    for want, got in zip(expected, actual):
        np.testing.assert_array_equal(got, want, f"{name}, {gpu_name}, {num_ctas} CTAs, {hints}")
    assert result.output == printed.getvalue()
    if num_ctas is not None and num_ctas > 1 and gpu_name != "sm_80":
        shares = bool(stated(artifact.diagnostics, "slices.shared-by-ctas"))
        assert shares == row.shared, f"{name}: " + ", ".join(stated(artifact.diagnostics))


@pytest.mark.sampled(19)
@pytest.mark.parametrize("name", TABLE)
def test_ctas_compute_the_result_of_one_together(name):
    for gpu_name, num_ctas in (("sm_90", 2), ("sm_100", 8), ("sm_120", 4)):
        check(name, gpu_name, num_ctas)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("name", TABLE)
def test_every_number_of_ctas_on_every_target(name, gpu_name):
    for num_ctas in CTAS:
        check(name, gpu_name, num_ctas)


HINTS = (
    "default = {num_cta_in_cga = 2}",
    "default = {num_cta_in_cga = 16, occupancy = 2}",
    "default = {num_cta_in_cga = 4, num_worker_warps_per_cta = 8}",
    "sm_90 = {num_cta_in_cga = 8, num_worker_warps_per_cta = 1}, default = {num_cta_in_cga = 2, occupancy = 4}",
)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("hints", HINTS)
@pytest.mark.parametrize("name", TABLE)
def test_hints_leave_results_as_they_are(name, hints):
    for gpu_name in ("sm_80", "sm_90", "sm_100"):
        check(name, gpu_name, None, hints)

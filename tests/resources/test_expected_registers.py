"""The registers that are expected of a kernel, against those that ptxas takes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from zlib import crc32

from tileiras.analysis.function_pass import functions_of
from tileiras.ir import parse_module
from tileiras.resources.expected_registers import CALL_REGISTERS, FEWEST, expected_registers, places
from tileiras.resources.registers import tile_registers

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bench.kernels import collect  # noqa: E402
from bench.registers import SHARE_NEAR, rows_of, summary  # noqa: E402

PAGE = ROOT / "docs" / "resources.md"
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
SHARE = 4
"""One in so many pairs of a kernel and a target is compared."""


def exceptions() -> set[tuple[str, str]]:
    """(entry, target) of the rows of the page."""
    table = PAGE.read_text(encoding="utf-8").partition("<!-- exceptions -->")[2].partition("<!-- end -->")[0]
    result = set()
    for entry, targets in re.findall(r"^\| `(\w+)` \| ([^|]+) \|", table, re.MULTILINE):
        result |= {(entry, target) for target in (TARGETS if targets == "all" else targets.split(", "))}
    return result


def test_ptxas_registers_of_examples_are_near_the_expectation(ptxas, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    rows = []
    for kernel in collect(str(tmp_path)):
        drawn = [target for target in TARGETS if crc32(f"{kernel.name} {target}".encode()) % SHARE == 0]
        rows += rows_of([kernel], drawn)
    assert len(rows) > 30
    known = exceptions()
    assert [r for r in rows if (r.is_too_low or r.is_too_high) and (r.entry, r.target) not in known] == []
    assert sum(row.is_near for row in rows) >= SHARE_NEAR * len(rows), summary(rows)


def test_exceptions_are_entries_that_are_there():
    assert {("heat", "sm_80"), ("floats_f32", "sm_120")} <= exceptions()


def function(body: str, layout: str = "register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = []"):
    text = f"""
#layout = #nv_tileas.linear<{layout}>
nv_tileaa.func @k(%p: !nv_tileaa.ptr<f32>, %n: i32)
    attributes {{kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>}} {{
  %zero = arith.constant 0 : i32
  %memref = nv_tileas.make_memref %p, sizes = [%n], strides = []
    : !nv_tileaa.ptr<f32>, (i32), () -> !nv_tileaa.memref<?xf32, strides = [1]>
  %view = nv_tileas.block_tile %memref : !nv_tileaa.tiled_view<[128], !nv_tileaa.memref<?xf32, strides = [1]>>
  %x, %t = nv_tileas.tiled_load %view[%zero] {{atom = #nv_tileas.copy_atom<ld_global, 4>}}
    : !nv_tileaa.tiled_view<[128], !nv_tileaa.memref<?xf32, strides = [1]>>, (i32)
    -> tensor<128xf32, #layout>, !nv_tileaa.mem_token
{body}
  nv_tileaa.return
}}
"""
    (func,) = functions_of(parse_module(text, "kernel"))
    return func


STORED = """  %s = nv_tileas.tiled_store %y, %view[%zero] {atom = #nv_tileas.copy_atom<st_global, 4>}
    : tensor<128xf32, #layout>, !nv_tileaa.tiled_view<[128], !nv_tileaa.memref<?xf32, strides = [1]>>, (i32)
    -> !nv_tileaa.mem_token"""


def test_a_function_takes_registers_beside_its_tiles():
    plain = function(f"  %y = arith.negf %x : tensor<128xf32, #layout>\n{STORED}")
    sine = function(f"  %y = math.sin %x : tensor<128xf32, #layout>\n{STORED}")
    assert expected_registers(sine) == expected_registers(plain) + 12
    assert tile_registers(sine) == tile_registers(plain) == 4


def test_a_shared_divisor_keeps_numbers_beside_the_quotients():
    plain, shared = (
        function(f"  %y = nv_tileas.divf %x, %x{attributes} : tensor<128xf32, #layout>\n{STORED}")
        for attributes in ("", " {nv_tileas.shared_divisor}")
    )
    assert expected_registers(shared) == expected_registers(plain) + 4


def test_tiles_of_numbers_of_elements_take_few_registers():
    """They are made where they are used, unless by a function."""
    numbers = """  %r = nv_tileas.make_range : tensor<128xi32, #layout>
  %f = arith.sitofp %r : tensor<128xi32, #layout> to tensor<128xf32, #layout>"""
    value = function(f"{numbers}\n  %y = nv_tileas.addf %x, %f : tensor<128xf32, #layout>\n{STORED}")
    result = function(
        f"{numbers}\n  %e = math.exp %f : tensor<128xf32, #layout>\n"
        f"  %y = nv_tileas.addf %x, %e : tensor<128xf32, #layout>\n{STORED}"
    )
    words = [max(place.terms.get("words", 0) for place in places(func)) for func in (value, result)]
    assert words == [4, 8]
    assert [tile_registers(func) for func in (value, result)] == [4, 8]


def test_multiplications_by_one_take_no_registers():
    text = """  %c = arith.constant dense<{0}> : tensor<128xi32> as tensor<128xi32, #layout>
  %i = arith.fptosi %x : tensor<128xf32, #layout> to tensor<128xi32, #layout>
  %m = arith.muli %i, %c : tensor<128xi32, #layout>
  %a = arith.addi %i, %m : tensor<128xi32, #layout>
  %y = arith.sitofp %a : tensor<128xi32, #layout> to tensor<128xf32, #layout>
"""
    by_one, by_three = (function(text.format(number) + STORED) for number in (1, 3))
    assert expected_registers(by_one) < expected_registers(by_three)


def test_bounds_of_an_estimate():
    empty = parse_module(
        "nv_tileaa.func @k() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>} {\n"
        "  nv_tileaa.return\n}",
        "kernel",
    )
    (func,) = functions_of(empty)
    assert expected_registers(func) == FEWEST
    printing = function('  %q = nv_tileas.print "%f", %x : tensor<128xf32, #layout> -> !nv_tileaa.mem_token')
    assert expected_registers(printing) == CALL_REGISTERS
    sine = function(f"  %y = math.sin %x : tensor<128xf32, #layout>\n{STORED}")
    sine.attributes["kernel_spec"] = sine.kernel_spec.with_num_warps(32).with_occupancy(4)
    assert expected_registers(sine) == 65536 // (1024 * 4)

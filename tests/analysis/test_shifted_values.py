"""Tiles that are others moved along a dimension."""

from __future__ import annotations

import pytest

from tileiras.analysis.shifted_values import ShiftedValues
from tileiras.ir import parse_module

HEAD = 'kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"'
NUMBERS = """%r = nv_tileaa.make_range : tensor<64xi32>
%first = nv_tileaa.splat %n : i32 -> tensor<64xi32>
%other = nv_tileaa.splat %m : i32 -> tensor<64xi32>
%three = arith.constant dense<3> : tensor<64xi32>
%back = arith.constant dense<-2> : tensor<64xi32>
%i = arith.addi %first, %r : tensor<64xi32>
"""


def moved(body: str, dim: int = 0):
    """By how much %b is %a moved: a number, "any", or None where it is not known to be.  %a and %b come last."""
    head = f"nv_tileaa.func @f(%n: i32, %m: i32, %p: !nv_tileaa.ptr<f32>) attributes {{{HEAD}}}"
    text = f"builtin.module {{ {head} {{\n{NUMBERS}{body}\nnv_tileaa.return }} }}"
    block = parse_module(text, "test.mlir").regions[0].block.first.regions[0].blocks[0]
    b = block.last.prev
    result = ShiftedValues().shift(b.prev.results[0], b.results[0], dim)
    return None if result is None else "any" if result.by is None else result.by


@pytest.mark.parametrize(
    ("operation", "by"),
    [
        ("arith.addi %i, %three", 3),
        ("arith.addi %i, %back", -2),
        ("arith.subi %i, %three", -3),
        ("arith.addi %i, %other", None),
        ("arith.muli %i, %three", None),
    ],
)
def test_offsets_of_consecutive_numbers(operation, by):
    assert moved(f"%z = arith.constant dense<0> : tensor<64xi32>\n%a = arith.addi %i, %z : tensor<64xi32>\n"
                 f"%b = {operation} : tensor<64xi32>") == by  # fmt: skip


def test_functions_of_moved_values():
    assert moved("""%j = arith.addi %i, %three : tensor<64xi32>
    %mine = arith.cmpi slt, %i, %other : tensor<64xi32>
    %a = arith.select %mine, %i, %other : tensor<64xi1>, tensor<64xi32>
    %b = arith.select %mine, %j, %other : tensor<64xi1>, tensor<64xi32>""") is None
    assert moved("""%j = arith.addi %i, %three : tensor<64xi32>
    %mine = arith.cmpi slt, %i, %other : tensor<64xi32>
    %its = arith.cmpi slt, %j, %other : tensor<64xi32>
    %a = arith.select %mine, %i, %other : tensor<64xi1>, tensor<64xi32>
    %b = arith.select %its, %j, %other : tensor<64xi1>, tensor<64xi32>""") == 3


def test_numbers_further_apart():
    """Twice i, and 6 more: i + 3.  With an odd addend it is not a shift of i."""
    twice = "%two = arith.constant dense<2> : tensor<64xi32>\n%a = arith.muli %i, %two : tensor<64xi32>\n"
    six = "%six = arith.constant dense<6> : tensor<64xi32>\n"
    assert moved(six + twice + "%b = arith.addi %a, %six : tensor<64xi32>") == 3
    assert moved(twice + "%b = arith.addi %a, %three : tensor<64xi32>") is None


@pytest.mark.parametrize(("same", "by"), [("%n", "any"), ("%m", None)])
def test_equal_elements_are_moved_by_anything(same, by):
    assert moved(f"""%a = nv_tileaa.splat %n : i32 -> tensor<64xi32>
    %b = nv_tileaa.splat {same} : i32 -> tensor<64xi32>""") == by


ROWS = """%c = nv_tileaa.view %i : tensor<64xi32> -> tensor<1x64xi32>
%j = arith.addi %i, %three : tensor<64xi32>
%d = nv_tileaa.view %j : tensor<64xi32> -> tensor<1x64xi32>
%a = nv_tileaa.broadcast %c : tensor<1x64xi32> -> tensor<4x64xi32>
%b = nv_tileaa.broadcast %d : tensor<1x64xi32> -> tensor<4x64xi32>"""


def test_along_one_of_two_dimensions():
    assert moved(ROWS, 1) == 3
    assert moved(ROWS, 0) is None


def test_offsets_of_32_bits_may_wrap_where_pointers_do_not():
    """%q[i] for 32-bit i is not one further than %q[i - 1] for every i; an offset added to a pointer does not wrap."""
    pointers = "tensor<64x!nv_tileaa.ptr<f32>>"
    head = f"%all = nv_tileaa.splat %p : !nv_tileaa.ptr<f32> -> {pointers}\n"
    narrow = head + f"%a = nv_tileaa.addptr %all, %i : {pointers}, tensor<64xi32>\n"
    assert moved(narrow + f"%b = nv_tileaa.addptr %a, %three : {pointers}, tensor<64xi32>") is None
    wide = (
        head + "%w = nv_tileaa.make_range : tensor<64xi64>\n"
        f"%a = nv_tileaa.addptr %all, %w : {pointers}, tensor<64xi64>\n"
    )
    assert moved(wide + f"%b = nv_tileaa.addptr %a, %three : {pointers}, tensor<64xi32>") == 3

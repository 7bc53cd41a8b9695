"""Positions of the set elements of a mask: facts from comparisons of consecutive numbers, and their consequences."""

from __future__ import annotations

import pytest

from tileiras.analysis.divisibility import DivisibilityAnalysis
from tileiras.analysis.mask_runs import MaskRuns, mask_runs
from tileiras.ir import parse_module

HEAD = 'kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"'

NUMBERS = """%r = nv_tileaa.make_range : tensor<64xi32>
%n16 = nv_tileaa.assume #nv_tileaa.div_by<16>, %n : i32
%first = nv_tileaa.splat %n16 : i32 -> tensor<64xi32>
%i = arith.addi %first, %r : tensor<64xi32>
%bound = nv_tileaa.splat %m : i32 -> tensor<64xi32>
"""


def runs(body):
    """Of the last value of the body."""
    head = f"nv_tileaa.func @f(%n: i32, %m: i32) attributes {{{HEAD}}}"
    text = f"builtin.module {{ {head} {{\n{body}\nnv_tileaa.return }} }}"
    func = parse_module(text, "test.mlir").regions[0].block.first
    block = func.regions[0].blocks[0]
    return mask_runs(block.last.prev.results[0], DivisibilityAnalysis(func))


@pytest.mark.parametrize("predicate", ["slt", "sle", "ult", "ule"])
def test_numbers_below_a_bound_come_first(predicate):
    assert runs(f"{NUMBERS}%c = arith.cmpi {predicate}, %i, %bound : tensor<64xi32>") == (MaskRuns(16, 1, 16),)
    assert runs(f"{NUMBERS}%c = arith.cmpi {predicate}, %bound, %i : tensor<64xi32>") == (MaskRuns(1, 16, 16),)


@pytest.mark.parametrize("predicate", ["sgt", "sge", "ugt", "uge"])
def test_numbers_above_a_bound_come_last(predicate):
    assert runs(f"{NUMBERS}%c = arith.cmpi {predicate}, %i, %bound : tensor<64xi32>") == (MaskRuns(1, 16, 16),)
    assert runs(f"{NUMBERS}%c = arith.cmpi {predicate}, %bound, %i : tensor<64xi32>") == (MaskRuns(16, 1, 16),)


def test_other_comparisons_say_nothing():
    for predicate in ("eq", "ne"):
        assert runs(f"{NUMBERS}%c = arith.cmpi {predicate}, %i, %bound : tensor<64xi32>") == (MaskRuns(1, 1, 1),)
    assert runs(f"{NUMBERS}%c = arith.cmpi slt, %i, %r : tensor<64xi32>") == (MaskRuns(1, 1, 1),)


def test_indices_may_overflow_if_the_first_is_unknown():
    body = NUMBERS.replace("nv_tileaa.assume #nv_tileaa.div_by<16>, %n", "arith.addi %n, %n")
    assert runs(f"{body}%c = arith.cmpi slt, %i, %bound : tensor<64xi32>") == (MaskRuns(1, 1, 1),)


BOTH = f"""{NUMBERS}%a = arith.cmpi slt, %i, %bound : tensor<64xi32>
%b = arith.cmpi sge, %i, %bound : tensor<64xi32>
"""


def test_both_sides_leave_neighbours():
    assert runs(f"{BOTH}%c = arith.andi %a, %b : tensor<64xi1>") == (MaskRuns(1, 1, 16),)
    assert runs(f"{BOTH}%c = arith.andi %a, %a : tensor<64xi1>") == (MaskRuns(16, 1, 16),)
    assert runs(f"{BOTH}%c = arith.ori %a, %b : tensor<64xi1>") == (MaskRuns(1, 1, 1),)


def test_shapes():
    thin = f"{BOTH}%c = nv_tileaa.view %a : tensor<64xi1> -> tensor<1x64xi1>\n"
    wide = f"{thin}%d = nv_tileaa.broadcast %c : tensor<1x64xi1> -> tensor<4x64xi1>\n"
    rows = MaskRuns(4, 4, 4)
    assert runs(wide) == (rows, MaskRuns(16, 1, 16))
    turned = "{permutation = array<i32: 1, 0>} : tensor<4x64xi1> -> tensor<64x4xi1>"
    assert runs(f"{wide}%e = nv_tileaa.permute %d {turned}") == (MaskRuns(16, 1, 16), rows)
    assert runs(f"{BOTH}%c = nv_tileaa.view %a : tensor<64xi1> -> tensor<8x8xi1>") == (MaskRuns(1, 1, 1),) * 2


def test_a_mask_in_a_cycle_is_analyzed_once():
    lines = [f"%c{n + 1} = arith.andi %c{n}, %c{n} : tensor<64xi1>" for n in range(64)]
    body = f"{BOTH}%c0 = arith.andi %a, %a : tensor<64xi1>\n" + "\n".join(lines)
    assert runs(body) == (MaskRuns(16, 1, 16),)

"""Comparisons of the same floats together, and comparisons of a thread's own places, which are known."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from tests.kernels.tiles import Tile, check, kernel_text, own_code
from tileiras.dialects import llvm
from tileiras.lowering.tileas_to_llvm.elementwise import float_relations

VALUES = [-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf, np.nan, -np.nan]
PREDICATES = ["equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal"]


def pairs(element: str = "f32") -> list[Tile]:
    """Every value with every other, and whether the number of the place is odd, as a third tile."""
    kind = {"f32": np.float32, "f16": np.float16, "f64": np.float64}[element]
    a, b = (each.reshape(-1).astype(kind) for each in np.meshgrid(VALUES, VALUES, indexing="ij"))
    return [Tile("a", element, a), Tile("b", element, b), Tile("c", "i1", np.arange(a.size) % 2 == 1)]


def program(seed: int, element: str) -> str:
    """A dozen comparisons of %a and %b, in any order and of each with itself, put together at random to %r."""
    chosen = random.Random(seed)
    known, lines = ["%c"], []
    for n in range(12):
        one, other = (chosen.choice(["%a", "%b"]) for _ in range(2))
        lines.append(
            f"%k{n} = cmpf {chosen.choice(PREDICATES)} {chosen.choice(['ordered', 'unordered'])} {one}, {other}"
            f" : tile<64x{element}> -> tile<64xi1>"
        )
        known.append(f"%k{n}")
    for n in range(24):
        one, other = chosen.choice(known), chosen.choice(known)
        lines.append(f"%m{n} = {chosen.choice(['andi', 'ori', 'ori', 'xori'])} {one}, {other} : tile<64xi1>")
        known.append(f"%m{n}")
    bits = [f"%e{n} = exti %m{n} unsigned : tile<64xi1> -> tile<64xi32>" for n in range(24)]
    sums = ["%s0 = constant <i32: 0> : tile<64xi32>", "%two = constant <i32: 2> : tile<64xi32>"]
    for n in range(24):
        sums += [f"%d{n} = muli %s{n}, %two : tile<64xi32>", f"%s{n + 1} = addi %d{n}, %e{n} : tile<64xi32>"]
    return "\n".join([*lines, *bits, *sums, "%zero_ = constant <i32: 0> : tile<64xi32>",
                      "%r = addi %s24, %zero_ : tile<64xi32>"])  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_any_combination_means_the_same(seed):
    element = ("f32", "f16", "f64")[seed % 3]
    check(program(seed, element), pairs(element), ((64,), "i32"), gpu_name="sm_90", num_warps=(1, 2)[seed % 2])


def test_every_set_of_cases_follows_its_steps():
    """The six cases of two floats, through each of the steps that a set is made of."""
    floats = {1: (1, 1), 2: (2, 1), 4: (1, 2), 8: (np.nan, 1), 16: (1, np.nan), 32: (np.nan, np.nan)}

    def holds(cases: int, a: float, b: float) -> bool:
        step = steps[cases]
        if step.op is not None:
            one, other = (holds(part, a, b) for part in step.parts)
            return one and other if step.op is llvm.AndOp else one or other
        x, y = {"12": (a, b), "11": (a, a), "22": (b, b)}[step.of]
        unordered = x != x or y != y
        if step.predicate in ("ord", "uno"):
            return unordered == (step.predicate == "uno")
        kinds = {"eq": x == y, "gt": x > y, "ge": x >= y, "lt": x < y, "le": x <= y, "ne": x < y or x > y}
        return unordered and step.predicate[0] == "u" or kinds[step.predicate[1:]]

    steps = float_relations._steps()
    assert sorted(steps) == list(range(1, 63))
    for cases in steps:
        assert {case for case, pair in floats.items() if holds(cases, *pair)} == {
            case for case in floats if cases & case
        }
        assert steps[cases].cost <= 3


ARGMAX = """%i = iota : tile<{n}xi32>
%v, %r_ = reduce %a, %i dim=0 identities=[0xFF800000 : f32, 2147483647 : i32]
    : tile<{n}xf32>, tile<{n}xi32> -> tile<f32>, tile<i32>
(%x: tile<f32>, %xo: tile<f32>, %y: tile<i32>, %yo: tile<i32>) {{
  %gt = cmpf greater_than ordered %x, %xo : tile<f32> -> tile<i1>
  %eq = cmpf equal ordered %x, %xo : tile<f32> -> tile<i1>
  %an = cmpf not_equal unordered %x, %x : tile<f32> -> tile<i1>
  %bn = cmpf not_equal unordered %xo, %xo : tile<f32> -> tile<i1>
  %ok = cmpf equal ordered %x, %x : tile<f32> -> tile<i1>
  %first = andi %ok, %bn : tile<i1>
  %more = ori %gt, %first : tile<i1>
  %both = andi %an, %bn : tile<i1>
  %same = ori %eq, %both : tile<i1>
  %less = cmpi less_than %y, %yo, signed : tile<i32> -> tile<i1>
  %tie = andi %less, %same : tile<i1>
  %take = ori %more, %tie : tile<i1>
  %vv = select %take, %x, %xo : tile<i1>, tile<f32>
  %ii = select %take, %y, %yo : tile<i1>, tile<i32>
  yield %vv, %ii : tile<f32>, tile<i32>
}}
%r = reshape %r_ : tile<i32> -> tile<1xi32>"""


def numbers(seed: int, count: int) -> Tile:
    """Few different ones, so that the first of equals matters, and NaN among them for odd seeds."""
    chosen = np.random.default_rng(seed)
    values = chosen.integers(-3, 4, count).astype(np.float32)
    if seed % 2:
        values[chosen.integers(0, count, 3)] = np.nan
    return Tile("a", "f32", values)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count, warps", [(256, 1), (256, 4), (512, 2)])
def test_the_first_of_the_largest(seed, count, warps):
    check(ARGMAX.format(n=count), [numbers(seed, count)], ((1,), "i32"), gpu_name="sm_90", num_warps=warps)


def test_neighbours_of_a_thread_are_compared_twice():
    """Which of two places of a thread comes first is known, and then `a >= b or b != b` is all: of 8 elements of a
    thread 7 pairs, and 5 of lanes, for which four comparisons of floats and one of places are left."""
    text, _ = own_code(kernel_text([numbers(0, 256)], ARGMAX.format(n=256), [Tile("r", "i32", np.zeros(1, np.int32))]),
                       "sm_90", num_warps=1)  # fmt: skip
    assert len(re.findall(r"setp\.\w+\.f32", text)) <= 7 * 2 + 5 * 4
    assert len(re.findall(r"setp\.\w+\.[su]32", text)) <= 5 + 2

"""Stages of rings as sums: which are apart although no iteration is known."""

import pytest

from tileiras.analysis.stage_numbers import StageNumbers
from tileiras.dialects import scf
from tileiras.ir import parse_module

LOOP = """
nv_tileaa.func @f(%n: i32, %other: i32) attributes {{kernel_spec = #nv_tileaa.kernel_spec<>, target_spec = "sm_90"}} {{
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c3 = arith.constant 3 : i32
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%one = {one}, %two = {two}) -> (i32, i32) : i32 {{
    {body}
    scf.yield %first, %second : i32, i32
  }}
  nv_tileaa.return
}}
"""
NEXT = """%{to}_further = arith.addi %{of}, %c1 : i32
    %{to}_ends = arith.cmpi eq, %{of}, %c{last} : i32
    %{to} = arith.select %{to}_ends, %c0, %{to}_further : i1, i32"""


def _loop(one: str, two: str, *body: str) -> scf.ForOp:
    module = parse_module(LOOP.format(one=one, two=two, body="\n    ".join(body)), "k.mlir")
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    return loop


def _carried(one: str, two: str, *body: str):
    loop, numbers = _loop(one, two, *body), StageNumbers()
    return [numbers.number_of(value) for value in (*loop.iter_args, *loop.yield_op.operands, *loop.results)]


def _next(to: str, of: str, stages: int) -> str:
    return NEXT.format(to=to, of=of, last=stages - 1)


@pytest.mark.parametrize("stages", [3, 4])
def test_two_counters_of_a_ring_keep_their_distance(stages):
    steps = _next("first", "one", stages), _next("second", "two", stages)
    one, two, first, second, *after = _carried("%c0", "%c2", *steps)
    assert one.is_apart(two, stages) and first.is_apart(one, stages) and first.is_apart(two, stages)
    assert second.is_apart(one, stages) is (stages == 4)
    assert after[0].is_apart(after[1], stages)


def test_values_of_the_last_iteration_are_a_stage_behind():
    one, two, *_ = _carried("%c1", "%c0", _next("first", "one", 3), "%second = arith.addi %one, %c0 : i32")
    assert one.is_apart(two, 3)


def test_the_other_stage_of_two():
    steps = "%first = arith.subi %c1, %one : i32", "%second = arith.addi %two, %c1 : i32"
    one, _, first, *_ = _carried("%c0", "%c0", *steps)
    assert first.is_apart(one, 2)


@pytest.mark.parametrize("two", ["%other", "%c0"])
def test_no_facts_about_counters_that_may_meet(two):
    one, other, *_ = _carried("%c0", two, _next("first", "one", 3), _next("second", "two", 3))
    assert not one.is_apart(other, 3)


def test_a_ring_of_other_stages_says_nothing():
    one, two, *_ = _carried("%c0", "%c1", _next("first", "one", 3), _next("second", "two", 3))
    assert one.is_apart(two, 3)
    assert not one.is_apart(two, 2)


def test_trips_counted_from_an_unknown_value_alternate():
    steps = "%first = arith.subi %i, %other : i32", "%second = arith.andi %first, %c1 : i32"
    loop, numbers = _loop("%c0", "%c0", *steps), StageNumbers()
    stage = numbers.number_of(loop.yield_op.operands[1])
    assert numbers.advanced(stage, loop).is_apart(stage, 2)
    assert not numbers.advanced(numbers.advanced(stage, loop), loop).is_apart(stage, 2)


def test_trips_counted_from_a_carried_value_say_nothing():
    steps = "%first = arith.subi %i, %one : i32", "%second = arith.andi %first, %c1 : i32"
    loop, numbers = _loop("%c0", "%c0", *steps), StageNumbers()
    stage = numbers.number_of(loop.yield_op.operands[1])
    assert not numbers.advanced(stage, loop).is_apart(stage, 2)

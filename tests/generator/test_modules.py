"""Generated modules of raw Tile IR are well defined, compile to right code, and show faults that are planted."""

from __future__ import annotations

import re

import pytest

import tileiras
from tests.check.pass_faults import FAULTS, plant
from tests.generator.choices import Choices
from tests.generator.judge import draw, judge
from tests.generator.modules import module
from tests.generator.options import TARGETS
from tests.generator.reduction import size
from tests.generator.shrink import shrunk
from tileiras.check.verdict import WRONG
from tileiras.sim import interpret

FAMILY = ("module",)


@pytest.mark.parametrize("number", range(8))
def test_a_module_is_well_defined(number):
    """The interpreter refuses accesses outside of memory, races, and paths that undefined values decide."""
    kernel = module(Choices(number))
    interpret(tileiras.parse(kernel.source()), "kernel", kernel.grid, kernel.memory_slots())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", range(6))
def test_a_module_compiles_to_right_code(number):
    verdict = judge(draw(number, FAMILY, TARGETS))
    assert verdict.status == "right", verdict


def test_compositions_are_long_and_nested():
    texts = [module(Choices(number)).text() for number in range(12)]
    assert max(text.count("\n") for text in texts) > 300
    assert any(re.search(r"(for|loop) [^\n]*\{\n(?:(?!\n    \}).)*(for|loop|if) ", text, re.DOTALL) for text in texts)


def test_hints_of_the_decorator_are_an_attribute_of_entries():
    text = module(Choices(0)).text("num_ctas=2, occupancy=ct.ByTarget(sm_90=4, default=1)", 2)
    clause = "optimization_hints=<default = {num_cta_in_cga = 2, occupancy = 1}, sm_90 = {occupancy = 4}>"
    assert text.count(clause) == 2 and "entry @kernel_1(" in text
    tileiras.parse(text)


def test_a_planted_fault_is_seen_and_shrunk(monkeypatch):
    fault = FAULTS["operands of a difference swapped"]
    plant(monkeypatch, fault.pass_name, fault.damage)
    failing = next(number for number in range(40) if judge(draw(number, FAMILY, ("sm_80",))).status == "wrong")
    before = size(tileiras.parse(draw(failing, FAMILY, ("sm_80",)).kernel.source()))
    smallest = shrunk(failing, FAMILY, ("sm_80",), seconds=60)
    assert smallest.verdict.status == "wrong" and size(smallest.module) < before / 2
    build = smallest.case.build
    assert tileiras.check(smallest.module, gpu_name=build.gpu_name, budget=20, **build.options).status == WRONG

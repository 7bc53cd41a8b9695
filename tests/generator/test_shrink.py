"""Failing cases become small by themselves: faults planted in passes, and unit tests of the reduction of modules."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import pytest

import tileiras
from tests.check.pass_faults import FAULTS, plant
from tests.generator import covered
from tests.generator.__main__ import Run
from tests.generator.choices import Choices
from tests.generator.judge import draw, judge
from tests.generator.reduction import reduced, size
from tests.generator.shrink import shrunk
from tileiras.check.verdict import WRONG
from tileiras.diagnostics import CompileError
from tileiras.passes import lookup_pass
from tileiras.schedule.strategy import Loads
from tileiras.stages.units import entries_of

TARGETS = ("sm_80", "sm_90", "sm_120")


class Planted(NamedTuple):
    """A case that a fault of `tests/check/pass_faults.py` breaks, and the most operations that its module may keep."""

    fault: str
    family: str
    number: int
    status: str
    most: int
    oldest: str
    """The oldest target on which the case fails."""


PLANTED = (
    Planted("operands of a difference swapped", "along", 9, "wrong", 8, "sm_75"),
    Planted("trip of a loop missing", "product", 3, "wrong", 12, "sm_75"),
    Planted("wait dropped", "product", 3, "fault", 8, "sm_80"),
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each.fault)
def test_a_planted_fault_is_shrunk(planted, monkeypatch, tmp_path):
    fault = FAULTS[planted.fault]
    plant(monkeypatch, fault.pass_name, fault.damage)
    case = draw(planted.number, (planted.family,), TARGETS)
    before = size(tileiras.parse(case.kernel.source(case.build.decorator)))
    assert judge(case).status == planted.status
    smallest = shrunk(planted.number, (planted.family,), TARGETS)
    assert smallest.verdict.status == planted.status
    assert size(smallest.module) <= planted.most < before / 2
    oldest = planted.oldest
    assert smallest.case.build.words() == [f"--gpu-name={oldest}"] and not smallest.case.build.hints
    # The written module fails by itself, in the way that the command line states.
    (command,) = smallest.write(tmp_path)
    assert command == f"tileiras-check case-{planted.number}.mlir --gpu-name={oldest}"
    text = tmp_path.joinpath(f"case-{planted.number}.mlir")
    assert tileiras.check(text, gpu_name=oldest, budget=20).status == WRONG


def test_an_exception_of_the_compiler_is_shrunk(monkeypatch):
    """The pass raises for a reduction where agents may load."""
    result = lookup_pass("tileas-generate-schedule")
    original = result.run

    def run(self: Any, op: Any, context: Any) -> None:
        original(self, op, context)
        if self.strategy.loads is Loads.AGENT and any(each.name.endswith(".reduce") for each in op.walk()):
            raise AssertionError("planted")

    monkeypatch.setattr(result, "run", run)
    failing = next(
        number for number in range(50) if draw(number, ("rows",)).build.strategy == "warp-specialize"
        and judge(draw(number, ("rows",))).status == "internal"
    )  # fmt: skip
    smallest = shrunk(failing, ("rows",), ("sm_80",))
    assert smallest.verdict.status == "internal" and size(smallest.module) <= 8
    assert smallest.case.build.options == {"pipeline_strategy": "warp-specialize"}
    with pytest.raises(CompileError):
        tileiras.compile(smallest.module, gpu_name="sm_80", pipeline_strategy="warp-specialize")


def test_a_case_that_is_right_again_is_not_shrunk(capfd, tmp_path):
    """As after a repair of the compiler during the run: an empty module would be right as well."""
    smallest = shrunk(9, ("along",), ("sm_80",))
    assert smallest.verdict.status == "right" and smallest.module is None and not smallest.fails
    options = argparse.Namespace(forms="along", targets="sm_80", weights=covered.COMMITTED, shrunk=tmp_path)
    Run(options)._shrink([smallest.verdict._replace(seed=9, status="refused", detail="a message")])
    assert "judged again it is right" in capfd.readouterr().out and not list(tmp_path.iterdir())


MODULE = """
cuda_tile.module @m {
  entry @k(%x: tile<ptr<i32>>, %n: tile<i32>, %y: tile<ptr<i32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %token = make_token : token
    %sum, %other = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%a = %zero, %b = %one)
        -> (tile<i32>, tile<i32>) {
      %is = cmpi less_than %i, %one, signed : tile<i32> -> tile<i1>
      %part = if %is -> (tile<i32>) {
        %twice = addi %i, %i : tile<i32>
        yield %twice : tile<i32>
      } else {
        %square = muli %i, %i : tile<i32>
        yield %square : tile<i32>
      }
      %c = addi %a, %part : tile<i32>
      %d = muli %b, %part : tile<i32>
      continue %c, %d : tile<i32>, tile<i32>
    }
    %both = addi %sum, %other : tile<i32>
    %done = store_ptr_tko weak %x, %both token = %token : tile<ptr<i32>>, tile<i32> -> token
    %again = store_ptr_tko weak %y, %sum token = %done : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
"""


@pytest.mark.parametrize(("wanted", "most", "parameters"), [
    (("cuda_tile.muli",), 2, 1),
    (("cuda_tile.for",), 2, 2),
    (("cuda_tile.for", "cuda_tile.muli"), 3, 2),
    (("cuda_tile.if", "cuda_tile.addi"), 3, 1),
])  # fmt: skip
def test_only_files_needed_for_a_failure_stay(wanted, most, parameters):
    def fails(module, arguments):
        names = [op.name for op in module.walk()]
        assert len(arguments) == len(entries_of(module)[0].regions[0].block.arguments)
        return all(name in names for name in wanted)

    smallest, arguments = reduced(tileiras.parse(MODULE), [0, 1, 2], fails)
    assert fails(smallest, arguments) and size(smallest) <= most and len(arguments) == parameters
    assert size(tileiras.parse(str(smallest))) == size(smallest)


def test_replaced_draws_leave_later_ones_as_they_were():
    first = Choices(3)
    drawn = [first.choice((8, 16, 64)), first.chance(0.5), first.randint(1, 9), first.choices("abc", (1, 2, 3))[0]]
    again = Choices(3, {0: 8, 2: 0})
    assert [again.choice((8, 16, 64)), again.chance(0.5), again.randint(1, 9),
            again.choices("abc", (1, 2, 3))[0]] == [8, *drawn[1:]]  # fmt: skip
    assert again.draws[0].simpler == () and first.draws[2].simpler == tuple(range(1, drawn[2]))
    assert Choices(3).randrange(1 << 32) == Choices(3).randrange(1 << 32)

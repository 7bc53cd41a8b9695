"""Tile blocks that wait for each other: they are executed in turns, and waits without end are the program's fault."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.kernels.checked import module
from tileiras.check.verdict import FAULT, RIGHT, WRONG, Verdict
from tileiras.sim import interpret
from tileiras.sim.interpreter.machine import Deadlock

ADD = """
    %sum_{n}, %seen_{n} = load_ptr_tko weak %total token = %{held} : tile<ptr<f32>> -> tile<f32>, token
    %next_{n} = addf %sum_{n}, %mine : tile<f32>
    %stored_{n} = store_ptr_tko weak %total, %next_{n} token = %seen_{n} : tile<ptr<f32>>, tile<f32> -> token
"""


def _take(lock: str, held: str, before: str) -> str:
    return f"""
    %{held} = loop iter_values(%before = %{before}) : token -> token {{
      %old, %after = atomic_cas_tko acq_rel device %{lock}, %zero, %one, %is_there token = %before
          : tile<ptr<i32>>, tile<i32>, tile<i1> -> tile<i32>, token
      %was_free = cmpi equal %old, %zero, signed : tile<i32> -> tile<i1>
      if %was_free {{
        break %after : token
      }}
      continue %after : token
    }}"""


def _release(lock: str, given: str, before: str) -> str:
    return f"""
    %{given}_old, %{given} = atomic_rmw_tko release device %{lock}, xchg, %zero, %is_there token = %{before}
        : tile<ptr<i32>>, tile<i32>, tile<i1> -> tile<i32>, token"""


def _kernel(*steps: str) -> str:
    """Each tile block adds its element of an array to a sum; locks have as many elements as `count` says."""
    return module("""
    %block, %unused_y, %unused_z = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = make_token : token
    %place = offset %values, %block : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %mine, %loaded = load_ptr_tko weak %place : tile<ptr<f32>> -> tile<f32>, token
    %parity = andi %block, %one : tile<i32>
    %other = xori %parity, %one : tile<i32>
    %is_there = cmpi less_than %block, %count, signed : tile<i32> -> tile<i1>
    %first = offset %locks, %parity : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %second = offset %locks, %other : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
""" + "".join(steps), "%values: tile<ptr<f32>>, %total: tile<ptr<f32>>, %locks: tile<ptr<i32>>, %count: tile<i32>")


ONE_LOCK = _kernel(_take("locks", "held", "start"), ADD.format(n=0, held="held"), _release("locks", "r", "stored_0"))
UNRELEASED = _kernel(_take("locks", "held", "start"), ADD.format(n=0, held="held"))
CROSSED = _kernel(
    _take("first", "one_held", "start"), _take("second", "held", "one_held"), ADD.format(n=0, held="held"),
    _release("second", "r", "stored_0"), _release("first", "s", "r"),
)  # fmt: skip
OWN_LOCKS = _kernel(_take("first", "held", "start"), ADD.format(n=0, held="held"), _release("first", "r", "stored_0"))


def _verdict(text: str, blocks: int, count: int, **options) -> Verdict:
    arguments = [np.array([1, 1e8, -1e8, 3], np.float32)[:blocks], np.zeros(1, np.float32), np.zeros(2, np.int32)]
    given = [((blocks, 1, 1), [*arguments, np.int32(count)])]
    return tileiras.check(text, gpu_name="sm_90", launches=given, budget=0, **options)


@pytest.mark.parametrize("blocks", [2, 3])
def test_sums_behind_a_lock_are_right_in_any_order(blocks):
    verdict = _verdict(ONE_LOCK, blocks, count=4)
    assert verdict.status == RIGHT, str(verdict)


@pytest.mark.parametrize("text", [UNRELEASED, CROSSED], ids=["a lock that stays taken", "locks taken crosswise"])
def test_a_deadlock_of_tile_blocks_is_the_programs_fault(text):
    verdict = _verdict(text, 2, count=4)
    assert verdict.status == FAULT, str(verdict)
    (finding,) = verdict.failures
    line = 1 + text[: text.rindex("atomic_cas_tko")].count("\n")
    assert "deadlock" in finding.message and finding.location.split(":")[-2] == str(line)


def test_a_lock_that_the_code_does_not_release_is_wrong():
    image = tileiras.compile(ONE_LOCK, gpu_name="sm_90").text
    lines = [line for line in image.splitlines() if ".exch.b32" not in line]
    assert len(lines) < len(image.splitlines())
    verdict = _verdict(ONE_LOCK, 2, count=4, image="\n".join(lines))
    assert verdict.status == WRONG and "deadlock: no warp changes" in verdict.failures[0].message


@pytest.mark.parametrize(("text", "count"), [(ONE_LOCK, 2), (OWN_LOCKS, 4)], ids=["fewer locks", "two locks"])
def test_locks_that_exclude_no_other_block_are_a_race(text, count):
    """Behind the end of the locks a block takes none; and blocks with different locks do not exclude each other."""
    verdict = _verdict(text, 4, count)
    assert verdict.status == FAULT and "race" in verdict.failures[0].message, str(verdict)


BARRIER = module("""
    %block, %unused_y, %unused_z = get_tile_block_id : tile<i32>
    %blocks, %unused_a, %unused_b = get_num_tile_blocks : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %place = offset %out, %block : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %stored = store_ptr_tko weak %place, %block : tile<ptr<i32>>, tile<i32> -> token
    %old, %arrived = atomic_rmw_tko acq_rel device %count, add, %one token = %stored
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %all = loop iter_values(%before = %arrived) : token -> token {
      %seen, %after = load_ptr_tko acquire device %count token = %before : tile<ptr<i32>> -> tile<i32>, token
      %done = cmpi greater_than_or_equal %seen, %blocks, signed : tile<i32> -> tile<i1>
      if %done {
        break %after : token
      }
      continue %after : token
    }
    %next = addi %block, %one : tile<i32>
    %neighbour = remi %next, %blocks signed : tile<i32>
    %its = offset %out, %neighbour : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %theirs, %read = load_ptr_tko weak %its token = %all : tile<ptr<i32>> -> tile<i32>, token
    %to = offset %result, %block : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %told = store_ptr_tko weak %to, %theirs token = %read : tile<ptr<i32>>, tile<i32> -> token
""", "%out: tile<ptr<i32>>, %count: tile<ptr<i32>>, %result: tile<ptr<i32>>")


def test_tile_blocks_meet_at_a_barrier_of_the_grid():
    result = np.zeros(5, np.int32)
    interpret(BARRIER, None, 5, [np.zeros(5, np.int32), np.zeros(1, np.int32), result])
    assert result.tolist() == [1, 2, 3, 4, 0]
    verdict = tileiras.check(BARRIER, gpu_name="sm_90")
    assert verdict.status == RIGHT and any(each.grid[0] > 1 for each in verdict.launches), str(verdict)


def test_a_barrier_of_more_blocks_than_there_are_is_a_deadlock():
    text = BARRIER.replace("%blocks, signed : tile<i32> -> tile<i1>", "%more, signed : tile<i32> -> tile<i1>")
    text = text.replace("    %all = loop", "    %more = addi %blocks, %one : tile<i32>\n    %all = loop")
    with pytest.raises(Deadlock, match="no tile block changes memory any more"):
        interpret(text, None, 3, [np.zeros(3, np.int32), np.zeros(1, np.int32), np.zeros(3, np.int32)])
    assert tileiras.check(text, gpu_name="sm_90", budget=5).status == FAULT

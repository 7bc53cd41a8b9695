"""The output of each pass is executed like the source: bit for bit, and where sums are taken in another order, within
the bounds of the checker."""

from __future__ import annotations

import contextlib
import functools
import importlib
import pkgutil
from pathlib import Path

import numpy as np
import pytest

import tileiras
from tileiras.api import checked_options, compile_with
from tileiras.check import launches
from tileiras.check.blame import Snapshots, Suspect, _Search
from tileiras.check.facts import facts
from tileiras.check.fitting import Unfit, fit
from tileiras.dialects.nv_tileas.names import PIPELINE
from tileiras.ir import Operation, parse_module
from tileiras.sim.interpreter.lowered import NoRule, execute, rules
from tileiras.sim.interpreter.machine import InterpreterError
from tileiras.stages.units import entries_of, entry_name

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
HOST = {"tensor_maps": "host"}
QUICK = [
    ("saxpy.mlir", "sm_80", {}), ("softmax.py", "sm_90", {}), ("transpose.mlir", "sm_90", {}),
    ("matmul_f32.mlir", "sm_80", {}), ("matmul_f32.mlir", "sm_100", {"num_ctas": 2}),
    ("kernels/rope.py", "sm_90", {}), ("kernels/top_k.py", "sm_120", {}),
    ("kernels/histogram.py", "sm_100", {"num_ctas": 2}),
    ("kernels/prefix_sum.mlir", "sm_80", {}), ("kernels/spin_lock.mlir", "sm_90", {}),
    ("kernels/attention.py", "sm_90", HOST), ("kernels/attention.py", "sm_100", HOST),
    ("kernels/matmul_batched.py", "sm_100", HOST), ("kernels/matmul_split_k.py", "sm_90", HOST),
]  # fmt: skip
SLOW = [
    (path.relative_to(EXAMPLES).as_posix(), gpu_name, options)
    for pattern in ("*.mlir", "*.py", "kernels/*.mlir", "kernels/*.py") for path in sorted(EXAMPLES.glob(pattern))
    for gpu_name, options in (("sm_80", {}), ("sm_90", HOST), ("sm_100", HOST), ("sm_120", {}))
    if path.name != "matmul_scaled.py" or gpu_name == "sm_100"
    if path.name != "matmul_f8.py" or gpu_name != "sm_80"
]  # fmt: skip


@functools.cache
def parsed(source: str):
    return tileiras.parse(EXAMPLES / source)


def search(source: str, entry, gpu_name: str, options: dict, plan: int = 0) -> _Search:
    """The snapshots of one entry, and a launch of it."""
    module, name = parsed(source), entry_name(entry)
    taken = Snapshots()
    value = checked_options(gpu_name, 3, dict(options))
    compile_with(EXAMPLES / source, value, "tileas", entry=name, instrumentation=[taken])
    known, result = facts(entry), []
    suspect = Suspect(module, module, name, known, gpu_name, 3, options, lambda given: None)
    for drawn in launches.plans(known):
        # The program may not allow a drawn plan.
        with contextlib.suppress(Unfit, InterpreterError):
            result.append(_Search(suspect, fit(entry, module, known, drawn), taken.entries))
        if len(result) > plan:
            break
    return result[-1]


def assert_all_are_right(source: str, gpu_name: str, options: dict, plan: int = 0) -> None:
    for entry in entries_of(parsed(source)):
        searched = search(source, entry, gpu_name, options, plan)
        assert len(searched.snapshots) >= 7
        for snapshot in searched.snapshots:
            outcome = searched.outcome(snapshot)
            assert outcome.is_right, f"{entry_name(entry)} behind {snapshot.name}: {outcome.error or outcome.wrong}"


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("source", "gpu_name", "options"), QUICK)
def test_the_module_after_each_pass_means_the_same(source, gpu_name, options):
    assert_all_are_right(source, gpu_name, options)


@pytest.mark.slow
@pytest.mark.parametrize("plan", [0, 5])
@pytest.mark.parametrize(("source", "gpu_name", "options"), SLOW)
def test_all_examples_mean_the_same_behind_each_pass(source, gpu_name, options, plan):
    assert_all_are_right(source, gpu_name, options, plan)


def operation_names(level: str) -> set[str]:
    package = importlib.import_module(f"tileiras.dialects.{level}")
    inner = [each.name for each in pkgutil.iter_modules(package.__path__)]
    files = [importlib.import_module(f"{package.__name__}.{name}") for name in inner]
    classes = [each for file in files for each in vars(file).values() if isinstance(each, type)]
    names = {each.name for each in classes if issubclass(each, Operation) and each.__name__.endswith("Op")}
    return {name for name in names if name.startswith(f"{level}.")} - {"nv_tileaa.func", "nv_tileaa.global"}


# -- rings and agents -------------------------------------------------------------------------------------------------


def function(body: str):
    return parse_module(f"""
      nv_tileaa.func @k(%p: !nv_tileaa.ptr<i32>) attributes {{
          kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"}} {{
        {body}
        nv_tileaa.return
      }}
    """, "<test>")  # fmt: skip


def test_an_operation_without_a_rule_is_named():
    module = function("%c = arith.constant 1.0 : f32  %t = arith.cmpf ord, %c, %c : f32")
    with pytest.raises(NoRule, match="'arith.cmpf' op has no rule"):
        execute(module, 1, [np.zeros(1, np.int32)])


STORED = "%c = arith.constant 7 : i32  %t = nv_tileaa.store %p, %c : !nv_tileaa.ptr<i32>, i32 -> !nv_tileaa.mem_token"


def test_arrays_are_updated_in_place():
    out = np.zeros(3, np.int32)
    execute(function(STORED), 1, [out])
    assert out.tolist() == [7, 0, 0]


def test_an_access_outside_of_an_array_ends_the_run():
    with pytest.raises(InterpreterError, match="nv_tileaa.store"):
        execute(function(STORED), 1, [np.zeros(0, np.int32)])


PIPE = """
    %producer, %consumer = nv_tileas.async.pipeline.create_pipeline stages 1
    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] {{
      %i = nv_tileas.async.pipeline.create_iterator %consumer : !nv_tileas.consumer_token
      %w = nv_tileas.async.pipeline.consumer_wait %consumer, %i
      %v, %u = nv_tileas.load %p : !nv_tileaa.ptr<i32> -> i32, !nv_tileaa.mem_token
      %two = arith.constant 2 : i32
      %q = nv_tileas.addptr %p, %two : !nv_tileaa.ptr<i32>, i32
      %s = nv_tileas.store %q, %v : !nv_tileaa.ptr<i32>, i32 -> !nv_tileaa.mem_token
      nv_tileas.async.pipeline.yield
    }}, {{
      %i = nv_tileas.async.pipeline.create_iterator %producer : !nv_tileas.producer_token
      %a = nv_tileas.async.pipeline.producer_acquire %producer, %i
      %c = arith.constant 7 : i32
      %s = nv_tileas.store %p, %c : !nv_tileaa.ptr<i32>, i32 -> !nv_tileaa.mem_token
      {commit}
      nv_tileas.async.pipeline.yield
    }}
"""


def test_an_agent_goes_on_behind_its_wait():
    out = np.zeros(3, np.int32)
    execute(function(PIPE.format(commit="%d = nv_tileas.async.pipeline.producer_commit %a")), 1, [out])
    assert out.tolist() == [7, 0, 7]


def test_a_stage_is_full_once_all_that_fill_it_commit():
    """The agent that drains the stage loads the element that the last agent stores."""
    whole = PIPE.format(commit="%d = nv_tileas.async.pipeline.producer_commit %a")
    begin, _, rest = whole.replace("[1, 1]", "[1, 1, 1]").partition("{\n")
    drains, _, fills = rest.partition("}, {\n")
    commits = "".join(line for line in fills.splitlines(True) if "store" not in line).rstrip().removesuffix("}")
    out = np.zeros(3, np.int32)
    execute(function(begin + "{\n" + "}, {\n".join((commits, drains, fills))), 1, [out])
    assert out.tolist() == [7, 0, 7]


def test_agents_that_wait_for_each_other_end_the_run():
    with pytest.raises(InterpreterError, match="consumer_wait.* waits for a condition that no agent brings"):
        execute(function(PIPE.format(commit="")), 1, [np.zeros(3, np.int32)])


def test_rules_cover_both_levels_but_for_seven_operations():
    """Device code of the user's own is executed at the level of the source, by functions of NumPy, or as PTX."""
    levels = ("nv_tileaa", "nv_tileas")
    names = {name for level in levels for name in operation_names(level)}
    calls = {f"{level}.extern_{name}" for level in levels for name in ("call", "elementwise")}
    pipes = {f"{PIPELINE}{name}" for name in ("produce_one", "consume_one")}
    assert names - rules() == {"nv_tileas.shifted", *pipes, *calls}

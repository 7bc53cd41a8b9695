"""Features of a kernel besides loads and dots take effect once, in every plan for its loops: with agents, in the agent
that computes."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from bench.plans import PLANS
from tests.agents.running import SPECIALIZED, is_specialized
from tests.kernels import tensor_maps
from tests.kernels.dots import Matmul
from tests.kernels.views import Kernel, View
from tileiras.sim import EmulationError, emulate

MAPS = ("none", "host")
STEPS = 3
GPU = "sm_90"
WITH_AGENTS = ("auto", "agents", "agents-boxes", "agents-device-boxes", "light", "light-boxes", "clusters")
"""Of these plans; by `default`, without boxes, warps whose products are of wgmma copy as well as others would."""
EVERY = tuple(PLANS)


def product(**options) -> Matmul:
    """Of tiles that the rule of `auto` specializes in boxes."""
    return Matmul((64, 64, 64), steps=STEPS, **options)


def compiled(kernel: Kernel, plan: str, **options) -> tileiras.Artifact:
    artifact = kernel.compiled(GPU, emit="ptx", **PLANS[plan], **options)
    assert (".reqntid 128" not in artifact.text) == (plan in WITH_AGENTS)
    return artifact


def in_each_step(made: Matmul, line: str) -> Kernel:
    """The product with another operation in each step."""
    return made.kernel(made.text(inner=f"{line}\n%s = addf %next, %c : {made.c.tile}"))


@pytest.mark.sampled(7)
@pytest.mark.parametrize("plan", EVERY)
def test_prints_of_a_loop_come_once(plan):
    kernel = in_each_step(product(), '%said = print_tko "step %d;", %i : tile<i32> -> token')
    artifact = compiled(kernel, plan)
    items = [*(array.view(np.uint16) for array in kernel.inputs), kernel.outputs[0].copy()]
    result = emulate(artifact.text, "k", 1, items, metadata=artifact.kernels[0].metadata, seed=1)
    assert result.output == "".join(f"step {step};" for step in range(STEPS))


@pytest.mark.sampled(14)
@pytest.mark.parametrize("plan", EVERY)
@pytest.mark.parametrize("limit", [STEPS, STEPS - 1])
def test_assertions_of_a_loop_hold_or_end_the_kernel(limit, plan):
    line = f'%limit = constant <i32: {limit}> : tile<i32>\n%holds = cmpi less_than %i, %limit, signed'
    line += ' : tile<i32> -> tile<i1>\nassert %holds, "too far" : tile<i1>'
    kernel = in_each_step(product(), line)
    artifact = compiled(kernel, plan)
    if limit == STEPS:
        kernel.emulated(artifact, 1)
        return
    with pytest.raises(EmulationError, match="too far"):
        kernel.emulated(artifact, 1)


def returning(condition: str) -> Kernel:
    """The product, unless the block returns before it."""
    result = product()
    text = result.text()
    start = text.index("%sum = for")
    early = f"""%two = constant <i32: 2> : tile<i32>
    %ends = cmpi {condition} %two, %two, signed : tile<i32> -> tile<i1>
    if %ends {{
      return
    }}
    """
    kernel = result.kernel(text[:start] + early + text[start:])
    return kernel if condition == "not_equal" else kernel._replace(expected=kernel.outputs)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("plan", EVERY)
@pytest.mark.parametrize("condition", ["equal", "not_equal"])
def test_a_return_ahead_of_the_loop(condition, plan):
    kernel = returning(condition)
    kernel.emulated(kernel.compiled(GPU, emit="ptx", **PLANS[plan]), 1)


def leaving(steps: int) -> Kernel:
    """The product, in a loop that the block leaves behind so many steps; it returns from there if they are all."""
    result = product()
    text = result.text()
    loop = f"""%sum = loop iter_values(%i = %zero, %acc = %c) : tile<i32>, {result.c.tile} -> {result.c.tile} {{
      %last = constant <i32: {steps}> : tile<i32>
      %ends = cmpi equal %i, %last, signed : tile<i32> -> tile<i1>
      if %ends {{
        %all = cmpi equal %last, %steps, signed : tile<i32> -> tile<i1>
        if %all {{
          return
        }}
        break %acc : {result.c.tile}
      }}"""
    head = next(line for line in text.split("\n") if "%sum = for" in line)
    next_round = f"%more = addi %i, %one : tile<i32>\ncontinue %more, %next : tile<i32>, {result.c.tile}"
    text = text.replace(head, loop).replace(f"continue %next : {result.c.tile}", next_round)
    kernel = result.kernel(text, lambda a, b: a[:, : 64 * steps] @ b[: 64 * steps])
    return kernel if steps < STEPS else kernel._replace(expected=kernel.outputs)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("plan", EVERY)
@pytest.mark.parametrize("steps", [1, STEPS])
def test_an_exit_inside_of_the_loop(steps, plan):
    kernel = leaving(steps)
    kernel.interpreted()
    kernel.emulated(kernel.compiled(GPU, emit="ptx", **PLANS[plan]), 1)


def leaving_around(rounds: int) -> Kernel:
    """Rounds that all do the product and store it; the block returns from the loop around, and stores nothing else."""
    result = product()
    text = result.text()
    start, end = text.index("%sum = for"), text.rindex("return")
    around = f"""%rounds = constant <i32: {rounds}> : tile<i32>
    loop iter_values(%t = %zero) : tile<i32> {{
      %ends = cmpi equal %t, %rounds, signed : tile<i32> -> tile<i1>
      if %ends {{
        return
      }}
      """
    behind = """%later = addi %t, %one : tile<i32>
      continue %later : tile<i32>
    }
    %end_again = store_view_tko weak %c, """
    again = result.c.store("c").partition("%c, ")[2]
    kernel = result.kernel(text[:start] + around + text[start:end] + behind + again + "\n    " + text[end:])
    return kernel if rounds else kernel._replace(expected=kernel.outputs)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("plan", EVERY)
@pytest.mark.parametrize("rounds", [0, 2])
def test_a_return_from_a_loop_around(rounds, plan):
    kernel = leaving_around(rounds)
    kernel.interpreted()
    kernel.emulated(compiled(kernel, plan), 1)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("plan", EVERY)
def test_checks_of_memory(plan):
    kernel = product(sizes=(60, 56, 152)).kernel()
    artifact = kernel.compiled(GPU, emit="ptx", sanitize="memcheck", **PLANS[plan])
    kernel.emulated(artifact, 1)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("plan", EVERY)
def test_arrays_of_unknown_alignment(plan):
    """No box and no asynchronous copy brings their tiles."""
    kernel = product(aligned=None).kernel()
    artifact = kernel.compiled(GPU, emit="ptx", **PLANS[plan])
    assert not is_specialized(artifact.text) and "cp.async" not in artifact.text
    kernel.emulated(artifact)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("plan", EVERY)
@pytest.mark.parametrize("sizes", [(64, 71, 0), (0, 64, 64), (64, 0, 64)])
def test_arrays_without_elements(sizes, plan):
    result = tileiras.compile(tensor_maps.matmul(), gpu_name=GPU, **PLANS[plan])
    for steps in (0, 1, STEPS):
        tensor_maps.Arrays(*sizes).launch(result.text, result.kernels[0].metadata, 0, steps)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("options", [{}, {"device_debug": True}], ids=["", "-g"])
@pytest.mark.parametrize("plan", EVERY)
def test_all_warps_do_the_same_at_level_0(plan, options):
    kernel = product().kernel()
    artifact = kernel.compiled(GPU, emit="ptx", opt_level=0, **PLANS[plan], **options)
    assert ".reqntid 128" in artifact.text and not is_specialized(artifact.text)
    kernel.emulated(artifact, 1)


@pytest.mark.parametrize("maps", MAPS)
def test_lines_of_the_source_make_no_difference(maps):
    """Operations of agents keep the source lines of the operations that they come from."""
    kernel = product().kernel()
    with_lines = kernel.compiled("sm_90", emit="ptx", tensor_maps=maps, lineinfo=True, **SPECIALIZED)
    assert is_specialized(with_lines.text)
    assert with_lines.text.count(".loc") > 10
    kernel.emulated(with_lines, 1)


@pytest.mark.parametrize("maps", MAPS)
def test_the_same_code_each_time(maps):
    kernel = product().kernel()
    codes = {kernel.compiled("sm_90", emit="ptx", tensor_maps=maps, **SPECIALIZED).text for _ in range(3)}
    assert len(codes) == 1


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16])
def test_any_number_of_warps(warps):
    kernel = Matmul((64, 64, 32), steps=STEPS).kernel()
    for maps in MAPS:
        artifact = kernel.compiled("sm_90", emit="ptx", tensor_maps=maps, num_warps=warps, **SPECIALIZED)
        assert is_specialized(artifact.text)
        kernel.emulated(artifact, 1)


TRIPS = {
    "loaded": "%steps = addi %many, %zero : tile<i32>",
    "chosen": """%yes = cmpi greater_than %many, %one, signed : tile<i32> -> tile<i1>
      %steps = if %yes -> (tile<i32>) {
        %two = addi %one, %one : tile<i32>
        yield %two : tile<i32>
      } else {
        yield %one : tile<i32>
      }""",
    "counted": """%steps = loop iter_values(%q = %zero) : tile<i32> -> tile<i32> {
        %end = cmpi equal %q, %many, signed : tile<i32> -> tile<i1>
        if %end {
          break %q : tile<i32>
        }
        %more = addi %q, %one : tile<i32>
        continue %more : tile<i32>
      }""",
}


@pytest.mark.parametrize("way", TRIPS)
def test_trip_counts_that_both_agents_find_out(way):
    """From a number in memory, whose load comes behind another one."""
    value = product()
    count = View("count", (1,), "i32", aligned=None)
    text = value.text(more=[count])
    fixed = f"%steps = constant <i32: {STEPS}> : tile<i32>"
    result = f"""{value.c.load("first")}
      {count.load("loaded", "%zero", token="%k_first")}
      %many = reshape %loaded : tile<1xi32> -> tile<i32>
      {TRIPS[way]}"""
    assert fixed in text
    kernel = value.kernel(text.replace(fixed, result), lambda a, b: a[:, :128] @ b[:128])
    kernel = kernel._replace(outputs=(*kernel.outputs, np.array([2], np.int32)), expected=(*kernel.expected, 2))
    kernel.interpreted()
    for maps in MAPS:
        artifact = kernel.compiled("sm_90", emit="ptx", tensor_maps=maps, **SPECIALIZED)
        assert is_specialized(artifact.text)
        kernel.emulated(artifact, 1)

"""The check of all orders of agents: mistakes that it detects before code generation, and programs that it accepts."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.agents.running import ptx, run, verify
from tests.kernels import agents as kernels
from tests.kernels.agents import PIPE, kernel, rounds
from tileiras.analysis.pipes import model as pipe_model
from tileiras.diagnostics import CompileError, Diagnostic, DiagnosticEngine, Severity
from tileiras.ir import parse_module
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.passes.tileir_verify_ops_analysis import VerifyOpsAnalysis
from tileiras.schedule.generate_schedule import GenerateSchedule
from tileiras.sim import EmulationError

ITERATOR = "!nv_tileas.pipeline_iterator"


def ring(produces: str, consumes: str, depth: int = 2, **options) -> str:
    return kernel([(4, consumes), (4, produces)], depth, **options)


def fills(rows: str = "%zero to %n step %one", middle: str = "") -> str:
    return rounds("%p", "producer_acquire", middle, "producer_commit", rows)


def drains(rows: str = "%zero to %n step %one", middle: str = "") -> str:
    return rounds("%c", "consumer_wait", middle, "consumer_release", rows)


TWO_AHEAD = f"""
      %i = {PIPE}.create_iterator %p : !nv_tileas.producer_token
      %j = {PIPE}.inc_iter %i
      %q = {PIPE}.producer_acquire %p, %i
      %r = {PIPE}.producer_acquire %p, %j
      %s = {PIPE}.producer_commit %q
      %t = {PIPE}.producer_commit %r
      {PIPE}.yield"""

ONE_ROUND = {
    end: f"""
      %i = {PIPE}.create_iterator {end} : !nv_tileas.{side}_token
      %q = {PIPE}.{first} {end}, %i
      %r = {PIPE}.{last} %q
      {PIPE}.yield"""
    for end, side, first, last in (
        ("%p", "producer", "producer_acquire", "producer_commit"),
        ("%c", "consumer", "consumer_wait", "consumer_release"),
    )
}  # fmt: skip

TWICE = drains().replace("scf.yield %j", "scf.yield %i")
BARRIER = "nv_tileas.barrier id = 3 threads = 256"

WRONG = {
    "one wait too many": (ring(fills(), drains("%zero to %more step %one"), before=(
        "%more = arith.addi %n, %one : i32")),
        r"agent 0 waits at line \d+ for stage 0 of 2 to be full; agent 1 has ended \(where argument 3 is 0\)"),
    "nobody drains so often": (ring(fills("%zero to %more step %one"), drains(), before=(
        "%three = arith.constant 3 : i32 \n %more = arith.addi %n, %three : i32")),
        "agent 1 waits at line .* for stage 0 of 2 to be empty"),
    "the consumer's iterator stands still": (ring(fills(), TWICE), "goes on before stage 0 is full"),
    "the producer's iterator stands still": (ring(fills().replace("scf.yield %j", "scf.yield %i"), drains()),
        "goes on before stage 0 is empty|waits for a round|waits for ever"),
    "the iterator starts anew in every tile": (kernels.persistent("cp_async", 2, "sm_90").replace(
        "iter_args(%i = %i1, %acc = %start)", "iter_args(%i = %i0, %acc = %start)"),
        "waits for a round of stage . that is over|waits for ever|goes on before"),
    "more stages at a time than there are": (ring(TWO_AHEAD, drains("%zero to %two step %one"), 1, before=(
        "%two = arith.constant 2 : i32")), "for stage 0 of 1 to be empty"),
    "copies in flight at the end": (kernels.copy_kernel("cp_async", "ld_shared", 4, "sm_90").replace(
        "scf.for %row = %zero to %n", "scf.for %row = %one to %n", 1),
        "leaves copies into stage . in flight when the agents end"),
    "a barrier behind the stage that it is waited for with": (ring(
        fills("%zero to %one step %one", BARRIER), drains("%zero to %one step %one") .replace(
            f"{PIPE}.yield", f"{BARRIER}\n      {PIPE}.yield")), "waits for ever.*at barrier 3"),
    "only on one way of a branch": (ring(ONE_ROUND["%p"].replace("%q =", "%f = arith.cmpi slt, %one, %n : i32\n scf.if "
        "%f { %q =").replace(f"{PIPE}.yield", f"}}\n {PIPE}.yield"), ONE_ROUND["%c"]),
        r"stage 0 of 2 to be full; agent 1 has ended \(where argument 3 is 0\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_named(name):
    text, result = WRONG[name]
    with pytest.raises(CompileError, match=result) as info:
        verify(text)
    assert len(info.value.diagnostics) == 1 and info.value.diagnostics[0].location is not None


def test_two_pipes_that_wait_for_each_other():
    """Each agent first acquires a stage of the other."""
    cross = f"""
      %i = {PIPE}.create_iterator %c1 : !nv_tileas.consumer_token
      %q = {PIPE}.consumer_wait %c1, %i
      %r = {PIPE}.consumer_release %q
      %j = {PIPE}.create_iterator %p2 : !nv_tileas.producer_token
      %s = {PIPE}.producer_acquire %p2, %j
      %t = {PIPE}.producer_commit %s
      {PIPE}.yield"""
    other = cross.translate({ord("1"): "2", ord("2"): "1"})
    pipes = "\n".join(f"%p{n}, %c{n} = {PIPE}.create_pipeline stages 1" for n in (1, 2))
    text = kernel([(4, cross), (4, other)], before=pipes).replace(f"%p, %c = {PIPE}", f"%p, %c = {PIPE}")
    with pytest.raises(CompileError, match="waits for ever: agent 0 waits .* to be full; agent 1 waits .* to be full"):
        verify(text)


GUARDED = f"""
      %i0 = {PIPE}.create_iterator %c : !nv_tileas.consumer_token
      %ahead = arith.addi %one, %one : i32
      %last = scf.for %row = %zero to %n step %one iter_args(%i = %i0) -> ({ITERATOR}) : i32 {{
        %far = arith.subi %n, %row : i32
        %f = arith.cmpi sge, %far, %one : i32
        %k = scf.if %f -> ({ITERATOR}) {{
          %q = {PIPE}.consumer_wait %c, %i
          %r = {PIPE}.consumer_release %q
          %j = {PIPE}.inc_iter %i
          scf.yield %j : {ITERATOR}
        }} else {{
          scf.yield %i : {ITERATOR}
        }}
        scf.yield %k : {ITERATOR}
      }}
      {PIPE}.yield"""

STEPS = "%big = arith.constant 64 : i32"


@pytest.mark.parametrize(
    "text",
    [
        ring(fills(), drains()),
        ring(fills(), GUARDED),
        ring(fills(), drains("%one to %more step %one"), before="%more = arith.addi %n, %one : i32"),
        ring(fills("%zero to %n step %big"), drains("%zero to %count step %one"), before=(
            f"{STEPS}\n %count = arith.ceildivsi %n, %big : i32")),
        ring(fills(), drains(), depth=8),
        kernels.held_stage("sm_90", 2),
        kernels.persistent("bulk_load", 3, "sm_90"),
        kernels.two_consumers("st_shared", 3, "sm_90"),
    ],
    ids=["plain", "guarded", "shifted", "strided", "deep", "held", "persistent", "two consumers"],
)  # fmt: skip
def test_right_code_passes(text):
    verify(text)


def test_a_stage_held_through_a_ring_of_one_waits_for_ever():
    with pytest.raises(CompileError, match="for stage 0 of 1 to be full; agent 1 waits .* to be empty"):
        verify(kernels.held_stage("sm_90", 1))


def test_accesses_out_of_bounds_are_named_by_the_emulator():
    """Nine rows are as many as the check looks at: from the 21st on, the producer loads none."""
    rows = "%most = arith.constant 20 : i32 \n %rows = arith.minsi %n, %most : i32"
    loads = kernels.producer("cp_async", 1, 4).replace("%n step", "%rows step")
    code = ptx(kernel([(4, kernels.consumer("ld_shared", 4)), (1, loads)], 4, ("cp_async", "ld_shared"), before=rows))
    a, b, _ = run(code, 0, rows=20)
    np.testing.assert_array_equal(b[: 20 * kernels.TILE], 2 * a[: 20 * kernels.TILE])
    with pytest.raises(EmulationError) as info:
        run(code, 0, rows=21)
    line = 1 + code[: re.search(r"mbarrier.try_wait", code).start()].count("\n")  # type: ignore[union-attr]
    assert "deadlock: no warp can go on" in str(info.value)
    assert f"warps 0-3 waiting at line {line}" in str(info.value)
    assert "lacks 32 of 32 arrivals" in str(info.value)


def test_every_check_of_operations_looks_at_the_order_of_agents():
    """That before the conversion to LLVM, and those between passes when these are verified."""
    text, result = WRONG["one wait too many"]
    for run_pass in (VerifyOpsAnalysis(), GenerateSchedule()):
        module = parse_module(text)
        with pytest.raises(CompileError, match=result):
            PassManager([run_pass], verify_each=True).run(module, PassContext(None))


def remarks_of(text: str) -> list[Diagnostic]:
    engine = DiagnosticEngine()
    PassManager([VerifyOpsAnalysis()], verify_each=False).run(parse_module(text), PassContext(engine))
    return engine.diagnostics


def test_programs_too_long_to_look_at_are_said():
    """A ring of 3,000 rounds has a wait and an arrival in each; of 20, all orders are looked at."""
    rows = "%zero to %many step %one"
    for trips, result in ((20, 0), (3000, 1)):
        text = ring(fills(rows), drains(rows), before=f"%many = arith.constant {trips} : i32")
        remarks = remarks_of(text)
        assert [(d.severity, d.location.resolve().line > 1) for d in remarks] == [(Severity.REMARK, True)] * result
    wrong = ring(fills(rows), drains("%one to %many step %one"), before="%many = arith.constant 3000 : i32")
    assert len(remarks_of(wrong)) == 1  # its mistake is not detected


def test_more_orders_than_are_looked_at_are_said(monkeypatch):
    text = ring(fills(), drains(), depth=8)
    assert not remarks_of(text)
    monkeypatch.setattr(pipe_model, "MOST_STATES", 10)
    (remark,) = remarks_of(text)
    assert remark.severity is Severity.REMARK


def test_iterators_from_outside_of_the_agents():
    """They begin for each agent where they stand."""
    begin = f"%begin = {PIPE}.create_iterator %p : !nv_tileas.producer_token"
    inside = f"%i0 = {PIPE}.create_iterator %p : !nv_tileas.producer_token"
    text = ring(fills(), drains())
    assert inside in text
    outside = text.replace(inside, "").replace("%i = %i0", "%i = %begin", 2)
    outside = outside.replace("%i = %begin", "%i = %i0", 1)
    verify(outside.replace(f"{PIPE}.agent_switch", f"{begin}\n    {PIPE}.agent_switch"))
    ahead = f"{begin}\n    %next = {PIPE}.inc_iter %begin\n    {PIPE}.agent_switch"
    wrong = outside.replace(f"{PIPE}.agent_switch", ahead).replace("%i = %begin", "%i = %next")
    with pytest.raises(CompileError, match="waits for ever|goes on before"):
        verify(wrong)

"""Warpgroups of one agent that take turns: right whichever one is ahead, for any number of iterations, without
deadlock."""

from __future__ import annotations

import re

import pytest

from tests.agents.running import SEEDS, SPECIALIZED, check, ptx, run, verify
from tests.kernels.agents import PIPE, drained, kernel, producer, rounds
from tests.kernels.dots import attention_like
from tests.kernels.reasons import stated
from tileiras.codegen import ptxas as assembler
from tileiras.diagnostics import CompileError
from tileiras.sim import EmulationError

WAIT, END = ("nv_tileas.async.{}_turn id = 4".format(name) for name in ("wait", "end"))
ARRIVAL = re.compile(r"\tbar\.arrive\s[^;]*;\n")


def in_turns(work: str, end: str = END, again: bool = False) -> str:
    """The program of an agent that waits for each stage in its turn, and does `work` with it outside of turns; `again`:
    with two more turns behind, in which nothing is done."""
    loop = rounds("%c", "consumer_wait", f"{end}\n{work}", "consumer_release")
    loop = loop.replace("%last = scf.for", f"{WAIT}\n      %last = scf.for")
    loop = loop.replace("        %j =", f"        {WAIT}\n        %j =")
    twice = "%two = arith.addi %one, %one : i32\nscf.for %x = %zero to %two step %one : i32"
    idle = f"{twice} {{\n{WAIT}\n{END}\nscf.yield\n}}\n" if again else ""
    loop = loop.replace(f"      {PIPE}.yield", f"      {END}\n{idle}      {WAIT} {{last}}\n      {PIPE}.yield")
    return f"\n      {END} {{first}}{loop}"


def doubling(consumer: str, warps: int = 8, depth: int = 2) -> str:
    """Each row twice, by an agent of so many warps."""
    return kernel([(warps, consumer), (4, producer("cp_async", 4, depth))], depth, ("cp_async", "ld_shared"),
                  warps=warps)  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("rows", [0, 1, 2, 7])
@pytest.mark.parametrize(("depth", "again"), [(1, False), (2, True), (3, False)])
def test_any_number_of_turns(rows, depth, again, assemble):
    code = ptx(doubling(in_turns(drained("ld_shared", "%row", 8), again=again), depth=depth))
    assert len(ARRIVAL.findall(code)) >= 3
    assemble(code, "sm_90")
    for seed in SEEDS[:2]:
        a, b, _ = run(code, seed, rows)
        check(b, a + a, rows)


def test_who_ends_no_turn_is_waited_for():
    code = ptx(doubling(in_turns(drained("ld_shared", "%row", 8))))
    for match in ARRIVAL.finditer(code):
        with pytest.raises(EmulationError):
            run(code[: match.start()] + code[match.end() :], None)


WRONG = {
    "a turn without an end": (8, in_turns("", end=""), "waits for ever: agent 0, warpgroup ., waits .* at barrier"),
    "a barrier of all warps in a turn": (8, in_turns("").replace(
        f"%q = {PIPE}.consumer_wait", f"nv_tileas.barrier id = 1 threads = 256\n %q = {PIPE}.consumer_wait"),
        "waits for ever: agent 0, warpgroup ., waits .* at barrier"),
    "a barrier of others": (8, in_turns("nv_tileas.barrier id = 5 threads = 256"),
        "orders warpgroups at barrier 5, which others wait at"),
    "one warpgroup": (4, in_turns(""), "expects an agent of two or more warpgroups, but got 4 warps"),
    "too many barriers": (8, in_turns("").replace("id = 4", "id = 15"), "takes barriers 15 to 16"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_named(name):
    warps, program, result = WRONG[name]
    with pytest.raises(CompileError, match=result) as info:
        verify(doubling(program, warps))
    assert info.value.diagnostics[0].location is not None


@pytest.mark.parametrize("maps", ["none", "host"])
def test_attention_takes_turns(maps, assemble):
    """Two warpgroups: one computes while the products of the other one run."""
    kernel = attention_like(1, rows=128, columns=128, depth=128, steps=5, halved=True)
    artifact = kernel.compiled("sm_90", emit="ptx", tensor_maps=maps, emit_remarks=True, **SPECIALIZED)
    assert "turns.warpgroups-alternate warpgroups=2" in stated(artifact.diagnostics)
    assert len(ARRIVAL.findall(artifact.text)) == 3
    assert assemble(artifact.text, "sm_90").stack == 0
    assert "C75" not in str(assembler.assemble(artifact.text, "sm_90").messages)
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)

"""Peepholes of the NVPTX layer: rows are selected with the target machine, and rewrites keep the results of kernels."""

import random

import numpy as np
import pytest

from tileiras import ir
from tileiras.codegen import llvm_pipeline
from tileiras.codegen.peepholes import REWRITES
from tileiras.codegen.target_machine import processor, target_machine
from tileiras.ir import PassManager
from tileiras.lowering.llvm_to_ir import translate_module
from tileiras.passes import lookup_pass
from tileiras.sim import emulate
from tileiras.targets import peepholes
from tileiras.targets.peepholes import TABLE, Peephole, select


def test_each_row_has_a_rewrite_and_a_loop_that_it_shortens():
    assert [row.name for row in TABLE] == list(REWRITES)
    for row in TABLE:
        before, after = row.saves.split(" to ")[0].split()[-1], row.saves.split(" to ")[1].split()[0].strip(",")
        assert int(before) > int(after)


@pytest.mark.parametrize(
    ("chips", "ptx", "chip", "features", "holds"),
    [
        ("80", (7, 0), "sm_80", "+ptx70", True),
        ("80", (7, 0), "sm_75", "+ptx70", False),
        ("80", (7, 0), "sm_90", "+ptx65", False),
        ("=90a", (8, 0), "sm_90a", "+ptx80", True),
        ("=90a", (8, 0), "sm_100", "+ptx86", False),
        ("=100f", (8, 6), "sm_103", "+ptx88", True),
    ],
)
def test_predicates_are_over_chip_and_features(monkeypatch, chips, ptx, chip, features, holds):
    row = Peephole("row", (), chips, ptx, "")
    monkeypatch.setattr(peepholes, "TABLE", (row,))
    assert select(chip, features) == ((row,) if holds else ())


FEW_REGISTERS = """module {
  gpu.module @rows [#nvvm.target<chip = "sm_100">] {
    llvm.func @k(%p: !llvm.ptr<1>, %row: i64, %n: i64, %x: f32)
        attributes {nvvm.kernel, nvvm.reqntid = array<i32: 256>BOUND} {
      %zero = llvm.mlir.constant(0 : i64) : i64
      %one = llvm.mlir.constant(1 : i64) : i64
      llvm.br ^bb1(%zero : i64)
    ^bb1(%i: i64):
      %sum = llvm.add %i, %row : i64
      %q = llvm.getelementptr %p[%sum] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
      llvm.store %x, %q : f32, !llvm.ptr<1>
      %next = llvm.add %i, %one : i64
      %more = llvm.icmp "slt" %next, %n : i64
      llvm.cond_br %more, ^bb1(%next : i64), ^bb2
    ^bb2:
      llvm.return
    }
  }
}"""


@pytest.mark.parametrize(("ctas", "rewritten"), [(None, True), (3, True), (4, False)])
def test_addresses_stay_where_threads_have_few_registers(ctas, rewritten):
    bound = "" if ctas is None else f", nvvm.minctasm = {ctas} : i32"
    module = ir.parse_module(FEW_REGISTERS.replace("BOUND", bound), "m")
    PassManager([lookup_pass("nvptx-peepholes")()]).run(module)
    result = [op.name for op in module.walk()].count("llvm.getelementptr")
    assert result == (2 if rewritten else 1)


def test_rows_are_cached_with_the_machine(monkeypatch):
    machine = target_machine(processor("sm_89"), "+ptx78", 3)
    assert machine.peepholes == select("sm_89", "+ptx78") != ()
    monkeypatch.setattr(peepholes, "TABLE", ())
    assert target_machine(processor("sm_89"), "+ptx78", 3).peepholes is machine.peepholes
    assert target_machine(processor("sm_89"), "+ptx80", 3).peepholes == ()


def loop_kernel(choices: random.Random) -> str:
    """A kernel whose loop has sums in addresses, comparisons of extended numbers and sums of conditions."""
    size = choices.choice([2, 4, 8])
    extend = choices.choice(["sext", "zext"])
    predicates = choices.choice([["ult", "uge", "eq"], ["slt", "sge", "ne", "ugt"]])
    terms = [f"%c{n}" for n in range(choices.choice([1, 2, 3]))]
    lines = []
    for number, _ in enumerate(terms):
        sides = choices.sample(["%xs", "%splat"], 2) if choices.random() < 0.8 else ["%xs", "%xs"]
        predicate = choices.choice(predicates)
        lines.append(f'%k{number} = llvm.icmp "{predicate}" {sides[0]}, {sides[1]} : vector<{size}xi64>')
        lines.append(f"%c{number} = llvm.zext %k{number} : vector<{size}xi1> to vector<{size}xi32>")
    total = terms[0]
    for number, term in enumerate(terms[1:]):
        lines.append(f"%s{number} = llvm.add {total}, {term} : vector<{size}xi32>")
        total = f"%s{number}"
    half = size // 2
    parts = [sorted(choices.sample(range(size), half)) for _ in range(2)]
    parts[1] = [lane for lane in range(size) if lane not in parts[0]]
    shift = choices.choice([0, 1, 2])
    index = choices.choice(["%i, %tid", "%tid, %i"])
    return f"""
module {{
gpu.module @m [#nvvm.target<chip = "sm_90">] {{
  llvm.func @k(%p: !llvm.ptr<1>, %q: !llvm.ptr<1>, %n: i32, %trips: i64)
      attributes {{nvvm.kernel, nvvm.reqntid = array<i32: 32>}} {{
    %zero = llvm.mlir.constant(0 : i64) : i64
    %one = llvm.mlir.constant(1 : i64) : i64
    %step = llvm.mlir.constant(32 : i64) : i64
    %bits = llvm.mlir.constant({shift} : i64) : i64
    %lane = llvm.mlir.constant(0 : i32) : i32
    %thread = nvvm.read.ptx.sreg.tid.x : i32
    %tid = llvm.zext %thread : i32 to i64
    %none = llvm.mlir.poison : vector<{size}xi64>
    %wide = llvm.{extend} %n : i32 to i64
    %put = llvm.insertelement %wide, %none[%lane : i32] : vector<{size}xi64>
    %splat = llvm.shufflevector %put, %none {[0] * size} : vector<{size}xi64>
    %start = llvm.mlir.constant(dense<0> : vector<{half}xi32>) : vector<{half}xi32>
    llvm.br ^bb1(%zero, %start : i64, vector<{half}xi32>)
  ^bb1(%i: i64, %before: vector<{half}xi32>):
    %sum = llvm.add {index} : i64
    %scaled = llvm.shl %sum, %bits : i64
    %address = llvm.getelementptr inbounds %p[%scaled] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
    %x = llvm.load %address {{alignment = 4 : i64}} : !llvm.ptr<1> -> vector<{size}xi32>
    %xs = llvm.{extend} %x : vector<{size}xi32> to vector<{size}xi64>
    {chr(10).join("    " + line for line in lines).lstrip()}
    %left = llvm.shufflevector {total}, {total} {parts[0]} : vector<{size}xi32>
    %right = llvm.shufflevector {total}, {total} {parts[1]} : vector<{size}xi32>
    %both = llvm.add %left, %right : vector<{half}xi32>
    %after = llvm.add %before, %both : vector<{half}xi32>
    %next = llvm.add %i, %step : i64
    %more = llvm.icmp "slt" %next, %trips : i64
    llvm.cond_br %more, ^bb1(%next, %after : i64, vector<{half}xi32>), ^bb2
  ^bb2:
    %out = llvm.getelementptr %q[%tid] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, vector<{half}xi32>
    llvm.store %after, %out {{alignment = 4 : i64}} : vector<{half}xi32>, !llvm.ptr<1>
    llvm.return
  }}
}}
}}
"""


def results(module, data, n: int) -> bytes:
    text = translate_module(module, "sm_90", None, 3)
    out = np.zeros(128, np.int32)
    emulate(llvm_pipeline.compile_to_ptx(text, processor("sm_90")).text, "k", 1, (data, out, n, 128), block=32)
    return out.tobytes()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(24))
def test_random_loops_compute_the_same(seed):
    choices = random.Random(seed)
    text = loop_kernel(choices)
    numbers = np.random.default_rng(seed)
    n = int(numbers.choice([-3, 0, 5, 2**31 - 1]))
    data = numbers.choice(np.array([-7, -3, -1, 0, 4, 5, 6, 2**31 - 1, -(2**31)], np.int32), 1024)
    module = ir.parse_module(text)
    before = results(module, data, n)
    plain = ir.print_op(module)
    PassManager([lookup_pass("nvptx-peepholes")()]).run(module)
    assert ir.print_op(module) != plain
    assert results(module, data, n) == before


@pytest.mark.parametrize(("agents", "split"), [("decrease 40", False), ("increase 232", True)])
def test_addresses_stay_where_threads_have_given_registers_back(agents, split):
    branch = "llvm.br ^bb1"
    text = loop_kernel(random.Random(0)).replace(branch, f"nvvm.setmaxregister {agents}\n    {branch}")
    module = ir.parse_module(text.replace("sm_90", "sm_90a"))
    PassManager([lookup_pass("nvptx-peepholes")()]).run(module)
    assert ("getelementptr inbounds" not in ir.print_op(module)) == split

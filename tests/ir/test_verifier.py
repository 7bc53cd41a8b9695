"""Diagnostics of the verifier: conditions, wording and locations."""

from __future__ import annotations

import ast
import importlib
import inspect
import random
import textwrap

import pytest

from tileiras.diagnostics import CompileError, DiagnosticEngine
from tileiras.dialects import arith
from tileiras.ir import DominanceInfo, IntegerAttr, Operation, i32, i64, parse_module, registry, verify

HEAD = 'attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"}'


def diagnose(body: str) -> tuple[str, int]:
    text = f"module {{\n  nv_tileaa.func @f(%n: i32, %c: i1) {HEAD} {{\n{body}\n    nv_tileaa.return\n  }}\n}}"
    with pytest.raises(CompileError) as caught:
        verify(parse_module(text, "f.mlir"))
    assert caught.value.code == 3
    diagnostic = caught.value.diagnostics[0]
    return diagnostic.message, diagnostic.position.line - 2


def test_an_operand_of_the_wrong_type() -> None:
    message, line = diagnose("    %x = arith.constant 1.0 : f32\n    %y = arith.addi %x, %x : f32")
    assert message == "'arith.addi' op operand #0 must be signless-integer-like, but got 'f32'"
    assert line == 2


def test_types_that_must_match() -> None:
    message, line = diagnose('    %x = "arith.addi"(%n, %n) : (i32, i32) -> i64')
    assert message == "'arith.addi' op failed to verify that all of {lhs, rhs, result} have same type"
    assert line == 1


def test_a_missing_attribute() -> None:
    message, _ = diagnose('    %x = "arith.cmpi"(%n, %n) : (i32, i32) -> i1')
    assert message == "'arith.cmpi' op requires attribute 'predicate'"


def test_too_many_operands() -> None:
    message, _ = diagnose('    %x = "arith.addi"(%n, %n, %n) : (i32, i32, i32) -> i32')
    assert message == "'arith.addi' op expected 2 operands, but found 3"


def test_a_block_without_a_terminator() -> None:
    message, _ = diagnose('    "scf.if"(%c) ({\n      %x = arith.addi %n, %n : i32\n    }, {}) : (i1) -> ()')
    assert message == 'block with no terminator, has "arith.addi"'


def test_a_use_before_the_definition() -> None:
    text = f"""module {{
  nv_tileaa.func @f(%n: i32) {HEAD} {{
    %x = arith.addi %n, %n : i32
    %y = arith.addi %x, %n : i32
    nv_tileaa.return
  }}
}}"""
    module = parse_module(text, "f.mlir")
    x, y, _ = module.regions[0].block.first.regions[0].block.operations
    x.move_before(y.next)
    with pytest.raises(CompileError) as caught:
        verify(module)
    diagnostic = caught.value.diagnostics[0]
    assert diagnostic.message == "operand #0 does not dominate this use"
    assert (diagnostic.position.line, diagnostic.notes[0].position.line) == (4, 3)


def test_a_value_from_outside_an_isolated_region() -> None:
    text = f"""module {{
  %x = arith.constant 1 : i32
  nv_tileaa.func @f(%n: i32) {HEAD} {{
    %y = arith.addi %n, %n : i32
    nv_tileaa.return
  }}
}}"""
    module = parse_module(text, "f.mlir")
    constant, func = module.regions[0].block.operations
    next(iter(func.regions[0].block.operations)).set_operand(0, constant.results[0])
    with pytest.raises(CompileError) as caught:
        verify(module)
    assert caught.value.diagnostics[0].message == "'arith.addi' op using value defined outside the region"


def test_every_broken_operation_is_reported() -> None:
    text = f"""module {{
  nv_tileaa.func @f(%n: i32) {HEAD} {{
    %x = "arith.addi"(%n, %n) : (i32, i32) -> i64
    %y = "arith.muli"(%n, %n) : (i32, i32) -> i64
    nv_tileaa.return
  }}
}}"""
    with pytest.raises(CompileError) as caught:
        verify(parse_module(text, "f.mlir"))
    assert [d.position.line for d in caught.value.diagnostics] == [3, 4]


def test_a_diagnostic_shows_its_line_and_a_caret() -> None:
    text = f"module {{\n  nv_tileaa.func @f(%n: i32) {HEAD} {{\n\t%x = arith.addi %n, %m : i32\n  }}\n}}"
    with pytest.raises(CompileError) as caught:
        parse_module(text, "f.mlir")
    head, line, caret = caught.value.render().split("\n")
    assert head.startswith("f.mlir:3:") and ": error: " in head
    assert line == "\t%x = arith.addi %n, %m : i32"
    assert caret.startswith("\t") and line[len(caret) - 1] == "%"


NESTED = f"""module {{
  nv_tileaa.func @f(%a: i32, %c: i1) {HEAD} {{
    %0 = arith.addi %a, %a : i32
    scf.if %c {{
      %1 = arith.addi %0, %a : i32
      scf.if %c {{
        %2 = arith.addi %1, %0 : i32
        %3 = arith.addi %2, %1 : i32
      }}
      %4 = arith.addi %1, %0 : i32
    }} else {{
      %5 = arith.addi %0, %0 : i32
      %6 = arith.addi %5, %0 : i32
    }}
    %7 = arith.addi %0, %a : i32
    nv_tileaa.return
  }}
}}"""

BLOCKS = """llvm.func @f(%a: i32, %c: i1) {
  %0 = llvm.add %a, %a : i32
  llvm.cond_br %c, ^one(%0 : i32), ^two
^one(%x: i32):
  %1 = llvm.add %x, %0 : i32
  %2 = llvm.add %1, %x : i32
  llvm.cond_br %c, ^two, ^three(%1 : i32)
^two:
  %3 = llvm.add %0, %a : i32
  llvm.br ^three(%3 : i32)
^three(%y: i32):
  %4 = llvm.add %y, %0 : i32
  %5 = llvm.add %4, %y : i32
  llvm.cond_br %c, ^one(%5 : i32), ^four
^four:
  %6 = llvm.add %4, %5 : i32
  llvm.return
}"""


@pytest.mark.parametrize("text", [NESTED, BLOCKS], ids=["nested", "blocks"])
@pytest.mark.parametrize("seed", range(8))
def test_every_use_of_any_value_is_judged_as_dominance_has_it(text: str, seed: int) -> None:
    choose = random.Random(seed).choice
    module = parse_module(text, "f.mlir")
    sums = [op for op in module.walk() if op.name in ("arith.addi", "llvm.add")]
    blocks = dict.fromkeys(op.parent for op in sums)
    values = [op.results[0] for op in sums]
    values += [argument for block in blocks for argument in block.arguments if argument.type is i32]
    # First the function as it is, then with more and more operands replaced by any value there is.
    for _ in range(12):
        dominance = DominanceInfo()
        wrong = sum(not dominance.value_dominates(value, op) for op in sums for value in op.operands)
        engine = DiagnosticEngine()
        verify(module, engine)
        assert len(engine.diagnostics) == wrong
        assert all(diagnostic.message.endswith("does not dominate this use") for diagnostic in engine.diagnostics)
        choose(sums).set_operand(choose((0, 1)), choose(values))


DIALECTS = (
    "arith", "builtin", "cuda_tile", "debuginfo", "gpu", "llvm", "math", "nv_tileaa", "nv_tileas", "nvvm", "scf",
)  # fmt: skip

AROUND = {
    "parent", "parent_op", "parent_block", "prev", "next", "defining_op", "owner", "users", "uses", "regions", "walk",
    "successors", "location",
}  # fmt: skip
"""Members that lead from an operation to others."""


def test_local_rules_look_at_nothing_around_an_operation() -> None:
    for dialect in DIALECTS:
        importlib.import_module(f"tileiras.dialects.{dialect}")
    local = [cls for cls in registry.OPERATIONS.values() if cls.verifies_locally]
    assert len(local) > 100
    for cls in local:
        if cls.region_fields or cls.successor_fields:
            continue  # looked at every time
        for base in cls.__mro__[: cls.__mro__.index(Operation)]:
            for name in {"verify_op", "target"} & base.__dict__.keys():
                tree = ast.parse(textwrap.dedent(inspect.getsource(base.__dict__[name])))
                read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
                assert not read & AROUND, (cls.name, read & AROUND)


def messages(op: Operation) -> list[str]:
    engine = DiagnosticEngine()
    verify(op, engine)
    return [diagnostic.message for diagnostic in engine.diagnostics]


def test_an_operation_that_has_changed_is_looked_at_again() -> None:
    op = arith.ConstantOp(IntegerAttr(1, i32), i32)
    for _ in range(2):
        assert messages(op) == []
    op.attributes["value"] = IntegerAttr(1, i64)
    for _ in range(2):
        assert "result and attribute have the same type" in messages(op)[0]
    op.attributes["value"] = IntegerAttr(1, i32)
    assert messages(op) == []


def test_context_of_an_operation_is_checked_every_time() -> None:
    """A return that fits one function does not fit the next."""
    text = "llvm.func @%s() -> %s {\n  %%0 = llvm.mlir.constant(0 : i32) : i32\n  llvm.return %%0 : i32\n}\n"
    assert messages(parse_module(text % ("f", "i32"))) == []
    both = parse_module(text % ("f", "i32") + text % ("g", "i64"))
    assert messages(both) == ["'llvm.return' op expected 'i64' to be returned, got 'i32'"]

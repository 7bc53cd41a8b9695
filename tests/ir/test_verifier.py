"""What the verifier refuses, in which words, and where it points."""

from __future__ import annotations

import pytest

from tileiras.diagnostics import CompileError
from tileiras.ir import parse_module, verify

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

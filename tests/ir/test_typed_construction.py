"""An operation that its declaration does not allow is refused where it is built, before any verifier runs."""

import re

import pytest

from tileiras.diagnostics import CompileError
from tileiras.dialects import arith, debuginfo, llvm, nv_tileaa, nvvm
from tileiras.ir import (
    Block,
    FileLineColLoc,
    IntegerAttr,
    StringAttr,
    TensorType,
    VerifyError,
    f32,
    i1,
    i32,
    i64,
    parse_module,
    verify,
)

TILE = TensorType((8,), f32)
POINTER = llvm.LLVMPointerType(1)
HERE = FileLineColLoc("builder.py", 7, 3)


def values(*types):
    return Block(types).arguments


def refused(build, message):
    with pytest.raises(VerifyError, match=re.escape(message)) as error:
        build()
    return error.value


@pytest.mark.parametrize(
    ("types", "build", "message"),
    [
        ((f32, f32), arith.AddIOp, "'arith.addi' op operand #0 must be "),
        ((i32, f32), arith.AddIOp, "'arith.addi' op operand #1 must be "),
        ((i32, i64), arith.AddIOp, "'arith.addi' op failed to verify that all of {lhs, rhs, result} have same type"),
        ((f32, i32, i32), arith.SelectOp, "'arith.select' op operand #0 must be "),
        ((i32,), lambda a: llvm.LoadOp(a, res=i32), "'llvm.load' op operand #0 must be LLVM pointer type"),
        ((POINTER,), lambda a: llvm.LoadOp(a, res=TILE), "'llvm.load' op result #0 must be LLVM type"),
        ((i64,), lambda a: nvvm.MoveOp(a, res=i32), "'nvvm.move' op failed to verify that all of {arg, res} have same"),
        ((TILE,), lambda a: nv_tileaa.GetProgramIdOp(axis="x", result=TILE),
         "'nv_tileaa.get_program_id' op result #0 must be "),
    ],
)
def test_types_are_those_of_the_declaration(types, build, message):
    operands = values(*types)
    error = refused(lambda: build(*operands), message)
    assert error.location is not None
    assert not any(value.has_uses for value in operands), "what was not built uses nothing"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: nv_tileaa.GetProgramIdOp(result=i32), "'nv_tileaa.get_program_id' op requires attribute 'axis'"),
        (lambda: nv_tileaa.GetProgramIdOp(axis=StringAttr("x"), result=i32),
         "'nv_tileaa.get_program_id' op attribute 'axis' failed to satisfy constraint: nv_tileaa.axis"),
        (lambda: debuginfo.ValueOp(*values(i32), variable=IntegerAttr(1, i32)),
         "'debuginfo.value' op attribute 'variable' failed to satisfy constraint: debuginfo.di_local_variable"),
    ],
)
def test_attributes_are_those_of_the_declaration(build, message):
    refused(build, message)


def test_the_error_has_the_place_of_the_operation():
    a, b = values(f32, f32)
    assert refused(lambda: arith.AddIOp(a, b, location=HERE), "operand #0").location is HERE
    # Operations built with the same types before have no influence.
    nv_tileaa.AddFOp(a, b)
    refused(lambda: nv_tileaa.AddFOp(*values(i1, i1)), "operand #0")


def test_text_is_refused_by_the_verifier_with_its_place():
    """The parser builds operations as it reads them, so that each error has its place and all are reported."""
    text = 'module {\n  %a = arith.constant 1 : i32\n  %b = "nv_tileaa.addf"(%a, %a) : (i32, i32) -> i32\n}\n'
    with pytest.raises(CompileError, match="operand #0 must be") as error:
        verify(parse_module(text, "k.mlir"))
    assert error.value.diagnostics[0].position[:2] == ("k.mlir", 3)

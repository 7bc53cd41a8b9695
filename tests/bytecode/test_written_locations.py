"""The parts of each kind of location that bytecode keeps."""

import pytest

import tileiras
from tileiras import bytecode
from tileiras.diagnostics import CompileError
from tileiras.ir import parse_module, print_op

PRELUDE = """
#file = #cuda_tile.di_file<"k.py" in "src">
#unit = #cuda_tile.di_compile_unit<file = #file>
#kernel = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#helper = #cuda_tile.di_subprogram<file = #file, line = 9, name = "h", linkageName = "h", compileUnit = #unit>
#block = #cuda_tile.di_lexical_block<scope = #kernel, file = #file, line = 2, column = 3>
#here = #cuda_tile.di_loc<loc("k.py":10:1) in #kernel>
#there = #cuda_tile.di_loc<loc("k.py":11:1) in #block>
#callee = #cuda_tile.di_loc<loc("k.py":20:1) in #helper>
"""


def module(location):
    return parse_module(
        f"{PRELUDE}cuda_tile.module @m {{ entry @k() {{ %0 = iota : tile<8xi32> loc({location}) return loc(#here) }}"
        " loc(#here) } loc(unknown)",
        "m.mlir",
    )


def shown(found):
    """The location of the kernel's first operation, spelled out."""
    return repr(found.regions[0].block.first.regions[0].block.first.location)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("#here", "#here"),
        ("#there", "#there"),
        ("callsite(#callee at #here)", "callsite(#callee at #here)"),
        ("callsite(#callee at callsite(#callee at #there))", "callsite(#callee at callsite(#callee at #there))"),
        ("callsite(#callee at unknown)", "unknown"),
        ('callsite("k.py":1:1 at #here)', "unknown"),
        ('callsite("n"(#callee) at fused[unknown, #here])', "callsite(#callee at #here)"),
        ("fused[#there, #here]", "#there"),
        ('fused[unknown, "k.py":3:3, callsite(#callee at #here), #there]', "callsite(#callee at #here)"),
        ('fused["k.py":3:3, unknown]', "unknown"),
        ('"name"(#there)', "#there"),
        ('"name"("k.py":4:4)', "unknown"),
        ('"k.py":5:5', "unknown"),
        ("unknown", "unknown"),
    ],
)
def test_a_location_is_reduced_to_the_format(written, kept):
    back = bytecode.read_module(bytecode.write_module(module(written)))
    assert shown(back) == shown(module(kept))
    assert shown(parse_module(print_op(back, locations=True), "again.mlir")) == shown(module(kept))


def test_a_global_has_no_location_in_bytecode():
    text = 'cuda_tile.module @m { global @g <i32: 1> : tile<1xi32> loc("k.py":3:1) entry @k() { return } }'
    back = bytecode.read_module(bytecode.write_module(parse_module(text, "m.mlir")), "m.tileirbc")
    assert back.regions[0].block.first.location.resolve() is None


def test_the_compiler_writes_forms_that_the_tool_refuses():
    result = module("fused[#there, #here]")
    data = tileiras.compile(result, gpu_name="sm_90", emit="bytecode").data
    assert shown(bytecode.read_module(data)) == shown(module("#there"))
    with pytest.raises(CompileError, match="unsupported location, got FusedLoc, expected DILocAttr or CallSiteLoc"):
        bytecode.write_module(result, strict_locations=True)

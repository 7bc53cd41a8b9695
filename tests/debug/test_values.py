"""Variables as LLVM, ptxas and a reader of DWARF see them."""

import re

import pytest

from tileiras.codegen import llvm_pipeline
from tileiras.codegen import ptxas as assembler
from tileiras.codegen.target_machine import processor
from tileiras.diagnostics import CompileError
from tileiras.dialects.debuginfo.value_types import debug_type
from tileiras.ir import parse_module, parse_type, verify
from tileiras.ir.pass_manager import PassContext
from tileiras.lowering.llvm_to_ir import translate_module
from tileiras.lowering.llvm_to_ir.debug_info import DIRECTIVES_ONLY, FULL, DebugLevel
from tileiras.passes.convert_debuginfo_to_llvm import ConvertDebugInfoToLLVM

PRELUDE = """
#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#at = #cuda_tile.di_loc<loc("k.py":4:1) in #k>
module {
  llvm.func @k(%p: !llvm.ptr<1>, %i: i32) attributes {nvvm.kernel} {
    %v = llvm.load %p : !llvm.ptr<1> -> vector<4xf32> loc(#at)
"""
BODY = """
    debuginfo.value %v, #debuginfo.di_local_variable<"tile" in #k, line = 4> : vector<4xf32> loc(#at)
    debuginfo.value %i, #debuginfo.di_local_variable<"count" in #k, line = 1, arg = 2> : i32 loc(#at)
    debuginfo.addr %p, #debuginfo.di_local_variable<"first" in #k, line = 5> : !llvm.ptr<1> loc(unknown)
    debuginfo.declare %p, #debuginfo.di_local_variable<"home" in #k, line = 6> : !llvm.ptr<1> loc(#at)
"""
END = """
    %w = llvm.fadd %v, %v : vector<4xf32> loc(#at)
    llvm.store %w, %p : vector<4xf32>, !llvm.ptr<1> loc(#at)
    llvm.return loc(#at)
  } loc(#at)
}
"""


def translated(body: str, kind: str = FULL) -> str:
    module = parse_module(PRELUDE + body + END, "m.mlir")
    ConvertDebugInfoToLLVM().run(module, PassContext())
    verify(module)
    ir = translate_module(module, "sm_90", DebugLevel(kind, optimized=False))
    llvm_pipeline.verify_module(ir)
    return ir


def test_a_vector_goes_element_by_element(ptxas):
    ir = translated(BODY)
    assert re.findall(r"DW_OP_LLVM_fragment, (\d+), (\d+)\)", ir) == [(str(32 * n), "32") for n in range(4)]
    ptx = llvm_pipeline.compile_to_ptx(ir, processor("sm_90"), opt_level=0).text
    # Four registers of four bytes each, one after the other, and the place where they are known.
    assert ptx.count(".section\t.debug_loc") == 1
    assert assembler.assemble(ptx, "sm_90", opt_level=0, options=["--device-debug"], ptxas=ptxas).cubin


def test_pins_and_leaves_are_all_that_is_added():
    plain = translated("", DIRECTIVES_ONLY)
    added = translated(BODY).count("\n  %") - plain.count("\n  %")
    # One pin of each of four elements, of the number and of the address, and four elements taken out.
    assert added == 4 + 4 + 1 + 1
    calls = set(re.findall(r"call [^@]*@([\w.]+)", translated(BODY)))
    assert calls == {"llvm.nvvm.move.float", "llvm.nvvm.move.i32", "llvm.nvvm.move.ptr.p1", "llvm.fake.use"}


def test_records_are_for_full_debug_information():
    assert "#dbg_" not in translated(BODY, DIRECTIVES_ONLY)
    ir = translated(BODY)
    assert "!DIExpression(DW_OP_deref)" in ir and "#dbg_declare(ptr addrspace(1) %0, " in ir
    assert '!DILocalVariable(name: "count", arg: 2, ' in ir


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        ("i1", '<"i1", 8, boolean>'),
        ("i8", '<"i8", 8, signed>'),
        ("i64", '<"i64", 64, signed>'),
        ("index", '<"index", 64, signed>'),
        ("f16", '<"f16", 16, float>'),
        ("bf16", '<"bf16", 16, float>'),
        ("tf32", '<"tf32", 32, float>'),
        ("f32", '<"f32", 32, float>'),
        ("f64", '<"f64", 64, float>'),
        ("f8E4M3FN", '<"f8E4M3FN", 8, unsigned>'),
        ("!llvm.ptr<3>", '<#debuginfo.di_basic_type<"byte", 8, unsigned>>'),
        ("vector<4xi32>", '<#debuginfo.di_basic_type<"i32", 32, signed>, 4>'),
        ("!llvm.array<3 x f64>", '<#debuginfo.di_basic_type<"f64", 64, float>, 3>'),
        ("!llvm.struct<(f32, f32)>", '<#debuginfo.di_basic_type<"f32", 32, float>, 2>'),
        ("!llvm.struct<(i1, f64)>", '<[#debuginfo.di_basic_type<"i1", 8, boolean>, '
                                    '#debuginfo.di_basic_type<"f64", 64, float>]>'),
        ("!llvm.struct<(i4, i32)>", None),
        ("!llvm.struct<()>", None),
        ("i4", None),
        ("f4E2M1FN", None),
        ("vector<8xi4>", None),
    ],
)
def test_every_type_has_its_row(type, expected):
    result = debug_type(parse_type(type))
    assert (result is None) if expected is None else str(result).endswith(expected)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ('"y" in #k, line = 4, arg = 2', "'y' has arg = 2, which is 'x' already"),
        ('"x" in #k, line = 5, arg = 2', "two variables 'x' with arg = 2, which differ in scope, line or type"),
    ],
)
def test_a_parameter_is_one_variable(other, message):
    """LLVM would drop the debug information of the whole module."""
    variable = "    debuginfo.value %i, #debuginfo.di_local_variable<{}> : i32 loc(#at)\n"
    first = variable.format('"x" in #k, line = 4, arg = 2')
    assert translated(first + first).count("#dbg_value") == 2
    with pytest.raises(CompileError, match=re.escape(message)) as error:
        translated(first + variable.format(other))
    assert error.value.code == 5 and error.value.diagnostics[0].position[:2] == ("k.py", 4)
    assert "#dbg" not in translated(first + variable.format(other), DIRECTIVES_ONLY)


HELD = ["i1", "i8", "i16", "i24", "i32", "i64", "i128", "f16", "bf16", "f32", "f64", "vector<4xi1>", "vector<2xf16>",
        "vector<2xi128>", "vector<1xf32>", "!llvm.array<2 x bf16>", "!llvm.struct<(i32, f32)>",
        "!llvm.struct<(i8, !llvm.array<2 x f32>, !llvm.struct<(i64, bf16)>)>",
        *(f"!llvm.ptr<{space}>" for space in (0, 1, 3, 4, 5, 6, 7, 101)), "vector<2x!llvm.ptr>"]  # fmt: skip


def test_registers_of_values_have_a_pin(ptxas):
    """Each record describes a copy that LLVM keeps, and ptxas reads the PTX of all of them."""
    values = "".join(
        f"    %x{n} = llvm.load %p : !llvm.ptr<1> -> {type} loc(#at)\n"
        f'    debuginfo.value %x{n}, #debuginfo.di_local_variable<"v{n}" in #k, line = 4> : {type} loc(#at)\n'
        for n, type in enumerate(HELD)
    )
    ir = translated(values)
    records = re.findall(r"#dbg_value\([^%]*(%\d+),", ir)
    pins = set(re.findall(r"(%\d+) = call [^\n]*@llvm\.nvvm\.move\.", ir))
    assert len(records) == len(pins) and set(records) == pins
    # i128 has two words, the longest struct five members.
    assert len(records) == 11 + 1 + 4 + 2 + 4 + 1 + 2 + 2 + 5 + 8 + 2
    assert "DW_TAG_structure_type, size: 256" in ir and 'DW_TAG_member, name: "m2", ' in ir
    ptx = llvm_pipeline.compile_to_ptx(ir, processor("sm_90"), opt_level=0).text
    assert ptx.count(".section\t.debug_info") == 1
    assert assembler.assemble(ptx, "sm_90", opt_level=0, options=["--device-debug"], ptxas=ptxas).cubin


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("DW_OP_nonsense", "expressions have no operation 'DW_OP_nonsense'"),
        ("DW_OP_plus_uconst", "DW_OP_plus_uconst takes 1 numbers, got 0"),
        ("DW_OP_plus_uconst(-1)", "DW_OP_plus_uconst must be between 0 and 9223372036854775807, got -1"),
        ("DW_OP_LLVM_fragment(0, 8), DW_OP_deref", "DW_OP_LLVM_fragment must be the last operation"),
        ("DW_OP_stack_value, DW_OP_deref", "DW_OP_stack_value must be the last operation"),
        ("DW_OP_stack_value", "expects an expression of an address, which DW_OP_stack_value does not leave"),
    ],
)
def test_invalid_expressions(expression, said):
    text = f"#debuginfo.di_local_variable<\"x\" in #k, line = 4>, #debuginfo.di_expression<[{expression}]>"
    with pytest.raises(CompileError, match=re.escape(said)) as error:
        verify(parse_module(f"{PRELUDE}    debuginfo.addr %p, {text} : !llvm.ptr<1> loc(#at)\n{END}", "m.mlir"))
    assert error.value.code == 3

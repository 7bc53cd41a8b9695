"""Parsing of a text beyond single operations: scopes, aliases, locations, limits."""

from __future__ import annotations

import time

import pytest

from tileiras.diagnostics import CompileError
from tileiras.ir import (
    UNKNOWN_LOC,
    CallSiteLoc,
    DenseElementsAttr,
    FileLineColLoc,
    FloatAttr,
    FusedLoc,
    IntegerAttr,
    NameLoc,
    OpaqueLoc,
    StringAttr,
    TensorType,
    f32,
    i4,
    i32,
    parse_attribute,
    parse_module,
    parse_type,
    print_op,
    verify,
)
from tileiras.ir.location import SourceText
from tileiras.ir.text.parser import Parser


def location_of(text: str):
    (op,) = Parser(SourceText("t", f'"toy.plain"() : () -> () {text}')).parse_top_level()
    return op.location


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("loc(unknown)", UNKNOWN_LOC),
        ('loc("f.py":1:2)', FileLineColLoc("f.py", 1, 2)),
        ('loc("f.py":010:0x2)', FileLineColLoc("f.py", 10, 2)),
        ('loc("f.py":1:2 to 3:4)', FileLineColLoc("f.py", 1, 2, 3, 4)),
        ('loc("f.py":1:2 to :5)', FileLineColLoc("f.py", 1, 2, 1, 5)),
        ('loc("f.py":1:2 to 4294967295:4294967295)', FileLineColLoc("f.py", 1, 2, 4294967295, 4294967295)),
        ('loc("name")', NameLoc("name")),
        ('loc("name"("f":1:2))', NameLoc("name", FileLineColLoc("f", 1, 2))),
        ('loc(callsite("f":1:2 at "g"))', CallSiteLoc(FileLineColLoc("f", 1, 2), NameLoc("g"))),
        ('loc(fused["f":1:2, unknown])', FusedLoc([FileLineColLoc("f", 1, 2), UNKNOWN_LOC])),
        ('loc(fused<"m">["f":1:2])', FusedLoc([FileLineColLoc("f", 1, 2)], StringAttr("m"))),
        ('loc(#a)\n#a = loc("later":1:2)', FileLineColLoc("later", 1, 2)),
        ('loc(callsite(#a at #b))\n#b = loc("b")\n#a = loc("a")', CallSiteLoc(NameLoc("a"), NameLoc("b"))),
        ('loc("f\\22\\n":1:2)', FileLineColLoc('f"\n', 1, 2)),
    ],
)
def test_locations(text, location):
    assert location_of(text) == location


def test_an_operation_without_location_has_its_text_position():
    (op,) = Parser(SourceText("t.mlir", '\n  "toy.plain"() : () -> ()')).parse_top_level()
    assert op.location.resolve()[:3] == ("t.mlir", 2, 3)


def test_print_with_locations_reads_back_the_same():
    text = """toy.module @m {
  func @f(%a: i32 loc("arg":1:1)) {
    %0 = add %a, %a : i32 loc(callsite("f":1:2 at fused<1 : i32>["g":3:4 to 5:6, "n"("h":7:8)]))
    %1 = add %a, %a : i32 loc(#toy.place<loc("f":1:2) in #f>)
    block {
      %2 = add %0, %1 : i32 loc(unknown)
    } loc("f":1:2)
    return loc("f":1:2)
  } loc("f":9:9)
} loc(unknown)
#f = #toy.file<"x.py", 3>
"""
    once = print_op(parse_module(text), locations=True)
    assert print_op(parse_module(once), locations=True) == once
    assert '#file = #toy.file<"x.py", 3>' in once
    body, definitions = once.split("\n}")
    assert "#toy.place" not in body and " = #toy.place<#loc" in definitions


def test_aliases_are_numbered_by_depth_as_mlir_does():
    text = """toy.module @m {
  "toy.plain"() : () -> () loc(callsite("a":1:1 at "b":2:2))
  "toy.plain"() : () -> () loc("c":3:3)
} loc(unknown)
"""
    tail = print_op(parse_module(text), locations=True).split("} loc(#loc)\n")[1]
    assert tail == (
        "#loc = loc(unknown)\n"
        '#loc1 = loc("a":1:1)\n'
        '#loc2 = loc("b":2:2)\n'
        '#loc3 = loc("c":3:3)\n'
        "#loc4 = loc(callsite(#loc1 at #loc2))\n"
    )


def test_attribute_aliases_precede_the_operation_with_them():
    text = '"toy.plain"() {a = #toy.file<"x", 1>, b = [#toy.file<"y", 2>, #toy.file<"x", 1>]} : () -> ()'
    printed = print_op(parse_module(text))
    assert printed.startswith('#file = #toy.file<"x", 1>\n#file1 = #toy.file<"y", 2>\n')
    assert "{a = #file, b = [#file1, #file]}" in printed
    assert print_op(parse_module(printed)) == printed


def test_a_name_may_be_used_before_its_block_defines_it():
    text = """toy.func @f(%a: i32) {
  br ^bb1
^bb1:
  br ^bb3
^bb2:
  "toy.plain"(%x) : (i32) -> ()
  return
^bb3:
  %x = add %a, %a : i32
  br ^bb2
}
"""
    (op,) = Parser(SourceText("t", text)).parse_top_level()
    blocks = op.body.blocks
    assert [b.first.name for b in blocks] == ["toy.br", "toy.br", "toy.plain", "toy.add"]
    assert blocks[2].first.operands[0] is blocks[3].first.results[0]
    assert "^bb3:  // pred: ^bb1" in print_op(op)


def test_names_are_scoped_by_regions():
    text = """toy.func @f(%a: i32) {
  block {
    %x = add %a, %a : i32
  }
  %x = add %a, %a : i32
  return
}
"""
    assert print_op(parse_module(text)).count("add %arg0, %arg0") == 2


def test_a_suggested_name_that_is_taken_gets_a_number():
    text = """toy.func @f(%a: i32) {
  %0 = call @g() : () -> i32
  %1 = call @g() : () -> i32
  block {
    %2 = call @g() : () -> i32
  }
  block {
    %2 = call @g() : () -> i32
  }
  return
}
"""
    printed = print_op(parse_module(text))
    assert [line.split("=")[0].strip() for line in printed.split("\n") if "call" in line] == [
        "%call",
        "%call_0",
        "%call_1",
        "%call_1",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "9" * 5000,
        "9" * 5000 + " : i32",
        "dense<" + "9" * 5000 + "> : tensor<i32>",
        "i" + "9" * 5000,
        "tensor<" + "9" * 5000 + "xi32>",
        'loc("f":' + "9" * 5000 + ":1)",
        'loc("f":1:99999999999)',
        'loc("f":1:2 to :4294967296)',
        "0x" + "F" * 5000,
        "array<i8: " + "9" * 5000 + ">",
    ],
)
def test_numbers_that_are_too_long_are_diagnosed(text):
    with pytest.raises(CompileError) as raised:
        parse_attribute(text)
    assert raised.value.code == 3


@pytest.mark.parametrize(
    "text",
    ["[" * 5000 + "]" * 5000, "toy.box<" * 3000, '"' + "x" * 10 + "\n", "dense<" + "[" * 5000],
    ids=["arrays", "types", "string", "dense"],
)
def test_deep_or_broken_attributes_are_diagnosed(text):
    with pytest.raises(CompileError) as raised:
        parse_attribute(text)
    assert raised.value.code == 3


def test_deep_regions_are_diagnosed():
    text = "toy.func @f() {\n" + "block {\n" * 3000
    with pytest.raises(CompileError, match="nesting is deeper than"):
        parse_module(text)


@pytest.mark.parametrize(
    "text",
    [
        "tensor<4x?xf32>",
        "vector<2x3xi1>",
        "(i32, f8E4M3FN) -> (index, none)",
        "!toy.token",
        "!toy.box<box<token>>",
        'tensor<f32, "layout">',
        "tensor<0x4xi8>",
        "() -> (() -> i1)",
    ],
)
def test_types_read_back(text):
    assert str(parse_type(text)) == text
    assert parse_type(text) is parse_type(str(parse_type(text)))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("1", "1 : i64"),
        ("-1 : i8", "-1 : i8"),
        ("255 : i8", "-1 : i8"),
        ("0xFF : i16", "255 : i16"),
        ("true", "true"),
        ("1.5", "1.500000e+00 : f64"),
        ("0x7F800000 : f32", "0x7F800000 : f32"),
        ("[1, 1.0, 2 : i32]", "[1, 1.000000e+00, 2 : i32]"),
        ('{b, a = "x", "odd key" = @s::@t}', '{a = "x", b, "odd key" = @s::@t}'),
        ("array<i32: 1, -2>", "array<i32: 1, -2>"),
        ("array<i1: true, false>", "array<i1: true, false>"),
        ("array<f32: 1.0>", "array<f32: 1.000000e+00>"),
        ("array<i64>", "array<i64>"),
        ("unit", "unit"),
        ("i32", "i32"),
        ("dense<0> : tensor<64x64xi32>", "dense<0> : tensor<64x64xi32>"),
        ("dense<[[1, 2], [3, 4]]> : tensor<2x2xi4>", "dense<[[1, 2], [3, 4]]> : tensor<2x2xi4>"),
        ("dense<[true, false]> : tensor<2xi1>", "dense<[true, false]> : tensor<2xi1>"),
        ('dense<"0x0000803F00000040"> : tensor<2xf32>', "dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>"),
        ("dense<0x7FC00000> : tensor<f32>", "dense<0x7FC00000> : tensor<f32>"),
        ('"\\0A\\22\\\\"', '"\\0A\\22\\\\"'),
        ("#toy.mode<fast>", "#toy.mode<fast>"),
        ("#toy<mode <fast>>", "#toy.mode<fast>"),
    ],
)
def test_attributes_print_as_mlir_prints_them(text, printed):
    assert str(parse_attribute(text)) == printed
    assert parse_attribute(printed) is parse_attribute(text)


def test_long_constants_are_hexadecimal_and_read_back():
    values = DenseElementsAttr(TensorType((128,), i32), b"".join(n.to_bytes(4, "little") for n in range(128)))
    text = str(values)
    assert text.startswith('dense<"0x0000000001000000')
    assert parse_attribute(text) is values


def test_numbers_have_the_type_that_a_format_gives_them():
    parser = Parser(SourceText("t", "1.5"))
    assert parser.parse_attribute(f32) is FloatAttr.from_float(1.5, f32)
    assert Parser(SourceText("t", "7")).parse_attribute(i4) is IntegerAttr(7, i4)


def test_unregistered_operations_are_kept_when_allowed():
    text = '"x.y"() ({\n^bb0(%arg0: i32):\n  "x.z"(%arg0) {a = 1 : i32} : (i32) -> ()\n}) : () -> ()\n'
    assert print_op(parse_module(text, allow_unregistered=True).body.block.first) == text


def test_the_caret_stands_under_the_use():
    with pytest.raises(CompileError) as raised:
        parse_module("toy.func @f(%a: i32) {\n  %0 = add %a, %missing : i32\n  return\n}", "k.mlir")
    assert raised.value.render() == (
        "k.mlir:2:16: error: use of undeclared SSA value name\n  %0 = add %a, %missing : i32\n" + " " * 15 + "^"
    )


def test_an_operation_prints_as_in_a_module_of_its_dialect():
    module = parse_module("toy.module @m {\n  func @f() {\n    return\n  }\n}")
    assert print_op(module.body.block.first, default_dialect="toy").startswith("func @f() {\n  return\n}")


def test_printing_an_operation_uses_the_names_of_its_function():
    module = parse_module(
        "toy.func @f(%x: i32) {\n  %0 = add %x, %x : i32\n  %1 = add %0, %x : i32\n  return\n}"
    )
    _, second, _ = module.body.block.first.body.block.operations
    assert str(second) == "%1 = toy.add %0, %arg0 : i32\n"


@pytest.mark.parametrize(
    "text",
    [
        "toy.func @f() {\n  return\n  " + "/" * 3000 + "\n  nosuch\n}",
        "toy.func @f(%a: i32) {\n  %0 " + "/" * 3000 + "\n",
        "toy.func @f(%a: toy.box<" + "<a " * 3000,
        '"toy.plain"() {a = "' + "\\" * 6001 + "\n",
        "toy.func @f() {\n" + "%a, " * 3000 + "\n",
    ],
    ids=["slashes", "slashes after a name", "angles", "backslashes", "names"],
)
def test_no_text_takes_long(text):
    start = time.perf_counter()
    with pytest.raises(CompileError):
        parse_module(text)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    "text", ["%é = toy.make_token : token", "toy.é", "\u00a0toy.label", "toy.func @f(%a: i\u0663)", "\u00b2"]
)
def test_identifiers_digits_and_blanks_are_ascii(text):
    with pytest.raises(CompileError):
        parse_module(text)


def test_symbols_that_are_not_ascii_are_quoted_bytes():
    module = parse_module('toy.module @"é" {\n}')
    assert module.sym_name.value == "é"
    assert print_op(module).startswith('toy.module @"\\C3\\A9" {')
    assert print_op(parse_module(print_op(module))) == print_op(module)


def test_a_name_of_a_region_is_not_visible_outside_of_it():
    text = """
"builtin.module"() ({
  %n = "test.bound"() : () -> i32
  scf.for %k = %c to %n step %n : i32 {
    %c = arith.constant 1 : i32
    scf.yield
  }
}) : () -> ()
"""
    module = parse_module(text, "t.mlir", allow_unregistered=True)
    with pytest.raises(CompileError, match="does not dominate this use"):
        verify(module)


def test_an_opaque_location_is_written_as_its_fallback():
    module = parse_module('toy.module @m {\n  "toy.plain"() : () -> ()\n}')
    op = module.regions[0].block.first
    op.location = OpaqueLoc(object(), CallSiteLoc(OpaqueLoc(1, FileLineColLoc("f", 1, 2)), OpaqueLoc(2)))
    text = print_op(module, locations=True)
    assert '#loc3 = loc(callsite(#loc1 at #loc2))' in text and '#loc1 = loc("f":1:2)' in text
    assert op.location.resolve().line == 1
    assert OpaqueLoc(3) == OpaqueLoc(3) != OpaqueLoc(4)


def test_attributes_stand_behind_the_whole_name_of_an_operand():
    text = """module {
  nv_tileaa.func @f(%end: !nv_tileas.producer_token, %i: !nv_tileas.pipeline_iterator,
      %it: !nv_tileas.pipeline_iterator) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>,
      target_spec = "sm_90"} {
    %q = nv_tileas.async.pipeline.producer_acquire %end, %it {fresh}
    nv_tileaa.return
  }
}"""
    module = parse_module(text, "t.mlir")
    (acquire,) = (op for op in module.walk() if op.name.endswith("producer_acquire"))
    assert acquire.iterator is acquire.parent.arguments[2] and "fresh" in acquire.attributes

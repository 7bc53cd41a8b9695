"""Rules about debug information; diagnostics stand where the locations point, so text tests cannot expect them."""

import pytest

from tileiras.diagnostics import CompileError
from tileiras.ir import parse_attribute, parse_module, print_op, verify

PRELUDE = """
#file = #cuda_tile.di_file<"k.py" in "src">
#unit = #cuda_tile.di_compile_unit<file = #file>
#kernel = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "kernel", compileUnit = #unit>
#other = #cuda_tile.di_subprogram<file = #file, line = 9, name = "o", linkageName = "other", compileUnit = #unit>
#block = #cuda_tile.di_lexical_block<scope = #kernel, file = #file, line = 2, column = 3>
#in_kernel = #cuda_tile.di_loc<loc("k.py":1:2) in #kernel>
#in_block = #cuda_tile.di_loc<loc("k.py":3:4) in #block>
#in_other = #cuda_tile.di_loc<loc("k.py":9:10) in #other>
"""


def module(entry_location, operation_location, name="kernel"):
    return f"""{PRELUDE}
cuda_tile.module @kernels {{
  entry @{name}() {{
    return loc({operation_location})
  }} loc({entry_location})
}}
"""


@pytest.mark.parametrize("inside", ["#in_kernel", "#in_block", '"n"(#in_block)', "unknown"])
def test_operations_may_lie_in_their_function(inside):
    result = parse_module(module("#in_kernel", inside), "m.mlir")
    verify(result)
    text = print_op(result, locations=True)
    assert print_op(parse_module(text, "again"), locations=True) == text


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        (module("#in_block", "unknown"), "Function location must have cuda_tile.di_subprogram debug info scope.", 3),
        (
            module("#in_kernel", "unknown", name="renamed"),
            'Function name "renamed" does not match subprogram scope linkage name "kernel".',
            1,
        ),
        (module("callsite(#in_kernel at unknown)", "unknown"), "Function location must not be a CallSiteLoc.", 1),
        (module("unknown", "#in_block"), "but function debug info scope is undefined.", 3),
        (module("#in_kernel", "#in_other"), "Operation debug info scope does not match function debug info scope:", 9),
        (module("#in_kernel", "fused[unknown, #in_other]"), "does not match function debug info scope:", 9),
        (
            f"{PRELUDE}\ncuda_tile.module @kernels {{ global @g <i8: 1> : tile<2xi8> loc(#in_kernel) }}",
            "Global variables must not have scope.",
            1,
        ),
    ],
)
def test_scope_is_refused_where_it_points(text, message, line):
    result = parse_module(text, "m.mlir")
    with pytest.raises(CompileError) as caught:
        verify(result)
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    position = diagnostic.location.resolve()
    assert (position.filename, position.line) == ("k.py", line)


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("#cuda_tile.di_compile_unit<>", "expected a parameter name in struct"),
        ("#cuda_tile.di_compile_unit<unit = 1>", "duplicate or unknown struct parameter name: unit"),
        ("#cuda_tile.di_lexical_block<line = 1>", "struct is missing required parameter: scope"),
        ("#cuda_tile.di_compile_unit<file = 1 : i32>", "expected a debug file, got 1 : i32"),
        ('#cuda_tile.di_subprogram<file = #cuda_tile.di_file<"a" in "b">, line = -1>', "integer value too large"),
    ],
)
def test_attribute_is_refused(attribute, message):
    with pytest.raises(CompileError) as caught:
        parse_module(f'"builtin.module"() ({{}}) {{a = {attribute}}} : () -> ()', "m.mlir")
    assert message in caught.value.diagnostics[0].message


def test_names_are_printed_with_escapes():
    text = '#cuda_tile.di_file<"a\\22\\0A\\01" in "\\5C">'
    assert str(parse_attribute(text)) == text.replace("\\5C", "\\\\")

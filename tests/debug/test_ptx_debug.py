"""Debug directives of PTX modules that become one."""

import re
import subprocess

import pytest
from line_table import line_table

import tileiras
from tileiras.codegen import toolkit
from tileiras.codegen.ptx import debug as ptx_debug
from tileiras.codegen.ptx import link as ptx_link
from tileiras.diagnostics import CompileError

SCOPES = """
#a = #cuda_tile.di_file<"a.py" in "src">
#b = #cuda_tile.di_file<"b.py" in "src">
#unit_a = #cuda_tile.di_compile_unit<file = #a>
#unit_b = #cuda_tile.di_compile_unit<file = #b>
#first = #cuda_tile.di_subprogram<file = #a, line = 1, name = "first", linkageName = "first", compileUnit = #unit_a>
#second = #cuda_tile.di_subprogram<file = #b, line = 2, name = "second", linkageName = "second", compileUnit = #unit_b>
#helper = #cuda_tile.di_subprogram<file = #a, line = 3, name = "helper", linkageName = "helper", compileUnit = #unit_a>
#callee = #cuda_tile.di_loc<loc("a.py":30:1) in #helper>
#caller = #cuda_tile.di_loc<loc("b.py":21:1) in #second>
"""

KERNEL = """
  entry @{name}(%p: tile<ptr<i32>>) {{
    %v, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
        loc(#cuda_tile.di_loc<loc("{file}":10:1) in #{name}>)
    %x = addi %v, %v : tile<i32> loc({location})
    %u = store_ptr_tko weak %p, %x token = %t : tile<ptr<i32>>, tile<i32> -> token
        loc(#cuda_tile.di_loc<loc("{file}":12:1) in #{name}>)
    return loc(unknown)
  }} loc(#cuda_tile.di_loc<loc("{file}":1:1) in #{name}>)
"""

TEXT = (
    SCOPES
    + "cuda_tile.module @m {"
    + KERNEL.format(name="first", file="a.py", location="unknown")
    + KERNEL.format(name="second", file="b.py", location="callsite(#callee at #caller)")
    + "} loc(unknown)"
)
OPTIONS = [{"lineinfo": True}, {"device_debug": True, "opt_level": 0}]


@pytest.mark.parametrize("options", OPTIONS)
def test_files_have_one_number_each(options):
    alone = tileiras.compile(TEXT, gpu_name="sm_90", entry="second", **options).text
    assert re.findall(r'\.file\t(\d) "(.*)"', alone) == [("1", "src/b.py"), ("2", "src/a.py")]
    both = tileiras.compile(TEXT, gpu_name="sm_90", **options).text
    assert re.findall(r'\.file\t(\d) "(.*)"', both) == [("1", "src/a.py"), ("2", "src/b.py")]
    body = both.partition(".entry second")[2]
    assert "\t.loc\t2 10 1" in body and "\t.loc\t1 30 1" in body
    labels = re.findall(r"^(\$L__\w+):", both, re.MULTILINE)
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize("options", OPTIONS)
def test_the_cubin_leads_both_kernels_to_their_files(options, ptxas, tmp_path):
    rows = line_table(tileiras.compile(TEXT, gpu_name="sm_90", emit="cubin", ptxas=ptxas, **options).data, tmp_path)
    loads = {(row.function, row.file, row.line) for row in rows if row.instruction.startswith(("LDG", "STG"))}
    files = (("first", "src/a.py"), ("second", "src/b.py"))
    assert loads == {(name, file, line) for name, file in files for line in (10, 12)}


def test_debug_sections_stay_readable(ptxas, tmp_path):
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(tileiras.compile(TEXT, gpu_name="sm_90", emit="cubin", ptxas=ptxas, **OPTIONS[1]).data)
    readelf = toolkit.find_program("readelf")
    if readelf is None:
        pytest.skip("no readelf")
    command = [readelf, "--debug-dump=info", "--debug-dump=pubnames", str(cubin)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # The parameter of `second` was declared in the file that is now the second one.
    first = ["src/a.py", "first", "arg0", "i32"]
    second = ["src/b.py", "helper", "second", "arg0", "i32"]
    assert re.findall(r"DW_AT_name\s*: (\S+)", shown) == first + second
    assert re.findall(r"DW_AT_decl_file\s*: (\d)", shown) == ["1", "1", "1", "2", "2"]
    assert re.findall(r"DW_AT_call_file\s*: (\d)", shown) == ["2"]
    offsets = re.findall(r"Compilation Unit @ offset (\w+)", shown)
    assert len(offsets) == 2
    named = re.findall(r"Offset into \.debug_info section:\s+(\w+)", shown)
    assert [int(text, 0) for text in named] == [int(text, 0) for text in offsets]


def test_inlined_code_says_where(ptxas, tmp_path):
    rows = line_table(tileiras.compile(TEXT, gpu_name="sm_90", emit="cubin", ptxas=ptxas, lineinfo=True).data, tmp_path)
    inlined = {(row.function, row.file, row.line, row.inlined) for row in rows if row.inlined}
    assert inlined == {("second", "src/a.py", 30, (("src/b.py", 21),))}


def test_one_position_inlined_and_not():
    """LLVM distinguishes them by a column, which PTX does not keep."""
    here = '#cuda_tile.di_loc<loc("b.py":21:1) in #second>'
    chained = f"callsite(#callee at callsite({here} at {here}))"
    body = KERNEL.format(name="second", file="b.py", location=chained)
    body = body.replace("return loc(unknown)", f"return loc({here})")
    text = f"{SCOPES} cuda_tile.module @m {{ {body} }} loc(unknown)"
    older = tileiras.compile(text, gpu_name="sm_75", ptx_version="7.0", lineinfo=True).text
    assert set(re.findall(r"\.loc\t\d+ \d+ (.*)\n", older)) == {"0", "1"}
    for options in OPTIONS:
        ptx = tileiras.compile(text, gpu_name="sm_90", **options).text
        directives = re.findall(r"\.loc\t(\d+ \d+ \d+)(?:, function_name \S+, inlined_at (.*))?\n", ptx)
        # Both calls first, from the outside in; then the code itself, and later the return.
        expected = [("1 21 1", ""), ("1 21 1", "1 21 1"), ("2 30 1", "1 21 1"), ("1 21 1", "")]
        assert [row for row in directives if row[0] in ("1 21 1", "2 30 1")] == expected
        assert {int(row[0].split()[2]) for row in directives} == {0, 1}


def test_an_older_ptx_version_goes_without():
    options = {"gpu_name": "sm_75", "entry": "second", "lineinfo": True}
    text = tileiras.compile(TEXT, ptx_version="7.1", **options).text
    assert ".loc\t2 30 1\n" in text and "inlined_at" not in text
    text = tileiras.compile(TEXT, **options).text
    assert ".version 7.2\n" in text and ".loc\t2 30 1, function_name $L__info_string0, inlined_at 1 21 1\n" in text


def test_names_survive_quoting():
    for name in ('a "quoted" name', "back\\slash", "ümlaut", "tab\there"):
        assert ptx_debug.unescape(f'"{ptx_debug.escape(name)}"') == name
    assert ptx_debug.unescape(r'"\303\274\t\\t"') == "ü\t\\t"


@pytest.mark.parametrize("options", OPTIONS)
def test_ptxas_takes_any_name_of_a_file(options, ptxas, tmp_path):
    text = TEXT.replace('"b.py" in "src"', '"b \\"ü\\".py" in "a folder"').replace('loc("b.py"', 'loc("b \\"ü\\".py"')
    rows = line_table(
        tileiras.compile(text, gpu_name="sm_90", emit="cubin", entry="second", ptxas=ptxas, **options).data, tmp_path
    )
    assert {row.file for row in rows if row.file} == {"a folder/b %22%C3%BC%22.py", "src/a.py"}


@pytest.mark.parametrize("chip", ["sm_75", "sm_80"])
def test_debug_sections_raise_the_ptx_version(chip, ptxas):
    options = {"gpu_name": chip, "ptxas": ptxas, **OPTIONS[1]}
    assert ".version 7.5\n" in tileiras.compile(TEXT, **options).text
    assert tileiras.compile(TEXT, emit="cubin", **options).data
    with pytest.raises(CompileError, match="PTX version 7.4 does not support"):
        tileiras.compile(TEXT, ptx_version="7.4", **options)


def test_modules_without_debug_information_are_joined_as_before():
    texts = [tileiras.compile(TEXT, gpu_name="sm_90", entry=name).text for name in ("first", "second")]
    joined = ptx_link.link(texts)
    assert ".file" not in joined and ".section" not in joined and joined.count(".visible .entry") == 2

"""Cubins read back: every instruction of an operation maps to that operation's line of the source."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from line_table import line_table

import tileiras
from tileiras import api, bytecode
from tileiras.codegen import toolkit
from tileiras.diagnostics import CompileError
from tileiras.passes.synthesize_debug_info_scopes import SynthesizeDebugInfoScopes
from tileiras.stages.locations import settle

EXAMPLES = Path(__file__).parents[2] / "examples"

TEXT = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.mlir"))
PYTHON = ["vector_add.py", "softmax.py", "matmul_f16.py"]

# Machine instructions that implement one operation, and how the text names it.
OPERATIONS = {
    "LDG": r"load_|atomic_",
    "LDGSTS": r"load_",
    "STG": r"store_",
    "ATOM": r"atomic_",
    "ATOMG": r"atomic_",
    "RED": r"atomic_",
    "HMMA": r"mmaf",
}


def compiled(name: str, ptxas: str, **options) -> bytes:
    try:
        return tileiras.compile(
            EXAMPLES / name, gpu_name="sm_90", emit="cubin", source_name=name, ptxas=ptxas, **options
        ).data
    except CompileError as error:
        if "cuTile" in str(error):
            pytest.skip(str(error))
        raise


@pytest.mark.parametrize("name", TEXT)
def test_accesses_map_to_their_own_lines(name, ptxas, tmp_path):
    lines = (EXAMPLES / name).read_text().split("\n")
    rows = line_table(compiled(name, ptxas, lineinfo=True), tmp_path)
    assert rows
    seen = set()
    for row in rows:
        # An instruction before the first position belongs to no position.
        if row.file:
            assert row.file == name and 1 <= row.line <= len(lines) and lines[row.line - 1].strip(), row
        wanted = OPERATIONS.get(row.instruction.partition(".")[0])
        if wanted is not None:
            assert re.search(rf"\b({wanted})", lines[row.line - 1]), (row, lines[row.line - 1])
            seen.add(row.line)
    written = {number for number, text in enumerate(lines, 1) if re.search(r"= (load|store|atomic)_\w+_tko", text)}
    assert written <= seen


def test_debug_code_maps_every_statement(ptxas, tmp_path):
    rows = line_table(compiled("saxpy.mlir", ptxas, opt_level=0, device_debug=True), tmp_path)
    lines = (EXAMPLES / "saxpy.mlir").read_text().split("\n")
    starts = {lines[row.line - 1].strip().split(" = ")[0] for row in rows if row.file}
    assert {"%block, %block_y, %block_z", "%index", "%mask", "%xs, %x_token", "%sum", "%done", "return"} <= starts


# Lines of the vendor's table that are not in ours, and why.
EXPLAINED = {
    "softmax.py": {11: "the function's own line: barriers that the vendor's plan sets up there"},
    "matmul_f16.py": {
        11: "the function's own line: barriers that the vendor's plan sets up there",
        21: "behind the last statement",
    },
    "saxpy.mlir": {32: "addresses that LLVM moves behind the branch of the first load, and what it moves has no line"},
}


def vendors(source: Path, folder: Path, *flags: str) -> bytes:
    """The cubin that the vendor's compiler makes of bytecode; skips the test without it."""
    program = toolkit.find_program("tileiras")
    if program is None or not os.path.isfile(os.path.join(os.path.dirname(program), "tileirdisasm")):
        pytest.skip("no vendor's tileiras")
    result = folder / "theirs.cubin"
    command = [program, "--gpu-name", "sm_90", *flags, str(source), "-o", str(result)]
    subprocess.run(command, check=True, capture_output=True)
    return result.read_bytes()


LINES = (["--lineinfo"], {"lineinfo": True})
DEBUG = (["-O0", "--device-debug"], {"opt_level": 0, "device_debug": True})


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "flags", "options"),
    [
        *((name, *LINES) for name in (*PYTHON, "saxpy.mlir", "transpose.mlir", "kernels/prefix_sum.mlir")),
        *((name, *DEBUG) for name in ("vector_add.py", "saxpy.mlir")),
    ],
)
def test_every_line_of_the_vendors_table_is_in_ours(name, flags, options, ptxas, tmp_path):
    source = tmp_path / "kernel.tileirbc"
    if name.endswith(".py"):
        source.write_bytes(tileiras.compile(EXAMPLES / name, gpu_name="sm_90", emit="bytecode", source_name=name).data)
    else:
        module = api.parse(EXAMPLES / name, source_name=name)
        settle(module, name)
        SynthesizeDebugInfoScopes().run(module, None)
        source.write_bytes(bytecode.write_module(module))
    theirs = vendors(source, tmp_path, *flags)

    def lines(cubin):
        # `./k.py` and `k.py` are one file.
        return {(os.path.normpath(row.file), row.line) for row in line_table(cubin, tmp_path) if row.file}

    expected, result = lines(theirs), lines(compiled(name, ptxas, **options))
    assert {line for _, line in expected - result} <= EXPLAINED.get(name, {}).keys()
    assert {file for file, _ in expected} == {file for file, _ in result}


HELPERS = """\
import cuda.tile as ct


def half(x):
    return ct.exp2(x)


def twice(x):
    return half(x) + ct.sqrt(x)


@ct.kernel
def k(a, c):
    x = ct.load(a, index=(0,), shape=(16,))
    y = twice(x)
    ct.store(c, index=(0,), tile=half(y))


TILEIRAS_EXPORT = {"k": (k, "f32[?]", "f32[?]")}
"""


def test_helpers_are_inlined_where_the_vendor_has_them(ptxas, tmp_path):
    pytest.importorskip("cuda.tile")
    (tmp_path / "kernel.py").write_text(HELPERS)
    data = tileiras.compile(tmp_path / "kernel.py", gpu_name="sm_90", emit="bytecode").data
    ours = tileiras.compile(data, gpu_name="sm_90", emit="cubin", lineinfo=True, ptxas=ptxas).data
    source = tmp_path / "kernel.tileirbc"
    source.write_bytes(data)

    def inlined(cubin):
        rows = line_table(cubin, tmp_path)
        return {(row.line, tuple(line for _, line in row.inlined)) for row in rows if row.inlined}

    # `half` once by way of `twice`, once from the kernel itself; the square root is `twice`'s own.
    result = inlined(ours)
    assert result == {(5, (9, 15)), (9, (15,)), (5, (16,))}
    assert {(5, (9, 15)), (9, (15,))} <= inlined(vendors(source, tmp_path, "--lineinfo")) <= result


@pytest.mark.parametrize("debugger", ["gdb", "cuda-gdb"])
def test_a_debugger_reads_the_kernel(ptxas, tmp_path, debugger):
    """Without a GPU a debugger still reads the sections: functions, their parameters, lines."""
    path = shutil.which(debugger)
    if path is None:
        pytest.skip(f"no {debugger}")
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(compiled("saxpy.mlir", ptxas, opt_level=0, device_debug=True))
    words = [word for what in ("functions", "line saxpy", "scope saxpy") for word in ("-ex", f"info {what}")]
    command = [path, "-nx", "-batch", *words, str(cubin)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    if debugger == "gdb" and "saxpy" not in shown:
        pytest.skip("this gdb does not open cubins")
    assert re.search(r"File saxpy\.mlir:\n7:\s+void saxpy\(f32 \*, f32 \*, f32, i32\);", shown)
    assert 'Line 7 of "saxpy.mlir" starts at address 0x0 <saxpy>' in shown
    assert re.findall(r"Symbol (arg\d)", shown) == ["arg0", "arg1", "arg2", "arg3"]

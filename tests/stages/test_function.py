"""A cuTile Python function is compiled where it is defined, in a cell of a notebook as well."""

import linecache
import re
from pathlib import Path

import pytest

pytest.importorskip("cuda.tile", reason="cuTile Python is not installed")

import tileiras  # noqa: E402
from tileiras import api  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402

ROOT = Path(__file__).parents[2]
CELL = """\
%matplotlib inline
import cuda.tile as ct

SCALE = 2.0

@ct.kernel
def scaled(a, b, TILE: ct.Constant[int]):
    tile = ct.load(a, index=(ct.bid(0),), shape=(TILE,))
    ct.store(b, index=(ct.bid(0),), tile=tile * SCALE)

def plain(a, n):
    ct.store(a, index=(0,), tile=ct.full((16,), 1, ct.float32) + n)

def wrong(a):
    ct.store(a, index=(0,), tile=nonsense)
"""


@pytest.fixture(params=["<ipython-input-3-0a1b2c>", "/tmp/ipykernel_4711/1234567.py"])
def cell(request):
    """The names that a cell defines.  The cell is stored as by IPython, with a magic that IPython hides from Python."""
    name = request.param
    linecache.cache[name] = (len(CELL), None, CELL.splitlines(True), name)
    names = {"__name__": "__main__"}
    exec(compile(CELL.replace("%", "#", 1), name, "exec"), names)
    yield names
    del linecache.cache[name]


def test_a_kernel_of_a_cell_is_compiled(cell):
    result = tileiras.compile(cell["scaled"], signature=("f32[?]", "f32[?]", 256), gpu_name="sm_90")
    assert [kernel.name for kernel in result.kernels] == ["scaled"] and ".entry scaled(" in result.text
    again = api.compile(cell["scaled"], signature=("f32[?]", "f32[?]", 256), gpu_name="sm_90")
    assert again.data == result.data
    result = tileiras.compile(cell["plain"], signature=["f32[?]", "f32"], gpu_name="sm_80", lineinfo=True)
    assert ".entry plain(" in result.text
    (file,) = re.findall(r'\.file\t1 "(.*)"', result.text)
    assert file in ("<ipython-input-3-0a1b2c>", "1234567.py")


def test_a_cell_that_is_run_again_is_compiled_again(cell):
    signature = ("f32[?]", "f32[?]", 256)
    first = tileiras.compile(cell["scaled"], signature=signature, gpu_name="sm_90")
    name = cell["scaled"]._pyfunc.__code__.co_filename
    text = CELL.replace("2.0", "3.0")
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    again = {}
    exec(compile(text.replace("%", "#", 1), name, "exec"), again)
    assert tileiras.compile(again["scaled"], signature=signature, gpu_name="sm_90").data != first.data


def test_a_function_is_compiled_under_several_names(cell):
    signatures = {"scaled_f32": ("f32[?]", "f32[?]", 256), "scaled_f16": ("f16[?]", "f16[?]", 512)}
    result = tileiras.compile(cell["scaled"], signature=signatures, gpu_name="sm_90", emit="cuda_tile")
    assert [kernel.name for kernel in result.kernels] == list(signatures)
    only = tileiras.compile(cell["scaled"], signature=signatures, gpu_name="sm_90", entry="scaled_f16")
    assert [kernel.name for kernel in only.kernels] == ["scaled_f16"]


@pytest.mark.parametrize(
    "function, signature, line, message, quoted",
    [
        ("wrong", "f32[?]", 15, "Undefined variable nonsense", "tile=nonsense)"),
        ("scaled", ("f32[?]",), 6, "'scaled': the kernel has 3 parameters (a, b, TILE), got 1", "@ct.kernel"),
        ("scaled", ("f99[?]", "f32[?]", 1), 6, "unknown element type 'f99'", "@ct.kernel"),
        ("scaled", {}, 6, "a dictionary of signatures has at least one", "@ct.kernel"),
        ("scaled", {"not a name": ()}, 6, "is not a name that a kernel can have", "@ct.kernel"),
    ],
)
def test_mistakes_are_at_their_line_of_the_cell(cell, function, signature, line, message, quoted):
    with pytest.raises(CompileError) as error:
        tileiras.compile(cell[function], signature=signature, gpu_name="sm_90")
    assert error.value.code == 3
    text = error.value.render()
    assert re.match(rf"(<ipython-input-3-0a1b2c>|1234567\.py):{line}:\d+: error: ", text)
    assert message in text and quoted in text.split("\n")[-2]


def test_messages_of_later_stages_are_at_their_lines(cell):
    result = tileiras.compile(cell["scaled"], signature=("f32[?]", "f32[?]", 256), gpu_name="sm_90", emit_remarks=True)
    loads = [d for d in result.diagnostics if d.position is not None and d.position.line == 8]
    assert loads and all("tile = ct.load(a, index" in d.render() for d in loads)
    with pytest.raises(CompileError) as error:
        tileiras.compile(cell["scaled"], signature=("f32[?]", "f32[?]", 256), gpu_name="sm_90", ptx_version="6.0")
    assert re.search(r"(<ipython-input-3-0a1b2c>|1234567\.py):7:\d+: error: PTX version", error.value.render())
    assert "\ndef scaled(a, b, TILE: ct.Constant[int]):\n" in error.value.render()


def test_functions_and_signatures_go_together(cell):
    with pytest.raises(TypeError, match="a function with signature="):
        tileiras.compile(cell["scaled"], gpu_name="sm_90")
    with pytest.raises(TypeError, match="goes with a cuTile Python function"):
        tileiras.compile("examples/saxpy.mlir", signature=("f32[?]",), gpu_name="sm_90")
    with pytest.raises(TypeError, match="a kernel is a Python function, not builtin"):
        tileiras.compile(print, signature=(), gpu_name="sm_90")


def test_the_example_of_the_page(monkeypatch, capsys):
    """docs/cutile-python.md, as a cell."""
    monkeypatch.chdir(ROOT)
    (text,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/cutile-python.md").read_text(), re.DOTALL)
    linecache.cache["<cell>"] = (len(text), None, text.splitlines(True), "<cell>")
    exec(compile(text, "<cell>", "exec"), {})
    assert "[  1.   2.   3. " in capsys.readouterr().out


def test_a_function_of_a_module_is_named_by_its_file(monkeypatch):
    monkeypatch.chdir(ROOT)
    names = {}
    text = (ROOT / "examples/vector_add.py").read_text()
    exec(compile(text, str(ROOT / "examples/vector_add.py"), "exec"), names)
    signature = names["TILEIRAS_EXPORT"]["vector_add"][1:]
    result = tileiras.compile(names["vector_add"], signature=signature, gpu_name="sm_90", lineinfo=True)
    assert result.data == tileiras.compile("examples/vector_add.py", gpu_name="sm_90", lineinfo=True).data

"""The export stage: the kernels that a cuTile Python file names, and diagnostics for files that name them badly."""

import os
import subprocess
import sys
import types

import pytest

pytest.importorskip("cuda.tile")

from tileiras.bytecode import entry_names, read_module  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402
from tileiras.pipeline import stage  # noqa: E402
from tileiras.report.alignment import positions_of  # noqa: E402
from tileiras.stages import StageContext, export  # noqa: E402

KERNELS = """\
import cuda.tile as ct
from helper import scale

@ct.kernel
def vector_add(a, b, c, T: ct.Constant[int]):
    i = ct.bid(0)
    x = ct.load(a, index=(i,), shape=(T,))
    y = ct.load(b, index=(i,), shape=(T,))
    ct.store(c, index=(i,), tile=scale(x) + y)

@ct.kernel
def fill(a, value, T: ct.Constant[int]):
    ct.store(a, index=(ct.bid(0), 0), tile=ct.full((1, T), value, dtype=a.dtype))

TILEIRAS_EXPORT = {
    "add_f32": (vector_add, "f32[?]", "f32[?]", "f32[?]", 1024),
    "fill": (fill, "i32[?, 8*?]", "i32", 64),
    "add_f64": (vector_add, "f64[?]", "float64[?]", "f64[4096]", 512),
}
"""


METHODS = """\
import cuda.tile as ct

def scale(x):
    return ct.exp(x)

@ct.kernel
def k(a, b, N: ct.Constant[int]):
    x = ct.load(a, index=(0,), shape=(N,))
    y = x.astype(ct.float32).reshape((N // 4, 4))
    z = scale(y)
    ct.store(b, index=(0, 0), tile=z)

TILEIRAS_EXPORT = {"k": (k, "f16[?]", "f32[?, 4*?]", 64)}
"""


def run_export(directory, text, name="kernels.py", **options):
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    context = StageContext(source_name=name, source_path=str(path))
    chosen = CompileOptions({"gpu-name": "sm_90", **options})
    return export.run(text.encode(), stage("export").select(chosen), context), context


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "helper.py").write_text("def scale(x):\n    return x * 2\n")
    return tmp_path


def failure(directory, text, **options):
    with pytest.raises(CompileError) as caught:
        run_export(directory, text, **options)
    assert caught.value.code == 3
    return caught.value.render()


@pytest.mark.parametrize("version", ["13.1", "13.2", "13.3", "13.4"])
def test_every_signature_of_every_kernel_becomes_an_entry(tree, version):
    text = KERNELS.replace('"f64[4096]"', '"f64[?]"')
    result, _ = run_export(tree, text, **{"bytecode-version": version})
    assert sorted(entry_names(result.output)) == ["add_f32", "add_f64", "fill"]


def test_imported_modules_of_the_tree_are_dependencies(tree):
    first, context = run_export(tree, KERNELS)
    assert context.dependencies == [str(tree / "helper.py")]
    (tree / "helper.py").write_text("def scale(x):\n    return x * 3\n")
    second, context = run_export(tree, KERNELS)
    assert first.output != second.output
    assert context.dependencies == [str(tree / "helper.py")]
    assert not (tree / "__pycache__").exists()


def test_the_compiler_is_no_dependency_of_its_own_kernels(monkeypatch):
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    path = os.path.join(root, "examples", "vector_add.py")
    context = StageContext(source_name="examples/vector_add.py", source_path=path)
    # Not loaded before: modules that an export loads first must not be taken for the user's.
    signatures = "tileiras.stages.export.signatures"
    monkeypatch.delitem(sys.modules, signatures, raising=False)
    monkeypatch.delattr(export, "signatures", raising=False)
    with open(path, "rb") as file:
        export.run(file.read(), stage("export").select(CompileOptions({"gpu-name": "sm_90"})), context)
    assert signatures in sys.modules and context.dependencies == []


TWO_MODULES = """\
import cuda.tile as ct
from helper import FACTOR
from parts.shift import SHIFT

@ct.kernel
def k(a):
    ct.store(a, index=(ct.bid(0),), tile=ct.load(a, index=(ct.bid(0),), shape=(64,)) * FACTOR + SHIFT)

TILEIRAS_EXPORT = {"k": (k, "f32[?]")}
"""


@pytest.mark.parametrize("package", [True, False])
def test_modules_of_two_trees_and_the_process_are_separate(tmp_path, monkeypatch, package):
    theirs = types.ModuleType("helper")
    theirs.FACTOR = 1.5
    monkeypatch.setitem(sys.modules, "helper", theirs)
    items = []
    for name, factor, shift in (("one", "3.0", "1.0"), ("two", "5.0", "1.0"), ("three", "5.0", "2.0")):
        folder = tmp_path / name
        (folder / "parts").mkdir(parents=True)
        (folder / "helper.py").write_text(f"FACTOR = {factor}\n")
        (folder / "parts" / "shift.py").write_text(f"SHIFT = {shift}\n")
        if package and name == "two":
            (folder / "parts" / "__init__.py").write_text("")
        result, context = run_export(folder, TWO_MODULES)
        items.append(result.output)
        assert str(folder / "helper.py") in context.dependencies
    assert len(set(items)) == 3
    assert sys.modules["helper"] is theirs
    assert [key for key in sys.modules if key.split(".")[0] in ("helper", "parts")] == ["helper"]


def test_bytes_are_independent_of_the_path_and_the_hash_seed(tmp_path):
    script = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]);"
        "from test_export import *; d = Path(sys.argv[2]); d.mkdir();"
        "(d / 'helper.py').write_text('def scale(x): return x * 2');"
        "sys.stdout.buffer.write(run_export(d, KERNELS, 'sub/kernels.py'.split('/')[1])[0].output)"
    )
    here = os.path.dirname(__file__)
    outputs = []
    for seed, place in (("1", "first"), ("2", "second/deeper")):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        env = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run(
            [sys.executable, "-c", script, here, str(tmp_path / place)], capture_output=True, env=env, check=False
        )
        assert ran.returncode == 0, ran.stderr.decode()
        outputs.append(ran.stdout)
    assert outputs[0] == outputs[1]
    assert str(tmp_path).encode() not in outputs[0]


def test_a_syntax_error_is_located(tmp_path):
    assert "kernels.py:1:8: error: SyntaxError" in failure(tmp_path, "x = 1 +\n")


def test_an_error_of_the_front_end_is_located_in_the_kernel(tree):
    rendered = failure(tree, KERNELS.replace("scale(x) + y", "scale(x) @ undefined_name"))
    assert rendered.startswith("kernels.py:9:")
    assert "undefined_name" in rendered


def test_an_exception_while_importing_is_located(tmp_path):
    assert failure(tmp_path, "\nraise RuntimeError('no such thing')\n").startswith(
        "kernels.py:2:1: error: RuntimeError: no such thing"
    )


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("TILEIRAS_EXPORT", "OTHER", "1:1", "define TILEIRAS_EXPORT"),
        ('"i32", 64', '"i33", 64', "17:5", "unknown element type 'i33'"),
        ('"i32", 64', '64', "17:5", "the kernel has 3 parameters"),
        ("8*?", "8*", "17:5", "dimension '8*' is neither"),
        ("(fill,", '("fill",', "17:5", "expected a kernel"),
        ('"add_f64"', '"add f64"', "18:5", "is not a name"),
    ],
)
def test_mistakes_in_the_export_list_are_located_at_their_entry(tree, old, new, place, words):
    rendered = failure(tree, KERNELS.replace(old, new))
    assert rendered.startswith(f"kernels.py:{place}: error: ")
    assert words in rendered


def test_without_the_front_end_the_extra_to_install_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.tile", None)
    with pytest.raises(CompileError) as caught:
        run_export(tmp_path, "x = 1\n")
    assert caught.value.code == 2
    assert "install the package 'cuda-tile' (the 'cutile' extra brings it)" in str(caught.value)


def test_constant_shapes_and_scalars_reach_the_bytecode(tree):
    from tileiras.bytecode import read_module
    from tileiras.ir import print_op

    text = print_op(read_module(run_export(tree, KERNELS)[0].output))
    assert "tensor_view<4096xf64, strides=[1]>" in text
    fill = text[text.index("@fill") :]
    assert "div_by<8>" in fill and "div_by<16>, %arg0" in fill
    assert "strides=[?,1]" in fill


def test_methods_of_the_front_end_are_placed_at_their_call(tmp_path):
    """Otherwise the operations of the kernel would have locations in the front end, which defines these methods."""
    result, _ = run_export(tmp_path, METHODS)
    module = read_module(result.output)
    places = {op.name: list(positions_of(op.location)) for op in module.walk() if op.name.startswith("cuda_tile.")}
    assert [each.line for each in places["cuda_tile.reshape"]] == [9]
    assert [each.line for each in places["cuda_tile.ftof"]] == [9]
    assert [each.line for each in places["cuda_tile.exp"]] == [4, 10]  # a function of the user stays one
    assert not any("_stub" in each.filename for item in places.values() for each in item)


NEW = """\
import cuda.tile as ct

@ct.kernel
def k(a, b):
    ct.grid_dependency_control_wait()
    ct.store(b, index=(0,), tile=ct.load(a, index=(0,), shape=(64,), check_bounds=False))

TILEIRAS_EXPORT = {"k": (k, "f32[64]", "f32[64]")}
"""


def test_operations_of_the_newest_version_need_no_option(tmp_path):
    result, _ = run_export(tmp_path, NEW)
    names = {op.name for op in read_module(result.output).walk()}
    assert "cuda_tile.gdc_wait_tko" in names
    with pytest.raises(CompileError, match="13.4"):
        run_export(tmp_path, NEW, **{"bytecode-version": "13.3"})


def test_the_version_is_one_that_an_older_front_end_knows(tmp_path, monkeypatch):
    from cuda.tile import _bytecode, _compile

    assert export._newest_version() == "13.4"  # 13.5 is for development in this front end
    older = types.SimpleNamespace(as_string=lambda: "13.2"), types.SimpleNamespace(as_string=lambda: "13.1")
    monkeypatch.setattr(_bytecode, "BytecodeVersion", older)
    monkeypatch.delattr(_compile, "_all_bytecode_versions")
    assert export._newest_version() == "13.2"


QUOTING = """\
import cuda.tile as ct

@ct.kernel
def k(x, o):
    CALL

TILEIRAS_EXPORT = {"k": (k, "f32[?]", "f16[?]")}
"""


@pytest.mark.parametrize("call", [
    "ct.store(o, index=(0,), tile=ct.load(x, index=(0,), shape=(64,)))",
    "ct.scatter(o, ct.arange(64, dtype=ct.int32), ct.gather(x, ct.arange(64, dtype=ct.int32)))",
    "ct.store(o, index=(0,), tile=ct.load(x, index=(0,), shape=(64,)) + 'a')",
    "ct.static_assert(False, 'no')",
    "ct.static_eval(1 // 0)",
])  # fmt: skip
def test_an_error_that_quotes_another_one_has_one_place(tmp_path, call):
    with pytest.raises(CompileError) as caught:
        run_export(tmp_path, QUOTING.replace("CALL", call))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.location.line == 5
    assert "nknown" not in diagnostic.message and "\n" not in diagnostic.message

"""cuTile Python kernels as build sources."""

import json

import pytest
from project import Project

pytest.importorskip("cuda.tile", reason="cuTile Python is not installed")

KERNEL = """\
import cuda.tile as ct

from helper import twice


@ct.kernel
def scale(a, b, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(b, index=(i,), tile=twice(ct.load(a, index=(i,), shape=(T,))))


TILEIRAS_EXPORT = {
    "scale_128": (scale, "f32[?]", "f32[?]", 128),
    "scale_256": (scale, "f32[?]", "f32[?]", 256),
}
"""

HELPER = """\
def twice(x):
    return x + x
"""

WHOLE = ["export", "read", *["tileaa", "tileas", "llvm", "ptx"] * 2]


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    result.write("kernels/scale.py", KERNEL)
    result.write("kernels/helper.py", HELPER)
    return result


def test_every_signature_is_a_kernel_of_its_own(project):
    assert sorted(project.scons().stages) == sorted(WHOLE)
    folder = "build/sm_90/O3/kernels/scale"
    for name in ("scale_128", "scale_256"):
        assert f".visible .entry {name}(".encode() in project.read(f"{folder}/{name}.ptx")
    assert project.scons().stages == []


def test_an_edit_in_an_imported_file_exports_again(project):
    project.scons()
    project.write("kernels/helper.py", HELPER.replace("x + x", "x * x"))
    assert sorted(project.scons().stages) == sorted(WHOLE)
    project.write("kernels/helper.py", HELPER)
    back = project.scons()
    assert back.stages == [] and sorted(back.cached) == sorted(WHOLE)


def test_an_import_without_a_statement_is_an_input(project):
    hidden = "import importlib\n\ntwice = importlib.import_module('helper').twice"
    project.write("kernels/scale.py", KERNEL.replace("from helper import twice", hidden))
    assert project.scons("emit=bytecode").stages == ["export"]
    assert project.scons("emit=bytecode").stages == []
    project.write("kernels/helper.py", HELPER.replace("x + x", "x * x"))
    assert project.scons("emit=bytecode").stages == ["export"]


def test_a_comment_in_a_kernel_stops_at_the_module(project):
    project.scons()
    project.write("kernels/scale.py", KERNEL.replace("    i = ct", "    # the block\n    i = ct"))
    assert project.scons().stages == ["export", "read"]


def test_an_error_in_a_kernel_points_into_the_python_file(project):
    project.write("kernels/scale.py", KERNEL.replace("twice(ct.load", "twice(ct.lode"))
    build = project.scons(expect=2)
    assert "kernels/scale.py:9:" in build.errors and "lode" in build.errors


def test_artifacts_do_not_name_the_place_of_the_tree(tmp_path):
    items = []
    for folder in ("one", "two/deeper"):
        project = Project(tmp_path / folder)
        project.write("kernels/scale.py", KERNEL)
        project.write("kernels/helper.py", HELPER)
        project.scons("emit=cuda_tile")
        items.append(project.artifacts())
    assert items[0] == items[1]
    for name, data in items[0].items():
        assert str(tmp_path).encode() not in data, name


def test_an_error_of_a_later_stage_points_into_the_python_file(project):
    project.write("kernels/scale.py", KERNEL.replace("twice(ct.load", "ct.sin(ct.load"))
    build = project.scons("libdevice=nowhere.bc", expect=2)
    assert build.stages[-1] == "ptx"
    assert "kernels/scale.py:7:1: error: could not find libdevice.bc\ndef scale(" in build.errors
    project.write("kernels/scale.py", "\n\n" + project.read("kernels/scale.py").decode())
    again = project.scons("libdevice=nowhere.bc", expect=2)
    assert again.stages == ["export", "read", "ptx"]
    assert "kernels/scale.py:9:1: error: could not find libdevice.bc\ndef scale(" in again.errors


TYPED = """\
import cuda.tile as ct

from maths.parts import weight


@ct.kernel
def blend(a, b, c, n, T: ct.Constant[int], SCALE: ct.Constant[float], FLIP: ct.Constant[bool]):
    i = ct.bid(0)
    x = weight(ct.load(a, index=(i,), shape=(T,)), SCALE)
    y = ct.load(b, index=(i,), shape=(T,))
    ct.store(c, index=(i,), tile=ct.astype(y - x if FLIP else x + y, c.dtype) + ct.astype(n, c.dtype))


TILEIRAS_EXPORT = {
    "blend_f32": (blend, "f32[?]", "f32[?]", "f32[?]", "i32", 128, 0.5, False),
    "blend_f16": (blend, "f16[?]", "f16[16*?]", "f32[?]", "i64", 64, 0.5, True),
    "blend_i32": (blend, "i32[?]", "i32[?]", "i32[4096]", "i32", 256, 3, False),
}
"""

TYPED_SCONSTRUCT = """\
import os
from tileiras.build import tool
env = Environment(tools=[tool], ENV=os.environ)
Default(env.TileKernel("kernels/blend.py", sm=["sm_80", "sm_90"]))
Default(env.TileKernel("kernels/scale.py", sm="sm_90"))
"""


def test_python_kernels_with_variants_depend_on_their_imports(project):
    project.write("SConstruct", TYPED_SCONSTRUCT)
    project.write("kernels/blend.py", TYPED)
    project.write("kernels/maths/__init__.py", "")
    project.write("kernels/maths/parts.py", "from .powers import square\ndef weight(x, s):\n    return square(x) * s\n")
    project.write("kernels/maths/powers.py", "def square(x):\n    return x * x\n")
    project.scons()
    names = ("blend_f32", "blend_f16", "blend_i32")
    for target in ("sm_80", "sm_90"):
        for name in names:
            ptx = project.read(f"build/{target}/O3/kernels/blend/{name}.ptx").decode()
            assert f".visible .entry {name}(" in ptx and f".target {target}" in ptx
            metadata = json.loads(project.read(f"build/{target}/O3/kernels/blend/{name}.json"))
            types = [parameter["type"] for parameter in metadata["kernels"][0]["parameters"]]
            element = name.partition("_")[2]
            assert types[0] == f"ptr<{element}>" and types[-1] == ("i64" if element == "f16" else "i32")
    # A helper of a helper, inside a package: only the kernels that use it are compiled again, for every target.
    project.write("kernels/maths/powers.py", "def square(x):\n    return x * x * x\n")
    edited = project.scons()
    assert edited.stages.count("export") == 2 and edited.stages.count("ptx") == 2 * len(names)
    assert not any("scale" in line for line in edited.ran)
    project.write("kernels/helper.py", HELPER.replace("x + x", "x * x"))
    edited = project.scons()
    assert edited.stages.count("ptx") == 2 and not any("blend" in line for line in edited.ran)
    # A constant of one signature: its kernel alone.
    project.write("kernels/blend.py", TYPED.replace("128, 0.5", "128, 0.25"))
    edited = project.scons()
    assert [line for line in edited.ran if line.startswith("ptx")] == ["ptx blend_f32.ptx"] * 2


MADE = """\
import os
from tileiras.build import tool
env = Environment(tools=["default", tool], ENV=os.environ)
{declaration}
env.Command("kernels/{made}", "made.in", Copy("$TARGET", "$SOURCE"))
Depends("kernels/scale.py", "kernels/{made}")
"""

READING = """\
import json
import pathlib

FACTOR = json.loads((pathlib.Path(__file__).parent / "factor.json").read_text())


def twice(x):
    return x * FACTOR
"""

MADE_INPUTS = {"helper.py": (HELPER, HELPER.replace("x + x", "x * x")), "factor.json": ("3", "5")}


@pytest.mark.parametrize("declaration", ['env.TileKernel("kernels/scale.py")', 'env.TileTree("kernels")'])
@pytest.mark.parametrize("made", MADE_INPUTS)
def test_inputs_that_the_build_makes(project, made, declaration):
    before, after = MADE_INPUTS[made]
    if made == "factor.json":
        project.write("kernels/helper.py", READING)
    project.write("kernels/" + made, before)
    project.write("made.in", before)
    project.write("SConstruct", MADE.format(declaration=declaration, made=made))
    assert sorted(project.scons().stages) == sorted(WHOLE)
    assert project.scons().stages == []
    project.write("made.in", after)
    assert sorted(project.scons().stages) == sorted(WHOLE)
    assert project.scons().stages == []

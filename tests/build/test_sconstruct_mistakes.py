"""Mistakes in an SConstruct are reported with its line, as SCons reports those with its own builders."""

import json

import pytest
from project import Project, axpy, module

from tileiras.build.scons.variables import construction_variables
from tileiras.cli import tileiras_watch

HEAD = """\
import os
from tileiras.build import command_line, tool
env = Environment(tools=["default", tool], ENV=os.environ)
"""

MISTAKES = {
    'env.TileTree("nodir")': "there is no folder nodir",
    'env.TileTree("kernels/k.mlir")': "kernels/k.mlir is a file; env.TileKernel",
    "command_line({'mine': '1', 'sn': 'sm_90'}, further=['mine'])": "unknown variable sn: accepted are sm, opt, emit, ",
    "command_line({'sm': 'sm_91'})": "sm=sm_91: accepted are sm_75, ",
    "env.TileTree(3)": "directory: a path or a node is expected, not 3",
    "env.TileTree()": "missing a required argument: 'directory'",
    'env.TileTree("kernels", emit="elf")': "emit=elf: accepted are bytecode, cuda_tile, ",
    'env.TileTree("kernels", emit=["ptx", "elf"])': "emit=['ptx', 'elf']: accepted are ",
    'env.TileTree("kernels", emit=3)': "emit=3: accepted are ",
    'env.TileTree("kernels", emit="bytecode")': "emit=bytecode: kernels/k.mlir is not cuTile Python",
    'env.TileTree("kernels", sm="sm_91")': "sm=sm_91: accepted are sm_75, ",
    'env.TileTree("kernels", sm=90)': "sm=90: accepted are sm_75, ",
    'env.TileTree("kernels", sm=[90])': "sm=[90]: accepted are sm_75, ",
    'env.TileTree("kernels", sm="")': "sm=: accepted are sm_75, ",
    'env.TileTree("kernels", opt="fast")': "'fast' value invalid for integer option 'opt-level'; accepted: 0, 1, 2, 3",
    'env.TileTree("kernels", opt=7)': "invalid optimization level: 7",
    'env.TileTree("kernels", ftz="maybe")': "'maybe' value invalid for option 'ftz'; accepted: true, false",
    'env.TileTree("kernels", num_warps=[8])': "invalid value for option 'num-warps': [8]",
    'env.TileTree("kernels", ptxas_options=3)': "accepted: a list of words",
    'env.TileTree("kernels", num_wraps=8)': "unknown option 'num_wraps' (did you mean 'num_warps'?)",
    'env.TileTree("kernels", gpu_name="sm_90")': "option 'gpu-name' is called 'sm' here",
    'env.TileTree("kernels", entries=3)': "entries=3: names of kernels are expected",
    'env.TileKernel("kernels/k.mlir", entries="first,third")': "k.mlir has no kernel third; it has first, second",
    'env.TileKernel("nofile.mlir")': "nofile.mlir does not exist; entries=[...] is needed",
    'env.TileKernel("kernels")': "kernels is a folder; env.TileTree",
    'env.TileKernel(Dir("kernels"))': "kernels is a folder; env.TileTree",
    "env.TileKernel(3)": "source: a path or a node is expected, not 3",
    'env.Clone(TILE_OPTIONS=3).TileTree("kernels")': "TILE_OPTIONS=3: a dict of options is expected",
    'env.Clone(TILE_EXECUTOR="here").TileKernel("kernels/k.mlir")': "executor=here: accepted is dask://HOST:PORT",
    'env.TileAA("x", "kernels/k.mlir", TILE_SM="sm_80,sm_90")': "a stage that is called alone has one target",
    'env.TileAA("x", "kernels/k.mlir", TILE_OPTIONS={"ftz": 3})': "invalid value for option 'ftz': 3",
    'env.TileHeader("k.h", "kernels/k.mlir", emit="sass")': "emit=sass: accepted are ptx, cubin, ",
    'env.TileHeader("k.h", "kernels/k.mlir", namespace=3)': "namespace: a word is expected, not 3",
    'env.TileLibrary(3, "kernels/k.mlir")': "target: a path or a node is expected, not 3",
    "env.TileCompiler(3)": "target: a path or a node is expected, not 3",
    "env.TileWatch(3)": "name: a word is expected, not 3",
}


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    result.write("kernels/k.mlir", module(axpy("first"), axpy("second")))
    return result


def test_every_mistake_is_located_at_its_sconstruct_line(project):
    """The place is the one that SCons prints, determined by its own function."""
    lines = [HEAD, "import json, sys, traceback", "import SCons.Errors, SCons.Script.Main", "found = []"]
    for call in MISTAKES:
        lines += ["try:", f"    {call}", "    found.append([None, None, None])"]
        lines += ["except SCons.Errors.UserError as error:"]
        lines += ["    frame = SCons.Script.Main.find_deepest_user_frame(traceback.extract_tb(sys.exc_info()[2]))"]
        lines += ["    found.append([str(error), os.path.basename(frame[0]), frame[3]])"]
    lines += ["print('found', json.dumps(found))", "Exit(0)"]
    project.write("SConstruct", "\n".join(lines))
    output = project.scons("-n", "-Q").output
    data = json.loads(next(line for line in output.splitlines() if line.startswith("found "))[6:])
    for (call, expected), (message, file, line) in zip(MISTAKES.items(), data, strict=True):
        assert message is not None and expected in message, call
        assert (file, line) == ("SConstruct", call)
        assert not message.startswith("error: ")


@pytest.mark.parametrize("call", ['env.TileTree("nodir")', "env.TileKernel(3)"])
def test_scons_shows_message_and_line_and_no_traceback(project, call):
    project.write("SConstruct", f"{HEAD}\ndef declare():\n    {call}\n\ndeclare()\n")
    build = project.scons("-Q", expect=2)
    first, second = build.errors.strip().splitlines()
    assert first == f"scons: *** {MISTAKES[call]}"
    assert second == f'File "{project.path("SConstruct")}", line 6, in declare'


def test_an_unusable_environment_is_reported_before_the_build(project):
    project.write("SConstruct", HEAD + 'env.TileKernel("kernels/k.mlir")\n')
    for name, value in (("TILEIRAS_CACHE_MODE", "sometimes"), ("TILEIRAS_CACHE_SIZE", "big")):
        build = project.scons(expect=2, **{name: value})
        assert f"scons: *** {name}" in build.errors and "SConstruct" in build.errors


def test_lists_and_commas_name_the_same_products(project):
    items = []
    for emit, sm in (("tileaa,ptx", "sm_80,sm_90"), (["tileaa", "ptx"], ["sm_80", "sm_90"])):
        project.write(
            "SConstruct", f"{HEAD}nodes = env.TileTree('kernels', emit={emit!r}, sm={sm!r})\nprint(*map(str, nodes))\n"
        )
        build = project.scons("-Q")
        assert "warning" not in build.errors + build.output
        items.append(build.output.splitlines()[0])
    names = [
        f"build/{sm}/O3/kernels/k/{entry}.{suffix}"
        for sm in ("sm_80", "sm_90") for suffix in ("tileaa.mlir", "ptx") for entry in ("first", "second")
    ]  # fmt: skip
    assert items == [" ".join(names)] * 2
    project.write("SConstruct", f"{HEAD}env['TILE_SM'] = ['sm_80', 'sm_90']\nenv['TILE_EMIT'] = ['tileaa', 'ptx']\n"
                                "env.TileTree('kernels')\n")  # fmt: skip
    assert project.scons().stages == []


def test_the_command_line_takes_several_products(project):
    build = project.scons("emit=tileaa,tileas")
    assert sorted(build.stages) == ["read", "tileaa", "tileaa", "tileas", "tileas"]
    build = project.scons("emit=tileaa,tileas", "tile_full=False")
    assert build.stages == []


def test_the_command_that_watches_takes_several_products(project, monkeypatch):
    monkeypatch.chdir(project.folder)
    variables = construction_variables({"sm": "sm_80,sm_90", "emit": "ptx,tileas"})
    (tree,) = tileiras_watch._watch(["kernels"], variables, "build", 1)._watched
    result = [(options["gpu-name"], emit) for options, emit in tree.variants]
    assert result == [("sm_80", "ptx"), ("sm_80", "tileas"), ("sm_90", "ptx"), ("sm_90", "tileas")]


def test_an_image_of_either_kind_is_declared_once(project):
    project.write("SConstruct", HEAD + 'env.TileHeader("k.h", "kernels/k.mlir", emit=["ptx", "cubin"], sm="sm_90")\n')
    build = project.scons("-n")
    assert "warning" not in build.errors + build.output
    assert build.ran.count("ptx first.ptx") == build.ran.count("cubin first.cubin") == 1

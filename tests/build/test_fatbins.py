"""env.TileFatbin: one file for several GPUs."""

import json

import pytest
from project import Project, axpy, module

from tileiras.codegen import toolkit
from tileiras.stages import fatbin

pytestmark = pytest.mark.skipif(toolkit.find_program("ptxas") is None, reason="needs ptxas")

SCONSTRUCT = """\
import os
from tileiras.build import tool
OPTIONS = {"tile_launch": True, "tensor_maps": "none"}
env = Environment(tools=[tool], ENV=os.environ)
env.TileHeader("k.h", "kernels/k.mlir", sm="sm_80,sm_90", opt=1, emit="fatbin", **OPTIONS)
env.Default("k.h", env.TileFatbin("fat", "kernels/k.mlir", sm="sm_80,sm_90", opt=1, **OPTIONS))
"""


def test_a_fat_binary_is_a_node_of_its_images(tmp_path):
    project = Project(tmp_path)
    text = module(axpy("first"), axpy("second", operation="mulf"))
    project.write("kernels/k.mlir", text)
    project.write("SConstruct", SCONSTRUCT)
    assert project.scons().output.count("  FATBIN ") == 4
    assert project.read("k.h").count(b'{"sm_90", ') == 2
    stems = [f"build/{gpu}/O1/kernels/k/first" for gpu in ("sm_80", "sm_90")]
    compiled = [
        fatbin.Compiled(*(project.read(stem + end) for end in (".cubin", ".ptx")), [project.read(stem + ".json")])
        for stem in stems
    ]
    bytecode = fatbin.bytecode_of(project.read(stems[1] + ".cuda_tile.mlir"), "m", None)
    result = project.read("fat/first.fatbin"), project.read("fat/first.fatbin.json")
    assert result == fatbin.pack(compiled, bytecode)
    assert [image["target"] for image in json.loads(result[1])["images"]] == ["sm_80", "sm_90", "sm_90"]
    # Above the first kernel, so that all its lines move.
    project.write("kernels/k.mlir", "// A comment.\n" + text.replace("mulf", "addf"))
    assert [line.split()[1] for line in project.scons().output.splitlines() if "FATBIN" in line] == [
        "k.h_fatbins/second.fatbin", "fat/second.fatbin",
    ]  # fmt: skip

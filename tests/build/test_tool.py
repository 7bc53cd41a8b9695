"""The tool in the SConstruct of another project."""

import os
import shutil

import pytest
from project import CHECKOUT, Project, axpy, module


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    result.write("kernels/k.mlir", module(axpy("first"), axpy("second", operation="mulf")))
    return result


def test_tile_kernel_returns_products_of_entries_and_targets(project):
    project.write("SConstruct", """
import os
from tileiras.build import tool
env = Environment(tools=["default", tool], ENV=os.environ, TILE_OPT=3)
nodes = env.TileKernel("kernels/k.mlir", sm=["sm_80", "sm_90"], num_warps=8)
print("nodes:", *map(str, nodes))
only = env.TileKernel("kernels/k.mlir", sm="sm_100", entries=["second"], emit="tileas")
print("only:", *map(str, only))
""")  # fmt: skip
    build = project.scons("-n")
    assert "nodes: " + " ".join(
        f"build/{sm}/O3/kernels/k/{entry}.ptx" for sm in ("sm_80", "sm_90") for entry in ("first", "second")
    ) in build.output  # fmt: skip
    assert "only: build/sm_100/O3/kernels/k/second.tileas.mlir" in build.output


def test_an_unknown_option_is_refused_where_it_is_written(project):
    project.write("SConstruct", """
from tileiras.build import tool
env = Environment(tools=[tool])
env.TileKernel("kernels/k.mlir", num_wraps=8)
""")  # fmt: skip
    build = project.scons(expect=2)
    assert "unknown option 'num_wraps' (did you mean 'num_warps'?)" in build.errors + build.output
    project.write("SConstruct", """
from tileiras.build import tool
env = Environment(tools=[tool])
env.TileKernel("kernels/k.mlir", gpu_name="sm_100")
""")  # fmt: skip
    build = project.scons(expect=2)
    assert "option 'gpu-name' is called 'sm' here" in build.errors + build.output


def test_stages_can_be_called_one_by_one(project):
    project.write("SConstruct", """
import os
from tileiras.build import tool
env = Environment(tools=[tool], ENV=os.environ, TILE_SM="sm_90", TILE_OPT=3)
aa = env.TileAA("out/one", env.TileRead("out/one", "kernels/one.mlir")[0])
ll = env.TileLLVM("out/one", env.TileAS("out/one", aa[0])[0])
env.TilePTX("out/one", ll[0])
""")  # fmt: skip
    project.write("kernels/one.mlir", module(axpy("one")))
    project.scons("out/one.ptx")
    alone = project.artifacts("out")
    project.write("SConstruct", """
import os
from tileiras.build import tool
env = Environment(tools=[tool], ENV=os.environ)
env.TileKernel("kernels/one.mlir")
""")  # fmt: skip
    assert project.scons().stages == []
    assert project.artifacts()["sm_90/O3/kernels/one/one.ptx"] == alone["one.ptx"]


def test_a_stage_called_alone_knows_the_source_it_came_from(project):
    project.write("SConstruct", """
import os
from tileiras.build import tool
env = Environment(tools=[tool], ENV=os.environ, TILE_OPTIONS={"libdevice": "nowhere.bc"}, TILE_CACHE="#store")
aa = env.TileAA("out/one", env.TileRead("out/one", "kernels/one.mlir")[0])
env.TilePTX("out/one", env.TileLLVM("out/one", env.TileAS("out/one", aa[0])[0])[0])
""")  # fmt: skip
    project.write("kernels/one.mlir", module(axpy("one")).replace("addf %v, %v rounding<nearest_even>", "sin %v"))
    assert "kernels/one.mlir:1:1: error: could not find libdevice" in project.scons("out/one.ptx", expect=2).errors


@pytest.mark.parametrize("opt", ["7", "'high'"])
def test_a_level_that_does_not_exist_is_refused(project, opt):
    project.write("SConstruct", f"""
from tileiras.build import tool
Environment(tools=[tool]).TileKernel("kernels/k.mlir", opt={opt})
""")  # fmt: skip
    refused = project.scons(expect=2)
    assert "level" in refused.errors + refused.output


def test_the_site_scons_shim_does_not_replace_the_package(project):
    shutil.copytree(os.path.join(CHECKOUT, "site_scons"), project.path("site_scons"))
    project.write("SConstruct", """
import os
import tileiras
first = Environment(tools=["default", "tileiras"], ENV=os.environ)
second = Environment(tools=["default", "tileiras"], ENV=os.environ)
from tileiras.diagnostics import CompileError
import tileiras.options
assert tileiras.options.GPU_NAMES and tileiras.__version__
second.TileTree("kernels", emit="cuda_tile")
""")  # fmt: skip
    assert project.scons().stages == ["read"]


def test_a_tree_passes_over_kernels_that_need_a_newer_target(project):
    pytest.importorskip("cuda.tile")
    project.write("kernels/wide.py", 'TILEIRAS_REQUIRES = "sm_100"\nTILEIRAS_EXPORT = {"k": (f, "f8e8m0fnu[?]")}\n')
    build = project.scons("sm=sm_90,sm_100", "emit=cuda_tile", "-n")
    assert "tileiras: left out for sm_90, as they need a newer one: kernels/wide.py (sm_100)\n" in build.output
    assert [line for line in build.ran if "wide" in line] == ["export wide.tileirbc", "read wide.cuda_tile.mlir"]


def test_help_and_dry_runs_build_nothing_and_clean_removes_all(project):
    assert project.scons("-h").stages == []
    assert [line for line in project.scons("-n").output.split("\n") if line.startswith("  PTX")] != []
    assert not os.path.exists(project.path("build"))
    project.scons("emit=tileas")
    assert project.artifacts()
    project.scons("-c", "emit=tileas")
    assert project.artifacts() == {}


def test_parallel_builds_make_the_same_artifacts(project):
    project.write("kernels/other.mlir", module(axpy("third", width=512), axpy("fourth", operation="subf")))
    project.scons("-j4")
    parallel = project.artifacts()
    project.delete_build()
    project.store = "off"
    project.scons("-j1")
    assert project.artifacts() == parallel


def test_spaces_and_letters_of_any_alphabet_in_paths(tmp_path):
    project = Project(tmp_path / "a b")
    project.write("kernels/größe 1/k.mlir", module(axpy("first")))
    project.scons()
    assert "sm_90/O3/kernels/größe 1/k/first.ptx" in project.artifacts()
    assert project.scons().stages == []


def test_a_source_that_the_build_makes_names_its_entries(project):
    project.write("SConstruct", """
import os
from tileiras.build import tool
env = Environment(tools=["default", "textfile", tool], ENV=os.environ)
made = env.Substfile("made/k.mlir", "kernels/k.mlir.in", SUBST_DICT={"@WIDTH@": "128"})
env.TileKernel(made, entries=["first"])
""")  # fmt: skip
    project.write("kernels/k.mlir.in", module(axpy("first", width=1234567)).replace("1234567", "@WIDTH@"))
    project.scons()
    assert b".visible .entry first" in project.read("build/sm_90/O3/made/k/first.ptx")
    assert project.scons().stages == []
    project.write("SConstruct", project.read("SConstruct").decode().replace(', entries=["first"]', "", 1))
    os.unlink(project.path("made/k.mlir"))
    refused = project.scons(expect=2)
    assert "entries=[...] is needed for a source that the build makes" in refused.errors + refused.output


def test_kernels_of_a_variant_dir_are_named_by_their_source(project):
    project.write("SConstruct", """
import os
from tileiras.build import tool
env = Environment(tools=[tool], ENV=os.environ, TILE_BUILDDIR="#out")
env.SConscript("kernels/SConscript", variant_dir="variant", duplicate=0, exports="env")
""")  # fmt: skip
    project.write("kernels/SConscript", "Import('env')\nenv.TileKernel('k.mlir', emit='cuda_tile')\n")
    assert project.scons().ran == ["read k.cuda_tile.mlir"]
    assert "sm_90/O3/kernels/k.cuda_tile.mlir" in project.artifacts("out")


def test_the_host_project_decides_by_its_own_rules_and_cache(project):
    """Our nodes work under a timestamp decider and beside a CacheDir for C++."""
    project.write("SConstruct", """
import os
from tileiras.build import tool
env = Environment(tools=["default", tool], ENV=os.environ)
env.Decider("content-timestamp")
env.CacheDir("host_cache")
env.TileKernel("kernels/k.mlir")
""")  # fmt: skip
    assert len(project.scons().stages) == 9
    assert project.scons().stages == []
    project.write("kernels/k.mlir", "// a comment\n" + project.read("kernels/k.mlir").decode())
    assert project.scons().stages == ["read"]


def test_a_build_creates_no_default_environment_unrequested(project):
    text = """
import atexit, os
import SCons.Defaults
from tileiras.build import tool
env = Environment(tools=[tool], ENV=os.environ)
{own}
env.Default(env.TileKernel("kernels/k.mlir"))
atexit.register(lambda: print("DEFAULT", SCons.Defaults._default_env is not None))
"""
    project.write("SConstruct", text.format(own=""))
    project.scons()  # SCons has one make folders
    project.write("kernels/k.mlir", "// one\n" + project.read("kernels/k.mlir").decode())
    first = project.scons()
    assert first.stages == ["read"] and "DEFAULT False" in first.output
    # A cache of the default environment applies to every environment.
    project.write("SConstruct", text.format(own='CacheDir("host_cache")'))
    project.write("kernels/k.mlir", "// a comment\n" + project.read("kernels/k.mlir").decode())
    second = project.scons()
    assert second.stages == ["read"] and "DEFAULT True" in second.output
    result = [name for _, _, names in os.walk(project.path("host_cache")) for name in names]
    assert len(result) > 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("where", ["../out", "#/../out", "{absolute}", "build"])
def test_a_build_directory_outside_is_built_by_default(tmp_path, where):
    project = Project(tmp_path / "project")
    project.write("kernels/k.mlir", module(axpy("k")))
    project.write("kernels/own.mlir", module(axpy("own")))
    folder = where.format(absolute=tmp_path / "absolute")
    project.write("SConstruct", f"""\
import os
from tileiras.build import tool
env = Environment(tools=[tool], ENV=os.environ, TILE_BUILDDIR={folder!r}, TILE_EMIT="tileaa")
env.TileTree("kernels", sm="sm_80")
env.TileKernel("kernels/own.mlir", sm="sm_90")
env.Command("copy.mlir", "kernels/k.mlir", Copy("$TARGET", "$SOURCE"))
""")  # fmt: skip
    first = project.scons()
    assert (first.stages.count("tileaa"), len(first.stages) + len(first.cached)) == (3, 6)
    assert os.path.isfile(project.path("copy.mlir"))
    assert project.scons().stages == []
    project.write("kernels/k.mlir", module(axpy("k", operation="mulf")))
    assert project.scons().stages == ["read", "tileaa"]
    # The targets that the user names are built.
    project.write("kernels/k.mlir", module(axpy("k", operation="subf")))
    assert project.scons("copy.mlir").stages == []
    assert len(project.artifacts(folder.replace("#/", ""))) == 18
    project.scons("-c")
    assert project.artifacts(folder.replace("#/", "")) == {} and not os.path.exists(project.path("copy.mlir"))


def test_default_targets_are_the_users_choice(tmp_path):
    project = Project(tmp_path / "project")
    project.write("kernels/k.mlir", module(axpy("k")))
    project.write("SConstruct", """\
import os
from tileiras.build import tool
env = Environment(tools=[tool], ENV=os.environ, TILE_BUILDDIR="../out")
env.TileTree("kernels")
env.Default(env.Command("copy.mlir", "kernels/k.mlir", Copy("$TARGET", "$SOURCE")))
""")  # fmt: skip
    assert project.scons().stages == []


def test_a_tree_that_holds_its_own_build_directory_is_built_once(project):
    project.write("SConstruct", """
import os
from tileiras.build import tool
env = Environment(tools=["default", tool], ENV=os.environ, TILE_EMIT="tileaa")
env.TileTree(".")
""")  # fmt: skip
    assert "TILEAA" in project.scons().output
    assert "TILEAA" not in project.scons().output
    assert not os.path.exists(project.path("build/sm_90/O3/build"))


def test_a_tree_is_not_its_own_build_directory(project):
    project.write("SConstruct", """
from tileiras.build import tool
env = Environment(tools=["default", tool], TILE_BUILDDIR="kernels")
env.TileTree("kernels")
""")  # fmt: skip
    build = project.scons(expect=2)
    assert "artifacts would become sources" in build.errors and "line 4" in build.errors

"""Kernels of `env.TileKernel`: clean ones have no nodes until the build needs one, and then the nodes of all stages."""

import os

import pytest
from project import Project, axpy, module

HEAD = """\
import atexit, os
from tileiras.build import command_line, tool
env = Environment(tools=["default", tool], ENV=os.environ, **command_line(ARGUMENTS))

def stages():
    print("NODES", *sorted(k for k in "abc" if env.Dir("#").Dir("build").entries
                           and has("build/sm_90/O3/kernels/" + k + "/" + k)))

def has(stem):
    known = env.Dir("#").root._lookupDict
    return dict.get(known, os.path.abspath(stem + ".ll")) is not None

atexit.register(stages)
"""

KERNELS = HEAD + 'kernels = [env.TileKernel("kernels/" + name + ".mlir") for name in "abc"]\n'

CHAIN = ["read", "tileaa", "tileas", "llvm", "ptx"]

PTX = "build/sm_90/O3/kernels/{0}/{0}.ptx"


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    for name in "abc":
        result.write(f"kernels/{name}.mlir", module(axpy(name)))
    return result


def extend(project: Project, text: str, head: str = KERNELS) -> None:
    project.write("SConstruct", head + text)


def declared(build) -> set[str]:
    """The kernels with nodes for their stages at the end of a run."""
    (line,) = [line for line in build.output.splitlines() if line.startswith("NODES")]
    return set(line.split()[1:])


def change(project: Project, name: str, operation: str = "mulf") -> None:
    project.write(f"kernels/{name}.mlir", module(axpy(name, operation=operation)))


def test_clean_kernels_have_no_nodes_and_edited_ones_have(project):
    extend(project, "")
    assert declared(project.scons()) == {"a", "b", "c"}
    assert declared(project.scons()) == set()
    change(project, "b")
    done = project.scons()
    assert (declared(done), done.stages) == ({"b"}, CHAIN)
    done = project.scons()
    assert (declared(done), done.stages) == (set(), [])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("argument", ["--tree=all", "--debug=explain", "-n", "-c", "tile_full=1"])
def test_every_stage_has_a_node_on_request(project, argument):
    extend(project, "")
    project.scons()
    done = project.scons(argument)
    assert declared(done) == {"a", "b", "c"}
    if argument == "--tree=all":
        assert "+-build/sm_90/O3/kernels/a/a.ll" in done.output
    if argument == "-c":
        assert project.artifacts() == {}
        assert len(project.scons("-n").stages) == 15


@pytest.mark.sampled(2)
@pytest.mark.parametrize("suffix", [".tileaa.mlir", ".ll", ".ptx", ".json"])
def test_a_stage_is_built_by_its_path(project, suffix):
    extend(project, "")
    project.scons()
    path = f"build/sm_90/O3/kernels/a/a{suffix}"
    done = project.scons(path)
    assert f"`{path}' is up to date" in done.output and declared(done) == {"a"}
    os.unlink(project.path(path))
    assert project.scons(path).code == 0 and os.path.exists(project.path(path))
    change(project, "a")
    change(project, "b")
    assert {line.split()[1].split(".")[0] for line in project.scons(path).ran} == {"a"}
    assert {line.split()[1].split(".")[0] for line in project.scons().ran} >= {"b"}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("edit", ["damage", "delete"])
@pytest.mark.parametrize("suffix", [".cuda_tile.mlir", "/a.tileas.mlir", "/a.ll", "/a.ptx", "/a.json", "/a.tileas.loc"])
def test_artifacts_are_repaired(project, suffix, edit):
    extend(project, "")
    project.scons()
    result = project.artifacts()
    name = next(name for name in result if name.endswith("kernels/a" + suffix))
    path = project.path("build/" + name)
    if edit == "delete":
        os.unlink(path)
    else:
        with open(path, "ab") as file:
            file.write(b"x")
    done = project.scons()
    assert declared(done) == {"a"} and project.artifacts() == result
    assert declared(project.scons()) == set()


def test_damage_of_equal_size_and_time_is_seen(project):
    extend(project, "")
    project.scons()
    result, path = project.artifacts(), project.path(PTX.format("a"))
    status = os.stat(path)
    data = project.read(path)
    with open(path, "r+b") as file:
        file.write(data.replace(b"sm_90", b"sm_91"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    project.scons()
    assert project.artifacts() == result


def test_options_of_one_call(project):
    call = 'env.TileKernel("kernels/a.mlir", sm={sm!r}, opt={opt}, num_warps={warps})\n'
    values = {"sm": "sm_90", "opt": 3, "warps": 4}
    extend(project, call.format(**values), HEAD)
    project.scons()
    assert project.scons().stages == []
    first = project.artifacts()
    for change_ in ({"warps": 8}, {"sm": "sm_100"}, {"opt": 2}):
        extend(project, call.format(**{**values, **change_}), HEAD)
        assert project.scons().stages != []
        assert project.scons().stages == []
    extend(project, call.format(**values), HEAD)
    project.scons()
    assert all(project.artifacts()[name] == data for name, data in first.items())
    project.write("kernels/a.tune.json", '{"format": 1, "options": {"sm_90": {"unroll": 2}}}')
    before = project.scons(expect=None)
    assert before.code == 2 or before.stages != []


def test_an_option_of_the_environment(project):
    extend(project, "")
    project.scons()
    assert declared(project.scons("parameter-ceiling=documented")) == {"a", "b", "c"}
    assert declared(project.scons("parameter-ceiling=documented")) == set()
    assert declared(project.scons()) == {"a", "b", "c"}
    assert len(project.scons("sm=sm_80").ran) == 12  # `read` is from the store
    assert (declared(project.scons("sm=sm_80")), project.scons().stages) == (set(), [])


def test_an_edit_of_the_compiler(project):
    extend(project, "")
    compiler = project.copy_compiler()
    project.scons()
    assert declared(project.scons()) == set()
    with open(os.path.join(compiler, "tileiras", "stages", "llvm.py"), "a", encoding="utf-8") as file:
        file.write("\n# A remark.\n")
    assert project.scons().stages == ["llvm"] * 3
    assert declared(project.scons()) == set()


CONSUMERS = {
    "Command": 'env.Default(env.Command("out.txt", kernels, "cat $SOURCES > $TARGET"))',
    "a path": f'env.Default(env.Command("out.txt", ["{PTX.format("a")}"], "cat $SOURCES > $TARGET"))',
    "Install": 'env.Default(env.InstallAs("out.txt", kernels[0]))',
    "Glob": 'env.Default(env.Command("out.txt", Glob("build/sm_90/O3/kernels/a/*.ptx"), "cat $SOURCES > $TARGET"))',
    "File": f'env.Default(env.Command("out.txt", File("{PTX.format("a")}"), "cat $SOURCES > $TARGET"))',
    "a folder": 'env.Default(env.Command("out.txt", Dir("build/sm_90"), "cat $SOURCE/O3/kernels/a/a.ptx > $TARGET"))',
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("consumer", CONSUMERS)
def test_products_are_sources_of_other_builders(project, consumer):
    extend(project, "")
    project.scons()
    extend(project, CONSUMERS[consumer] + "\n")
    project.scons()
    assert project.read(PTX.format("a")) in project.read("out.txt")
    assert "is up to date" in project.scons().output
    change(project, "a")
    assert project.scons().stages[:5] == CHAIN
    assert b"mul.rn" in project.read("out.txt") or b"mul.f32" in project.read("out.txt")
    os.unlink(project.path(PTX.format("a")))
    project.scons("out.txt")
    assert os.path.exists(project.path(PTX.format("a")))


BOUND = {
    "Depends": "Depends(kernels[0], 'x.txt')",
    "Depends by path": f"Depends('{PTX.format('a')}', 'x.txt')",
    "Requires": "Requires(kernels[0], env.Command('y.txt', 'x.txt', Copy('$TARGET', '$SOURCE')))",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("bound", BOUND)
def test_dependencies_of_products(project, bound):
    project.write("x.txt", "1")
    extend(project, "")
    project.scons()
    extend(project, BOUND[bound] + "\n")
    project.scons("build")
    project.write("x.txt", "2")
    done = project.scons("build")
    if bound == "Requires":
        assert project.read("y.txt") == b"2"
    else:
        assert "PTX" in done.output
    assert "PTX" not in project.scons("build").output


@pytest.mark.parametrize("target", ["kernels[0]", repr(PTX.format("a"))])
def test_post_actions_run_with_their_stage(project, target):
    extend(project, "")
    project.scons()
    extend(project, f"env.AddPostAction({target}, Action('echo after $TARGET'))\n")
    project.scons()
    change(project, "a")
    assert f"echo after {PTX.format('a')}" in project.scons().output
    assert "echo after" not in project.scons().output


def test_an_alias_follows_kernels_that_get_nodes_later(project):
    text = f"""\
env.Default(env.Command("stamp", env.Alias("all", kernels), "echo linked > $TARGET"))
Depends("{PTX.format("b")}", "x.txt")
"""
    project.write("x.txt", "1")
    extend(project, text)
    assert "echo linked" in project.scons().output
    assert "echo linked" not in project.scons().output
    project.write("x.txt", "2")
    done = project.scons()
    assert "PTX" in done.output and "echo linked" not in done.output
    change(project, "b")
    assert "echo linked" in project.scons().output
    assert "echo linked" not in project.scons("tile_full=1").output
    assert "echo linked" not in project.scons().output


def test_an_alias_has_one_node_for_calls_in_a_row(project):
    extend(project, 'print("SOURCES", *map(str, env.Alias("all", kernels)[0].sources))\nenv.Default("all")\n')
    project.scons()
    assert "SOURCES kernels as they were\n" in project.scons().output
    change(project, "b")
    done = project.scons("all")
    assert done.stages == CHAIN and PTX.format("b") in done.output


MADE = """\
env.Command("kernels/a.mlir", "a.in", Copy("$TARGET", "$SOURCE"))
"""

DECLARE = {"TileKernel": 'env.TileKernel("kernels/a.mlir", entries="a")\n', "TileTree": 'env.TileTree("kernels")\n'}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("declare", DECLARE)
@pytest.mark.parametrize("order", [0, 1])
def test_sources_that_the_build_makes(project, declare, order):
    project.write("a.in", module(axpy("a")))
    extend(project, "".join([MADE, DECLARE[declare]][:: 1 - 2 * order]), HEAD)
    project.scons()
    assert project.scons().stages == []
    project.write("a.in", module(axpy("a", operation="mulf")))
    assert project.scons().stages == CHAIN
    assert project.scons().stages == []


@pytest.mark.parametrize("declare", DECLARE)
def test_an_alias_builds_sources_that_the_build_makes(project, declare):
    project.write("a.in", module(axpy("a")))
    extend(project, f'env.Default(env.Alias("all", {DECLARE[declare].strip()}))\n' + MADE, HEAD)
    project.scons()
    project.write("a.in", module(axpy("a", operation="mulf")))
    assert project.scons().stages == CHAIN
    assert project.scons().stages == []


def test_two_calls_with_other_options_are_an_error_as_ever(project):
    one, other = 'env.TileKernel("kernels/a.mlir")\n', 'env.TileKernel("kernels/a.mlir", num_warps=8)\n'
    for first, second in ((one, other), (other, one)):
        extend(project, first + second, HEAD)
        expected = project.scons(expect=2)
        extend(project, first, HEAD)
        project.scons()
        extend(project, first + second, HEAD)
        again = project.scons(expect=2)
        assert again.errors == expected.errors


def test_two_environments(project):
    text = """\
other = env.Clone(TILE_BUILDDIR="other", TILE_OPTIONS={"num_warps": 8})
third = env.Clone()
other.TileKernel("kernels/a.mlir")
third.TileKernel("kernels/a.mlir")
third.TileKernel("kernels/a.mlir", emit="llvm,ptx")
"""
    extend(project, text)
    project.scons()
    assert project.scons().stages == []
    assert declared(project.scons()) == set()
    change(project, "a")
    done = project.scons()
    assert sorted(done.stages + done.cached) == sorted(CHAIN * 2)
    assert project.artifacts("other")["sm_90/O3/kernels/a/a.ptx"] != project.artifacts()["sm_90/O3/kernels/a/a.ptx"]


@pytest.mark.parametrize("duplicate", [0, 1])
def test_kernels_of_a_variant_directory(project, duplicate):
    project.write("kernels/SConscript", "Import('env')\nenv.TileKernel(['a.mlir', 'b.mlir'])\n")
    extend(project, f"SConscript('kernels/SConscript', variant_dir='v', duplicate={duplicate}, exports='env')\n", HEAD)
    assert len(project.scons().stages) == 10
    assert project.scons().stages == []
    change(project, "b")
    assert project.scons().stages == CHAIN


def test_kernels_of_a_sconscript(project):
    project.write("kernels/SConscript", "Import('env')\nenv.TileKernel(['a.mlir', 'b.mlir'])\n")
    extend(project, "SConscript('kernels/SConscript', exports='env')\n", HEAD)
    assert len(project.scons().stages) == 10
    assert declared(project.scons()) == set()
    change(project, "b")
    assert project.scons().stages == CHAIN


def test_a_removed_entry_takes_its_artifacts_along(project):
    project.write("kernels/a.mlir", module(axpy("a"), axpy("a2")))
    extend(project, "")
    project.scons()
    assert any("/a2." in name for name in project.artifacts())
    project.scons()
    change(project, "a", "addf")
    assert "removed" in project.scons().output
    assert not any("/a2." in name for name in project.artifacts())


def test_an_error_of_the_sconstruct_costs_no_rows(project):
    extend(project, "")
    project.scons()
    extend(project, "", KERNELS.replace('"abc"]', '"a"]') + "undefined\n")
    project.scons(expect=2)
    extend(project, "")
    assert declared(project.scons()) == set()


def test_a_failed_kernel_is_reported_again(project):
    extend(project, "")
    project.scons()
    project.write("kernels/b.mlir", "cuda_tile.module @k {\n  entry @b( {\n}\n")
    for _ in range(2):
        assert "kernels/b.mlir:" in project.scons("-k", expect=2).errors + project.scons("-k", expect=2).output
    change(project, "b", "addf")
    project.scons()
    assert declared(project.scons()) == set()

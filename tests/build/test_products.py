"""The result of `TileTree`: nodes that are created when the list is read, and one node that replaces them elsewhere."""

import os

import pytest
from project import Project, axpy, module

SCONSTRUCT = """\
import os
from tileiras.build import tool
from tileiras.build.scons.variables import construction_variables
env = Environment(tools=[tool], ENV=os.environ, **construction_variables(ARGUMENTS))
kernels = env.TileTree("kernels")
"""


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    for name in ("a", "b", "c"):
        result.write(f"kernels/{name}.mlir", module(axpy(name)))
    return result


def extend(project: Project, text: str) -> None:
    project.write("SConstruct", SCONSTRUCT + text)


def test_dependents_of_an_alias_stay_up_to_date_in_any_graph(project):
    extend(
        project,
        """\
env.Default(env.Command("stamp", env.Alias("kernels", [kernels, []]), "echo linked > $TARGET"))
""",
    )
    assert "echo linked" in project.scons().output
    for arguments in ((), ("tile_full=1",), ()):
        assert "echo linked" not in project.scons(*arguments).output
    project.write("kernels/b.mlir", module(axpy("b", comment="  // edited\n")))
    assert "echo linked" not in project.scons().output
    project.write("kernels/b.mlir", module(axpy("b", operation="mulf")))
    assert "echo linked" in project.scons().output
    assert "echo linked" not in project.scons().output
    project.write("kernels/d.mlir", module(axpy("d")))
    assert "echo linked" in project.scons().output


def test_an_alias_has_one_node_for_kernels_that_are_as_they_were(project):
    extend(
        project,
        """\
alias = env.Alias("kernels", kernels)
env.Default(kernels)
print("SOURCES", len(alias[0].sources), "DEFAULT", len(DEFAULT_TARGETS), *map(str, alias[0].sources))
""",
    )
    assert "SOURCES 3 DEFAULT 3" in project.scons().output
    assert "SOURCES 1 DEFAULT 1 kernels (3 as they were)" in project.scons().output
    project.write("kernels/b.mlir", module(axpy("b", operation="mulf")))
    done = project.scons()
    assert "SOURCES 3 DEFAULT 3" in done.output
    assert "build/sm_90/O3/kernels/b/b.ptx" in done.output
    assert done.stages == ["read", "tileaa", "tileas", "llvm", "ptx"]


def test_a_tree_is_a_list_of_nodes_for_those_who_read_it(project):
    extend(
        project,
        """\
more = kernels + ["x"]
kernels += [env.File("kernels/a.mlir")]
print("LIST", len(kernels), kernels[0], [str(node) for node in kernels[1:3]], more[-1], bool(kernels), kernels[-1])
print("CONTENT", [len(node.get_csig()) for node in kernels[:3]], len(env.Alias("all", kernels)[0].sources))
env.Default(kernels)
""",
    )
    for _ in range(2):
        output = project.scons().output
        assert (
            "LIST 4 build/sm_90/O3/kernels/a/a.ptx "
            "['build/sm_90/O3/kernels/b/b.ptx', 'build/sm_90/O3/kernels/c/c.ptx'] x True kernels/a.mlir"
        ) in output
        assert "CONTENT [32, 32, 32] 4" in output


def test_products_outside_of_the_project_are_built_and_kept(project, tmp_path):
    outside = tmp_path.parent / (tmp_path.name + "-build")
    extend(
        project,
        f"""\
other = env.Clone(TILE_BUILDDIR={str(outside)!r})
other.TileTree("kernels")
""",
    )
    first = project.scons()
    assert len(first.stages + first.cached) == 30
    assert (outside / "sm_90/O3/kernels/a/a.ptx").exists()
    assert project.scons().stages == []


def test_artifacts_of_a_removed_kernel_survive_a_partial_build(project):
    extend(project, 'env.Alias("kernels", kernels)\n')
    project.scons()
    os.unlink(project.path("kernels/c.mlir"))
    assert "removed" not in project.scons("build/sm_90/O3/kernels/a/a.ptx").output
    assert "artifacts of kernels/c.mlir" in project.scons("kernels").output

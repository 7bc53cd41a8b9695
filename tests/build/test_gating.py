"""Trees whose clean kernels are not declared: the same builds as with the whole graph."""

import os
import time

import pytest
from edits import Pair
from project import Project, axpy, module

from tileiras.build.ledger.manifest import Manifest


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    for name in ("a", "b"):
        result.write(f"kernels/{name}.mlir", module(axpy(name)))
    return result


def manifests(project: Project) -> dict[str, bytes]:
    """The manifests of a build directory, by path."""
    folder = project.path("build/.tileiras/trees")
    names = [os.path.join(folder, name) for name in sorted(os.listdir(folder))] if os.path.isdir(folder) else []
    return {name: project.read(name) for name in names}


def manifest_at(folder) -> Manifest:
    return Manifest(str(folder / "build" / "manifest.json"), str(folder))


def declared(project: Project, *arguments: str) -> set[str]:
    """Names of the kernels whose stages were declared in the run."""
    tree = project.scons(*arguments).output
    return {name for name in ("a", "b") if f"`build/sm_90/O3/kernels/{name}/{name}.ptx' is up to date" in tree}


def test_clean_kernels_are_not_declared_and_edited_ones_are(project):
    project.scons()
    assert declared(project) == set()
    project.write("kernels/a.mlir", module(axpy("a", comment="  // edited\n")))
    assert declared(project) == {"a"}
    assert declared(project) == set()


def test_the_whole_graph_is_declared_on_request(project):
    project.scons()
    assert declared(project, "tile_full=1") == {"a", "b"}
    assert declared(project, "--debug=explain") == {"a", "b"}
    assert "+-build/sm_90/O3/kernels/a/a.ll" in project.scons("--tree=all").output
    project.scons("-c")
    assert project.artifacts() == {}
    assert len(project.scons("-n").stages) == 10


def test_touched_files_are_clean_and_looked_at_once(project):
    project.scons()
    for folder, _, files in os.walk(project.folder):
        for name in files:
            if not folder.endswith("trees"):
                os.utime(os.path.join(folder, name), ns=(1, 1))
    touched = time.time()
    before = manifests(project)
    assert declared(project) == set()
    # Files this recent may change again; a longer build has written its manifest already.
    assert manifests(project) == before or time.time() > touched + 2
    time.sleep(2.1)
    assert declared(project) == set()
    after = manifests(project)
    assert after != before
    assert declared(project) == set()
    assert manifests(project) == after


def test_a_failed_build_writes_no_manifest(project):
    project.write("kernels/b.mlir", "cuda_tile.module @k {\n  entry @b( {\n}\n")
    project.scons("-k", expect=2)
    assert manifests(project) == {}
    project.write("kernels/b.mlir", module(axpy("b")))
    project.scons()
    assert declared(project) == set()


def test_a_build_of_one_target_says_nothing_of_the_others(project):
    project.scons("build/sm_90/O3/kernels/a/a.ptx")
    (path,) = manifests(project)
    assert Manifest(path, project.folder).count == 1
    assert {line.split()[1][0] for line in project.scons().ran} == {"b"}


def test_a_damaged_manifest_costs_time_only(project):
    project.scons()
    ((path, whole),) = manifests(project).items()
    head, *first, third, fourth = whole.splitlines()
    half = b"\n".join([head, *first])
    parts = [b"{", b"[]", b'#1:0 {"after": null}', b"#1:0\n" + first[0], whole[:-2], head, half]
    swapped = b"\n".join([head, third, fourth, *first])
    for data in (*parts, swapped, whole.replace(b"\t", b"\tx", 1), b"\xff" + whole):
        with open(path, "wb") as file:
            file.write(data)
        assert declared(project) == {"a", "b"}
        assert declared(project) == set()


def test_an_edit_of_the_compiler_declares_its_dependents(project):
    compiler = project.copy_compiler()
    project.scons()
    with open(os.path.join(compiler, "tileiras", "stages", "llvm.py"), "a", encoding="utf-8") as file:
        file.write("\n# A remark.\n")
    assert project.scons().stages == ["llvm", "llvm"]


def test_an_imported_module_is_an_input(project, tmp_path):
    path = tmp_path / "kernels" / "k.py"
    path.write_text("import helper\n")
    (tmp_path / "kernels" / "helper.py").write_text("x = 1\n")
    manifest = manifest_at(tmp_path)
    inputs = [str(path), str(tmp_path / "kernels" / "helper.py")]
    manifest.set("k", str(path), "s", manifest.observe(inputs), {}, [("k.ptx", "signature")])
    assert manifest.clean("k", "s", inputs).products == [["k.ptx", "signature"]]
    assert manifest.clean("k", "another signature", inputs) is None
    assert manifest.clean("k", "s", [*inputs, str(tmp_path / "kernels" / "new.py")]) is None
    (tmp_path / "kernels" / "helper.py").write_text("x = 2\n")
    assert manifest.clean("k", "s", inputs) is None


def test_a_recent_change_of_equal_size_and_time_is_seen(tmp_path):
    path = tmp_path / "k.mlir"
    path.write_text("first")
    stamp = os.stat(path).st_mtime_ns
    manifest = manifest_at(tmp_path)
    manifest.set("k", str(path), "s", manifest.observe([str(path)]), {}, [("k.ptx", "signature")])
    manifest.save()
    again = manifest_at(tmp_path)
    assert again.clean("k", "s").products == [["k.ptx", "signature"]]
    with open(path, "r+") as file:
        file.write("other")
    os.utime(path, ns=(stamp, stamp))
    assert again.clean("k", "s") is None


def test_a_source_edited_while_it_was_built_gets_no_row(tmp_path):
    path = tmp_path / "k.mlir"
    path.write_text("first")
    manifest = manifest_at(tmp_path)
    before = manifest.observe([str(path)])
    path.write_text("second")
    manifest.set("k", str(path), "s", before, {}, [("k.ptx", "signature")])
    assert manifest.clean("k", "s") is None


def test_a_clean_product_is_an_ordinary_source_of_others(project):
    with open(project.path("SConstruct"), "a", encoding="utf-8") as file:
        file.write('Default(env.Command("all.txt", env.TileTree("kernels"), "cat $SOURCES > $TARGET"))\n')
    assert "cat build" in project.scons().output
    assert "cat build" not in project.scons().output
    project.write("kernels/a.mlir", module(axpy("a", comment="  // edited\n")))
    assert "cat build" not in project.scons().output
    project.write("kernels/a.mlir", module(axpy("a", operation="mulf")))
    assert "cat build" in project.scons().output
    assert "cat build" not in project.scons("tile_full=1").output
    assert "cat build" not in project.scons().output


# ---- random edits ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_gated_and_full_graph_agree_under_random_edits(tmp_path, seed):
    pair = Pair(tmp_path, seed)
    edits = [Pair.add, Pair.comment, Pair.second_entry, Pair.delete_source, Pair.break_one, Pair.touch,
             Pair.delete_artifact, Pair.edit_artifact, Pair.option, Pair.no_edit]  # fmt: skip
    pair.random.shuffle(edits)
    for edit in [Pair.no_edit, *edits, Pair.no_edit]:
        edit(pair)
        gated, full = pair.build()
        assert (gated.ran, gated.cached) == (full.ran, full.cached), edit.__name__
        assert pair.gated.artifacts() == pair.full.artifacts(), edit.__name__

"""Artifacts that are damaged or edited are rebuilt with a warning, and not reported as errors of their sources."""

import os
import shutil

import pytest
from project import Project, axpy, module

from tileiras.build.ledger.manifest import Manifest

LINE = "differs from its stage's output: rebuilding it"


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    result.write("kernels/k.mlir", module(axpy("first"), axpy("second")))
    return result


def append(path: str) -> None:
    with open(path, "ab") as file:
        file.write(b"by hand\n")


def cut(path: str) -> None:
    os.truncate(path, os.path.getsize(path) // 2)


def edit_and_keep_the_times(path: str) -> None:
    status = os.stat(path)
    with open(path, "r+b") as file:
        file.write(b"~")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("damage", [append, cut, edit_and_keep_the_times])
@pytest.mark.parametrize("mode", ["read-write", "off"])
def test_every_kind_of_artifact_is_repaired(project, damage, mode):
    project.scons(TILEIRAS_CACHE_MODE=mode)
    whole = project.artifacts()
    names = [name for name in whole if "second" not in name]
    assert {name.partition(".")[2] for name in names} >= {
        "cuda_tile.mlir", "cuda_tile.loc", "tileaa.mlir", "tileas.mlir", "ll", "llvm.mlir", "ptx", "json"
    }  # fmt: skip
    for name in names:
        damage(project.path(f"build/{name}"))
    result = project.scons(TILEIRAS_CACHE_MODE=mode)
    assert project.artifacts() == whole
    # A line for each stage, and none about the source; undamaged entries stay.
    assert result.output.count(LINE) == len(result.ran) + len(result.cached) == 5
    assert (result.ran == []) == (mode == "read-write")
    assert "k.mlir:" not in result.output + result.errors
    again = project.scons("tile_full=1")
    assert (again.ran, again.cached, LINE in again.output) == ([], [], False)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("arguments", [["tile_full=1"], ["-j2"], ["build/sm_90/O3/kernels/k/first.ptx"]])
def test_a_damaged_artifact_is_found_under_any_option(project, arguments):
    project.scons()
    whole = project.artifacts()
    cut(project.path("build/sm_90/O3/kernels/k/first.tileaa.mlir"))
    assert project.scons(*arguments).output.count(LINE) == 1
    assert project.artifacts() == whole


def test_a_kernel_of_its_own_and_a_stage_of_its_own_are_repaired(project):
    project.write("SConstruct", """\
import os
from tileiras.build import tool
env = Environment(tools=[tool], ENV=os.environ)
env.TileKernel("kernels/k.mlir", emit="tileaa")
env.TileRead("kernels/k", "kernels/k.mlir")
""")  # fmt: skip
    project.scons()
    for name in ("kernels/k.cuda_tile.mlir", "build/sm_90/O3/kernels/k/first.tileaa.mlir"):
        whole = project.read(name)
        append(project.path(name))
        done = project.scons()
        assert done.output.count(LINE) == 1
        assert (project.read(name), len(done.cached)) == (whole, 1)
    assert project.scons().cached == []


def test_nothing_is_repaired_where_nothing_is_to_be_built(project):
    project.scons()
    path = project.path("build/sm_90/O3/kernels/k/first.ll")
    append(path)
    assert "LLVM     build/sm_90/O3/kernels/k/first.ll" in project.scons("-n").output
    project.scons("-q", expect=1)
    with open(path, "rb") as file:
        assert file.read().endswith(b"by hand\n")


def test_artifacts_of_other_options_are_not_damage(project):
    project.scons()
    whole = project.artifacts()
    # As after a killed build: artifacts of other options, with SCons' signatures of the earlier ones.
    with open(project.path(".sconsign.dblite"), "rb") as file:
        signatures = file.read()
    project.scons("num_warps=8")
    assert project.artifacts() != whole
    with open(project.path(".sconsign.dblite"), "wb") as file:
        file.write(signatures)
    assert LINE not in project.scons().output
    assert project.artifacts() == whole


def test_notes_of_stages_that_are_damaged_cost_time_only(project):
    project.scons()
    whole = project.artifacts()
    rows = project.path("build/.tileiras/steps/sm_90/O3/kernels/k")
    assert sorted(os.listdir(rows)) == ["first.log", "second.log"]
    intact = project.read(os.path.join(rows, "first.log"))
    texts = {b"": 4, b"{": 4, b"#1:0 {}": 4, intact[:-9]: 1, intact.replace(b'"ran"', b'"rat"'): 4, intact[40:]: 1}
    for text, lost in texts.items():
        with open(os.path.join(rows, "first.log"), "wb") as file:
            file.write(text)
        done = project.scons("tile_full=1")
        assert (done.ran, LINE in done.output, project.artifacts()) == ([], False, whole)
        shutil.rmtree(project.path("build/.tileiras/trees"))
        done = project.scons()
        assert (done.ran, len(done.cached), LINE in done.output, project.artifacts()) == ([], lost, False, whole), text


def test_the_manifest_accepts_only_the_bytes_that_were_built(tmp_path):
    (tmp_path / "k.mlir").write_text("source")
    artifact = tmp_path / "k.ptx"
    artifact.write_text("made")
    manifest = Manifest(str(tmp_path / "build" / "manifest.json"), str(tmp_path))
    digest = manifest.observe([str(artifact)])[0][5]
    inputs = manifest.observe([str(tmp_path / "k.mlir")])
    manifest.set("k", str(tmp_path / "k.mlir"), "s", inputs, {str(artifact): digest}, [])
    assert manifest.clean("k", "s") is not None
    # Another build writes between the stage and the signature.
    artifact.write_text("else")
    manifest.set("k", str(tmp_path / "k.mlir"), "s", inputs, {str(artifact): digest}, [])
    assert manifest.clean("k", "s") is None
    manifest.set("k", str(tmp_path / "k.mlir"), "s", inputs, {str(artifact): None}, [])
    assert manifest.clean("k", "s") is None


def test_an_artifact_written_during_the_build_is_reported(project):
    # An action between two stages overwrites the output of the first.
    with open(project.path("SConstruct"), "a", encoding="utf-8") as file:
        file.write("""\
def spoil(target, source, env):
    with open("build/sm_90/O3/kernels/k/first.tileaa.mlir", "w") as file:
        file.write("nonsense")
env.AddPostAction("build/sm_90/O3/kernels/k/first.tileaa.mlir", spoil)
""")
    done = project.scons(expect=2)
    assert "first.tileaa.mlir is not as it was made any more" in done.errors
    assert "nonsense" not in done.errors


def test_a_watch_repairs_its_inputs(project, monkeypatch):
    from tileiras.build.ledger.history import History
    from tileiras.build.run.execute import Session
    from tileiras.build.store.local import OFF, ArtifactStore
    from tileiras.build.watch.loop import Tree, Watch
    from tileiras.options import CompileOptions

    monkeypatch.chdir(project.folder)
    items: list[str] = []
    tree = Tree(project.path("kernels"), "kernels", [(CompileOptions({"gpu-name": "sm_90"}), "tileas")], "build")
    session = Session(ArtifactStore(OFF, pytest.fail), history=History("build"))
    watching = Watch([tree], session, out=items.append, error=items.append)
    assert watching.build(watching.scan()[0])
    whole = project.artifacts()
    cut(project.path("build/sm_90/O3/kernels/k/first.tileaa.mlir"))
    project.write("kernels/k.mlir", "// a comment\n" + module(axpy("first"), axpy("second")))
    assert watching.build(watching.scan()[0])
    assert [line for line in items if LINE in line] == [f"build/sm_90/O3/kernels/k/first.tileaa.mlir {LINE}"]
    artifacts = project.artifacts()
    assert {name for name in whole if whole[name] != artifacts[name]} == {
        f"sm_90/O3/kernels/k{name}.cuda_tile.loc" for name in ("", "/first", "/second")
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["k.cuda_tile.mlir", "k.cuda_tile.loc", "k/first.tileaa.mlir", "k/second.json",
                                  pytest.param("k/first.ll", marks=pytest.mark.slow), "k/first.ptx"])  # fmt: skip
@pytest.mark.parametrize("jobs", [pytest.param("-j1", marks=pytest.mark.slow), "-j2"])
def test_a_folder_in_an_artifacts_place_is_reported_and_stays(project, name, jobs):
    project.scons()
    whole = project.artifacts()
    path = project.path(f"build/sm_90/O3/kernels/{name}")
    os.unlink(path)
    project.write(os.path.join(path, "mine"), "kept")
    for arguments in ((), ("-c",)):
        result = project.scons(jobs, *arguments, expect=2)
        assert f"build/sm_90/O3/kernels/{name} is a folder where a file" in result.errors
        assert 'File "' in result.errors and "SConstruct" in result.errors
    assert project.read(os.path.join(path, "mine")) == b"kept"
    shutil.move(path, project.path("elsewhere"))
    project.scons(jobs)
    assert project.artifacts() == whole


@pytest.mark.parametrize("name", ["build", "build/sm_90/O3/kernels/k"])
def test_a_file_in_a_folders_place_is_reported_and_stays(project, name):
    project.write(name, "kept")
    result = project.scons(expect=2)
    assert name in result.errors and project.read(name) == b"kept"
    os.unlink(project.path(name))
    assert len(project.scons().stages) == 9

"""Artifacts of removed kernels and entries are deleted by the next build that notices, and no other files are."""

import os

import pytest
from project import SCONSTRUCT, Project, axpy, module


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    result.write("kernels/a.mlir", module(axpy("a"), axpy("a2")))
    result.write("kernels/sub/b.mlir", module(axpy("b")))
    return result


def remains(project: Project, word: str, folder: str = "build") -> list[str]:
    return [name for name in project.artifacts(folder) if word in name]


def test_a_deleted_kernel_takes_its_artifacts_along(project):
    project.scons()
    assert len(remains(project, "/b")) == 12
    os.unlink(project.path("kernels/sub/b.mlir"))
    before = len(project.artifacts())
    assert "would remove 12 artifacts of kernels/sub/b.mlir" in project.scons("-n").output
    assert len(project.artifacts()) == before
    assert "removed 12 artifacts of kernels/sub/b.mlir, which is gone" in project.scons().output
    assert remains(project, "/b") == [] and len(project.artifacts()) == before - 12
    # No empty folder remains, and no records of it.
    assert not os.path.exists(project.path("build/sm_90/O3/kernels/sub"))
    assert not os.path.exists(project.path("build/.tileiras/steps/sm_90/O3/kernels/sub"))
    assert "removed" not in project.scons().output


def test_a_removed_entry_takes_its_artifacts_along(project):
    project.scons()
    project.write("kernels/a.mlir", module(axpy("a")))
    assert "removed 10 artifacts of entry a2 of kernels/a.mlir" in project.scons().output
    assert remains(project, "a2") == [] and len(remains(project, "kernels/a")) == 12


@pytest.mark.slow
def test_every_set_of_options_removes_its_own(project):
    project.scons("num_warps=8")
    project.scons("ptx_version=8.7")
    project.scons()
    # Artifacts of the first two builds are replaced, except those that the later builds did not reach.
    project.write("kernels/a.mlir", module(axpy("a"), axpy("a2", operation="mulf")))
    project.scons("num_warps=8", "emit=tileaa")
    project.write("kernels/a.mlir", module(axpy("a")))
    for arguments in (["ptx_version=8.7"], [], ["num_warps=8"]):
        project.scons(*arguments)
    assert remains(project, "a2") == []


def test_an_entry_of_a_kernel_of_its_own(project):
    project.write("SConstruct", SCONSTRUCT.replace('env.TileTree("kernels")', 'env.TileKernel("kernels/a.mlir")'))
    project.scons()
    project.write("kernels/a.mlir", module(axpy("a")))
    assert "removed 10 artifacts of entry a2" in project.scons().output
    assert remains(project, "a2") == []


def test_a_python_file_that_exports_no_more(tmp_path):
    pytest.importorskip("cuda.tile")
    project = Project(tmp_path)
    text = (
        "import cuda.tile as ct\n\n@ct.kernel\ndef fill(x):\n"
        "    ct.store(x, index=(ct.bid(0),), tile=ct.zeros((16,), dtype=ct.float32))\n\n"
    )
    project.write("kernels/a.mlir", module(axpy("a")))
    project.write("kernels/p.py", text + 'TILEIRAS_EXPORT = {"fill": (fill, "f32[?]")}\n')
    project.scons("emit=cuda_tile")
    assert len(remains(project, "/p")) == 4
    project.write("kernels/p.py", text)
    project.scons("emit=cuda_tile")
    assert remains(project, "/p") == [] and remains(project, "/a")


def test_clean_finds_leftovers(project):
    project.scons()
    os.unlink(project.path("kernels/sub/b.mlir"))
    project.write("kernels/a.mlir", module(axpy("a")))
    listed = project.scons("-c", "-n").output
    done = project.scons("-c").output
    assert listed.count("Removed ") == done.count("Removed ") == 34
    assert "Removed build/sm_90/O3/kernels/sub/b/b.ptx\n" in done
    assert project.artifacts() == {}


def test_another_target_level_or_option_set_removes_nothing(project):
    for arguments in ([], ["sm=sm_80"], ["opt=1"]):
        project.scons(*arguments)
    os.unlink(project.path("kernels/sub/b.mlir"))
    project.scons("sm=sm_80")
    assert {name.split("/")[1] for name in remains(project, "/b")} == {"O1", "O3"}
    assert remains(project, "sm_80/O3/kernels/sub") == []
    project.scons("opt=1")
    project.scons("num_warps=8")
    left = remains(project, "/b")
    # Artifacts that do not depend on the option belong to both.
    assert left and all(name.startswith("sm_90/O3") and "cuda_tile" not in name for name in left)
    project.scons()
    assert remains(project, "/b") == []


def test_a_build_of_one_target_removes_nothing(project):
    project.scons()
    os.unlink(project.path("kernels/sub/b.mlir"))
    before = project.artifacts()
    project.scons("build/sm_90/O3/kernels/a/a.ptx")
    project.scons("-c", "build/sm_90/O3/kernels/a/a2.ptx")
    project.scons("build/sm_90/O3/kernels/a/a2.ptx")
    assert project.artifacts() == before
    project.scons("build")
    assert remains(project, "/b") == []


def test_a_build_that_fails_removes_nothing_yet(project):
    project.scons()
    os.unlink(project.path("kernels/sub/b.mlir"))
    project.write("kernels/a.mlir", "cuda_tile.module @k {\n  entry @a( {\n}\n")
    project.scons("-k", expect=2)
    assert len(remains(project, "/b")) == 12
    project.write("kernels/a.mlir", module(axpy("a"), axpy("a2")))
    project.scons()
    assert remains(project, "/b") == []


def test_another_folder_and_its_kernels_stay(project):
    project.write("others/c.mlir", module(axpy("c")))
    project.write("SConstruct", SCONSTRUCT + 'if ARGUMENTS.get("tile_full"):\n    Default(env.TileTree("others"))\n')
    project.scons("tile_full=1")
    os.unlink(project.path("others/c.mlir"))
    os.unlink(project.path("kernels/sub/b.mlir"))
    project.scons()
    assert remains(project, "/b") == [] and len(remains(project, "others/c")) == 12
    project.scons("tile_full=1")
    assert remains(project, "others") == []


def test_files_that_no_build_made_stay(project):
    project.scons()
    project.write("build/sm_90/O3/kernels/sub/b/notes.txt", "mine")
    project.write("build/sm_90/O3/kernels/sub/b/b.ptx", "mine")
    project.write("build/sm_90/O3/kernels/sub/b/b.cubin", "mine")
    os.unlink(project.path("kernels/sub/b.mlir"))
    output = project.scons().output
    assert "removed 11 artifacts" in output and "left build/sm_90/O3/kernels/sub/b/b.ptx, not as it was made" in output
    names = remains(project, "/b")
    assert {os.path.basename(name): project.read(f"build/{name}") for name in names} == {
        "notes.txt": b"mine", "b.ptx": b"mine", "b.cubin": b"mine"
    }  # fmt: skip


def test_kernels_that_a_build_passes_over_keep_their_artifacts(project):
    """An entry that is not requested, and a source that exists but is not in the list."""
    project.scons()
    only = SCONSTRUCT.replace('env.TileTree("kernels")', 'env.TileTree("kernels", entries=["a"])')
    project.write("SConstruct", only)
    project.write("kernels/sub/b.mlir", module(axpy("a")))
    project.scons()
    assert len(remains(project, "a2")) == 10
    project.write("SConstruct", SCONSTRUCT)
    project.write("kernels/sub/b.mlir", module(axpy("b")))
    project.scons()
    whole = project.artifacts()
    project.write("kernels/sub/SConstruct", "")
    project.scons()
    assert project.artifacts() == whole


def test_artifacts_of_a_killed_build_are_found(project):
    project.scons()
    whole = project.artifacts()
    project.write("kernels/new.mlir", module(axpy("new")))
    # The build is killed before its end, where it would record its artifacts.
    with open(project.path("SConstruct"), "a", encoding="utf-8") as file:
        file.write("import os, signal\n")
        file.write("env.AddPostAction('build/sm_90/O3/kernels/new/new.tileas.mlir', "
                   "lambda target, source, env: os.kill(os.getpid(), signal.SIGKILL))\n")  # fmt: skip
    project.scons(expect=-9)
    assert remains(project, "new")
    project.write("SConstruct", SCONSTRUCT)
    os.unlink(project.path("kernels/new.mlir"))
    project.scons()
    assert project.artifacts() == whole


def test_a_watch_removes_them_as_well(project, monkeypatch):
    from tileiras.build.ledger.history import History
    from tileiras.build.run.execute import Session
    from tileiras.build.store.local import OFF, ArtifactStore
    from tileiras.build.watch import loop as watch_module
    from tileiras.build.watch.loop import Restart, Tree, Watch
    from tileiras.options import CompileOptions

    project.scons("emit=tileaa")
    project.write("kernels/old.mlir", module(axpy("old")))
    project.scons("emit=tileaa")
    os.unlink(project.path("kernels/old.mlir"))
    monkeypatch.chdir(project.folder)
    monkeypatch.setattr(watch_module, "POLL", 0.01)
    items: list[str] = []
    tree = Tree(project.path("kernels"), "kernels", [(CompileOptions({"gpu-name": "sm_90"}), "tileaa")], "build")
    session = Session(ArtifactStore(OFF, pytest.fail), history=History("build"))
    watching = Watch([tree], session, out=items.append, error=items.append)
    left: list[list[str]] = []
    scan = watching.scan

    def edit_then_stop():
        left.append(remains(project, ""))
        if len(left) == 2:
            project.write("kernels/a.mlir", module(axpy("a")))
        elif len(left) == 3:
            os.unlink(project.path("kernels/sub/b.mlir"))
        elif len(left) == 4:
            raise Restart("enough")
        return scan()

    monkeypatch.setattr(watching, "scan", edit_then_stop)
    with pytest.raises(Restart, match="enough"):
        watching.run(poll=True)
    first, second, third, fourth = ({name.removeprefix("sm_90/O3/kernels/") for name in names} for names in left)
    assert {name for name in first - second} == {name for name in first if name.startswith("old")} != set()
    assert {name for name in second - third} == {name for name in second if "a2" in name} != set()
    assert {name for name in third - fourth} == {name for name in third if name.startswith("sub/b")} != set()
    assert "kernels/sub/b.mlir sm_90: deleted  6 artifacts" in items

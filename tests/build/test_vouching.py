"""Builds with the monitor: files that it vouches for are not read, and artifacts are those of a whole graph."""

import os
import re
import shutil
import subprocess
import sys
import time

import pytest
from edits import Pair
from monitoring import facts, stop
from project import Project, axpy, module
from vouched import SCONSTRUCT, Vouched, looked

from tileiras.build.watch.monitor import endpoint


def wait(*states: str) -> None:
    """Wait until the monitor has these states of its checkouts."""
    until = time.monotonic() + 20
    while [checkout["state"] for checkout in facts()["checkouts"]] != list(states):
        assert time.monotonic() < until, facts()
        time.sleep(0.02)


def scons(project: Project, *arguments: str, **keywords) -> tuple[list[str], set[str]]:
    """The stages that ran or were served, and the files that were looked at."""
    done = project.scons(*arguments, **keywords)
    return done.stages + done.cached, looked(done.output)


@pytest.fixture
def project(tmp_path, runtime):
    """Three kernels that the monitor vouches for."""
    result = Project(tmp_path / "project")
    result.write("SConstruct", SCONSTRUCT)
    for name in ("a", "b", "sub/c"):
        result.write(f"kernels/{name}.mlir", module(axpy(os.path.basename(name))))
    result.scons()
    begin(result)
    return result


def begin(project: Project) -> None:
    """Build until the monitor vouches for all files."""
    until = time.monotonic() + 30
    while files := scons(project)[1]:
        assert time.monotonic() < until, (files, facts())


def test_nothing_is_looked_at_where_nothing_changed(project):
    assert scons(project) == ([], set())
    assert scons(project, TILEIRAS_SERVER="off")[1] >= {"in:kernels", "kernels/a.mlir", "build/sm_90/O3/kernels/a/a.ll"}
    begin(project)  # that build may have written the manifest
    assert scons(project) == ([], set())


def test_one_kernel_is_looked_at_where_one_was_saved(project):
    project.write("kernels/b.mlir", module(axpy("b", comment="  // edited\n")))
    stages, files = scons(project)
    assert stages == ["read"]
    assert files and not any("/a" in name or "/c" in name for name in files)
    stages, files = scons(project)  # files that the build itself has written
    assert stages == [] and not any("/a" in name or "/c" in name for name in files)
    assert scons(project) == ([], set())


def test_an_artifact_is_rebuilt_after_any_change_of_it(project):
    path = project.path("build/sm_90/O3/kernels/sub/c/c.ll")
    whole, state = project.read(path), os.stat(path)
    with open(path, "r+b") as file:
        file.write(b"?")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert scons(project)[0] == ["llvm"]
    assert project.read(path) == whole
    os.unlink(path)
    assert scons(project)[0] == ["llvm"]
    os.rename(path, path + ".away")
    assert scons(project)[0] == ["llvm"]
    begin(project)
    os.link(path, project.path("other name"))
    with open(project.path("other name"), "r+b") as file:
        file.write(b"?")
    assert scons(project)[0] == ["llvm"]
    assert project.read(path) == whole


@pytest.mark.sampled(2)
@pytest.mark.parametrize("edit, stages", [
    (lambda folder: os.replace(folder / "a.mlir", folder / "b.mlir"), 5),
    (lambda folder: shutil.copy(folder / "a.mlir", folder / "d.mlir"), 5),
    (lambda folder: (folder / "new").mkdir() or shutil.copy(folder / "a.mlir", folder / "new" / "d.mlir"), 5),
    (lambda folder: (folder / "b.tune.json").write_text(
        '{"format": 1, "options": {"sm_90": {"num-warps": 8}}}'), 1),
    (lambda folder: (folder / "sub" / "SConstruct").write_text(""), 0),
    (lambda folder: (folder / "sub").rename(folder / "moved"), 5),
    (lambda folder: (folder / "link").symlink_to(folder / "sub"), 0),
    (lambda folder: os.link(folder / "a.mlir", folder / "d.mlir"), 5),
    (lambda folder: (folder / ".b.mlir.swp").write_text("of an editor"), 0),
], ids=["replace", "new", "folder", "tuned", "project", "move", "symbolic link", "hard link", "editor"])  # fmt: skip
def test_a_tree_that_has_other_kernels_is_listed(project, tmp_path, edit, stages):
    edit(tmp_path / "project" / "kernels")
    result, _ = scons(project)
    assert len(result) >= stages and (stages > 0 or result == [])
    other = Project(tmp_path / "other")
    shutil.rmtree(other.path("kernels"))
    shutil.copytree(project.path("kernels"), other.path("kernels"), symlinks=True)
    other.scons(TILEIRAS_SERVER="off")
    if not os.path.exists(project.path("kernels/sub/SConstruct")):  # otherwise its kernels have only been left out
        assert project.artifacts() == other.artifacts()
    assert scons(project)[0] == []


@pytest.mark.slow
def test_other_options_are_other_manifests(project):
    assert len(scons(project, "sm=sm_80")[0]) == 15
    begin(project)
    assert scons(project, "num-warps=8")[0] != []
    assert scons(project)[0] != []
    begin(project)
    assert scons(project, "sm=sm_80,sm_90")[0] == []
    assert scons(project, "sm=sm_80,sm_90") == ([], set())
    project.write("kernels/a.mlir", module(axpy("a", operation="mulf")))
    stages, files = scons(project, "sm=sm_80,sm_90")
    assert len(stages) >= 8 and not any("/b" in name for name in files)
    assert scons(project)[0] == scons(project, "sm=sm_80")[0] == []


@pytest.mark.slow
def test_a_failure_is_reported_again_until_it_is_mended(project):
    project.write("kernels/b.mlir", "cuda_tile.module @k {\n  entry @broken( {\n}\n")
    for _ in range(2):
        assert "b.mlir" in project.scons(expect=2).errors
    project.write("kernels/b.mlir", module(axpy("b")))
    assert scons(project)[0] == ["read"]
    begin(project)


@pytest.mark.slow
def test_another_monitor_does_not_share_earlier_events(project):
    stop()
    project.write("kernels/b.mlir", module(axpy("b", operation="mulf")))
    stages, files = scons(project)
    assert len(stages) == 5 and "kernels/a.mlir" in files
    begin(project)
    facts(endpoint.STOP)
    assert scons(project)[1] >= {"kernels/a.mlir"}
    begin(project)


@pytest.mark.slow
def test_a_copy_of_a_checkout_is_another_one(project, tmp_path):
    shutil.copytree(project.folder, tmp_path / "copy", symlinks=True)
    copy = Project(tmp_path / "copy", store=project.store)
    copy.write("SConstruct", SCONSTRUCT)
    path = copy.path("build/sm_90/O3/kernels/a/a.ptx")
    with open(path, "a", encoding="utf-8") as file:
        file.write("// by hand\n")
    assert scons(copy)[0] == ["ptx"]
    assert scons(project) == ([], set())
    begin(copy)
    wait("watching", "watching")
    copy.write("kernels/a.mlir", module(axpy("a", operation="subf")))
    assert scons(project) == ([], set())
    assert len(scons(copy)[0]) == 5


@pytest.mark.slow
def test_a_manifest_that_was_exchanged_is_not_vouched_for(project):
    folder = project.path("build/.tileiras/trees")
    (name,) = os.listdir(folder)
    path = os.path.join(folder, name)
    earlier = project.read(path)
    project.write("kernels/a.mlir", module(axpy("a", operation="mulf")))
    assert len(scons(project)[0]) == 5
    begin(project)
    assert project.read(path).startswith(earlier)
    _, _, last = project.read(path).rpartition(b"\n#")
    # The earlier rows have an earlier lease: changes since then are examined, even if a later record follows them.
    for data in (earlier, earlier + b"\n#" + last):
        with open(path, "wb") as file:
            file.write(data)
        stages, files = scons(project)
        assert stages == [] and "kernels/a.mlir" in files
        assert b"mul" in project.read("build/sm_90/O3/kernels/a/a.ptx")


@pytest.mark.slow
def test_events_that_were_lost_are_no_answer(project):
    with open("/proc/sys/fs/inotify/max_queued_events") as file:
        most = int(file.read())
    (monitor,) = [facts()["pid"]]
    os.kill(monitor, 19)  # SIGSTOP
    try:
        for number in range(most // 2 + 100):
            for name in ("a", "b"):
                os.utime(project.path(f"kernels/{name}.mlir"), ns=(number, number))
        project.write("kernels/sub/c.mlir", module(axpy("c", operation="mulf")))
    finally:
        os.kill(monitor, 18)
    assert len(scons(project)[0]) == 5
    begin(project)


@pytest.mark.slow
def test_a_monitor_that_does_not_answer_is_done_without(project):
    (monitor,) = [facts()["pid"]]
    os.kill(monitor, 19)
    try:
        stages, files = scons(project)
    finally:
        os.kill(monitor, 18)
    assert stages == [] and "kernels/a.mlir" in files
    assert not [name for name in os.listdir(project.path("build/.tileiras")) if name.startswith("cookie")]
    begin(project)


@pytest.mark.slow
def test_the_command_lists_watches_and_ends_them(project):
    command = [sys.executable, "-m", "tileiras.processes.service.command"]
    shown = subprocess.run([*command, "status"], capture_output=True, text=True)
    assert shown.returncode == 0
    assert re.search(rf"\n  watching: {project.path('kernels')}, {project.path('build')}, 39 files\n", shown.stdout)
    os.symlink("a.mlir", project.path("kernels/link.mlir"))
    project.scons()
    shown = subprocess.run([*command, "status"], capture_output=True, text=True)
    assert "kernels/link.mlir is a symbolic link" in shown.stdout
    assert subprocess.run([*command, "stop"]).returncode == 0
    shown = subprocess.run([*command, "status"], capture_output=True, text=True)
    assert (shown.stdout, shown.returncode) == ("no service\n", 1)


def test_a_killed_monitor_leaves_no_harmful_state(project, runtime):
    os.kill(facts()["pid"], 9)
    assert scons(project)[1] >= {"kernels/a.mlir"}
    begin(project)
    os.kill(facts()["pid"], 9)
    assert subprocess.run([sys.executable, "-m", "tileiras.processes.service.command", "stop"]).returncode == 0
    assert os.listdir(runtime / "tileiras") == []


@pytest.mark.slow
def test_queries_leave_no_file(project):
    before = sorted(os.listdir(project.path("build/.tileiras")))
    assert project.scons("-q").code == 0
    assert project.scons("-n").stages == []
    assert sorted(os.listdir(project.path("build/.tileiras"))) == before


# ---- random edits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [11, pytest.param(12, marks=pytest.mark.slow)])
def test_vouched_and_full_graph_agree_under_random_edits(tmp_path, runtime, seed):
    pair = Vouched(tmp_path, seed)
    edits = [Pair.add, Pair.comment, Pair.second_entry, Pair.delete_source, Pair.break_one, Pair.touch,
             Pair.delete_artifact, Pair.edit_artifact, Pair.option, Vouched.replaced, Vouched.clock_set_back,
             Vouched.artifacts_swapped, Vouched.another_monitor]  # fmt: skip
    pair.random.shuffle(edits)
    for edit in [Pair.no_edit, Pair.no_edit, *edits, Pair.no_edit]:
        edit(pair)
        gated, full = pair.build()
        assert (gated.ran, gated.cached) == (full.ran, full.cached), edit.__name__
        assert pair.gated.artifacts() == pair.full.artifacts(), edit.__name__


READING = """\
import json, os, pathlib
import cuda.tile as ct

HERE = pathlib.Path(__file__).parent
T = int(os.environ.get("NUMBER_OF_TILES", "64")) * json.loads((HERE.parent / "data.json").read_text())

@ct.kernel
def k(a, b):
    ct.store(b, index=(ct.bid(0),), tile=ct.load(a, index=(ct.bid(0),), shape=(T,)))

TILEIRAS_EXPORT = {"k": (k, "f32[?]", "f32[?]")}
"""


@pytest.mark.slow
def test_inputs_of_modules_are_checked_though_no_file_changed(project):
    pytest.importorskip("cuda.tile", reason="cuTile Python is not installed")
    project.write("data.json", "1")
    project.write("kernels/k.py", READING)
    assert "export" in scons(project)[0]
    begin(project)
    assert scons(project, NUMBER_OF_TILES="128")[0][:2] == ["export", "read"]
    begin(project)
    project.write("data.json", "2")
    assert scons(project)[0][:2] == ["export", "read"]
    begin(project)
    project.write("data.json", "2")
    assert scons(project)[0] == []

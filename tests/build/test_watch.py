"""tileiras-watch and `scons watch`."""

import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

import pytest
from monitoring import facts
from project import Project, axpy, module

from tileiras.build.ledger.history import History
from tileiras.build.run.execute import Session
from tileiras.build.store.local import OFF, ArtifactStore
from tileiras.build.watch import debounce
from tileiras.build.watch import loop as watch_module
from tileiras.build.watch.debounce import CLOSED, RENAMED, WRITING, Events, Seen, saved_files
from tileiras.build.watch.loop import Restart, Single, Tree, Watch
from tileiras.options import CompileOptions

ALL = "read, tileaa, tileas, llvm, ptx"


class Running:
    """A watch in a process of its own, and its output."""

    def __init__(self, project: Project, *command: str, before: Sequence[str] = ()) -> None:
        """`before` is a command that takes the watch as its arguments."""
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", *command],
            cwd=project.folder,
            env={**os.environ, "PYTHONPATH": project.compiler, "TILEIRAS_CACHE_DIR": project.store},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def until(self, word: str) -> list[str]:
        """The lines up to one with `word` in it, without times."""
        result = []
        deadline = time.monotonic() + 60
        while not result or word not in result[-1]:
            line = self._lines.get(timeout=max(0.1, deadline - time.monotonic()))
            result.append(re.sub(r"  \d.*", "", line))
        return result

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)


@pytest.fixture
def running():
    started = []

    def start(project: Project, *command: str, before: Sequence[str] = ()) -> Running:
        started.append(Running(project, *command, before=before))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    result.write("kernels/k.mlir", module(axpy("first")))
    return result


def test_every_way_of_saving_builds_the_change_once(project, running):
    kernel = project.path("kernels/k.mlir")
    watching = running(project, "tileiras.cli.tileiras_watch", "kernels", "-j1")
    assert watching.until("watching") == [f"kernels/k.mlir sm_90: {ALL}", "watching 1 kernels"]
    # In place.
    with open(kernel, "a") as file:
        file.write("// a comment\n")
    assert watching.until("k.mlir") == ["kernels/k.mlir sm_90: read, cut off before tileaa"]
    # A temporary file and a rename.
    project.write("kernels/.k.mlir.swp", module(axpy("first", operation="mulf")))
    os.rename(project.path("kernels/.k.mlir.swp"), kernel)
    assert watching.until("k.mlir") == [f"kernels/k.mlir sm_90: {ALL}"]
    assert b"mul.rn.f32" in project.read("build/sm_90/O3/kernels/k/first.ptx")
    # A backup and a new file; an error is reported with its line, and the next save is built.
    os.rename(kernel, kernel + "~")
    project.write("kernels/k.mlir", module(axpy("first").replace("iota", "iotta")))
    assert any("%lane = iotta" in line for line in watching.until("failed"))
    os.unlink(kernel + "~")
    project.write("kernels/k.mlir", module(axpy("first", operation="subf")))
    assert watching.until("k.mlir sm_90") == [f"kernels/k.mlir sm_90: {ALL}"]
    # Saving the same content builds no kernel; a new and a deleted kernel are noticed.
    os.utime(kernel)
    project.write("kernels/new.mlir", module(axpy("new")))
    assert watching.until("new.mlir") == [f"kernels/new.mlir sm_90: {ALL}"]
    os.unlink(project.path("kernels/new.mlir"))
    assert watching.until("new.mlir") == ["kernels/new.mlir sm_90: deleted"]
    # Another branch: many files at once.
    for number in range(6):
        project.write(f"kernels/sub/k{number}.mlir", module(axpy(f"k{number}")))
    (line,) = watching.until("kernels:")
    assert line == "6 kernels: 30 stages run, 0 from the store"
    assert watching.end() == 0
    # The artifacts are those of a build.
    build = project.scons()
    assert build.ran == []


def test_scons_watch_restarts_for_scripts_and_the_compiler(project, running):
    project.write("SConstruct", """\
import os
from tileiras.build import tool
env = Environment(tools=[tool], ENV=os.environ)
env.Default(env.TileTree("kernels", emit="tileaa"))
env.TileWatch()
""")  # fmt: skip
    compiler = project.copy_compiler()
    watching = running(project, "SCons", "-s", "-j2", "watch")
    assert watching.until("watching")[0] == "kernels/k.mlir sm_90: read, tileaa"
    project.write("SConstruct", project.read("SConstruct").decode().replace("tileaa", "tileas"))
    assert watching.until("watching") == [
        "SConstruct changed: starting again", "kernels/k.mlir sm_90: tileas",
        "watching 1 kernels",
    ]  # fmt: skip
    with open(os.path.join(compiler, "tileiras", "stages", "tileas.py"), "a") as file:
        file.write("# a remark\n")
    assert watching.until("watching")[:2] == [
        "the compiler changed: starting again", "kernels/k.mlir sm_90: tileas",
    ]  # fmt: skip
    assert watching.end() == 0


def test_targets_of_a_graph_on_kernels_follow(project, running, runtime, monkeypatch):
    monkeypatch.delenv("TILEIRAS_SERVER")
    project.write("SConstruct", """\
import os
from tileiras.build import tool
env = Environment(tools=["default", tool], ENV=os.environ)
env.Default(env.Command("all.txt", env.TileTree("kernels", emit="tileaa"), "cat $SOURCES > $TARGET"))
env.TileWatch()
""")  # fmt: skip
    watching = running(project, "SCons", "-Q", "watch")
    lines = watching.until("the files built from the kernels")
    assert [line for line in lines if line.startswith("cat ")] != [] and b"addf" in project.read("all.txt")
    project.write("kernels/k.mlir", module(axpy("first", operation="mulf")))
    assert watching.until("the files built from the kernels") == [
        "kernels/k.mlir sm_90: read, tileaa",
        "cat build/sm_90/O3/kernels/k/first.tileaa.mlir > all.txt", "the files built from the kernels are up to date",
    ]  # fmt: skip
    assert b"mulf" in project.read("all.txt")
    # An error is printed once, by the watch.
    project.write("kernels/k.mlir", module(axpy("first").replace("iota", "iotta")))
    watching.until("failed")
    project.write("kernels/k.mlir", module(axpy("first")))
    assert watching.until("files built from the kernels")[0] == "kernels/k.mlir sm_90: read (cached), tileaa (cached)"
    assert watching.end() == 0
    assert "cat" not in project.scons("-Q").output
    assert [os.path.dirname(checkout["notes"]) for checkout in facts()["checkouts"]] == [project.path("build")]


def test_a_command_line_that_cannot_be_used_is_refused(tmp_path, capsys, monkeypatch):
    from tileiras.cli.tileiras_watch import main

    monkeypatch.chdir(tmp_path)
    assert main(["nowhere"]) == 1
    assert capsys.readouterr().err == "error: nowhere is no folder\n"
    assert main(["sm=sm_12"]) == 2
    assert "accepted are sm_75" in capsys.readouterr().err
    # Options and folders in any order; artifacts are not sources, and replace none.
    (tmp_path / "k.mlir").write_text("text")
    (tmp_path / "link").symlink_to(".")
    for build in (".", "link", str(tmp_path)):
        assert main([".", "--build", build, "sm=sm_90"]) == 1
        assert capsys.readouterr().err == "error: artifacts would be sources: --build is the folder of kernels .\n"
    assert main([".", "--build", "k.mlir", "sm=sm_90"]) == 1
    assert capsys.readouterr().err == "error: --build k.mlir is no folder\n"
    assert sorted(os.listdir()) == ["k.mlir", "link"]


# ---- without events --------------------------------------------------------------------------------------------------


@pytest.fixture
def quiet_watch(project, monkeypatch):
    monkeypatch.chdir(project.folder)
    result: list[str] = []
    options = CompileOptions({"gpu-name": "sm_90"})

    def make(*watched, scripts=()):
        session = Session(ArtifactStore(OFF, pytest.fail), history=History("build"))
        return Watch(watched, session, scripts, out=result.append, error=result.append), result

    make.tree = Tree(project.path("kernels"), "kernels", [(options, "tileaa")], "build")
    make.single = Single(project.path("kernels/k.mlir"), "kernels/k.mlir", options, "tileaa", "build")
    return make


def test_content_decides_and_not_the_time(project, quiet_watch):
    watching, _ = quiet_watch(quiet_watch.tree)
    (kernel,), gone = watching.scan()
    assert (kernel, gone) == (quiet_watch.single, [])
    assert watching.scan() == ([], [])
    os.utime(project.path("kernels/k.mlir"), ns=(1, 1))
    assert watching.scan() == ([], [])
    project.write("kernels/k.mlir", module(axpy("other")))
    assert watching.scan() == ([kernel], [])
    os.unlink(project.path("kernels/k.mlir"))
    assert watching.scan() == ([], [kernel])


def test_if_the_saved_file_is_known_no_other_is_checked(project, quiet_watch):
    project.write("kernels/other.mlir", module(axpy("other")))
    watching, _ = quiet_watch(quiet_watch.tree)
    kernel, other = watching.scan()[0]
    paths = {one.name: os.path.realpath(one.path) for one in (kernel, other)}
    for one in (kernel, other):
        project.write(one.name, module(axpy("edited")))
    assert watching.look({paths[kernel.name]}) == ([kernel], [])
    assert watching.look({paths[kernel.name]}) == ([], [])
    assert watching.look(None) == ([other], [])
    # A file that has not been read yet counts as changed, and a removed one takes its kernel along.
    project.write("kernels/new.mlir", module(axpy("new")))
    (new,), _ = watching.look({os.path.realpath(project.path("kernels/new.mlir"))})
    assert new.name == "kernels/new.mlir"
    os.unlink(project.path("kernels/new.mlir"))
    assert watching.look({os.path.realpath(new.path)}) == ([], [new])


def test_of_many_kernels_those_come_first_that_were_saved_last(project, quiet_watch):
    for number, name in enumerate(("a", "b", "c")):
        project.write(f"kernels/{name}.mlir", module(axpy(name)))
        os.utime(project.path(f"kernels/{name}.mlir"), (number, number))
    os.utime(project.path("kernels/k.mlir"), (10, 10))
    watching, result = quiet_watch(quiet_watch.tree)

    def order(kernels) -> str:
        result.clear()
        assert watching.build(kernels)
        return "".join(line.split(".mlir")[0][-1] for line in result if " sm_90: " in line)

    assert order(watching.scan()[0]) == "kcba"  # the youngest sources
    for name in ("a", "b"):
        watching.look({os.path.realpath(project.path(f"kernels/{name}.mlir"))})
    for name in "abck":
        project.write(f"kernels/{name}.mlir", module(axpy(name + "2")))
        os.utime(project.path(f"kernels/{name}.mlir"), (20, 20))
    assert order(watching.scan()[0])[:2] == "ba"


def test_a_kernel_for_newer_targets_is_left_out(project, quiet_watch):
    project.write("kernels/k.py", 'TILEIRAS_REQUIRES = "sm_100"\nTILEIRAS_EXPORT = {}\n')
    watching, _ = quiet_watch(quiet_watch.tree)
    assert watching.scan() == ([quiet_watch.single], [])


def test_one_mistake_is_reported_once_for_all_targets(project, quiet_watch):
    project.write("kernels/k.mlir", module(axpy("first")).replace("%lane = iota", "%lane = iotta"))
    variants = [(CompileOptions({"gpu-name": gpu}), emit) for gpu in ("sm_80", "sm_90") for emit in ("tileaa", "llvm")]
    watching, result = quiet_watch(Tree(project.path("kernels"), "kernels", variants, "build"))
    assert not watching.build(watching.scan()[0])
    assert len([line for line in result if "iotta" in line]) == 1
    assert len([line for line in result if "read failed" in line]) == 4


def test_an_artifact_that_is_as_it_should_be_keeps_its_time(project, quiet_watch):
    path = project.path("build/sm_90/O3/kernels/k/first.tileaa.mlir")
    for mtime in (None, 1):
        if mtime is not None:
            os.utime(path, ns=(mtime, mtime))
        watching, _ = quiet_watch(quiet_watch.single)
        assert watching.build(watching.scan()[0])
    assert os.stat(path).st_mtime_ns == 1


def test_a_script_that_changed_ends_it(project, quiet_watch):
    watching, _ = quiet_watch(quiet_watch.tree, scripts=[project.path("SConstruct")])
    watching.scan()
    with open(project.path("SConstruct"), "a") as file:
        file.write("# more\n")
    with pytest.raises(Restart, match="SConstruct changed"):
        watching.scan()


@pytest.mark.parametrize("name", ["SConscript", "more/SConscript", "kernels/deep/er/SConscript"])
def test_scripts_that_appear_and_disappear_end_it(project, quiet_watch, name):
    for expected in ("new", "gone"):
        watching, _ = quiet_watch(quiet_watch.tree, scripts=[project.path("SConstruct")])
        watching.scan()
        project.write(name, "") if expected == "new" else os.unlink(project.path(name))
        with pytest.raises(Restart, match=f"{name} is {expected}"):
            watching.scan()


def test_without_watches_of_the_system_files_are_looked_at(project, quiet_watch, monkeypatch):
    import watchdog.observers

    def start(self):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(watchdog.observers.Observer, "start", start)
    monkeypatch.setattr(watch_module, "POLL", 0.05)
    watching, result = quiet_watch(quiet_watch.tree)
    turns = []
    scan = watching.scan

    def edit_then_stop():
        turns.append(scan())
        if len(turns) == 2:
            project.write("kernels/k.mlir", module(axpy("other")))
        if len(turns) == 4:
            raise Restart("enough")
        return turns[-1]

    monkeypatch.setattr(watching, "scan", edit_then_stop)
    with pytest.raises(Restart, match="enough"):
        watching.run()
    assert "raise fs.inotify.max_user_watches" in result[0]
    assert [len(changed) for changed, _ in turns[:3]] == [1, 0, 1]


FEW_WATCHES = "echo 3 > /proc/sys/user/max_inotify_watches"


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "--user", "--map-root-user", "sh", "-c", FEW_WATCHES], capture_output=True).returncode
    != 0,
    reason="this system lets no program limit its watches",
)
def test_without_inotify_watches_files_are_polled(project, running):
    command = f'{FEW_WATCHES} && exec "$@"'
    watching = running(
        project, "tileiras.cli.tileiras_watch", "kernels", "emit=tileaa", "-j1",
        before=["unshare", "--user", "--map-root-user", "sh", "-c", command, "sh"],
    )  # fmt: skip
    first, *_ = watching.until("watching")
    assert first.startswith("warning: the system gives no more watches (") and "fs.inotify.max_user_watches" in first
    project.write("kernels/k.mlir", module(axpy("first", operation="mulf")))
    assert watching.until("k.mlir") == ["kernels/k.mlir sm_90: read, tileaa"]
    assert watching.end() == 0


class Known:
    def __contains__(self, path) -> bool:
        return path != "new"


def pause(seconds: float, *states: str, paths: Sequence[str] = ("k.mlir",)) -> float:
    """The time that `settled` waits after events that are available at once."""
    events: Events = queue.SimpleQueue()
    for state in states:
        for path in paths:
            events.put(Seen(time.monotonic(), path, state))
    start = time.monotonic()
    assert saved_files(events, 5, Known()) == set(paths)
    return time.monotonic() - start


def test_a_rename_is_seen_at_once_and_a_write_when_it_is_quiet(monkeypatch):
    # Times far apart, so that no other work on the machine matters.
    monkeypatch.setattr(debounce, "_QUIET_OF", {WRITING: 3.0, CLOSED: 1.0, RENAMED: 0.0})
    monkeypatch.setattr(debounce, "QUIET", 3.0)
    assert pause(0, RENAMED) < 0.9 and pause(0, WRITING, CLOSED, RENAMED) < 0.9
    assert 0.9 < pause(0, WRITING, CLOSED) < 2.9
    assert pause(0, RENAMED, WRITING) > 2.9
    assert pause(0, RENAMED, paths=("new",)) > 2.9


def test_no_event_is_an_answer_as_well():
    assert saved_files(queue.SimpleQueue(), 0.01, Known()) is None


def test_a_burst_is_one_batch_and_does_not_wait_for_ever():
    events: Events = queue.SimpleQueue()
    stop = threading.Event()

    def save():
        while not stop.wait(0.005):
            events.put(Seen(time.monotonic(), "new", WRITING))

    thread = threading.Thread(target=save)
    thread.start()
    start = time.monotonic()
    saved_files(events, 5, Known())
    taken = time.monotonic() - start
    stop.set()
    thread.join()
    assert 0.2 < taken < 2

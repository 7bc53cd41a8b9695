"""Builds of one directory at the same time: they take turns, and the result is that of a clean build."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from project import CHECKOUT, SCONSTRUCT, Project, axpy, module

from tileiras.build.ledger import lock

WAITING = "tileiras: waiting for process"

SLOW = SCONSTRUCT + """\
import time
def wait(target, source, env):
    open("started", "w").close()
    while not os.path.exists("go on"):
        time.sleep(0.02)
if os.environ.get("SLOW"):
    env.AddPostAction("build/sm_90/O3/kernels/k/k.tileaa.mlir", wait)
"""


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path)
    result.write("kernels/k.mlir", module(axpy("k", width=1024)))
    return result


@pytest.fixture
def start(project):
    started = []

    def start(*arguments: str, **environment: str) -> subprocess.Popen:
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "SCons", *arguments],
                cwd=project.folder,
                env={**os.environ, "PYTHONPATH": CHECKOUT, "TILEIRAS_CACHE_DIR": project.store, **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def threads(project: Project) -> int:
    """The threads of a block, 32 for each of `num_warps`, as the metadata have it."""
    (kernel,) = json.loads(project.read("build/sm_90/O3/kernels/k/k.json"))["kernels"]
    return kernel["block"][0]


def until_there(path: str) -> None:
    deadline = time.monotonic() + 60
    while not os.path.exists(path):
        assert time.monotonic() < deadline, path
        time.sleep(0.02)


@pytest.mark.slow
def test_killed_and_interleaved_builds_equal_a_clean_build():
    done = subprocess.run(
        [sys.executable, "-m", "bench", "interleaved", "10", "5"],
        cwd=CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    *rounds, last = done.stdout.splitlines()
    assert (done.returncode, last) == (0, "10 rounds, 0 of them wrong"), done.stdout + done.stderr
    rows = [json.loads(line) for line in rounds]
    # The run is valid only if builds were killed and artifacts damaged.
    assert sum(row["killed"] for row in rows) > 1 and sum(row["damaged"] for row in rows) > 1


def test_two_builds_with_other_options_then_one_more(project, start):
    both = [start("num_warps=4"), start("num_warps=8")]
    assert [process.wait(120) for process in both] == [0, 0]
    project.scons("num_warps=8")
    artifacts = project.artifacts()
    assert threads(project) == 256
    project.delete_build()
    os.unlink(project.path(".sconsign.dblite"))
    project.scons("num_warps=8", TILEIRAS_CACHE_DIR="off")
    assert project.artifacts() == artifacts


def test_the_second_build_waits_and_says_for_whom(project, start):
    project.write("SConstruct", SLOW)
    first = start("num_warps=4", SLOW="1")
    until_there(project.path("started"))
    second = start("num_warps=8")
    line = second.stderr.readline()
    assert line.startswith(f"{WAITING} {first.pid} (") and "num_warps=4), which builds in " in line
    # A dry run does not wait.
    assert WAITING not in project.scons("-n").errors
    assert second.poll() is None
    project.write("go on", "")
    assert (first.wait(60), second.wait(60)) == (0, 0)
    assert threads(project) == 256
    assert project.scons("num_warps=8").ran == []


@pytest.mark.parametrize("jobs", [[], ["-j2"]])
def test_a_killed_build_does_not_block_others(project, start, jobs):
    project.write("SConstruct", SLOW)
    first = start(*jobs, SLOW="1")
    until_there(project.path("started"))
    second = start("num_warps=8")
    second.stderr.readline()
    first.send_signal(signal.SIGKILL)
    assert second.wait(60) == 0
    assert threads(project) == 256


def test_a_build_within_a_build_goes_on_beside_it(project):
    with open(project.path("SConstruct"), "a", encoding="utf-8") as file:
        file.write(f'env.AlwaysBuild(env.Alias("outer", [], "{sys.executable} -m SCons -Q"))\n')
    done = project.scons("outer")
    assert WAITING not in done.errors and done.stages == ["read", "tileaa", "tileas", "llvm", "ptx"]


def test_a_watch_does_not_keep_builds_waiting(project, start):
    with open(project.path("SConstruct"), "a", encoding="utf-8") as file:
        file.write("env.TileWatch()\n")
    watching = start("watch")
    while not watching.stdout.readline().startswith("watching"):
        assert watching.poll() is None
    assert WAITING not in project.scons("num_warps=8").errors
    watching.send_signal(signal.SIGINT)
    assert watching.wait(20) == 0


def test_a_lock_is_that_of_the_directory_as_it_is_now(tmp_path):
    """A lock file that is removed during the wait does not count."""
    build = str(tmp_path / "build")
    code = (
        "import shutil, sys, time\n"
        "from tileiras.build.ledger.lock import BuildLock\n"
        f"held = BuildLock({build!r}, print)\nheld.acquire()\nprint('held', flush=True)\n"
        f"sys.stdin.readline()\nshutil.rmtree({build!r})\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    lines = []

    def say(line: str) -> None:
        lines.append(line)
        holder.stdin.write("\n")
        holder.stdin.flush()

    with lock.BuildLock(build, say), lock.BuildLock(str(tmp_path / "other"), pytest.fail):
        assert lines == [f"{WAITING} {holder.pid} (-c), which builds in {build}"]
        assert os.path.isfile(os.path.join(build, lock.FILE))
        holder.communicate(timeout=20)
    assert holder.returncode == 0


def test_the_next_build_waits_for_workers_of_one_that_was_killed(tmp_path):
    build = str(tmp_path / "build")
    code = (
        "import sys\nfrom tileiras.build.ledger.lock import working\n"
        f"with working({build!r}):\n    print('at work', flush=True)\n    sys.stdin.readline()\n"
    )
    worker = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdout.readline() == "at work\n"
    import threading

    taken = threading.Event()

    def take() -> None:
        with lock.BuildLock(build, pytest.fail):
            taken.set()

    thread = threading.Thread(target=take)
    thread.start()
    assert not taken.wait(0.3)
    worker.communicate("\n", timeout=20)
    assert taken.wait(20)
    thread.join()


def test_a_folder_without_locks_is_built_in(tmp_path, monkeypatch):
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(lock.fcntl, "flock", refuse)
    with lock.BuildLock(str(tmp_path / "build"), pytest.fail), lock.working(str(tmp_path / "build")):
        pass

"""`scons -j`: stages in worker processes."""

import os
import signal
import subprocess
import sys
import time

import pytest
from project import CHECKOUT, Project, axpy, module

from tileiras.build.run import worker
from tileiras.build.run.execute import Session
from tileiras.build.run.worker import Place, Request, perform_chain
from tileiras.build.step import Step
from tileiras.build.store.local import OFF, READ_WRITE, SIZE_LIMIT, ArtifactStore
from tileiras.options import CompileOptions
from tileiras.pipeline import stages_between
from tileiras.processes import forking, workers
from tileiras.processes.workers import WorkerDied

KERNELS = {
    "one": module(axpy("one")),
    "two": module(axpy("first"), axpy("second", operation="mulf")),
    "three": module(axpy("three", operation="maxf")),
}


def project(folder) -> Project:
    result = Project(folder)
    for name, text in KERNELS.items():
        result.write(f"kernels/{name}.mlir", text)
    return result


@pytest.mark.sampled(1)
@pytest.mark.parametrize("store", [None, "off"])
def test_workers_give_the_artifacts_of_one_process(tmp_path, store):
    items = []
    for jobs in ("-j1", "-j3"):
        tree = project(tmp_path / jobs)
        tree.store = store or tree.store
        first = tree.scons(jobs)
        assert sorted(first.ran) == sorted(
            f"{stage} {name}" for stage, names in {
                "read": ["one.cuda_tile.mlir", "two.cuda_tile.mlir", "three.cuda_tile.mlir"],
                **{stage: [f"{entry}{suffix}" for entry in ("one", "first", "second", "three")]
                   for stage, suffix in (("tileaa", ".tileaa.mlir"), ("tileas", ".tileas.mlir"), ("llvm", ".ll"),
                                         ("ptx", ".ptx"))},
            }.items() for name in names
        )  # fmt: skip
        assert tree.scons(jobs, "tile_full=1").stages == []
        items.append(tree.artifacts())
    assert items[0] == items[1]


def test_edits_run_the_same_stages_as_in_one_process(tmp_path):
    tree = project(tmp_path)
    tree.scons("-j2")
    tree.write("kernels/one.mlir", "// a comment\n" + KERNELS["one"])
    assert tree.scons("-j2").ran == ["read one.cuda_tile.mlir"]
    tree.write("kernels/two.mlir", module(axpy("first"), axpy("second", operation="subf")))
    ran = tree.scons("-j2").ran
    assert ran[0] == "read two.cuda_tile.mlir" and len(ran) == 5 and all("second" in line for line in ran[1:])
    tree.delete_build()
    assert tree.scons("-j2").stages == []


def test_the_path_of_the_temporary_folder_may_be_long(tmp_path):
    """The path of a socket may not."""
    temporary = tmp_path / ("x" * 100)
    temporary.mkdir()
    build = project(tmp_path).scons("-j2", TMPDIR=str(temporary))
    assert len(build.ran) == 19 and not os.listdir(temporary)


def test_errors_and_exit_codes_are_those_of_one_process(tmp_path):
    items = []
    for jobs in ("-j1", "-j2"):
        tree = project(tmp_path / jobs)
        tree.write("kernels/bad.mlir", "cuda_tile.module @k {\n  entry @bad( {\n}\n")
        tree.write("kernels/sine.mlir", KERNELS["one"].replace("addf %v, %v rounding<nearest_even>", "sin %v"))
        build = tree.scons("-k", jobs, "libdevice=nowhere.bc", expect=2)
        items.append((sorted(build.errors.splitlines()), sorted(build.ran)))
    assert items[0] == items[1]


# ---- the pool itself -------------------------------------------------------------------------------------------------


def chain(folder) -> Step:
    """The steps of a kernel from `read` to `tileas`; the first of them."""
    (folder / "k.mlir").write_text(KERNELS["one"])
    options = CompileOptions({"gpu-name": "sm_90"})
    steps = []
    result, tables = "k.mlir", []
    for row in stages_between("read", "tileas"):
        stem = "out/k" if row.name == "read" else "out/k/one"
        wanted = [row.suffix, row.location_suffix]
        if row.name == "read":
            wanted += ["/one" + row.suffix, "/one" + row.location_suffix]
        steps.append(Step(row, result, stem, wanted, "k.mlir", "k.mlir", options, "one", list(tables)))
        result = "out/k/one" + row.suffix
        tables.insert(0, "out/k/one" + row.location_suffix)
    for step, after in zip(steps, steps[1:], strict=False):
        step.next = after
    return steps[0]


def place(folder) -> Place:
    return Place(OFF, READ_WRITE, SIZE_LIMIT, str(folder / "out"))


@pytest.fixture
def pool():
    result = worker.pool(1)
    yield result
    result.close()


def test_a_worker_continues_with_successors_and_is_reused(tmp_path, pool):
    request = Request(place(tmp_path), str(tmp_path), chain(tmp_path))
    reply = pool.run(request)
    assert [(report.stage, report.code, report.cached) for report in reply.reports] == [
        ("read", 0, False), ("tileaa", 0, False), ("tileas", 0, False),
    ]  # fmt: skip
    assert (tmp_path / "out" / "k" / "one.tileas.mlir").is_file()
    (only,) = pool._idle
    process = only.pid
    # The chain ends at an artifact that is in the build directory.
    assert [report.stage for report in pool.run(request).reports] == ["read"]
    assert [idle.pid for idle in pool._idle] == [process]


def test_a_row_in_the_store_ends_the_chain(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = ArtifactStore(str(tmp_path / "store"), pytest.fail)
    first = chain(tmp_path)
    assert len(perform_chain(Session(store), first)) == 3
    for path in ("k.cuda_tile.mlir", "k/one.cuda_tile.mlir"):
        os.unlink(tmp_path / "out" / path)
    assert [(report.stage, report.cached) for report in perform_chain(Session(store), first)] == [("read", True)]
    store.close()


def test_spawned_workers_do_the_same(tmp_path, monkeypatch, pool):
    monkeypatch.setattr(workers, "FORKS", False)
    reply = pool.run(Request(place(tmp_path), str(tmp_path), chain(tmp_path)))
    assert [report.code for report in reply.reports] == [0, 0, 0]
    assert (tmp_path / "out" / "k" / "one.tileas.mlir").is_file()


def test_a_worker_killed_between_requests_is_replaced(tmp_path, pool):
    request = Request(place(tmp_path), str(tmp_path), chain(tmp_path))
    pool.run(request)
    (killed,) = pool._idle
    os.kill(killed.pid, signal.SIGKILL)
    assert pool.run(request).reports[0].code == 0
    (other,) = pool._idle
    assert other.pid != killed.pid


def end_at_once(connection, owner):
    connection.recv()
    os._exit(7)


def end_the_first_time(connection, owner):
    if not os.path.exists("ended"):
        open("ended", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    worker.serve(connection, owner)


def test_a_kernel_that_ends_its_worker_twice_is_reported(tmp_path, pool):
    pool._serve = end_at_once
    with pytest.raises(WorkerDied, match="ended twice: exit status 7, exit status 7"):
        pool.run(Request(place(tmp_path), str(tmp_path), chain(tmp_path)))


FORKS = """\
import os, signal, threading, time
from tileiras.build.run import worker

pool = worker.pool(3)
first = pool.start()
forker = pool._forker
os.kill(forker.pid, signal.SIGSTOP)
started = [first]
thread = threading.Thread(target=lambda: started.extend([pool.start(), pool.start()]))
thread.start()
time.sleep(0.5)
os.kill(forker.pid, signal.SIGKILL)
thread.join()
print(len({each.pid for each in started}), pool._forker.pid != forker.pid)
print([each.end() for each in started])
"""


@pytest.mark.skipif(not workers.FORKS, reason="workers are spawned")
def test_workers_restart_if_their_forking_process_is_killed(tmp_path):
    """It is killed while a worker is starting; a worker forked before goes on, and its exit status is not reported."""
    environment = {**os.environ, "PYTHONPATH": CHECKOUT}
    done = subprocess.run(
        [sys.executable, "-c", FORKS], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "3 True\n['exit status unknown', 'exit status 0', 'exit status 0']\n", done.stderr


REFUSED = """\
import os

whole = os.fork

def refused():
    os.fork = whole
    raise BlockingIOError(11, "Resource temporarily unavailable")

os.fork = refused
"""


@pytest.mark.skipif(not workers.FORKS, reason="workers are spawned")
def test_a_worker_is_forked_again_when_the_system_refuses(tmp_path, monkeypatch):
    """For lack of processes or memory; workers that run are not affected."""
    (tmp_path / "refused.py").write_text(REFUSED)
    monkeypatch.syspath_prepend(str(tmp_path))
    pool = workers.Pool(2, worker.serve, ["refused"])
    forkers = []
    monkeypatch.setattr(workers, "Forker", lambda *given: forkers.append(forking.Forker(*given)) or forkers[-1])
    started = pool.start()
    assert started.end() == "exit status 0" and len(forkers) == 1
    pool.close()


KILLED = """\
import os, signal
from tileiras.build.run import worker

pool = worker.pool(3)
first = pool.start()
forker = pool._forker.pid
os.kill(forker, signal.SIGKILL)
second = pool.start()
print(first.pid, second.pid, pool._forker.pid, flush=True)
for pid in (second.pid, pool._forker.pid, os.getpid()):
    os.kill(pid, signal.SIGKILL)
"""


@pytest.mark.skipif(not workers.FORKS, reason="workers are spawned")
def test_nothing_stays_of_a_build_whose_processes_are_killed(tmp_path):
    """Neither a file, in whichever order they are killed, nor a worker that is alive then."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "PYTHONPATH": CHECKOUT, "TMPDIR": str(temporary)}
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = [int(pid) for pid in done.stdout.split()]
    until = time.monotonic() + 60
    while any(os.path.exists(f"/proc/{pid}") for pid in left):
        assert time.monotonic() < until, left
        time.sleep(0.05)
    assert not os.listdir(temporary)


def test_where_no_worker_can_be_started_the_build_says_so(monkeypatch):
    def refuse(*_):
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(workers, "Forker", refuse)
    monkeypatch.setattr(workers, "RESTART_SECONDS", (0.0, 0.0))
    with pytest.raises(WorkerDied, match="no process that compiles can be started: .*Connection refused"):
        worker.pool(1).start()


EXIT = """\
from tileiras.build.run import dispatch
from tileiras.processes import workers

pool = dispatch._workers(2)
pool._idle.append(pool.start())
whole = workers._Worker.end
workers._Worker.end = lambda self: print(whole(self))
"""


def test_workers_end_by_themselves_before_their_build_does(tmp_path):
    """multiprocessing terminates workers at exit, in the middle of their uploads if the pool were closed after it."""
    environment = {**os.environ, "PYTHONPATH": CHECKOUT}
    done = subprocess.run([sys.executable, "-c", EXIT], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "exit status 0\n", done.stderr


def test_a_kernel_whose_worker_was_killed_once_is_tried_again(tmp_path, pool, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pool._serve = end_the_first_time
    reply = pool.run(Request(place(tmp_path), str(tmp_path), chain(tmp_path)))
    assert os.path.exists("ended")
    assert [report.code for report in reply.reports] == [0, 0, 0]


def test_killed_workers_are_reported_and_the_build_continues(tmp_path):
    tree = project(tmp_path)
    tree.write("sitecustomize.py", (
        "import os, sys\n"
        "import tileiras.stages.tileas as stage\n"
        "whole = stage.run\n"
        "def run(source, options, context):\n"
        "    if context.source_name == 'kernels/three.mlir':\n"
        "        os.kill(os.getpid(), 9)\n"
        "    return whole(source, options, context)\n"
        "stage.run = run\n"
    ))  # fmt: skip
    build = tree.scons("-k", "-j2", expect=2, PYTHONPATH=os.pathsep.join([tree.folder, CHECKOUT]))
    assert "kernels/three.mlir: the process that compiled it ended twice: SIGKILL, SIGKILL" in build.errors
    assert {name for name in build.ran if name.startswith("ptx")} == {"ptx one.ptx", "ptx first.ptx", "ptx second.ptx"}

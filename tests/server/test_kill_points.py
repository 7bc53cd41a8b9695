"""A command that is killed at any point of the assembler's work leaves no temporary folder and no process, with the
service and without."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serving import CHECKOUT, Service

HOOKS = """\
import os, signal, sys

def hook(event, arguments):
    name, _, part = os.environ.get("KILL_POINT", "").partition(" ")
    if event == name and part in str(arguments[0]):
        try:
            os.unlink(os.environ["KILL_ONCE"])
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
"""
"""Kills the first process that reaches a point: an audit event, and a part of its first argument."""

POINTS = {
    "before the folder is made": "os.mkdir temporary/tileiras-",
    "when the folder is there": "open kernel.ptx",
    "before ptxas starts": "subprocess.Popen ptxas",
    "when ptxas has ended": "open kernel.cubin",
    "before the folder is removed": "shutil.rmtree temporary/tileiras-",
}

FAKE = """\
#!/bin/sh
test "$1" = --version && exec {ptxas} --version
if rm {once} 2> /dev/null; then kill -9 $PPID; sleep 1000; fi
exec {ptxas} "$@"
"""
"""A ptxas that first kills its parent process, which cannot report it to the helper any more, and then goes on."""


@pytest.fixture(scope="module")
def hooked(tmp_path_factory) -> Iterator[Service]:
    """A service, and commands, whose processes can be killed at a point."""
    hooks = tmp_path_factory.mktemp("hooks")
    (hooks / "sitecustomize.py").write_text(HOOKS)
    service = Service(tmp_path_factory.mktemp("hooked"), f"{hooks}{os.pathsep}{CHECKOUT}")
    service.start()
    yield service
    service.stop()


def run(
    service: Service, folder: Path, server: str, *words: str, point: str = "", **environment: str
) -> subprocess.CompletedProcess[bytes]:  # fmt: skip
    """A command with one of its processes killed."""
    (folder / "once").touch()
    changes = {"KILL_POINT": point, "KILL_ONCE": str(folder / "once"), "TMPDIR": str(folder / "temporary")}
    return subprocess.run(
        [*service.command(), "k.mlir", "--gpu-name=sm_90", "-o", "k.cubin", *words], cwd=folder, check=False,
        env=service.environment(server, **changes, **environment), stdin=subprocess.DEVNULL, capture_output=True,
    )  # fmt: skip


def check(done: subprocess.CompletedProcess[bytes], folder: Path, server: str) -> None:
    """The killed process is the command itself, or the service's child; the command then does the work of the child."""
    assert not (folder / "once").exists(), "it was not killed"
    assert (done.stdout, done.stderr) == (b"", b"")
    assert done.returncode == (0 if server == "auto" else -signal.SIGKILL)
    assert (folder / "k.cubin").exists() == (server == "auto")
    soon(lambda: not os.listdir(folder / "temporary"), "a temporary folder stays")


def soon(condition: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit, what
        time.sleep(0.02)


@pytest.fixture
def place(folder: Path) -> Path:
    """A folder with a kernel, and an empty one for temporary files."""
    (folder / "temporary").mkdir()
    return folder


@pytest.mark.parametrize("server", ["off", "auto"])
@pytest.mark.parametrize("point", POINTS)
def test_no_folder_stays(hooked, place, server, point):
    check(run(hooked, place, server, point=POINTS[point]), place, server)


ASSEMBLES = """\
from tileiras.codegen import ptxas
from tileiras.processes import helper
assert helper.helper_pid() is None
ptxas.assemble(".version 7.8\\n.target sm_80\\n.address_size 64\\n.visible .entry k() {\\n  ret;\\n}\\n", "sm_80")
"""


@pytest.mark.parametrize("point", POINTS)
def test_no_folder_stays_of_a_process_that_only_assembles(hooked, place, point):
    """A process without LLVM: the PTX exists already."""
    (place / "once").touch()
    environment = hooked.environment(
        KILL_POINT=POINTS[point], KILL_ONCE=str(place / "once"), TMPDIR=str(place / "temporary")
    )
    done = subprocess.run([sys.executable, "-c", ASSEMBLES], env=environment, capture_output=True, check=False)
    check(done, place, "off")


@pytest.mark.parametrize("server", ["off", "auto"])
def test_an_unreported_assembler_ends(hooked, place, server, ptxas):
    program = place / "ptxas"
    program.write_text(FAKE.format(ptxas=ptxas, once=place / "once"))
    program.chmod(0o755)
    check(run(hooked, place, server, f"--ptxas={program}"), place, server)
    soon(lambda: not working_in(str(place / "temporary")), "ptxas goes on")


def working_in(folder: str) -> list[str]:
    """The processes whose working directory is below a folder, or was, before that was removed."""
    folders = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{process}/cwd").startswith(folder):
                folders.append(process)
        except OSError:
            pass
    return folders

"""A guard ends the programs that a killed process leaves behind, and a process that has to end with another one."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the service needs Linux")

PROGRAM = """\
import os, signal, socket, subprocess, sys, time
from tileiras.processes import guard, helper

folder, order = sys.argv[1:]
def start():
    control, theirs = socket.socketpair()
    keeper = os.fork()
    if keeper == 0:
        control.close()
        guard.serve(theirs)
    theirs.close()
    return keeper, control

keeper, control = start()
ours, lifeline = socket.socketpair()
file = guard.announcements()
client, connection = socket.socketpair()
begin, entrusted = os.pipe()
child = os.fork()
if child == 0:
    for one in (ours, control, client):
        one.close()
    os.close(entrusted)
    if os.read(begin, 1) == b"":  # not entrusted: without a guard its program would stay
        os._exit(1)
    helper.guard_with(guard.Guard(lifeline, file))
    helper.end_with(connection.fileno())
    if order in ("guard", "both"):
        os.kill(keeper, signal.SIGKILL)
        while helper._guard.is_there():
            time.sleep(0.01)
    with helper.watching(folder):
        os.mkdir(folder)
        program = subprocess.Popen(["sleep", "1000"])
        with helper.watching(program.pid):
            if order == "late":
                os.kill(keeper, signal.SIGKILL)
                while helper._guard.is_there():
                    time.sleep(0.01)
                with helper.watching(folder + "-2"):
                    os.mkdir(folder + "-2")
                    print(program.pid, flush=True)
                    time.sleep(1000)
            print(program.pid, flush=True)
            if order == "done":
                program.kill()
                program.wait()
            else:
                time.sleep(1000)
        os.rmdir(folder)
    helper.kill()
    client_has_gone = connection.recv(1)
    time.sleep(0.5)
    print("goes on", flush=True)
    os._exit(0)
connection.close()
lifeline.close()
guard.entrust(control, child, ours, file)
os.write(entrusted, b"+")
if order != "again":
    ours.close()
sys.stdin.readline()
if order == "again":
    os.kill(keeper, signal.SIGKILL)
    os.waitpid(keeper, 0)
    control.close()
    os.kill(child, signal.SIGSTOP)
    keeper, control = start()
    guard.entrust(control, child, ours, file)
    ours.close()
if order == "client":
    client.close()
elif order == "done":
    time.sleep(0.2)
    client.close()
else:
    os.kill(child, signal.SIGKILL)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
control.close()
os.waitpid(keeper, 0)
"""


def soon(condition: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit, what
        time.sleep(0.02)


def is_running(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("order", ["child", "client", "guard", "late", "again"])
def test_children_of_a_killed_process_end(tmp_path, order):
    """`client`: the program ends with another process.  `guard`, `late`: the guard was killed before, or meanwhile;
    `again`: and another one was started."""
    folder = tmp_path / "folder"
    words = [sys.executable, "-c", PROGRAM, str(folder), order]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        program = int(process.stdout.readline())
        assert folder.is_dir() and is_running(program)
        result, _ = process.communicate("\n")
    assert result.split() == [str(-signal.SIGKILL)] and process.returncode == 0
    soon(lambda: not is_running(program), "the program goes on")
    soon(lambda: not list(tmp_path.iterdir()), "a folder stays")


def test_a_process_that_has_answered_outlives_its_client(tmp_path):
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "folder"), "done"]
    done = subprocess.run(words, input="\n", capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["goes on", "0"] and not os.listdir(tmp_path)

"""The user at the other end of a connection, and processes that may have no sockets."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from serving import Service

from tests.processes import processes, until
from tileiras.processes.service import protocol

PTX = ("k.mlir", "--gpu-name=sm_90", "--emit=ptx", "-o", "k.ptx")
OTHER = 4242
"""A user that owns no files."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only a privileged user can become another")


def script(service: Service, code: str, *words: str, calls: str = "", **how) -> subprocess.Popen[str]:
    """A program in the environment of the service's commands."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], env=service.environment(CALLS=calls), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how,
    )  # fmt: skip


def works(service: Service, folder: Path) -> None:
    """Run one command, which prints no messages."""
    answer = service.run(PTX, folder)
    assert (answer.code, answer.output, answer.error) == (0, b"", b"")
    assert b".entry k" in answer.files["k.ptx"][1]


# ---- other users -----------------------------------------------------------------------------------------------------

LISTENER = f"""\
import os, socket, sys
from tileiras.processes import sockets
from tileiras.processes.service import protocol
directory = sockets.open_directory(create=True)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sockets.address(directory, sockets.name_of(protocol.identity())))
os.seteuid(int(sys.argv[1]))  # the system keeps whose socket it is when it listens (unix(7), SO_PEERCRED)
listener.listen()
print("ready", flush=True)
while True:
    connection, _ = listener.accept()
    try:
        connection.sendall({protocol.GREETING!r})
        print(len(connection.recv(100)), flush=True)
    except ConnectionError:  # who came has gone
        print(0, flush=True)
"""


@needs_root
@pytest.mark.parametrize("user", [OTHER, 0])
def test_a_process_of_another_user_gets_no_command(own_service, folder, user):
    """It listens on the service's socket and greets alike; only a process of the same user gets the request."""
    process = script(own_service, LISTENER, str(user))
    try:
        assert process.stdout.readline() == "ready\n"
        if user == OTHER:
            works(own_service, folder)
            assert process.stdout.readline() == "0\n"
            assert own_service.control("status").stdout == "no service\n"
            assert process.stdout.readline() == "0\n"
        else:
            command = subprocess.Popen([*own_service.command(), *PTX], env=own_service.environment(), cwd=folder)
            assert int(process.stdout.readline()) > 0
            command.kill()
            command.wait()
    finally:
        process.kill()
        process.communicate()
    (path,) = (own_service.runtime / "tileiras").iterdir()
    path.unlink()


CLIENT = """\
import ctypes, os, socket, sys
from tileiras.processes import sockets
from tileiras.processes.service import protocol
directory = sockets.open_directory()
name = sockets.name_of(protocol.identity())
user = int(sys.argv[1])
os.setresuid(user, user, 0)
ctypes.CDLL(None).setfsuid(0)  # files are the old user's still, the connection is not
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sockets.address(directory, name))
    print(connection.recv(10))
"""


@needs_root
@pytest.mark.parametrize("user, greeting", [(OTHER, b""), (0, protocol.GREETING)])
def test_a_client_of_another_user_gets_no_word(service, folder, user, greeting):
    before = service.facts()["requests"]
    result, wrong = script(service, CLIENT, str(user)).communicate()
    assert result == f"{greeting}\n", wrong
    assert service.facts()["requests"] == before
    works(service, folder)
    assert service.facts()["requests"] == before + 1


# ---- no sockets ------------------------------------------------------------------------------------------------------

CALLS = {"x86_64": (41, 53), "aarch64": (198, 199)}
"""Numbers of socket and socketpair (asm/unistd.h)."""

SANDBOX = """\
import ctypes, errno, os, struct, sys
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2
load, equal, end = 0x20, 0x15, 0x06
refused, allowed = 0x00050000 | errno.EACCES, 0x7FFF0000
def step(code, true, false, value):
    return struct.pack("=HBBI", code, true, false, value)
calls = [int(word) for word in os.environ["CALLS"].split(",")]
steps = step(load, 0, 0, 0)
for number in calls:
    steps += step(equal, 0, 1, number) + step(end, 0, 0, refused)
steps += step(end, 0, 0, allowed)
filter = ctypes.create_string_buffer(steps)
program = struct.pack("@HP", len(steps) // 8, ctypes.addressof(filter))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
if libc.prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.c_char_p(program), 0, 0):
    sys.exit(77)
"""

FORBIDDEN = SANDBOX + """\
import socket
for made in (lambda: socket.socket(socket.AF_UNIX), socket.socketpair):
    try:
        made()
    except PermissionError:
        continue
    sys.exit("there are sockets")
from tileiras.processes.service import client, command
sys.exit(command.program() if sys.argv[1] in ("start", "status") else client.run("tileiras"))
"""

ABSENT = """\
import sys
sys.modules["_socket"] = None
from tileiras.processes.service import client
sys.exit(client.run("tileiras"))
"""


def sandboxed(service: Service, folder: Path, *words: str) -> tuple[int, str, str]:
    """Exit code and outputs of a command, or of `tileiras-server`, that may open no socket."""
    calls = CALLS.get(platform.machine())
    if calls is None:
        pytest.skip("the numbers of this machine's system calls are not known")
    process = script(service, FORBIDDEN, *words, calls=",".join(map(str, calls)), cwd=folder)
    result, wrong = process.communicate()
    if process.returncode == 77:
        pytest.skip("this system lets no program filter its calls")
    return process.returncode, result, wrong


def test_a_sandbox_without_sockets(service, folder):
    """In a confined build the command does its work itself, with the same messages."""
    before = service.facts()["requests"]
    expected = service.run(PTX, folder, "off")
    assert sandboxed(service, folder, *PTX) == (0, "", "")
    assert (folder / "k.ptx").read_bytes() == expected.files["k.ptx"][1]
    wrong = service.run(("absent.mlir", "--gpu-name=sm_90"), folder, "off").error.decode()
    assert sandboxed(service, folder, "absent.mlir", "--gpu-name=sm_90") == (1, "", wrong)
    assert service.facts()["requests"] == before
    assert sandboxed(service, folder, "status") == (1, "no service\n", "")


def test_none_starts_from_a_sandbox_without_sockets(own_service, folder):
    assert sandboxed(own_service, folder, *PTX) == (0, "", "")
    until(lambda: not processes(own_service.runtime), "what cannot be a service goes on")
    assert own_service.files() == []
    code, result, wrong = sandboxed(own_service, folder, "start")
    assert (code, result) == (1, "") and wrong == "tileiras-server: error: [Errno 13] Permission denied\n"
    until(lambda: not processes(own_service.runtime), "what cannot be a service goes on")
    assert own_service.files() == []


def test_a_python_without_sockets(service, folder):
    before = service.facts()["requests"]
    process = script(service, ABSENT, *PTX, cwd=folder)
    assert (*process.communicate(), process.returncode) == ("", "", 0)
    assert b".entry k" in (folder / "k.ptx").read_bytes()
    assert service.facts()["requests"] == before

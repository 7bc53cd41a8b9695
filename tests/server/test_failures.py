"""If the service cannot be used, the command does its work itself; neither leaves processes or files behind."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from serving import CHECKOUT, Service

from tests.processes import parent, processes, until
from tileiras.processes import messages, sockets
from tileiras.processes.service import protocol

PTX = ("k.mlir", "--gpu-name=sm_90", "--emit=ptx", "-o", "k.ptx")


def works(service: Service, folder: Path) -> None:
    """Run one command, which prints no messages."""
    answer = service.run(PTX, folder)
    assert (answer.code, answer.output, answer.error) == (0, b"", b"")
    assert b".entry k" in answer.files["k.ptx"][1]


@pytest.fixture
def name(own_service) -> str:
    """The name of the socket for commands of `own_service`."""
    code = """\
from tileiras.processes import sockets
from tileiras.processes.service import protocol
print(sockets.name_of(protocol.identity()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=own_service.environment(), capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def private(service: Service, mode: int = 0o700) -> Path:
    path = service.runtime / "tileiras"
    path.mkdir()
    path.chmod(mode)
    return path


def clear(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def test_the_first_command_starts_and_idle_time_ends_it(own_service, folder):
    works(own_service, folder)
    until(own_service.sockets, "no service was started")
    before = own_service.facts()["requests"]
    works(own_service, folder)
    assert own_service.facts()["requests"] == before + 1
    own_service.stop()
    # Longer than the start of a command: one that finds no service starts another, which remains.
    own_service.start("--idle=5")
    works(own_service, folder)
    until(lambda: not processes(own_service.runtime), "the service does not end")
    assert own_service.files() == []


def test_a_service_that_is_loading_is_stopped_once_it_has_loaded(own_service, folder):
    works(own_service, folder)
    until(own_service.files, "no service was started")
    own_service.stop()
    assert not processes(own_service.runtime) and own_service.files() == []


def test_many_first_commands_start_one_service(own_service, folder):
    running = [
        subprocess.Popen([*own_service.command(), "--version"], env=own_service.environment(), cwd=folder,
                         stdout=subprocess.DEVNULL)
        for _ in range(4)
    ]  # fmt: skip
    assert [process.wait() for process in running] == [0] * 4
    until(own_service.sockets, "no service was started")
    number = own_service.facts()["pid"]
    # The spares that wait for a request, and the guard, are children of the service.
    until(lambda: all(number in (n, parent(n)) for n in processes(own_service.runtime)), "a second service goes on")


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_directory_that_others_can_use_is_not_used(own_service, name, folder, mode):
    path = private(own_service, mode)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path / name))
        listener.listen()
        listener.settimeout(0.05)
        works(own_service, folder)
        with pytest.raises(TimeoutError):
            listener.accept()
    assert "not a directory of this user alone" in own_service.control("start").stderr
    clear(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only a privileged user can give a directory away")
def test_a_directory_of_another_user_is_not_used(own_service, folder):
    path = private(own_service)
    os.chown(path, 12345, 12345)
    works(own_service, folder)
    assert os.listdir(path) == []
    clear(path)


def test_a_symbolic_link_is_no_private_directory(own_service, folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    elsewhere.chmod(0o700)
    (own_service.runtime / "tileiras").symlink_to(elsewhere)
    works(own_service, folder)
    assert os.listdir(elsewhere) == []
    (own_service.runtime / "tileiras").unlink()


def test_a_stale_socket_is_replaced(own_service, name, folder):
    path = private(own_service)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path / name))
    works(own_service, folder)
    until(lambda: own_service.facts().get("pid"), "nobody listens at a socket that was stale")


@pytest.mark.parametrize("backlog, taken", [(0, 8), (8, 0)])
def test_a_full_socket_and_one_without_a_server(own_service, name, folder, backlog, taken):
    path = private(own_service)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path / name))
        listener.listen(backlog)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(taken)]
        for connection in waiting:
            connection.setblocking(False)
            connection.connect_ex(str(path / name))
        works(own_service, folder)
        for connection in waiting:
            connection.close()
    clear(path)


NONSENSE = (b"", b"-", b"+", b"+nonsense without end", b"+" + sockets.MAGIC + b"x\xff\xff\xff\xff")


@pytest.mark.parametrize("answer", NONSENSE)
def test_nonsense_from_a_socket_is_no_answer(own_service, name, folder, answer):
    path = private(own_service)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path / name))
        listener.listen()
        process = subprocess.Popen([*own_service.command(), *PTX], env=own_service.environment(), cwd=folder)
        connection, _ = listener.accept()
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        assert process.wait() == 0
        connection.close()
    assert b".entry k" in (folder / "k.ptx").read_bytes()
    clear(path)


def test_no_runtime_directory(own_service, folder):
    shutil.rmtree(own_service.runtime)
    works(own_service, folder)
    own_service.runtime.write_text("a file")
    works(own_service, folder)
    own_service.runtime.unlink()
    own_service.runtime.mkdir()


def test_nonsense_from_a_client_does_no_harm(service, folder):
    (name,) = service.sockets()
    path = str(service.runtime / "tileiras" / name)
    chance = __import__("random").Random(1)
    for length in (0, 1, 8, 9, 40, 4000):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            assert connection.recv(1) == protocol.GREETING
            connection.sendall(chance.randbytes(length))
    for kind in (protocol.RUN, protocol.STATUS, b"?"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            assert connection.recv(1) == protocol.GREETING
            messages.send(connection, kind, b"another identity")
            assert messages.receive(connection)[0] == protocol.REFUSED
    works(service, folder)


def test_a_killed_service_leaves_an_unused_socket(own_service, folder):
    own_service.start()
    os.kill(own_service.facts()["pid"], signal.SIGKILL)
    until(lambda: not processes(own_service.runtime), "a spare outlives the service")
    assert own_service.files() == []
    works(own_service, folder)


# ---- killed in the middle --------------------------------------------------------------------------------------------

FAKE = """\
#!/bin/sh
test "$1" = --version && exit
echo >> {started}
test -e {go} || exec sleep 100
exec {ptxas} "$@"
"""


@pytest.fixture
def slow(own_service, folder, ptxas):
    """Start a command that waits in ptxas until the file `go` is there; give its process once it does."""
    program = folder / "ptxas"
    program.write_text(FAKE.format(started=folder / "started", go=folder / "go", ptxas=ptxas))
    program.chmod(0o755)
    (folder / "temporary").mkdir()
    own_service.start()

    def start(*words: str) -> subprocess.Popen:
        (folder / "started").unlink(missing_ok=True)
        process = subprocess.Popen(
            [*own_service.command(), "k.mlir", "--gpu-name=sm_90", f"--ptxas={program}", *words], cwd=folder,
            env=own_service.environment(TMPDIR=str(folder / "temporary")), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        until((folder / "started").exists, "it does not get that far")
        # In that time the process that started ptxas has reported it to its helper, which ends it.
        time.sleep(0.5)
        return process

    return start


def at_work(service: Service) -> list[int]:
    """Processes that work for a command: they are in its folder, those that wait for one in the service's."""
    return [n for n in processes(service.runtime) if working_folder(n) not in ("", "/")]


def working_folder(number: int) -> str:
    try:
        return os.readlink(f"/proc/{number}/cwd")
    except OSError:
        return ""


def workers(service: Service) -> list[int]:
    """The child that works on a request."""
    zygote = service.facts()["pid"]
    return [n for n in at_work(service) if parent(n) == zygote]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_request_ends_with_its_client(own_service, slow, folder, number):
    process = slow("-o", "k.cubin")
    os.killpg(process.pid, number)
    assert process.communicate() == (b"", b"") and process.returncode == -number
    zygote = own_service.facts()["pid"]
    until(lambda: not workers(own_service), "the request goes on")
    until(lambda: not at_work(own_service), "ptxas goes on")
    until(lambda: not os.listdir(folder / "temporary"), "a temporary folder stays")
    assert not (folder / "k.cubin").exists() and own_service.facts()["pid"] == zygote


def test_a_command_whose_child_is_killed_does_the_work_itself(own_service, slow, folder):
    process = slow("-o", "k.cubin")
    (folder / "go").touch()
    (number,) = workers(own_service)
    os.kill(number, signal.SIGKILL)
    assert process.communicate() == (b"", b"") and process.returncode == 0
    assert (folder / "k.cubin").read_bytes().startswith(b"\x7fELF")
    until(lambda: not os.listdir(folder / "temporary"), "a temporary folder stays")


def test_a_request_outlives_the_service(own_service, slow, folder):
    process = slow("-o", "k.cubin")
    (folder / "go").touch()
    before = set(folder.iterdir())
    for number in processes(own_service.runtime) - {process.pid}:
        os.kill(number, signal.SIGKILL)
    assert process.communicate() == (b"", b"") and process.returncode == 0
    assert set(folder.iterdir()) - before == {folder / "k.cubin"}
    clear(own_service.runtime / "tileiras")


def test_output_written_to_a_pipe_is_not_repeated(own_service, slow, folder):
    """The IR of an earlier pass is out when ptxas runs: the command ends as if it had been killed itself."""
    process = slow("-o", "k.cubin", "--mlir-print-ir-after=tileas-insert-barriers")
    (folder / "go").touch()
    (number,) = workers(own_service)
    os.kill(number, signal.SIGKILL)
    _, result = process.communicate()
    assert process.returncode == -signal.SIGKILL and result and not (folder / "k.cubin").exists()


# ---- another compiler ------------------------------------------------------------------------------------------------


@pytest.fixture
def edited_tree(tmp_path_factory):
    """A copy of the compiler, a service of it, and a function that changes one module of it."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(
        os.path.join(CHECKOUT, "tileiras"), tree / "tileiras", ignore=shutil.ignore_patterns("__pycache__")
    )
    module = tree / "tileiras" / "cli" / "tileiras.py"

    def edit() -> None:
        text = module.read_text()
        module.write_text(text.replace('f"{version}\\n" for version', 'f"edited {version}\\n" for version'))

    service = Service(tmp_path_factory.mktemp("edited"), str(tree))
    try:
        service.start()
        yield service, edit
    finally:
        service.stop()


def test_an_edited_module_is_another_service_at_once(edited_tree, folder):
    service, edit = edited_tree
    first = service.facts()["pid"]
    assert service.run(("--list-versions",), folder).output == b"13.1\n13.2\n13.3\n13.4\n13.5\n"
    assert service.facts()["requests"] == 1
    edit()
    assert service.run(("--list-versions",), folder).output.startswith(b"edited 13.1\n")
    until(lambda: service.facts().get("pid") not in (None, first), "no other service")
    assert service.run(("--list-versions",), folder).output.startswith(b"edited 13.1\n")
    assert service.facts()["requests"] == 1


def test_a_service_that_is_busy_hears_later_that_it_is_edited(edited_tree, folder):
    """The child reports a request and an outdated service, and ends, before the zygote reads the first report."""
    service, edit = edited_tree
    first = service.facts()["pid"]
    edit()
    os.kill(first, signal.SIGSTOP)
    try:
        assert service.run(("--list-versions",), folder).output.startswith(b"edited 13.1\n")
    finally:
        os.kill(first, signal.SIGCONT)

    def is_settled() -> bool:
        """Whether the first service has ended, and the one that the command started instead answers or has ended."""
        number = service.facts().get("pid")
        return number != first and (number is not None or not processes(service.runtime))

    until(is_settled, "the service goes on")


def test_a_start_waits_for_a_service_that_is_being_loaded(monkeypatch):
    """The process that `start` began then ends at once, and is waited for once."""
    from tileiras.processes.service import client, command

    answers = iter([None] * 20 + [{}])
    monkeypatch.setattr(command, "ask", lambda kind: next(answers))
    monkeypatch.setattr(client, "spawn", lambda name, idle, said: os.posix_spawn("/bin/true", ["true"], {}))
    assert command.start() == ""

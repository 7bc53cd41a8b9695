"""Without TILEIRAS_SERVER, the second command within ten minutes starts the service, where its rules permit it."""

import os
import subprocess
import sys
import time

import pytest
from serving import KERNEL, Service

from tests.processes import until
from tileiras.processes.service import client

# The default leaves the user out that a container runs tests as.
RUN = "import sys\nfrom tileiras.processes.service import client\nclient.ROOT = %d\nsys.exit(client.run('tileiras'))"
LEFT_OUT = ("CI", *client.BATCH)


@pytest.fixture
def command(own_service: Service, tmp_path, request):
    """Run one small command; returns its standard error."""
    own_service.runtime.chmod(0o700)
    (tmp_path / "k.mlir").write_text(KERNEL)

    def run(root: int = -1, **changes: str) -> str:
        environment = own_service.environment("", **changes)
        environment = {name: value for name, value in environment.items() if name not in LEFT_OUT or name in changes}
        words = [sys.executable, "-c", RUN % root, "k.mlir", "--gpu-name=sm_90", "--emit=cuda_tile", "-o", "k.out"]
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return done.stderr

    yield run
    own_service.control("stop")
    for name in own_service.files():
        if name == "told" or name.endswith(".first"):
            os.unlink(own_service.runtime / "tileiras" / name)


def test_the_second_command_starts_it_and_tells_it_once(own_service: Service, command):
    assert command() == "" and [name.rpartition(".")[2] for name in own_service.files()] == ["first"]
    assert command().startswith("tileiras: a service was started")
    until(lambda: own_service.facts(), "no service was started")
    assert command() == "" and own_service.facts()["requests"] == 1
    own_service.control("stop")
    assert command() == "" and command() == ""
    until(lambda: own_service.facts(), "no service was started again")


def test_two_commands_far_apart_start_none(own_service: Service, command):
    command()
    (first,) = (own_service.runtime / "tileiras").glob("*.first")
    past = time.time() - client.SECONDS - 1
    os.utime(first, (past, past))
    assert command() == "" and own_service.facts() == {}
    assert command().startswith("tileiras: a service was started")


@pytest.mark.parametrize("name", LEFT_OUT)
def test_variables_that_leave_it_out(own_service: Service, monkeypatch, name):
    own_service.runtime.chmod(0o700)
    monkeypatch.setattr(client, "ROOT", -1)
    for other in LEFT_OUT:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(own_service.runtime))
    assert not client._is_left_out()
    monkeypatch.setenv(name, "true")
    assert client._is_left_out()


def test_users_and_folders_that_leave_it_out(own_service: Service, monkeypatch):
    for other in LEFT_OUT:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setattr(client, "ROOT", -1)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(own_service.runtime))
    own_service.runtime.chmod(0o755)
    assert client._is_left_out(), "others may enter the folder"
    own_service.runtime.chmod(0o700)
    assert not client._is_left_out()
    monkeypatch.setattr(client, "ROOT", os.geteuid())
    assert client._is_left_out()
    monkeypatch.setattr(client, "ROOT", -1)
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert client._is_left_out()


def test_off_leaves_nothing_behind(own_service: Service, command):
    for _ in range(2):
        command(TILEIRAS_SERVER="off")
    assert own_service.files() == []

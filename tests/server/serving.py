"""Shared by the tests of the service: a service in a folder of its own, and commands that run with it or without."""

from __future__ import annotations

import functools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.processes import processes, until
from tileiras.processes import messages, sockets
from tileiras.processes.service import protocol

CHECKOUT = str(Path(__file__).parents[2])

KERNEL = """\
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>) {
    %i = iota : tile<16xi32>
    %b = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %q = broadcast %b : tile<1xptr<f32>> -> tile<16xptr<f32>>
    %a = offset %q, %i : tile<16xptr<f32>>, tile<16xi32> -> tile<16xptr<f32>>
    %v, %t = load_ptr_tko weak %a : tile<16xptr<f32>> -> tile<16xf32>, token
    %e = exp %v : tile<16xf32>
    %t2 = store_ptr_tko weak %a, %e : tile<16xptr<f32>>, tile<16xf32> -> token
    return
  }
}
"""

class Answer(NamedTuple):
    """The results of a command: exit code, both outputs, files with their modes."""

    code: int
    output: bytes
    error: bytes
    files: dict[str, tuple[int, bytes]]


class Service:
    """A service whose socket is in `folder`, of the compiler in `code`, in a Python with some options."""

    def __init__(self, folder: Path, code: str = CHECKOUT, options: Sequence[str] = ()) -> None:
        self.runtime = folder / "runtime"
        self.runtime.mkdir()
        self.code = code
        self._python = [sys.executable, *options]
        self.variables: dict[str, str] = {}
        """Additional variables of the service and of every command."""

    def environment(self, server: str = "auto", **changes: str) -> dict[str, str]:
        result = {name: value for name, value in os.environ.items() if name != "TILEIRAS_REMOTE_CACHE"}
        return {
            **result, "PYTHONPATH": self.code, "XDG_RUNTIME_DIR": str(self.runtime), "TILEIRAS_CACHE_DIR": "off",
            "TILEIRAS_SERVER": server, **self.variables, **changes,
        }  # fmt: skip

    def control(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`tileiras-server` with these words."""
        return subprocess.run(
            [*self._python, "-m", "tileiras.processes.service.command", *words],
            env=self.environment(), cwd=self.runtime,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def start(self, *words: str) -> None:
        done = self.control("start", *words)
        assert done.returncode == 0, done.stderr

    def stop(self) -> None:
        """End the service, and wait until all its processes and files are gone."""
        self.control("stop")
        until(lambda: not processes(self.runtime), "a process of the service goes on")
        assert self.files() == []

    def facts(self) -> dict:
        """The figures that `tileiras-server status` prints, requested by this process instead of that command; {} if no
        service runs."""
        try:
            directory = os.open(self.runtime / "tileiras", os.O_PATH | os.O_DIRECTORY)
        except OSError:
            return {}
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(300)
                connection.connect(sockets.address(directory, sockets.name_of(self._identity)))
                if connection.recv(1) != protocol.GREETING:
                    return {}
                messages.send(connection, protocol.STATUS, self._identity)
                kind, fields, _ = messages.receive(connection)
                return json.loads(fields[0]) if kind == protocol.FACTS else {}
        except (OSError, EOFError, sockets.ProtocolError):
            return {}
        finally:
            os.close(directory)

    @functools.cached_property
    def _identity(self) -> bytes:
        """The identity that its commands send."""
        code = (
            "import sys; from tileiras.processes.service import protocol\n"
            "sys.stdout.buffer.write(protocol.identity())"
        )
        # Not where the tests were started: that may be a checkout, whose modules come first.
        done = subprocess.run(
            [*self._python, "-c", code], env=self.environment(), cwd=self.runtime, capture_output=True, check=True
        )
        return done.stdout

    def files(self) -> list[str]:
        """The files of the private directory."""
        folder = self.runtime / "tileiras"
        return sorted(os.listdir(folder)) if folder.exists() else []

    def sockets(self) -> list[str]:
        return [name for name in self.files() if "." not in name]

    def command(self, program: str = "tileiras") -> list[str]:
        """The installed command, apart from the file that the installer writes."""
        code = f"import sys; from tileiras.processes.service import client; sys.exit(client.run({program!r}))"
        return [*self._python, "-c", code]

    def run(
        self, words: Sequence[str], folder: Path, server: str = "auto", program: str = "tileiras",
        environment: Mapping[str, str] = {}, **how,
    ) -> Answer:  # fmt: skip
        """One command in a folder; the files that it leaves are removed."""
        before = set(os.listdir(folder))
        how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
        if "input" in how:
            del how["stdin"]
        done = subprocess.run(
            [*self.command(program), *words], cwd=folder, env=self.environment(server, **environment), check=False,
            **how,
        )  # fmt: skip
        files = {}
        for name in sorted(set(os.listdir(folder)) - before):
            path = folder / name
            files[name] = (path.stat().st_mode, path.read_bytes())
            path.unlink()
        return Answer(done.returncode, done.stdout, done.stderr, files)

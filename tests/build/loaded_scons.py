"""Runs of SCons in processes forked from one that has loaded SCons and the compiler.

Most of the time of a build of small kernels goes to imports.  Otherwise such a run is that of `python -m SCons`: a
process with its own environment, folder, standard streams and exit.  Two processes take turns, since the order of sets
differs between them: consecutive runs of a project have two hash seeds, as those of separate processes do.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import runpy
import selectors
import socket
import subprocess
import sys
import threading

READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_")
"""Prefixes of variables that Python or its libraries read when they start."""

PACKAGES = {"SCons", "diskcache", "llvmlite", "tileiras", "xxhash"}

FIRST_BUILD = """
import sys, SCons.Environment, SCons.Script, llvmlite.binding, tileiras.build.scons.tool, tileiras.build.store.local
SCons.Environment.Environment(tools=["default", tileiras.build.tool])
from tileiras.build import command_line
tileiras.compile(open("examples/saxpy.mlir").read(), gpu_name="sm_90", emit="ptx")
print("\\n" + "\\n".join(sys.modules))
"""
"""Loads the modules of a build, and prints their names."""


class Loaded:
    """A process with the modules, which forks one process for each run."""

    def __init__(self, checkout: str) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._start = _at_start(os.environ)
        words = [sys.executable, os.path.abspath(__file__), str(theirs.fileno()), checkout]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(words, env=environment, pass_fds=[theirs.fileno()])
        theirs.close()
        self._lock = threading.Lock()
        self._owner = os.getpid()
        atexit.register(self.close)

    def close(self) -> None:
        if os.getpid() != self._owner:
            return
        # Processes forked from this one, such as LLVM's, have the socket open too: closing it here would be no end.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._process.wait()

    def suits(self, environment: dict[str, str]) -> bool:
        """Whether a process started in this environment has the same Python."""
        return _at_start(environment) == self._start

    def run(self, arguments: list[str], folder: str, environment: dict[str, str]) -> tuple[int, str, str]:
        """Exit code, output and errors; both are read to their ends, as subprocess.run does."""
        (out, out_end), (errors, errors_end) = os.pipe(), os.pipe()
        with self._lock:
            request = json.dumps([arguments, folder, environment]).encode()
            socket.send_fds(self._socket, [request], [out_end, errors_end])
            os.close(out_end)
            os.close(errors_end)
            output, messages = _read_all(out, errors)
            return int(self._socket.recv(64)), output, messages


def _at_start(environment: dict[str, str]) -> dict[str, str]:
    paths = ("PYTHONPATH",)  # a run has its own
    return {n: v for n, v in environment.items() if n.startswith(READ_AT_START) and n not in paths}


def _read_all(*files: int) -> list[str]:
    parts = {file: io.BytesIO() for file in files}
    with selectors.DefaultSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                if block := os.read(key.fd, 1 << 16):
                    parts[key.fd].write(block)
                else:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return [io.TextIOWrapper(io.BytesIO(each.getvalue())).read() for each in parts.values()]


def _load(checkout: str) -> None:
    words = [sys.executable, "-c", FIRST_BUILD]
    environment = {**os.environ, "TILEIRAS_CACHE_DIR": "off", "TILEIRAS_SERVER": "off", "PYTHONPATH": checkout}
    done = subprocess.run(words, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    for name in done.stdout.split():
        if name.partition(".")[0] in PACKAGES | sys.stdlib_module_names and name != "__main__":
            importlib.import_module(name)


def main() -> None:
    """Fork a process for each request.  Returns in the forked ones, as SCons's."""
    requests, checkout = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    installed = sys.path[1:]
    sys.path[:] = [checkout, *installed]
    _load(checkout)
    gc.collect()
    gc.freeze()
    while True:
        request, files, _, _ = socket.recv_fds(requests, 1 << 20, 2)
        if not request:
            sys.exit()
        if (process := os.fork()) == 0:
            break
        for file in files:
            os.close(file)
        requests.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
    requests.close()
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
        os.close(file)
    arguments, folder, environment = json.loads(request)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = [os.getcwd(), *environment["PYTHONPATH"].split(os.pathsep), *installed]
    sys.argv = ["-m", *arguments]
    sys.orig_argv = [sys.executable, "-m", "SCons", *arguments]


if __name__ == "__main__":
    main()
    runpy._run_module_as_main("SCons")  # as `python -m` does

"""Commands through the compile service while it, its children and the commands are killed at random.

    python -m bench service_kills [COUNT] [SEED]

Commands run beside each other; at random times one process of them and of the service gets SIGKILL, until that has
happened COUNT times.  A command that is not killed must leave the cubin that a command without a service makes, say
nothing and end with 0.  In the end nothing is running that belongs to any of it, and no socket and no temporary file
stays.  Ends with exit code 1 when that is not so.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

COUNT = 500
SEED = 1
BESIDE = 6
"""Commands that run at once."""

LEAST_PAUSE = 0.1
"""Seconds between two kills at the most; longer where a command takes longer, so that about half of them live."""

WEIGHTS = {"service": 1, "client": 8, "child": 31}
"""How often each kind is chosen: a service takes seconds to be there, and has children only then."""

CLIENT = "import sys; from tileiras.processes.service import client; sys.exit(client.run('tileiras'))"
TARGETS = ("sm_80", "sm_90", "sm_100")


class Kills:
    """Commands on one `source` in a folder, and their faults."""

    def __init__(self, folder: str, source: str, seed: int) -> None:
        self._chance = random.Random(seed)
        self._folder = folder
        self._source = source
        self.runtime, self.temporary = (os.path.join(folder, name) for name in ("runtime", "temporary"))
        for path in (self.runtime, self.temporary):
            os.mkdir(path)
        self._environment = {
            **os.environ, "XDG_RUNTIME_DIR": self.runtime, "TMPDIR": self.temporary, "TILEIRAS_CACHE_DIR": "off",
            "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
        }  # fmt: skip
        self._running: dict[subprocess.Popen, tuple[str, str]] = {}
        self._killed: set[int] = set()
        self._number = 0
        self.kills = {"service": 0, "client": 0, "child": 0}
        self.whole = 0
        self.problems: list[str] = []
        start = time.monotonic()
        self._expected = {target: self._product(target) for target in TARGETS}
        self._pause = max(LEAST_PAUSE, (time.monotonic() - start) / len(TARGETS))

    def _start(self, target: str, path: str, server: str) -> subprocess.Popen:
        words = [self._source, "--gpu-name", target, "-o", path]
        return subprocess.Popen(
            [sys.executable, "-c", CLIENT, *words], env={**self._environment, "TILEIRAS_SERVER": server},
            cwd=self._folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def _product(self, target: str) -> bytes:
        path = os.path.join(self._folder, f"{target}.cubin")
        process = self._start(target, path, "off")
        assert process.communicate()[0] == b"" and process.returncode == 0
        return _read(path)

    def run(self, count: int) -> None:
        while sum(self.kills.values()) < count:
            while len(self._running) < BESIDE:
                self._number += 1
                target = self._chance.choice(TARGETS)
                path = os.path.join(self._folder, f"out-{self._number}")
                self._running[self._start(target, path, "auto")] = (target, path)
            time.sleep(self._chance.random() * self._pause)
            self._kill_one()
            for process in [process for process in self._running if process.poll() is not None]:
                self._check(process)
        for process in list(self._running):
            process.wait()
            self._check(process)
        self._check_end()

    def _kill_one(self) -> None:
        """Kill a process of the service or a command; processes of a child (ptxas) are not killed."""
        clients = {process.pid for process in self._running}
        result = processes(self.runtime)
        # A service has its own session; a process that a request started when its service was killed is in it, too.
        services = [pid for pid in result if _session(pid) == pid]
        children = [pid for pid in result if parent(pid) in services]
        (kind,) = self._chance.choices(tuple(WEIGHTS), tuple(WEIGHTS.values()))
        candidates = {"service": services, "client": sorted(clients), "child": children}[kind]
        if candidates:
            pid = self._chance.choice(sorted(candidates))
            if kind == "client":
                self._killed.add(pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            self.kills[kind] += 1

    def _check(self, process: subprocess.Popen) -> None:
        target, path = self._running.pop(process)
        result = process.stdout.read() if process.stdout is not None else b""
        if process.stdout is not None:
            process.stdout.close()
        if process.pid in self._killed and process.returncode == -signal.SIGKILL:
            if os.path.exists(path) and _read(path) != self._expected[target]:
                self.problems.append(f"a killed command has left half of {target}")
        elif process.returncode != 0 or result:
            self.problems.append(f"exit code {process.returncode}: {result.decode(errors='replace')}")
        elif _read(path) != self._expected[target]:
            self.problems.append(f"another cubin for {target}")
        else:
            self.whole += 1
        if os.path.exists(path):
            os.unlink(path)

    def _check_end(self) -> None:
        subprocess.run(
            [sys.executable, "-m", "tileiras.processes.service.command", "stop"], env=self._environment, check=True,
            cwd=self._folder,
        )  # fmt: skip
        limit = time.monotonic() + 60
        while left := processes(self.runtime):
            if time.monotonic() > limit:
                self.problems.append(f"still running: {left}")
                break
            time.sleep(0.05)
        folder = os.path.join(self.runtime, "tileiras")
        for place in (folder, self.temporary):
            names = os.listdir(place) if os.path.isdir(place) else []
            if names:
                self.problems.append(f"left in {os.path.basename(place)}: {sorted(names)}")
        temporary = [name for name in os.listdir(self._folder) if name.endswith(".tmp")]
        if temporary:
            self.problems.append(f"left beside outputs: {temporary}")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def processes(runtime: str | os.PathLike[str]) -> set[int]:
    """Those whose environment names a runtime directory: services, their children, and commands."""
    result = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if b"XDG_RUNTIME_DIR=" + os.fsencode(runtime) in file.read().split(b"\0"):
                        result.add(int(name))
            except OSError:
                pass
    return result


def parent(pid: int) -> int:
    """The number of a process's parent, 0 for one that has gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


SOURCE = """\
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>) {
    %v = constant <f32: 1.0> : tile<f32>
    %t = store_ptr_tko weak %p, %v : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}
"""


def reported(kills: Mapping[str, int], done: str, problems: Sequence[str]) -> int:
    """Print the outcome of random kills; return the exit code."""
    print(f"{sum(kills.values())} kills ({dict(kills)}), {done}, {len(problems)} problems")
    for problem in problems:
        print(f"  {problem}")
    return 1 if problems else 0


def main(arguments: Sequence[str] = ()) -> int:
    count, seed = (*map(int, arguments), *(COUNT, SEED)[len(arguments) :])
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "k.mlir")
        with open(source, "w", encoding="utf-8") as file:
            file.write(SOURCE)
        kills = Kills(folder, source, seed)
        kills.run(count)
    return reported(kills.kills, f"{kills.whole} commands with their cubins", kills.problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

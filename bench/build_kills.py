"""Builds that ask the compile service and the monitor, while any process of it all is killed at random.

    python -m bench.build_kills [COUNT] [SEED]

`scons -j3` builds a tree of kernels, and cubins by commands that the service answers, after edits, with a store.  Of
the build, its workers and their processes, the commands, the service, its children and the monitor one gets SIGKILL at
a random time, and another one after that, until that has happened COUNT times.  If only the service's processes or the
monitor were killed, the build must end well.  After each, another one is let run: it must end well and leave the
artifacts of a build from nothing, without service, monitor and store.  In the end nothing is running that belongs to
any of it, and no socket and no temporary file stays.  Ends with exit code 1 when that is not so.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from bench.service_kills import parent, processes, reported

COUNT = 500
SEED = 1
JOBS = 3

LONGEST_PAUSE = 0.6
"""Seconds between two kills."""

FIRST_PAUSE = 3.0
"""The longest time before the first of a build: some have ended by then."""

SCONSTRUCT = """\
import os, sys
from tileiras.build import tool
env = Environment(tools=[tool], ENV=os.environ, sm="sm_90", emit="cubin")
env.Default(env.TileTree("kernels"))
run = "import sys; from tileiras.processes.service import client; sys.exit(client.run('tileiras'))"
for name in NAMES:
    words = [sys.executable, "-c", run, "$SOURCE", "--gpu-name=sm_80", "-o", "$TARGET"]
    env.Default(env.Command("commands/" + name + ".cubin", "kernels/" + name + ".mlir", [words]))
"""

NAMES = ("a", "b", "c")
OPERATIONS = ("negf", "exp", "sin")

KERNEL = """\
cuda_tile.module @m {
  entry @NAME(%p: tile<ptr<f32>>) {
    %i = iota : tile<16xi32>
    %b = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %q = broadcast %b : tile<1xptr<f32>> -> tile<16xptr<f32>>
    %a = offset %q, %i : tile<16xptr<f32>>, tile<16xi32> -> tile<16xptr<f32>>
    %v, %t = load_ptr_tko weak %a : tile<16xptr<f32>> -> tile<16xf32>, token
    %e = OPERATION %v : tile<16xf32>
    %t2 = store_ptr_tko weak %a, %e : tile<16xptr<f32>>, tile<16xf32> -> token
    return
  }
}
"""

OF_THE_BUILD = ("scons", "worker", "command")

WEIGHTS = {"scons": 1, "worker": 5, "command": 3, "service": 1, "request": 5, "monitor": 1}
"""How often each kind is chosen where there is one: most are there for a moment.  `worker` has the process that forks
them, and LLVM and ptxas of one; `request` includes processes that have answered one, and wait for the next."""


class BuildKills:
    """A project in a folder, and the faults of its builds."""

    def __init__(self, folder: str, seed: int) -> None:
        self._chance = random.Random(seed)
        self._project = os.path.join(folder, "project")
        self.runtime, self._temporary, self._store = (
            os.path.join(folder, name) for name in ("runtime", "temporary", "store")
        )
        for path in (self._project, self.runtime, self._temporary):
            os.mkdir(path)
        _write(os.path.join(self._project, "SConstruct"), SCONSTRUCT.replace("NAMES", repr(NAMES)))
        self._environment = {
            **os.environ, "XDG_RUNTIME_DIR": self.runtime, "TMPDIR": self._temporary,
            "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
        }  # fmt: skip
        self._expected = self._clean(os.path.join(folder, "clean"))
        self.kills = dict.fromkeys(WEIGHTS, 0)
        self.builds = 0
        self.problems: list[str] = []

    def _clean(self, folder: str) -> dict[str, dict[str, bytes]]:
        """By operation, the files of a build of kernels with it."""
        problems = {}
        for operation in OPERATIONS:
            shutil.rmtree(folder, ignore_errors=True)
            os.mkdir(folder)
            shutil.copy(os.path.join(self._project, "SConstruct"), folder)
            for name in NAMES:
                _write(os.path.join(folder, "kernels", f"{name}.mlir"), _kernel(name, operation))
            process = self._start(folder, TILEIRAS_SERVER="off", TILEIRAS_CACHE_DIR="off")
            result, _ = process.communicate()
            assert process.returncode == 0, result.decode(errors="replace")
            problems[operation] = _artifacts(folder)
        return problems

    def _start(self, folder: str, **changes: str) -> subprocess.Popen[bytes]:
        changes = {"TILEIRAS_SERVER": "auto", "TILEIRAS_CACHE_DIR": self._store, **changes}
        return subprocess.Popen(
            [sys.executable, "-m", "SCons", f"-j{JOBS}"], env={**self._environment, **changes}, cwd=folder,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, count: int) -> None:
        operations = dict.fromkeys(NAMES, OPERATIONS[0])
        while sum(self.kills.values()) < count:
            self._edit(operations)
            process = self._start(self._project)
            killed = self._kill_during(process, count)
            text = process.communicate()[0].decode(errors="replace")
            self._check(process.returncode, killed, text)
            self._check_whole(operations)
        self._check_end()

    def _edit(self, operations: dict[str, str]) -> None:
        start = self._chance.choice(("edit", "edit", "edit", "no build", "no store", "neither"))
        if start in ("no build", "neither"):
            for name in ("build", "commands"):
                shutil.rmtree(os.path.join(self._project, name), ignore_errors=True)
        if start in ("no store", "neither"):
            shutil.rmtree(self._store, ignore_errors=True)
        for name in NAMES:
            operations[name] = self._chance.choice(OPERATIONS)
            _write(os.path.join(self._project, "kernels", f"{name}.mlir"), _kernel(name, operations[name]))

    def _kill_during(self, process: subprocess.Popen[bytes], count: int) -> list[str]:
        """The kinds of the processes that were killed while a build ran."""
        killed: list[str] = []
        pause = self._chance.random() * FIRST_PAUSE
        while sum(self.kills.values()) < count:
            time.sleep(pause)
            if process.poll() is not None:
                break
            pause = self._chance.random() * LONGEST_PAUSE
            kinds = _kinds(process.pid, self.runtime)
            names = [kind for kind in WEIGHTS if kind in kinds]
            (kind,) = self._chance.choices(names, [WEIGHTS[kind] for kind in names])
            try:
                os.kill(self._chance.choice(sorted(kinds[kind])), signal.SIGKILL)
            except ProcessLookupError:
                continue
            self.kills[kind] += 1
            killed.append(kind)
        return killed

    def _check(self, code: int, killed: Sequence[str], said: str) -> None:
        self.builds += 1
        if "Traceback" in said:
            self.problems.append(f"a traceback after {', '.join(killed)}: {said}")
        if code and not set(killed) & set(OF_THE_BUILD):
            self.problems.append(f"exit code {code} after {', '.join(killed) or 'nothing'}: {said}")

    def _check_whole(self, operations: dict[str, str]) -> None:
        process = self._start(self._project)
        text = process.communicate()[0].decode(errors="replace")
        self._check(process.returncode, (), text)
        expected = {
            path: data for name, operation in operations.items() for path, data in self._expected[operation].items()
            if name in path.replace(".", os.sep).split(os.sep)
        }  # fmt: skip
        artifacts = _artifacts(self._project)
        wrong = sorted(path for path in artifacts.keys() | expected.keys() if artifacts.get(path) != expected.get(path))
        if wrong:
            self.problems.append(f"another build than one from nothing: {wrong}")

    def _check_end(self) -> None:
        subprocess.run(
            [sys.executable, "-m", "tileiras.processes.service.command", "stop"], check=True, cwd=self.runtime,
            env={**self._environment, "TILEIRAS_SERVER": "auto", "TILEIRAS_CACHE_DIR": self._store},
        )  # fmt: skip
        limit = time.monotonic() + 60
        while left := processes(self.runtime):
            if time.monotonic() > limit:
                self.problems.append(f"still running: {left}")
                break
            time.sleep(0.05)
        for place in (os.path.join(self.runtime, "tileiras"), self._temporary):
            names = os.listdir(place) if os.path.isdir(place) else []
            if names:
                self.problems.append(f"left in {os.path.basename(place)}: {sorted(names)}")


def _kinds(scons: int, runtime: str) -> dict[str, list[int]]:
    """The processes of a build, and those of the service and the monitor, by kind."""
    kinds: dict[str, list[int]] = {"scons": [scons]}
    every = processes(runtime)
    for pid in every - {scons}:
        kinds.setdefault(_kind(pid, scons, every), []).append(pid)
    return kinds


def _kind(pid: int, scons: int, every: set[int]) -> str:
    above = pid
    while above in every:
        words = _words(above)
        if "tileiras.processes.service.zygote" in words:
            return "service" if above == pid else "request"
        if "tileiras.build.watch.monitor" in words:
            return "monitor"
        if "client.run(" in words:
            return "command"
        if above == scons:
            return "worker"
        above = parent(above)
    # A child of a service or a build that has ended.
    return "request"


def _words(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _kernel(name: str, operation: str) -> str:
    return KERNEL.replace("NAME", name).replace("OPERATION", operation)


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _artifacts(folder: str) -> dict[str, bytes]:
    """The artifacts of a build, by path; hidden folders are the build's own notes."""
    artifacts = {}
    for top in ("build", "commands"):
        for base, folders, names in os.walk(os.path.join(folder, top)):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                path = os.path.join(base, name)
                with open(path, "rb") as file:
                    artifacts[os.path.relpath(path, folder)] = file.read()
    return artifacts


def main(arguments: Sequence[str] = ()) -> int:
    count, seed = (*map(int, arguments), *(COUNT, SEED)[len(arguments) :])
    with tempfile.TemporaryDirectory() as folder:
        kills = BuildKills(folder, seed)
        kills.run(count)
    return reported(kills.kills, f"{kills.builds} builds", kills.problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

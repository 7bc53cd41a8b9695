"""Builds of one directory that run at once, are killed and find artifacts damaged: the result is that of a clean
build.

    python -m bench interleaved [ROUNDS] [SEED]

In every round the sources change at random, artifacts are damaged or deleted, and two or three builds with options of
their own are started within half a second; half of them are killed at a random time.  One more build then makes the
artifacts that a build from nothing makes of these sources with its options, and after it there is nothing to do.
Nothing is left of kernels and entries that are gone once every set of options has been built.  Ends with exit code 1
when that is not so.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

from bench.null_build import numbers, write

ROUNDS = 100
SEED = 1

SCONSTRUCT = """\
import os
from tileiras.build import tool
from tileiras.build.scons.variables import construction_variables
env = Environment(tools=[tool], ENV=os.environ, **construction_variables(ARGUMENTS))
env.Default(env.TileTree("kernels"))
"""

VARIANTS = ((), ("num_warps=8",), ("ptx_version=8.7",))
"""Options that share the places of their artifacts."""


class Sources(NamedTuple):
    """The contents of `kernels/`."""

    value: int
    """A constant in both kernels."""
    has_second_entry: bool
    has_second_kernel: bool

    def write(self, folder: str) -> None:
        entries = [_entry("first", self.value)] + [_entry("second", 7)] * self.has_second_entry
        write(folder, "kernels/a.mlir", "cuda_tile.module @kernels {\n" + "".join(entries) + "}\n")
        if self.has_second_kernel:
            write(folder, "kernels/b.mlir", "cuda_tile.module @kernels {\n" + _entry("third", self.value) + "}\n")
        else:
            _remove(os.path.join(folder, "kernels/b.mlir"))


def _entry(name: str, value: int) -> str:
    return f"""\
  entry @{name}(%x: tile<ptr<f32>>) {{
    %value = constant <f32: {value}.0> : tile<f32>
    %token = store_ptr_tko weak %x, %value : tile<ptr<f32>>, tile<f32> -> token
    return
  }}
"""


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def artifacts(folder: str) -> dict[str, bytes]:
    """Every file that the build made, by its path in the build directory."""
    build = os.path.join(folder, "build")
    result = {}
    for base, folders, files in os.walk(build):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            path = os.path.join(base, name)
            with open(path, "rb") as file:
                result[os.path.relpath(path, build)] = file.read()
    return result


class Tree:
    """A project in a folder, and processes that build it."""

    def __init__(self, folder: str, store: str) -> None:
        self.folder = folder
        self.store = store
        self.log = os.path.join(folder, "log")
        write(folder, "SConstruct", SCONSTRUCT)

    def start(self, arguments: Sequence[str], log: str = os.devnull) -> int:
        """Fork a process that runs scons; its number.  SCons and the compiler are loaded already."""
        child = os.fork()
        if child:
            return child
        code = 1
        try:
            os.chdir(self.folder)
            os.environ["TILEIRAS_CACHE_DIR"] = self.store
            output = os.open(log, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            sys.argv = ["scons", *arguments]
            import SCons.Script.Main

            try:
                SCons.Script.Main.main()
            except SystemExit as stopped:
                code = stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)
            import atexit

            atexit._run_exitfuncs()
        finally:
            os._exit(code)
        return child

    def build(self, arguments: Sequence[str]) -> tuple[int, str]:
        """A build to its end: the exit code and the output."""
        code = finish(self.start(arguments, self.log))
        with open(self.log, encoding="utf-8") as file:
            return code, file.read()


def finish(child: int) -> int:
    """The exit status of a process; negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Outcome(NamedTuple):
    killed: int
    damaged: int
    problems: list[str]


class Rounds:
    def __init__(self, folder: str, seed: int) -> None:
        self._chance = random.Random(seed)
        self._tree = Tree(os.path.join(folder, "tree"), os.path.join(folder, "store"))
        self._clean = Tree(os.path.join(folder, "clean"), "off")
        self._expected: dict[tuple[Sources, tuple[str, ...]], dict[str, bytes]] = {}

    def expected(self, sources: Sources, options: tuple[str, ...]) -> dict[str, bytes]:
        """The artifacts of a build from nothing."""
        result = self._expected.get((sources, options))
        if result is None:
            shutil.rmtree(os.path.join(self._clean.folder, "build"), ignore_errors=True)
            sources.write(self._clean.folder)
            code, value = self._clean.build(options)
            assert code == 0, value
            result = self._expected[sources, options] = artifacts(self._clean.folder)
        return result

    def round(self) -> Outcome:
        chance, tree = self._chance, self._tree
        sources = Sources(chance.randrange(2), chance.random() < 0.5, chance.random() < 0.5)
        start = chance.choice(("nothing", "build", "build", "build"))
        if start == "nothing":
            shutil.rmtree(os.path.join(tree.folder, "build"), ignore_errors=True)
        damaged = self._damage(sources)
        sources.write(tree.folder)
        killed = self._interleave(sources)
        options = chance.choice(VARIANTS)
        problems = self._problems(sources, options, whole=False)
        if not problems:
            for others in (*VARIANTS, options):
                code, result = tree.build(others)
                problems += [f"{others}: {result}"] if code else []
            problems += self._problems(sources, options, whole=True)
        return Outcome(killed, damaged, problems)

    def _damage(self, sources: Sources) -> int:
        """Write to, cut or remove some artifacts; how many.

        Only artifacts that a build still makes: an edited one is left alone when its kernel is removed.
        """
        chance = self._chance
        names = sorted(artifacts(self._tree.folder).keys() & self.expected(sources, ()).keys())
        chosen = chance.sample(names, min(len(names), chance.choice((0, 0, 1, 3))))
        for name in chosen:
            path = os.path.join(self._tree.folder, "build", name)
            kind = chance.randrange(3)
            if kind == 0:
                with open(path, "ab") as file:
                    file.write(b"damage")
            elif kind == 1:
                os.truncate(path, os.path.getsize(path) // 2)
            else:
                os.unlink(path)
        return len(chosen)

    def _interleave(self, sources: Sources) -> int:
        """Run two or three builds at once and kill half of them; return the number killed."""
        chance = self._chance
        running = []
        for _ in range(chance.choice((2, 2, 3))):
            child = self._tree.start([*chance.choice(VARIANTS), *chance.choice(((), ("-j2",)))])
            running.append((child, chance.random() < 0.5))
            time.sleep(chance.random() * 0.25)
        if chance.random() < 0.3:
            sources._replace(value=1 - sources.value).write(self._tree.folder)
        killed = 0
        for child, dies in running:
            if dies:
                time.sleep(chance.random() * 0.5)
                os.kill(child, signal.SIGKILL)
            killed += finish(child) == -signal.SIGKILL
        sources.write(self._tree.folder)
        return killed

    def _problems(self, sources: Sources, options: tuple[str, ...], whole: bool) -> list[str]:
        """The faults after one more build; `whole` when nothing may lie there besides its artifacts."""
        code, value = self._tree.build(options)
        if code:
            return [f"exit code {code}: {value}"]
        expected, result = self.expected(sources, options), artifacts(self._tree.folder)
        if not whole:
            result = {name: content for name, content in result.items() if name in expected}
        problems = [
            f"{name} {'is missing' if name not in result else 'differs' if name in expected else 'is left over'}"
            for name in sorted({*expected, *result})
            if expected.get(name) != result.get(name)
        ]
        code, value = self._tree.build(options)
        return problems + ([f"not up to date: {value}"] if code or "tileiras: " in value else [])


def run(count: int, seed: int) -> int:
    """Run rounds and print a line of JSON for each; how many went wrong."""
    os.environ["PYTHONPATH"] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    import SCons.Script.Main  # noqa: F401

    import tileiras.build.scons.tool  # noqa: F401
    from tileiras import pipeline

    for row in pipeline.STAGES:
        if not row.reads_files:
            __import__(row.module_name)
    wrong = 0
    folder = tempfile.mkdtemp()  # not a TemporaryDirectory, which every forked process would remove at its end
    try:
        rounds = Rounds(folder, seed)
        for number in range(count):
            done = rounds.round()
            wrong += bool(done.problems)
            print(json.dumps({"round": number, **done._asdict()}), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return wrong


def main(arguments: Sequence[str] = ()) -> None:
    rounds, seed = numbers("interleaved", arguments, rounds=ROUNDS, seed=SEED)
    wrong = run(rounds, seed)
    print(f"{rounds} rounds, {wrong} of them wrong")
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])

"""COUNT builds that are killed, and the builds after them; run as a program by `test_kills`.

    python kills.py FOLDER COUNT SEED DECLARATION

DECLARATION is the call of the SConstruct that declares the kernel.

One process loads SCons and the compiler and forks for every build.  A build is killed with SIGKILL at a random time
from outside, or by itself at a random one of its writes: with a half of a file written, before a file gets its name,
or inside a transaction of the store.  The next build runs to its end, and its build directory is compared with that of
a build from nothing.  Prints a line of JSON per build, also for a build that ended before the kill.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from project import SCONSTRUCT, Project, axpy, module  # noqa: E402

WRITES = ("half a file", "before a rename", "in a transaction")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def plant(kind: str, number: int) -> None:
    """Kill this process at its `number`th write of a kind."""
    left = [number]

    def due() -> bool:
        left[0] -= 1
        return left[0] < 0

    if kind == "half a file":
        import builtins

        whole = builtins.open

        def open_dying(path, mode="r", *arguments, **keywords):
            file = whole(path, mode, *arguments, **keywords)
            if ("w" in mode or "x" in mode) and "b" in mode and due():
                # Applies to every file that is written here, the store's own files included.
                file.write(b"x" * 100)
                file.flush()
                die()
            return file

        builtins.open = open_dying
    elif kind == "before a rename":
        whole_replace = os.replace

        def replace_dying(source, target):
            if due():
                die()
            whole_replace(source, target)

        os.replace = replace_dying
    else:
        from tileiras.build.store import local

        put = local.ArtifactStore.put

        def put_dying(self, key, value):
            if due():
                with self._writable()[0].transact():
                    put(self, key, value)
                    die()
            put(self, key, value)

        local.ArtifactStore.put = put_dying


def build(arguments: list[str], kind: str | None = None, number: int = 0) -> int:
    """Fork a process that builds; return its number."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(os.open("errors", os.O_RDWR | os.O_CREAT | os.O_TRUNC), 2)
        if kind is not None:
            plant(kind, number)
        sys.argv = ["scons", *arguments]
        import SCons.Script.Main

        try:
            SCons.Script.Main.main()
        except SystemExit as stopped:
            code = stopped.code or 0
        import atexit

        atexit._run_exitfuncs()
    finally:
        os._exit(code)
    return child


def finish(child: int) -> int:
    """The exit status of a process; negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(folder: str, count: int, seed: int, declaration: str) -> None:
    chance = random.Random(seed)
    project = Project(os.path.join(folder, "killed"))
    os.environ["TILEIRAS_CACHE_DIR"] = project.store
    clean = Project(os.path.join(folder, "clean"))
    for tree in (project, clean):
        tree.write("SConstruct", SCONSTRUCT.replace('env.TileTree("kernels")', declaration))
    import SCons.Script.Main  # noqa: F401

    import tileiras.build.scons.tool  # noqa: F401
    from tileiras import pipeline

    for row in pipeline.STAGES:
        if not row.reads_files:
            __import__(row.module_name)
    expected: dict[tuple[str, int], dict[str, bytes]] = {}
    kills = 0
    for turn in range(2 * count):
        if kills == count:
            break
        operation, entries = source = chance.choice(("addf", "mulf")), chance.choice((1, 2))
        text = module(axpy("first", operation=operation), *[axpy("second")][: entries - 1])
        for tree in (project, clean):
            tree.write("kernels/k.mlir", text)
        if source not in expected:
            os.chdir(clean.folder)
            shutil.rmtree("build", ignore_errors=True)
            os.environ["TILEIRAS_CACHE_DIR"] = "off"
            assert finish(build([])) == 0, open("errors").read()
            os.environ["TILEIRAS_CACHE_DIR"] = project.store
            expected[source] = clean.artifacts()
        os.chdir(project.folder)
        # A build starts from nothing, from the store alone, or from the last build.
        start = chance.choice(("nothing", "nothing", "store", "build"))
        if start != "build":
            shutil.rmtree("build", ignore_errors=True)
        if start == "nothing":
            shutil.rmtree(project.store, ignore_errors=True)
        if turn % 5 < 3:
            kind, jobs = chance.choice(WRITES), []
            status = finish(build(jobs, kind, chance.randrange(7)))
        else:
            kind, jobs = "any time", chance.choice(([], ["-j2"]))
            child = build(jobs)
            time.sleep(chance.random() * 0.3)
            os.kill(child, signal.SIGKILL)
            status = finish(child)
        kills += status == -signal.SIGKILL
        again = finish(build([]))
        same = project.artifacts() == expected[source]
        with open("errors") as file:
            result = file.read()
        print(json.dumps({"kind": kind, "start": start, "jobs": jobs, "killed": status == -signal.SIGKILL,
                          "code": again, "same": same, "said": result}), flush=True)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])

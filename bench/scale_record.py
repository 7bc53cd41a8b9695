"""The figures of `bench.scale`: of every example, the time and the bytes of each stage, and the cost of a hit.

    python -m bench.scale_record > bench/scale_figures.json

Times are processor time, the best of REPEAT runs of a warm process with the process of LLVM, so that other work on the
machine disturbs them less.  A hit is a step whose row is in the store; a stage is the rest of the same step without it
(reading, parsing, writing).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence

from tileiras.build import discover, plan
from tileiras.build.ledger.history import History
from tileiras.build.run.execute import Session
from tileiras.build.step import warn_on_stderr
from tileiras.build.store.fingerprint import CodeBase
from tileiras.build.store.local import READ_WRITE, SIZE_LIMIT, ArtifactStore
from tileiras.diagnostics import CompileError
from tileiras.options import CompileOptions
from tileiras.processes import helper
from tileiras.stages.units import Source

TARGET = "sm_90"
REPEAT = 5


def spent() -> float:
    """Seconds of this process and of that of LLVM."""
    pid = helper.helper_pid()
    # The clock of another process, as clock_getcpuclockid(3) numbers it.
    return time.process_time() + (time.clock_gettime(~pid << 3 | 2) if pid is not None else 0.0)


def performed(
    path: str, folder: str, build: str, code: CodeBase
) -> tuple[dict[str, tuple[float, float, int]], list[float]]:
    """By stage, seconds of the steps that run it, seconds of hits of the same steps, and bytes of their rows, added up
    for all entries; seconds of each hit.

    `folder` is that of a new store; the build directory has the code's digests after the first run.
    """
    store = ArtifactStore(folder, warn_on_stderr, READ_WRITE, SIZE_LIMIT)
    session = Session(store, code, History(build))
    options = CompileOptions({"gpu-name": TARGET})
    entries = discover.entry_names(Source.read(path))
    stem = plan.stem(plan.folder(build, options), path, os.path.basename(path))
    stages: dict[str, tuple[float, float, int]] = {}
    hits: list[float] = []
    for step in plan.plan(path, os.path.basename(path), path, stem, options, "ptx", entries).steps:
        session.key(step)  # a process computes its fingerprints once
        helper.start()  # not within a stage: its successor would have another clock
        start = spent()
        outcome = session.perform(step)
        middle = spent()
        if outcome.error is not None:
            raise outcome.error
        assert outcome.key is not None
        session.perform(step)
        hits.append(spent() - middle)
        row = store.get_record(outcome.key)
        values = (middle - start, hits[-1], len(row.to_bytes()) if row is not None else 0)
        seconds, hit, size = (a + b for a, b in zip(stages.get(step.stage.name, (0.0, 0.0, 0)), values, strict=True))
        stages[step.stage.name] = seconds, hit, int(size)
    store.close()
    return stages, hits


def main(arguments: Sequence[str] = ()) -> None:
    kernels: dict[str, dict[str, list[float]]] = {}
    hits: list[float] = []
    code = CodeBase()
    builds = tempfile.TemporaryDirectory()
    for file in discover.kernel_files("examples"):
        path = os.path.join("examples", file)
        runs: list[dict[str, tuple[float, float, int]]] = []
        try:
            for _ in range(REPEAT):
                with tempfile.TemporaryDirectory() as folder:
                    stages, served = performed(path, folder, builds.name, code)
                hits += served
                runs.append(stages)
        except CompileError as error:
            print(f"{file}: {error.diagnostics[0]}", file=sys.stderr)
            continue
        kernels[file] = {}
        for name in runs[0]:
            seconds, hit, size = map(min, zip(*(run[name] for run in runs), strict=True))
            kernels[file][name] = [round(seconds - hit, 4), size]
    builds.cleanup()
    hits.sort()
    print(json.dumps({"target": TARGET, "hit": round(hits[len(hits) // 2], 5), "kernels": kernels}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Milliseconds per stage for every example, in one warm process, modules passed on alive."""

from __future__ import annotations

import os
import time

from tileiras import pipeline
from tileiras.build import discover
from tileiras.diagnostics import CompileError
from tileiras.options import CompileOptions
from tileiras.stages import StageContext, units

TARGET = "sm_90"
REPEAT = 3


def stage_times(path: str, target: str = TARGET, last: str = "ptx") -> dict[str, float]:
    """Seconds per stage, entries of the file added up."""
    options = CompileOptions({"gpu-name": target})
    source = units.Source.read(path)
    times: dict[str, float] = {}

    def run(name: str, given: object) -> object:
        context = StageContext(source_name=source.name, source_path=source.path)
        start = time.perf_counter()
        result = pipeline.run_stage(pipeline.stage(name), given, options, context)
        times[name] = times.get(name, 0.0) + time.perf_counter() - start
        return result.output

    data: object = source.data
    if source.kind == units.PYTHON:
        data = run("export", data)
    module = run("read", data)
    for _, unit in units.entry_modules(module):
        value: object = unit
        for row in pipeline.stages_between("tileaa", last):
            value = run(row.name, value)
    return times


def main() -> None:
    names = [row.name for row in pipeline.STAGES if row.name != "cubin"]
    print(f"milliseconds per stage, {TARGET} -O3, best of {REPEAT} in one process")
    print(f"  {'example':<28}" + "".join(f"{name:>9}" for name in names) + f"{'total':>9}")
    for file in discover.kernel_files("examples"):
        path = os.path.join("examples", file)
        best: dict[str, float] = {}
        try:
            for _ in range(REPEAT):
                for name, seconds in stage_times(path).items():
                    best[name] = min(best.get(name, seconds), seconds)
        except CompileError as error:
            print(f"  {file:<28} {error.diagnostics[0]}")
            continue
        cells = "".join(f"{best[name] * 1000:9.1f}" if name in best else f"{'-':>9}" for name in names)
        print(f"  {file:<28}{cells}{sum(best.values()) * 1000:9.1f}")

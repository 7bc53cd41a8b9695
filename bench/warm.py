"""From bytecode to PTX in one warm process: how the times of all kernels are distributed, and where they go.

    python -m bench.warm [--targets sm_90,...] [--repeat N] [--profile] [FILE-OR-FOLDER ...]

Every figure is the best of N runs.  Bars: median 40 ms, 95th percentile 250 ms, nothing above 2 s, 500 MB.  On a busy
machine the processors' time says more: this process's and LLVM's together, though they overlap.  With `--profile`, the
time of passes, and the functions of the compiler that take most of its time.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from bench import calibration
from bench.kernels import Kernel, collect
from tileiras import api, pipeline
from tileiras.codegen import bitcode_library, llvm_pipeline
from tileiras.diagnostics import CompileError
from tileiras.ir.pass_instrumentation import PassTimer
from tileiras.options import CompileOptions
from tileiras.processes import helper
from tileiras.stages import units

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
REPEAT = 3


class Recorder:
    """Seconds per stage and phase of LLVM of the run in progress."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._run_stage, self._compile = pipeline.run_stage, llvm_pipeline.compile_to_ptx
        pipeline.run_stage, llvm_pipeline.compile_to_ptx = self.run_stage, self.compile_to_ptx

    def run_stage(self, row: pipeline.Stage, *arguments: Any) -> Any:
        start = time.perf_counter()
        try:
            return self._run_stage(row, *arguments)
        finally:
            self.seconds[row.name] += time.perf_counter() - start

    def compile_to_ptx(self, *arguments: Any, **named: Any) -> Any:
        compiled = self._compile(*arguments, **named)
        for phase, milliseconds in compiled.milliseconds.items():
            self.seconds[f"llvm {phase}"] += milliseconds / 1000
        return compiled


def _entries(folder: str, files: Sequence[str]) -> Iterator[tuple[Kernel, units.Source, str]]:
    """Every entry is a compilation of its own, which reads the whole file."""
    for kernel in collect(folder, files):
        source = units.Source.read(kernel.path)
        for operation in units.entries_of(api.parse(source.data)):
            yield kernel, source, units.entry_name(operation)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def helper_megabytes() -> float:
    """Most memory that LLVM's process has had; 0 where the system does not tell."""
    try:
        with open(f"/proc/{helper.helper_pid()}/status", encoding="utf-8") as file:
            line = next(line for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return 0.0
    return int(line.split()[1]) / 1024


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="warm")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--repeat", type=int, default=REPEAT)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(arguments)
    calibration.main()
    recorder = Recorder()
    store = bitcode_library.MemoryStore()
    rows: list[tuple[float, str, Counter[str]]] = []
    busy: list[float] = []
    passes: Counter[str] = Counter()
    profiler = None
    with tempfile.TemporaryDirectory() as folder:
        for kernel, source, entry in _entries(folder, options.files):
            for target in options.targets.split(","):
                if int(target[3:]) < kernel.lowest:
                    continue
                values = CompileOptions({"gpu-name": target})
                best: tuple[float, str, Counter[str]] | None = None
                least = float("inf")
                try:
                    for _ in range(options.repeat):
                        recorder.seconds = Counter()
                        start, worked = time.perf_counter(), time.process_time()
                        api.compile_with(source, values, "ptx", entry=entry, store=store)
                        taken, worked = time.perf_counter() - start, time.process_time() - worked
                        in_llvm = sum(s for name, s in recorder.seconds.items() if name.startswith("llvm "))
                        least = min(least, worked + in_llvm)
                        if best is None or taken < best[0]:
                            best = (taken, f"{kernel.name} {entry} {target}", recorder.seconds)
                except CompileError as error:
                    print(f"  {kernel.name} {entry} {target}: {error.diagnostics[0]}")
                    continue
                assert best is not None
                rows.append(best)
                busy.append(least * 1000)
                if options.profile:
                    import cProfile

                    recorder.seconds = Counter()
                    timer = PassTimer()
                    api.compile_with(source, values, "ptx", entry=entry, store=store, instrumentation=[timer])
                    for name, seconds in timer.seconds:
                        passes[name] += seconds
                    profiler = profiler or cProfile.Profile(time.process_time)
                    profiler.enable()
                    api.compile_with(source, values, "ptx", entry=entry, store=store)
                    profiler.disable()
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        other = helper_megabytes()
    times = [row[0] * 1000 for row in rows]
    print(f"bytecode to PTX, warm, best of {options.repeat}: {len(rows)} entries, milliseconds")
    print(
        f"  median {statistics.median(times):.1f}   75 % {percentile(times, 0.75):.1f}   95 % "
        f"{percentile(times, 0.95):.1f}   most {max(times):.1f}   memory {own:.0f} MB, LLVM's process {other:.0f} MB"
    )
    print(
        f"  processors: median {statistics.median(busy):.1f}   95 % {percentile(busy, 0.95):.1f}   most {max(busy):.1f}"
    )
    for taken, name, _ in sorted(rows, reverse=True)[:5]:
        print(f"  {taken * 1000:9.1f}  {name}")
    total: Counter[str] = sum((row[2] for row in rows), Counter())
    whole = sum(row[0] for row in rows)
    print("  share of stages, and of LLVM's phases in ptx: " + ", ".join(
        f"{name} {100 * seconds / whole:.1f} %" for name, seconds in total.most_common()
    ))  # fmt: skip
    if options.profile and profiler is not None:
        whole = sum(passes.values())
        print("  share of passes: " + ", ".join(
            f"{name} {100 * seconds / whole:.1f} %" for name, seconds in passes.most_common(12)
        ))  # fmt: skip
        _print_profile(profiler)


def _print_profile(profiler: Any) -> None:
    import pstats

    stats: dict[Any, Any] = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    files: Counter[str] = Counter()
    functions = []
    for (path, line, name), (_, calls, own, cumulative, _) in stats.items():
        place = path.removeprefix(root) if path.startswith(root) else "Python"
        files[place] += own
        functions.append((own, cumulative, calls, f"{place}:{line} {name}" if place != "Python" else name))
    print("  own seconds by file: " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in files.most_common(16)))
    for own, cumulative, calls, name in sorted(functions, reverse=True)[:30]:
        print(f"  {own:8.3f} {cumulative:8.3f} {calls:9} {name}")


if __name__ == "__main__":
    main(sys.argv[1:])

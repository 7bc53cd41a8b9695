"""From bytecode to cubin in a fresh process: this compiler against the vendor's, on the same file."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

from tileiras import api, units
from tileiras.build import discover
from tileiras.codegen import toolkit
from tileiras.diagnostics import CompileError
from tileiras.options import CompileOptions

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
REPEAT = 5


def seconds(command: list[str]) -> float | None:
    """The median wall time of a command; None when it fails."""
    times = []
    # Without compiled modules Python would compile all of ours each time, which no installation does.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, env=environment, capture_output=True, check=False)
    for _ in range(REPEAT):
        start = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        times.append(time.perf_counter() - start)
        if done.returncode != 0:
            return None
    return statistics.median(times)


def bytecode_files(folder: str) -> list[tuple[str, str]]:
    """(example, bytecode file) of the examples that are or become bytecode."""
    found = []
    for name in discover.kernel_files("examples"):
        source = units.Source.read(os.path.join("examples", name))
        if source.kind == units.BYTECODE:
            found.append((name, source.path or name))
        elif source.kind == units.PYTHON and not _exported(name):
            path = os.path.join(folder, os.path.basename(name) + ".tileirbc")
            try:
                data = api.compile_with(source, CompileOptions({"gpu-name": "sm_90"}), "bytecode").data
            except CompileError as error:
                print(f"  {name}: {error.diagnostics[0]}")
                continue
            with open(path, "wb") as file:
                file.write(data)
            found.append((name, path))
    return found


def _exported(name: str) -> bool:
    """Whether the bytecode of a Python example is an example itself."""
    stem = os.path.splitext(os.path.basename(name))[0]
    return os.path.isfile(os.path.join("examples", "bytecode", stem + ".tileirbc"))


def main() -> None:
    vendor = toolkit.find_program("tileiras")
    if vendor is not None and os.path.realpath(vendor).startswith(os.path.dirname(sys.executable)):
        vendor = None
    print(f"whole process to cubin, -O3, median of {REPEAT}, milliseconds")
    print(f"  {'bytecode':<28}{'target':>8}{'ours':>9}{'vendor':>9}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, path in bytecode_files(folder):
            for target in TARGETS:
                common = [path, "--gpu-name", target, "-O3", "-o", os.path.join(folder, "out")]
                own = seconds([sys.executable, "-m", "tileiras.cli.tileiras", *common])
                other = seconds([vendor, *common]) if vendor is not None else None
                ratio = f"{own / other:8.2f}" if own is not None and other is not None else f"{'-':>8}"
                print(f"  {name:<28}{target:>8}{_cell(own)}{_cell(other)}{ratio}")


def _cell(value: float | None) -> str:
    return f"{value * 1000:9.0f}" if value is not None else f"{'-':>9}"

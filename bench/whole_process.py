"""From bytecode to cubin in a fresh process: this compiler against the vendor's, on the same file, turn about.

    python -m bench.whole_process [--targets sm_90,...] [--repeat N] [FILE-OR-FOLDER ...]

Ours runs without the artifact store, apart from the parts of libdevice, which an installation has.  `ptxas` is the time
of that program for our PTX, `own` the rest.  A ratio is the median of those of the turns.  Beside it stands the bar for
a vendor's time: at most 2 below 0.2 s, at most 1 above 0.3 s; at the end, the slowest tenth of its times with the bar
of 0.5.

All rows take some five minutes on two quiet cores: each command of a row runs as often as `--repeat` says and not once
more, after one run of each at the start.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

from bench import calibration
from bench.kernels import collect
from tileiras import api
from tileiras.codegen import bitcode_library, ptx, toolkit
from tileiras.diagnostics import CompileError
from tileiras.options import CompileOptions
from tileiras.stages import units

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
REPEAT = 3

BARS = ((0.2, 2.0), (0.3, None), (float("inf"), 1.0))
"""Vendor's seconds below which a bar holds; no bar holds between 0.2 and 0.3 s."""

SLOWEST_TENTH = 0.5


def environment(store: str) -> dict[str, str]:
    """Compiled modules kept, as in every installation; artifacts made again each time."""
    result = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**result, "TILEIRAS_CACHE_DIR": store, "TILEIRAS_CACHE_MODE": "refresh"}


def alternately(commands: Sequence[list[str]], repeat: int, env: dict[str, str]) -> list[list[float]]:
    """Seconds of each command's runs, in turn; none of one that fails."""
    times: list[list[float]] = [[] for _ in commands]
    failed = [False] * len(commands)
    for _ in range(repeat):
        for number, command in enumerate(commands):
            if not failed[number]:
                start = time.perf_counter()
                done = subprocess.run(command, env=env, capture_output=True, check=False)
                times[number].append(time.perf_counter() - start)
                failed[number] = done.returncode != 0
    return [[] if bad else taken for bad, taken in zip(failed, times)]


def vendor_tool() -> str | None:
    """The vendor's compiler, which must not be a program of this package that has the same name."""
    program = toolkit.find_program("tileiras")
    own = os.path.dirname(sys.executable)
    return None if program is None or os.path.dirname(os.path.realpath(program)) == os.path.realpath(own) else program


class Row(NamedTuple):
    """Seconds, and the ratio of ours to the vendor's."""

    name: str
    own: float
    vendor: float
    ratio: float


def bar_of(vendor: float) -> float | None:
    return next(bar for limit, bar in BARS if vendor < limit)


def summary(rows: list[Row]) -> list[str]:
    """The result of the bars over all rows."""
    slowest = sorted(rows, key=lambda row: row.vendor)[-max(1, len(rows) // 10) :]
    classes = (
        ("below 0.2 s", 2.0, [row for row in rows if row.vendor < 0.2]),
        ("above 0.3 s", 1.0, [row for row in rows if row.vendor >= 0.3]),
        ("slowest tenth", SLOWEST_TENTH, slowest),
    )
    lines = []
    for name, bar, members in classes:
        if members:
            ratios = sorted(row.ratio for row in members)
            met = sum(ratio <= bar for ratio in ratios)
            worst = max(members, key=lambda row: row.ratio)
            lines.append(
                f"  vendor {name:<14} {len(ratios):4} files   median ratio {statistics.median(ratios):.2f}   worst "
                f"{worst.ratio:.2f} ({worst.name})   at most {bar:g}: {met}"
            )
    return lines


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="whole_process")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--repeat", type=int, default=REPEAT)
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(arguments)
    calibration.main()
    vendor, ptxas = vendor_tool(), toolkit.find_program("ptxas")
    print(f"whole process to cubin, -O3, median of {options.repeat}, milliseconds")
    print(f"  {'bytecode':<28}{'target':>8}{'ours':>8}{'own':>8}{'ptxas':>8}{'vendor':>8}{'ratio':>8}{'bar':>6}")
    rows = []
    libdevice = bitcode_library.MemoryStore()
    with tempfile.TemporaryDirectory() as folder:
        env = environment(os.path.join(folder, "store"))
        started = False
        for kernel in collect(folder, options.files):
            for target in options.targets.split(","):
                if int(target[3:]) < kernel.lowest:
                    continue
                common = [kernel.path, "--gpu-name", target, "-O3", "-o", os.path.join(folder, "out")]
                commands = [[sys.executable, "-m", "tileiras.cli.tileiras", *common]]
                if vendor is not None:
                    commands.append([vendor, *common])
                text = _ptx(kernel.path, target, libdevice) if ptxas is not None else None
                if text is not None:
                    assembled = os.path.join(folder, "out.ptx")
                    with open(assembled, "wb") as file:
                        file.write(text)
                    chip = ptx.parse(text.decode()).target
                    # Shared memory of a tile launch is static and may be more than 48 KB.
                    flags = ["-arch", chip, "--enable-extended-smem", "true"]
                    commands.append([str(ptxas), *flags, assembled, "-o", assembled + ".cubin"])
                if not started:
                    alternately(commands, 1, env)
                    started = True
                times = alternately(commands, options.repeat, env)
                own, other = times[0], times[1] if vendor is not None else []
                alone = times[-1] if text is not None else []
                cells = [_median(own), None, _median(alone), _median(other)]
                if own and alone:
                    cells[1] = statistics.median(a - b for a, b in zip(own, alone))
                last = f"{'-':>8}{'-':>6}"
                if own and other:
                    seconds = statistics.median(other)
                    ratio = statistics.median(a / b for a, b in zip(own, other))
                    rows.append(Row(f"{kernel.name} {target}", statistics.median(own), seconds, ratio))
                    bar = bar_of(seconds)
                    last = f"{ratio:8.2f}{'-' if bar is None else f'{bar:g}':>6}"
                    last += "  missed" if bar is not None and ratio > bar else ""
                print(f"  {kernel.name[:28]:<28}{target:>8}{''.join(map(_cell, cells))}{last}", flush=True)
    print("\n".join(summary(rows)))


def _ptx(path: str, target: str, store: bitcode_library.MemoryStore) -> bytes | None:
    """Our PTX as the command makes it for ptxas; None if it is refused."""
    options = CompileOptions({"gpu-name": target, "tile-launch": True})
    try:
        return api.compile_with(units.Source.read(path), options, "ptx", store=store).data
    except CompileError:
        return None


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None


def _cell(value: float | None) -> str:
    return f"{value * 1000:8.0f}" if value is not None else f"{'-':>8}"


if __name__ == "__main__":
    main(sys.argv[1:])

"""From bytecode to cubin in a fresh process: this compiler against the vendor's, on the same file, turn about.

    python -m bench.whole_process [--targets sm_90,...] [--repeat N] [FILE-OR-FOLDER ...]

Ours runs without the artifact store, apart from what libdevice is split into, which an installation has.  `ptxas` is
what that program takes for our PTX, `own` the rest.  The bars at the end: at most twice the vendor's time where it
takes less than 0.2 s, at most once where it takes more than 0.3 s, at most half on the slowest tenth of its times.
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

from bench import calibration
from bench.kernels import collect
from tileiras.codegen import toolkit

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
REPEAT = 5


def environment(store: str) -> dict[str, str]:
    """Compiled modules kept, as in every installation; artifacts made again each time."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "TILEIRAS_CACHE_DIR": store, "TILEIRAS_CACHE_MODE": "refresh"}


def alternately(commands: Sequence[list[str]], repeat: int, env: dict[str, str]) -> list[float | None]:
    """The median seconds of each command, run in turn; None for one that fails."""
    times: list[list[float]] = [[] for _ in commands]
    failed = [subprocess.run(c, env=env, capture_output=True, check=False).returncode != 0 for c in commands]
    for _ in range(repeat):
        for number, command in enumerate(commands):
            if not failed[number]:
                start = time.perf_counter()
                subprocess.run(command, env=env, capture_output=True, check=False)
                times[number].append(time.perf_counter() - start)
    return [statistics.median(t) if t else None for t in times]


def vendor_tool() -> str | None:
    """The vendor's compiler, which must not be a program of this package that has the same name."""
    found = toolkit.find_program("tileiras")
    own = os.path.dirname(sys.executable)
    return None if found is None or os.path.dirname(os.path.realpath(found)) == os.path.realpath(own) else found


def bars(pairs: list[tuple[float, float]]) -> list[str]:
    """What the bars say of (ours, vendor's) seconds."""
    slowest = sorted(pairs, key=lambda pair: pair[1])[-max(1, len(pairs) // 10) :]
    classes = (
        ("below 0.2 s", 2.0, [p for p in pairs if p[1] < 0.2]),
        ("above 0.3 s", 1.0, [p for p in pairs if p[1] > 0.3]),
        ("slowest tenth", 0.5, slowest),
    )
    lines = []
    for name, bar, members in classes:
        if members:
            ratios = sorted(own / other for own, other in members)
            met = sum(ratio <= bar for ratio in ratios)
            lines.append(
                f"  vendor {name:<14} {len(ratios):4} files   median ratio {statistics.median(ratios):.2f}   worst "
                f"{ratios[-1]:.2f}   at most {bar:g}: {met}"
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
    print(f"  {'bytecode':<28}{'target':>8}{'ours':>8}{'own':>8}{'ptxas':>8}{'vendor':>8}{'ratio':>8}")
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        env = environment(os.path.join(folder, "store"))
        ours = [sys.executable, "-m", "tileiras.cli.tileiras"]
        for kernel in collect(folder, options.files):
            for target in options.targets.split(","):
                if int(target[3:]) < kernel.lowest:
                    continue
                common = [kernel.path, "--gpu-name", target, "-O3", "-o", os.path.join(folder, "out")]
                text = os.path.join(folder, "out.ptx")
                emit = [*ours, *common[:-1], text, "--emit", "ptx"]
                subprocess.run(emit, env=env, capture_output=True, check=False)
                commands = [[*ours, *common]]
                if ptxas is not None:
                    commands.append([ptxas, "-arch", _target_of(text) or target, text, "-o", text + ".cubin"])
                if vendor is not None:
                    commands.append([vendor, *common])
                times = alternately(commands, options.repeat, env)
                own, assembled = times[0], times[1] if ptxas is not None else None
                other = times[-1] if vendor is not None else None
                if own is not None and other is not None:
                    pairs.append((own, other))
                rest = own - assembled if own is not None and assembled is not None else None
                ratio = f"{own / other:8.2f}" if own is not None and other is not None else f"{'-':>8}"
                cells = "".join(map(_cell, (own, rest, assembled, other)))
                print(f"  {kernel.name[:28]:<28}{target:>8}{cells}{ratio}", flush=True)
    print("\n".join(bars(pairs)))


def _target_of(path: str) -> str | None:
    from tileiras.codegen import ptx

    try:
        with open(path, encoding="utf-8") as file:
            return ptx.parse(file.read()).target
    except OSError:
        return None


def _cell(value: float | None) -> str:
    return f"{value * 1000:8.0f}" if value is not None else f"{'-':>8}"


if __name__ == "__main__":
    main(sys.argv[1:])

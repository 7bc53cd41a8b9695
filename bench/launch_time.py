"""python -m bench launch_time: the time of a launch from Python with 19 arguments, every one new in each call.

The driver is the stand-in of the tests, which starts nothing, so that the time is that of Python alone.  The measure is
a ctypes call of its cuLaunchKernel with types declared and parameters that are packed already.  `launch` packs a list
of arguments by their types, `bind` by one struct (tileiras/runtime/bound.py).
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from ctypes import c_int, c_uint, c_void_p
from pathlib import Path

import tileiras.runtime
from tests.runtime.described import PTX, description
from tileiras.runtime import driver

SOURCE = Path(__file__).resolve().parents[1] / "tests" / "runtime" / "driver_stand_in.c"
TYPES = ("ptr<f16>", "i32", "i32", "i32", "i32") * 3 + ("f32", "f32", "i64", "i32")
"""Three matrices with sizes and strides, two factors, an offset and a count."""
CALLS, ROUNDS, LIMIT = 2000, 15, 3.0


def fastest(call: Callable[[int], object], calls: int) -> float:
    """Microseconds of one call: the fastest round of several."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for number in range(calls):
            call(number)
        best = min(best, time.perf_counter() - start)
    return 1e6 * best / calls


def measure(library: str) -> dict[str, float]:
    """Microseconds of the bare call, of a bound kernel, and of `launch`."""
    stand_in = ctypes.CDLL(library)
    stand_in.stand_in_reset(b"", 1, 1, 1)
    driver.LIBRARIES = (library,)
    metadata = description(*TYPES)
    bound = tileiras.runtime.bind(PTX, "k", metadata=metadata)

    def arguments(n: int) -> tuple:
        matrices = (0, n, n + 1, n + 2, n + 3, 256 * n, n + 5, n + 6, n + 7, n + 8, 512 * n, n + 9, n + 10, n + 11, n)
        return (*matrices, n * 0.5, n * 0.25, n, n + 12)

    prepared = [arguments(n) for n in range(CALLS)]
    bare = stand_in.cuLaunchKernel
    bare.restype, bare.argtypes = c_int, (c_void_p, *(c_uint,) * 7, *(c_void_p,) * 3)
    slot = bound._new_slot()
    function, extra, grid = bound._function, slot.extra, (64, 1, 1)
    while len(stand_in_log(stand_in)) < (1 << 16) - 64:  # a full log takes no time
        bound(grid, arguments(1))
    return {
        "cuLaunchKernel by ctypes": fastest(lambda n: bare(function, 64, 1, 1, 128, 1, 1, 0, 0, None, extra), CALLS),
        "bind": fastest(lambda n: bound(grid, prepared[n]), CALLS),
        "launch": fastest(
            lambda n: tileiras.runtime.launch(PTX, "k", grid, prepared[n], metadata=metadata), CALLS // 20
        ),
    }


def stand_in_log(library: ctypes.CDLL) -> bytes:
    library.stand_in_log.restype = ctypes.c_char_p
    return library.stand_in_log()


def main() -> int:
    compiler = shutil.which("cc")
    if compiler is None:
        print("launch_time: no C compiler", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/libcuda_stand_in.so"
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
        times = measure(library)
    bare = times["cuLaunchKernel by ctypes"]
    for name, microseconds in times.items():
        print(f"{name:<26} {microseconds:7.2f} us  {microseconds / bare:6.2f}x")
    return int(times["bind"] > LIMIT * bare)


if __name__ == "__main__":
    sys.exit(main())

"""The emulator: processor seconds for a million-element saxpy and a 256 x 256 x 256 f32 matrix product, compiled for
sm_90, and where the vendor's compiler is at hand for two blocks of its code, beside the calibration of the machine.

Blocks with a bar for the time: a 128 x 256 x 64 tile of a product with K = 256, and 128 x 128 attention of
depth 128 with four steps over the keys.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

EXAMPLES = Path(__file__).parent.parent / "examples"
ELEMENTS = 1 << 20
SIZE = 256


def compiled(name: str) -> tuple[str, dict]:
    """PTX and launch description of an example's only entry, named as its file."""
    import tileiras

    artifact = tileiras.compile(EXAMPLES / f"{name}.mlir", gpu_name="sm_90", entry=name)
    (kernel,) = artifact.kernels
    return artifact.text, json.loads(kernel.artifacts[".json"])


def seconds(name: str, grid, arguments: list) -> tuple[float, int]:
    """(best of three, instructions issued by warps); the first run also decodes the PTX."""
    from tileiras.sim import emulate

    ptx, metadata = compiled(name)
    times = []
    for _ in range(3):
        start = process_time()
        result = emulate(ptx, name, grid, arguments, metadata)
        times.append(process_time() - start)
    return min(times), result.steps


def block_seconds() -> list[tuple[str, float, float]]:
    """(block, seconds, seconds without the search for races) of the vendor's code; empty where its compiler is not."""
    from .whole_process import vendor_tool

    if vendor_tool() is None:
        return []
    sys.path[:0] = [str(EXAMPLES.parent / "tests" / "conformance")]
    from tiled_kernels import attention, product
    from vendor_kernels import attempt, compiled

    result = []
    for name, case in (
        ("product 128x256x64, K = 256", product((128, 256, 64), steps=4)),
        ("attention 128x128, d 128", attention((128, 128, 128), hints="occupancy=2", steps=4)),
    ):
        compiled(case, "sm_90")
        times = [_best(lambda case=case, races=races: _checked(attempt(case, "sm_90", check_races=races)[0]))
                 for races in (True, False)]  # fmt: skip
        result.append((name, *times))
    return result


def _best(run: Callable[[], None]) -> float:
    times = []
    for _ in range(3):
        start = process_time()
        run()
        times.append(process_time() - start)
    return min(times)


def _checked(said: str) -> None:
    if said:
        raise AssertionError(said)


def main() -> None:
    import numpy as np

    from . import calibration

    x, y = np.ones((2, ELEMENTS), np.float32)
    a, b, c = np.ones((3, SIZE, SIZE), np.float32)
    runs = (
        ("saxpy", f"{ELEMENTS:,} elements", ELEMENTS // 1024, [x.copy(), y.copy(), 2.0, ELEMENTS]),
        ("matmul_f32", f"{SIZE} cubed", (SIZE // 32, SIZE // 32), [a.copy(), b.copy(), c.copy(), SIZE, SIZE, SIZE]),
    )
    print("emulator (one core, races and uninitialised reads checked)")
    for name, what, grid, arguments in runs:
        time, steps = seconds(name, grid, arguments)
        print(f"  {name:12} {what:18} {time:7.3f} s   {steps / time / 1e6:6.2f} M warp instructions/s")
    loop = calibration.best(calibration.python_loop)
    for name, time, without in block_seconds():
        print(f"  {name:31} {time:7.3f} s, {time / loop:5.1f} calibrations; {without:.3f} s without races")


if __name__ == "__main__":
    main()

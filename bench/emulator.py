"""The emulator: seconds for a million-element saxpy and a 256 x 256 x 256 f32 matrix product, compiled for sm_90."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter

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
        start = perf_counter()
        result = emulate(ptx, name, grid, arguments, metadata)
        times.append(perf_counter() - start)
    return min(times), result.steps


def main() -> None:
    import numpy as np

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


if __name__ == "__main__":
    main()

"""python tests/conformance/function_errors.py [COUNT]: the largest errors of functions, beside their bounds.

Compiled for sm_90 and emulated on COUNT arguments per row and type, in units in the last place of the nearest result.
The emulator rounds approximate instructions to nearest, so the figures are the error of the code around them.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from case_kernels import Shape, elementwise  # noqa: E402
from case_modules import run_module  # noqa: E402
from operation_table import ROWS  # noqa: E402


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 14
    shape = Shape((1024,), (count,), "pointer")
    failed = False
    for row in ROWS:
        if row.family != "function":
            continue
        shown = []
        for element in row.elements:
            # An unlimited bound, so that the run finds the largest error instead of stopping at the first excess.
            kernel = elementwise(row, element, shape)._replace(ulps=float("inf"))
            (result,) = run_module([kernel], ["sm_90"], None)
            if result.failure:
                print(result.failure.message)
            failed |= result.failure is not None or result.ulps > row.ulps[element]
            shown.append(f"{element} {result.ulps:g} of {row.ulps[element]:g}")
        print(f"{row.name:28} {', '.join(shown)}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())

"""python tests/conformance [--families F,...] [--targets T,...] [--pairwise] [--every N].

Ends with 1 when a kernel failed; every failure is printed in one line.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from case_kernels import all_kernels, modules, pairwise_kernels  # noqa: E402
from case_modules import TARGETS, Failure, run_module  # noqa: E402

from tileiras.codegen import toolkit  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(prog="conformance")
    parser.add_argument("--families", help="only these, separated by commas")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--pairwise", action="store_true", help="the kernels that the tests run")
    parser.add_argument("--every", type=int, default=1, help="one kernel in so many")
    options = parser.parse_args()
    kernels = list(pairwise_kernels() if options.pairwise else all_kernels())
    if options.families:
        kernels = [kernel for kernel in kernels if kernel.family in options.families.split(",")]
    kernels = kernels[:: options.every]
    assembler = toolkit.find_program("ptxas")
    counts: Counter[tuple[str, str]] = Counter((kernel.family, "kernels") for kernel in kernels)
    worst: dict[str, float] = {}
    failures: list[Failure] = []
    begin = time.monotonic()
    for group in modules(kernels):
        for result in run_module(group, options.targets.split(","), assembler):
            family = result.kernel.family
            counts[family, "runs"] += 1
            if result.failure:
                failures.append(result.failure)
                counts[family, "failed"] += 1
                words = result.failure.message.replace("\n", " | ")
                where = " ".join(filter(None, (result.failure.target, result.failure.stage)))
                print(f"FAILED {result.failure.name} [{where}] {words}"[:600], flush=True)
                continue
            counts[family, "assembled"] += result.assembled
            counts[family, "emulated"] += result.emulated
            worst[family] = max(worst.get(family, 0.0), result.ulps)
    columns = ("kernels", "runs", "assembled", "emulated", "failed")
    print(f"\n{'family':12}" + "".join(f"{column:>11}" for column in columns) + f"{'worst ulps':>12}")
    families = list(dict.fromkeys(kernel.family for kernel in kernels))
    for family in families:
        print(f"{family:12}" + "".join(f"{counts[family, c]:11}" for c in columns) + f"{worst.get(family, 0):12g}")
    print(f"{'all':12}" + "".join(f"{sum(counts[f, c] for f in families):11}" for c in columns))
    print(f"{time.monotonic() - begin:.0f} s; assembler: {'ptxas' if assembler else 'none'}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())

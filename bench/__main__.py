"""python -m bench [PART ...]: all parts, or those named.  `python -m bench PART ARGUMENTS`: one, with its arguments."""

import importlib
import inspect
import sys

PARTS = (
    "calibration", "ir_core", "bytecode", "stages", "warm", "whole_process", "resources", "registers", "emulator",
    "null_build", "parallel", "watch", "service", "large_tiles", "launch_time",
)  # fmt: skip

LONG = (
    "large_tree", "scale", "llvm_memory", "interleaved", "paired", "same_code", "code", "validation", "estimator",
    "calibrate", "service_kills", "build_kills", "issue_cycles", "assembled", "launches", "checks", "levels", "corpus",
    "dequantised", "products", "gradients", "main_loops", "suite",
)  # fmt: skip
"""Parts that take many minutes and run only when they are named."""


def main(names: list[str]) -> int:
    every = PARTS + LONG
    if len(names) > 1 and names[0] in every and names[1] not in every:
        part = importlib.import_module(f"bench.{names[0]}").main
        if not inspect.signature(part).parameters:
            print(f"{names[0]} takes no arguments", file=sys.stderr)
            return 2
        return part(names[1:]) or 0
    unknown = [name for name in names if name not in every]
    if unknown:
        print(f"unknown part {unknown[0]}: accepted are {', '.join(every)}", file=sys.stderr)
        return 2
    for name in names or PARTS:
        importlib.import_module(f"bench.{name}").main()
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

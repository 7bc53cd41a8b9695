"""python -m bench [PART ...]: all parts, or those named."""

import importlib
import sys

PARTS = ("calibration", "ir_core", "bytecode", "stages", "warm", "whole_process", "resources", "emulator", "null_build", "parallel", "watch")


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"unknown part {unknown[0]}: accepted are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    for name in names or PARTS:
        importlib.import_module(f"bench.{name}").main()
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

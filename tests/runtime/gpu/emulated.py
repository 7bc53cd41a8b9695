"""python tests/runtime/gpu/emulated.py gputest.zip [--device 90] [--only TEXT]: the runner's launches, in the emulator.

Every launch of the archive is made from its packed contents (code for the device, arguments, memory) and judged as on a
GPU.  A difference here would also appear there: a launch that was written down wrongly, or a target whose last bits are
not those of the target that was recorded.  Ends with 1 when something differs.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(os.path.dirname(os.path.dirname(HERE)))]

from comparison import distance, merged, tolerance  # noqa: E402
from runner import Package, choose  # noqa: E402

from tileiras.sim import SimulationError, emulate  # noqa: E402


def run(package: Package, case: dict[str, Any], device: int) -> tuple[float, str]:
    """The worst difference as a multiple of the allowed one, and its place; infinite for a launch that went wrong."""
    image = choose(case, device)
    assert image is not None
    text = package.bytes(image["ptx"]).decode()
    memories = [np.frombuffer(package.bytes(buffer["before"]), np.uint8).copy() for buffer in case["buffers"]]
    arguments: list[Any] = []
    for argument, parameter in zip(case["arguments"], image["kernel"]["parameters"]):
        if "buffer" in argument:
            arguments.append(memories[argument["buffer"]][argument["offset"] :])
        else:
            arguments.append(bytes.fromhex(argument["value"]).ljust(parameter["size"], b"\0"))
    try:
        emulate(text, case["entry"], case["grid"], arguments, metadata=image["kernel"], seed=None, check_races=False)
    except SimulationError as error:
        return float("inf"), str(error)
    worst, where = 0.0, ""
    allowed = tolerance(text, device)
    for number, (buffer, memory) in enumerate(zip(case["buffers"], memories)):
        result, wanted = memory.tobytes(), package.bytes(buffer["after"])
        if "undefined" in buffer:
            result = merged(result, wanted, package.bytes(buffer["undefined"]))
        apart, place = distance(result, wanted, buffer["element"], allowed)
        if apart > worst:
            worst, where = apart, f"buffer {number} ({buffer['element']}), {place}"
    return worst, where


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive")
    parser.add_argument("--device", type=int, default=90)
    parser.add_argument("--only", default="", help="those whose name or entry holds this text")
    options = parser.parse_args()
    package = Package(options.archive)
    agreed, wrong, left_out = 0, 0, 0
    for case in package.cases:
        name = f"{case['name']} {case['entry']}"
        if options.only not in name:
            continue
        if "work" in case or choose(case, options.device) is None:
            left_out += 1
            continue
        apart, place = run(package, case, options.device)
        if apart > 1.0:
            wrong += 1
            print(f"DIFFERS {name}: {place}", flush=True)
        else:
            agreed += 1
    print(f"{agreed} agree, {wrong} differ, {left_out} are only measured or have no code for sm_{options.device}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""python tests/runtime/gpu/estimated.py gputest.zip RESULTS [--only TEXT] [--json FILE]

Puts estimated times beside those that were measured.  RESULTS is the output of the runner (`--results`) on a GPU that
`tileiras.targets.rates` has.  For every kernel that was measured there, our code and the reference compiler's are
estimated for this GPU with the arguments of the launch; the table has both times of both, and the errors that a
refit of the model's data would have to correct.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(os.path.dirname(os.path.dirname(HERE)))]

import measured  # noqa: E402
from runner import Package, choose  # noqa: E402

from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.sim import SimulationError, estimate  # noqa: E402
from tileiras.targets import rates  # noqa: E402


class Beside(NamedTuple):
    """One compiler's code for a kernel: microseconds."""

    name: str
    compiler: str
    measured: float
    estimated: float | None
    said: str
    """The resource that bounds it, or the reason for a missing estimate."""

    @property
    def error(self) -> float | None:
        return None if self.estimated is None else self.estimated / self.measured - 1


def arguments_of(package: Package, case: dict[str, Any], kernel: dict[str, Any]) -> list[Any]:
    """The launch's arguments with arrays as they are made on the device."""
    arrays = []
    for buffer, repeated in zip(case["buffers"], measured.contents(case, package.bytes)):
        size = buffer["count"] * measured.size_of(buffer["element"])
        arrays.append(np.resize(np.frombuffer(repeated, np.uint8), size))
    sizes = [parameter["size"] for parameter in kernel["parameters"]]
    return [
        arrays[argument["buffer"]] if "buffer" in argument
        else bytes.fromhex(argument["value"]).ljust(size, b"\0")
        for argument, size in zip(case["arguments"], sizes)
    ]  # fmt: skip


def compared(package: Package, case: dict[str, Any], outcome: dict[str, Any], sm: int, gpu: str) -> list[Beside]:
    """Ours and, where it was measured, the reference compiler's."""
    image = choose(case, sm)
    if image is None or "microseconds" not in outcome:
        return []
    arguments = arguments_of(package, case, image["kernel"])
    codes = [("ours", outcome["microseconds"], package.bytes(image["ptx"]), image["kernel"])]
    if "reference_microseconds" in outcome and "reference" in image:
        codes.append(("reference", outcome["reference_microseconds"], package.bytes(image["reference"]), None))
    entry = []
    name = case["name"].removeprefix("measured/") if "device" in case else case["entry"]
    for compiler, time, code, metadata in codes:
        try:
            result = estimate(code, case["entry"], case["grid"], arguments, gpu=gpu, metadata=metadata)
            entry.append(Beside(name, compiler, time, result.microseconds, result.bound))
        except (CompileError, SimulationError) as error:
            entry.append(Beside(name, compiler, time, None, f"{error}".split("\n")[0]))
    return entry


def read_results(path: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The device, and outcomes by the key of their case."""
    with open(path) as file:
        device, *lines = [json.loads(line) for line in file if line.endswith("\n")]
    return device, {line["key"]: line for line in lines}


def table(rows: Sequence[Beside]) -> list[str]:
    lines = ["| kernel | code | measured us | estimated us | error | bound |", "|---|---|---|---|---|---|"]
    for row in rows:
        time, error = ("-", "-") if row.error is None else (f"{row.estimated:.1f}", f"{row.error:+.0%}")
        lines.append(f"| {row.name} | {row.compiler} | {row.measured:.1f} | {time} | {error} | {row.said} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive")
    parser.add_argument("results")
    parser.add_argument("--only", default="", help="those whose name or entry holds this text")
    parser.add_argument("--json", metavar="FILE", help="write the rows as data")
    options = parser.parse_args(arguments)
    if not os.path.exists(options.results):
        print(f"nothing was measured: no {options.results}")
        return 0
    package = Package(options.archive)
    device, outcomes = read_results(options.results)
    gpu = rates.of_device(device["device"])
    if gpu is None:
        print(f"no estimates for {device['device']}: known are {', '.join(rates.names())}")
        return 0
    rows: list[Beside] = []
    for case in package.cases:
        if "work" in case and options.only in f"{case['name']} {case['entry']}" and case["key"] in outcomes:
            rows += compared(package, case, outcomes[case["key"]], device["sm"], gpu.name)
    print(f"{gpu.name}:", *table(rows), sep="\n")
    errors = [abs(row.error) for row in rows if row.error is not None]
    if errors:
        print(f"error of {len(errors)} estimates: mean {sum(errors) / len(errors):.1%}, worst {max(errors):.1%}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"gpu": gpu.name, **device, "rows": [row._asdict() for row in rows]}, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

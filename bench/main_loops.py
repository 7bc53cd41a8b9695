"""python -m bench main_loops [--only PART,...] [--write FILE] [--listing]

The machine code of the main loops of twelve kernels: for each loop of each role the instructions by purpose
(`bench/loop_purposes.py`) with their issue cycles, and those without a purpose.  `--listing` prints each instruction;
`--write docs/reports/main-loops.md` replaces the tables of that page.  Needs ptxas and nvdisasm.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tileiras
from bench import dequantised, estimates, gradients, products
from bench.loop_purposes import Flow, Purpose, purposes, roles, working_loops
from bench.register_uses import register_uses
from tileiras.codegen import machine_code
from tileiras.report.machine import with_lines
from tileiras.targets import rates

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
MARKS = "<!-- loops -->", "<!-- end -->"


class Kernel(NamedTuple):
    """A kernel for a target: its bytecode, and the entry."""

    name: str
    target: str
    bytecode: Callable[[str], bytes]
    entry: str = "kernel"

    @property
    def title(self) -> str:
        return f"{self.name} on {self.target}"


def _product(kind: str, tile: str) -> Callable[[str], bytes]:
    return lambda target: estimates.exported(products.text(kind, products.tile_of(tile)), target)


def _example(source: str, export: str) -> Callable[[str], bytes]:
    text = (EXAMPLES / source).read_text(encoding="utf-8")
    return lambda target: estimates.exported(f'{text}\nTILEIRAS_EXPORT = {{"kernel": {export}}}\n', target)


def _gradient(tile: tuple[int, int], depth: int) -> Callable[[str], bytes]:
    gpu = {target: rates.gpu(name) for target, name in estimates.GPUS.items()}
    return lambda target: gradients.job(tile, depth, "f16", False, (1, 512), gpu[target], "").bytecode


def _dequantised(name: str) -> Callable[[str], bytes]:
    return lambda target: dequantised.job(name, "f16", (512, 512, 512), (128, 128, 64), target).bytecode


_ATTENTION = '(attention, *ARRAYS, "f32", False, 128, 128, 128)'
_SOFTMAX = '(long_softmax, *["f32[?, 4*?]"] * 2, 1024)'
KERNELS = (
    Kernel("product f16, 128x128x32", "sm_80", _product("f16", "128x128x32")),
    Kernel("product f16, 128x256x64", "sm_90", _product("f16", "128x256x64")),
    Kernel("product f16, 128x256x64", "sm_100", _product("f16", "128x256x64")),
    Kernel("product f16, 128x128x32", "sm_120", _product("f16", "128x128x32")),
    Kernel("product tf32, 128x128x32", "sm_90", _product("tf32", "128x128x32")),
    Kernel("product f8, 128x256x128", "sm_90", _product("f8", "128x256x128")),
    Kernel("product f8, 128x256x128", "sm_100", _product("f8", "128x256x128")),
    Kernel("attention f16, 128x128, d 128", "sm_90", _example("kernels/attention.py", _ATTENTION)),
    Kernel("attention f16, 128x128, d 128", "sm_100", _example("kernels/attention.py", _ATTENTION)),
    Kernel("attention gradients f16, 64x128, d 64", "sm_90", _gradient((64, 128), 64)),
    Kernel("softmax f32, 1024", "sm_90", _example("kernels/long_softmax.py", _SOFTMAX)),
    Kernel("product f16 of u4, 128x128x64", "sm_90", _dequantised("u4")),
)
"""The rows: products on each generation and of each width, attention, rows, a product that dequantises."""

OPTIONS: dict[str, Any] = {"tensor_maps": "host"}
LEVEL = 3
"""Of ptxas."""


def loops(kernel: Kernel) -> Iterator[list[Purpose]]:
    """Each main loop of a kernel.  Raises CompileError."""
    data = kernel.bytecode(kernel.target)
    ptx = tileiras.compile(data, gpu_name=kernel.target, emit="ptx", entry=kernel.entry, **OPTIONS).text
    cubin = with_lines(ptx, None, LEVEL)
    flow = Flow(machine_code.read(cubin, kernel.entry), register_uses(cubin, kernel.entry))
    for loop in working_loops(flow):
        yield purposes(flow, loop)


def _cycles(code: Sequence[Purpose]) -> int:
    """Cycles before the next instruction of the warp may issue, by the control words."""
    return sum(max(1, each.instruction.stall) for each in code)


def table(kernel: Kernel, number: int, code: Sequence[Purpose]) -> str:
    """The instructions of a loop by purpose, then those without one."""
    groups: dict[str, list[Purpose]] = {}
    for each in code:
        groups.setdefault(f"none: {each.waste}" if each.waste else each.name, []).append(each)
    ordered = sorted(groups.items(), key=lambda item: (item[0].startswith("none"), -len(item[1]), item[0]))
    lines = [f"**Loop {number}**, {roles(code)}: {len(code)} instructions, {_cycles(code)} cycles\n",
             "| purpose | instructions | cycles | share |", "|---|---|---|---|"]  # fmt: skip
    lines += [f"| {name} | {len(own)} | {_cycles(own)} | {len(own) / len(code):.0%} |" for name, own in ordered]
    wasted = Counter((each.waste, each.instruction.name, each.name or "nothing") for each in code if each.waste)
    if wasted:
        lines += ["", "| without a purpose | instruction | for | count |", "|---|---|---|---|"]
        lines += [f"| {waste} | `{name}` | {whom} | {count} |" for (waste, name, whom), count in sorted(wasted.items())]
    return "\n".join(lines)


def summary(kernel: Kernel, number: int, code: Sequence[Purpose]) -> str:
    """The row of a loop in the table of all."""
    wasted = [each for each in code if each.waste]
    return (f"| {kernel.title} | {number}: {roles(code)} | {len(code)} | {_cycles(code)} | {len(wasted)} |"
            f" {len(wasted) / len(code):.0%} |")  # fmt: skip


def listing(code: Sequence[Purpose]) -> str:
    return "\n".join(
        f"{f'@{each.instruction.predicate}' if each.instruction.predicate else '':>6} {each.instruction.name:<34}"
        f"{', '.join(each.instruction.operands):<52} {each.instruction.ptx_line:>5} {each.name}"
        f"{f' ({each.waste})' if each.waste else ''}"
        for each in code
    )


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="main_loops", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--only", default="", help="only kernels with one of these parts in their name or target")
    parser.add_argument("--listing", action="store_true")
    parser.add_argument("--write", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    if missing := estimates.missing_tools():
        print(f"main_loops: needs {' and '.join(missing)}", file=sys.stderr)
        return 2
    only = [part for part in options.only.split(",") if part]
    lines: list[str] = []
    rows = ["| kernel | loop | instructions | cycles | without a purpose | share |", "|---|---|---|---|---|---|"]
    for kernel in KERNELS:
        if only and not any(part in kernel.title for part in only):
            continue
        heading = f"## {kernel.title[0].upper()}{kernel.title[1:]}"
        print(heading, "", sep="\n", flush=True)
        lines += [heading, ""]
        for number, code in enumerate(loops(kernel), 1):
            text = table(kernel, number, code)
            print(text, "", *([listing(code), ""] if options.listing else []), sep="\n", flush=True)
            lines += [text, ""]
            rows.append(summary(kernel, number, code))
    print(*rows, sep="\n")
    if options.write is not None:
        page = options.write.read_text(encoding="utf-8")
        before, behind = page.partition(MARKS[0])[0], page.partition(MARKS[1])[2]
        options.write.write_text("\n".join([before + MARKS[0], "", *rows, "", *lines, MARKS[1] + behind]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

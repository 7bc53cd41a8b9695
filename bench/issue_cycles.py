"""Issue cycles of a consumer warp in the main loop of a product on sm_90, over the cycles that the tensor cores take
for the warp's own products.

    python -m bench issue_cycles [--tiles 128x128x64,...] [--types f16,f8E4M3FN] [--plans plain,agents-boxes]
                                 [--promoted]

A warp issues one instruction a cycle at most, and so do all warps of its scheduler together: the cycles left beside the
products of one warpgroup serve the other one and the loading warps.  Counted in the machine code: all instructions from
the head of the loop to its branch back, those of branches that are not taken included.

Products of f8 have `fast_acc`; with `--promoted` they have not, and the warp adds the sums of each dot to its
accumulator besides.  Needs ptxas and nvdisasm.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import NamedTuple

import tileiras
from bench.plans import PLANS, Plan, plans
from tests.kernels.dots import fast, matmul
from tileiras.codegen import machine_code
from tileiras.codegen.machine_code import Instruction
from tileiras.targets import rates

TARGET, GPU = "sm_90", rates.gpu("H200")
BAR = 0.35
STEPS = 512
"""Iterations of the loop: so many that ptxas does not write all of them down."""
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)")
PRODUCTS = {"HGMMA": "f16", "QGMMA": "f8"}
"""Opcodes of products of warpgroups, and the rate that each has."""


class MainLoop(NamedTuple):
    """The work of one warp in an iteration: instructions, and cycles of the SM's tensor cores for its warpgroup."""

    instructions: int
    tensor_cycles: float

    @property
    def share(self) -> float:
        return self.instructions / self.tensor_cycles


def main_loop(instructions: Sequence[Instruction]) -> MainLoop | None:
    """The shortest of the loops with the most products; None without products in a loop."""
    items: list[tuple[float, int]] = []
    for last in instructions:
        if last.target is None or last.target > last.address:
            continue
        inside = [each for each in instructions if last.target <= each.address <= last.address]
        cycles = sum(_tensor_cycles(each) for each in inside)
        if cycles:
            items.append((-cycles, len(inside)))
    if not items:
        return None
    cycles, count = min(items)
    return MainLoop(count, -cycles)


def _tensor_cycles(instruction: Instruction) -> float:
    """Cycles of the SM's tensor cores for a product of a warpgroup; none for other instructions."""
    kind = PRODUCTS.get(instruction.opcode)
    shape = _SHAPE.search(instruction.name)
    if kind is None or shape is None:
        return 0.0
    m, n, k = map(int, shape.groups())
    return 2 * m * n * k / GPU.tensor[kind]


def measured(tiles: tuple[int, int, int], element: str, plan: Plan, promoted: bool = False) -> MainLoop | None:
    """Of a product with these tiles, by a plan for its loop; `promoted`: dots of f8 add their sums in f32."""
    # 8-bit elements come to warpgroups with K contiguous.
    kernel = matmul(tiles, element, steps=STEPS, b_by_columns=element != "f16")
    if element.startswith("f8") and not promoted:
        kernel = fast(kernel)
    cubin = tileiras.compile(kernel.text, gpu_name=TARGET, emit="cubin", **plan)
    return main_loop(machine_code.read(cubin.data, "k").instructions)


def _tiles(text: str) -> list[tuple[int, int, int]]:
    tiles = [tuple(map(int, each.split("x"))) for each in text.split(",")]
    if any(len(each) != 3 for each in tiles):
        raise argparse.ArgumentTypeError("expected tiles as 128x128x64, separated by commas")
    return tiles  # type: ignore[return-value]


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench issue_cycles", description=__doc__.split("\n\n")[0])
    parser.add_argument("--tiles", type=_tiles, default="128x128x64,128x256x64,256x128x64")
    parser.add_argument("--types", default="f16,f8E4M3FN")
    parser.add_argument("--plans", type=plans, default={name: PLANS[name] for name in ("plain", "agents-boxes")})
    parser.add_argument("--promoted", action="store_true")
    options = parser.parse_args(arguments)
    print("| tile | elements | plan | instructions | tensor cycles | share | |\n|---|---|---|---|---|---|---|")
    for tiles in options.tiles:
        for element in options.types.split(","):
            for name, plan in options.plans.items():
                result = measured(tiles, element, plan, options.promoted)
                row = f"{'x'.join(map(str, tiles))} | {element} | {name}"
                if result is None:
                    print(f"| {row} | no products of warpgroups in a loop | | | |")
                    continue
                text = "" if result.share <= BAR else f"above {BAR}"
                print(f"| {row} | {result.instructions} | {result.tensor_cycles:.0f} | {result.share:.2f} | {text} |")
    return 0

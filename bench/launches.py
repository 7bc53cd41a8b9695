"""python -m bench launches [--targets sm_90,...] [--hints none,4,...] [--rows FILE] [FILE-OR-FOLDER ...]

Registers, spills and CTAs of an SM of every kernel under ordinary launches, whose shared memory ptxas does not see, and
under tile launches, where it does; and with hints that ask for CTAs.

A row is wrong where one launch has more local memory, or fewer CTAs, than the other; where a hint gives fewer CTAs than
none; and where it causes local memory that is absent without it.  `short` are rows with fewer CTAs than the hint asks
for and threads and shared memory have room for.  Files are bytecode;
without any, those of `examples/` and those that the tests write with the front end.  Needs ptxas.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.kernels import Kernel, collect
from bench.registers import front_end_kernels
from tileiras import api
from tileiras.codegen import bitcode_library, ptx, ptxas, toolkit
from tileiras.codegen.ptxas import Resources
from tileiras.diagnostics import CompileError
from tileiras.options import CompileOptions
from tileiras.stages import units
from tileiras.targets import TARGETS, occupancy

GPUS = ("sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
HINTS = (None, 1, 2, 4, 8, 16, 32)
STORE = bitcode_library.MemoryStore()
_ENTRY = re.compile(r"(\bentry @[\w$.]+\([^{]*?\))( optimization_hints=<[^{]*\{[^}]*\}>)? \{\n")


class Row(NamedTuple):
    """An entry on a target with a hint, under both launches."""

    kernel: str
    entry: str
    target: str
    hint: int | None
    registers: int
    spills: int
    ctas: int
    tile_registers: int
    tile_spills: int
    tile_ctas: int
    room: int
    """CTAs for which an SM has threads and shared memory."""

    def __str__(self) -> str:
        return (
            f"{self.kernel[:28]:<29}{self.entry[:24]:<25}{self.target:>7}{self.hint or '-':>5}{self.room:5}"
            f"{self.registers:6}{self.spills:7}{self.ctas:5}"
            f"{self.tile_registers:7}{self.tile_spills:7}{self.tile_ctas:5}"
        )


HEADER = (
    f"{'kernel':<29}{'entry':<25}{'target':>7}{'hint':>5}{'room':>5}{'regs':>6}{'spills':>7}{'CTAs':>5}"
    "   tile launches: the same"
)


def text_of(path: str) -> str:
    """A kernel as text, to which hints can be added."""
    options = CompileOptions({"gpu-name": "sm_120"})
    return api.compile_with(units.Source.read(path), options, "cuda_tile", store=STORE).text


def with_hint(text: str, target: str, ctas: int | None) -> str:
    """A module whose entries ask for so many CTAs, and for nothing else."""
    hint = "" if ctas is None else f" optimization_hints=<{target} = {{occupancy = {ctas}}}>"
    return _ENTRY.sub(rf"\1{hint} {{\n", text)


class Launch(NamedTuple):
    """An entry's PTX, and its figures by ptxas and the launch."""

    text: str
    threads: int
    shared: int
    used: Resources

    def ctas(self, target: str) -> int:
        return occupancy(TARGETS[target], self.threads, self.used.registers, self.shared).ctas


def launches(text: str, target: str, tiles: bool) -> dict[str, Launch]:
    """The resources of each entry by ptxas.  Raises CompileError."""
    options = CompileOptions({"gpu-name": target, "tile-launch": tiles})
    flags = ("--enable-extended-smem", "true") if tiles else ()
    result = {}
    for each in api.compile_with(text, options, "ptx", store=STORE).kernels:
        assembled = each.artifacts[".ptx"].decode()
        used = ptxas.assemble(assembled, target, options=flags).resources[each.name]
        x, y, z = ptx.parse(assembled).entry(each.name).dimensions("reqntid") or (1, 1, 1)
        shared = used.shared + (0 if tiles else (each.metadata or {}).get("shared_memory", 0))
        result[each.name] = Launch(assembled, x * y * z, shared, used)
    return result


def rows(name: str, text: str, target: str, hints: Sequence[int | None]) -> Iterator[Row]:
    """A row for each entry and hint.  Raises CompileError."""
    for hint in hints:
        hinted = with_hint(text, target, hint)
        ordinary, tile = launches(hinted, target, False), launches(hinted, target, True)
        for entry, one in ordinary.items():
            other = tile[entry]
            room = occupancy(TARGETS[target], one.threads, 0, one.shared).ctas
            yield Row(
                name, entry, target, hint,
                one.used.registers, one.used.spill_stores, one.ctas(target),
                other.used.registers, other.used.spill_stores, other.ctas(target), room,
            )  # fmt: skip


def faults(found: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    """The faults of rows, each with a sentence."""
    alone = {(row.kernel, row.entry, row.target): row for row in found if row.hint is None}
    for row in found:
        if row.spills > row.tile_spills or row.ctas < row.tile_ctas:
            yield row, "worse under an ordinary launch"
        base = alone.get((row.kernel, row.entry, row.target))
        if row.hint is None or base is None:
            continue
        if row.ctas < min(base.ctas, row.hint):
            yield row, f"fewer CTAs than asked for, {base.ctas} without a hint"
        elif row.ctas < base.ctas:
            yield row, f"fewer CTAs than the {base.ctas} without a hint"
        if row.spills > base.spills:
            yield row, f"{row.spills} bytes of spills, {base.spills} without a hint"
        if row.ctas < min(row.hint, row.room):
            yield row, "short"


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench launches", description=__doc__.split("\n\n")[1])
    parser.add_argument("--targets", default=",".join(GPUS))
    parser.add_argument("--hints", default=",".join(map(str, HINTS)))
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(arguments)
    if toolkit.find_program("ptxas") is None:
        print("launches: needs ptxas")
        return 2
    hints = [None if word.lower() == "none" else int(word) for word in options.hints.split(",")]
    items: list[Row] = []
    print(HEADER)
    with tempfile.TemporaryDirectory() as folder:
        kernels: list[Kernel] = collect(folder, options.files)
        for kernel in kernels if options.files else [*kernels, *front_end_kernels(folder)]:
            text = text_of(kernel.path)
            for target in options.targets.split(","):
                if int(target[3:]) < kernel.lowest:
                    continue
                try:
                    items += rows(kernel.name, text, target, hints)
                except CompileError as error:
                    print(f"{kernel.name} {target}: {f'{error}'.strip().splitlines()[0]}")
    if options.rows:
        options.rows.write_text("".join(json.dumps(row._asdict()) + "\n" for row in items))
    wrong = list(faults(items))
    for row, why in [(row, "") for row in items] if options.all else wrong:
        print(row, why)
    print(f"{len(items)} rows: {len(wrong)} remarks")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The IR core alone: operations per second of reading, printing, checking, copying and converting; import times.

The text is front-end output for arithmetic on tiles: 20 loops of 100 operations in one entry.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from .calibration import best, measure

LOOPS = 20
TARGETS = {"parse": 30_000, "print": 60_000, "convert 1:1": 30_000}
"""Operations per second that are aimed at, on a quiet machine."""

READ_SECONDS = 0.6
"""The cost of reading and verifying a text of 10,000 operations may take, on a quiet machine."""

IMPORT_TARGETS = {"import tileiras": 60.0, "with all dialects": 120.0}
"""Milliseconds above bare Python."""

_DIALECTS = ("builtin", "arith", "math", "scf", "cuda_tile", "nv_tileaa", "nv_tileas", "llvm", "nvvm")
_BODY = (
    "addf {a}, {b} : tile<64x64xf32>",
    "mulf {a}, {b} rounding<zero> flush_to_zero : tile<64x64xf32>",
    "fma {a}, {b}, {a} : tile<64x64xf32>",
    "subf {a}, {b} : tile<64x64xf32>",
    "maxf {a}, {b} : tile<64x64xf32>",
    "exp2 {a} flush_to_zero : tile<64x64xf32>",
    "negf {a} : tile<64x64xf32>",
    "absf {b} : tile<64x64xf32>",
    "constant <f32: 1.500000e+00> : tile<64x64xf32>",
    "divf {a}, {b} rounding<approx> : tile<64x64xf32>",
)


def tile_module(loops: int = LOOPS, suffix: str = "") -> str:
    """Tile IR text; `suffix` is put behind every operation of a loop."""
    lines = ["cuda_tile.module @bench {", "  entry @kernel(%n: tile<i32>) {"]
    lines += ["    %zero = constant <i32: 0> : tile<i32>", "    %one = constant <i32: 1> : tile<i32>"]
    lines.append("    %x = constant <f32: 1.0> : tile<64x64xf32>")
    carried = "%x"
    for loop in range(loops):
        lines.append(
            f"    %r{loop} = for %i in (%zero to %n, step %one) : tile<i32> "
            f"iter_values(%acc = {carried}) -> (tile<64x64xf32>) {{"
        )
        a, b = "%acc", "%x"
        for number in range(98):
            lines.append(f"      %v{number} = {_BODY[number % len(_BODY)].format(a=a, b=b)}{suffix}")
            a, b = f"%v{number}", a
        lines += [f"      continue {a} : tile<64x64xf32>{suffix}", "    }"]
        carried = f"%r{loop}"
    return "\n".join([*lines, "    return", "  }", "}", ""])


def _tensor_module(count: int = 2000) -> str:
    lines = ["module {", '"nv_tileaa.func"() <{sym_name = "f", function_type = () -> ()}> ({']
    lines.append("^bb0(%v0: tensor<64x64xf32>, %x: tensor<64x64xf32>):")
    operations = ("addf", "mulf", "subf")
    for number in range(count):
        lines.append(f"%v{number + 1} = nv_tileaa.{operations[number % 3]} %v{number}, %x : tensor<64x64xf32>")
    return "\n".join([*lines, "nv_tileaa.return", "}) : () -> ()", "}", ""])


def conversion(module: Any) -> None:
    """Replace every arithmetic operation and every type of the module by one of another dialect."""
    from tileiras.dialects import llvm, nv_tileaa
    from tileiras.ir import ConversionTarget, TensorType, TypeConverter, VectorType, apply_conversion

    def rule(cls: Any) -> Callable[..., Any]:
        def convert(op: Any, args: tuple, rewriter: Any) -> Any:
            return rewriter.insert(cls.create(args, [rewriter.convert_type(op.results[0].type)]))

        return convert

    apply_conversion(
        module,
        {
            nv_tileaa.AddFOp: rule(llvm.FAddOp),
            nv_tileaa.MulFOp: rule(llvm.FMulOp),
            nv_tileaa.SubFOp: rule(llvm.FSubOp),
        },
        ConversionTarget(("llvm", "nv_tileaa", "builtin")),
        TypeConverter({TensorType: lambda type: VectorType(type.shape, type.element_type)}),
        failure="conversion failed",
    )


def rates() -> dict[str, float]:
    """Operations per second."""
    from tileiras.ir import parse_module, print_op, verify

    text = tile_module()
    located = tile_module(suffix=' loc("kernel.py":12:5)')
    module = parse_module(text)
    count = sum(1 for _ in module.walk())
    generic = print_op(module, generic=True)
    work: dict[str, Callable[[], object]] = {
        "parse": lambda: parse_module(text),
        "parse, with locations": lambda: parse_module(located),
        "parse, generic form": lambda: parse_module(generic),
        "print": lambda: print_op(module),
        "print, generic form": lambda: print_op(module, generic=True),
        "print, with locations": lambda: print_op(module, locations=True),
        "verify": lambda: verify(module),
        "clone": lambda: module.clone(),
    }
    result = {name: count / best(function) for name, function in work.items()}
    source = parse_module(_tensor_module())
    copies = [source.clone() for _ in range(5)]
    result["convert 1:1"] = 2000 / best(lambda: conversion(copies.pop()), 5)
    return result


def read_seconds() -> tuple[int, float]:
    """Operations of a large text, and how long it takes to read and verify it."""
    from tileiras.ir import parse_module, verify

    text = tile_module(5 * LOOPS)
    count = sum(1 for _ in parse_module(text).walk())
    return count, best(lambda: verify(parse_module(text)), 3)


def import_times(repeat: int = 7) -> dict[str, float]:
    """Milliseconds that imports take above a bare interpreter: medians of fresh processes, modules compiled."""
    programs = {
        "bare": "pass",
        "import tileiras": "import tileiras",
        "with all dialects": "import tileiras\n" + "\n".join(f"import tileiras.dialects.{d}" for d in _DIALECTS),
    }
    times: dict[str, list[float]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as compiled:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = compiled
        for number in range(repeat + 1):
            for name, program in programs.items():
                start = time.perf_counter()
                subprocess.run([sys.executable, "-c", program], env=environment, check=True)
                if number:  # the first run compiles
                    times[name].append((time.perf_counter() - start) * 1000)
    medians = {name: sorted(values)[len(values) // 2] for name, values in times.items()}
    bare = medians.pop("bare")
    return {name: value - bare for name, value in medians.items()}


def main() -> None:
    loop, llvm = measure()
    print(f"IR core, one process (calibration: python loop {loop * 1000:.1f} ms, LLVM module {llvm * 1000:.1f} ms)")
    for name, rate in rates().items():
        target = f"   target {TARGETS[name]:>7,}" if name in TARGETS else ""
        print(f"  {name:<24}{rate:>12,.0f} ops/s{target}")
    count, seconds = read_seconds()
    print(f"  read and verify{seconds:>21.2f} s       target {READ_SECONDS:>7} ({count:,} operations of text)")
    for name, milliseconds in import_times().items():
        print(f"  {name:<24}{milliseconds:>12.1f} ms      target {IMPORT_TARGETS[name]:>7.0f}")


if __name__ == "__main__":
    main()

"""python -m bench dequantised [--gpus A100,H200,...] [--only PART,...] [--tiles MxNxK] [--size MxNxK] [--code FOLDER]

Estimates of products whose weights are stored in 8 or 4 bits, over that of the product with weights of 16 bits of the
same shape and tile.  A row a GPU, an element type and a format of the weights; the bar is 1.05.  With `--code` the
machine code of each kernel goes to the folder.  Needs ptxas and nvdisasm.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import numpy as np

from bench import estimates
from bench.estimates import GPUS, Job
from bench.real_sizes import slots
from tileiras.diagnostics import CompileError
from tileiras.targets import rates

BAR = 1.05
GROUP = 128
"""Elements along K with one scale."""
_BLOCK = 16
"""Those of f4E2M1FN."""
_TYPES = {"f16": ("float16", np.float16), "bf16": ("bfloat16", ml_dtypes.bfloat16)}


class Format(NamedTuple):
    """A format of weights: the lines that load a tile `w` of (TK, TN), and the array in memory by (K, N)."""

    lines: tuple[str, ...]
    element: str
    """Of the array."""
    shape: tuple[int, int]
    """Of the array, as divisors of K and N; negative ones: by columns."""
    group: int = 0
    needs: int = 80


_LOAD = "q = ct.load(b, (step, column), (TK, TN))"
_LOAD_T = "q = ct.load(b, (column, step), (TN, TK))"
_BYTES = "ct.load(b, (step, column), (TK, TN // 2))"
_BYTES_T = "ct.load(b, (column, step), (TN, TK // 2))"
_SCALE = "s = ct.load(s_, (step * TK // GROUP, column), (1, TN))"
_SCALED = "w = ct.astype(q, a.dtype) * s"
_BOTH = ("p = ct.cat(((p & 15)[:, :, None], (p >> 4)[:, :, None]), 2)",)
_F4_SCALED = (
    "s = ct.astype(ct.load(s_, (step, column), (TK // 16, TN)), a.dtype)",
    "w = ct.reshape(ct.reshape(ct.astype(q, a.dtype), (TK // 16, 16, TN)) * s[:, None, :], (TK, TN))",
)
FORMATS = {
    "plain": Format(("w = ct.load(b, (step, column), (TK, TN))",), "", (1, 1)),
    "plain by columns": Format(("w = ct.transpose(ct.load(b, (column, step), (TN, TK)))",), "", (-1, -1)),
    "i8": Format((_LOAD, _SCALE, _SCALED), "i8", (1, 1), GROUP),
    "i8 by columns": Format((_LOAD_T, "q = ct.transpose(q)", _SCALE, _SCALED), "i8", (-1, -1), GROUP),
    "u4": Format(
        (f"p = {_BYTES}", *_BOTH, "q = ct.reshape(p, (TK, TN))", _SCALE, "w = (ct.astype(q, a.dtype) - 8) * s"),
        "u8", (1, 2), GROUP,
    ),
    "u4 by columns": Format(
        (f"p = {_BYTES_T}", *_BOTH, "q = ct.transpose(ct.reshape(p, (TN, TK)))", _SCALE,
         "w = (ct.astype(q, a.dtype) - 8) * s"),
        "u8", (-1, -2), GROUP,
    ),
    "f8": Format((_LOAD, _SCALE, _SCALED), "f8e4m3fn", (1, 1), GROUP, 89),
    "f8 by columns": Format((_LOAD_T, "q = ct.transpose(q)", _SCALE, _SCALED), "f8e4m3fn", (-1, -1), GROUP, 89),
    "f4": Format(
        (f"p = ct.reshape({_BYTES}, (TK * TN // 2,))",
         "q = ct.reshape(ct.unpack_from_bytes(p, ct.float4_e2m1fn), (TK, TN))", *_F4_SCALED),
        "u8", (1, 2), _BLOCK, 100,
    ),
    "f4 by columns": Format(
        (f"p = ct.reshape({_BYTES_T}, (TK * TN // 2,))",
         "q = ct.transpose(ct.reshape(ct.unpack_from_bytes(p, ct.float4_e2m1fn), (TN, TK)))", *_F4_SCALED),
        "u8", (-1, -2), _BLOCK, 100,
    ),
}  # fmt: skip

_TEXT = """
import cuda.tile as ct

@ct.kernel({hints})
def kernel(a, b, s_, c, steps, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int],
           GROUP: ct.Constant[int]):
    row, column = ct.bid(1), ct.bid(0)
    total = ct.zeros((TM, TN), ct.float32)
    for step in range(steps):
        x = ct.load(a, (row, step), (TM, TK))
        {lines}
        total = ct.mma(x, w, total)
    ct.store(c, (row, column), ct.astype(total, c.dtype))

TILEIRAS_EXPORT = {{'kernel': (kernel, *{signature!r}, {tiles}, {group})}}
"""


def job(name: str, element: str, size: Sequence[int], tiles: Sequence[int], target: str, hints: str = "") -> Job:
    """The launch of a product with weights in a format.  Raises CompileError."""
    form = FORMATS[name]
    (m, n, k), dtype = size, _TYPES[element][1]
    depth, width = abs(k // form.shape[0]), abs(n // form.shape[1])
    by_columns = form.shape[0] < 0
    if by_columns:
        depth, width = abs(k // form.shape[1]), n
    stored = form.element or element
    scale = "f8e4m3fn" if form.group == _BLOCK else element
    signature = [f"{element}[?, 16*?]", f"{stored}[?, 16*?]", f"{scale}[?, 16*?]", f"{element}[?, 16*?]", "i32"]
    text = _TEXT.format(
        hints=hints, lines="\n        ".join(form.lines), signature=signature,
        tiles=", ".join(map(str, tiles)), group=form.group or GROUP,
    )  # fmt: skip
    data = estimates.exported(text, target)
    arrays = [
        np.ones((m, k), dtype),
        np.ones((width, depth) if by_columns else (depth, width), np.int8 if form.element else dtype),
        np.ones((k // (form.group or GROUP), n), np.int8 if scale != element else dtype), np.zeros((m, n), dtype),
    ]  # fmt: skip
    grid = (-(-n // tiles[1]), -(-m // tiles[0]), 1)
    return Job(name, data, "kernel", grid, slots([*arrays, k // tiles[2]]), 2.0 * m * n * k)


def _shape(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))


def rows(gpus: Sequence[str], types: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    for gpu in gpus:
        for element in types:
            for name, form in FORMATS.items():
                if form.needs <= rates.gpu(gpu).target.number:
                    yield gpu, element, name


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="dequantised", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--gpus", default=",".join(GPUS.values()))
    parser.add_argument("--types", default="f16,bf16")
    parser.add_argument("--only", default="", help="formats, separated by commas")
    parser.add_argument("--tiles", type=_shape, default=(128, 128, 64))
    parser.add_argument("--size", type=_shape, default=(4096, 4096, 4096))
    parser.add_argument("--tensor-maps", default="host")
    parser.add_argument("--hints", default="")
    parser.add_argument("--code", type=Path)
    options = parser.parse_args(arguments)
    if missing := estimates.missing_tools():
        print(f"dequantised: needs {' and '.join(missing)}", file=sys.stderr)
        return 2
    wanted = set(filter(None, options.only.split(",")))
    base: dict[tuple[str, str, bool], float] = {}
    slow = False
    print("| GPU | type | weights | us | ratio | bound |\n|---|---|---|---|---|---|")
    for gpu, element, name in rows(options.gpus.split(","), options.types.split(",")):
        plain, by_columns = name.startswith("plain"), name.endswith("by columns")
        if wanted and name not in wanted and not (plain and by_columns in {w.endswith("by columns") for w in wanted}):
            continue
        chosen = rates.gpu(gpu)
        try:
            launch = job(name, element, options.size, options.tiles, chosen.target.name, options.hints)
            image = estimates.ours(launch, chosen, tensor_maps=options.tensor_maps)
        except CompileError as error:
            print(f"| {gpu} | {element} | {name} | - | - | {error} |".replace("\n", " "), flush=True)
            continue
        if options.code:
            cubin = estimates.ours(launch, chosen, tensor_maps=options.tensor_maps)
            options.code.mkdir(parents=True, exist_ok=True)
            (options.code / f"{gpu} {element} {name}.ptx".replace(" ", "_")).write_bytes(cubin.data)
        result = estimates.timed(image, launch, chosen)
        if plain and result.microseconds:
            base[gpu, element, by_columns] = result.microseconds
        first = base.get((gpu, element, by_columns))
        if result.microseconds is None or first is None:
            print(f"| {gpu} | {element} | {name} | - | - | {result.refusal} |", flush=True)
            continue
        ratio = result.microseconds / first
        slow |= ratio > BAR
        reason = estimates.taken(result).reason().partition(', ')[2]
        print(f"| {gpu} | {element} | {name} | {result.microseconds:.1f} | {ratio:.3f} | {reason} |",
              flush=True)  # fmt: skip
    return int(slow)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

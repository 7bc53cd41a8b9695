"""python -m bench products [--gpus H200,...] [--types f16,...] [--sizes MxNxK,...] [--tiles MxNxK[/CTAS[/OCC]],...]
[--every] [--rows FILE]

Estimates of dense products by tile and number of CTAs: a row a GPU, an element type and a size has the best of the
tiles that are searched, beside the published time of a library (`bench/libraries.py`).  `--every` has a row a tile.
A is (M, K) by rows and B (N, K), as a linear layer has its weights; sums are f32, i32 for i8, with scales of 32
elements for mxf8 and of 16 for nvf4.  A library's time is widened by the mean error of the clock: a row above it by
more than `BAR` with all of that added is short.  Estimates are kept in FILE as those of `bench code`.  Needs ptxas and
nvdisasm.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from bench import estimates, libraries
from bench.estimates import GPUS, Job
from bench.kept_rows import KeptRows, digest, model_version, rows_file
from bench.ranking import Taken
from bench.real_sizes import slots
from tileiras.diagnostics import CompileError
from tileiras.targets import rates

BAR = 1.05
CLOCK_ERROR = 0.15
"""Mean error of the clock on the judging half of published ladders: docs/reports/estimate-validation.md."""
ROWS = Path(__file__).resolve().parents[1] / "cache" / "bench-products.jsonl"


class Kind(NamedTuple):
    """An element type of operands: the array's in memory, elements in one of it, the result's and the sum's."""

    element: str
    result: str
    dtype: Any
    packed: int = 1
    block: int = 0
    """Elements with one scale; 0 without scales."""
    scale: str = ""
    needs: int = 80


KINDS = {
    "f16": Kind("f16", "f16", np.float16),
    "bf16": Kind("bf16", "bf16", ml_dtypes.bfloat16),
    "tf32": Kind("f32", "f32", np.float32),
    "f32": Kind("f32", "f32", np.float32),
    "i8": Kind("i8", "i32", np.int8),
    "f8": Kind("f8e4m3fn", "bf16", ml_dtypes.float8_e4m3fn, needs=89),
    "mxf8": Kind("f8e4m3fn", "bf16", ml_dtypes.float8_e4m3fn, block=32, scale="f8e8m0fnu", needs=100),
    "nvf4": Kind("u8", "bf16", np.uint8, 2, 16, "f8e4m3fn", 100),
}
_DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "i32": np.int32,
    "f8e8m0fnu": ml_dtypes.float8_e8m0fnu, "f8e4m3fn": ml_dtypes.float8_e4m3fn,
}  # fmt: skip

_TEXT = """
import cuda.tile as ct

def f4(x, rows: ct.Constant[int], depth: ct.Constant[int]):
    return ct.reshape(ct.unpack_from_bytes(ct.reshape(x, (rows * depth // 2,)), ct.float4_e2m1fn), (rows, depth))

def scales(s, row, step, rows: ct.Constant[int], groups: ct.Constant[int]):
    x = ct.load(s, (row, step, 0, 0), (rows // 128, groups // 4, 32, 16))
    x = ct.permute(ct.reshape(x, (rows // 128, groups // 4, 32, 4, 4)), (0, 3, 2, 1, 4))
    return ct.reshape(x, (rows, groups))

@ct.kernel({hints})
def kernel(a, b, {scales}c, steps, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), {sum})
    for step in range(steps):
        x = ct.load(a, (row, step), (TM, TK // {packed}), padding_mode=ct.PaddingMode.ZERO)
        w = ct.load(b, (column, step), (TN, TK // {packed}), padding_mode=ct.PaddingMode.ZERO)
        {lines}
    ct.store(c, (row, column), ct.astype(total, c.dtype))

TILEIRAS_EXPORT = {{'kernel': (kernel, *{signature!r}, {tiles})}}
"""
_PLAIN = ("total = ct.mma(x, ct.transpose(w), total)",)
_ROUNDED = ("total = ct.mma(ct.astype(x, ct.tfloat32), ct.transpose(ct.astype(w, ct.tfloat32)), total)",)
_UNPACKED = ("x, w = f4(x, TM, TK), f4(w, TN, TK)",)
_SCALED = (
    "sx, sw = scales(a_, row, step, TM, TK // {block}), scales(b_, column, step, TN, TK // {block})",
    "total = ct.mma_scaled(x, sx, ct.transpose(w), ct.transpose(sw), total)",
)


class Tile(NamedTuple):
    """A tile of the result, and hints."""

    shape: tuple[int, int, int]
    ctas: int = 1
    occupancy: int = 0

    def __str__(self) -> str:
        hints = f"{f', {self.ctas} CTAs' * (self.ctas > 1)}{f', occupancy {self.occupancy}' * bool(self.occupancy)}"
        return "x".join(map(str, self.shape)) + hints


class Row(NamedTuple):
    gpu: str
    kind: str
    size: tuple[int, int, int]

    @property
    def name(self) -> str:
        return f"product {self.kind} {'x'.join(map(str, self.size))}"


def text(kind: str, tile: Tile) -> str:
    """The source of a product."""
    form = KINDS[kind]
    lines = _ROUNDED if kind == "tf32" else _PLAIN
    if form.block:
        lines = (*(_UNPACKED if form.packed > 1 else ()), *(line.format(block=form.block) for line in _SCALED))
    hints = ", ".join(f"{key}={value}" for key, value in (("num_ctas", tile.ctas), ("occupancy", tile.occupancy))
                      if value > (key == "num_ctas"))  # fmt: skip
    operand, scale = f"{form.element}[?, 16*?]", f"{form.scale}[?, ?, ?, 16*?]"
    signature = [operand, operand, *[scale] * 2 * bool(form.block), f"{form.result}[?, 16*?]", "i32"]
    return _TEXT.format(
        hints=hints, scales="a_, b_, " * bool(form.block), sum="ct.int32" if kind == "i8" else "ct.float32",
        packed=form.packed, lines="\n        ".join(lines), signature=signature,
        tiles=", ".join(map(str, tile.shape)),
    )  # fmt: skip


def job(row: Row, tile: Tile) -> Job:
    """The launch of a product.  Raises CompileError."""
    form, (m, n, k) = KINDS[row.kind], row.size
    data = estimates.exported(text(row.kind, tile), rates.gpu(row.gpu).target.name)
    arrays = [np.ones((extent, k // form.packed), form.dtype) for extent in (m, n)]
    if form.block:
        arrays += [np.ones((-(-extent // 128), k // form.block // 4, 32, 16), _DTYPES[form.scale])
                   for extent in (m, n)]  # fmt: skip
    arrays.append(np.zeros((m, n), _DTYPES[form.result]))
    grid = (-(-m // tile.shape[0]), -(-n // tile.shape[1]), 1)
    return Job(row.name, data, "kernel", grid, slots([*arrays, -(-k // tile.shape[2])]), 2.0 * m * n * k)


# ---- the tiles of a search ---------------------------------------------------------------------------------------

_DEPTH = {"f16": 64, "bf16": 64, "tf32": 32, "f32": 32, "i8": 128, "f8": 128, "mxf8": 128, "nvf4": 256}
"""Elements of 128 bytes along K, the width of a swizzled box."""


def tiles(row: Row) -> list[Tile]:
    """Those that libraries have for the GPU and the size."""
    k, number = _DEPTH[row.kind], rates.gpu(row.gpu).target.number
    if row.kind == "f32":
        return [Tile((128, columns, depth)) for columns in (64, 128) for depth in (k // 2, k)]
    if row.size[0] <= 256:
        rows = max(16, min(128, 1 << (row.size[0] - 1).bit_length()))
        return [Tile((rows, columns, depth)) for columns in (32, 64, 128) for depth in (k, 2 * k)]
    if number >= 120 or number < 90:
        some = [(128, 128, k), (128, 256, k), (256, 128, k), (128, 256, k // 2), (256, 128, k // 2)]
        return [Tile(shape) for shape in some]
    if number >= 100:
        return [Tile((128, 256, k)), Tile((256, 256, k)), Tile((256, 256, k), 2), Tile((256, 128, k), 2)]
    return [Tile((128, 128, k)), Tile((128, 256, k)), Tile((256, 128, k)), Tile((256, 256, k), 2)]


# ---- a run -------------------------------------------------------------------------------------------------------


def timed(row: Row, tile: Tile, kept: KeptRows, options: dict[str, Any]) -> Taken:
    gpu = rates.gpu(row.gpu)
    try:
        launch = job(row, tile)
        image = estimates.ours(launch, gpu, **options)
    except CompileError as error:
        return Taken(None, refusal=f"{error}".strip().split("\n")[0])
    key = digest(model_version(), gpu.name, row.name, f"{tile}", image.text, json.dumps(image.kernels[0].metadata,
                 sort_keys=True))  # fmt: skip
    if (entry := kept.get(key)) is not None:
        return Taken(**entry)
    result = estimates.taken(estimates.timed(image, launch, gpu))
    kept.put(key, result._asdict())
    return result


def _timed_in_process(row: Row, tile: Tile, kept: KeptRows, options: dict[str, Any]) -> Taken:
    with multiprocessing.get_context("fork").Pool(1) as pool:  # arrays of large launches go back with the process
        return pool.apply(timed, (row, tile, kept, options))


def line(row: Row, tile: Tile, found: Taken) -> tuple[str, bool]:
    """The row of a table, and whether it is short of the library's."""
    flops = 2.0 * row.size[0] * row.size[1] * row.size[2]
    head = f"| {row.gpu} | {row.kind} | {'x'.join(map(str, row.size))} | {tile} |"
    if found.microseconds is None:
        return f"{head} - | - | {found.refusal} | | |", False
    library = libraries.divisor(row.name, row.gpu, flops)
    beside, short = " | |", False
    if library is not None:
        ratio = found.microseconds / library.microseconds
        short = ratio > BAR * (1 + CLOCK_ERROR)
        mark = "; other numerics" if library.numerics else ""
        beside = f" {library.library} {library.microseconds:.1f}{mark} | {ratio:.2f}{' short' * short} |"
    units = ", ".join(f"{name} {share:.0%}" for name, share in list(found.units.items())[:2])
    head = f"{head} {found.microseconds:.1f} | {flops / found.microseconds / 1e6:.0f} |"
    return f"{head} {found.bound} ({units}) |{beside}", short


def _shape(words: str) -> tuple[int, int, int]:
    m, n, k = map(int, words.split("x"))
    return m, n, k


def tile_of(words: str) -> Tile:
    shape, *hints = words.split("/")
    return Tile(_shape(shape), *map(int, hints))


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="products", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--gpus", default=",".join(GPUS.values()))
    parser.add_argument("--types", default="f16", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--sizes", default="8192x8192x8192")
    parser.add_argument("--tiles", default="")
    parser.add_argument("--tensor-maps", default="host")
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--rows", type=rows_file, default=ROWS, metavar="FILE")
    options = parser.parse_args(arguments)
    if unknown := [kind for kind in options.types.split(",") if kind not in KINDS]:
        parser.error(f"argument --types: unknown type '{unknown[0]}' (of {', '.join(KINDS)})")
    if missing := estimates.missing_tools():
        print(f"products: needs {' and '.join(missing)}", file=sys.stderr)
        return 2
    value, slow = KeptRows(options.rows), False
    print("| GPU | type | MxNxK | tile | us | TFLOP/s | bound | library us | ratio |", "|" + "---|" * 9, sep="\n")
    rows = [Row(gpu, kind, _shape(size)) for gpu in options.gpus.split(",") for kind in options.types.split(",")
            for size in options.sizes.split(",") if KINDS[kind].needs <= rates.gpu(gpu).target.number]  # fmt: skip
    for row in rows:
        best: tuple[float, Tile, Taken] | None = None
        for tile in [tile_of(words) for words in options.tiles.split(",") if words] or tiles(row):
            result = _timed_in_process(row, tile, value, {"tensor_maps": options.tensor_maps})
            if options.every or result.microseconds is None:
                print(line(row, tile, result)[0], flush=True)
            if result.microseconds is not None and (best is None or result.microseconds < best[0]):
                best = result.microseconds, tile, result
        if best is not None and not options.every:
            words, short = line(row, *best[1:])
            slow |= short
            print(words, flush=True)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

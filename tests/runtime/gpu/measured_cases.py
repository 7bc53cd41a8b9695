"""The kernels that are measured: those of `examples/`, with the tiles and at the sizes of real use."""

from __future__ import annotations

import os
import struct
from typing import Any, NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


class Measured(NamedTuple):
    """``export`` is an item of TILEIRAS_EXPORT instead of those of the file, None for a kernel written as text.

    ``arrays`` are (element, shape), in the order of the entry's parameters, and then ``scalars``, as bytes; ``views``
    says that each array is followed by its sizes and strides.  ``operations`` and ``moved`` (bytes) are the minimum of
    a launch; ``product`` are m, n, k of C = A @ B.
    """

    source: str
    entry: str
    export: str | None
    grid: tuple[int, ...]
    arrays: tuple[tuple[str, tuple[int, ...]], ...]
    scalars: tuple[bytes, ...] = ()
    views: bool = True
    operations: int = 0
    product: tuple[int, int, int] | None = None

    def text(self) -> str:
        """The source, with the export wanted."""
        with open(os.path.join(ROOT, "examples", self.source)) as file:
            text = file.read()
        return text if self.export is None else f'{text}\nTILEIRAS_EXPORT = {{"{self.entry}": {self.export}}}\n'

    def case(self) -> dict[str, Any]:
        """As the runner wants it."""
        arguments: list[dict[str, Any]] = []
        for number, (_, shape) in enumerate(self.arrays):
            arguments.append({"buffer": number, "offset": 0})
            strides = [_count(shape[axis + 1 :]) for axis in range(len(shape))]
            if self.views:
                arguments += [{"value": size.to_bytes(4, "little").hex()} for size in (*shape, *strides)]
        arguments += [{"value": scalar.hex()} for scalar in self.scalars]
        work: dict[str, Any] = {"operations": self.operations}
        if self.product is None and not self.operations:
            work["bytes"] = sum(_count(shape) * _SIZES[element.partition("<")[0]] for element, shape in self.arrays)
        if self.product is not None:
            work["operations"] = 2 * _count(self.product)
            work["product"] = dict(zip("mnk", self.product))
        return {
            "name": f"measured/{self.source}", "entry": self.entry, "grid": list(self.grid), "arguments": arguments,
            "buffers": [{"element": element, "count": _count(shape)} for element, shape in self.arrays], "work": work,
        }  # fmt: skip


_SIZES = {"f8E4M3FN": 1, "i8": 1, "u8": 1, "f16": 2, "bf16": 2, "f32": 4, "i32": 4, "f64": 8}


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _product(name: str, kernel: str, element: str, spelled: str, sums: str, size: int, tiles: str, by: int) -> Measured:
    """A square product; ``tiles`` are TM, TN, TK, ``by`` a divisor of the row length."""
    tm, tn, _ = (int(tile) for tile in tiles.split(", "))
    entry = {"f32": "f32[?, 4*?]", "i32": "i32[?, 4*?]", "f64": "f64[?, 2*?]"}[sums]
    export = f'({kernel}, "{spelled}[?, {by}*?]", "{spelled}[?, {by}*?]", "{entry}", {tiles})'
    square = (size, size)
    arrays = ((element, square), (element, square), (sums, square))
    return Measured("kernels/matmul.py", name, export, (size // tm, size // tn), arrays, product=(size, size, size))


def _attention(name: str, causal: bool) -> Measured:
    heads, positions, depth, rows = 64, 4096, 64, 64
    export = f'(attention, *ARRAYS, "f32", {causal}, {rows}, 64, {depth})'
    array = ("f16", (heads, positions, depth))
    operations = 4 * heads * positions * positions * depth // (2 if causal else 1)
    # The scale is 1 / 8.
    return Measured("kernels/attention.py", name, export, (positions // rows, heads), (array,) * 4,
                    (bytes.fromhex("0000003e"),), operations=operations)  # fmt: skip


def _f32(*values: float) -> tuple[bytes, ...]:
    return tuple(struct.pack("<f", value) for value in values)


def _i32(*values: int) -> tuple[bytes, ...]:
    return tuple(struct.pack("<i", value) for value in values)


_ROWS = ("f32", (65536, 1024))
_ROW = ("f32", (1024,))
_LINE = ("f32", (1 << 26,))
_SHORT = ("f32", (1 << 24,))
_SQUARE = ("f32", (8192, 8192))
_WIDTH = (8192).to_bytes(4, "little")
_TALL, _WIDE, _WORDS = 16384, 4096, 32000
_TILES = (_TALL // 16, _WIDE // 32)


def _wide(element: str, columns: int = _WIDE) -> tuple[str, tuple[int, ...]]:
    return element, (_TALL, columns)


def _each(element: str) -> tuple[str, tuple[int, ...]]:
    """A number for each row."""
    return element, (_TALL,)


def _by_row() -> tuple[Measured, ...]:
    """Kernels with a block for each row of 4,096 numbers, or for a tile of a few rows."""
    rows = (_TALL,)
    half, full = _wide("f16"), _wide("f32")
    return (
        Measured("layer_norm.py", "layer_norm", '(layer_norm, "f32[?, 4*?]", "f32[4*?]", "f32[4*?]", "f32[?, 4*?]", '
                 '"f32", 1024)', (65536,), (_ROWS, _ROW, _ROW, _ROWS), _f32(1e-5)),
        Measured("kernels/long_softmax.py", "long_softmax", '(long_softmax, *["f32[?, 4*?]"] * 2, 1024)', rows,
                 (full, full)),
        Measured("kernels/rms_norm.py", "rms_norm", '(rms_norm, "f16[?, 8*?]", "f32[4*?]", "f16[?, 8*?]", "f32", 4096)',
                 rows, (half, ("f32", (_WIDE,)), half), _f32(1e-5)),
        Measured("kernels/cross_entropy.py", "cross_entropy",
                 '(cross_entropy, "f32[?, 4*?]", "i32[?]", "f32[?]", "f32[?, 4*?]", 4096)', rows,
                 (full, _each(f"i32<{_WIDE}"), _each("f32"), full)),
        Measured("kernels/argmax.py", "argmax", '(argmax, "f32[?, 4*?]", "i32[?]", 1024)', rows, (full, _each("i32"))),
        Measured("kernels/linear_recurrence.py", "linear_recurrence",
                 '(linear_recurrence, *["f32[?, 4*?]"] * 3, 1024)', rows, (full,) * 3),
        Measured("kernels/quantize.py", "quantize", '(quantize, "f16[?, 8*?]", "i8[?, 16*?]", "f32[?]", 4096)', rows,
                 (half, _wide("i8"), _each("f32"))),
        Measured("kernels/quantize.py", "dequantize", '(dequantize, "i8[?, 16*?]", "f32[?]", "f16[?, 8*?]", 8, 256)',
                 (_TALL // 8, _WIDE // 256), (_wide("i8"), _each("f32"), half)),
        Measured("kernels/swiglu.py", "swiglu", '(swiglu, "bf16[?, 8*?]", "bf16[?, 8*?]", 16, 128)',
                 (_TALL // 16, _WIDE // 2 // 128), (_wide("bf16"), _wide("bf16", _WIDE // 2))),
        Measured("kernels/embedding.py", "embedding", '(embedding, "f16[?, 8*?]", "i32[?]", "f16[?, 8*?]", 16, 32)',
                 _TILES, (("f16", (_WORDS, _WIDE)), _each(f"i32<{_WORDS}"), half)),
        Measured("kernels/scatter_add.py", "scatter_add",
                 '(scatter_add, "f32[?, 4*?]", "i32[?]", "f32[?, 4*?]", 16, 32)', _TILES,
                 (full, _each(f"i32<{_WORDS}"), ("f32", (_WORDS, _WIDE)))),
        Measured("kernels/stencil.py", "heat", '(heat, "f32[?, 4*?]", "f32[?, 4*?]", "f32", 16, 32)', _TILES,
                 (full, full), _f32(0.3)),
        Measured("relu_add_2d.mlir", "relu_add_2d", None, (_TALL // 32, _WIDE // 64), (full,) * 3,
                 _i32(_TALL, _WIDE, _WIDE), views=False),
    )  # fmt: skip


def _by_element() -> tuple[Measured, ...]:
    """Kernels with a block for each stretch of a vector."""
    count = _SHORT[1][0]
    heads = ("f32", (65536, 4, 32))
    return (
        Measured("saxpy.mlir", "saxpy", None, (count // 1024,), (_SHORT,) * 2, (*_f32(2), *_i32(count)), views=False),
        Measured("kernels/dropout.py", "dropout", '(dropout, "f32[4*?]", "f32[4*?]", "u32", "u32", "f32", 1024)',
                 (count // 1024,), (_SHORT,) * 2, (*_i32(1, 1 << 30), *_f32(2))),
        Measured("kernels/black_scholes.py", "black_scholes",
                 '(black_scholes, *["f32[4*?]"] * 5, "f32", "f32", 1024)', (count // 1024,), (_SHORT,) * 5,
                 _f32(0.02, 0.3)),
        Measured("kernels/fft.py", "fft_stage", '(fft_stage, *["f32[4*?]"] * 4, "i32", 512)', (count // 1024,),
                 (_SHORT,) * 4, _i32(count // 2)),
        Measured("kernels/histogram.py", "histogram", '(histogram, "u8[16*?]", "i32[?]", 256, 256)', (count // 256,),
                 (("u8", (count,)), ("i32", (256,)))),
        Measured("kernels/rope.py", "rope", '(rope, *["f32[?, 4, 32]"] * 2, "f32", 4, 16)', heads[1][:1], (heads,) * 2,
                 _f32(13.2877)),
        Measured("kernels/matmul_batched.py", "matmul_batched",
                 '(matmul_batched, *["f16[?, ?, 8*?]"] * 3, 1, 128, 128, 64)', (16, 8, 8),
                 (("f16", (16, 1024, 1024)),) * 3, operations=2 * 16 * 1024**3),
        Measured("kernels/matmul_split_k.py", "matmul_split_k",
                 '(matmul_split_k, "bf16[?, 8*?]", "bf16[?, 8*?]", "f32[?, 4*?]", 64, 64, 64)', (4, 4, 8),
                 (("bf16", (256, 4096)), ("bf16", (4096, 256)), ("f32", (256, 256))), operations=2 * 256 * 256 * 4096),
    )  # fmt: skip


MEASURED = (
    Measured("vector_add.py", "vector_add", '(vector_add, *["f32[4*?]"] * 3, 4096)', (1 << 14,), (_LINE,) * 3),
    Measured("softmax.py", "softmax", '(softmax, "f32[?, 4*?]", "f32[?, 4*?]", 1024)', (65536,), (_ROWS,) * 2),
    Measured("transpose.mlir", "transpose", None, (256, 256), (_SQUARE,) * 2, (_WIDTH, _WIDTH), views=False),
    _product("matmul_f16", "matmul", "f16", "f16", "f32", 8192, "128, 128, 64", 8),
    _product("matmul_bf16", "matmul", "bf16", "bf16", "f32", 8192, "128, 128, 64", 8),
    _product("matmul_tf32", "matmul_tf32", "f32", "f32", "f32", 8192, "128, 128, 32", 4),
    _product("matmul_f8e4m3fn", "matmul", "f8E4M3FN", "f8e4m3fn", "f32", 8192, "128, 128, 64", 16),
    _product("matmul_i8", "matmul", "i8", "i8", "i32", 8192, "128, 128, 64", 16),
    _product("matmul_f32", "matmul", "f32", "f32", "f32", 4096, "64, 64, 32", 4),
    _product("matmul_f64", "matmul", "f64", "f64", "f64", 4096, "64, 64, 16", 2),
    _attention("attention", False),
    _attention("causal_attention", True),
    *_by_row(),
    *_by_element(),
)

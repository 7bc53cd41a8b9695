"""The kernels that are measured: those of `examples/`, with the tiles and at the sizes of real use."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


class Measured(NamedTuple):
    """``export`` is an item of TILEIRAS_EXPORT instead of those of the file, None for a kernel written as text.

    ``arrays`` are (element, shape), in the order of the entry's parameters, and then ``scalars``, as bytes; ``views``
    says that each array is followed by its sizes and strides.  ``operations`` and ``moved`` (bytes) are what a launch
    cannot do without; ``product`` are m, n, k of C = A @ B.
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
            work["bytes"] = sum(_count(shape) * _SIZES[element] for element, shape in self.arrays)
        if self.product is not None:
            work["operations"] = 2 * _count(self.product)
            work["product"] = dict(zip("mnk", self.product))
        return {
            "name": f"measured/{self.source}", "entry": self.entry, "grid": list(self.grid), "arguments": arguments,
            "buffers": [{"element": element, "count": _count(shape)} for element, shape in self.arrays], "work": work,
        }  # fmt: skip


_SIZES = {"f8E4M3FN": 1, "i8": 1, "f16": 2, "bf16": 2, "f32": 4, "i32": 4, "f64": 8}


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _product(name: str, kernel: str, element: str, spelled: str, sums: str, size: int, tiles: str, by: int) -> Measured:
    """A square product; ``tiles`` are TM, TN, TK, ``by`` what rows are a multiple of."""
    tm, tn, _ = (int(tile) for tile in tiles.split(", "))
    given = {"f32": "f32[?, 4*?]", "i32": "i32[?, 4*?]", "f64": "f64[?, 2*?]"}[sums]
    export = f'({kernel}, "{spelled}[?, {by}*?]", "{spelled}[?, {by}*?]", "{given}", {tiles})'
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


_ROWS = ("f32", (65536, 1024))
_LINE = ("f32", (1 << 26,))
_SQUARE = ("f32", (8192, 8192))
_WIDTH = (8192).to_bytes(4, "little")

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
)

"""Arrays that a kernel accesses by tiles, whole kernels, and their run in the interpreter and in the emulator.

Tests share the kernels of this folder, which are text with parameters and an expected result: `dots` and `rows` hold
kernels of cuda_tile, `tileaa` kernels of nv_tileaa; `tiles` builds one from a list of operations on tiles,
`random_tiles` from a seed.  A test takes its kernel from here and judges the compiler's output for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import ml_dtypes
import numpy as np

import tileiras
from tests.tileas_stage import through
from tileiras.dialects import arith, nv_tileas, scf
from tileiras.ir import Operation, parse_module
from tileiras.sim import emulate, interpret

DTYPES = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "f64": np.float64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu, "f4E2M1FN": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
"""NumPy's types of arrays that hold elements of the types of Tile IR."""


def tile_type(shape: Sequence[int], element: str) -> str:
    return f"tile<{'x'.join([*map(str, shape), element])}>"


def dense_strides(shape: Sequence[int], by_columns: bool = False) -> list[int]:
    """In elements; the last dimension is the fastest one, or, by columns, the first."""
    strides, step = [0] * len(shape), 1
    for dim in range(len(shape)) if by_columns else reversed(range(len(shape))):
        strides[dim] = step
        step *= shape[dim]
    return strides


class View:
    """A dense array of `shape` at the parameter %p_NAME, which the kernel accesses as %v_NAME by tiles of `tile`.

    `padding` is the value of a tile's elements outside of the array, whose sizes need not be multiples of the tile's;
    the pointer is a multiple of `aligned` bytes, or has no known alignment if that is None.
    """

    def __init__(
        self,
        name: str,
        tile: Sequence[int],
        element: str,
        shape: Sequence[int] | None = None,
        *,
        by_columns: bool = False,
        padding: str | None = None,
        aligned: int | None = 16,
    ) -> None:
        self.name, self.element = name, element
        self.shape = tuple(shape if shape is not None else tile)
        self.tile = tile_type(tile, element)
        self.parameter = f"%p_{name}: tile<ptr<{element}>>"
        self.rank = len(self.shape)
        strides = dense_strides(self.shape, by_columns)
        tensor = f"tensor_view<{'x'.join(map(str, [*self.shape, element]))}, strides={strides}>".replace(", ", ",")
        padded = f", padding_value = {padding}" if padding is not None else ""
        self.type = f"partition_view<tile=({'x'.join(map(str, tile))}){padded}, {tensor}>"
        pointer, lines = f"%p_{name}", []
        if aligned is not None:
            lines.append(f"%q_{name} = assume div_by<{aligned}>, {pointer} : tile<ptr<{element}>>")
            pointer = f"%q_{name}"
        lines.append(f"%t_{name} = make_tensor_view {pointer}, shape = {[*self.shape]}, strides = {strides} : {tensor}")
        lines.append(f"%v_{name} = make_partition_view %t_{name} : {self.type}")
        self.made = "\n".join(lines)
        """The operations that make the view."""

    def _at(self, indices: str | None) -> str:
        return indices if indices is not None else ", ".join(["%zero"] * self.rank)

    def load(self, value: str, indices: str | None = None, *, token: str = "", order: str = "weak") -> str:
        """Loads %VALUE, with the token %k_VALUE, from the tile at `indices` (default: the first one)."""
        after = f" token = {token}" if token else ""
        return (
            f"%{value}, %k_{value} = load_view_tko {order} %v_{self.name}[{self._at(indices)}]{after}"
            f" : {self.type}, tile<i32> -> {self.tile}, token"
        )

    def store(self, value: str, indices: str | None = None, *, token: str = "") -> str:
        """Stores %VALUE, with the token %end_NAME of the view's name."""
        after = f" token = {token}" if token else ""
        return (
            f"%end_{self.name} = store_view_tko weak %{value}, %v_{self.name}[{self._at(indices)}]{after}"
            f" : {self.tile}, {self.type}, tile<i32> -> token"
        )


def entry(views: Sequence[View], body: Sequence[str], hints: str = "") -> str:
    """A module with the entry @k: makes the views and %zero, and runs `body`."""
    lines = [
        *(view.made for view in views),
        "%zero = constant <i32: 0> : tile<i32>",
        *body,
        "return",
    ]
    inner = "\n".join("    " + line.strip() for line in "\n".join(lines).split("\n") if line.strip())
    hinted = f" optimization_hints=<{hints}>" if hints else ""
    parameters = ", ".join(view.parameter for view in views)
    return f"cuda_tile.module @m {{\n  entry @k({parameters}){hinted} {{\n{inner}\n  }}\n}}\n"


ONE = "%one = constant <i32: 1> : tile<i32>"


def zeros(value: str, type: str) -> str:
    """%VALUE, a tile of zeros."""
    element = type.removeprefix("tile<").removesuffix(">").rpartition("x")[2]
    return f"%{value} = constant <{element}: {'0' if element.startswith('i') else '0.0'}> : {type}"


def reduced(
    value: str, source: str, shape: Sequence[int], dim: int, combine: str = "addf", identity: str = "0.0"
) -> str:
    """%VALUE, the f32 tile %SOURCE of `shape` reduced along `dim`."""
    rest = [size for d, size in enumerate(shape) if d != dim]
    return (
        f"%{value} = reduce %{source} dim={dim} identities=[{identity} : f32]"
        f" : {tile_type(shape, 'f32')} -> {tile_type(rest, 'f32')}\n"
        f"(%x_{value}: tile<f32>, %y_{value}: tile<f32>) {{\n"
        f"  %z_{value} = {combine} %x_{value}, %y_{value} : tile<f32>\n"
        f"  yield %z_{value} : tile<f32>\n}}"
    )


def of_rows(value: str, source: str, shape: Sequence[int]) -> str:
    """%VALUE, an f32 tile of `shape` (rows, columns) whose rows have the values of the tile %SOURCE of (rows)."""
    rows, whole = tile_type((shape[0], 1), "f32"), tile_type(shape, "f32")
    return (
        f"%{value}_1 = reshape %{source} : {tile_type(shape[:1], 'f32')} -> {rows}\n"
        f"%{value} = broadcast %{value}_1 : {rows} -> {whole}"
    )


class Kernel(NamedTuple):
    """A kernel with the entry @k, its input arrays, and the expected contents of its output arrays."""

    text: str
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]
    """As they are before the launch."""
    expected: tuple[np.ndarray, ...]
    grid: int = 1

    def compiled(self, gpu_name: str, **options) -> tileiras.Artifact:
        return tileiras.compile(self.text, gpu_name=gpu_name, **options)

    def tileas(self, gpu_name: str, **options) -> Operation:
        """The nv_tileas module after all decisions."""
        return parse_module(self.compiled(gpu_name, emit="tileas", **options).text, "k.tileas.mlir")

    def after(self, row: str, gpu_name: str, **options) -> Operation:
        return after_decision(self.text, row, gpu_name, **options)

    def interpreted(self) -> None:
        """The interpreter's results are the expected ones, to the bit."""
        result = [array.copy() for array in self.outputs]
        interpret(self.text, "k", self.grid, [*map(_raw, self.inputs), *result])
        self._compare(result)

    def emulated(self, artifact: tileiras.Artifact, seed: int | None = 0, ptx: str | None = None) -> None:
        """The emulator's results are the expected ones, to the bit; with `ptx` instead of the artifact's.  The seed
        selects the order of warps, and the lane that `elect.sync` elects."""
        result = [array.copy() for array in self.outputs]
        arguments = [*map(_raw, self.inputs), *result]
        leader = 0 if seed is None else (seed + 8) % 32
        metadata = artifact.kernels[0].metadata
        emulate(ptx or artifact.text, "k", self.grid, arguments, metadata=metadata, seed=seed, leader=leader)
        self._compare(result)

    def check(self, gpu_name: str, **options) -> tileiras.Artifact:
        """Interpreted = emulated = expected; the PTX that ran."""
        self.interpreted()
        artifact = self.compiled(gpu_name, **options)
        self.emulated(artifact)
        return artifact

    def _compare(self, found: Sequence[np.ndarray]) -> None:
        for got, wanted in zip(found, self.expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


def whole_numbers(shape: Sequence[int] | int, element: str = "f32", seed: int = 0, most: int = 4) -> np.ndarray:
    """Integers from -`most` to `most`: sums of a few of them, and of their products, are exact in any order."""
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(DTYPES[element])


def in_pairs(array: np.ndarray) -> np.ndarray:
    """The bytes of elements of four bits; of two along the last dimension, the even one is in the lower half."""
    codes = array.view(np.uint8)
    return codes[..., 0::2] & 15 | codes[..., 1::2] << 4


def after_decision(text: str, row: str, gpu_name: str, **options) -> Operation:
    """A kernel after the decision `row` of TileAS; all earlier decisions are made in their order."""
    module = parse_module(tileiras.compile(text, gpu_name=gpu_name, emit="tileaa").text, "k.tileaa.mlir")
    return through(module, row, gpu_name, **options)


def operations(module: Operation, kind: type[Operation] | tuple[type[Operation], ...]) -> list[Operation]:
    """Operations of a class, in the order of the text."""
    return [op for op in module.walk() if isinstance(op, kind)]


def names(module: Operation) -> list[str]:
    """The names of all operations, in the order of the text, those of nv_tileas without its prefix."""
    return [op.name.removeprefix("nv_tileas.") for op in module.walk()]


def buffers(module: Operation, filled_by: type[Operation] | None = None) -> list[tuple[tuple[int, ...], int]]:
    """The shape of the tiles and the number of stages of every buffer in shared memory; with `filled_by`, only of the
    buffers that its operations write."""
    result = operations(module, nv_tileas.AllocTensorOp)
    if filled_by is not None:
        result = [op for op in result if any(isinstance(user, filled_by) for user in op.result.users)]
    return [(tuple(op.result.type.tile.shape), op.result.type.stages) for op in result]


def trip_counts(module: Operation) -> list[int | None]:
    """Trip counts of all loops, in the order of the text; None if bounds are not constants."""
    result: list[int | None] = []
    for loop in operations(module, scf.ForOp):
        bounds = [bound.defining_op for bound in (loop.lower_bound, loop.upper_bound, loop.step)]
        if all(isinstance(bound, arith.ConstantOp) for bound in bounds):
            result.append(len(range(*(bound.value.value for bound in bounds))))
        else:
            result.append(None)
    return result


def _raw(array: np.ndarray) -> np.ndarray:
    """Elements that NumPy does not have itself, as integers of their size."""
    return array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array


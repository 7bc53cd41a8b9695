"""Kernels of the cuTile Python front end: what is compiled agrees with what is interpreted."""

from __future__ import annotations

import importlib.util
import io
import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from tile_kernels import assert_same

import tileiras
from tileiras.sim import InterpreterError, emulate, interpret

pytest.importorskip("cuda.tile")

DTYPES = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "tf32": np.float32, "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "i8": np.int8, "u8": np.uint8, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "bool": np.bool_,
}  # fmt: skip


def _corpus():
    path = Path(__file__).resolve().parents[1] / "bytecode" / "kernels.py"
    spec = importlib.util.spec_from_file_location("front_end_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CORPUS = _corpus()


def random_array(element: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    dtype = np.dtype(DTYPES[element])
    if dtype.kind in "iu":
        return generator.integers(0 if dtype.kind == "u" else -60, 60, shape).astype(dtype)
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(dtype)
    return generator.uniform(0.25, 2, shape).astype(dtype)


# Sizes of the arrays, values of the scalars, grid, and units in the last place that results may differ by: functions
# of the library and sums in another order are not exact.
LAUNCHES = {
    "vector_add_f32": ([(2000,)] * 3, 2, 0),
    "vector_add_f64": ([(300,)] * 3, 2, 0),
    "vector_add_u8": ([(304,)] * 3, 2, 0),
    "vector_add_fixed": ([(4096,)] * 3, 2, 0),
    "softmax_f16": ([(2, 400)] * 2, 2, 2),
    "softmax_f64": ([(3, 50)] * 2, 3, 16),
    "matmul_f16": ([(100, 70), (70, 90), (100, 90)], (1, 1), 1),
    "matmul_f32": ([(40, 20), (20, 33), (40, 33)], (2, 2), 16),
    "matmul_tf32": ([(40, 20), (20, 33), (40, 33)], (2, 2), 32),
    "matmul_i8": ([(32, 32)] * 3, 1, 0),
    "integers_i32": ([(128,)] * 3, 1, 0),
    "integers_i64": ([(128,)] * 3, 1, 0),
    "unsigned_u32": ([(128,)] * 2, 1, 0),
    "floats_f32": ([(4, 64)] * 2, 1, 64),
    "floats_f64": ([(4, 64)] * 2, 1, 64),
    "modes_f32": ([(64,)] * 2, 1, 16),
    "conversions": ([(64,)] * 4, 1, 0),
    "shapes": ([(16, 32), (16, 16)], 1, 16),
    "reductions_f32": ([(16, 32), (16,), (16,)], 1, 16),
    "reductions_i64": ([(16, 32), (16,), (16,)], 1, 0),
    "gather": ([(64,), (64,), (64,)], 1, 0),
    "control_flow": ([(64,), (64,), 9, 4], 1, 0),
    "atomics": ([(64,), (64,), (64,)], 1, 0),
    "grid": ([(4,)], 1, 0),
    "hints": ([(64,)] * 2, 1, 0),
    "constants": ([(8,)] * 2, 1, 0),
    "strided": ([(7, 20), (4, 8)], 1, 0),
    "sparse": ([(64, 24), (64,), (64, 16), 12], 1, 0),
    "view_atomics": ([(4, 8)] * 2, 1, 0),
    "bytes_and_slots": ([(16,)] * 2, 1, 0),
    "scaled": ([(64, 64), (64, 2), (64, 64), (2, 64), (64, 64)], 1, 64),
    "batched": ([(2, 16, 16)] * 3, 1, 16),
    "ordered": ([(4,), (8,)], 1, 0),
    "more_math": ([(16,)] * 3, 1, 64),
}


def arguments_of(name: str) -> list:
    _, _, *parameters = CORPUS.EXPORTS[name]
    sizes, _, _ = LAUNCHES[name]
    arguments = []
    for number, (parameter, size) in enumerate(zip(parameters, sizes)):
        if isinstance(size, tuple):
            array = random_array(parameter.partition("[")[0], size, number)
            if name.startswith("integers"):
                array[array == 0] = 7  # a divisor
            if name in ("gather", "atomics", "sparse") and number == 1:
                array = np.random.default_rng(5).permutation(64).astype(np.int32)
            arguments += [array, *size, *(stride // array.itemsize for stride in array.strides)]
        else:
            arguments.append(size)
    return arguments


@pytest.mark.parametrize("name", LAUNCHES)
def test_kernel(name):
    version = CORPUS.EXPORTS[name][1]
    bytecode = CORPUS.export(name, version)
    _, grid, ulps = LAUNCHES[name]
    arguments = arguments_of(name)
    expected, actual = ([a.copy() if isinstance(a, np.ndarray) else a for a in arguments] for _ in range(2))
    interpret(bytecode, name, grid, expected, output=io.StringIO())
    gpu_name = CORPUS.NEEDS_GPU.get(name, "sm_90")
    artifact = tileiras.compile(bytecode, gpu_name=gpu_name, source_name=name)
    metadata = json.loads(artifact.kernels[0].artifacts[".json"])
    emulate(artifact.text, name, grid, actual, metadata=metadata)
    for position, (want, got) in enumerate(zip(expected, actual)):
        if isinstance(want, np.ndarray):
            assert_same(f"argument {position}", got, want, [], ulps)


def test_printing_and_assertions():
    bytecode = CORPUS.export("debugging", CORPUS.EXPORTS["debugging"][1])
    output = io.StringIO()
    values = np.array([1, 2, 3, 4, 5, 6, 7, 0.5], np.float32)
    interpret(bytecode, "debugging", 1, [values, 8, 1, 42], output=output)
    assert output.getvalue().startswith("value [1.000000, 2.000000,") and output.getvalue().endswith(" at 42\n")
    values[2] = -1
    with pytest.raises(InterpreterError, match=r"kernels.py:\d+:\d+: .*assertion failed at \[2\]: positive only"):
        interpret(bytecode, "debugging", 1, [values, 8, 1, 42], output=output)

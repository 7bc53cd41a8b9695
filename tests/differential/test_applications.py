"""Larger kernels: interpreted and compiled, both against NumPy."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

import tileiras
from tileiras.sim import Memory, emulate, interpret

pytest.importorskip("cuda.tile")

TARGETS = ("sm_80", "sm_100")


def export(kernel, *parameters) -> bytes:
    from cuda.tile.compilation import export_kernel

    from tileiras.stages.export.signatures import kernel_signature

    output = io.BytesIO()
    signature = kernel_signature("kernel", parameters)
    form = {"gpu_code": "sm_80", "output_format": "tileir_bytecode", "bytecode_version": "13.1"}
    export_kernel(kernel, [signature], output, **form)
    return output.getvalue()


def slots(array: np.ndarray) -> list:
    return [array, *array.shape, *(stride // array.itemsize for stride in array.strides)]


def both(bytecode: bytes, grid, make):
    """Yield the arguments as the interpreter and as the compiled kernel leave them, from fresh ones each time."""
    arguments = make()
    interpret(bytecode, "kernel", grid, arguments)
    yield arguments
    for target in TARGETS:
        artifact = tileiras.compile(bytecode, gpu_name=target, source_name="kernel")
        arguments = make()
        metadata = json.loads(artifact.kernels[0].artifacts[".json"])
        emulate(artifact.text, "kernel", grid, arguments, metadata=metadata)
        yield arguments


def test_list_of_arrays():
    from applications import sums_of_many
    from cuda.tile.compilation import ListConstraint

    from tileiras.stages.export.signatures import array

    arrays = [np.random.default_rng(n).integers(0, 9, n).astype(np.float32) for n in (300, 7, 128)]
    memory = Memory()
    table = np.array([[memory.allocate(array), array.size, 1] for array in arrays], np.int64)
    element = ListConstraint(array("f32[?]"), alias_groups=(), elements_may_alias=False)
    bytecode = export(sums_of_many, element, "f32[?]", 64)
    for arguments in both(bytecode, 3, lambda: [table, 3, *slots(np.zeros(3, np.float32))]):
        assert arguments[2].tolist() == [array.sum() for array in arrays]


def test_tile_blocks_take_turns():
    from applications import split_product

    generator = np.random.default_rng(4)
    a, b = (generator.integers(-4, 5, shape).astype(np.float16) for shape in ((40, 70), (70, 24)))
    bytecode = export(split_product, *["f16[?, ?]"] * 2, "f32[?, ?]", "i32[?]", 32, 32, 16, 3)

    def make():
        arrays = (a, b, np.zeros((40, 24), np.float32), np.zeros(2, np.int32))
        return [p for array in arrays for p in slots(array)]

    for arguments in both(bytecode, (2, 1, 3), make):
        assert (arguments[10] == a.astype(np.float64) @ b.astype(np.float64)).all()
        assert not arguments[15].any()


def test_loops_inside_each_other_both_run_ahead():
    from applications import nested_products

    generator = np.random.default_rng(5)
    a, b, w = (generator.integers(-3, 4, shape).astype(np.float16) for shape in ((32, 96), (96, 128), (96, 32)))
    bytecode = export(nested_products, *["f16[?, 8*?]"] * 3, "f32[?, 4*?]", 32, 32)

    def make():
        return [p for array in (a, b, w, np.zeros((32, 32), np.float32)) for p in slots(array)]

    left = a.astype(np.float64)
    expected = left @ w + sum(left @ b[:, at : at + 32] for at in range(0, 128, 32))
    for arguments in both(bytecode, 1, make):
        assert (arguments[15] == expected).all()
    text = tileiras.compile(bytecode, gpu_name="sm_80", source_name="kernel").text
    assert text.count("cp.async.wait_group") == 2

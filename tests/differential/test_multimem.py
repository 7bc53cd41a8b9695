"""Multicast memory, as a team of one device sees it: compiled against interpreted."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tileiras
from tests.kernels.tiles import compiled
from tileiras.diagnostics import CompileError
from tileiras.sim import emulate, interpret

DTYPES = {"i32": np.int32, "i64": np.int64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32,
          "f64": np.float64}  # fmt: skip
KINDS = ("add", "min", "max", "and", "or", "xor", "umin", "umax")
FLOAT_KINDS = {"f16": ("add", "min", "max"), "bf16": ("add", "min", "max"), "f32": ("add",), "f64": ("add",)}


def entry(name: str, operation: str, element: str, kind: str, order: str, size: int, stride: int) -> str:
    """Tiles of 64 of `size` elements, `stride` apart in multicast memory and dense in the other."""
    tensor = f"tensor_view<{size}x{element}, strides=[{stride}], #cuda_tile.ptr_attr<multicast>>"
    view, plain = f"partition_view<tile=(64), {tensor}>", f"tensor_view<{size}x{element}, strides=[1]>"
    padded, dense = (view.replace("(64)", "(64), padding_value = zero"), f"partition_view<tile=(64), {plain}>")
    tile, reduction = f"tile<64x{element}>", f"attributes {{reduction = #cuda_tile.multimem_reduction_kind<{kind}>}}"
    read = f"%x, %t0 = load_view_tko weak %d[%b] : {dense}, tile<i32> -> {tile}, token"
    body = {
        "load": f"""%x, %t0 = multimem_load_reduce_view_tko {order} %w[%b] {reduction}
          : {padded}, tile<i32> -> {tile}, token
        %t1 = store_view_tko weak %x, %d[%b] token = %t0 : {tile}, {dense}, tile<i32> -> token""",
        "reduce": f"""{read}
        %t1 = multimem_reduce_view_tko {order} %w, %x[%b] token = %t0 {reduction}
          : {view}, {tile}, tile<i32>, token -> token""",
        "store": f"""{read}
        %t1 = multimem_store_view_tko {order} %w, %x[%b] token = %t0 : {view}, {tile}, tile<i32>, token -> token""",
    }[operation]
    return f"""  entry @{name}(%m: tile<ptr<{element}, <multicast>>>, %p: tile<ptr<{element}>>) {{
    %b, %y, %z = get_tile_block_id : tile<i32>
    %ma = assume div_by<16>, %m : tile<ptr<{element}, <multicast>>>
    %v = make_tensor_view %ma, shape = [{size}], strides = [{stride}] : {tensor}
    %w = make_partition_view %v : {padded if operation == "load" else view}
    %q = make_tensor_view %p, shape = [{size}], strides = [1] : {plain}
    %d = make_partition_view %q : {dense}
    {body}
    return
  }}
"""


def cases() -> list[tuple]:
    result = []
    for element in DTYPES:
        kinds = FLOAT_KINDS.get(element, KINDS)
        for number, kind in enumerate(kinds):
            order = ("weak", "relaxed sys", "acquire device")[number % 3]
            result.append(("load", element, kind, order, (128, 101)[number % 2], 1))
            if kind == "add" or element not in FLOAT_KINDS:
                result.append(("reduce", element, kind, ("relaxed tl_blk", "release sys")[number % 2], 101, 1))
        result += [("store", element, "add", order, *shape) for order, shape in
                  (("weak", (128, 1)), ("relaxed device", (101, 1)), ("release sys", (101, 3)))]  # fmt: skip
        result += [("load", element, "add", "weak", 101, 3), ("reduce", element, "add", "relaxed sys", 101, 3)]
    return result


@pytest.mark.parametrize("number, gpu_name", list(enumerate(["sm_90", "sm_100", "sm_120"])))
def test_every_operation_kind_and_type(number, gpu_name):
    """Cases go round with the targets."""
    chosen = [(f"k{n}", *case) for n, case in enumerate(cases()[number::3])]
    text = "cuda_tile.module @m {\n" + "".join(entry(*case) for case in chosen) + "}\n"
    artifact, metadata = compiled(text, gpu_name)
    generator = np.random.default_rng(1)
    for name, operation, element, _, _, size, stride in chosen:
        dtype = DTYPES[element]
        # A word more than the tensor: halves move with their neighbours.
        result = [generator.integers(-9, 10, count).astype(dtype) for count in (size * stride + 8, size)]
        expected, actual = ([array.copy() for array in result] for _ in range(2))
        interpret(text, name, 2, expected)
        emulate(artifact.text, name, 2, actual, metadata=metadata[name])
        for got, want in zip(actual, expected):
            assert got.tobytes() == want.tobytes(), (name, operation, element, size, stride)
        changed = actual[1] if operation == "load" else actual[0]
        assert changed.tobytes() != result[1 if operation == "load" else 0].tobytes()


def test_targets_without_multicast_memory_refuse_it():
    text = "cuda_tile.module @m {\n" + entry("k", "load", "f32", "add", "weak", 64, 1) + "}\n"
    with pytest.raises(CompileError, match="multicast pointers require sm_90 or newer") as error:
        tileiras.compile(text, gpu_name="sm_80", source_name="kernel.mlir")
    assert error.value.diagnostics[0].location is not None

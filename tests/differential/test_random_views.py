"""Random views: shapes, strides, alignments and promises about them, all true; compiled against interpreted.

Wide accesses are chosen from promises and static sizes; the emulator faults where one is misaligned or leaves an array.
"""

from __future__ import annotations

import json
import random

import ml_dtypes
import numpy as np
import pytest

import tileiras
from tests.kernels.tiles import assert_same
from tileiras.sim import emulate, interpret

DTYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16,
          "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}  # fmt: skip


def power_of_two_divisor(number: int, most: int) -> int:
    divisor = 1
    while divisor < most and number % (2 * divisor) == 0:
        divisor *= 2
    return divisor


class View:
    """One array in memory with the text of its view: `lines` make %NAME_v of type `type` from parameters."""

    def __init__(self, rng: random.Random, name: str, element: str, shape, tile, load: bool) -> None:
        rank = len(shape)
        order = list(range(rank))
        if rng.random() < 0.4:
            rng.shuffle(order)
        dtype = np.dtype(DTYPES[element])
        # The rows of the innermost dimension may be padded, the first element may lie inside of the allocation.
        whole = [shape[d] for d in order]
        whole[-1] += rng.choice([0, 0, 1, 4, 8, 16])
        start = rng.choice([0, 0, 1, 4, 16])
        self.base = np.zeros(start + int(np.prod(whole)), dtype)
        dense = self.base[start:].reshape(whole)[tuple(slice(shape[d]) for d in order)]
        self.array = dense.transpose(np.argsort(order))
        strides = [s // dtype.itemsize for s in self.array.strides]
        index_type = rng.choice(["i32", "i64"])
        self.parameters = [f"%{name}: tile<ptr<{element}>>"]
        self.arguments: list = [self.base[start:]]
        self.lines: list[str] = []
        pointer = self._promise(rng, name, f"tile<ptr<{element}>>", start * dtype.itemsize, 256 if start == 0 else 64)
        written: dict[str, list[str]] = {"s": [], "d": []}
        types: dict[str, list[str]] = {"s": [], "d": []}
        for kind, numbers in (("s", shape), ("d", strides)):
            for dim, number in enumerate(numbers):
                if rng.random() < 0.4 and number > 0:
                    written[kind].append(str(number))
                    types[kind].append(str(number))
                    continue
                parameter = f"{name}{kind}{dim}"
                self.parameters.append(f"%{parameter}: tile<{index_type}>")
                self.arguments.append(number)
                value = self._promise(rng, parameter, f"tile<{index_type}>", number, 64)
                written[kind].append(value)
                types[kind].append("?")
        tensor = f"tensor_view<{'x'.join([*types['s'], element])}, strides=[{','.join(types['d'])}]>"
        dynamic = any("%" in text for texts in written.values() for text in texts)
        arrow = f"tile<{index_type}> -> " if dynamic else ""
        self.lines.append(
            f"%{name}_t = make_tensor_view {pointer}, shape = [{', '.join(written['s'])}],"
            f" strides = [{', '.join(written['d'])}] : {arrow}{tensor}"
        )
        padding = "padding_value = zero, " if load else ""
        self.type = f"partition_view<tile=({'x'.join(map(str, tile))}), {padding}{tensor}>"
        self.lines.append(f"%{name}_v = make_partition_view %{name}_t : {self.type}")

    def _promise(self, rng: random.Random, name: str, type: str, number: int, most: int) -> str:
        """%name, or %name with an assumed divisor."""
        if rng.random() < 0.5:
            return f"%{name}"
        divisor = power_of_two_divisor(number, rng.choice([4, 16, most])) if number else rng.choice([4, 16, most])
        self.lines.append(f"%{name}_a = assume div_by<{divisor}>, %{name} : {type}")
        return f"%{name}_a"


def kernel(rng: random.Random):
    """Text, grid, arguments and the positions of input and output arrays."""
    rank = rng.randrange(1, 4)
    tile = [2 ** rng.randrange(7) for _ in range(rank)]
    while np.prod(tile) > 1024:
        tile[rng.randrange(rank)] = 1
    counts = [rng.randrange(1, 4) for _ in range(rank)]
    shape = [max(1, t * c - rng.choice([0, 0, 1, 3, 4])) for t, c in zip(tile, counts)]
    element = rng.choice(list(DTYPES))
    source = View(rng, "p", element, shape, tile, load=True)
    target = View(rng, "q", element, shape, tile, load=False)
    source.array[...] = np.random.default_rng(rng.randrange(1 << 30)).integers(-60, 60, shape).astype(DTYPES[element])
    grid = tuple(-(-size // t) for size, t in zip(shape, tile))
    full = f"tile<{'x'.join(map(str, tile))}x{element}>"
    index = ", ".join(("%x", "%y", "%z")[:rank])
    add = "addi" if element[0] == "i" else "addf"
    body = [
        *source.lines,
        *target.lines,
        "%x, %y, %z = get_tile_block_id : tile<i32>",
        f"%v, %t = load_view_tko weak %p_v[{index}] : {source.type}, tile<i32> -> {full}, token",
        f"%w = {add} %v, %v : {full}",
        f"%s = store_view_tko weak %w, %q_v[{index}] : {full}, {target.type}, tile<i32> -> token",
        "return",
    ]
    parameters = ", ".join(source.parameters + target.parameters)
    text = f"cuda_tile.module @m {{\nentry @k({parameters}) {{\n" + "\n".join(body) + "\n}\n}\n"
    return text, grid, source, target


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(40))
def test_random_view(seed):
    rng = random.Random(seed)
    text, grid, source, target = kernel(rng)
    target.base[...] = 77
    arguments = source.arguments + target.arguments
    interpret(text, "k", grid, arguments)
    expected = target.base.copy()
    assert (target.array == source.array + source.array).all()
    target.base[...] = 77
    artifact = tileiras.compile(text, gpu_name=("sm_80", "sm_90", "sm_120")[seed % 3], source_name="kernel.mlir")
    metadata = json.loads(artifact.kernels[0].artifacts[".json"])
    emulate(artifact.text, "k", grid, arguments, metadata=metadata)
    assert_same(f"view {seed}", target.base, expected, [])

"""PTX and arguments of the kernels of `bench.ladders`, from checkouts of their repositories."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from bench.ladders import DIGESTS, SIZE, Ladder, Step
from tileiras.codegen import toolkit
from tileiras.sim import Memory
from tileiras.sim.emulator import tensor_map
from tileiras.sim.emulator.tensor_map import TensorMap

BF16 = ml_dtypes.bfloat16
FLAGS = ("-ptx", "-std=c++17", "-O3", "-w", "-DNDEBUG", "--expt-relaxed-constexpr",
         "--expt-extended-lambda")  # fmt: skip


class NoSource(Exception):
    """A source is absent, has another digest, or does not compile."""


class Launch(NamedTuple):
    ptx: str
    entry: str
    grid: tuple[int, ...]
    arguments: list[Any]
    metadata: dict[str, Any]
    memory: Memory
    """Holds the operands that only tensor maps name."""


def missing_tools() -> list[str]:
    return [name for name in ("nvcc", "ptxas", "nvdisasm") if toolkit.find_program(name) is None]


def launch(ladder: Ladder, step: Step, sources: Path) -> Launch:
    """Compile a step and make its arguments.  Raises NoSource."""
    text = compiled(ladder, step, sources)
    entries = re.findall(rf"\.entry\s+(\w*{step.entry}\w*)\(", text)
    if len(entries) != 1:
        raise NoSource(f"{step.path} has {len(entries)} instances of '{step.entry}'")
    memory = Memory()
    arguments = ARGUMENTS[ladder.arguments](step, memory)
    block = step.block if isinstance(step.block, tuple) else (step.block,)
    row = {"name": entries[0], "shared_memory": step.shared, "block": list(block)}
    return Launch(text, entries[0], step.grid, arguments, {"kernels": [row]}, memory)


def compiled(ladder: Ladder, step: Step, sources: Path) -> str:
    """The PTX of nvcc for a source as it is.  Raises NoSource."""
    repository = ladder.repository
    source = sources / repository.folder / step.path
    if not source.is_file():
        raise NoSource(f"no {source}: a checkout of {repository.name} at {repository.commit[:12]} is needed there")
    data = source.read_bytes()
    if hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest() != DIGESTS[f"{repository.folder}/{step.path}"]:
        raise NoSource(f"{source} is not that of {repository.commit[:12]}")
    nvcc = next((each for each in toolkit.find_programs("nvcc") if _has_headers(each)), None)
    if nvcc is None:
        raise NoSource("no nvcc with the headers of a toolkit")
    with tempfile.TemporaryDirectory() as folder:
        unit, output = Path(folder, "unit.cu"), Path(folder, "unit.ptx")
        unit.write_text(f'{repository.prelude}#include "{source.resolve()}"\n')
        include = [f"-I{sources / repository.folder / repository.include}"] if repository.include else []
        flags = [*FLAGS, *repository.flags, f"-arch=sm_{ladder.arch}", *include, *_library(nvcc)]
        command = [nvcc, *flags, str(unit), "-o", str(output)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            lines = (result.stderr or result.stdout).strip().splitlines()
            raise NoSource(f"nvcc: {next((each for each in lines if 'error' in each), lines[0])}")
        return _without_file_names(output.read_text())


def _has_headers(nvcc: str) -> bool:
    """Whether libcu++ is with a compiler, whose headers of types include it; wheels have it in a package of its own."""
    root = os.path.join(os.path.dirname(os.path.dirname(nvcc)), "include")
    return any(os.path.isfile(os.path.join(root, folder, "nv", "target")) for folder in ("", "cccl"))


def _library(nvcc: str) -> list[str]:
    """Headers of libcu++ where a toolkit has them in a folder of their own."""
    folder = os.path.join(os.path.dirname(os.path.dirname(nvcc)), "include", "cccl")
    return [f"-I{folder}"] if os.path.isdir(folder) else []


def _without_file_names(text: str) -> str:
    """PTX of any folder is the same: nvcc names functions of unnamed namespaces by a digest of the unit's path."""
    return re.sub(r"_INTERNAL_[0-9a-f]{8}_\d+_unit_cu_[0-9a-f]{8}", "_INTERNAL", text)


# ---- arguments ---------------------------------------------------------------------------------------------------


def _square(dtype: Any) -> np.ndarray:
    return np.zeros((SIZE, SIZE), dtype)


_SIZES = [np.int32(SIZE)] * 3


def product_bf16(step: Step, memory: Memory) -> list[Any]:
    return [_square(BF16), _square(BF16), _square(BF16), *_SIZES]


def product_f32(step: Step, memory: Memory) -> list[Any]:
    return [_square(np.float32), _square(np.float32), _square(np.float32), *_SIZES]


def product_f16_f32(step: Step, memory: Memory) -> list[Any]:
    return [_square(np.float16), _square(np.float16), _square(np.float32), *_SIZES]


def product_bytes(step: Step, memory: Memory) -> list[Any]:
    return [_square(np.uint8), _square(np.uint8), _square(np.float32), *_SIZES]


def reduction(step: Step, memory: Memory) -> list[Any]:
    count = 1 << 30
    return [np.zeros(count, np.int32), np.zeros(1, np.int32), np.int32(count if "1I" in step.entry else count // 4)]


def attention(step: Step, memory: Memory) -> list[Any]:
    queries, keys = (np.zeros((8, length, 128), BF16) for length in (4096, 8192))
    return [queries, keys, np.zeros_like(keys), np.zeros_like(queries), np.int32(8), np.int32(4096), np.int32(8192)]


def product_in_boxes(step: Step, memory: Memory) -> list[Any]:
    """Maps of A and B as parameters, boxes of whole rows of a tile."""
    rows, columns, depth = step.tile
    element, dtype = ("bf16", BF16) if "bfloat16" in step.entry else ("u8", np.uint8)
    out = _square(BF16 if element == "bf16" else np.int32)
    if step.name == "v0":  # copies by threads
        return [_square(dtype), _square(dtype), out, *_SIZES]
    maps = []
    for extent in (rows, columns):
        operand = _square(dtype)
        box, width = (depth, extent), depth * operand.itemsize
        maps.append(_encoded(element, operand, operand.shape[::-1], operand.strides[:1], box, width, memory))
    return [*maps, out, *_SIZES]


def hopper_product(step: Step, memory: Memory) -> list[Any]:
    """`matmulKernel3` to `matmulKernel10` of fast.cu: C by columns, maps in the forms of `Step.maps`."""
    rows, columns, depth = step.tile
    size = (np.int32(SIZE),) * 3

    def encoded(array: np.ndarray, extent: int, swizzle: int = 128, wide: int = 1) -> bytes:
        strides = (SIZE * 2, 128)
        if step.maps in ("pointer", "flat"):
            return _encoded("bf16", array, (SIZE, SIZE), strides[:1], (depth, extent), swizzle, memory)
        ones = (1, 1) if step.maps == "deep" else ()
        dims, box = (64, SIZE, SIZE // 64, *ones), (64, extent, wide, *ones)
        return _encoded("bf16", array, dims, (*strides, *(0 for _ in ones)), box, swizzle, memory)

    a, b, c = _square(BF16), _square(BF16), _square(BF16)
    maps = [encoded(a, rows), encoded(b, columns)]
    if step.maps == "pointer":
        pointers = [np.frombuffer(each, np.uint8).copy() for each in maps]
        return [*size, c, *pointers, *([np.zeros(1, np.int32)] if step.name == "K3" else [])]
    if step.maps == "store":
        return [*size, encoded(c, columns, 0, rows // 64), *maps]
    return [*size, c, *maps]


def _encoded(
    element: str, array: np.ndarray, dims: tuple[int, ...], strides: tuple[int, ...], box: tuple[int, ...],
    swizzle: int, memory: Memory,
) -> bytes:  # fmt: skip
    return tensor_map.encode(TensorMap(element, memory.allocate(array), dims, strides, box, swizzle))


ARGUMENTS: dict[str, Callable[[Step, Memory], list[Any]]] = {
    each.__name__: each for each in (
        product_bf16, product_f32, product_f16_f32, product_bytes, reduction, attention, product_in_boxes,
        hopper_product,
    )
}  # fmt: skip

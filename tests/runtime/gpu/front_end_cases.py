"""The kernels of the front end's benchmarks as cases to measure: sizes, tiles and hints of `bench/`."""

from __future__ import annotations

import functools
import os
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [ROOT]

from bench import real_sizes  # noqa: E402
from bench.real_sizes import ENTRY, Launch  # noqa: E402
from tileiras import api  # noqa: E402
from tileiras.codegen import ptx  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.support.progress import over  # noqa: E402
from tileiras.targets import TARGETS, rates  # noqa: E402

if TYPE_CHECKING:
    from package import Images

_ELEMENTS = {
    np.dtype(np.float16): "f16", np.dtype(ml_dtypes.bfloat16): "bf16", np.dtype(np.float32): "f32",
    np.dtype(ml_dtypes.float8_e4m3fn): "f8E4M3FN", np.dtype(ml_dtypes.float8_e8m0fnu): "f8E8M0FNU",
    np.dtype(np.int32): "i32",
}  # fmt: skip
_OWN = ("i32", "f8E8M0FNU")
"""Elements of arrays that are not numbers of any size: places, locks, scales."""


class Wanted(NamedTuple):
    """A launch on a target; its arrays, which may be large, are made when it is packed."""

    name: str
    target: str
    make: Callable[[], Launch]


def launches(checkout: Path, targets: Sequence[str]) -> Iterator[Wanted]:
    """Those of the benchmarks, for each target that some GPU stands for."""
    from bench.code import front_end_launches
    from bench.estimates import GPUS

    real_sizes.prepare(checkout)
    for target in targets:
        if target in GPUS:
            for name, make in front_end_launches(GPUS[target]):
                yield Wanted(name, target, functools.partial(make, rates.gpu(GPUS[target])))


def cases(images: Images, wanted: Iterable[Wanted], reference: str | None) -> list[dict[str, Any]]:
    """A case for each launch, for devices of its target alone: others have other sizes of tiles."""
    from package import beside

    result = []
    for row in over("packing", list(wanted), lambda row: row.name):
        target, launch = row.target, row.make()
        try:
            bytecode = real_sizes.bytecode(launch, target)
            artifact = api.compile(bytecode, gpu_name=target)
        except CompileError:
            images.refused += 1
            continue
        (kernel,) = artifact.kernels
        value = ptx.parse(artifact.text).target
        image = images.image(artifact.data, value, kernel.metadata)
        if reference is not None:
            with tempfile.TemporaryDirectory() as folder:
                image.update(beside(images, reference, bytecode, launch.name, target, folder))
        result.append({**_case(images, launch), "device": TARGETS[target].number, "images": {value: image}})
    return result


def _case(images: Images, launch: Launch) -> dict[str, Any]:
    arguments: list[dict[str, Any]] = []
    buffers: list[dict[str, Any]] = []
    for value in launch.parameters():
        if isinstance(value, np.ndarray):
            arguments.append({"buffer": len(buffers), "offset": 0})
            element = _ELEMENTS[value.dtype]
            buffers.append({"element": element, "count": value.size})
            if element in _OWN:
                buffers[-1]["contents"] = images.keep(value.ravel(order="K").tobytes())
        else:
            arguments.append({"value": struct.pack("<f" if isinstance(value, float) else "<i", value).hex()})
    work: dict[str, Any] = {"operations": launch.flops}
    if not launch.flops:
        work["bytes"] = sum(value.nbytes for value in launch.values if isinstance(value, np.ndarray))
    return {
        "name": f"measured/{launch.name}", "entry": ENTRY, "grid": list(launch.grid), "arguments": arguments,
        "buffers": buffers, "work": work,
    }  # fmt: skip

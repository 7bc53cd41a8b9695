"""Launches of examples, compiled for AArch64 and executed under QEMU, where it and a cross compiler are installed."""

from __future__ import annotations

import copy
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import example_cases
import numpy as np
import pytest

import tileiras
from tileiras.runtime import dimensions
from tileiras.runtime.arguments import scalar_bytes

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
MOST_BYTES = 1 << 20
"""Of arrays: QEMU is slow."""

pytestmark = pytest.mark.skipif(
    shutil.which(COMPILER) is None or shutil.which(EMULATOR) is None, reason=f"no {EMULATOR}, or no {COMPILER}"
)


def launched(case: Any, arguments: list[Any], folder: Path) -> None:
    """Run a kernel on its arguments: arrays are written to."""
    artifact = tileiras.compile(case.path, gpu_name="cpu-aarch64", entry=case.entry)
    kernel = artifact.kernels[0].metadata
    (folder / "kernel.o").write_bytes(artifact.data)
    source = Path(__file__).parent / "aarch64_launch.c"
    command = [COMPILER, "-static", "-O1", f"-DENTRY={case.entry}", source, "kernel.o", "-lm", "-o", "launch"]
    subprocess.run(command, cwd=folder, check=True)
    size = max(each["offset"] + each["size"] for each in kernel["parameters"])
    packed, arrays = bytearray(size), []
    for parameter, value in zip(kernel["parameters"], arguments, strict=True):
        offset = parameter["offset"]
        if isinstance(value, np.ndarray):
            arrays.append((offset, value))
        else:
            packed[offset : offset + parameter["size"]] = scalar_bytes(value, parameter["type"], parameter["size"])
    parts = [struct.pack("<6q", size, *dimensions(case.grid), kernel["scratch"], len(arrays)), bytes(packed)]
    places = []
    for offset, array in arrays:
        parts.append(struct.pack("<2q", offset, array.nbytes))
        places.append(sum(map(len, parts)))
        parts.append(array.tobytes())
    (folder / "arguments").write_bytes(b"".join(parts))
    subprocess.run([EMULATOR, "launch", "arguments"], cwd=folder, check=True)
    after = (folder / "arguments").read_bytes()
    for place, (_, array) in zip(places, arrays):
        array[...] = np.frombuffer(after, array.dtype, array.size, place).reshape(array.shape)


def is_plain(case: Any) -> bool:
    """Whether the arguments are numbers and small arrays of their own memory."""
    if case.source.endswith(".py"):
        return False
    arrays = [value for value in case.make_arguments() if isinstance(value, np.ndarray)]
    owned = all(array.base is None and array.flags.c_contiguous for array in arrays)
    return owned and sum(array.nbytes for array in arrays) <= MOST_BYTES


PLAIN = [case for case in example_cases.CASES if is_plain(case)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", PLAIN, ids=[f"{case.source}-{case.entry}" for case in PLAIN])
def test_example(case, tmp_path):
    arguments = case.make_arguments()
    expected = case.reference(copy.deepcopy(arguments))
    launched(case, arguments, tmp_path)
    for position, wanted in expected.items():
        example_cases.check(arguments[position], wanted, case.ulps)

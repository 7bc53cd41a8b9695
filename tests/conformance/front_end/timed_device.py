"""A device that executes nothing and estimates: the time of our code and of the vendor's for each launch of a suite.

Results of kernels stay unwritten, so that a launch whose addresses depend on earlier results may have no estimate.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from device import Device, TooLarge, parameters

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from bench.estimates import GPUS, Job, compiled_and_timed, ours, taken, theirs  # noqa: E402
from tileiras.targets import rates  # noqa: E402


class TimedDevice(Device):
    """``times``: a file that gets a JSON object for each kernel, at its first launch."""

    def __init__(self, *arguments: Any, times: str) -> None:
        super().__init__(*arguments)
        self.times = times
        self._timed: set[tuple[str, str]] = set()

    @property
    def computes(self) -> bool:
        """Launches may read arrays that torch has computed, such as indices."""
        return True

    def _launch(self, bytecode: bytes, name: str, grid: tuple[int, int, int], read: Any) -> None:
        self.launches += 1
        digest = hashlib.sha256(bytecode).hexdigest()[:12]
        if (digest, name) in self._timed:
            return
        self._timed.add((digest, name))
        types, values = parameters(bytecode, name, read)
        arrays = self._arrays()
        arguments = [
            _from(arrays, value) if hasattr(type, "pointee_type") else value for value, type in zip(values, types)
        ]
        gpu = rates.gpu(GPUS[self.target])
        row: dict[str, Any] = {"test": self.origin, "kernel": name, "grid": grid, "gpu": gpu.name, "digest": digest}
        try:
            with self._time_limit():
                for side, compile_ in (("ours", ours), ("theirs", theirs)):
                    job = Job(name, bytecode, name, grid, arguments)
                    row[side] = taken(compiled_and_timed(compile_, job, gpu))._asdict()
        except TooLarge as error:
            row["refusal"] = str(error)
        with open(self.times, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def _arrays(self) -> dict[int, np.ndarray]:
        """The bytes of the tensors of a launch, by address."""
        storages = [tensor.untyped_storage() for tensor in self._tensors]
        return {
            each.data_ptr(): np.frombuffer((ctypes.c_uint8 * each.nbytes()).from_address(each.data_ptr()), np.uint8)
            for each in storages if each.nbytes()
        }  # fmt: skip


def _from(arrays: dict[int, np.ndarray], address: int) -> np.ndarray:
    """The array from an address on; an empty tensor has none, and its kernel no access."""
    for start, array in arrays.items():
        if start <= address < start + array.size:
            return array[address - start :]
    return np.zeros(256, np.uint8)

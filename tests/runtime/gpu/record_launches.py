"""A pytest plugin that writes down every launch that the tests make in the emulator, to be made again on a GPU.

    pytest -p record_launches --record-launches FOLDER tests/examples

A record is a JSON file named by its content, beside it the bytes that memory held before and after, which the test
itself compares with the interpreter or NumPy.  Where the PTX came from `tileiras.compile`, its source is kept too, so
that it can be compiled for other targets.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import re
from typing import Any

import numpy as np

import tileiras
import tileiras.api
import tileiras.sim
from tileiras.codegen import kernel_metadata, ptx
from tileiras.diagnostics import CompileError
from tileiras.runtime.arguments import host_memory, scalar_bytes
from tileiras.sim import Memory, SimulationError

ORDERED_BY_CHANCE = re.compile(r"\batom\.")
"""The results of such kernels may depend on the order of threads: they are kept when two orders make no difference."""

NOT_OF_ONE_DEVICE = re.compile(r"\bmultimem\.")
"""Such kernels want addresses that stand for the memory of a team of devices, which the emulator does not."""

DELIBERATELY_BROKEN = ("test_missing_barriers",)
"""Tests of kernels that are expected to go wrong."""


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--record-launches", metavar="FOLDER", help="write every emulated launch into FOLDER")


def pytest_configure(config: Any) -> None:
    folder = config.getoption("--record-launches")
    if folder:
        Recorder(os.path.abspath(folder)).install()


class Recorder:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._sources: dict[str, dict[str, Any]] = {}
        os.makedirs(folder, exist_ok=True)

    def install(self) -> None:
        """Stand between the tests and the two functions; must happen before any test module is imported."""
        compile_, emulate = tileiras.api.compile, tileiras.sim.emulate

        @functools.wraps(compile_)
        def recording_compile(source: Any, **options: Any) -> Any:
            artifact = compile_(source, **options)
            if artifact.suffix == ".ptx":
                for text in (artifact.data, *(kernel.artifacts[".ptx"] for kernel in artifact.kernels)):
                    self._sources[text.decode()] = {"given": source, "options": options}
            return artifact

        @functools.wraps(emulate)
        def recording_emulate(ptx_text: str, entry: str, grid: Any, args: Any, metadata: Any = None, **how: Any) -> Any:
            left_out = _deliberately_broken() or NOT_OF_ONE_DEVICE.search(ptx_text) or _holds_addresses(args)
            started = None if left_out else self._start(ptx_text, entry, grid, args, metadata, how)
            result = emulate(ptx_text, entry, grid, args, metadata, **how)
            if started is not None:
                case, memory, before = started
                after = [ctypes.string_at(*place) for place in memory]
                if ORDERED_BY_CHANCE.search(ptx_text) and how.get("seed", 0) is not None:
                    for (start, size), name in zip(memory, before):
                        ctypes.memmove(start, self._read(name), size)
                    emulate(ptx_text, entry, grid, args, metadata, **{**how, "seed": how.get("seed", 0) + 1})
                    again = [ctypes.string_at(*place) for place in memory]
                    for (start, size), data in zip(memory, after):
                        ctypes.memmove(start, data, size)
                    if again != after:
                        return result
                self._finish(case, list(memory), args, before, after)
            return result

        self._interpret = tileiras.sim.interpret
        tileiras.api.compile = tileiras.compile = recording_compile
        tileiras.sim.emulate = recording_emulate

    def _start(self, text: str, entry: str, grid: Any, args: Any, metadata: Any, how: Any) -> tuple[Any, ...] | None:
        document = metadata or kernel_metadata.describe(ptx.parse(text), {})
        # As the emulator takes it: a whole NAME.json, or a kernel's part of it.
        kernel = next((dict(k) for k in document.get("kernels", [document]) if k["name"] == entry), None)
        if kernel is None or len(kernel["parameters"]) != len(args) or kernel["hidden_parameters"]:
            return None
        if how.get("shared_memory") is not None:
            kernel["shared_memory"] = how["shared_memory"]
        elif metadata is None and re.search(r"\.extern\s+\.shared", text):
            return None
        for name in ("block", "cluster"):
            if how.get(name) is not None:
                sizes = how[name]
                kernel[name] = [*(sizes if hasattr(sizes, "__len__") else (sizes,)), 1, 1][:3]
        places: dict[tuple[int, int], int] = {}
        owners: list[Any] = []
        arguments: list[dict[str, Any]] = []
        elements: list[str] = []
        for value, parameter in zip(args, kernel["parameters"]):
            # NumPy's scalars have the interface of arrays as well.
            memory = host_memory(value) if isinstance(value, np.ndarray) else None
            if memory is not None:
                key = (memory.start, memory.size)
                if key not in places:
                    places[key] = len(places)
                    owners.append(memory.owner)
                    elements.append(_element(parameter["type"], value))
                arguments.append({"buffer": places[key], "offset": memory.offset})
                continue
            data = value if isinstance(value, bytes) else scalar_bytes(value, parameter["type"], parameter["size"])
            arguments.append({"value": data.hex()})
        sizes = grid if hasattr(grid, "__len__") else (grid,)
        case = {
            "test": os.environ.get("PYTEST_CURRENT_TEST", "").rsplit(" ", 1)[0],
            "entry": entry,
            "grid": [*map(int, sizes)],
            "kernel": kernel,
            "arguments": arguments,
            "elements": elements,
            "ptx": self._keep(text.encode()),
        }
        memory = dict(zip(places, owners))  # which keeps it alive
        return case, memory, [self._keep(ctypes.string_at(*place)) for place in places]

    def _finish(
        self, case: dict[str, Any], places: list[tuple[int, int]], args: Any, before: list[str], left: list[bytes]
    ) -> None:
        after = [self._keep(data) for data in left]
        case["buffers"] = [
            {"element": element, "before": first, "after": last}
            for element, first, last in zip(case.pop("elements"), before, after)
        ]
        source = self._source(case["ptx"])
        identity = {**case, "test": ""}
        if source is not None:
            case["source"] = source
            # The same launch for another target is the same launch.
            identity = {**identity, "source": source, "ptx": "", "kernel": ""}
        name = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]
        path = os.path.join(self.folder, f"{name}.json")
        if os.path.exists(path):
            return
        if source is not None:
            for buffer, mask in self._undefined(case, source, places, args, before).items():
                case["buffers"][buffer]["undefined"] = self._keep(mask)
        _write(path, json.dumps(case).encode())

    def _undefined(
        self, case: dict[str, Any], source: dict[str, Any], places: list[tuple[int, int]], args: Any, before: list[str]
    ) -> dict[int, bytes]:
        """Buffer -> its bytes, all ones where the interpreter reports undefined values.

        The emulator's value there is that of one machine, of a division by zero, say.
        """
        copies = [bytearray(self._read(name)) for name in before]
        values = []
        for value, argument in zip(args, case["arguments"]):
            if "buffer" in argument:
                memory, offset = copies[argument["buffer"]], argument["offset"]
                value = np.ndarray(value.shape, value.dtype, memory, offset, value.strides)
            values.append(value)
        try:
            result = self._interpret(self._read(source["data"]), case["entry"], case["grid"], values)
        except (CompileError, SimulationError):
            # The emulator went on where the interpreter does not, so the interpreter has no result to compare.
            return {}
        masks: dict[int, np.ndarray] = {}
        for position, where in result.items():
            argument, array = case["arguments"][position], values[position]
            mask = masks.setdefault(argument["buffer"], np.zeros(len(copies[argument["buffer"]]), np.uint8))
            size = array.dtype.itemsize
            elements = np.ndarray((*array.shape, size), np.uint8, mask, argument["offset"], (*array.strides, 1))
            elements[where] = 0xFF
        return {buffer: mask.tobytes() for buffer, mask in masks.items()}

    def _source(self, key: str) -> dict[str, Any] | None:
        """The bytecode or text that PTX was compiled from, and the options."""
        known = self._sources.get(self._read(key).decode())
        if known is None:
            return None
        if "data" not in known:
            options = {k: v for k, v in known["options"].items() if k not in ("gpu_name", "emit", "entry")}
            opened = tileiras.api.open_source(known["given"]) if _readable(known["given"]) else None
            if opened is None or opened.kind == "python":
                plain = tileiras.api.compile.__wrapped__  # not recorded itself
                data = plain(known["given"], gpu_name="sm_90", emit="bytecode", bytecode_version="13.4").data
            else:
                data = opened.data
            options.pop("source_name", None)
            known["data"] = self._keep(data)
            known["kept"] = options
        return {"data": known["data"], "options": known["kept"]}

    def _read(self, name: str) -> bytes:
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    def _keep(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()[:32]
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            _write(path, data)
        return name


def _deliberately_broken() -> bool:
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    return any(name in test for name in DELIBERATELY_BROKEN)


def _holds_addresses(args: Any) -> bool:
    """Whether an argument is an address that a Memory gave out, or a table of such: they mean nothing elsewhere."""
    allocations = [allocation for memory in Memory._others() for allocation in memory._allocations]
    for value in args:
        wide = getattr(getattr(value, "dtype", None), "itemsize", 8) == 8
        for number in value.reshape(-1).tolist() if hasattr(value, "reshape") and wide else [value]:
            if isinstance(number, int) and any(a.address <= number <= a.address + a.size for a in allocations):
                return True
    return False


def _readable(source: Any) -> bool:
    return isinstance(source, (str, bytes, os.PathLike))


def _element(parameter: str, array: Any) -> str:
    """The element type of a buffer: the source's where it is known, else that of the array's numbers."""
    if parameter.startswith("ptr<"):
        return parameter[4:-1]
    kind = {"f": "f", "i": "i", "u": "i", "b": "i"}.get(array.dtype.kind, "i")
    return f"{kind}{8 * array.dtype.itemsize}"


def _write(path: str, data: bytes) -> None:
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "wb") as file:
        file.write(data)
    os.replace(temporary, path)

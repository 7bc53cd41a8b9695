"""Launches of the front end without a GPU: kernels are interpreted, or compiled and emulated, on the host's memory.

    device = Device("sm_100", backend="emulate")
    device.install()          # before any launch; torch tensors "on cuda" are on the CPU from here on
    cuda.tile.launch(...)     # as usual

Every launched kernel is also compiled for `targets` and assembled; `Device.records` lists the results.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from agreement import Launch, compare, contents, restore, undefined_bytes
from driver import Driver, library

import tileiras
from tileiras.codegen import ptxas, toolkit
from tileiras.diagnostics import CompileError
from tileiras.ir import IntegerType
from tileiras.sim import emulate, interpret
from tileiras.sim.interpreter import InterpreterError
from tileiras.sim.interpreter.rounding import FLOAT_DTYPES
from tileiras.sim.memory import Allocation, Memory

sys.path.append(str(Path(__file__).resolve().parents[1]))

from vendor_ptx import WAIVED, Compiled, Refused, vendor_compile  # noqa: E402

# The front end's cache would return kernels of another run without a call to us.  It is configured at import.
os.environ["CUDA_TILE_CACHE_DIR"] = "off"

COMPARED = 1 << 28
"""Largest number of bytes that a compared launch may access; the comparison takes three copies."""


class TooLarge(Exception):
    """A launch exceeded the time limit or accesses too much memory."""


@dataclass
class Record:
    """The result of compiling one kernel's bytecode for one target."""

    origin: str
    digest: str
    target: str
    kernel: str = ""
    error: str = ""
    assembled: bool = False


class HostMemory(Memory):
    """Allocations at the host's own addresses, so that pointers stored in memory need no translation."""

    def add(self, address: int, size: int) -> None:
        """Make ``size`` bytes at a host address addressable."""
        if size and self.find(address) is None:
            self.allocate(np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8))

    def _add(self, owner: np.ndarray, alignment: int, name: str | None) -> Allocation:
        address = owner.ctypes.data
        name = name or f"allocation {len(self._allocations)}"
        allocation = Allocation(address, owner, owner, name, owner.flags.writeable, address)
        at = int(np.searchsorted(self._bases, address)) if self._bases else 0
        self._bases.insert(at, address)
        self._allocations.insert(at, allocation)
        self._by_owner[id(owner)] = allocation
        self._base_array = None
        return allocation


class Device:
    """``backend``: "interpret", "emulate", "both" (compares; memory is the last emulation's) or "compile" (executes
    nothing and leaves memory unchanged).  ``target`` is compiled for by the front end and emulated; "both" emulates
    ``emulated`` if they are given.  With ``vendor`` the vendor's code is emulated.  With ``one_target`` every kernel is
    compiled and emulated for one of the targets only, selected by its bytecode.

    ``limit``: seconds per launch; a longer one raises TooLarge out of `cuda.tile.launch`.
    """

    def __init__(
        self, target: str, backend: str = "interpret", targets: Sequence[str] = (), limit: float = 20.0,
        version: str = "13.4", folder: str = "", emulated: Sequence[str] = (), one_target: bool = False,
        vendor: bool = False,
    ) -> None:  # fmt: skip
        if backend not in ("interpret", "emulate", "both", "compile"):
            raise ValueError(f"no backend '{backend}'")
        self.target = target
        self.backend = backend
        self.targets = tuple(targets)
        self.limit = limit
        self.emulated = tuple(emulated) or (target,)
        self.one_target = one_target
        self.version = version
        self.vendor = vendor
        self.folder = folder
        """Folder that keeps the bytecode of every kernel, or None."""
        self.origin = ""
        """The source of kernels in records: the running test."""
        self.records: list[Record] = []
        self.compared: list[Launch] = []
        self.launches = 0
        number = int(target.removeprefix("sm_").rstrip("af"))
        self.driver = Driver(divmod(number, 10), self._launch)
        self._tensors: list[Any] = []
        self._seen: set[tuple[str, str]] = set()

    @property
    def computes(self) -> bool:
        """Whether functions of torch compute their results."""
        return self.backend != "compile"

    # ---- replacement of the GPU --------------------------------------------------------------------------------------

    def install(self) -> None:
        """Install the driver, the compiler and torch's devices."""
        self.driver.install()
        import cuda.tile
        import torch
        import torch_on_host
        from cuda.tile import _cext, _compile
        from cuda.tile.tune import _tune

        torch_on_host.install(self.driver.capability, results=self.computes)
        to_dlpack = torch._C._to_dlpack

        def as_if_on_cuda(tensor: Any) -> Any:
            self._tensors.append(tensor)
            capsule = to_dlpack(tensor.detach())
            _adapt(capsule)
            return capsule

        torch._C._to_dlpack = as_if_on_cuda
        launch = _cext.launch

        @functools.wraps(launch)
        def launch_here(stream: Any, *arguments: Any, **options: Any) -> Any:
            if not isinstance(stream, torch_on_host.Stream):
                return launch(stream, *arguments, **options)
            self._tensors.clear()
            self.driver.failure = None
            launch(0, *arguments, **options)
            if self.driver.failure is not None:
                raise self.driver.failure

        cuda.tile.launch = _cext.launch = launch_here

        def tried(stream: Any, grid: Any, kernel: Any, arguments: Any, *_: Any) -> float:
            """Compile the tuner's candidates and return the first configuration."""
            backend, self.backend = self.backend, "compile"
            try:
                launch_here(stream, grid, kernel, arguments)
            finally:
                self.backend = backend
            return 1.0

        _tune._benchmark = _tune.benchmark_with_timeout = tried
        version = _compile.parse_bytecode_version(self.version)
        _compile._get_max_supported_bytecode_version = lambda *_, **__: version
        _compile._find_compiler_bin = lambda: _compile._CompilerBinary("tileiras", "", "", "")
        _compile.compile_cubin = self._compile_cubin

    def _compile_cubin(self, path: str, options: Any, sm_arch: str, *_: Any, **__: Any) -> str:
        """The front end's call of the compiler: bytecode in a file, a cubin's path back."""
        with open(path, "rb") as file:
            bytecode = file.read()
        self._compile_for_all(bytecode)
        with tempfile.NamedTemporaryFile(suffix=".cubin", dir=os.path.dirname(path), delete=False) as file:
            file.write(library(bytecode))
        return file.name

    def _chosen(self, targets: Sequence[str], digest: str) -> Sequence[str]:
        return [targets[int(digest, 16) % len(targets)]] if self.one_target and targets else targets

    def _compile_for_all(self, bytecode: bytes) -> None:
        digest = hashlib.sha256(bytecode).hexdigest()[:16]
        if self.folder:
            with open(os.path.join(self.folder, f"{digest}.tileirbc"), "wb") as file:
                file.write(bytecode)
        for target in self._chosen(self.targets, digest):
            if (digest, target) in self._seen:
                continue
            self._seen.add((digest, target))
            record = Record(self.origin, digest, target)
            self.records.append(record)
            try:
                artifact = tileiras.compile(bytecode, gpu_name=target, source_name="kernel")
                text, record.kernel = artifact.text, artifact.kernels[0].name
                if toolkit.find_program("ptxas") is not None:
                    record.assembled = ptxas.assemble(text, target).cubin.startswith(b"\x7fELF")
            except CompileError as error:
                record.error = error.diagnostics[0].message if error.diagnostics else str(error)
            except Exception as error:  # every failure is a result, and the run continues
                record.error = f"{type(error).__name__}: {error}"

    # ---- launching -------------------------------------------------------------------------------------------------

    def _launch(self, bytecode: bytes, name: str, grid: tuple[int, int, int], read: Any) -> None:
        self.launches += 1
        if self.backend == "compile":
            return
        types, arguments = parameters(bytecode, name, read)
        memory = HostMemory()
        for tensor in self._tensors:
            storage = tensor.untyped_storage()
            memory.add(storage.data_ptr(), storage.nbytes())
        for address, block in self.driver.blocks.items():
            memory.add(address, block.size)
        if self.backend == "both":
            self._compare(bytecode, name, grid, types, arguments, memory)
        elif self.backend == "interpret":
            with self._time_limit():
                interpret(bytecode, name, grid, arguments, memory=memory)
        else:
            with self._time_limit():
                self._emulate(bytecode, name, grid, arguments, self.target)

    def _text(self, bytecode: bytes, name: str, target: str) -> str:
        return vendor_code(bytecode, target).ptx if self.vendor else _compiled(bytecode, name, target)[0]

    def _emulate(
        self, bytecode: bytes, name: str, grid: tuple[int, int, int], arguments: list[Any], target: str
    ) -> None:
        if self.vendor:
            code = vendor_code(bytecode, target)
            emulate(code.ptx, name, grid, arguments, hidden=code.hidden(name), waive=WAIVED)
        else:
            text, metadata = _compiled(bytecode, name, target)
            emulate(text, name, grid, arguments, metadata=metadata)

    def _compare(
        self, bytecode: bytes, name: str, grid: tuple[int, int, int], types: list[Any], arguments: list[Any],
        memory: HostMemory,
    ) -> None:  # fmt: skip
        """Interpret, emulate for every target, and record differences; equal code is emulated once.

        Raises the exceptions of the interpreter and of the last emulation, and TooLarge.
        """
        digest = hashlib.sha256(bytecode).hexdigest()[:16]
        if sum(allocation.data.nbytes for allocation in memory.allocations) > COMPARED:
            for target in self._chosen(self.emulated, digest):
                self.compared.append(Launch(self.origin, name, digest, target, "large"))
            raise TooLarge(f"a launch has more than {COMPARED} bytes")
        before, expected, refused = contents(memory), None, None
        try:
            with self._time_limit():
                interpret(bytecode, name, grid, arguments, memory=memory)
            expected = contents(memory)
        except InterpreterError as error:
            # Compiled code may read undefined elements, and the test may rely on that.
            refused = error
        undefined, results = None, {}
        for target in self._chosen(self.emulated, digest):
            launch = Launch(self.origin, name, digest, target, "failed")
            self.compared.append(launch)
            try:
                text = self._text(bytecode, name, target)
            except CompileError as error:
                launch.result, launch.said = "refused", error.diagnostics[0].message
                continue
            except Refused as error:
                launch.result, launch.said = "refused", str(error)
                continue
            body = text.partition(".address_size")[2]
            if body in results:
                launch.result, launch.said = results[body]
                continue
            restore(memory, before)
            try:
                with self._time_limit():
                    self._emulate(bytecode, name, grid, arguments, target)
            except TooLarge:
                launch.result = "large"
                if expected is not None:
                    restore(memory, expected)
                continue
            except Exception as error:
                launch.said = f"{type(error).__name__}: {error}"[:500]
                raise
            actual = contents(memory)
            if expected is None:
                launch.result, launch.said = "failed", f"interpreter: {refused}"[:500]
                continue
            launch.result, launch.said = compare(self._tensors, memory, expected, actual)
            if launch.result == "differs" and undefined is None:
                restore(memory, before)
                undefined = undefined_bytes(
                    lambda given: interpret(bytecode, name, grid, given, memory=memory), types, arguments, memory
                )
                restore(memory, actual)
            if launch.result == "differs":
                launch.result, launch.said = compare(self._tensors, memory, expected, actual, undefined)
            results[body] = launch.result, launch.said

    @contextlib.contextmanager
    def _time_limit(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(*_: Any) -> None:
            raise TooLarge(f"a launch took more than {self.limit:g} s")

        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, self.limit)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def write(self, path: str) -> None:
        """The records and comparisons, a JSON object a line."""
        with open(path, "w", encoding="utf-8") as file:
            for record in [*self.records, *self.compared]:
                file.write(json.dumps(asdict(record)) + "\n")


class _DLTensor(ctypes.Structure):
    """DLPack's description of an array."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("ordinal", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint32), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
    ]  # fmt: skip


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_DLPACK_CUDA = 2


def _adapt(capsule: Any) -> None:
    """Mark an array as on the GPU, and make an assumption of the front end hold.

    cuTile Python 1.7 assumes in the kernel that the stride of a dimension of size 1 is a multiple of 16 bytes in any
    case.  Nothing depends on that stride, but the interpreter checks assumptions; strides that satisfy it are kept.
    """
    tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    tensor.device = _DLPACK_CUDA
    for dim in range(tensor.ndim):
        if tensor.shape[dim] == 1 and tensor.strides[dim] % 16:
            tensor.strides[dim] = 16


@functools.lru_cache(maxsize=64)
def vendor_code(bytecode: bytes, target: str) -> Compiled:
    return vendor_compile(bytecode, target)


@functools.lru_cache(maxsize=64)
def _compiled(bytecode: bytes, name: str, target: str) -> tuple[str, dict]:
    kernel = next(k for k in tileiras.compile(bytecode, gpu_name=target).kernels if k.name == name)
    return kernel.artifacts[".ptx"].decode(), json.loads(kernel.artifacts[".json"])


def parameters(bytecode: bytes, name: str, read: Any) -> tuple[list[Any], list[Any]]:
    """The types of an entry's parameters, and their values in a launch: addresses and numbers."""
    types = _parameter_types(bytecode, name)
    return types, [_value(data, type) for data, type in zip(read([_size(type) for type in types]), types)]


@functools.lru_cache(maxsize=64)
def _parameter_types(bytecode: bytes, name: str) -> list[Any]:
    module = tileiras.parse(bytecode)
    entry = next(op for op in module.walk() if op.name == "cuda_tile.entry" and op.attributes["sym_name"].value == name)
    return [argument.type.element_type for argument in entry.regions[0].block.arguments]


def _size(type: Any) -> int:
    return 8 if hasattr(type, "pointee_type") else max(1, type.width // 8)


def _value(data: bytes, type: Any) -> Any:
    """A parameter from its bytes: an address, a number."""
    if isinstance(type, IntegerType) or hasattr(type, "pointee_type"):
        return int.from_bytes(data, "little")
    return np.frombuffer(data, FLOAT_DTYPES[type.keyword])[0]

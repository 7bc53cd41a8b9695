"""Launching kernels that are compiled for the CPU, in this process.

The object is loaded by LLVM's linker (llvmlite).  Tile blocks are shared out over threads in ascending order, so that
a tile block which waits for an earlier one makes progress; those of one thread run one after the other.
"""

from __future__ import annotations

import ctypes
import operator
import os
import statistics
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .arguments import DL_CPU, ArgumentError, HostMemory, pack

THREADS = "TILEIRAS_CPU_THREADS"
"""Environment variable: threads of a launch; the processors of this process when absent."""

ALIGNMENT = 64
"""Bytes that the scratch memory of a thread is aligned to."""

SUFFIX = ".cpu.o"
SUFFIXES = (SUFFIX, ".cpu.so")
"""Products with an object for each kernel."""

_ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)


class KernelFailure(Exception):
    """An assertion of a kernel that does not hold."""


class _InPlace:
    """Placement of arguments: host memory is used where it is, memory that may not be written is copied."""

    stream = 0

    def __init__(self) -> None:
        self._copies: dict[tuple[int, int], Any] = {}

    def place(self, memory: HostMemory) -> int:
        if memory.writable:
            return memory.start + memory.offset
        key = (memory.start, memory.size)
        if key not in self._copies:
            copied = ctypes.create_string_buffer(memory.size + ALIGNMENT)
            start = -(-ctypes.addressof(copied) // ALIGNMENT) * ALIGNMENT
            ctypes.memmove(start, memory.start, memory.size)
            self._copies[key] = (start, copied)
        return self._copies[key][0] + memory.offset

    def wait_for(self, stream: int) -> None:
        pass


def _is_on_device(value: Any) -> bool:
    """Whether an argument is memory that the processor does not reach."""
    if value.__class__ is int:
        return False
    if hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] != DL_CPU:
        return True
    return hasattr(value, "__cuda_array_interface__")


class Loaded:
    """An object in memory that can be executed.

    Raises ArgumentError for one that calls a function which the process does not have: LLVM would call address 0.
    """

    def __init__(self, data: bytes) -> None:
        import llvmlite.binding as llvm

        from tileiras.codegen.object_file import UNDEFINED, ObjectFile

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
        module = llvm.parse_assembly("", context=llvm.create_context())
        module.triple = machine.triple
        self._machine = machine
        self._engine = llvm.create_mcjit_compiler(module, machine)
        is_elf = data.startswith(b"\x7fELF")
        for name, (section, _, _) in (ObjectFile(data).symbols() if is_elf else {}).items():
            if section == UNDEFINED and not llvm.address_of_symbol(name):
                raise ArgumentError(f"the object calls '{name}', which this process does not have")
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()

    def function(self, name: str) -> Any:
        """The entry of a kernel; raises ArgumentError for a name that the object does not have."""
        address = self._engine.get_function_address(name)
        if not address:
            raise ArgumentError(f"no kernel '{name}' in the object")
        return _ENTRY(address)


_loaded: dict[tuple[bytes, str], Any] = {}
_loading = threading.Lock()


def _function(data: bytes, name: str) -> Any:
    """The entry of a kernel, loaded once in a process."""
    with _loading:
        result = _loaded.get((data, name))
        if result is None:
            library = Loaded(data)
            function = library.function(name)
            result = _loaded[data, name] = (function, library)
    return result[0]


def thread_count(threads: int | None = None) -> int:
    """Threads of a launch: the number asked for, that of the environment, or the processors of this process."""
    if threads is None:
        text = os.environ.get(THREADS, "")
        if not text:
            return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if not text.isdigit():
            raise ArgumentError(f"{THREADS}={text}: a number of threads is expected")
        threads = int(text)
    if isinstance(threads, bool) or operator.index(threads) < 1:
        raise ArgumentError(f"a launch has at least one thread, not {threads}")
    return operator.index(threads)


def launch(
    data: bytes, kernel: Mapping[str, Any], grid: tuple[int, int, int], arguments: Sequence[Any],
    threads: int | None = None,
) -> None:  # fmt: skip
    """Run a kernel of an object on arrays of this process, and wait for it.

    kernel: its part of NAME.json.  Raises ArgumentError for arguments that do not fit, KernelFailure for an assertion
    that does not hold: tile blocks that have begun are then finished, others may not have run.
    """
    # Not above: a test package for GPUs carries this module along without the targets.
    from tileiras.targets.cpu import refusal

    if reason := refusal(kernel.get("target", "")):
        raise ArgumentError(f"kernel '{kernel['name']}': {reason}")
    for number, value in enumerate(arguments):
        if _is_on_device(value):
            raise ArgumentError(f"argument {number} of kernel '{kernel['name']}' is memory of a GPU")
    placement = _InPlace()
    packed = pack(kernel, arguments, placement)
    workers = thread_count(threads)
    function = _function(data, kernel["name"])
    blocks = grid[0] * grid[1] * grid[2]
    # Output has the order of tile blocks.
    prints = bool(kernel.get("prints"))
    run = _Run(function, kernel, packed, grid, blocks, 1 if prints else min(workers, blocks))
    if prints:
        sys.stdout.flush()
    failed = run.all()
    if prints:
        ctypes.CDLL(None).fflush(None)
    if failed:
        message = kernel["messages"][failed - 1]
        raise KernelFailure(f"kernel '{kernel['name']}': assertion failed: {message['assert']}")


def measure(
    data: bytes, kernel: Mapping[str, Any], grid: tuple[int, int, int], arguments: Sequence[Any], runs: int
) -> float:
    """The median of several launches in microseconds, after one that is not counted; raises the errors of `launch`."""
    times = []
    for _ in range(runs + 1):
        begin = time.perf_counter()
        launch(data, kernel, grid, arguments)
        times.append(1e6 * (time.perf_counter() - begin))
    return statistics.median(times[1:])


class _Run:
    """One launch: ranges of tile blocks that threads take in ascending order."""

    def __init__(
        self, function: Any, kernel: Mapping[str, Any], packed: bytes, grid: Sequence[int], blocks: int, workers: int
    ) -> None:
        self._function = function
        self._packed = packed
        self._grid = (ctypes.c_int32 * 3)(*grid)
        self._scratch = kernel["scratch"]
        self._blocks = blocks
        self._workers = workers
        # Ranges are short towards the end only, where threads would wait for the last one.
        self._next = 0
        self._lock = threading.Lock()
        self._failed = 0
        self._error: BaseException | None = None

    def _take(self) -> tuple[int, int]:
        """The next range: its first tile block and their number, 0 at the end."""
        with self._lock:
            remaining = self._blocks - self._next
            count = 0 if self._failed else -(-remaining // (2 * self._workers)) if self._workers > 1 else remaining
            first, self._next = self._next, self._next + count
            return first, count

    def _work(self) -> None:
        memory = ctypes.create_string_buffer(self._scratch + ALIGNMENT)
        start = -(-ctypes.addressof(memory) // ALIGNMENT) * ALIGNMENT
        while True:
            first, count = self._take()
            if not count:
                return
            status = self._function(self._packed, ctypes.addressof(self._grid), first, count, start)
            if status:
                self._failed = self._failed or status
                return

    def _guarded(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._error = error

    def all(self) -> int:
        """Run all tile blocks; one more than the number of an assertion that failed, or 0."""
        others = [threading.Thread(target=self._guarded, daemon=True) for _ in range(1, self._workers)]
        for thread in others:
            thread.start()
        self._guarded()
        for thread in others:
            thread.join()
        if self._error is not None:
            raise self._error
        return self._failed

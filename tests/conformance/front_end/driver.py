"""A CUDA driver without a GPU: libcuda's functions that the cuTile Python front end calls, as ctypes callbacks.

The front end loads the driver through one pointer, that of cuGetProcAddress.  Here that returns functions of this
module: one device with one context, host memory, streams and events that are always complete, and libraries that are
bytecode (see `library`) or cubins, whose kernels a Python function executes.  Graphs, in which the tuner measures,
execute nothing, and a millisecond lies between any two events.  Functions that the front end does not need return
CUDA_ERROR_NOT_SUPPORTED.
"""

from __future__ import annotations

import ctypes
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

SUCCESS, INVALID_VALUE, NOT_SUPPORTED = 0, 1, 801

# CUdevice_attribute (CUDA driver API).
COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR = 75, 76
MAX_GRID_DIM = (5, 6, 7)
MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97

_MAGIC = b"bytecode"
_DRIVER_VERSION = 13050
_HANDLE = 0x7EED
"""The handle of the only context, stream and event."""

_pointer, _integer, _size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t


def library(bytecode: bytes) -> bytes:
    """The replacement of a cubin: the bytecode, preceded by its length."""
    return _MAGIC + len(bytecode).to_bytes(8, "little") + bytecode


class LaunchConfig(ctypes.Structure):
    """The fields of CUlaunchConfig that are read."""

    _fields_ = [(name, ctypes.c_uint) for name in ("x", "y", "z", "block_x", "block_y", "block_z", "shared")]


class Driver:
    """The driver of a device with ``capability`` (major, minor).

    ``launch(bytecode, name, grid, parameters)`` executes a kernel; ``parameters(sizes)`` gives the bytes of the
    parameters, whose sizes only the kernel's own description has.  An exception that it raises is kept in ``failure``,
    as launches are asynchronous: after a failed one, the front end's C code calls the driver with an exception set,
    which Python functions cannot be called with.
    """

    def __init__(self, capability: tuple[int, int], launch: Callable[..., None]) -> None:
        self.capability = capability
        self.launch = launch
        self.failure: BaseException | None = None
        self.blocks: dict[int, np.ndarray] = {}
        """Memory from cuMemAlloc, by address."""
        self.libraries: list[bytes] = []
        self.kernels: list[tuple[int, str]] = []
        self._callbacks: dict[str, Any] = {}
        self._getter = self._callback(self._get_proc_address, ctypes.c_char_p, _pointer, _integer, _size, _pointer)
        self._getter_address = ctypes.c_void_p(ctypes.cast(self._getter, _pointer).value)

    def install(self) -> None:
        """Replace the module that loads libcuda for the front end; before its first launch."""
        module = types.ModuleType("cuda.tile._load_libcuda")
        module.cuGetProcAddress_v2_ptrptr = ctypes.addressof(self._getter_address)
        sys.modules[module.__name__] = module

    @staticmethod
    def _callback(function: Callable[..., int], *arguments: Any) -> Any:
        return ctypes.CFUNCTYPE(_integer, *arguments)(function)

    def _get_proc_address(self, symbol: bytes, out: int, version: int, flags: int, status: int | None) -> int:
        name = symbol.decode()
        if name not in self._callbacks:
            function = getattr(self, name) if name in _SIGNATURES else self._absent
            self._callbacks[name] = self._callback(function, *_SIGNATURES.get(name, ()))
        _store(out, ctypes.cast(self._callbacks[name], _pointer).value)
        return SUCCESS

    def _absent(self) -> int:
        return NOT_SUPPORTED

    # ---- the driver's functions ------------------------------------------------------------------------------------

    def cuInit(self, flags: int) -> int:
        return SUCCESS

    def cuDriverGetVersion(self, out: int) -> int:
        return _store(out, _DRIVER_VERSION, ctypes.c_int)

    def cuGetErrorString(self, code: int, out: int) -> int:
        texts = {NOT_SUPPORTED: b"not supported"}
        text = _TEXTS.setdefault(code, ctypes.c_char_p(texts.get(code, b"error %d" % code)))
        return _store(out, ctypes.cast(text, _pointer).value)

    def cuDeviceGetCount(self, out: int) -> int:
        return _store(out, 1, ctypes.c_int)

    def cuDeviceGet(self, out: int, ordinal: int) -> int:
        return _store(out, 0, ctypes.c_int)

    def cuDeviceGetAttribute(self, out: int, attribute: int, device: int) -> int:
        known = {
            COMPUTE_CAPABILITY_MAJOR: self.capability[0],
            COMPUTE_CAPABILITY_MINOR: self.capability[1],
            MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: 227 * 1024,
            **dict(zip(MAX_GRID_DIM, (2**31 - 1, 65535, 65535))),
        }
        return _store(out, known.get(attribute, 0), ctypes.c_int)

    def cuCtxGetCurrent(self, out: int) -> int:
        return _store(out, _HANDLE)

    def cuCtxSetCurrent(self, context: int | None) -> int:
        return SUCCESS

    def cuCtxPushCurrent(self, context: int | None) -> int:
        return SUCCESS

    def cuCtxPopCurrent(self, out: int) -> int:
        return _store(out, _HANDLE)

    def cuCtxGetDevice(self, out: int) -> int:
        return _store(out, 0, ctypes.c_int)

    def cuCtxGetId(self, context: int | None, out: int) -> int:
        return _store(out, 1, ctypes.c_uint64)

    def cuCtxSynchronize(self) -> int:
        return SUCCESS

    def cuPointerGetAttribute(self, out: int, attribute: int, address: int) -> int:
        return _store(out, _HANDLE)

    def cuStreamGetCtx(self, stream: int | None, out: int) -> int:
        return _store(out, _HANDLE)

    def cuStreamGetId(self, stream: int | None, out: int) -> int:
        return _store(out, 1, ctypes.c_uint64)

    def cuStreamIsCapturing(self, stream: int | None, out: int) -> int:
        return _store(out, 0, ctypes.c_int)

    def cuStreamSynchronize(self, stream: int | None) -> int:
        return SUCCESS

    def cuEventCreate(self, out: int, flags: int) -> int:
        return _store(out, _HANDLE)

    def cuEventQuery(self, event: int | None) -> int:
        return SUCCESS

    def cuEventRecord(self, event: int | None, stream: int | None) -> int:
        return SUCCESS

    def cuEventDestroy(self, event: int | None) -> int:
        return SUCCESS

    def cuEventElapsedTime(self, out: int, start: int | None, end: int | None) -> int:
        return _store(out, 1.0, ctypes.c_float)

    def cuGraphCreate(self, out: int, flags: int) -> int:
        return _store(out, _HANDLE)

    def cuGraphDestroy(self, graph: int | None) -> int:
        return SUCCESS

    def cuGraphAddEventRecordNode(self, out: int, graph: int, before: int | None, count: int, event: int) -> int:
        return _store(out, _HANDLE)

    def cuGraphAddKernelNode(self, out: int, graph: int, before: int | None, count: int, parameters: int) -> int:
        return _store(out, _HANDLE)

    def cuGraphInstantiateWithFlags(self, out: int, graph: int, flags: int) -> int:
        return _store(out, _HANDLE)

    def cuGraphLaunch(self, graph: int | None, stream: int | None) -> int:
        return SUCCESS

    def cuGraphExecDestroy(self, graph: int | None) -> int:
        return SUCCESS

    def cuStreamCreate(self, out: int, flags: int) -> int:
        return _store(out, _HANDLE)

    def cuStreamDestroy(self, stream: int | None) -> int:
        return SUCCESS

    def cuStreamWaitEvent(self, stream: int | None, event: int | None, flags: int) -> int:
        return SUCCESS

    def cuKernelGetFunction(self, out: int, kernel: int) -> int:
        return _store(out, kernel)

    def cuMemAlloc(self, out: int, size: int) -> int:
        block = np.zeros(size, np.uint8)
        self.blocks[block.ctypes.data] = block
        return _store(out, block.ctypes.data)

    def cuMemAllocHost(self, out: int, size: int) -> int:
        return self.cuMemAlloc(out, size)

    def cuMemFree(self, address: int) -> int:
        return SUCCESS if self.blocks.pop(address, None) is not None else INVALID_VALUE

    def cuMemFreeHost(self, address: int) -> int:
        return self.cuMemFree(address)

    def cuMemcpyHtoDAsync(self, target: int, source: int, size: int, stream: int | None) -> int:
        ctypes.memmove(target, source, size)
        return SUCCESS

    def cuLibraryLoadData(self, out: int, code: int, *options: Any) -> int:
        head = ctypes.string_at(code, len(_MAGIC) + 8)
        if head.startswith(b"\x7fELF"):
            self.libraries.append(ctypes.string_at(code, _elf_size(ctypes.string_at(code, 64))))
            return _store(out, len(self.libraries))
        if not head.startswith(_MAGIC):
            return INVALID_VALUE
        self.libraries.append(ctypes.string_at(code + len(head), int.from_bytes(head[len(_MAGIC) :], "little")))
        return _store(out, len(self.libraries))

    def cuLibraryUnload(self, library: int) -> int:
        return SUCCESS

    def cuLibraryGetKernel(self, out: int, library: int, name: bytes) -> int:
        self.kernels.append((library - 1, name.decode()))
        return _store(out, len(self.kernels))

    def cuKernelGetAttribute(self, out: int, attribute: int, kernel: int, device: int) -> int:
        return _store(out, 0, ctypes.c_int)

    def cuKernelSetAttribute(self, attribute: int, value: int, kernel: int, device: int) -> int:
        return SUCCESS

    def cuLaunchKernelEx(self, config: int, kernel: int, parameters: int, extra: int | None) -> int:
        launch = LaunchConfig.from_address(config)
        number, name = self.kernels[kernel - 1]

        def read(sizes: list[int]) -> list[bytes]:
            places = (ctypes.c_void_p * len(sizes)).from_address(parameters) if sizes else ()
            return [ctypes.string_at(place, size) for place, size in zip(places, sizes)]

        try:
            self.launch(self.libraries[number], name, (launch.x, launch.y, launch.z), read)
        except BaseException as error:  # must not propagate into the front end's C code, not even KeyboardInterrupt
            self.failure = error
        return SUCCESS


_TEXTS: dict[int, Any] = {}


def _elf_size(header: bytes) -> int:
    """The size of an ELF file, by its header (64 bytes): the end of the later of its two tables."""
    program_at, section_at = (int.from_bytes(header[at : at + 8], "little") for at in (32, 40))
    sizes = [int.from_bytes(header[at : at + 2], "little") for at in (54, 56, 58, 60)]
    return max(program_at + sizes[0] * sizes[1], section_at + sizes[2] * sizes[3])


def _store(out: int, value: float, type_: Any = ctypes.c_void_p) -> int:
    type_.from_address(out).value = value
    return SUCCESS


_SIGNATURES: dict[str, tuple] = {
    "cuInit": (_integer,),
    "cuDriverGetVersion": (_pointer,),
    "cuGetErrorString": (_integer, _pointer),
    "cuDeviceGetCount": (_pointer,),
    "cuDeviceGet": (_pointer, _integer),
    "cuDeviceGetAttribute": (_pointer, _integer, _integer),
    "cuCtxGetCurrent": (_pointer,),
    "cuCtxSetCurrent": (_pointer,),
    "cuCtxPushCurrent": (_pointer,),
    "cuCtxPopCurrent": (_pointer,),
    "cuCtxGetDevice": (_pointer,),
    "cuCtxGetId": (_pointer, _pointer),
    "cuCtxSynchronize": (),
    "cuPointerGetAttribute": (_pointer, _integer, _size),
    "cuStreamGetCtx": (_pointer, _pointer),
    "cuStreamGetId": (_pointer, _pointer),
    "cuStreamIsCapturing": (_pointer, _pointer),
    "cuStreamSynchronize": (_pointer,),
    "cuEventCreate": (_pointer, _integer),
    "cuEventQuery": (_pointer,),
    "cuEventRecord": (_pointer, _pointer),
    "cuEventDestroy": (_pointer,),
    "cuEventElapsedTime": (_pointer, _pointer, _pointer),
    "cuGraphCreate": (_pointer, _integer),
    "cuGraphDestroy": (_pointer,),
    "cuGraphAddEventRecordNode": (_pointer, _pointer, _pointer, _size, _pointer),
    "cuGraphAddKernelNode": (_pointer, _pointer, _pointer, _size, _pointer),
    "cuGraphInstantiateWithFlags": (_pointer, _pointer, ctypes.c_uint64),
    "cuGraphLaunch": (_pointer, _pointer),
    "cuGraphExecDestroy": (_pointer,),
    "cuStreamCreate": (_pointer, _integer),
    "cuStreamDestroy": (_pointer,),
    "cuStreamWaitEvent": (_pointer, _pointer, _integer),
    "cuKernelGetFunction": (_pointer, _size),
    "cuMemAlloc": (_pointer, _size),
    "cuMemAllocHost": (_pointer, _size),
    "cuMemFree": (_size,),
    "cuMemFreeHost": (_size,),
    "cuMemcpyHtoDAsync": (_size, _pointer, _size, _pointer),
    "cuLibraryLoadData": (_pointer, _pointer, *(_pointer,) * 2, _integer, *(_pointer,) * 2, _integer),
    "cuLibraryUnload": (_size,),
    "cuLibraryGetKernel": (_pointer, _size, ctypes.c_char_p),
    "cuKernelGetAttribute": (_pointer, _integer, _size, _integer),
    "cuKernelSetAttribute": (_integer, _integer, _size, _integer),
    "cuLaunchKernelEx": (_pointer, _size, _pointer, _pointer),
}
"""The arguments of each function; out parameters are addresses."""

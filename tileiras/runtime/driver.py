"""The CUDA driver through ctypes: the few entry points for loading and launching a kernel.

The library is loaded on first use, so that importing this module costs nothing and works without a GPU. Names, argument
types and numbers are those of cuda.h (CUDA 12); entry points with a second version there are called by its name
(`cuMemAlloc_v2`), as the header's macros do.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from tileiras.codegen.tensor_map import TensorMap

# By name, and at the paths where containers and WSL mount it without telling the loader.
_ELSEWHERE = ("/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1")
LIBRARIES = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so", *_ELSEWHERE)

# CUdevice_attribute
COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR = 75, 76
# CUfunction_attribute
MAX_DYNAMIC_SHARED_SIZE_BYTES, NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 8, 14
# CUlaunchAttributeID
LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4
# CUjit_option
JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 5, 6
# The `extra` list of a launch: one packed buffer instead of a pointer per parameter.
LAUNCH_PARAM_END, LAUNCH_PARAM_BUFFER_POINTER, LAUNCH_PARAM_BUFFER_SIZE = 0, 1, 2

NOT_INITIALIZED, NO_DEVICE = 3, 100


class DriverError(Exception):
    """A call that the driver rejected; `code` is its CUresult, None if there is no driver."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute: an id, padding to 8 bytes, and a union of 64 bytes, here as unsigned ints."""

    _fields_ = [("id", c_int), ("padding", c_int), ("value", c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_memory", c_uint),
        ("stream", c_void_p),
        ("attributes", POINTER(LaunchAttribute)),
        ("attribute_count", c_uint),
    ]


_HANDLE = c_void_p  # CUcontext, CUmodule, CUfunction, CUstream
_ADDRESS = c_uint64  # CUdeviceptr

PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(_HANDLE), c_int),
    "cuCtxGetCurrent": (POINTER(_HANDLE),),
    "cuCtxGetDevice": (POINTER(c_int),),
    "cuCtxPushCurrent_v2": (_HANDLE,),
    "cuCtxPopCurrent_v2": (POINTER(_HANDLE),),
    "cuModuleLoadDataEx": (POINTER(_HANDLE), c_char_p, c_uint, POINTER(c_int), POINTER(c_void_p)),
    "cuModuleGetFunction": (POINTER(_HANDLE), _HANDLE, c_char_p),
    "cuModuleUnload": (_HANDLE,),
    "cuFuncSetAttribute": (_HANDLE, c_int, c_int),
    "cuLaunchKernelEx": (POINTER(LaunchConfig), _HANDLE, POINTER(c_void_p), POINTER(c_void_p)),
    "cuStreamSynchronize": (_HANDLE,),
    "cuMemAlloc_v2": (POINTER(_ADDRESS), c_size_t),
    "cuMemFree_v2": (_ADDRESS,),
    "cuMemcpyHtoD_v2": (_ADDRESS, c_void_p, c_size_t),
    "cuMemcpyDtoH_v2": (c_void_p, _ADDRESS, c_size_t),
}
"""Entry points of every launch."""

MEASURING: dict[str, tuple[Any, ...]] = {
    "cuEventCreate": (POINTER(_HANDLE), c_uint),
    "cuEventRecord": (_HANDLE, _HANDLE),
    "cuEventSynchronize": (_HANDLE,),
    "cuEventElapsedTime": (POINTER(c_float), _HANDLE, _HANDLE),
    "cuMemcpyDtoDAsync_v2": (_ADDRESS, _ADDRESS, c_size_t, _HANDLE),
    "cuMemsetD8Async": (_ADDRESS, c_ubyte, c_size_t, _HANDLE),
    "cuLibraryLoadData": (POINTER(_HANDLE), c_char_p, c_void_p, c_void_p, c_uint, c_void_p, c_void_p, c_uint),
    "cuLibraryGetKernel": (POINTER(_HANDLE), _HANDLE, c_char_p),
    "cuLibraryUnload": (_HANDLE,),
}
"""Additional entry points for measurements, also of another compiler's kernels."""

ENCODE_TENSOR_MAP = "cuTensorMapEncodeTiled"
"""Looked up only if a kernel has a tensor map."""

# CUtensorMap
TENSOR_MAP_SIZE = TENSOR_MAP_ALIGNMENT = 128


class Driver:
    """The loaded library; every method but `error_text` raises DriverError if the driver reports an error."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._primary: dict[int, c_void_p] = {}
        for name in ("cuGetErrorName", "cuGetErrorString"):
            function = getattr(library, name)
            function.argtypes, function.restype = (c_int, POINTER(c_char_p)), c_int
        for name, types in {**PROTOTYPES, **MEASURING}.items():
            function = getattr(library, name, None)
            if function is not None:
                function.argtypes, function.restype = types, c_int
            elif name in PROTOTYPES:
                raise DriverError(f"the CUDA driver has no {name}: a driver of CUDA 12 or newer is needed")
        self.call("cuInit", 0)
        count = c_int()
        self.call("cuDeviceGetCount", count)
        self.device_count = count.value

    def call(self, name: str, *arguments: Any) -> None:
        """Call an entry point; ctypes objects among the arguments of a pointer parameter are passed by reference."""
        function = getattr(self._library, name, None)
        if function is None:
            raise DriverError(f"the CUDA driver has no {name}")
        code = function(*arguments)
        if code:
            self.fail(name, code)

    def fail(self, name: str, code: int) -> NoReturn:
        """Raise the DriverError of a call."""
        raise DriverError(f"{name}: {self.error_text(code)}", code)

    def raw_launch(self) -> Any:
        """cuLaunchKernelEx with addresses as arguments; returns the code."""
        function = self._library["cuLaunchKernelEx"]  # an object of its own, whose types are not those of `call`
        function.argtypes, function.restype = (c_void_p,) * 4, c_int
        return function

    def error_text(self, code: int) -> str:
        """`CUDA_ERROR_INVALID_VALUE (1): invalid argument`."""
        name, text = c_char_p(), c_char_p()
        if self._library.cuGetErrorName(code, name) or self._library.cuGetErrorString(code, text):
            return f"CUDA error {code}"
        return f"{name.value.decode()} ({code}): {text.value.decode()}"

    def version(self) -> tuple[int, int]:
        """The CUDA version of the driver; it determines the PTX versions that it accepts."""
        number = c_int()
        self.call("cuDriverGetVersion", number)
        return number.value // 1000, number.value % 1000 // 10

    # ---- devices and contexts ----------------------------------------------------------------------------------------

    def current_context(self) -> int | None:
        """The calling thread's current context as a number, or None."""
        context = c_void_p()
        self.call("cuCtxGetCurrent", context)
        return context.value

    def primary_context(self, device: int = 0) -> int:
        """The device's primary context, retained until the process ends."""
        if device not in self._primary:
            if device >= self.device_count:
                raise DriverError(f"the CUDA driver has {self.device_count} devices, no device {device}", NO_DEVICE)
            handle, context = c_int(), c_void_p()
            self.call("cuDeviceGet", handle, device)
            self.call("cuDevicePrimaryCtxRetain", context, handle)
            self._primary[device] = context
        value = self._primary[device].value
        assert value is not None
        return value

    def compute_capability(self, device: int | None = None) -> int:
        """`90` for a device, by default that of the current context."""
        handle = c_int()
        if device is None:
            self.call("cuCtxGetDevice", handle)
        else:
            self.call("cuDeviceGet", handle, device)
        numbers = []
        for attribute in (COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR):
            value = c_int()
            self.call("cuDeviceGetAttribute", value, attribute, handle)
            numbers.append(value.value)
        return 10 * numbers[0] + numbers[1]

    def device_name(self, device: int = 0) -> str:
        handle, name = c_int(), ctypes.create_string_buffer(256)
        self.call("cuDeviceGet", handle, device)
        self.call("cuDeviceGetName", name, 256, handle)
        return name.value.decode(errors="replace")

    # ---- memory ------------------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        """Allocate `size` bytes of device memory, at least one, since the driver rejects 0."""
        address = _ADDRESS()
        self.call("cuMemAlloc_v2", address, max(size, 1))
        return address.value

    def free(self, address: int) -> None:
        self.call("cuMemFree_v2", address)

    def copy_to_device(self, address: int, host: int, size: int) -> None:
        if size:
            self.call("cuMemcpyHtoD_v2", address, host, size)

    def copy_to_host(self, host: int, address: int, size: int) -> None:
        if size:
            self.call("cuMemcpyDtoH_v2", host, address, size)

    def copy_on_device(self, to: int, address: int, size: int, stream: int = 0) -> None:
        """Queue a copy without waiting for it."""
        if size:
            self.call("cuMemcpyDtoDAsync_v2", to, address, size, stream)

    def fill(self, address: int, byte: int, size: int, stream: int = 0) -> None:
        """Queue a fill without waiting for it."""
        self.call("cuMemsetD8Async", address, byte, size, stream)

    # ---- time --------------------------------------------------------------------------------------------------------

    def event(self) -> int:
        """An event, which records the time at which the device reaches it in a stream."""
        event = c_void_p()
        self.call("cuEventCreate", event, 0)
        assert event.value is not None
        return event.value

    def record(self, event: int, stream: int = 0) -> None:
        self.call("cuEventRecord", event, stream)

    def milliseconds(self, first: int, last: int) -> float:
        """Between two events that were recorded; waits for the second."""
        self.call("cuEventSynchronize", last)
        time = c_float()
        self.call("cuEventElapsedTime", time, first, last)
        return time.value

    def synchronize(self, stream: int) -> None:
        """Wait for a stream; raises errors of kernels that ran on it."""
        self.call("cuStreamSynchronize", stream)

    # ---- modules -----------------------------------------------------------------------------------------------------

    def load_module(self, image: bytes) -> int:
        """Load a cubin, or PTX that the driver compiles; the error contains its messages about PTX."""
        module, log = c_void_p(), ctypes.create_string_buffer(16384)
        options = (c_int * 2)(JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(log), len(log))
        try:
            # PTX must end in a zero, which c_char_p supplies; a cubin contains its own size.
            self.call("cuModuleLoadDataEx", module, image, len(options), options, values)
        except DriverError as error:
            text = log.value.decode(errors="replace").strip()
            raise DriverError(f"{error}\n{text}" if text else str(error), error.code) from None
        assert module.value is not None
        return module.value

    def function(self, module: int, name: str) -> int:
        function = c_void_p()
        self.call("cuModuleGetFunction", function, module, name.encode())
        assert function.value is not None
        return function.value

    def set_function_attribute(self, function: int, attribute: int, value: int) -> None:
        self.call("cuFuncSetAttribute", function, attribute, value)

    def tensor_map(self, map_: TensorMap, address: int, dims: list[int], strides: list[int]) -> bytes:
        """The bytes of a tensor map of a tensor in device memory; `strides` in bytes."""
        encode = getattr(self._library, ENCODE_TENSOR_MAP, None)
        if encode is None:
            raise DriverError(f"the CUDA driver has no {ENCODE_TENSOR_MAP}: a driver of CUDA 12 or newer is needed")
        wide, narrow, enumeration = POINTER(c_uint64), POINTER(c_uint), c_int
        encode.restype = c_int
        encode.argtypes = (c_void_p, enumeration, c_uint, c_void_p, wide, wide, narrow, narrow, *(enumeration,) * 4)
        rank = len(dims)
        memory = ctypes.create_string_buffer(2 * TENSOR_MAP_ALIGNMENT)
        skipped = -ctypes.addressof(memory) % TENSOR_MAP_ALIGNMENT
        self.call(
            ENCODE_TENSOR_MAP, ctypes.addressof(memory) + skipped, map_.data_type, rank, address,
            (c_uint64 * rank)(*dims), (c_uint64 * rank)(*strides), (c_uint * rank)(*map_.box),
            (c_uint * rank)(*map_.element_strides), map_.interleave, map_.swizzle, map_.l2, map_.oob,
        )  # fmt: skip
        return memory.raw[skipped : skipped + TENSOR_MAP_SIZE]

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_memory: int,
        stream: int,
        cluster: tuple[int, int, int] | None,
        parameters: bytes,
    ) -> None:
        """Launch with parameters packed in the kernel's layout; with `cluster` None that attribute is omitted."""
        attributes = (LaunchAttribute * 1)()
        if cluster is not None:
            attributes[0].id = LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            attributes[0].value[:3] = cluster
        config = LaunchConfig(
            (c_uint * 3)(*grid), (c_uint * 3)(*block), shared_memory, stream, attributes, int(cluster is not None)
        )
        packed = ctypes.create_string_buffer(parameters, len(parameters)) if parameters else None
        extra = None
        if packed is not None:
            size = c_size_t(len(parameters))
            extra = (c_void_p * 5)(
                LAUNCH_PARAM_BUFFER_POINTER, ctypes.addressof(packed),
                LAUNCH_PARAM_BUFFER_SIZE, ctypes.addressof(size), LAUNCH_PARAM_END,
            )  # fmt: skip
        self.call("cuLaunchKernelEx", config, function, None, extra)


_loaded: Driver | None = None


def load_driver() -> Driver:
    """The driver of this machine, loaded once; raises DriverError if it is missing or has no device."""
    global _loaded
    if _loaded is None:
        problems = []
        for name in LIBRARIES:
            try:
                library = ctypes.CDLL(name)
            except OSError as error:
                problems.append(str(error))
                continue
            _loaded = Driver(library)
            break
        else:
            raise DriverError(f"no CUDA driver here ({LIBRARIES[0]} cannot be loaded: {problems[0]})")
    return _loaded

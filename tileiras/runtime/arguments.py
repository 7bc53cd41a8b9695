"""A kernel's arguments as the bytes of its parameter space, and device copies of host arrays.

A pointer argument is memory of the device (an object with `__cuda_array_interface__` or DLPack, an address as an int),
or memory of the host (a NumPy array, a writable buffer), which is copied to the device and back. Views of one NumPy
array are pointers into one allocation, as in the simulators. This module never imports NumPy: the creator of an array
argument has imported it.
"""

from __future__ import annotations

import ctypes
import operator
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from tileiras.codegen.tensor_map import TensorMap


class ArgumentError(Exception):
    """An argument that does not fit its parameter."""


class HostMemory(NamedTuple):
    """Host memory of a pointer argument: `address` is `offset` bytes after the start of `size` bytes."""

    start: int
    size: int
    offset: int
    writable: bool
    owner: Any
    """Keeps the memory alive."""


class Placement(Protocol):
    """Maps host memory to device addresses, and names the stream that producers synchronize with."""

    stream: int

    def place(self, memory: HostMemory) -> int: ...

    def wait_for(self, stream: int) -> None: ...


# ---- pointers --------------------------------------------------------------------------------------------------------


def _extent(interface: Mapping[str, Any]) -> tuple[int, int]:
    """First and past-the-end address of an `__array_interface__`."""
    address = interface["data"][0]
    item = int(interface["typestr"][2:])
    shape = interface["shape"]
    if 0 in shape:
        return address, address
    strides = interface.get("strides")
    if strides is None:
        count = 1
        for size in shape:
            count *= size
        return address, address + count * item
    reach = [(size - 1) * stride for size, stride in zip(shape, strides)]
    return address + sum(r for r in reach if r < 0), address + sum(r for r in reach if r > 0) + item


def host_memory(value: object) -> HostMemory | None:
    """The memory of a NumPy array (its whole base array) or a buffer (of a memoryview: the memory that it is a part
    of); None for anything else."""
    interface = getattr(value, "__array_interface__", None)
    if isinstance(interface, Mapping):
        owner = value
        while hasattr(getattr(owner, "base", None), "__array_interface__"):
            owner = owner.base
        start, end = _extent(owner.__array_interface__)
        address, writable = interface["data"][0], not interface["data"][1]
        return HostMemory(start, end - start, address - start, writable, owner)
    try:
        view = memoryview(value)
    except TypeError:
        return None
    if not view.c_contiguous:
        raise ArgumentError("a buffer must be contiguous")
    if view.readonly or view.nbytes == 0:
        raw = (ctypes.c_char * view.nbytes).from_buffer_copy(view)
        return HostMemory(ctypes.addressof(raw), view.nbytes, 0, False, (value, raw))
    raw = (ctypes.c_char * view.nbytes).from_buffer(view)
    address = ctypes.addressof(raw)
    whole = memoryview(view.obj)
    if whole.readonly or not whole.c_contiguous:
        return HostMemory(address, view.nbytes, 0, True, (value, raw))
    owner = (ctypes.c_char * whole.nbytes).from_buffer(whole)
    start = ctypes.addressof(owner)
    return HostMemory(start, whole.nbytes, address - start, True, (value, raw, owner))


class _DLTensor(ctypes.Structure):
    """DLTensor of dlpack.h; fields after those that are read are omitted."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int),
                ("ndim", ctypes.c_int), ("dtype", ctypes.c_uint8 * 4), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]  # fmt: skip


DL_CPU, DL_CUDA, DL_CUDA_MANAGED = 1, 2, 13
VERSIONED, READ_ONLY = b"dltensor_versioned", 1
"""Name of a capsule with a DLManagedTensorVersioned, and the bit of its flags for memory that may not be written."""
_FLAGS, _TENSOR = 24, 32
"""Offsets in a DLManagedTensorVersioned: its flags, behind version, context and deleter, and its DLTensor."""


def _capsule_pointer(capsule: object, name: bytes) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return get(capsule, name)


def _dlpack_host_memory(value: Any) -> HostMemory:
    """The memory of a tensor of the host, by DLPack alone; the capsule keeps it alive."""
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
    except TypeError:  # of producers before DLPack 1.0
        capsule = value.__dlpack__()
    is_named = ctypes.pythonapi.PyCapsule_IsValid
    is_named.restype, is_named.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
    writable = True
    if is_named(capsule, VERSIONED):
        start = _capsule_pointer(capsule, VERSIONED)
        writable = not ctypes.c_uint64.from_address(start + _FLAGS).value & READ_ONLY
        tensor = _DLTensor.from_address(start + _TENSOR)
    else:
        tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    sizes = (ctypes.c_int64 * tensor.ndim).from_address(tensor.shape) if tensor.ndim else ()
    steps: list[int] = []
    if tensor.strides and tensor.ndim:
        steps = list((ctypes.c_int64 * tensor.ndim).from_address(tensor.strides))
    else:
        step = 1
        for size in reversed(sizes):
            steps.insert(0, step)
            step *= size
    bits = tensor.dtype[1] * int.from_bytes(bytes(tensor.dtype)[2:], "little")
    reach = [(size - 1) * step for size, step in zip(sizes, steps)]
    low, high = (-sum(-r for r in reach if r < 0), sum(r for r in reach if r > 0)) if 0 not in sizes else (0, -1)
    address = (tensor.data or 0) + tensor.byte_offset
    start, end = address + low * bits // 8, address + -(-(high + 1) * bits // 8)
    return HostMemory(start, end - start, address - start, writable, (value, capsule))


def _dlpack_address(value: Any, stream: int) -> int:
    """The address of a device tensor, without taking ownership.

    `stream` is the consumer's, in DLPack's numbers for CUDA: 1 is the legacy default stream.
    """
    capsule = value.__dlpack__(stream=stream or 1)
    # An unconsumed (not renamed) capsule frees its DLManagedTensor; the tensor itself stays the caller's.
    tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    return (tensor.data or 0) + tensor.byte_offset


def device_address(value: Any, placement: Placement) -> int:
    """The device address for a pointer argument; raises ArgumentError.

    Memory is tried before a number: a tensor of one integer is both, and its number is its content, not its address.
    """
    if isinstance(value, bool):
        raise ArgumentError("a pointer is wanted, not a truth value")
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        memory = host_memory(value)
    else:
        try:
            address = _exported_address(value, placement)
            if address is None:
                address = _number(value)
            if address is not None:
                return address
            scalar = numpy is not None and isinstance(value, numpy.generic)
            memory = None if scalar else _tensor_memory(value)
        except (BufferError, RuntimeError) as error:  # of a tensor that cannot be exported in its state
            raise ArgumentError(f"memory of a {type(value).__name__} is not to be had: {error}") from None
    if memory is None:
        raise ArgumentError(
            "a pointer is wanted: a NumPy array, an object with __cuda_array_interface__ or DLPack, a buffer, or an "
            f"address, not {type(value).__name__}"
        )
    return placement.place(memory)


def _exported_address(value: Any, placement: Placement) -> int | None:
    """The device memory that an object exports; None without device memory."""
    device = value.__dlpack_device__()[0] if hasattr(value, "__dlpack_device__") else None
    if device in (DL_CUDA, DL_CUDA_MANAGED):
        return _dlpack_address(value, placement.stream)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        if device not in (None, DL_CPU):
            raise ArgumentError(f"memory of DLPack device {device} cannot be reached from a CUDA kernel")
        return None
    try:
        address = interface["data"][0] or 0
    except (KeyError, TypeError):
        raise ArgumentError("a __cuda_array_interface__ without the address of its data") from None
    if interface.get("mask") is not None:
        raise ArgumentError("a masked array has no memory that a kernel could use alone")
    producer = interface.get("stream")
    if producer is not None and producer != placement.stream:
        placement.wait_for(producer)
    return address


def _number(value: Any) -> int | None:
    """An address; None if it is not an integer, or is a host tensor of one integer."""
    if hasattr(value, "__dlpack_device__"):
        return None
    try:
        number = operator.index(value)
    except TypeError:
        return None
    if not 0 <= number < 1 << 64:
        raise ArgumentError(f"{number} is no address")
    return number


def _tensor_memory(value: Any) -> HostMemory | None:
    """The memory of a tensor of the host: of its NumPy view, whose base other views share, or by DLPack."""
    if not hasattr(value, "__dlpack_device__"):
        return host_memory(value)
    if hasattr(value, "numpy"):
        try:
            return host_memory(value.numpy())
        except TypeError:  # of PyTorch for types that NumPy lacks, as bf16
            pass
    return _dlpack_host_memory(value)


# ---- scalars ---------------------------------------------------------------------------------------------------------

_FLOATS = {"f16": "<e", "f32": "<f", "tf32": "<f", "f64": "<d"}


def _bfloat16(value: float) -> bytes:
    """Round to nearest, ties to even, from f32, which represents every bf16."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    if value != value:
        return struct.pack("<H", (bits >> 16) | 0x40)
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def scalar_bytes(value: Any, type: str, size: int) -> bytes:
    """A number as `size` bytes; raises ArgumentError if it is not a number or does not fit.

    `type` is the source's (`i32`, `f16`, `bf16`) or, if only PTX is available, PTX's (`u32`, `b64`). Types without a
    Python number (f8) take a NumPy scalar of that width or the bits as an int.
    """
    if value.__class__ is int and type[0] == "i" and 0 <= value < 1 << (8 * size - 1) and type != "i1":
        return value.to_bytes(size, "little")  # sizes and strides: most arguments
    try:
        if type in _FLOATS:
            return struct.pack(_FLOATS[type], float(value))
        if type == "bf16":
            return _bfloat16(float(value))
        raw = getattr(value, "tobytes", None)
        if raw is not None and getattr(value, "nbytes", None) == size and not hasattr(value, "__index__"):
            return raw()
        if type[0] == "b" and isinstance(value, float) and size in (4, 8):
            return struct.pack("<f" if size == 4 else "<d", value)
        number = operator.index(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"a number of type {type} is wanted, not {value!r}") from None
    except OverflowError:
        raise ArgumentError(f"{value!r} does not fit in {type}") from None
    bits = 1 if type == "i1" else 8 * size
    if not -(1 << (bits - 1)) <= number < 1 << bits:
        raise ArgumentError(f"{number} does not fit in {type}")
    return (number & ((1 << bits) - 1)).to_bytes(size, "little")


# ---- the parameter space ---------------------------------------------------------------------------------------------


def pack(
    kernel: Mapping[str, Any],
    arguments: Sequence[Any],
    placement: Placement,
    encode: Callable[[TensorMap, int, list[int], list[int]], bytes] | None = None,
) -> bytes:
    """The parameter space of one launch, in the layout of a kernel's part of NAME.json.

    `encode` creates a tensor map from an address, dimensions and strides in bytes. Raises ArgumentError naming the
    parameter.
    """
    parameters = kernel["parameters"]
    name = kernel["name"]
    if len(arguments) != len(parameters):
        raise ArgumentError(f"kernel '{name}' takes {len(parameters)} arguments, got {len(arguments)}")
    hidden = kernel.get("hidden_parameters", [])
    packed = bytearray(max((p["offset"] + p["size"] for p in (*parameters, *hidden)), default=0))
    for number, (parameter, value) in enumerate(zip(parameters, arguments)):
        offset, size, type = parameter["offset"], parameter["size"], parameter["type"]
        try:
            if type.startswith("ptr"):
                data = device_address(value, placement).to_bytes(8, "little")
            else:
                data = scalar_bytes(value, type, size)
        except ArgumentError as error:
            raise ArgumentError(f"argument {number} ('{parameter['name']}') of kernel '{name}': {error}") from None
        packed[offset : offset + size] = data
    for parameter in hidden:
        data = _hidden(kernel, parameter, bytes(packed), encode)
        packed[parameter["offset"] : parameter["offset"] + len(data)] = data
    return bytes(packed)


def aligned_strides(dims: Sequence[int], strides: Sequence[int], element_size: int) -> list[int]:
    """The strides in bytes of all dimensions but the innermost.

    The driver takes multiples of 16 only; no element lies a stride away where a dimension has one, and cuTile Python
    assumes such strides to be aligned.
    """
    wide = [stride * element_size for stride in strides]
    return [stride + -stride % 16 if size == 1 else stride for stride, size in zip(wide, dims[1:])]


def _hidden(
    kernel: Mapping[str, Any],
    parameter: Mapping[str, Any],
    packed: bytes,
    encode: Callable[[TensorMap, int, list[int], list[int]], bytes] | None,
) -> bytes:
    """The bytes of a hidden parameter; `packed` contains the others."""
    from tileiras.codegen import tensor_map

    try:
        result = tensor_map.parse(parameter["fill"])
        address, *numbers = (
            tensor_map.value(operand, kernel["parameters"], packed)
            for operand in (result.address, *result.dims, *result.strides)
        )
    except (ValueError, IndexError) as error:
        raise ArgumentError(
            f"kernel '{kernel['name']}' has a hidden parameter that this launcher cannot fill: {error}"
        ) from None
    if encode is None:
        raise ArgumentError(f"kernel '{kernel['name']}' has tensor maps, which this launcher cannot encode")
    rank = len(result.dims)
    # A tensor map cannot have an empty dimension; for an empty array the size is 1, and the kernel only accesses
    # elements beyond it.
    dims = [max(1, size) for size in numbers[:rank]]
    return encode(result, address, dims, aligned_strides(dims, numbers[rank:], result.element_size))

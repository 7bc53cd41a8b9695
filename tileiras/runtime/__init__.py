"""Launching compiled kernels through the CUDA driver.

    artifact = tileiras.compile("saxpy.mlir", gpu_name="sm_90", emit="cubin")
    tileiras.runtime.launch(artifact, "saxpy", (3,), [x, y, numpy.float32(2), 3000])

A module is loaded once per context and stays loaded until the process ends, so that a launch neither loads it again
nor waits for the one before.  Needs the driver (`libcuda.so.1`, on Windows `nvcuda.dll`) and nothing else; the other
modules of this package import only the standard library, so that a test package can carry them along.
"""

from __future__ import annotations

import functools
import json
import operator
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import cpu, fat_binaries
from .arguments import ArgumentError, HostMemory, pack, scalar_bytes
from .bound import BoundKernel
from .driver import MAX_DYNAMIC_SHARED_SIZE_BYTES, NON_PORTABLE_CLUSTER_SIZE_ALLOWED, Driver, DriverError, load_driver

if TYPE_CHECKING:
    from types import TracebackType

    from tileiras.api import Artifact

__all__ = ["ArgumentError", "DriverError", "BoundKernel", "Module", "available", "bind", "launch", "measure"]

SHARED_WITHOUT_ASKING = 48 * 1024
"""Bytes of dynamic shared memory above which a kernel needs an opt-in (CUDA programming guide, "Shared Memory" of
each capability)."""

PORTABLE_CLUSTER = 8
"""CTAs of a cluster above which a kernel needs an opt-in (the guide, "Thread Block Clusters")."""

FLUSHED = 256 << 20
"""Bytes that are written before each measured launch, more than the L2 cache of any GPU."""

TILE_LAUNCH_SINCE = (13, 0)
"""The CUDA version of the first driver with tile launches (r580, according to cuTile Python); an older one would
start only the one thread that the launch names."""


def available() -> bool:
    """Whether the driver is present and has a device."""
    try:
        return load_driver().device_count > 0
    except DriverError:
        return False


class Module:
    """A cubin or PTX in one context, and the launch descriptions of its kernels."""

    def __init__(self, cuda: Driver, image: bytes, kernels: Mapping[str, Mapping[str, Any]]) -> None:
        self._cuda = cuda
        self.kernels = dict(kernels)
        try:
            self._handle = cuda.load_module(image)
        except DriverError as error:
            major, minor = cuda.version()
            where = f"the device is sm_{cuda.compute_capability()}, the driver of CUDA {major}.{minor}"
            raise DriverError(f"{error}\n({where})", error.code) from None
        self._functions: dict[str, int] = {}

    def function(self, kernel: Mapping[str, Any]) -> int:
        """The handle of a kernel from its description, with its shared memory and cluster size enabled."""
        entry = kernel["name"]
        function = self._functions.get(entry)
        if function is None:
            function = self._cuda.function(self._handle, entry)
            if kernel["shared_memory"] > SHARED_WITHOUT_ASKING:
                self._cuda.set_function_attribute(function, MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel["shared_memory"])
            x, y, z = kernel["cluster"]
            if x * y * z > PORTABLE_CLUSTER:
                self._cuda.set_function_attribute(function, NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
            self._functions[entry] = function
        return function

    def launch(self, entry: str, grid: Sequence[int], arguments: Sequence[Any], stream: int = 0) -> None:
        """As `tileiras.runtime.launch`, in the current context."""
        kernel = launched(self.kernels[entry], grid, arguments)
        with _Arrays(self._cuda, stream) as arrays:
            packed = pack(kernel, arguments, arrays, self._cuda.tensor_map)
            arrays.settle()
            self._queue(kernel, grid, packed, stream)

    def measure(self, entry: str, grid: Sequence[int], arguments: Sequence[Any], runs: int, stream: int = 0) -> float:
        """As `tileiras.runtime.measure`, in the current context."""
        cuda, times = self._cuda, []
        kernel = launched(self.kernels[entry], grid, arguments)
        with _Arrays(cuda, stream, copies_back=False) as arrays:
            packed = pack(kernel, arguments, arrays, cuda.tensor_map)
            arrays.settle()
            # One-time costs of a first launch, such as loading the code, are not measured.
            self._queue(kernel, grid, packed, stream)
            cuda.synchronize(stream)
            flushed, begin, end = cuda.allocate(FLUSHED), cuda.event(), cuda.event()
            try:
                for _ in range(runs):
                    # Flushes the caches, and lasts long enough for the launch to be queued meanwhile.
                    cuda.fill(flushed, 0, FLUSHED, stream)
                    cuda.record(begin, stream)
                    self._queue(kernel, grid, packed, stream)
                    cuda.record(end, stream)
                    times.append(1000 * cuda.milliseconds(begin, end))
            finally:
                _free(cuda, flushed)
        return statistics.median(times)

    def _queue(self, kernel: Mapping[str, Any], grid: Sequence[int], packed: bytes, stream: int) -> None:
        blocks, block, shared, cluster = geometry(self._cuda, kernel, grid)
        self._cuda.launch(self.function(kernel), blocks, block, shared, stream, cluster, packed)


def geometry(
    cuda: Driver, kernel: Mapping[str, Any], grid: int | Sequence[int]
) -> tuple[tuple[int, int, int], tuple[int, int, int], int, tuple[int, int, int] | None]:
    """The blocks of a grid, the threads of a block, bytes of dynamic shared memory, and the cluster to request."""
    blocks = dimensions(grid)
    if kernel.get("tile_launch"):
        # The driver's tile launch: a block of one thread represents a tile block; its memory is static.
        if cuda.version() < TILE_LAUNCH_SINCE:
            requirement = "a tile launch needs a driver of CUDA 13.0 or newer"
            raise DriverError(f"{requirement}; compile with --tile-launch=false")
        return blocks, (1, 1, 1), 0, None
    cluster = None
    if tuple(kernel["cluster"]) != (1, 1, 1):
        # A tile block is a cluster; with `.blocksareclusters` the driver scales the grid, else it is scaled here.
        if not kernel.get("blocks_are_clusters"):
            cluster = dimensions(kernel["cluster"])
            x, y, z = (tiles * ctas for tiles, ctas in zip(blocks, cluster))
            blocks = (x, y, z)
    elif _is_made_of_clusters(blocks, kernel):
        cluster = dimensions(kernel["cluster_blocks"])
    return blocks, dimensions(kernel["block"]), kernel["shared_memory"], cluster


def launched(kernel: Mapping[str, Any], grid: Sequence[int], arguments: Sequence[Any]) -> Mapping[str, Any]:
    """The description of the kernel that a launch over a grid starts: the variant for pairs of tile blocks, if it
    exists, the grid consists of such pairs, and the arguments satisfy its conditions."""
    pairs = kernel.get("pairs")
    if pairs is None or not _is_made_of_clusters(dimensions(grid), pairs):
        return kernel
    if "where" in pairs:
        from .launch_facts import hold

        def parameter(number: int) -> int:
            described = kernel["parameters"][number]
            raw = scalar_bytes(arguments[number], described["type"], described["size"])
            return int.from_bytes(raw, "little", signed=True)

        try:
            if not hold(pairs["where"], dimensions(grid)[0], parameter):
                return kernel
        except ArgumentError:
            return kernel  # `pack` reports the argument
    return {**kernel, **pairs}


def _is_made_of_clusters(blocks: Sequence[int], kernel: Mapping[str, Any]) -> bool:
    """Whether a grid is a multiple of the clusters of tile blocks that a kernel's launch requires."""
    cluster = kernel.get("cluster_blocks")
    return cluster is not None and not any(size % members for size, members in zip(blocks, cluster))


def _free(cuda: Driver, address: int) -> None:
    """Free memory; after a kernel's fault every call fails, and the fault itself must be reported."""
    try:
        cuda.free(address)
    except DriverError:
        pass


class _Arrays:
    """Device copies of the host memory of one launch; copied back after a successful launch."""

    def __init__(self, cuda: Driver, stream: int, copies_back: bool = True) -> None:
        self._cuda = cuda
        self.stream = stream
        self._copies_back = copies_back
        self._copies: dict[tuple[int, int], tuple[int, HostMemory]] = {}

    def place(self, memory: HostMemory) -> int:
        key = (memory.start, memory.size)
        copy = self._copies.get(key)
        if copy is None:
            address = self._cuda.allocate(memory.size)
            self._copies[key] = (address, memory)
            self._cuda.copy_to_device(address, memory.start, memory.size)
            return address + memory.offset
        address, first = copy
        if memory.writable and not first.writable:
            self._copies[key] = (address, memory)
        return address + memory.offset

    def settle(self) -> None:
        """Make the copies visible to the launch's stream.

        Copies go through the default stream and may return before the last of them is complete (CUDA driver API, "API
        synchronization behavior"); only that stream, and streams that wait for it, are ordered after them implicitly.
        """
        if self._copies and self.stream:
            self._cuda.synchronize(0)

    def wait_for(self, stream: int) -> None:
        """Wait for a producer: 1 and 2 are the legacy and the per-thread default stream in cuda.h as well."""
        self._cuda.synchronize(stream)

    def __enter__(self) -> _Arrays:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._copies:
                self._cuda.synchronize(self.stream)
                for address, memory in self._copies.values():
                    if memory.writable and self._copies_back:
                        self._cuda.copy_to_host(memory.start, address, memory.size)
        finally:
            for address, _ in self._copies.values():
                try:
                    self._cuda.free(address)
                except DriverError:
                    # After a kernel's fault every call fails; the fault itself must be reported.
                    if kind is None:
                        break


def dimensions(sizes: int | Sequence[int]) -> tuple[int, int, int]:
    """Pad one integer, or a sequence of up to three, with ones; ArgumentError for anything else."""
    try:
        result = tuple(map(operator.index, sizes)) if hasattr(sizes, "__iter__") else (operator.index(sizes),)
    except TypeError:
        result = ()
    if not 1 <= len(result) <= 3 or any(size < 1 for size in result):
        raise ArgumentError(f"a grid has one to three positive sizes, not {sizes!r}")
    x, y, z = (*result, 1, 1)[:3]
    return x, y, z


def stream_handle(stream: object) -> int:
    """A stream's number: an int, an object with the `__cuda_stream__` protocol, or a stream of PyTorch or CuPy.

    Raises ArgumentError for anything else.
    """
    if stream is None:
        return 0
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    try:
        return operator.index(stream)
    except TypeError:
        raise ArgumentError(f"a stream is wanted, not {type(stream).__name__}") from None


_modules: dict[tuple[int, bytes], Module] = {}


def launch(
    image: Artifact | bytes | bytearray | memoryview | str,
    entry: str,
    grid: int | Sequence[int],
    args: Sequence[Any],
    stream: object = None,
    *,
    metadata: Mapping[str, Any] | None = None,
    threads: int | None = None,
) -> None:
    """Run one kernel on the GPU, or on the CPU that it is compiled for.

    image: an Artifact of `tileiras.compile` with PTX, a cubin, a fat binary or an object of a CPU, or those bytes (PTX
    also as str).
    grid: number of tile blocks along x, y, z.
    args: the entry's parameters in order. A pointer is a NumPy array (copied to the device and back), an object with
    `__cuda_array_interface__` or DLPack, a buffer of the host, or a device address; a scalar is a number.
    stream: a CUDA stream; the default stream when absent. With memory of the host among the arguments the call waits
    for the kernel and its results, without it returns when the launch is queued.
    metadata: the content of NAME.json for an image that is bytes, for a fat binary that of NAME.fatbin.json; PTX
    without metadata is described from its own text, with no dynamic shared memory.
    threads: for a CPU, how many run tile blocks; `TILEIRAS_CPU_THREADS` or the processors when absent. Arrays are used
    in place, and the call returns when the kernel is done.

    The kernel runs in the thread's current context, or in the primary one of device 0 if there is no current context.
    Raises DriverError with the driver's message, and ArgumentError for arguments that do not fit, even without a
    driver.
    """
    compiled = _for_cpu(image, entry, metadata)
    if compiled is not None:
        cpu.launch(*compiled, dimensions(grid), args, threads)
        return
    data = image_bytes(image)
    try:
        cuda = load_driver()
    except DriverError:
        _check(descriptions(image, metadata), entry, grid, args, stream)
        raise
    with _Context(cuda) as context:
        module = _loaded(cuda, context, data, image, entry, metadata)
        module.launch(entry, dimensions(grid), args, stream_handle(stream))


def bind(
    image: Artifact | bytes | bytearray | memoryview | str,
    entry: str,
    *,
    metadata: Mapping[str, Any] | None = None,
) -> BoundKernel:
    """Load a kernel once for many launches, whose cost is a few microseconds.

    image, entry, metadata: as for `launch`.  The kernel is bound to the thread's current context, or to the primary one
    of device 0, which then has to be current in launches.  Raises the errors of `launch`.
    """
    cuda = load_driver()
    with _Context(cuda) as context:
        module = _loaded(cuda, context, image_bytes(image), image, entry, metadata)
        return BoundKernel(cuda, module, module.kernels[entry], functools.partial(geometry, cuda))


def _for_cpu(image: Any, entry: str, metadata: Mapping[str, Any] | None) -> tuple[bytes, Mapping[str, Any]] | None:
    """The object of a CPU with a kernel, and its description; None for images of a GPU."""
    if hasattr(image, "kernels"):
        if image.suffix not in cpu.SUFFIXES:
            return None
        kernel = _describe(descriptions(image), entry)
        return next(each.artifacts[cpu.SUFFIX] for each in image.kernels if each.name == entry), kernel
    if metadata is None or all("scratch" not in kernel for kernel in metadata.get("kernels", ())):
        return None
    return image_bytes(image), _describe(descriptions(image, metadata), entry)


def measure(
    image: Artifact | bytes | bytearray | memoryview | str,
    entry: str,
    grid: int | Sequence[int],
    args: Sequence[Any],
    *,
    runs: int = 9,
    metadata: Mapping[str, Any] | None = None,
) -> float:
    """Measure one launch on the device in microseconds: the median of ``runs``, each between two events and with cold
    caches.

    image, entry, grid, args, metadata: as for `launch`. Memory of the host is copied to the device once and not copied
    back; all launches work on the same memory, one after the other. Raises the errors of `launch`.

    A kernel for the CPU is measured in this process, with the caches as the launch before it left them.
    """
    compiled = _for_cpu(image, entry, metadata)
    if compiled is not None:
        return cpu.measure(*compiled, dimensions(grid), args, runs)
    data = image_bytes(image)
    cuda = load_driver()
    with _Context(cuda) as context:
        module = _loaded(cuda, context, data, image, entry, metadata)
        return module.measure(entry, dimensions(grid), args, runs)


def _loaded(
    cuda: Driver, context: _Context, data: bytes, image: Any, entry: str, metadata: Mapping[str, Any] | None
) -> Module:
    """The module of an image in the current context, with the entry; raises ArgumentError if it does not exist."""
    key = (context.handle, data)
    module = _modules.get(key)
    if module is None:
        module = _modules[key] = Module(cuda, data, descriptions(image, metadata, cuda.compute_capability))
    if entry not in module.kernels:
        # The caller describes one kernel at a time.
        module.kernels.update(descriptions(image, metadata, cuda.compute_capability))
    _describe(module.kernels, entry)
    return module


def _describe(kernels: Mapping[str, Mapping[str, Any]], entry: str) -> Mapping[str, Any]:
    """A kernel's launch description; ArgumentError if the image has no such kernel."""
    if entry not in kernels:
        raise ArgumentError(f"no kernel '{entry}' in the image; it has: {', '.join(kernels) or 'none'}")
    return kernels[entry]


class _NoDevice:
    """Placement for checking arguments on a machine that cannot launch."""

    stream = 0

    def place(self, memory: HostMemory) -> int:
        return 0

    def wait_for(self, stream: int) -> None:
        pass


def _check(
    kernels: Mapping[str, Mapping[str, Any]], entry: str, grid: int | Sequence[int], args: Sequence[Any], stream: Any
) -> None:
    """Raise ArgumentError for errors that a launch finds before it calls the driver."""
    kernel = _describe(kernels, entry)
    dimensions(grid)
    stream_handle(stream)
    pack(kernel, args, _NoDevice(), lambda tensor_map, address, dims, strides: b"")


class _Context:
    """The current context; by default, the primary one of device 0 for the duration of the block."""

    def __init__(self, cuda: Driver) -> None:
        self._cuda = cuda
        current = cuda.current_context()
        self._pushed = current is None
        self.handle = cuda.primary_context() if current is None else current

    def __enter__(self) -> _Context:
        if self._pushed:
            self._cuda.call("cuCtxPushCurrent_v2", self.handle)
        return self

    def __exit__(self, *error: BaseException | None) -> None:
        if self._pushed:
            from ctypes import c_void_p

            self._cuda.call("cuCtxPopCurrent_v2", c_void_p())


def image_bytes(image: Artifact | bytes | bytearray | memoryview | str) -> bytes:
    """The bytes of an Artifact, of text, or of bytes."""
    data = getattr(image, "data", image) if hasattr(image, "kernels") else image
    return data.encode() if isinstance(data, str) else bytes(data)


def descriptions(
    image: Artifact | bytes | bytearray | memoryview | str,
    metadata: Mapping[str, Any] | None = None,
    capability: Callable[[], int] | None = None,
) -> dict[str, Mapping[str, Any]]:
    """The launch descriptions of an image's kernels by name; of a fat binary those of the image for the device, whose
    `capability` is 90 for 9.0, and those of its first image without a device."""
    if hasattr(image, "kernels"):
        packed = next((k.artifacts[fat_binaries.DESCRIPTION] for k in image.kernels
                       if fat_binaries.DESCRIPTION in k.artifacts), None)  # fmt: skip
        if packed is None:
            return {kernel.name: kernel.metadata for kernel in image.kernels if kernel.metadata is not None}
        metadata = json.loads(packed)
    if metadata is None:
        data = image_bytes(image)
        for start, name, described in ((b"\x7fELF", "cubin", ""), (fat_binaries.MAGIC, "fat binary", ".fatbin")):
            if data.startswith(start):
                requirement = f"metadata=, the content of the NAME{described}.json beside it"
                raise ArgumentError(f"a {name} as bytes needs {requirement}")
        from tileiras.codegen import kernel_metadata, ptx

        metadata = kernel_metadata.describe(ptx.parse(data.decode()), {})
    if "images" in metadata:
        images = metadata["images"]
        metadata = images[0] if capability is None else fat_binaries.image_for(images, capability())
    return {kernel["name"]: kernel for kernel in metadata["kernels"]}

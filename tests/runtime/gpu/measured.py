"""How long a kernel takes at the size of real use, on arrays that are made on the device.

Arrays repeat `PERIOD` random numbers, so that the expected value of any element of a product is known.  A kernel is
launched `RUNS` times; before each, memory larger than the caches is written, and while that is under way (a third of a
millisecond at 3 TB/s) the launch is queued between two events.
"""

from __future__ import annotations

import math
import random
import struct

PERIOD = 65521
"""A prime: no row of an array is like the one above."""

RUNS = 5
FLUSHED = 256 << 20
SAMPLES = 24

_CODES = {"f16": "e", "f32": "f", "tf32": "f", "f64": "d", "i8": "b", "u8": "B", "i32": "i"}
_SIZES = {"bf16": 2, "f8E4M3FN": 1, "f8E5M2": 1, "f8E8M0FNU": 1}
_FLUSHES = 4


def size_of(element: str) -> int:
    element = element.partition("<")[0]
    return _SIZES.get(element) or struct.calcsize(_CODES[element])


def decode(data: bytes, element: str) -> float:
    """One number from its bytes."""
    if element == "bf16":
        return struct.unpack("<f", b"\0\0" + data)[0]
    if element == "f8E5M2":
        return struct.unpack("<e", b"\0" + data)[0]
    if element == "f8E4M3FN":
        exponent, fraction = data[0] >> 3 & 15, data[0] & 7
        magnitude = math.ldexp(fraction, -9) if exponent == 0 else math.ldexp(8 + fraction, exponent - 10)
        return -magnitude if data[0] & 128 else magnitude
    return struct.unpack("<" + _CODES[element], data)[0]


def pattern(element: str, seed: int) -> bytes:
    """`PERIOD` numbers between -1 and 1, of integers between -8 and 7, of `u8` all values; of `i32<N`, which
    are indices, integers from 0 and below N."""
    source = random.Random(seed)
    if element == "u8":
        return source.randbytes(PERIOD)
    if "<" in element:
        element, _, limit = element.partition("<")
        return struct.pack(f"<{PERIOD}{_CODES[element]}", *(source.randrange(int(limit)) for _ in range(PERIOD)))
    if element.startswith("f8"):
        one = {"f8E4M3FN": 0x38, "f8E5M2": 0x3C}[element]
        return bytes(source.randrange(one) | source.randrange(2) << 7 for _ in range(PERIOD))
    if element[0] == "i":
        return struct.pack(f"<{PERIOD}{_CODES[element]}", *(source.randrange(-8, 8) for _ in range(PERIOD)))
    values = [source.uniform(-1.0, 1.0) for _ in range(PERIOD)]
    if element == "bf16":
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    return struct.pack(f"<{PERIOD}{_CODES[element]}", *values)


def fill(cuda, address: int, size: int, repeated: bytes) -> None:
    """Fill memory with copies of a pattern, doubling the filled part with each copy."""
    import ctypes

    first = min(size, len(repeated))
    held = ctypes.create_string_buffer(repeated[:first], first)
    cuda.copy_to_device(address, ctypes.addressof(held), first)
    done = first
    while done < size:
        more = min(done, size - done)
        cuda.copy_on_device(address + done, address, more)
        done += more
    cuda.synchronize(0)


def contents(case: dict, data) -> list[bytes]:
    """The pattern of each buffer: its own contents, which ``data`` reads by name, or a pattern."""
    return [
        data(buffer["contents"]) if "contents" in buffer else pattern(buffer["element"], n)
        for n, buffer in enumerate(case["buffers"])
    ]


def measure(cuda, case: dict, launch, arguments_of, data, reference: bytes | None = None) -> dict:
    """Figures of a case: `microseconds` of the fastest run, bytes and operations a second, and whether samples of a
    product are right.

    ``launch(arguments)`` queues it; ``arguments_of`` makes arguments of a function of an offset for each buffer;
    ``data`` gives bytes of the package by name; ``reference`` is another compiler's cubin of the same kernel, whose
    time is taken beside.
    """
    patterns = contents(case, data)
    sizes = [buffer["count"] * size_of(buffer["element"]) for buffer in case["buffers"]]
    addresses: list[int] = []
    try:
        for size, repeated in zip(sizes, patterns):
            addresses.append(cuda.allocate(size))
            fill(cuda, addresses[-1], size, repeated)
        arguments = arguments_of(case, [lambda offset, a=address: a + offset for address in addresses])
        launch(arguments)
        cuda.synchronize(0)
        message = wrong_product(cuda, case, patterns, addresses)
        milliseconds = fastest(cuda, launch, arguments)
        compared = beside(cuda, case, reference, arguments) if reference is not None else {}
    finally:
        release(cuda, addresses)
    work = case["work"]
    figures = [f"{milliseconds * 1e3:10.1f} us"]
    outcome = {"microseconds": milliseconds * 1e3}
    for name, unit, scale in (("bytes", "GB/s", 1e6), ("operations", "TFLOP/s", 1e9)):
        if work.get(name):
            outcome[f"{name}_per_second"] = work[name] / milliseconds * 1e3
            figures.append(f"{work[name] / milliseconds / scale:9.1f} {unit}")
    outcome.update(compared)
    if "reference_microseconds" in compared:
        ratio = outcome["microseconds"] / compared["reference_microseconds"]
        figures.append(f"{ratio:6.2f} times the reference's {compared['reference_microseconds']:.1f} us")
    elif compared:
        figures.append(f"the reference: {compared['reference_failed']}")
    outcome["figures"] = "  ".join(figures)
    if message:
        outcome.update(status="failed", message=message)
    return outcome


def release(cuda, addresses: list[int]) -> None:
    """Give memory back; after a fault the driver refuses, and its first error is the one to report."""
    from tileiras.runtime import DriverError

    for address in addresses:
        try:
            cuda.free(address)
        except DriverError:
            return


def fastest(cuda, launch, arguments: list) -> float:
    """Milliseconds on the device."""
    scratch = cuda.allocate(FLUSHED)
    try:
        begin, end = cuda.event(), cuda.event()
        times = []
        for _ in range(RUNS):
            for _ in range(_FLUSHES):
                cuda.fill(scratch, 0, FLUSHED)
            cuda.record(begin)
            launch(arguments)
            cuda.record(end)
            times.append(cuda.milliseconds(begin, end))
    finally:
        release(cuda, [scratch])
    return max(min(times), 1e-6)


def beside(cuda, case: dict, image: bytes, arguments: list) -> dict:
    """`reference_microseconds`, or the reason for their absence.

    The cubin is launched as the front end does it: as a library, a block of one thread for a tile block, a pointer to
    each parameter.
    """
    import ctypes

    from tileiras.runtime.driver import DriverError, LaunchConfig

    words = [(value & (1 << 64) - 1).to_bytes(8, "little") for value in arguments]
    cells = [ctypes.create_string_buffer(word, 8) for word in words]
    pointers = (ctypes.c_void_p * len(cells))(*map(ctypes.addressof, cells))
    library, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    grid = (*case["grid"], 1, 1)[:3]
    config = LaunchConfig((ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(1, 1, 1), 0, None, None, 0)

    def launch(_) -> None:
        cuda.call("cuLaunchKernelEx", config, kernel, pointers, None)

    try:
        cuda.call("cuLibraryLoadData", library, image, None, None, 0, None, None, 0)
        cuda.call("cuLibraryGetKernel", kernel, library, case["entry"].encode())
        launch(arguments)
        cuda.synchronize(0)
        milliseconds = fastest(cuda, launch, arguments)
        cuda.call("cuLibraryUnload", library)
    except DriverError as error:
        # Our kernel is already measured; a fault costs only the process.
        return {"reference_failed": str(error), "fatal": True}
    return {"reference_microseconds": milliseconds * 1e3}


def wrong_product(cuda, case: dict, patterns: list[bytes], addresses: list[int]) -> str:
    """The error in C = A @ B, judged by samples; empty for a case that is no product."""
    import ctypes

    product = case["work"].get("product")
    if product is None:
        return ""
    m, n, k = product["m"], product["n"], product["k"]
    a, b, c = (buffer["element"] for buffer in case["buffers"])
    sizes = [size_of(element) for element in (a, b, c)]
    left, right = (
        [decode(data[i * size : (i + 1) * size], element) for i in range(PERIOD)]
        for data, size, element in zip(patterns, sizes, (a, b))
    )
    source = random.Random(1)
    held = ctypes.create_string_buffer(sizes[2])
    for _ in range(SAMPLES):
        row, column = source.randrange(m), source.randrange(n)
        terms = [left[(row * k + i) % PERIOD] * right[(i * n + column) % PERIOD] for i in range(k)]
        expected, magnitude = math.fsum(terms), math.fsum(map(abs, terms))
        cuda.copy_to_host(ctypes.addressof(held), addresses[2] + (row * n + column) * sizes[2], sizes[2])
        got = decode(held.raw[: sizes[2]], c)
        # Sums of many truncated products, or the last place of an f16 result.
        if not abs(got - expected) <= magnitude * 2.0**-10 + abs(expected) * 2.0**-9:
            return f"element ({row}, {column}) is {got}, expected {expected}"
    return ""

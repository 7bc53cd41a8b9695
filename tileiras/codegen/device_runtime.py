"""The device runtime: the library (`libcudadevrt.a`) that kernels call to launch kernels.

A module that calls it is assembled as one that is linked later (`ptxas --compile-only`), and nvlink links the library.
Names: the functions that the library of CUDA 13.5 defines (cuda_device_runtime_api.h; `cuobjdump -elf`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from tileiras import processes
from tileiras.codegen import toolkit
from tileiras.diagnostics import CompileError, Diagnostic, Locatable

LAUNCH = ("cudaLaunchDevice", "cudaLaunchDevice_ptsz", "cudaLaunchDeviceV2", "cudaLaunchDeviceV2_ptsz")
BUFFER = ("cudaGetParameterBuffer", "cudaGetParameterBufferV2")

FUNCTIONS = frozenset((
    *LAUNCH, *BUFFER,
    "cudaDeviceGetAttribute", "cudaDeviceGetCacheConfig", "cudaDeviceGetLimit", "cudaDeviceGetSharedMemConfig",
    "cudaDeviceSynchronize", "cudaEventCreateWithFlags", "cudaEventDestroy", "cudaEventRecord", "cudaEventRecord_ptsz",
    "cudaFree", "cudaFuncGetAttributes", "cudaGetDevice", "cudaGetDeviceCount", "cudaGetErrorName",
    "cudaGetErrorString", "cudaGetLastError", "cudaMalloc", "cudaMemcpy2DAsync", "cudaMemcpy2DAsync_ptsz",
    "cudaMemcpy3DAsync", "cudaMemcpy3DAsync_ptsz", "cudaMemcpyAsync", "cudaMemcpyAsync_ptsz", "cudaMemset2DAsync",
    "cudaMemset2DAsync_ptsz", "cudaMemset3DAsync", "cudaMemset3DAsync_ptsz", "cudaMemsetAsync", "cudaMemsetAsync_ptsz",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor", "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    "cudaPeekAtLastError", "cudaRuntimeGetVersion", "cudaStreamCreateWithFlags", "cudaStreamDestroy",
    "cudaStreamWaitEvent", "cudaStreamWaitEvent_ptsz",
))  # fmt: skip

LIBRARIES = ("lib/libcudadevrt.a", "lib64/libcudadevrt.a")
"""Its places below the root of a toolkit, in a wheel and elsewhere."""

LINKED_LATER = "--compile-only"
"""The option of ptxas for a module with functions that another one defines."""

_EXTERN = re.compile(r"^\.extern \.func\s+(?:\([^)]*\)\s*)?([\w$]+)", re.MULTILINE)


def is_called(ptx: str) -> bool:
    """Whether a module declares a function of the library."""
    return not FUNCTIONS.isdisjoint(_EXTERN.findall(ptx))


def find_library() -> str | None:
    """The path of the library, or None."""
    return next(filter(None, map(toolkit.find_library, LIBRARIES)), None)


def identity() -> str:
    """The library, as a part of the cubin stage's key: it tells no version, so that its size stands for it."""
    path = find_library()
    return "" if path is None else f" devrt-{os.path.getsize(path)}"


def link(
    cubin: bytes, chip: str, libraries: Sequence[str] = (), *, runtime: bool = True, debug: bool = False,
    timeout: float | None = None, location: Locatable | None = None, meanwhile: Callable[[], None] | None = None,
) -> bytes:  # fmt: skip
    """A cubin assembled with `LINKED_LATER` linked with `libraries`, and the device runtime on request, for a chip
    (`sm_90a`).

    Raises CompileError with nvlink's words, or with the package to install if a part is missing (nvidia-cuda-nvcc
    requires the one with the library).
    """
    program = toolkit.find_program("nvlink")
    parts: list[tuple[str | None, str]] = [(program, "nvlink")]
    if runtime:
        parts.append((find_library(), "libcudadevrt.a"))
    for result, name in parts:
        if result is None:
            note = Diagnostic.note(None, toolkit.to_install("nvidia-cuda-nvcc", name, program=name == "nvlink"))
            purpose = "the device runtime to a kernel that launches kernels" if runtime else "libraries to a kernel"
            raise CompileError.at(location, f"could not find {name}, which links {purpose}", notes=[note])
    assert program is not None
    inputs = [*libraries, *(path for path, _ in parts[1:] if path is not None)]
    with processes.programs.working_folder() as folder:
        with open(os.path.join(folder, "kernel.o"), "wb") as file:
            file.write(cubin)
        head = ["-arch", chip, *(["--debug"] if debug else []), "kernel.o"]
        arguments = [*head, *inputs, "-o", "kernel.cubin"]
        command = [*head, *map(os.path.basename, inputs), "-o", "kernel.cubin"]
        processes.programs.run(
            "nvlink", program, arguments, folder, timeout=timeout, location=location, display=command,
            meanwhile=meanwhile,
        )  # fmt: skip
        with open(os.path.join(folder, "kernel.cubin"), "rb") as file:
            return file.read()

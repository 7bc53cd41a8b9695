"""The programs, libraries and packages that the commands use: a table of finders, for `--version` and `doctor`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import tileiras
from tileiras.bytecode.versions import CURRENT, OLDEST
from tileiras.diagnostics import CompileError
from tileiras.support.named_tuple import NamedTuple


class Found(NamedTuple):
    """A part that is installed: its release (empty where it does not tell one), and its place."""

    version: str
    place: str


class Part(NamedTuple):
    """A row: how the part is found, how it is installed, and the cost of its absence."""

    name: str
    kind: str
    """`package` of Python, `tool` of the toolkit, or `system`."""
    find: Callable[[], Found | None]
    """Returns None where it is missing; raises CompileError where it cannot be used."""
    package: str
    """The package that brings it; empty for parts of the system."""
    cost: str
    """The abilities that it brings."""
    is_required: bool = False
    """Whether a cubin cannot be made without it."""


def _package(name: str, module: str) -> Found | None:
    """A package of this environment, by its module; nothing of it is executed."""
    import importlib.metadata
    import importlib.util

    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    if spec is None:
        return None
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        version = ""
    place = spec.origin or next(iter(spec.submodule_search_locations or ()), "")
    return Found(version, os.path.dirname(place) if spec.origin else place)


def _program(name: str) -> Found | None:
    path = tileiras.codegen.toolkit.find_program(name)
    return Found(tileiras.codegen.ptxas.version(path), path) if path is not None else None


def _libdevice() -> Found | None:
    path = tileiras.codegen.toolkit.find_library(tileiras.codegen.llvm_identity.LIBDEVICE)
    return Found("", path) if path is not None else None


def _nvjitlink() -> Found | None:
    for place in tileiras.codegen.nvjitlink.LIBRARIES:
        path = tileiras.codegen.toolkit.find_library(place)
        if path is not None:
            return Found(tileiras.codegen.nvjitlink.version(path).split("-")[1], path)
    return None


def _driver() -> Found | None:
    from tileiras.runtime.driver import DriverError, load_driver

    try:
        cuda = load_driver()
    except DriverError:
        return None
    major, minor = cuda.version()
    count = cuda.device_count
    gpus = ", ".join(f"sm_{cuda.compute_capability(number)}" for number in range(count))
    return Found(f"CUDA {major}.{minor}", gpus or "no device")


def _row(name: str, module: str, cost: str, required: bool = False) -> Part:
    return Part(name, "package", functools.partial(_package, name, module), name, cost, required)


PARTS = (
    _row("llvmlite", "llvmlite", "no PTX", required=True),
    _row("numpy", "numpy", "no interpreter, no emulator, no estimate"),
    _row("ml_dtypes", "ml_dtypes", "no arrays of bf16 and 8-bit floats"),
    _row("scons", "SCons", "no builds"),
    _row("diskcache", "diskcache", "no artifact store"),
    _row("xxhash", "xxhash", "no keys of artifacts: no builds, no artifact store", required=True),
    _row("watchdog", "watchdog", "no watch"),
    Part("ptxas", "tool", lambda: _program("ptxas"), "nvidia-cuda-nvcc",
         "no cubins (--emit cubin, the default) and no machine code; PTX is made", is_required=True),
    Part("libdevice", "tool", _libdevice, "nvidia-nvvm",
         "kernels with functions of libdevice (exp, sin, pow in f32 and f64) do not compile", is_required=True),
    Part("nvdisasm", "tool", lambda: _program("nvdisasm"), "nvidia-cuda-nvdisasm",
         "no --emit sass, no machine code in reports"),
    Part("nvJitLink", "tool", _nvjitlink, "nvidia-nvjitlink", "no --assembler=nvjitlink; ptxas is the default"),
    _row("cuda-tile", "cuda.tile", "sources in cuTile Python do not compile, and trees leave them out"),
    _row("jinja2", "jinja2", "no reports in HTML; --format markdown and json need nothing"),
    _row("pygments", "pygments", "no reports in HTML; --format markdown and json need nothing"),
    _row("distributed", "distributed", "no builds on a Dask cluster"),
    _row("cryptography", "cryptography", "no signed rows on a team's server"),
    _row("pygls", "pygls", "no language server for editors"),
    Part("driver", "system", _driver, "",
         "no launch on this machine's GPU: kernels run in the interpreter and the emulator"),
)  # fmt: skip
"""In the order in which `doctor` lists them."""

TOOLKIT_RELEASE = "Cuda compilation tools, release 13.5, V13.5.37"
"""The release whose command line `tileiras` and `tileirdisasm` have, in the words of its own `--version`.  cuTile.jl
and XLA search the output for `V<major>.<minor>.<patch>` and compare it with the release that they need."""

_REPLACEMENTS = ("tileiras", "tileirdisasm")
"""The commands that take the place of NVIDIA's programs of the same name."""

_TOLD = ("ptxas", "libdevice", "nvdisasm")
"""Parts that `--version` names: those whose release changes artifacts."""


def part(name: str) -> Part:
    """The row of a name."""
    return next(row for row in PARTS if row.name == name)


def versions() -> str:
    """`13.1 to 13.5`: the versions of bytecode that are read."""
    return f"{OLDEST} to {CURRENT}"


def toolkit_lines() -> str:
    """A line for each of the toolkit's parts that were found, or not, without paths: equal tools give equal lines."""
    lines = []
    for name in _TOLD:
        try:
            result = part(name).find()
            text = "not found" if result is None else result.version or "found"
        except CompileError:
            text = "not usable"
        lines.append(f"{name} {text}\n")
    return "".join(lines)


def version_text(program: str) -> str:
    """The text of `--version` of every command."""
    replaced = f"Command line of {TOOLKIT_RELEASE}\n" if program in _REPLACEMENTS else ""
    return f"{program} {tileiras.__version__}\n{replaced}Tile IR bytecode {versions()}\n{toolkit_lines()}"

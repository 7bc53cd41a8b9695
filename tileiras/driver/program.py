"""The program handle: the vendor's four entry points, the basis of the C interface.

    program = tileiras.Program.create(bytecode, gpu_name="sm_90")
    program.compile()
    cubin = program.get_output()
    program.release()

Every call succeeds or raises CompileError with the code that its C function returns (`ExitCode`): 1 out of memory, 2
invalid configuration, 3 input that is not Tile IR, 4 handle in the wrong state, 5 kernel that does not compile.  Checks
are in the vendor's order; the configuration of a created program is complete and valid.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Severity, render, unique
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from ..options import CompileOptions
    from ..stages.units import Source

HOST_ARCHITECTURES = ("x86_64", "aarch64", "arm64ec")
HOST_SYSTEMS = ("linux", "windows")
SANITIZERS = (None, "memcheck")


class Configuration(NamedTuple):
    """The arguments of a program: the fields of the C interface's structure, in its order.

    `input` is bytecode, or MLIR text.  `gpu` is the number of `sm_<gpu>`.  `host_arch`, `host_os` and `sanitize` are
    indices into `HOST_ARCHITECTURES`, `HOST_SYSTEMS` and `SANITIZERS`; host fields of 0 stand for this machine.
    `cuda_root` is the toolkit with ptxas and libdevice; without it they are searched for.  `output_file` is not used
    here: the caller writes the output.
    """

    input: bytes | str | None
    gpu: int = 0
    opt_level: int = 3
    device_debug: bool = False
    lineinfo: bool = False
    host_arch: int = 0
    host_os: int = 0
    sanitize: int = 0
    output_file: str = "elf.o"
    cuda_root: str | None = None


class Program:
    """One input for one GPU: created, compiled, asked for its cubin, released."""

    __slots__ = ("configuration", "_source", "_options", "_output", "diagnostics")

    def __init__(self, configuration: Configuration, source: Source, options: CompileOptions) -> None:
        """Use `create`."""
        self.configuration = configuration
        self._source = source
        self._options = options
        self._output: bytes | None = None
        self.diagnostics: list[Diagnostic] = []
        """Warnings and remarks of the last compilation."""

    @classmethod
    def create(
        cls,
        configuration: Configuration | bytes | str | None,
        *,
        gpu_name: str = "",
        options: dict[str, Any] | None = None,
        **fields: Any,
    ) -> "Program":
        """Create a program from a configuration, or from an input and further fields; `gpu_name` may replace `gpu`.

        `options` are further options of the compilation, by name; cubins are for the driver's tile launch unless
        `tile-launch` is false.  Raises CompileError with code 2 or 3.
        """
        if configuration is None and not gpu_name and not fields:
            raise _refused("configuration is null")
        if isinstance(configuration, Configuration):
            configuration = configuration._replace(**fields)
        else:
            configuration = Configuration(configuration, **fields)
        if configuration.input is None:
            raise _refused("input buffer is null")
        result = configuration.input
        data = tileiras.ir.encoding.encoded(result, "<input>") if isinstance(result, str) else bytes(result)
        source = tileiras.stages.units.Source(data, "<input>", None, tileiras.stages.units.kind_of(data))
        version = tileiras.stages.units.bytecode_version(data) if source.kind == tileiras.stages.units.BYTECODE else ""
        name = gpu_name or f"sm_{configuration.gpu}"
        if name not in tileiras.options.GPU_NAMES:
            raise _refused(tileiras.options.unsupported_gpu(name if isinstance(name, str) else repr(name), version))
        configuration = configuration._replace(gpu=int(name.removeprefix("sm_")))
        checked = tileiras.options.CompileOptions({
            "tile-launch": True,
            **(options or {}),
            "gpu-name": name,
            "opt-level": configuration.opt_level,
            "device-debug": bool(configuration.device_debug),
            "lineinfo": bool(configuration.lineinfo),
        })  # fmt: skip
        if configuration.host_arch not in range(len(HOST_ARCHITECTURES)):
            raise _refused("unsupported host architecture")
        if configuration.host_os not in range(len(HOST_SYSTEMS)):
            raise _refused("unsupported host operating system")
        if configuration.sanitize not in range(len(SANITIZERS)):
            raise _refused("unsupported sanitizer")
        tools = _toolkit(configuration.cuda_root)
        checked = checked.replace(sanitize=SANITIZERS[configuration.sanitize], **_host(configuration), **tools)
        return cls(configuration, source, checked)

    def compile(self) -> None:
        """Compile to a cubin.

        Raises CompileError with code 3 or 5 (4 after release); there is no output then.
        """
        self._check()
        self._output = None
        self.diagnostics = []
        try:
            artifact = tileiras.driver.compilation.compile_with(self._source, self._options, "cubin")
        except CompileError as error:
            if error.code == ExitCode.COMPILE_FAILURE:
                closing = CompileError.at(None, "failed to compile Tile IR program").diagnostics[0]
                raise CompileError([*error.diagnostics, closing], error.code) from None
            raise
        self._output = artifact.data
        self.diagnostics = artifact.diagnostics

    def get_output(self) -> bytes:
        """The cubin.  Raises CompileError with code 4 before a successful compilation."""
        self._check()
        if self._output is None:
            raise CompileError.at(None, "program has not been compiled", ExitCode.HANDLE)
        return self._output

    def release(self) -> None:
        """Release input and output; every later call raises CompileError with code 4."""
        self._check()
        self._source = self._options = self._output = None

    def _check(self) -> None:
        if self._source is None:
            raise CompileError.at(None, "program is null", ExitCode.HANDLE)


def _refused(message: str) -> CompileError:
    return CompileError.at(None, message, ExitCode.CONFIGURATION)


def _host(configuration: Configuration) -> dict[str, Any]:
    """The platform of the host code as options, unless it is this machine's; ARM64EC is compiled as AArch64."""
    values = {}
    if configuration.host_arch:
        values["host_arch"] = "aarch64"
    if configuration.host_os:
        values["host_os"] = HOST_SYSTEMS[configuration.host_os]
    return values


def _toolkit(root: str | None) -> dict[str, Any]:
    """Paths of a toolkit's tools as options; tools missing there are searched for as without a toolkit."""
    if root is None:
        return {}
    if not isinstance(root, (str, os.PathLike)) or not os.path.isdir(root):
        raise _refused(f"cuda_root is no folder: {root!r}")
    program = "ptxas.exe" if os.name == "nt" else "ptxas"
    result = {
        "ptxas": os.path.join(root, "bin", program),
        "libdevice": os.path.join(root, "nvvm", "libdevice", "libdevice.10.bc"),
    }
    return {name: path for name, path in result.items() if os.path.isfile(path)}


# ---- functions for the C library -------------------------------------------------------------------------------------
#
# Each function returns (code, result, messages, bodies); it raises no exception and does not end the process.  The
# bodies are those of the diagnostics, for a handler: address and text of each, with the memory that it points to.

Answer = tuple[int, Any, str, list[tuple[int, str, Any]]]


def c_create(*fields: Any) -> Answer:
    """`fields` are those of `Configuration`."""
    return _guard(lambda: Program.create(Configuration(*fields)))


def c_compile(program: Program) -> Answer:
    code, result, messages, bodies = _guard(program.compile)
    if code == ExitCode.SUCCESS:
        return _answer(code, result, [d for d in program.diagnostics if d.severity is not Severity.REMARK])
    return code, result, messages, bodies


def c_output(program: Program) -> Answer:
    return _guard(program.get_output)


def c_release(program: Program) -> Answer:
    return _guard(program.release)


def _guard(call: Callable[[], Any]) -> Answer:
    try:
        return _answer(ExitCode.SUCCESS, call(), [])
    except CompileError as error:
        return _answer(error.code, None, error.diagnostics)
    except MemoryError:
        return int(ExitCode.USAGE), None, "error: failed to allocate memory for program", []
    # Any exception: the caller is a C program, which cannot catch it.
    except Exception as error:
        message = f"internal error: {type(error).__name__}: {error}"
        return _answer(ExitCode.COMPILE_FAILURE, None, CompileError.at(None, message).diagnostics)


def _answer(code: int, result: Any, diagnostics: list[Diagnostic]) -> Answer:
    bodies = []
    for diagnostic in unique(diagnostics):
        value, keepalive = tileiras.diagnostics.body.body_of(diagnostic)
        bodies.append((tileiras.diagnostics.body.ctypes.addressof(value), diagnostic.render(), (value, keepalive)))
    return int(code), result, render(diagnostics), bodies

"""The assembler as a library: PTX text to a cubin through nvJitLink (package `nvidia-nvjitlink`), without a child
process.

nvJitLink assembles PTX for a link and then links it, as `ptxas --compile-only` and nvlink would: shared memory and
division are reached through the link, and allocation of registers differs from that of a whole program.  Over the
examples its kernels take up to 1.8 times the registers of ptxas', and only kernels spill that spill with ptxas too.  It
runs in LLVM's helper process (`processes.helper`), so that its crash does not end the compilation.

`check` rejects options that only ptxas supports: no option changes the tool silently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tileiras.codegen import ptxas, toolkit
from tileiras.codegen.object_file import with_section
from tileiras.codegen.ptxas import Assembled
from tileiras.diagnostics import CompileError, Diagnostic, DiagnosticEngine, ExitCode, Locatable
from tileiras.processes import helper
from tileiras.processes.helper_pipes import TimedOut

LIBRARIES = ("lib/libnvJitLink.so.13", "lib64/libnvJitLink.so.13", "lib/libnvJitLink.so.12", "lib64/libnvJitLink.so.12")
"""Its places below the root of a toolkit, in a wheel and elsewhere."""

HOST_SECTION = (".nv.host", 0x70000087, 8)
"""The section that ptxas creates for `--nv-host`, an option that nvJitLink lacks: name, type and alignment, read off
cubins of ptxas."""

_ONLY_PTXAS = (
    ("device_debug", "--device-debug"), ("sanitize", "--sanitize"), ("apply_controls", "--apply-controls"),
    ("ptxas", "--ptxas"),
)  # fmt: skip
"""Options of the cubin stage that only ptxas supports."""


def find(location: Locatable | None = None) -> str:
    """The path of the library; raises CompileError (code 2), with the package to install, if it is missing."""
    for place in LIBRARIES:
        path = toolkit.find_library(place)
        if path is not None:
            return path
    raise CompileError.at(
        location,
        "could not find libnvJitLink",
        ExitCode.CONFIGURATION,
        notes=[
            Diagnostic.note(None, toolkit.to_install("nvidia-nvjitlink", "libnvJitLink")),
            Diagnostic.note(None, "--assembler=ptxas is the program"),
        ],
    )


def check(options: object, location: Locatable | None = None) -> None:
    """Raise CompileError (code 2) for an option of the cubin stage that nvJitLink cannot follow."""
    for attribute, name in _ONLY_PTXAS:
        if getattr(options, attribute):
            message = f"--assembler=nvjitlink takes no {name}: --assembler=ptxas does"
            raise CompileError.at(location, message, ExitCode.CONFIGURATION)


def version(path: str) -> str:
    """The release of the library, `13.5`, and the size of its file: part of the cubin stage's key.

    The library tells no more of itself, so that a file of another size is another one.
    """
    import os

    match = re.search(r"\.so\.(\d+)$", path)
    return f"{match.group(1) if match else 'unknown'}-{toolkit.remembered(path, _ask_version)}-{os.path.getsize(path)}"


def _ask_version(path: str) -> str:
    try:
        result, _ = helper.call("nvjitlink_version", library=path)
    except (RuntimeError, helper.HelperDied):
        return "unknown"  # the error is reported when it has to assemble
    return ".".join(map(str, result))


def assemble(
    ptx: str,
    chip: str,
    *,
    opt_level: int = 3,
    line_info: bool = False,
    extended_shared: bool = False,
    options: Sequence[str] = (),
    host: bytes | None = None,
    timeout: float | None = None,
    engine: DiagnosticEngine | None = None,
    location: Locatable | None = None,
    meanwhile: Callable[[], None] | None = None,
    libraries: Sequence[str] = (),
) -> Assembled:
    """Assemble PTX for one chip, in the form of it (`sm_90a`) that the module asks for, and link it with the cubins and
    archives `libraries`.

    `extended_shared` allows more than 48 KB of static shared memory, which is the link's word and not the assembler's;
    `options` are further ptxas arguments, `host` is the host's object file, `timeout` in seconds; warnings go to
    `engine`; `meanwhile` is called while the library works.  Raises CompileError with the assembler's own words.
    """
    words = [f"-arch={ptxas.form_of(ptx, chip)}", "-verbose"]
    # The library has levels 0 and 3, its assembler all of ptxas'.
    words += ["-O0"] if opt_level == 0 else [] if opt_level == 3 else [f"-Xptxas=--opt-level={opt_level}"]
    words += ["-lineinfo"] if line_info else []
    words += ["--enable-extended-smem=true"] if extended_shared else []
    words += [f"-Xptxas={option}" for option in options]
    try:
        (cubin, result, errors), _ = helper.call(
            "nvjitlink", meanwhile=meanwhile, timeout=timeout, library=find(location), ptx=ptx,
            name=ptxas.INPUT_NAME, options=tuple(words), libraries=tuple(libraries),
        )  # fmt: skip
    except TimedOut:
        raise CompileError.at(location, f"Child timed out: nvjitlink after {timeout:g} s") from None
    except (RuntimeError, helper.HelperDied) as error:
        raise CompileError.at(location, f"nvjitlink failed: {error}") from None
    if not cubin:
        raise CompileError.at(location, f"nvjitlink failed\n{_messages(errors) or _messages(result)}")
    messages = _messages(result)
    if messages and engine is not None:
        engine.warning(location, messages)
    if host is not None:
        name, kind, alignment = HOST_SECTION
        cubin = with_section(cubin, name, kind, host, alignment)
    return Assembled(cubin, ptxas.parse_resources(result), messages)


# Lines of the link, which follow the assembler's, and the line that reports the failure of the assembler.
_OF_THE_LINK = r"info    : |ERROR |ptxas +\. +\d+ bytes stack frame|\s*$"


def _messages(text: str) -> str:
    """The assembler's warnings and errors, in the wording of ptxas for a file."""
    lines = ptxas.messages(text).split("\n")
    result = [line for line in lines if re.match(_OF_THE_LINK, line) is None]
    return "\n".join(result).replace("ptxas application ptx input, ", f"ptxas {ptxas.INPUT_NAME}, ")

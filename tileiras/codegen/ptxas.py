"""The assembler: PTX text to a cubin, with the resources it reports.

ptxas gets a file, not the text as an argument: the system limits one argument to 128 KB.  Its words are passed on as
they are.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tileiras import codegen, processes
from tileiras.codegen import toolkit
from tileiras.diagnostics import CompileError, Diagnostic, DiagnosticEngine, ExitCode, Locatable
from tileiras.support.files import file_identity
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tileiras.processes import programs
    from tileiras.stages import StageOptions

INPUT_NAME = "kernel.ptx"
"""The file name ptxas sees; its messages quote it, so it must not depend on the machine."""


CONTROLS_NAME = "controls.acf"
"""Its copy of the file of controls, for the same reason, and since ptxas ends on a folder as if memory were short."""

HOST_NAME = "host.o"

IN_AND_OUT = (INPUT_NAME, "-o", "kernel.cubin")


class Resources(NamedTuple):
    """The report of `ptxas -v` for one entry; bytes unless stated otherwise."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    barriers: int
    shared: int
    constant: int


class Assembled(NamedTuple):
    """A cubin, the resources of each entry in ptxas's order, and ptxas's other words."""

    cubin: bytes
    resources: dict[str, Resources]
    messages: str


def find(override: str | None = None, location: Locatable | None = None) -> str:
    """The path of ptxas; raises CompileError, with the package to install, if it is missing."""
    path = toolkit.find_program("ptxas", override)
    if path is not None:
        return path
    if override:
        raise CompileError.at(location, f"ptxas is not an executable file: {override}", ExitCode.CONFIGURATION)
    raise CompileError.at(
        location,
        "could not find ptxas",
        notes=[
            Diagnostic.note(None, toolkit.to_install("nvidia-cuda-nvcc", "ptxas", program=True)),
            Diagnostic.note(None, "PTX needs no ptxas: --emit ptx"),
        ],
    )


_versions: dict[str | None, str] = {}


def version(path: str, seconds: float | None = None) -> str:
    """The release that a ptxas reports, `13.5.37`: part of the cubin stage's key.

    `seconds` limits the run time of the program, if it has to be run.
    """
    state = toolkit.state_of(path)
    release = _versions.get(state)
    if release is None:
        limit = min(VERSION_SECONDS, seconds or VERSION_SECONDS)
        try:
            release = toolkit.remembered(path, lambda path: _ask_version(path, limit))
        except TimeoutError:
            # It is not asked again by this process, and by others, which may have more time.
            release = UNKNOWN
            toolkit.silent[state] = limit
        if state is not None and toolkit.state_of(path) == state:
            _versions[state] = release
    return release


VERSION_SECONDS = 10
"""Time limit for `ptxas --version`."""


UNKNOWN = "unknown"


def _ask_version(path: str, seconds: float) -> str:
    """Raise TimeoutError."""
    import subprocess

    try:
        process = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=seconds)
        text = process.stdout
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    except OSError:
        text = ""  # the error is reported when the program has to assemble
    match = re.search(r"\bV([\d.]+)", text)
    return match.group(1) if match is not None else UNKNOWN


def tool_identity(options: StageOptions) -> str:
    """Identity of the ptxas that the cubin stage runs with these options: part of its key.

    A missing ptxas has an identity too; the stage itself reports the error.  The identity includes the content of a
    file of controls and, for tile launches, the platform of the host.
    """
    more = ""
    if options.apply_controls is not None:
        more = f" controls-{file_identity(options.apply_controls)}"
    more += host_identity(options) + codegen.device_runtime.identity()
    try:
        return f"ptxas-{version(find(options.ptxas), options.child_timeout or None)}{more}"
    except CompileError:
        return f"ptxas-missing{more}"


def host_identity(options: StageOptions) -> str:
    """The platform of the host, for tile launches, as a part of an identity."""
    if not options.tile_launch:
        return ""
    return f" host-{'-'.join(codegen.host_code.platform_of(options.host_arch, options.host_os) or ('unknown',))}"


def read_controls(path: str, location: Locatable | None = None) -> bytes:
    """A file of controls; raises CompileError (code 2) when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        message = f"unable to read controls file '{path}': {error.strerror}"
        raise CompileError.at(location, message, ExitCode.CONFIGURATION) from None


def form_of(ptx: str, chip: str) -> str:
    """The form of a chip, `sm_90a`, that a module asks for; the chip where it asks for none."""
    match = re.search(rf"^\.target\s+({re.escape(chip)}[af])\b", ptx, re.MULTILINE)
    return match.group(1) if match else chip


def prepare() -> None:
    """Load the modules and patterns for running ptxas: this takes half as long as ptxas does for a small kernel."""
    import shutil  # noqa: F401

    for pattern in (_REPORT, _ENTRY, _FRAME, _USED, _BARRIERS, _SHARED, _CONSTANT):
        re.compile(pattern)


def start() -> programs.WaitingProgram | None:
    """Start ptxas ahead of its work, to load while PTX is generated; None if it needs its arguments at the start.

    Only the ptxas of a wheel is started ahead: any other may be a wrapper, which expects arguments.
    """
    import os

    path = toolkit.find_program("ptxas")
    roots = [os.path.join(root, "") for root in toolkit.wheel_roots()]
    if path is None or not path.startswith(tuple(roots)) or not os.path.exists(processes.programs.STANDARD_INPUT):
        return None
    try:
        return processes.programs.WaitingProgram(path, "--options-file")
    except OSError:
        return None  # `assemble` reports why it cannot be started


def assemble(
    ptx: str,
    chip: str,
    *,
    opt_level: int = 3,
    options: Sequence[str] = (),
    controls: str | None = None,
    host: bytes | None = None,
    ptx_path: str | None = None,
    ptxas: str | None = None,
    waiting: programs.WaitingProgram | None = None,
    timeout: float | None = None,
    engine: DiagnosticEngine | None = None,
    location: Locatable | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> Assembled:
    """Assemble PTX for one chip, in the form of it (`sm_90a`) that the module asks for.

    `options` are further ptxas arguments, `controls` names a file for its `--apply-controls`, `host` is the host's
    object file, `ptx_path` has the PTX for reproducing a failure, `ptxas` is the program to run instead of
    the one found, `timeout` its time limit in seconds, and `waiting` the program that `start` has started.  Warnings of
    ptxas go to `engine`; `meanwhile` is called while it runs.
    Raises CompileError with ptxas's own text and a command to reproduce when it fails.
    """
    import contextlib
    import os

    path = find(ptxas, location)
    arguments = ["-arch", form_of(ptx, chip), "--opt-level", str(opt_level), "-v", *options]
    files = {INPUT_NAME: ptx.encode()}
    command_text = [*arguments]
    if controls is not None:
        files[CONTROLS_NAME] = read_controls(controls, location)
        arguments += ["--apply-controls", CONTROLS_NAME]
        command_text += ["--apply-controls", controls]
    if host is not None:
        # An option that ptxas's help omits. It is left out of `shown`: errors of ptxas do not depend on this file.
        files[HOST_NAME] = host
        arguments += ["--nv-host", HOST_NAME]
    if waiting is not None and waiting.path != path:
        waiting = None
    place = contextlib.nullcontext(waiting.folder) if waiting is not None else processes.programs.working_folder()
    # The time that the query of its release took without an answer counts.
    spent = toolkit.silent.get(toolkit.state_of(path), 0.0) if timeout is not None else 0.0
    with place as folder:
        for name, data in files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
        output = processes.programs.run(
            "ptxas", path, [*arguments, *IN_AND_OUT], folder,
            waiting=waiting, timeout=timeout, spent=spent, location=location, complaint=messages, meanwhile=meanwhile,
            display=[*command_text, ptx_path or INPUT_NAME, *IN_AND_OUT[1:]],
            keep="" if ptx_path else " with the PTX (--emit ptx, --save-temps)",
        )  # fmt: skip
        try:
            with open(os.path.join(folder, "kernel.cubin"), "rb") as file:
                cubin = file.read()
        except FileNotFoundError:
            cubin = b""
        # On a disk that is full, ptxas may end as if all were well.
        if not _is_whole(cubin):
            full = processes.programs.disk_full(folder)
            if full is not None:
                raise CompileError.at(None, full, ExitCode.USAGE)
    if not cubin.startswith(b"\x7fELF"):
        raise CompileError.at(location, "ptxas did not write a cubin")
    result = messages(output)
    if result and engine is not None:
        engine.warning(location, result)
    return Assembled(cubin, parse_resources(output), result)


_ELF_TABLES = "<32xQQ6xHHHH"
"""Of the header of an ELF file of 64 bits: where the tables of segments and of sections start, and of each table an
entry's size and how many there are (System V gABI, chapter 4)."""


def _is_whole(cubin: bytes) -> bool:
    """Whether a file has all that its tables say."""
    if len(cubin) < struct.calcsize(_ELF_TABLES):
        return False
    segments, start, segment_size, segment_count, size, count = struct.unpack_from(_ELF_TABLES, cubin)
    if max(start + size * count, segments + segment_size * segment_count) > len(cubin) or size < 64:
        return False
    for number in range(count):
        kind, offset, length = struct.unpack_from("<4xI16xQQ", cubin, start + size * number)
        if kind != _NO_BITS and offset + length > len(cubin):
            return False
    return True


_NO_BITS = 8  # SHT_NOBITS: a section that is no part of the file


# Lines of `-v`, as against warnings and errors.  `prepare` has these patterns compiled.
_REPORT = r"ptxas info +: (?!\(C\d+\))|^ +\d+ bytes stack frame|^\s*$"


def messages(output: str) -> str:
    """The output of ptxas without the lines of `-v`: warnings and errors."""
    return "\n".join(line for line in output.split("\n") if not _is_report(line))


def _is_report(line: str) -> bool:
    return re.match(_REPORT, line) is not None


_ENTRY = r"Compiling entry function '([^']+)' for"
_FRAME = r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
_USED = r"Used (\d+) registers"
_BARRIERS = r"used (\d+) barriers"
_SHARED = r"(\d+) bytes smem"
_CONSTANT = r"(\d+) bytes cmem\[\d+\]"


def parse_resources(output: str) -> dict[str, Resources]:
    """The resources of every entry in the output of `ptxas -v`."""
    resources: dict[str, Resources] = {}
    entry: str | None = None
    frame = (0, 0, 0)
    for line in output.split("\n"):
        match = re.search(_ENTRY, line)
        if match is not None:
            entry, frame = match.group(1), (0, 0, 0)
            continue
        match = re.search(_FRAME, line)
        if match is not None:
            frame = (int(match.group(1)), int(match.group(2)), int(match.group(3)))
            continue
        match = re.search(_USED, line)
        if match is None or entry is None:
            continue
        resources[entry] = Resources(
            registers=int(match.group(1)),
            stack=frame[0],
            spill_stores=frame[1],
            spill_loads=frame[2],
            barriers=_number(_BARRIERS, line),
            shared=_number(_SHARED, line),
            constant=sum(int(n) for n in re.findall(_CONSTANT, line)),
        )
        entry = None
    return resources


def _number(pattern: str, line: str) -> int:
    match = re.search(pattern, line)
    return int(match.group(1)) if match is not None else 0

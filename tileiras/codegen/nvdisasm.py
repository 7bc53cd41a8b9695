"""The disassembler: a cubin to the machine code it holds, as text."""

from __future__ import annotations

import os
import shlex

from tileiras import codegen
from tileiras.codegen import toolkit
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Locatable
from tileiras.processes import programs

PROGRAM = "nvdisasm"
INPUT_NAME = "kernel.cubin"
DEFAULT_COMMAND = "nvdisasm -c"


def words_of(command: str, location: Locatable | None = None) -> list[str]:
    """A dump command as words; raises CompileError for one that names no program."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        raise CompileError.at(location, "Please provide a valid dumpSassCommand. For example, `nvdisasm -c`.")
    return words


def find(name: str = PROGRAM, location: Locatable | None = None) -> str:
    """The path of the program: with a folder in its name as it is, else where toolkit programs are looked for."""
    if os.path.dirname(name):
        if os.access(name, os.X_OK) and not os.path.isdir(name):
            return os.path.abspath(name)
        raise CompileError.at(location, f"nvdisasm is not an executable file: {name}", ExitCode.CONFIGURATION)
    path = toolkit.find_program(name)
    if path is None:
        note = Diagnostic.note(None, toolkit.to_install("nvidia-cuda-nvdisasm", name, program=True))
        raise CompileError.at(location, f"could not find {name}", notes=[note])
    return path


def tool_identity(options: object) -> str:
    """Which program disassembles, given the options of the sass stage: part of its key."""
    try:
        name = words_of(options["dump-sass-command"])[0]  # type: ignore[index]
        seconds = options["child-timeout"] or None  # type: ignore[index]
        return f"{os.path.basename(name)}-{codegen.ptxas.version(find(name), seconds)}"
    except CompileError:
        return "nvdisasm-missing"


def disassemble(
    cubin: bytes,
    command: str = DEFAULT_COMMAND,
    *,
    timeout: float | None = None,
    location: Locatable | None = None,
) -> str:
    """The output of the command, whose last argument is a file with the cubin.  Raises CompileError."""
    words = words_of(command, location)
    path = find(words[0], location)
    with programs.working_folder() as folder:
        with open(os.path.join(folder, INPUT_NAME), "wb") as file:
            file.write(cubin)
        return programs.run(
            os.path.basename(words[0]), path, [*words[1:], INPUT_NAME], folder,
            timeout=timeout, location=location, keep=" with the cubin (--emit cubin)",
        ) + "\n"  # fmt: skip

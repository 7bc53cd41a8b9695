"""Shared libraries of objects for a CPU, through the system's C compiler, which knows the linker and the C library."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tileiras.codegen import archive
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Locatable
from tileiras.processes import programs
from tileiras.targets.cpu import CpuTarget, cpu_target, is_machine

if TYPE_CHECKING:
    from tileiras.stages import StageOptions

COMPILERS = ("cc", "gcc", "clang")
"""Programs that link for this machine, in the order in which they are looked for."""

OUTPUT = "kernels.so"


def compilers(target: CpuTarget) -> Sequence[str]:
    """Names of programs that link for a target: one with the target's prefix, or this machine's."""
    machine = target.triple.partition("-")[0]
    return (f"{machine}-linux-gnu-gcc", *(COMPILERS if is_machine(target) else ()))


def find(target: CpuTarget) -> str | None:
    """The path of the program that links for a target."""
    return next((path for path in map(shutil.which, compilers(target)) if path is not None), None)


def tool_identity(options: StageOptions) -> str:
    """The program and its linker: part of the key of a library."""
    target = cpu_target(options.gpu_name)
    path = find(target) if target is not None else None
    return "linker-missing" if path is None else _identity(path)


@functools.cache
def _identity(path: str) -> str:
    lines = []
    for argument in ("--version", "-Wl,--version"):
        try:
            process = subprocess.run([path, argument], capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.SubprocessError):
            return f"{os.path.basename(path)}-unknown"
        lines += process.stdout.split("\n")[:1]
    return " ".join([os.path.basename(path), *lines])


def link(objects: bytes, target: CpuTarget, location: Locatable | None) -> bytes:
    """The shared library of an object, or of the members of an archive; raises CompileError (code 2 without a linker).

    The same bytes wherever the same program links them: names of files are fixed, and nothing depends on the time.
    """
    path = find(target)
    if path is None:
        names = ", ".join(compilers(target))
        note = Diagnostic.note(None, "--emit obj makes an object, which needs no linker")
        message = f"no linker for {target.name} on this machine; looked for {names}"
        raise CompileError.at(location, message, ExitCode.CONFIGURATION, notes=[note])
    with programs.working_folder() as folder:
        names = []
        for number, data in enumerate(archive.members(objects)):
            names.append(f"{number}.o")
            with open(os.path.join(folder, names[-1]), "wb") as file:
                file.write(data)
        flags = ["-shared", "-Wl,--build-id=none", "-Wl,-z,noexecstack", "-Wl,-z,defs", "-o", OUTPUT]
        programs.run(os.path.basename(path), path, [*flags, *names, "-lm"], folder, location=location)
        with open(os.path.join(folder, OUTPUT), "rb") as file:
            return file.read()

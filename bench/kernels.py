"""The measured kernels: every kernel of `examples/`, and bytecode files or folders of them named on the command line.

Sources are brought to bytecode first, so that both compilers read the same file; one file may hold several entries.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tileiras import api
from tileiras.build import discover
from tileiras.diagnostics import CompileError
from tileiras.options import CompileOptions
from tileiras.stages import units

VERSION = "13.4"


class Kernel(NamedTuple):
    """A bytecode file, and the lowest SM number it is meant for."""

    name: str
    path: str
    lowest: int


def collect(folder: str, given: Sequence[str] = ()) -> list[Kernel]:
    """The kernels as bytecode files, those made here in `folder`; sources that do not export are named and left out."""
    result = [Kernel(os.path.basename(path), path, 0) for path in _files(given)]
    if given:
        return result
    for name in discover.kernel_files("examples"):
        source = units.Source.read(os.path.join("examples", name))
        if source.kind == units.BYTECODE or not _exported(name):
            lowest = discover.required_target(os.path.join("examples", name)) or 0
            stem = os.path.splitext(name)[0].replace(os.sep, "_")
            path = os.path.join(folder, f"{stem}.tileirbc")
            try:
                values = CompileOptions({"gpu-name": f"sm_{max(lowest, 90)}", "bytecode-version": VERSION})
                data = api.compile_with(source, values, "bytecode").data
            except CompileError as error:
                print(f"  {name}: {error.diagnostics[0]}")
                continue
            with open(path, "wb") as file:
                file.write(data)
            result.append(Kernel(stem, path, lowest))
    return result


def _files(given: Sequence[str]) -> Iterator[str]:
    for path in given:
        if os.path.isdir(path):
            yield from sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith(".tileirbc"))
        else:
            yield path


def _exported(name: str) -> bool:
    """Whether the bytecode of a Python example is an example itself."""
    stem = os.path.splitext(os.path.basename(name))[0]
    return os.path.isfile(os.path.join("examples", "bytecode", stem + ".tileirbc"))

"""Failures of a kernel while it runs, with the place in its source."""

from __future__ import annotations

import os
from typing import Any

import tileiras
from tileiras.diagnostics import Diagnostic, Severity


class KernelFailed(Exception):
    """The emulator, or the GPU or its driver, refused the kernel or stopped it."""


def with_source(error: Any, ptx: str, folder: str) -> str:
    """The emulator's message at the source line that the PTX names; the file is read from `folder` if it exists."""
    from tileiras.sim.emulator.source import source_positions

    # Columns of Python's syntax trees count from 0.
    places = [
        tileiras.ir.FileLineColLoc(file, line, column + file.endswith(".py"))
        for file, line, column in source_positions(ptx, error.line or 0)
    ]
    if not places:
        return str(error)
    _, *details = str(error).split("\n")
    notes = [Diagnostic.note(place, "called from here") for place in places[1:]]
    notes += [Diagnostic.note(None, detail.strip()) for detail in (*details, f"in line {error.line} of the PTX")]
    sources = {}
    for name in {place.filename for place in places}:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                sources[name] = file.read()
    return Diagnostic(Severity.ERROR, places[0], error.message, notes).render(sources)

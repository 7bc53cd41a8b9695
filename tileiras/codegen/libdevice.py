"""NVIDIA's libdevice: its location, and the diagnostic if it is missing.

It is attached when a kernel calls one of its functions, never otherwise; it has no fixed data layout, so the linked
functions take the kernel's (libdevice user's guide).
"""

from __future__ import annotations

from collections.abc import Iterable

from tileiras.codegen import toolkit
from tileiras.codegen.bitcode_library import ArtifactStore, BitcodeLibrary
from tileiras.codegen.llvm_identity import LIBDEVICE
from tileiras.diagnostics import CompileError, Diagnostic, Locatable

PREFIX = "__nv_"


def find(option: str | None = None, store: ArtifactStore | None = None) -> BitcodeLibrary | None:
    """The libdevice of this machine, or None; `option` names the file or a toolkit root."""
    path = toolkit.find_library(LIBDEVICE, option)
    return BitcodeLibrary("libdevice", path, store=store) if path is not None else None


def missing(functions: Iterable[str], location: Locatable | None = None) -> CompileError:
    """The error for a kernel that needs libdevice on a machine without it."""
    names = ", ".join(sorted(functions))
    return CompileError.at(
        location,
        "could not find libdevice.bc",
        notes=[
            Diagnostic.note(location, f"this kernel calls {names}"),
            Diagnostic.note(None, toolkit.to_install("nvidia-nvvm", LIBDEVICE)),
        ],
    )

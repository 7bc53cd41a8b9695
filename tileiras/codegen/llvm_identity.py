"""Which LLVM and which libdevice the ptx stage calls: part of its key.

A build asks for it even when nothing is to be done, so that nothing is loaded here that finding them does not need.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from tileiras.codegen import toolkit

LIBDEVICE = "nvvm/libdevice/libdevice.10.bc"
"""Its place below the root of a toolkit."""


def llvm_identity() -> str:
    """Which LLVM generates the code, `llvmlite-0.50.0`.

    The package's version, not LLVM's own: it can be read without loading the library.
    """
    import llvmlite

    return f"llvmlite-{llvmlite.__version__}"


def tool_identity(options: Any) -> str:
    """LLVM and the libraries, given the options of the ptx stage.  A missing one is told as such, not as an error."""
    found = toolkit.find_library(LIBDEVICE, options.libdevice)
    blobs = "".join(f" blob-{_digest(path) if os.path.isfile(path) else 'missing'}" for path in options.blob_linked_lib)
    return f"{llvm_identity()} libdevice-{_digest(found) if found is not None else 'missing'}{blobs}"


@functools.cache
def _digest(path: str) -> str:
    import xxhash

    with open(path, "rb") as file:
        return xxhash.xxh3_128_hexdigest(file.read())

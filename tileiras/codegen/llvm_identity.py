"""Which LLVM and which libdevice the ptx stage calls: part of its key.

A build asks for it even when nothing is to be done, so that nothing is loaded here that finding them does not need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.codegen import toolkit
from tileiras.support.files import file_identity

if TYPE_CHECKING:
    from tileiras.stages import StageOptions

LIBDEVICE = "nvvm/libdevice/libdevice.10.bc"
"""Its place below the root of a toolkit."""

EXPLICIT = "explicit"
"""The value of the option `libdevice` with which only the module's own bitcode is linked (`blobLinkedLib`,
`--blob-linked-lib`), as in the documented compiler."""


def llvm_identity() -> str:
    """Which LLVM generates the code, `llvmlite-0.50.0`.

    The package's version, not LLVM's own: it can be read without loading the library.
    """
    import llvmlite

    return f"llvmlite-{llvmlite.__version__}"


def tool_identity(options: StageOptions) -> str:
    """LLVM and the libraries, for the options of the ptx stage.  A missing one is named, not an error."""
    blobs = "".join(f" blob-{file_identity(path)}" for path in options.blob_linked_lib)
    return f"{llvm_identity()} libdevice-{_libdevice(options.libdevice)}{blobs}{device_libraries(options)}"


def device_libraries(options: StageOptions) -> str:
    """The libraries that calls reach, as a part of an identity; an empty string without any."""
    return "".join(f" library-{file_identity(path)}" for path in options.device_libraries)


def _libdevice(option: str | None) -> str:
    if option == EXPLICIT:
        return EXPLICIT
    library = toolkit.find_library(LIBDEVICE, option)
    return file_identity(library) if library is not None else "missing"

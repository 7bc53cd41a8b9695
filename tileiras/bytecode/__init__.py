"""Tile IR bytecode, versions 13.1 to 13.5.

The file is a magic number, a version and sections (strings, types, constants, globals, functions, debug information, a
producer name) in any order, closed by an end marker.  The encoding of an operation inside a function follows from its
declaration in `tileiras.dialects.cuda_tile`; this package holds no list of operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.support.lazy import lazy_dir, lazy_names

from .versions import CURRENT, MAGIC, SUPPORTED, Version, is_bytecode, supported

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile

    from .encoding import BytecodeError

__all__ = ["CURRENT", "MAGIC", "SUPPORTED", "BytecodeError", "Version", "entry_names", "is_bytecode", "read_module",
           "supported", "write_module"]  # fmt: skip

# The versions are asked for before anything of the IR is loaded.
_LAZY = {"BytecodeError": "encoding"}

__getattr__ = lazy_names(__name__, globals(), _LAZY)
__dir__ = lazy_dir(globals(), _LAZY)


def read_module(data: bytes, filename: str = "<bytecode>", *, entries: set[str] | None = None):
    """The `cuda_tile.module` that the bytes hold, not yet verified; see `reader.read_module`."""
    from .reader import read_module as read

    return read(data, filename, entries=entries)


def entry_names(data: bytes, filename: str = "<bytecode>"):
    """Names of the entries in file order, without reading any body."""
    from .reader import entry_names as names

    return names(data, filename)


def write_module(module: cuda_tile.ModuleOp, version: Version = CURRENT, *, strict_locations: bool = False):
    """The bytes of a verified `cuda_tile.module`; see `writer.write_module`."""
    from .writer import write_module as write

    return write(module, version, strict_locations=strict_locations)

"""Files of `-l`: device code (`codegen.device_code`), which is an input of the compilation, and tile libraries:
searched, opened and read as by the vendor's tool (13.5), which does not document them.

A tile library is an object file.  The section `.nvtlifc` contains Tile IR bytecode that declares functions; sections
`.nvtl.0`, `.nvtl.1` contain the implementations: bytecode, and the code that it names (LTOIR, a cubin, a fatbin).  An
object file without such sections is a linkage provider, native code that the vendor's compiler loads.

Functions that a kernel does not call are left out, so that an unused library changes nothing.  Calls of functions of
tile libraries are rejected by the lowering: the mapping of a tile to the fragments that they expect is undocumented.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence

from tileiras import bytecode, codegen
from tileiras.bytecode.sections import read_header, read_sections
from tileiras.bytecode.versions import has_previews
from tileiras.diagnostics import CompileError, Diagnostic, Severity
from tileiras.support.files import read_if_there

INTERFACE = ".nvtlifc"
IMPLEMENTATION = re.compile(r"\.nvtl\.\d+")


def device_code(paths: Sequence[str]) -> list[str]:
    """The paths of libraries of device code."""
    result = []
    for path in paths:
        data = read_if_there(path)
        if data is not None and codegen.device_code.kind_of(data) is not None:
            result.append(path)
    return result


def check(paths: Sequence[str], preview: Sequence[str]) -> None:
    """Raise CompileError (code 5) for the first library that cannot be used."""
    if "simt" not in preview:
        raise CompileError.at(None, "libraries require the 'simt' preview feature")
    others = [path for path in paths if path not in device_code(paths)]
    for sections in [_open(path) for path in others]:
        _check_interface(sections)
        _check_implementations(sections)


def _open(path: str) -> Mapping[str, bytes]:
    try:
        with open(path, "rb") as file:
            sections = _sections(file.read())
    except OSError as error:
        raise CompileError.at(None, f"failed to open tile library: {error.strerror}") from None
    except ValueError as error:
        raise CompileError.at(None, f"failed to open tile library: {error}") from None
    if not any(map(IMPLEMENTATION.fullmatch, sections)):
        note = "a linkage provider is native code for the vendor's compiler, which is not loaded here"
        message = f"failed to load linkage provider: {path}"
        raise CompileError.at(None, message, notes=[Diagnostic.note(None, note)])
    return sections


def _check_interface(sections: Mapping[str, bytes]) -> None:
    interface = sections.get(INTERFACE)
    if interface is None:
        return
    unreadable = CompileError.at(None, "failed to read interface and splice it into the module")
    if not bytecode.is_bytecode(interface):
        raise unreadable
    try:
        if has_previews(interface):
            # Declarations of functions are previews: they would be read for a call.
            read_sections(read_header(interface, "")[0])
        else:
            bytecode.entry_names(interface)
    except bytecode.BytecodeError as error:
        (damage,) = error.diagnostics
        message = f"error at offset {damage.location.offset}: {damage.message}"
        unreadable.diagnostics.insert(0, Diagnostic(Severity.ERROR, None, message))
        raise unreadable from None


def _check_implementations(sections: Mapping[str, bytes]) -> None:
    entries = [data for name, data in sections.items() if IMPLEMENTATION.fullmatch(name)]
    if len(entries) > 2:
        raise CompileError.at(
            None,
            "too many implementation buffers, can currently only handle either a single tile bytecode file or a tile "
            "bytecode file + ltoir",
        )
    if len(entries) == 2 and sum(map(bytecode.is_bytecode, entries)) != 1:
        raise CompileError.at(
            None,
            "static tile library must contain exactly one tile bytecode implementation and one pre-compiled code "
            "implementation",
        )


_HEADER_SIZE = 64
_SECTION_HEADER_SIZE = 64
_NOBITS = 8


def _sections(image: bytes) -> dict[str, bytes]:
    """The sections of a 64-bit ELF file (System V gABI, chapter 4); raises ValueError in the words of LLVM's `Object`.

    Other object files have no tile sections.
    """
    if not image.startswith(b"\x7fELF"):
        raise ValueError("The file was not recognized as a valid object file")
    if len(image) < _HEADER_SIZE:
        raise ValueError(f"invalid buffer: the size ({len(image)}) is smaller than an ELF header ({_HEADER_SIZE})")
    if image[4:6] != b"\2\1":
        return {}
    (start,) = struct.unpack_from("<Q", image, 0x28)
    size, number, names = struct.unpack_from("<HHH", image, 0x3A)
    if not start:
        return {}
    if size != _SECTION_HEADER_SIZE:
        raise ValueError(f"invalid e_shentsize in ELF header: {size}")
    if start + size * number > len(image):
        raise ValueError(f"section header table goes past the end of the file: e_shoff = {start:#x}")
    rows = [struct.unpack_from("<IIQQQQ", image, start + size * row) for row in range(number)]
    sections = {}
    for name, kind, _, _, offset, length in rows if names < number else ():
        if kind != _NOBITS:
            first = rows[names][4] + name
            sections[image[first : image.find(b"\0", first)].decode(errors="replace")] = image[offset : offset + length]
    return sections

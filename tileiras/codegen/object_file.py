"""Readers of ELF files: the object files inside cubins, and cubins with the properties of their entries.

The content of `.nv.info` is not documented; the numbers of its attributes were read off cubins of ptxas 13.5; cuobjdump
prints their names.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_SYMBOL_TABLE, _RELOCATIONS, _NO_BITS = 2, 4, 8  # System V gABI, chapter 4: sh_type
UNDEFINED = 0
"""The section's number of a symbol of another file (SHN_UNDEF)."""


class ObjectFile:
    """A 64-bit little-endian ELF file (System V gABI, chapter 4): sections by name, symbols as (section's number,
    offset, size) by name.  Raises ValueError for another file."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\2\1":
            raise ValueError("no ELF file of 64 bits")
        self.data = data
        try:
            (offset,) = struct.unpack_from("<Q", data, 40)
            count, names = struct.unpack_from("<HH", data, 60)
            self.headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + 64 * number) for number in range(count)]
            self.names = [self._string(names, header[0]) for header in self.headers]
        except (struct.error, IndexError, ValueError):
            raise ValueError("an ELF file that is not whole") from None

    def _string(self, section: int, at: int) -> str:
        start = self.headers[section][4] + at
        return self.data[start : self.data.index(b"\0", start)].decode()

    def _header(self, name: str) -> tuple[int, ...]:
        if name not in self.names:
            raise KeyError(name)
        return self.headers[self.names.index(name)]

    def section(self, name: str) -> bytes:
        """The content of a section.  Raises KeyError if the file has no such section."""
        header = self._header(name)
        return b"" if header[1] == _NO_BITS else self.data[header[4] : header[4] + header[5]]

    def size(self, name: str) -> int:
        """Bytes of a section in memory, which may take no space in the file (NOBITS); 0 for a missing section."""
        return self._header(name)[5] if name in self.names else 0

    def symbols(self) -> dict[str, tuple[int, int, int]]:
        return {name: place for name, place in self._symbols() if name}

    def _symbols(self) -> list[tuple[str, tuple[int, int, int]]]:
        (header,) = (header for header in self.headers if header[1] == _SYMBOL_TABLE)
        symbols = []
        for at in range(header[4], header[4] + header[5], 24):
            name, _, _, section, value, size = struct.unpack_from("<IBBHQQ", self.data, at)
            symbols.append((self._string(header[6], name), (section, value, size)))
        return symbols

    def relocations(self, section: int) -> list[int]:
        """The offsets in a section that are relocated."""
        tables = [header for header in self.headers if header[1] == _RELOCATIONS and header[7] == section]
        return [
            struct.unpack_from("<Q", self.data, at)[0]
            for header in tables
            for at in range(header[4], header[4] + header[5], 24)
        ]


def with_section(data: bytes, name: str, kind: int, content: bytes, alignment: int) -> bytes:
    """A file with one more section after all others, and a longer table of names; no other content moves.

    `kind` is its sh_type.  Raises ValueError for anything but a 64-bit ELF file.
    """
    file = ObjectFile(data)
    names = struct.unpack_from("<H", data, 62)[0]
    headers = [list(header) for header in file.headers]
    text = file.section(file.names[names])
    image = bytearray(data)

    def append(more: bytes, boundary: int) -> int:
        image.extend(bytes(-len(image) % boundary))
        image.extend(more)
        return len(image) - len(more)

    headers.append([len(text), kind, 0, 0, append(content, alignment), len(content), 0, 0, alignment, 0])
    text += name.encode() + b"\0"
    headers[names][4:6] = append(text, 1), len(text)
    table = append(b"".join(struct.pack("<IIQQQQIIQQ", *header) for header in headers), 8)
    struct.pack_into("<Q", image, 40, table)
    struct.pack_into("<H", image, 60, len(headers))
    return bytes(image)


# Attributes of `.nv.info`, of all functions, and of `.nv.info.ENTRY`: how a value is stored, and EIATTR numbers.
_SIZED = 4
_PARAM_CBANK = 0x0A
_FRAME_SIZE = 0x11
_REGCOUNT = 0x2F

_PTX = ".nv_debug_ptx_txt"
_BEHIND_PTX = ".nv_intermediate_source_section"
"""A section whose content the reference compiler appends to the PTX in the same section: the kernel as Tile IR."""


class Cubin(ObjectFile):
    """A cubin: entries by their sections of code, with the resources that ptxas recorded."""

    def entries(self) -> list[str]:
        return [name.removeprefix(".text.") for name in self.names if name.startswith(".text.")]

    def embedded_ptx(self) -> str | None:
        """The PTX that the code was assembled from, which ptxas keeps with line information (`--generate-line-info`,
        the reference compiler's `--lineinfo`); None without.  Its lines are those that the line table counts."""
        if _PTX not in self.names:
            return None
        return self.section(_PTX).replace(b"\0", b"\n").decode(errors="replace").partition(_BEHIND_PTX)[0]

    @property
    def has_ptx_lines(self) -> bool:
        """Whether a table maps machine instructions to lines of the PTX."""
        return ".nv_debug_line_sass" in self.names

    def registers(self, entry: str) -> int:
        """Of a thread of an entry."""
        return self._of_function(_REGCOUNT, entry)

    def local(self, entry: str) -> int:
        """Bytes of a thread's stack frame."""
        return self._of_function(_FRAME_SIZE, entry)

    def shared(self, entry: str, reserved: int = 0) -> int:
        """Bytes of shared memory that an entry declares; launches may add more.  `reserved` bytes at the start of the
        section are the system's, where shared memory does not start at address 0 (sm_90 and later)."""
        return max(0, self.size(f".nv.shared.{entry}") - reserved)

    def _of_function(self, attribute: int, entry: str) -> int:
        symbols = self._symbols()
        for result, value in _attributes(self.section(".nv.info")):
            if result == attribute:
                symbol, number = struct.unpack_from("<II", value)
                if symbols[symbol][0] == entry:
                    return number
        return 0

    def parameter_base(self, entry: str) -> int | None:
        """Where the parameters of an entry start in the constant bank; None if it has no parameters."""
        for attribute, value in _attributes(self.section(f".nv.info.{entry}")):
            if attribute == _PARAM_CBANK:
                return struct.unpack_from("<H", value, 4)[0]
        return None


def _attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    """The attributes of an info section that have a value of their own, with it."""
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        length = size if form == _SIZED else 0
        if length:
            yield attribute, info[at + 4 : at + 4 + length]
        at += 4 + length

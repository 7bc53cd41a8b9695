"""The frame of a file: header, sections, and the tables of byte runs that most sections are."""

from __future__ import annotations

from tileiras.diagnostics import CompileError, Diagnostic

from .encoding import Cursor
from .versions import CURRENT, HEADER_SIZE, MAGIC, OLDEST, PREVIEW_FLAG, PREVIEWS, Version, looks_like_mlir, supported

END = 0
STRING, FUNCTION, DEBUG, CONSTANT, TYPE, GLOBAL, PRODUCER = range(1, 8)

SECTION_NAMES = {
    STRING: "string",
    FUNCTION: "function",
    DEBUG: "debug",
    CONSTANT: "constant",
    TYPE: "type",
    GLOBAL: "global",
    PRODUCER: "producer",
}

REQUIRED_ALIGNMENT = {STRING: 4, TYPE: 4, CONSTANT: 8, DEBUG: 8, FUNCTION: 8}
"""Sections with tables of fixed-width numbers must declare their alignment."""

ALIGNMENT_FLAG = 0x80


def read_header(data: bytes, filename: str) -> tuple[Cursor, Version, bool]:
    """Check magic and version; the cursor is then at the first section.  Also returns whether the file has
    previews."""
    cursor = Cursor(data, 0, "", filename)
    for position, byte in enumerate(MAGIC):
        got = data[position] if position < len(data) else 0
        if got != byte:
            hint = " (it looks like MLIR bytecode instead)" if looks_like_mlir(data) else ""
            cursor.fail(f"invalid magic number at position {position}, got {got} expected {byte}{hint}", position)
    if len(data) < HEADER_SIZE:
        cursor.fail("failed to read bytecode version: unexpected end of data", len(data))
    major, minor, tag = data[8], data[9], data[10] | data[11] << 8
    version = Version(major, minor)
    if version in supported() and version != PREVIEWS and tag == PREVIEW_FLAG:
        cursor.fail(
            f"public-preview bytecode at version {version}.{tag} is not readable; preview content is only valid at the "
            f"current version {PREVIEWS}",
            HEADER_SIZE,
        )
    if version not in supported() or tag and (version, tag) != (PREVIEWS, PREVIEW_FLAG):
        text = f"unsupported Tile version {major}.{minor}.{tag}, this reader supports versions [{OLDEST} - {CURRENT}]"
        failed = cursor.error(text, len(MAGIC))
        note = newer_note(data)
        if note is not None:
            failed.diagnostics[0].notes.append(note)
        raise failed
    cursor.pos = HEADER_SIZE
    return cursor, version, bool(tag)


def newer_note(data: bytes) -> Diagnostic | None:
    """The unknown parts of a file of a newer minor version, as a note; None for any other file.

    Sections are framed alike in all versions, so that they can be counted without being read.
    """
    version = Version(*data[len(MAGIC) : len(MAGIC) + 2]) if len(data) >= HEADER_SIZE else OLDEST
    if version.major != CURRENT.major or version.minor <= CURRENT.minor:
        return None
    cursor = Cursor(data, 0, "", "")
    cursor.pos = HEADER_SIZE
    unknown: list[int] = []
    try:
        while (tagged := cursor.byte("section")) & ~ALIGNMENT_FLAG != END:
            length = cursor.varint("length")
            if tagged & ALIGNMENT_FLAG:
                cursor.align(cursor.varint("alignment"), "section")
            if (section := tagged & ~ALIGNMENT_FLAG) not in SECTION_NAMES:
                unknown.append(section)
            cursor.pos += length
        listed = ", ".join(map(str, unknown))
        text = f"sections unknown here: {listed}" if unknown else "it has no section unknown here"
    except CompileError:
        text = "its sections are framed in another way"
    return Diagnostic.note(None, f"the file is of a newer version, {version}; {text}; write it as {CURRENT} or older")


def read_sections(cursor: Cursor) -> dict[int, Cursor]:
    """A cursor over the payload of each section, by id.  Nothing may follow the end marker."""
    sections: dict[int, Cursor] = {}
    while True:
        start = cursor.pos
        if not cursor.remaining:
            cursor.fail("unexpected end of data while reading section header")
        tagged = cursor.byte("section ID and alignment flag")
        section, aligned = tagged & ~ALIGNMENT_FLAG, bool(tagged & ALIGNMENT_FLAG)
        if section == END:
            if aligned:
                cursor.fail("end section should not have alignment flag set", start)
            if cursor.remaining:
                cursor.fail("end section is not the last section")
            return sections
        name = SECTION_NAMES.get(section)
        if name is None:
            cursor.fail(f"unknown section ID: {section}", start)
        if section in sections:
            cursor.fail(f"duplicate {name} section", start)
        length = cursor.varint("section length")
        if length > cursor.remaining:
            cursor.fail(f"section length {length} exceeds remaining data size {cursor.remaining}")
        alignment = 0
        if aligned:
            alignment = cursor.varint("section alignment")
            if alignment == 0 or alignment & (alignment - 1):
                cursor.fail(f"invalid alignment value: {alignment}", start)
            cursor.align(alignment, f"{name} section")
        required = REQUIRED_ALIGNMENT.get(section, 1)
        if required > 1 and alignment % required or required > 1 and not aligned:
            text = f"has alignment of {alignment}" if aligned else "has no alignment flag set"
            cursor.fail(
                f"section {section} must have alignment that is a multiple of {required} bytes, but {text}", start
            )
        if length > cursor.remaining:
            cursor.fail(f"section length {length} exceeds remaining bytecode data. {cursor.remaining}", start)
        payload = cursor.sub(cursor.pos, cursor.pos + length)
        payload.section = name
        sections[section] = payload
        cursor.pos += length


class ByteTable:
    """`count, padding, offsets, data`: numbered runs of bytes.  Runs must lie in order inside the data."""

    __slots__ = ("cursor", "starts", "data_start")

    def __init__(self, cursor: Cursor, width: int, label: str) -> None:
        number = cursor.count(label, width)
        self.cursor = cursor
        self.starts = cursor.offsets(number, width, f"{label} offsets") if number else ()
        self.data_start = cursor.pos
        size = cursor.remaining
        previous = 0
        for index, start in enumerate((*self.starts, size)):
            if start < previous:
                where = f"end ({start}) is less than start ({previous}) for {label} {index - 1}"
                cursor.fail(f"invalid {label} start indices: {where}")
            previous = start
        # Ascending and closed by `size`, so every run lies inside the data.

    def __len__(self) -> int:
        return len(self.starts)

    def run(self, index: int) -> Cursor:
        """The bytes of entry `index`, which must be in range."""
        base = self.data_start
        start = base + self.starts[index]
        end = base + self.starts[index + 1] if index + 1 < len(self.starts) else len(self.cursor.data)
        return self.cursor.sub(start, end)


class StringTable:
    """The string section; a string is decoded when it is first asked for."""

    __slots__ = ("table", "_cache")

    def __init__(self, cursor: Cursor) -> None:
        self.table = ByteTable(cursor, 4, "strings")
        self._cache: dict[int, str] = {}

    def read(self, cursor: Cursor, label: str) -> str:
        """The string whose index is at `cursor`."""
        start = cursor.pos
        index = cursor.varint(label)
        result = self._cache.get(index)
        if result is None:
            if index >= len(self.table):
                cursor.fail(f"failed to read {label}: string index {index} out of bounds", start)
            run = self.table.run(index)
            result = run.data.decode("utf-8", "surrogateescape")
            self._cache[index] = result
        return result

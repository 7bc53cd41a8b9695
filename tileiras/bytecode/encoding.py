"""Reading the primitive encodings: bytes, little-endian numbers, variable-length integers."""

from __future__ import annotations

from typing import NoReturn

from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Severity
from tileiras.ir import BytecodeLoc

ALL_ONES_64 = (1 << 64) - 1


class BytecodeError(CompileError):
    """Bytes that are not Tile IR bytecode of a supported version; located by section and byte offset."""

    def __init__(self, location: BytecodeLoc, message: str) -> None:
        super().__init__([Diagnostic(Severity.ERROR, location, message)], ExitCode.INVALID_INPUT)


class Cursor:
    """A position in a run of bytes.  Every read checks its bounds; `base` is the run's offset in the file."""

    __slots__ = ("data", "pos", "base", "section", "filename")

    def __init__(self, data: bytes, base: int, section: str, filename: str) -> None:
        self.data = data
        self.pos = 0
        self.base = base
        self.section = section
        self.filename = filename

    def sub(self, start: int, end: int) -> "Cursor":
        """A cursor over `data[start:end]` that still reports offsets in the file."""
        return Cursor(self.data[start:end], self.base + start, self.section, self.filename)

    def error(self, message: str, at: int | None = None) -> BytecodeError:
        offset = self.base + (self.pos if at is None else at)
        return BytecodeError(BytecodeLoc(self.filename, self.section, offset), message)

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        raise self.error(message, at)

    @property
    def remaining(self) -> int:
        return len(self.data) - self.pos

    def byte(self, label: str = "byte") -> int:
        pos = self.pos
        if pos >= len(self.data):
            self.fail(f"failed to read {label}: unexpected end of data")
        self.pos = pos + 1
        return self.data[pos]

    def varint(self, label: str = "integer") -> int:
        """An unsigned LEB128 integer of at most 64 bits in its shortest form.

        A tenth byte may carry more than bit 63; the bits above are dropped, as the reference reader does (front ends
        write the bits of a negative f64 that way).
        """
        data = self.data
        pos = self.pos
        if pos < len(data):
            byte = data[pos]
            if byte < 0x80:
                self.pos = pos + 1
                return byte
        return self._long_varint(label)

    def _long_varint(self, label: str) -> int:
        data = self.data
        start = pos = self.pos
        limit = min(len(data), start + 10)
        value = shift = 0
        while pos < limit:
            byte = data[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and pos - start > 1:
                    self.fail(f"failed to read {label}: non-canonical VarInt", start)
                self.pos = pos
                return value & ALL_ONES_64
            shift += 7
        reason = "VarInt longer than 64 bits" if pos - start == 10 else "unexpected end of data"
        self.fail(f"failed to read {label}: {reason}", start)

    def signed_varint(self, label: str = "integer") -> int:
        """A zigzag integer, as the signed value of 64 bits."""
        value = self.varint(label)
        return (value >> 1) ^ -(value & 1)

    def count(self, label: str, smallest: int = 1) -> int:
        """A number of things that take at least `smallest` bytes each, checked against the bytes that are left."""
        start = self.pos
        number = self.varint(f"number of {label}")
        limit = (len(self.data) - self.pos) // smallest
        if number > limit:
            self.fail(
                f"number of {label} ({number}) exceeds the maximum of {limit} that can fit in the remaining payload of "
                f"{self.remaining} bytes.",
                start,
            )
        return number

    def take(self, length: int, label: str) -> bytes:
        pos = self.pos
        end = pos + length
        if end > len(self.data):
            self.fail(f"failed to read {label}: {length} bytes exceed the remaining {self.remaining}")
        self.pos = end
        return self.data[pos:end]

    def align(self, alignment: int, label: str) -> None:
        """Skip padding up to a multiple of `alignment` from the start of this run."""
        padding = -self.pos % alignment
        if padding > self.remaining:
            self.fail(f"failed to skip padding before {label}: unexpected end of data")
        self.pos += padding

    def integers(self, width: int, label: str) -> tuple[int, ...]:
        """A count and that many little-endian signed integers of `width` bytes."""
        number = self.count(label, width)
        raw = self.take(number * width, label)
        from_bytes = int.from_bytes
        return tuple([from_bytes(raw[at : at + width], "little", signed=True) for at in range(0, len(raw), width)])

    def offsets(self, number: int, width: int, label: str) -> tuple[int, ...]:
        """`number` little-endian unsigned integers of `width` bytes (4 or 8), aligned to their width."""
        import struct

        self.align(width, label)
        raw = self.take(number * width, label)
        return struct.unpack(f"<{number}{'I' if width == 4 else 'Q'}", raw)

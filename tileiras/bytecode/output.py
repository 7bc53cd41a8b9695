"""Writing the primitive encodings and the tables of byte runs; the counterpart of `encoding` and `sections`."""

from __future__ import annotations

from typing import Iterable

from .sections import ALIGNMENT_FLAG

PADDING = b"\xcb"
"""Readers skip padding unread; front ends write this byte."""

MASK_64 = (1 << 64) - 1


class Buffer(bytearray):
    """Bytes being written."""

    def varint(self, value: int) -> None:
        """An unsigned LEB128 integer in its shortest form; `value` is not negative and has at most 64 bits."""
        while value > 0x7F:
            self.append(value & 0x7F | 0x80)
            value >>= 7
        self.append(value)

    def signed_varint(self, value: int) -> None:
        """A zigzag integer of 64 bits."""
        self.varint(value << 1 & MASK_64 if value >= 0 else (~value << 1 | 1) & MASK_64)

    def align(self, alignment: int) -> None:
        self.extend(PADDING * (-len(self) % alignment))

    def integers(self, values: Iterable[int], width: int) -> None:
        """A count and little-endian signed integers of `width` bytes."""
        values = tuple(values)
        self.varint(len(values))
        for value in values:
            self.extend(value.to_bytes(width, "little", signed=True))

    def table(self, runs: list[bytes], width: int) -> None:
        """`count, padding, offsets, data`, as `sections.ByteTable` reads it."""
        self.varint(len(runs))
        self.align(width)
        offset = 0
        for run in runs:
            self.extend(offset.to_bytes(width, "little"))
            offset += len(run)
        for run in runs:
            self.extend(run)

    def section(self, number: int, payload: bytes, alignment: int = 1) -> None:
        self.append(number | (ALIGNMENT_FLAG if alignment > 1 else 0))
        self.varint(len(payload))
        if alignment > 1:
            self.varint(alignment)
            self.align(alignment)
        self.extend(payload)


class Numbering:
    """Byte runs numbered in the order of their first request."""

    __slots__ = ("numbers", "first")

    def __init__(self, first: int = 0) -> None:
        self.numbers: dict[bytes, int] = {}
        self.first = first

    def __getitem__(self, run: bytes) -> int:
        return self.numbers.setdefault(run, len(self.numbers) + self.first)

    @property
    def runs(self) -> list[bytes]:
        return list(self.numbers)


class StringNumbering(Numbering):
    def of(self, text: str) -> int:
        # Invalid UTF-8, which escapes in text may produce, is represented as by the parser.
        return self[text.encode("utf-8", "surrogateescape")]

"""Makes the file names in a bytecode file's debug information independent of where the user's tree lies."""

from __future__ import annotations

import os
import sys

from .encoding import Cursor
from .sections import END, STRING, StringTable, read_header, read_sections


def make_paths_relative(data: bytes, root: str) -> bytes:
    """`data` with paths under `root` rewritten relative to it, and paths of installed packages relative to theirs.

    Only the string section changes; every other section refers to strings by number.  It is written last, as the front
    end does, so that no other section moves.
    """
    cursor, _, _ = read_header(data, "<bytecode>")
    start, end = _string_section(cursor)
    strings = _strings(read_sections(cursor)[STRING])
    rewritten = [_relative(text, root) for text in strings]
    if rewritten == strings:
        return data
    payload = _encode_table([text.encode("utf-8", "surrogateescape") for text in rewritten])
    before, after = data[:start], data[end:]
    if after != bytes([END]):
        raise ValueError("the string section is not the last one")
    header = bytearray(before)
    header.append(STRING | 0x80)
    header += _varint(len(payload))
    header += _varint(4)
    header += b"\xcb" * (-len(header) % 4)
    return bytes(header + payload + after)


def _string_section(cursor: Cursor) -> tuple[int, int]:
    """Start of the string section's header and end of its payload."""
    probe = cursor.sub(0, len(cursor.data))
    probe.pos = cursor.pos
    while True:
        start = probe.pos
        tagged = probe.byte()
        section = tagged & 0x7F
        length = probe.varint()
        if tagged & 0x80:
            probe.align(probe.varint(), "section")
        probe.pos += length
        if section == STRING:
            return start, probe.pos


def _strings(cursor: Cursor) -> list[str]:
    table = StringTable(cursor).table
    return [table.run(index).data.decode("utf-8", "surrogateescape") for index in range(len(table))]


def _encode_table(items: list[bytes]) -> bytes:
    out = _varint(len(items))
    out += b"\xcb" * (-len(out) % 4)
    offset = 0
    for item in items:
        out += offset.to_bytes(4, "little")
        offset += len(item)
    return bytes(out) + b"".join(items)


def _varint(value: int) -> bytearray:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return out


def _relative(text: str, root: str) -> str:
    if not os.path.isabs(text):
        return text
    # The longest matching folder of the import path names a package's file as the package knows it.
    for folder in (root, *sorted({os.path.realpath(p) for p in sys.path if p}, key=len, reverse=True)):
        if text == folder:
            return "."
        if text.startswith(folder.rstrip(os.sep) + os.sep):
            return text[len(folder.rstrip(os.sep)) + 1 :].replace(os.sep, "/")
    return text

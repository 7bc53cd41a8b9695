"""The documented body of a diagnostic, for handlers in C: 208 bytes, in the memory of this process.

| offset | bytes | |
|---|---|---|
| 0x00 | 8 | the location: a pointer to `tileirasLocation`; null once the diagnostic is flushed |
| 0x10 | 2 | the severity word |
| 0x18 | 8 | the arguments: a pointer to the inline ones, or to memory of their own beyond four |
| 0x20 | 4 + 4 | the number of arguments, and of those for which there is room, four at first |
| 0x28 | 4 * 24 | inline arguments: kind, value, length |
| 0x88 | 24 | strings that the body owns: pointer, number, capacity |
| 0xA0 | 24 | notes: pointer to pointers to bodies, number, capacity |
| 0xB8 | 8 | the sink; always null |
| 0xC8 | 1 | 1 until the diagnostic is flushed, then 0: a second flush does nothing |

An argument is an integer (kind 2) or text by pointer and length (kind 5); an inline slot without one has kind 1, and
those beside memory of their own are zero.  Notes have bodies of their own.  Source: the documentation's page on the ABI
of diagnostics.
"""

from __future__ import annotations

import ctypes
from typing import Any

from tileiras.diagnostics import Diagnostic

SIZE = 208
INLINE = 4
PLACEHOLDER, INTEGER, TEXT = 1, 2, 5


class Location(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("line", ctypes.c_uint32), ("column", ctypes.c_uint32)]


class Argument(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint8), ("value", ctypes.c_uint64), ("length", ctypes.c_uint64)]


class List(ctypes.Structure):
    """Header of a vector."""

    _fields_ = [("begin", ctypes.c_void_p), ("size", ctypes.c_uint32), ("capacity", ctypes.c_uint32),
                ("unused", ctypes.c_uint64)]  # fmt: skip


class Body(ctypes.Structure):
    _fields_ = [
        ("location", ctypes.c_void_p), ("unused", ctypes.c_uint64), ("word", ctypes.c_uint16),
        ("arguments", ctypes.c_void_p), ("size", ctypes.c_uint32), ("capacity", ctypes.c_uint32),
        ("inline", Argument * INLINE), ("strings", List), ("notes", List), ("sink", ctypes.c_void_p),
        ("reserved", ctypes.c_uint64), ("alive", ctypes.c_uint8),
    ]  # fmt: skip


def body_of(diagnostic: Diagnostic) -> tuple[Body, list[Any]]:
    """The body, and the objects whose memory it points to, which must outlive it."""
    body, keepalive = Body(word=diagnostic.word, alive=1), []
    position = diagnostic.position
    name = position.filename if position is not None else str(diagnostic.location or "")
    place = Location(_bytes(name), *(position[1:3] if position is not None else (0, 0)))
    body.location = ctypes.addressof(place)
    arguments = [_argument(fragment, keepalive) for fragment in diagnostic.fragments]
    if len(arguments) > INLINE:
        array: Any = (Argument * len(arguments))(*arguments)
        body.arguments, body.capacity = ctypes.addressof(array), len(arguments)
    else:
        array = None
        for number in range(INLINE):
            body.inline[number] = arguments[number] if number < len(arguments) else Argument(PLACEHOLDER)
        body.arguments, body.capacity = ctypes.addressof(body) + Body.inline.offset, INLINE
    body.size = len(arguments)
    _own(body.strings, (ctypes.c_char_p * len(keepalive))(*keepalive), keepalive)
    notes = [body_of(note) for note in diagnostic.notes]
    _own(body.notes, (ctypes.c_void_p * len(notes))(*(ctypes.addressof(note) for note, _ in notes)), keepalive)
    return body, [*keepalive, place, array, *notes]


def _own(header: List, array: Any, keepalive: list[Any]) -> None:
    header.begin, header.size, header.capacity = ctypes.addressof(array), len(array), len(array)
    keepalive.append(array)


def _argument(fragment: str | int, keepalive: list[Any]) -> Argument:
    if isinstance(fragment, int):
        return Argument(INTEGER, fragment & (1 << 64) - 1, 0)
    data = _bytes(fragment)
    keepalive.append(data)
    return Argument(TEXT, ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0, len(data))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")

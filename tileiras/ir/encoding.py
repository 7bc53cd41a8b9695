"""Encoding of input text, which is UTF-8; diagnostics for other encodings."""

from __future__ import annotations

import codecs

from tileiras.diagnostics import CompileError, ExitCode

from .location import FileLineColLoc


def encoded(text: str, name: str) -> bytes:
    """Encode a text that a program passes instead of a file's bytes; ``name`` is its name in messages.

    Raises CompileError (code 3) at half of a surrogate pair, which is no character.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        before = text[: error.start]
        place = FileLineColLoc(name, before.count("\n") + 1, len(before) - before.rfind("\n"))
        message = f"text is read as UTF-8, which has no character {ord(text[error.start]):#06x}"
        raise CompileError.at(place, message, ExitCode.INVALID_INPUT) from None


def check_encoding(data: bytes, path: str) -> None:
    """Raise CompileError (code 3) at the first byte that is not UTF-8, in a file that is named as text."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        message = f"text is read as UTF-8, which has no byte {data[error.start]:#04x} here"
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            message = "text is read as UTF-8, not as UTF-16"
        line = data[: error.start].rpartition(b"\n")[2].decode()
        place = FileLineColLoc(path, data.count(b"\n", 0, error.start) + 1, len(line) + 1)
        raise CompileError.at(place, message, ExitCode.INVALID_INPUT) from None

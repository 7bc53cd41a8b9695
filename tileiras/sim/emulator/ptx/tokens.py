"""Tokens of PTX text (PTX ISA, "Syntax": comments, identifiers, integer and floating-point constants)."""

from __future__ import annotations

import bisect
import re
import struct
from collections.abc import Iterator

from ..errors import EmulationError
from .module import Immediate

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
      |(?P<string>"(?:[^"\\]|\\.)*")
      |(?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
          |(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?)
      |(?P<name>\.?[A-Za-z_$%][\w$]*(?:(?:\.|::)[\w$]+)*)
      |(?P<punctuation>[{}()\[\],;:|!@+\-<>=])""",
    re.VERBOSE | re.DOTALL,
)


class TokenReader:
    """A text as tokens, each its kind, its spelling and where it begins; `at` is the next one's number."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.line_starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self.tokens = list(self._tokenise())
        self.at = 0

    def _tokenise(self) -> Iterator[tuple[str, str, int]]:
        position, text, match = 0, self.text, _TOKEN.match
        while position < len(text):
            result = match(text, position)
            if result is None:
                raise EmulationError(
                    f"unexpected character {text[position]!r}",
                    line=self.line_of(position),
                    text=self._line_text(position),
                )
            kind = result.lastgroup
            if kind != "skip":
                yield kind, result.group(), position
            position = result.end()
        yield "end", "", len(text)

    def line_of(self, position: int) -> int:
        return bisect.bisect_right(self.line_starts, position)

    def _line_text(self, position: int) -> str:
        return self.text[self.line_starts[self.line_of(position) - 1] :].split("\n", 1)[0].strip()

    def error(self, message: str) -> EmulationError:
        position = self.tokens[self.at][2]
        return EmulationError(message, line=self.line_of(position), text=self._line_text(position))

    def peek(self, token: str) -> bool:
        return self.tokens[self.at][1] == token

    def accept(self, token: str) -> bool:
        if self.tokens[self.at][1] == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.error(f"expected '{token}', found '{self.tokens[self.at][1]}'")

    def name(self) -> str:
        kind, text, _ = self.tokens[self.at]
        if kind != "name":
            raise self.error(f"expected a name, found '{text}'")
        self.at += 1
        return text

    def integer(self) -> int:
        negative = self.accept("-")
        kind, text, _ = self.tokens[self.at]
        if kind != "number":
            raise self.error(f"expected an integer, found '{text}'")
        self.at += 1
        value = number_of(text).value
        return -int(value) if negative else int(value)

    def skip_statement(self) -> None:
        while self.tokens[self.at][0] != "end" and not self.accept(";"):
            self.at += 1


def number_of(text: str) -> Immediate:
    lower = text.lower()
    if lower.startswith("0f"):
        bits = int(text[2:], 16)
        return Immediate(struct.unpack("<f", struct.pack("<I", bits))[0], (32, bits))
    if lower.startswith("0d"):
        bits = int(text[2:], 16)
        return Immediate(struct.unpack("<d", struct.pack("<Q", bits))[0], (64, bits))
    if lower.startswith("0x"):
        return Immediate(int(lower.rstrip("u"), 16))
    if lower.startswith("0b"):
        return Immediate(int(lower[2:].rstrip("u"), 2))
    if "." in text or "e" in lower:
        return Immediate(float(text))
    digits = lower.rstrip("u")
    return Immediate(int(digits, 8) if len(digits) > 1 and digits[0] == "0" else int(digits))

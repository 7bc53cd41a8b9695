"""Reading tokens of MLIR text, and reporting errors in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, NoReturn

from tileiras.diagnostics import Diagnostic, Severity

from ..float_format import bit_width, parse_decimal
from ..location import Location, SourceLoc, SourceText
from ..types import DYNAMIC, f64
from . import lexer

if TYPE_CHECKING:
    from ..types import FloatType

MAX_DIGITS = 4000
"""Longer integer literals are refused."""

MAX_NESTING = 60
"""Types, attributes and regions nest at most this deep: every consumer of the IR may then recurse over them."""


class ParseError(Exception):
    """Text that violates the grammar at `location`; `notes` are (location, message) pairs."""

    def __init__(self, location: Location, message: str, notes: tuple = ()) -> None:
        super().__init__(message)
        self.location = location
        self.message = message
        self.notes = notes

    def diagnostic(self) -> Diagnostic:
        notes = [Diagnostic.note(at, text) for at, text in self.notes]
        return Diagnostic(Severity.ERROR, self.location, self.message, notes)


class TokenReader:
    """A text and the offset of its next token, which the `parse_*` methods move."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        # The sentinel ends every scan, so that reading the next character needs no bounds check.
        self.text = source.text + "\0"
        self.pos = lexer.SKIP.match(self.text, 0).end()  # type: ignore[union-attr]
        self._depth = 0

    # ---- errors ------------------------------------------------------------------------------------------------------

    @property
    def offset(self) -> int:
        """Offset of the next token, to give to `error` later."""
        return self.pos

    def location_at(self, offset: int) -> SourceLoc:
        return SourceLoc(self.source, offset)

    def fail(self, offset: int, message: str, notes: tuple = ()) -> NoReturn:
        """Report a mistake in the text; `notes` are (location, message) pairs."""
        raise ParseError(SourceLoc(self.source, min(offset, len(self.source.text))), message, notes)

    def error(self, offset: int, message: str, notes: tuple = ()) -> NoReturn:
        """As `fail`, for the hooks of dialects: names the operation whose custom syntax is being read."""
        self.fail(offset, message, notes)

    def expected(self, label: str, in_hook: bool = False) -> NoReturn:
        """Report that the next token is not `label`.

        At the start of a line the error is located after the previous token, where the missing one belongs; in a hook
        (`in_hook`, as `error`) it is located at the next token.
        """
        at = self.pos
        if in_hook:
            self.error(at, f"expected {label}")
        gap = self.text[:at].rstrip()
        if "\n" in self.text[len(gap) : at] or at >= len(self.source.text):
            at = self._end_of_previous_token(at)
        self.fail(at, f"expected {label}")

    def _end_of_previous_token(self, at: int) -> int:
        """Skip white space and comments backwards."""
        while True:
            at = len(self.text[:at].rstrip().rstrip("\0").rstrip())
            line_start = self.text.rfind("\n", 0, at) + 1
            comment = self.text.find("//", line_start, at)
            if comment < 0 or self.text.count('"', line_start, comment) % 2:
                return at
            at = comment
            if not self.text[:at].strip():
                return 0

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            self.fail(self.pos, f"nesting is deeper than {MAX_NESTING} levels")

    # ---- tokens ------------------------------------------------------------------------------------------------------

    def _advance(self, count: int) -> None:
        self.pos = lexer.SKIP.match(self.text, self.pos + count).end()  # type: ignore[union-attr]

    def at_end(self) -> bool:
        return self.pos >= len(self.source.text)

    def peek(self, literal: str) -> bool:
        """Whether the next characters are `literal` (for words: the whole next word)."""
        if not self.text.startswith(literal, self.pos):
            return False
        if literal[-1].isalnum() or literal[-1] == "_":
            follow = self.text[self.pos + len(literal)]
            return not (follow.isalnum() or follow in "_$.")
        return literal != "-" or self.text[self.pos + 1] != ">"

    def parse_optional_punctuation(self, literal: str) -> bool:
        if not self.text.startswith(literal, self.pos):
            return False
        if literal in "-:" and self.text.startswith("->" if literal == "-" else "::", self.pos):
            return False
        self._advance(len(literal))
        return True

    def parse_punctuation(self, literal: str) -> None:
        if not self.parse_optional_punctuation(literal):
            self.expected(f"'{literal}'")

    def parse_optional_keyword(self, word: str) -> bool:
        if not self.text.startswith(word, self.pos):
            return False
        follow = self.text[self.pos + len(word)]
        if follow.isalnum() or follow in "_$.":
            return False
        self._advance(len(word))
        return True

    def parse_keyword(self, word: str) -> None:
        if not self.parse_optional_keyword(word):
            self.expected(f"'{word}'", in_hook=True)

    def parse_optional_any_keyword(self) -> str | None:
        match = lexer.KEYWORD.match(self.text, self.pos)
        if match is None:
            return None
        self.pos = match.end()
        return match[1]

    def parse_any_keyword(self) -> str:
        word = self.parse_optional_any_keyword()
        if word is None:
            self.expected("valid keyword", in_hook=True)
        return word

    def parse_keyword_or_string(self) -> str:
        word = self.parse_optional_any_keyword()
        if word is None:
            word = self.parse_optional_string()
        if word is None:
            self.expected("valid keyword or string", in_hook=True)
        return word

    def parse_optional_string(self) -> str | None:
        match = lexer.STRING_LITERAL.match(self.text, self.pos)
        if match is None:
            if self.text[self.pos] == '"':
                self.fail(self.pos, "expected '\"' in string literal")
            return None
        start = self.pos
        self.pos = match.end()
        return self._unquote(match[1], start)

    def _unquote(self, literal: str, start: int) -> str:
        try:
            return lexer.unquote(literal)
        except lexer.BadEscape as bad:
            self.fail(start + bad.offset, str(bad))

    def parse_string(self) -> str:
        value = self.parse_optional_string()
        if value is None:
            self.expected("string")
        return value

    def parse_optional_integer(self, below: int = 1 << 63) -> int | None:
        """A number of 64 bits, as MLIR keeps parameters and sizes; `below` is 2**64 for unsigned ones."""
        match = lexer.INTEGER.match(self.text, self.pos)
        if match is None:
            return None
        self.pos = match.end()
        value = self._integer(match[1], match.start(1))
        if not -1 << 63 <= value < below:
            self.fail(match.start(1), "integer value too large")
        return value

    def _integer(self, literal: str, start: int) -> int:
        # Python refuses to convert longer decimal literals.
        if len(literal) > MAX_DIGITS:
            self.fail(start, "integer literal is too long")
        return int(literal, 16) if "x" in literal else int(literal)

    def parse_integer(self) -> int:
        value = self.parse_optional_integer()
        if value is None:
            self.expected("integer value")
        return value

    def parse_float_literal(self, type: FloatType = f64) -> int:
        """Bits in `type` of a decimal or hexadecimal literal."""
        match = lexer.NUMBER.match(self.text, self.pos)
        if match is None:
            self.expected("floating point literal")
        start, literal = self.pos, match[1]
        self.pos = match.end()
        return self._float_bits(literal, type, start)

    def _float_bits(self, literal: str, type: FloatType, start: int) -> int:
        digits = literal.lstrip("+-")
        if not digits.startswith("0x"):
            return parse_decimal(literal, type)
        if literal[0] == "-":
            self.fail(start, "hexadecimal float literal should not have a leading minus")
        bits = int(digits, 16)
        if bits >> bit_width(type):
            self.fail(start, "hexadecimal float constant out of range for type")
        return bits

    def parse_symbol_name(self) -> str:
        match = lexer.SYMBOL.match(self.text, self.pos)
        if match is None:
            self.expected("valid '@'-identifier for symbol name")
        start = self.pos
        self.pos = match.end()
        name = match[1][1:]
        return self._unquote(name, start + 1) if name[0] == '"' else name

    def parse_comma_separated(self, item: Callable[[], Any], open: str = "", close: str = "") -> list:
        """Items between `open` and `close`; without them at least one item."""
        items: list = []
        if open:
            self.parse_punctuation(open)
            if self.parse_optional_punctuation(close):
                return items
        items.append(item())
        while self.parse_optional_punctuation(","):
            items.append(item())
        if close and not self.parse_optional_punctuation(close):
            self.expected(f"',' or '{close}'" if open else f"'{close}'")
        return items

    def parse_dimension_list(self, dynamic: bool = True) -> tuple[int, ...]:
        """`4x?x` to (4, DYNAMIC); stops in front of the element type."""
        shape = []
        while True:
            match = lexer.DIMENSION.match(self.text, self.pos)
            if match is None:
                self.pos = lexer.SKIP.match(self.text, self.pos).end()  # type: ignore[union-attr]
                return tuple(shape)
            size = match[1]
            if size is None:
                self.fail(self.pos, "unranked types are not supported")
            if size == "?":
                if not dynamic:
                    self.fail(self.pos, "expected static shape")
                shape.append(DYNAMIC)
            else:
                extent = self._integer(size, self.pos)
                if extent >= 1 << 63:
                    self.fail(self.pos, "invalid dimension")
                shape.append(extent)
            self.pos = match.end()

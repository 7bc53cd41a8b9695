"""The lexical grammar of MLIR text, as regular expressions that the parser applies where it stands.

There are no token objects.  The parser keeps an offset that is always at the start of a token; every expression
here ends with the white space and comments after the token, so that one match consumes a token and finds the next.
"""

from __future__ import annotations

import re

# White space and `// ...` comments.  The NUL that the reader puts after the text ends every token.  Possessive, since
# a row of slashes can be split into comments in very many ways and only the first is worth trying.
TRIVIA = r"\s*+(?://[^\n\0]*+\s*+)*+"

BARE_ID = r"[A-Za-z_][\w$.]*"
# suffix-id of the MLIR grammar: digits, or letters, digits and `$._-`.  Possessive: a lookahead after a name applies to
# the end of the whole name.
SUFFIX_ID = r"[\w$.\-]++"
VALUE_ID = rf"%{SUFFIX_ID}"
VALUE_USE = rf"%{SUFFIX_ID}(?:#\d++)?+"
STRING = r'"(?:[^"\\\n\0]|\\[^\n\0])*+"'

_PLAIN = r'[^<>"\0]*+'
# A whole type in one match: a name and the text in its angle brackets, four levels deep.  Deeper types, and those with
# `->` or strings inside, take the ordinary path.
_ANGLES = rf"<{_PLAIN}>"
for _ in range(3):
    _ANGLES = rf"<{_PLAIN}(?:{_ANGLES}{_PLAIN})*+>"
WHOLE_TYPE = rf"!?[A-Za-z_][\w$.]*(?:{_ANGLES})?"


def token(pattern: str) -> re.Pattern[str]:
    """`pattern` as group 1, and the trivia after it."""
    return re.compile(rf"({pattern}){TRIVIA}", re.ASCII)


SKIP = re.compile(TRIVIA, re.ASCII)
KEYWORD = token(BARE_ID)
KEYWORD_OR_STRING = token(rf"{BARE_ID}|{STRING}")
VALUE = token(VALUE_USE)
BLOCK_NAME = token(rf"\^{SUFFIX_ID}")
SYMBOL = token(rf"@(?:{SUFFIX_ID}|{STRING})")
STRING_LITERAL = token(STRING)
HASH = token(rf"#{BARE_ID}")
BANG = token(rf"!{BARE_ID}")
# `0x` followed by anything else is the digit zero in a dimension list (`0x4xf32`); callers that read dimensions use
# DIMENSION.
INTEGER = token(r"-?(?:0x[0-9A-Fa-f]+|\d+)(?![\w.])")
NUMBER = token(r"[+-]?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*(?:[eE][+-]?\d+)?)?)")
DIMENSION = re.compile(r"(\d+|\?)x|\*x", re.ASCII)
# Results and name of an operation; a generic operation has its name in quotes and leaves group 2 empty.
RESULT_LIST = rf"{VALUE_ID}(?:{TRIVIA}:{TRIVIA}\d+)?"
OPERATION = re.compile(
    rf"(?:({RESULT_LIST}(?:{TRIVIA},{TRIVIA}{RESULT_LIST})*){TRIVIA}={TRIVIA})?(?:({BARE_ID}){TRIVIA})?",
    re.ASCII,
)
RESULT = re.compile(rf"({VALUE_ID})(?:{TRIVIA}:{TRIVIA}(\d+))?{TRIVIA},?{TRIVIA}", re.ASCII)

_ESCAPE = re.compile(r"\\(?:([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_NAMED_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
_PRINTED_ESCAPES = {'"': "\\22", "\\": "\\\\"}


def __getattr__(name: str) -> re.Pattern[str]:
    # Compiling this expression takes longer than all others together, and only reading text needs it.
    if name != "TYPE":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    result = globals()["TYPE"] = token(WHOLE_TYPE)
    return result


class BadEscape(ValueError):
    """An escape that MLIR does not define; `offset` counts from the opening quote."""

    def __init__(self, offset: int) -> None:
        super().__init__("unknown escape in string literal")
        self.offset = offset


def unquote(literal: str) -> str:
    """The contents of a string literal given with its quotes.

    Bytes that are not UTF-8 (written as two-digit hexadecimal escapes) are kept as surrogate escapes.
    """
    body = literal[1:-1]
    if "\\" not in body:
        return body

    out = bytearray()
    at = 0
    for match in _ESCAPE.finditer(body):
        out += body[at : match.start()].encode("utf-8", "surrogateescape")
        if match[1] is not None:
            out.append(int(match[1], 16))
        elif match[2] in _NAMED_ESCAPES:
            out += _NAMED_ESCAPES[match[2]].encode()
        else:
            raise BadEscape(match.start() + 1)
        at = match.end()
    out += body[at:].encode("utf-8", "surrogateescape")
    return out.decode("utf-8", "surrogateescape")


_NEEDS_ESCAPE = re.compile(r'[^ !#-\[\]-~]')


def quote(text: str) -> str:
    """`text` as a string literal: printable ASCII as it is, every other byte as a two-digit escape (MLIR's form)."""
    if _NEEDS_ESCAPE.search(text) is None:
        return f'"{text}"'
    parts = []
    for byte in text.encode("utf-8", "surrogateescape"):
        character = chr(byte)
        if character in _PRINTED_ESCAPES:
            parts.append(_PRINTED_ESCAPES[character])
        elif 0x20 <= byte < 0x7F:
            parts.append(character)
        else:
            parts.append(f"\\{byte:02X}")
    return '"' + "".join(parts) + '"'


IS_BARE_ID = re.compile(rf"{BARE_ID}\Z", re.ASCII).match
IS_SUFFIX_ID = re.compile(r"(?:[A-Za-z_$.\-][\w$.\-]*|\d+)\Z", re.ASCII).match

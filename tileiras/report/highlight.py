"""Text of each level as HTML, line by line: Pygments tokenizes and escapes it."""

from __future__ import annotations

import html
import re

from pygments.lexer import Lexer, RegexLexer
from pygments.lexers import LlvmLexer, PtxLexer, PythonLexer
from pygments.token import Comment, Keyword, Literal, Name, Number, Operator, Punctuation, String, Text, _TokenType


class MlirLexer(RegexLexer):
    """Lexer of MLIR's textual form, which Pygments lacks (MLIR Language Reference, "Lexical conventions")."""

    name = "MLIR"
    tokens = {
        "root": [
            (r"//[^\n]*", Comment.Single),
            (r'"(?:[^"\\]|\\.)*"', String),
            (r"%[\w$.\-]+(?::\d+|#\d+)?", Name.Variable),
            (r"@[\w$.\-]+", Name.Function),
            (r"#[\w$.\-]+", Name.Constant),
            (r"![\w$.\-]+", Keyword.Type),
            (r"\^[\w$.\-]+", Name.Label),
            (r"\b(?:tile|tensor|vector|memref|ptr|tensor_view|partition_view)(?=<)", Keyword.Type),
            (r"\b(?:i|si|ui|f|bf|tf)\d+\w*\b|\bindex\b", Keyword.Type),
            (r"-?\b0x[0-9a-fA-F]+\b|-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b", Number),
            (r"[a-z_]\w*(?:\.[a-z_]\w*)+", Name.Builtin),
            (r"[A-Za-z_][\w$]*", Name),
            (r"[=:<>\-+*?]", Operator),
            (r"[(){}\[\],.]", Punctuation),
            (r"\s+", Text),
            (r".", Text),
        ]
    }


class SassLexer(RegexLexer):
    """Lexer of nvdisasm's listing."""

    name = "SASS"
    tokens = {
        "root": [
            (r"/\*.*?\*/", Comment),
            (r"//[^\n]*", Comment.Single),
            (r"@!?U?P\w+", Keyword),
            (r"^\s*\.[\w.$]+:?", Name.Label),
            (r"\b(?:R|UR)(?:\d+|Z)\b|\bU?P(?:\d|T)\b", Name.Variable),
            (r"\b[A-Z][A-Z0-9]+(?:\.[A-Z0-9_]+)+\b|\b[A-Z][A-Z0-9]{2,}\b", Name.Builtin),
            (r"-?\b0x[0-9a-f]+\b|\b\d+\b", Number),
            (r'"[^"\n]*"', String),
            (r"\w+", Name),
            (r"\s+", Text),
            (r".", Punctuation),
        ]
    }
    flags = re.MULTILINE


CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "c"), (String, "s"), (Number, "n"), (Literal, "n"), (Keyword, "k"), (Name.Builtin, "b"),
    (Name.Function, "f"), (Name.Decorator, "f"), (Name.Class, "f"), (Name.Variable, "v"), (Name.Constant, "a"),
    (Name.Label, "a"), (Operator.Word, "k"),
)  # fmt: skip
"""Kinds of coloured tokens -> their class in the page's style; the first match applies."""

TAG = "i"


def lexer_of(level: str, file: str) -> Lexer:
    """The lexer for the text of a level; for a source, by the suffix of its file."""
    options = {"stripnl": False, "ensurenl": False}
    if level == "source":
        return PythonLexer(**options) if file.endswith(".py") else MlirLexer(**options)
    if level == "llvm":
        return LlvmLexer(**options)
    if level == "ptx":
        return PtxLexer(**options)
    return SassLexer(**options) if level == "sass" else MlirLexer(**options)


def lines(text: str, lexer: Lexer) -> list[str]:
    """Each line of a text as HTML in which nothing of the text is markup; as many as `text.split("\\n")` has."""
    rows: list[list[str]] = [[]]
    for kind, value in _join(lexer, text):
        for number, part in enumerate(value.split("\n")):
            if number:
                rows.append([])
            if part:
                escaped = html.escape(part)
                rows[-1].append(f"<{TAG} class={kind}>{escaped}</{TAG}>" if kind else escaped)
    return ["".join(row) for row in rows]


def _join(lexer: Lexer, text: str) -> list[tuple[str, str]]:
    """(class, text), with neighbours of one class joined."""
    # Pygments also splits at line breaks of other systems, which would shift all later lines.
    plain = text.replace("\r", " ")
    result: list[tuple[str, str]] = []
    for token, value in lexer.get_tokens(plain):
        kind = _class_of(token)
        if result and (result[-1][0] == kind or not value.strip()):
            result[-1] = (result[-1][0], result[-1][1] + value)
        else:
            result.append((kind, value))
    return result


def _class_of(token: _TokenType) -> str:
    return next((name for kind, name in CLASSES if token in kind), "")

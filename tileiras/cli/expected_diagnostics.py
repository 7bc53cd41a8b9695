"""Diagnostics that a text declares as expected, for tests of diagnostics.

    // expected-error {{message}}             on this line
    // expected-note @below {{message}}       on the next line without such a comment
    // expected-warning @above {{message}}    on the one before
    // expected-remark @+2 {{message}}        two lines further down
    // expected-error @unknown {{message}}    without a position
    // expected-error-re {{any {{[0-9]+}}}}   with regular expressions in double braces

A diagnostic is expected when its severity and line agree and the message contains the text.
"""

from __future__ import annotations

import re
from typing import Iterable

from tileiras.diagnostics import Diagnostic, FilePosition, Severity

_EXPECTED = re.compile(
    r"expected-(error|note|remark|warning)(-re)? *(@(?:[+-][0-9]+|above|below|unknown))? *\{\{(.*)\}\}$"
)


class _Place:
    """A line of a file as the location of a diagnostic."""

    def __init__(self, filename: str, line: int, source_line: str) -> None:
        self.position = FilePosition(filename, line, 1, source_line)

    def resolve(self) -> FilePosition:
        return self.position


class _Expectation:
    __slots__ = ("severity", "line", "text", "pattern", "written_at", "met")

    def __init__(self, severity: str, line: int | None, text: str, is_regex: bool, written_at: int) -> None:
        self.severity = severity
        self.line = line
        self.text = text
        self.pattern = _regex(text) if is_regex else None
        self.written_at = written_at
        self.met = False

    def matches(self, severity: str, line: int | None, message: str) -> bool:
        if self.met or severity != self.severity or line != self.line:
            return False
        return self.pattern.search(message) is not None if self.pattern is not None else self.text in message


def _regex(text: str) -> re.Pattern[str]:
    parts = re.split(r"\{\{(.*?)\}\}", text)
    return re.compile("".join(part if number % 2 else re.escape(part) for number, part in enumerate(parts)))


def read_expectations(text: str) -> list[_Expectation]:
    """The expectations of a text; lines count from 1."""
    lines = text.split("\n")
    expectations: list[_Expectation] = []
    matches = [_EXPECTED.search(line.rstrip()) for line in lines]
    for number, match in enumerate(matches, 1):
        if match is None:
            continue
        severity, is_regex, place, message = match.groups()
        line: int | None = number
        if place == "@unknown":
            line = None
        elif place == "@above":
            line = next((n for n in range(number - 1, 0, -1) if matches[n - 1] is None), 0)
        elif place == "@below":
            line = next((n for n in range(number + 1, len(lines) + 1) if matches[n - 1] is None), 0)
        elif place is not None:
            line = number + int(place[1:])
        expectations.append(_Expectation(severity, line, message, is_regex is not None, number))
    return expectations


def _flatten(diagnostics: Iterable[Diagnostic]) -> Iterable[Diagnostic]:
    for diagnostic in diagnostics:
        yield diagnostic
        yield from _flatten(diagnostic.notes)


def check_diagnostics(text: str, filename: str, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Errors for the difference between `diagnostics` and the expectations in `text`: unexpected and missing ones."""
    expectations = read_expectations(text)
    failures: list[Diagnostic] = []
    for diagnostic in _flatten(diagnostics):
        position = diagnostic.position
        in_file = position is not None and position.filename == filename and position.line > 0
        line = position.line if position is not None and in_file else None
        severity = diagnostic.severity.value
        match = next((e for e in expectations if e.matches(severity, line, diagnostic.message)), None)
        if match is not None:
            match.met = True
        else:
            failures.append(
                Diagnostic(Severity.ERROR, diagnostic.location, f"unexpected {severity}: {diagnostic.message}")
            )
    lines = text.split("\n")
    for expectation in expectations:
        if not expectation.met:
            place = _Place(filename, expectation.written_at, lines[expectation.written_at - 1])
            failures.append(
                Diagnostic(
                    Severity.ERROR, place, f'expected {expectation.severity} "{expectation.text}" was not produced'
                )
            )
    return failures

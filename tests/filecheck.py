"""A FileCheck for the tests: CHECK, -NEXT, -SAME, -NOT, -DAG, -LABEL, -EMPTY, -COUNT-n, with captures.

`{{regex}}`, `[[NAME:regex]]` captures, `[[NAME]]` uses, `[[@LINE+1]]` is a line number of the check file.  Runs of
blanks are equal unless `--strict-whitespace`.
"""

from __future__ import annotations

import re
import sys
from typing import NamedTuple


class CheckError(Exception):
    """A check that does not hold, with the place in the check file and in the input."""


class Directive(NamedTuple):
    kind: str
    count: int
    pattern: str
    line: int


_INLINE = re.compile(r"\{\{(.*?)\}\}(?!\})|\[\[(\$?\w+):(.*?)\]\](?!\])|\[\[(\$?\w+)\]\]|\[\[#?@LINE([+-]\d+)?\]\]")


def read_directives(text: str, prefixes: list[str], strict: bool) -> list[Directive]:
    names = "|".join(map(re.escape, prefixes))
    line_pattern = re.compile(
        rf"(?<![\w-])(?:{names})(-NEXT|-SAME|-NOT|-DAG|-LABEL|-EMPTY|-COUNT-(\d+))?:(.*)$"
    )
    directives = []
    for number, line in enumerate(text.split("\n"), 1):
        match = line_pattern.search(line)
        if match is None:
            continue
        suffix = match[1] or ""
        count = int(match[2]) if match[2] else 1
        kind = "COUNT" if match[2] else suffix[1:]
        body = match[3].strip()
        if not strict:
            body = re.sub(r"[ \t]+", " ", body)
        if not body and kind != "EMPTY":
            raise CheckError(f"line {number}: found empty check string")
        directives.append(Directive(kind, count, body, number))
    if directives and directives[0].kind in ("NEXT", "SAME", "EMPTY"):
        raise CheckError(f"line {directives[0].line}: found -{directives[0].kind} without previous check line")
    return directives


class Checker:
    """Runs the directives over one input."""

    def __init__(self, directives: list[Directive], text: str, strict: bool, full_lines: bool) -> None:
        self.directives = directives
        self.text = text if strict else re.sub(r"[ \t]+", " ", text)
        self.full_lines = full_lines
        self.variables: dict[str, str] = {}

    def compile(self, directive: Directive) -> re.Pattern[str]:
        parts = []
        at = 0
        bound: set[str] = set()
        for match in _INLINE.finditer(directive.pattern):
            parts.append(re.escape(directive.pattern[at : match.start()]))
            at = match.end()
            if match[1] is not None:
                parts.append(f"(?:{match[1]})")
            elif match[2] is not None:
                name = match[2].lstrip("$")
                bound.add(name)
                parts.append(f"(?P<{name}>{match[3]})")
            elif match[4] is not None:
                name = match[4].lstrip("$")
                if name in bound:
                    parts.append(f"(?P={name})")
                elif name in self.variables:
                    parts.append(re.escape(self.variables[name]))
                else:
                    raise CheckError(f"line {directive.line}: undefined variable '{name}'")
            else:
                parts.append(str(directive.line + int(match[5] or 0)))
        parts.append(re.escape(directive.pattern[at:]))
        body = "".join(parts)
        return re.compile(rf"^ *(?:{body}) *$" if self.full_lines else body, re.MULTILINE)

    def fail(self, directive: Directive, message: str, at: int) -> CheckError:
        line = self.text.count("\n", 0, at) + 1
        shown = self.text[at:].split("\n")[:6]
        kind = f"-{directive.kind}" if directive.kind else ""
        context = "\n".join(f"    {text}" for text in shown)
        return CheckError(
            f"line {directive.line}: CHECK{kind}: {message}: {directive.pattern}\n"
            f"  scanning from input line {line}:\n{context}"
        )

    def find(self, directive: Directive, start: int, end: int) -> re.Match[str] | None:
        if directive.kind == "EMPTY":
            return re.compile(r"(?<=\n)(?=\n)|(?<=\n)\Z").search(self.text, start, end)
        return self.compile(directive).search(self.text, start, end)

    def accept(self, match: re.Match[str]) -> None:
        self.variables.update({name: value for name, value in match.groupdict().items() if value is not None})

    def run(self) -> None:
        """Raise CheckError at the first directive that does not hold."""
        blocks = self._blocks()
        for directives, start, end in blocks:
            self._block(directives, start, end)

    def _blocks(self) -> list[tuple[list[Directive], int, int]]:
        """The directives between labels with the part of the input that they belong to."""
        blocks: list[tuple[list[Directive], int, int]] = []
        current: list[Directive] = []
        start = search_from = 0
        for directive in self.directives:
            if directive.kind == "LABEL":
                match = self.find(directive, search_from, len(self.text))
                if match is None:
                    raise self.fail(directive, "expected string not found in input", search_from)
                blocks.append((current, start, match.start()))
                current, start, search_from = [directive], match.start(), match.end()
            else:
                current.append(directive)
        blocks.append((current, start, len(self.text)))
        return blocks

    def _block(self, directives: list[Directive], start: int, end: int) -> None:
        position = start
        negatives: list[Directive] = []
        index = 0
        while index < len(directives):
            directive = directives[index]
            if directive.kind == "NOT":
                negatives.append(directive)
                index += 1
                continue
            if directive.kind == "DAG":
                group = []
                while index < len(directives) and directives[index].kind == "DAG":
                    group.append(directives[index])
                    index += 1
                first, last = self._dag(group, position, end)
                self._negatives(negatives, position, first)
                negatives = []
                position = last
                continue
            for _ in range(directive.count):
                match = self.find(directive, position, end)
                if match is None:
                    raise self.fail(directive, "expected string not found in input", position)
                self._placement(directive, position, match)
                self._negatives(negatives, position, match.start())
                negatives = []
                self.accept(match)
                position = match.end()
            index += 1
        self._negatives(negatives, position, end)

    def _placement(self, directive: Directive, previous: int, match: re.Match[str]) -> None:
        lines = self.text.count("\n", previous, match.start())
        if directive.kind in ("NEXT", "EMPTY") and lines != 1:
            where = "on the same line as" if lines == 0 else "not on the line after"
            raise self.fail(directive, f"is {where} the previous match", previous)
        if directive.kind == "SAME" and lines != 0:
            raise self.fail(directive, "is not on the same line as the previous match", previous)

    def _dag(self, group: list[Directive], start: int, end: int) -> tuple[int, int]:
        taken: list[tuple[int, int]] = []
        for directive in group:
            at = start
            while True:
                match = self.find(directive, at, end)
                if match is None:
                    raise self.fail(directive, "expected string not found in input", start)
                overlap = next((e for s, e in taken if s < match.end() and match.start() < e), None)
                if overlap is None:
                    break
                at = overlap
            taken.append((match.start(), match.end()))
            self.accept(match)
        return min(s for s, _ in taken), max(e for _, e in taken)

    def _negatives(self, negatives: list[Directive], start: int, end: int) -> None:
        for directive in negatives:
            match = self.find(directive, start, end)
            if match is not None:
                raise self.fail(directive, "excluded string found in input", match.start())


def check(
    check_text: str, input_text: str, prefixes: list[str] | None = None, *, strict: bool = False,
    full_lines: bool = False, implicit_not: list[str] | None = None, allow_empty: bool = False,
) -> None:  # fmt: skip
    """Raise CheckError unless `input_text` fulfils the directives of `check_text`."""
    prefixes = prefixes or ["CHECK"]
    directives = read_directives(check_text, prefixes, strict)
    if not directives:
        raise CheckError(f"no check strings found with prefix {', '.join(prefix + ':' for prefix in prefixes)}")
    if not input_text.strip() and not allow_empty:
        raise CheckError("the input is empty")
    checker = Checker(directives, input_text, strict, full_lines)
    checker.run()
    for text in implicit_not or ():
        extra = Directive("NOT", 1, text, 0)
        result = checker.find(extra, 0, len(checker.text))
        if result is not None:
            raise checker.fail(extra, "excluded string found in input", result.start())


def main(argv: list[str]) -> int:
    prefixes: list[str] = []
    implicit: list[str] = []
    flags: set[str] = set()
    check_file = input_file = None
    arguments = iter(argv)
    for argument in arguments:
        name, equals, value = argument.lstrip("-").partition("=")
        if not argument.startswith("-"):
            check_file = argument
        elif name in ("check-prefix", "check-prefixes"):
            prefixes += (value if equals else next(arguments)).split(",")
        elif name == "implicit-check-not":
            implicit.append(value if equals else next(arguments))
        elif name == "input-file":
            input_file = value if equals else next(arguments)
        elif name in ("strict-whitespace", "match-full-lines", "allow-empty"):
            flags.add(name)
        elif name not in ("dump-input", "dump-input-context", "v", "vv"):
            print(f"FileCheck: unknown option '{argument}'", file=sys.stderr)
            return 2
    if check_file is None:
        print("FileCheck: no check file", file=sys.stderr)
        return 2
    with open(check_file, encoding="utf-8") as file:
        check_text = file.read()
    if input_file is not None:
        with open(input_file, encoding="utf-8") as file:
            text = file.read()
    else:
        text = sys.stdin.read()
    try:
        check(
            check_text,
            text,
            prefixes,
            strict="strict-whitespace" in flags,
            full_lines="match-full-lines" in flags,
            implicit_not=implicit,
            allow_empty="allow-empty" in flags,
        )
    except CheckError as error:
        print(f"{check_file}: {error}", file=sys.stderr)
        return 1
    return 0

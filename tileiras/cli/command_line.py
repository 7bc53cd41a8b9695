"""A command line by the rules of LLVM's `cl` library, which the vendor's assembler uses.

One dash or two, `--name=value` or `--name value`; names of one letter group (`-gO0`), prefix options keep what follows
unchanged (`-O=2` is the value `=2`); any next word is accepted as a value; the last occurrence wins.  All
mistakes are reported, in the order of the words, before the program exits.  The texts are those of LLVM's
`lib/Support/CommandLine.cpp`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tileiras.cli.process import CommandLineError
from tileiras.support.named_tuple import NamedTuple

FLAG = "flag"
STOP = "stop"

_TRUE = ("", "true", "TRUE", "True", "1")
_FALSE = ("false", "FALSE", "False", "0")
# The syntax that llvm::StringRef::getAsInteger accepts with radix 0.
_INTEGER = r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)"


class Spec(NamedTuple):
    """One option of a command line.

    `kind` is FLAG (may have a boolean value), STOP (no value), int, str or a tuple of the accepted words.  The program
    executes a STOP option, or an option with `stops` that is true, and exits.  `features` are the words that a
    comma-separated list may contain.
    """

    name: str
    kind: Any
    doc: str
    value: str = "value"
    prefix: bool = False
    hidden: bool = False
    features: tuple[str, ...] = ()
    repeated: bool = False
    """Values of all occurrences are kept."""
    stops: bool = False
    lists: bool = False
    """The diagnostic for a word that is not accepted lists the accepted ones."""
    accepts: Callable[[str], bool] | None = None
    """Further words that are accepted besides those of `kind`."""


class Stop(Exception):
    """An option that is executed alone: its `name`, and the `errors` in the words before it."""

    def __init__(self, name: str, errors: list[str]) -> None:
        self.name = name
        self.errors = errors


class _Mistake(Exception):
    """The error message for one word."""


class CommandLine:
    """Reads command lines for one table of options."""

    def __init__(
        self, program: str, specs: Iterable[Spec], aliases: Mapping[str, str], positional: int = 1
    ) -> None:
        self.program = program
        self.specs = {spec.name: spec for spec in specs}
        self.aliases = dict(aliases)
        self.positional = positional
        self.values: dict[str, Any] = {}
        """Option values of the words read so far, including those before and after a mistake."""
        self.files: list[str] = []
        """Files of words that were read, `@FILE`."""

    def parse(self, words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
        """The positional words and the values by option name.

        Raises CommandLineError with every mistake there is, Stop when an option of that kind is met.
        """
        inputs: list[str] = []
        values: dict[str, Any] = {}
        self.values = values
        self.files = []
        errors: list[str] = []
        rest = _expand(words, self.files)
        while rest:
            word = rest.pop(0)
            if word == "--":
                inputs += rest
                break
            if not word.startswith("-") or word == "-":
                inputs.append(word)
                continue
            try:
                self._word(word, rest, values, errors)
            except _Mistake as mistake:
                errors.append(f"{self.program}: {mistake}")
        if len(inputs) > self.positional:
            errors.append(
                f"{self.program}: Too many positional arguments specified!\n"
                f"Can specify at most {self.positional} positional arguments: See: {self.program} --help"
            )
        if errors:
            raise CommandLineError(*errors)
        return inputs, values

    def _find(self, name: str) -> Spec | None:
        return self.specs.get(self.aliases.get(name, name))

    def _word(self, word: str, rest: list[str], values: dict[str, Any], errors: list[str]) -> None:
        name = word[2:] if word.startswith("--") else word[1:]
        spelled, equals, text = name.partition("=")
        spec = self._find(spelled)
        value = text if equals else None
        if spec is None or equals and spec.prefix and len(spelled) == 1:
            spelled, value = self._group(name, values, errors)
            spec = self._find(spelled)
        if spec is None:
            near = self._nearest(name.partition("=")[0])
            if near:
                near = f"\n{self.program}: Did you mean '{_dashed(near)}'?"
            raise _Mistake(f"Unknown command line argument '{word}'.  Try: '{self.program} --help'{near}")
        self._take(spec, spelled, value, rest, values, errors)

    def _group(self, name: str, values: dict[str, Any], errors: list[str]) -> tuple[str, str | None]:
        """The last of the one-letter options that `name` consists of, and its value; the others are taken here."""
        while name:
            spec = self._find(name[0])
            if spec is None:
                break
            following = name[1:]
            if not following or spec.prefix:
                return name[0], following or None
            if following[0] == "=":
                return name[0], following[1:]
            if spec.kind not in (FLAG, STOP):
                errors.append(f"{self.program}: for the -{name[0]} option: may not occur within a group!")
                break
            self._take(spec, name[0], None, [], values, errors)
            name = following
        return "", None

    def _take(
        self, spec: Spec, spelled: str, value: str | None, rest: list[str], values: dict[str, Any], errors: list[str]
    ) -> None:
        if spec.kind == STOP:
            if value is not None:
                raise _Mistake(f"for the {_dashed(spelled)} option: does not allow a value! '{value}' specified.")
            raise Stop(spec.name, errors)
        if value is None and spec.kind != FLAG:
            if not rest or spec.prefix and len(spelled) == 1:
                raise _Mistake(f"for the {_dashed(spelled)} option: requires a value!{_listed(spec)}")
            value = rest.pop(0)
        try:
            item = _read(spec, value or "")
        except ValueError as error:
            raise _Mistake(f"for the {_dashed(spec.name)} option: {error}") from None
        if spec.stops and item:
            raise Stop(spec.name, errors)
        if spec.repeated:
            values.setdefault(spec.name, []).append(item)
        else:
            values[spec.name] = item

    def _nearest(self, name: str) -> str:
        import difflib

        names = [*(n for n, spec in self.specs.items() if not spec.hidden), *self.aliases]
        return next(iter(difflib.get_close_matches(name, names, 1, 0.5)), "")


def _expand(words: Sequence[str], files: list[str], within: tuple[str, ...] = ()) -> list[str]:
    """The words, with each `@FILE` replaced by the words of the file if it exists; `within` are files being read.

    Files that are read are appended to `files`.  Raises CommandLineError, in LLVM's words, for a file that includes
    itself and for one that cannot be read.
    """
    import os

    result: list[str] = []
    for word in words:
        path = os.path.normpath(os.path.join(os.getcwd(), word[1:]))
        if not word.startswith("@") or not os.path.exists(path):
            result.append(word)
            continue
        if os.path.realpath(path) in within:
            raise CommandLineError(f"recursive expansion of: '{path}'")
        try:
            with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
                text = file.read()
        except OSError as error:
            raise CommandLineError(f"cannot not open file '{path}': {error.strerror}") from None
        files.append(path)
        # Words of a process end at their first null character.
        inner = [word.partition("\0")[0] for word in _gnu_words(text)]
        result += _expand(inner, files, (*within, os.path.realpath(path)))
    return result


def _gnu_words(text: str) -> Iterator[str]:
    """Words as LLVM's TokenizeGNUCommandLine finds them: a backslash keeps any character, in quotes as well; a quote
    without its other half reaches to the end; an empty quotation is not a word."""
    word = quote = ""
    characters = iter(text)
    for character in characters:
        if character == "\\":
            word += next(characters, character)
        elif character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        elif not quote and character in " \t\r\n":
            if word:
                yield word
            word = ""
        else:
            word += character
    if word:
        yield word


def _dashed(name: str) -> str:
    return ("--" if len(name) > 1 else "-") + name


def _listed(spec: Spec) -> str:
    """A line that lists the words that an option accepts; empty if it has no list."""
    return f"\nnote: {_dashed(spec.name)} takes {', '.join(spec.kind)}" if spec.lists else ""


def _read(spec: Spec, text: str) -> Any:
    """Raise ValueError with LLVM's words."""
    kind = spec.kind
    if kind == FLAG:
        if text not in _TRUE + _FALSE:
            raise ValueError(f"'{text}' is invalid value for boolean argument! Try 0 or 1")
        return text in _TRUE
    if kind is int:
        # Most numbers have one digit; compiling the pattern takes as long as reading the other options.
        is_number = text in ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9") or re.fullmatch(_INTEGER, text)
        number = _integer(text) if is_number else 2**31
        if not -(2**31) <= number < 2**31:
            raise ValueError(f"'{text}' value invalid for integer argument!")
        return number
    if spec.features:
        for word in text.split(","):
            if word not in spec.features:
                raise ValueError(
                    f"unknown {spec.name} feature '{word}'; supported features: {', '.join(spec.features)}"
                )
        return tuple(text.split(","))
    if isinstance(kind, tuple) and text not in kind and not (spec.accepts is not None and spec.accepts(text)):
        raise ValueError(f"Cannot find option named '{text}'!{_listed(spec)}")
    return text


def _integer(text: str) -> int:
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    if len(digits) > 1 and digits[0] == "0" and digits.isdigit():
        return sign * int(digits, 8)
    return sign * int(digits, 0)

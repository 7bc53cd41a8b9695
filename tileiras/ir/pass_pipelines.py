"""Textual pipelines: `anchor(pass{key=value ...},pipeline{key=value ...})`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tileiras.diagnostics import CompileError, ExitCode, FilePosition

from .pass_manager import MODULE, Pass
from .registry import lookup_operation
from .traits import IsolatedFromAbove, SymbolTable

Pipelines = Mapping[str, Callable[[str], list[Pass]]]
"""Name of a pipeline -> function that builds its passes from the text between its braces."""


def parse_pipeline(
    text: str, lookup: Callable[[str], type[Pass]], pipelines: Pipelines | None = None, source: str = "<pass-pipeline>"
) -> list[Pass]:
    """The passes of a textual pipeline, `anchor(pass{key=value ...},pipeline{key=value ...})`.

    Raises CompileError (code 2) for an unknown pass or option, an anchor that cannot stand where it does, or a mistake
    in the text: at its place in `source`, or without one where that is empty.
    """
    return _PipelineParser(text, source, lookup, pipelines or {}).run()


class _Place:
    """A place in the text of a pipeline."""

    __slots__ = ("_position",)

    def __init__(self, source: str, text: str, at: int) -> None:
        line = text.count("\n", 0, at)
        column = at - (text.rfind("\n", 0, at) + 1)
        self._position = FilePosition(source, line + 1, column + 1, text.split("\n")[line])

    def resolve(self) -> FilePosition:
        return self._position


class _PipelineParser:
    """Reads one textual pipeline."""

    def __init__(self, text: str, source: str, lookup: Callable[[str], type[Pass]], pipelines: Pipelines) -> None:
        self.text = text
        self.source = source
        self.lookup = lookup
        self.pipelines = pipelines
        self.at = 0
        self.passes: list[Pass] = []

    def run(self) -> list[Pass]:
        self._list(())
        if self._peek():
            raise self._error(self.at, f"expected end of pipeline, got '{self.text[self.at :]}'")
        return self.passes

    def _error(self, at: int, message: str) -> CompileError:
        place = _Place(self.source, self.text, at) if self.source else None
        return CompileError.at(place, message, ExitCode.CONFIGURATION)

    @contextlib.contextmanager
    def _placed(self, at: int) -> Iterator[None]:
        """Adds the place in the text to errors of passes and pipelines, which do not know it."""
        try:
            yield
        except CompileError as error:
            if self.source:
                place = _Place(self.source, self.text, at)
                moved = [d if d.location is not None else d.moved(place, d.notes) for d in error.diagnostics]
                raise CompileError(moved, error.code) from None
            raise

    def _peek(self) -> str:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def _list(self, path: tuple[str, ...]) -> None:
        """The elements of a pipeline inside the anchors of `path`."""
        while True:
            self._element(path)
            if self._peek() != ",":
                return
            self.at += 1

    def _element(self, path: tuple[str, ...]) -> None:
        self._peek()
        start = self.at
        match = re.compile(r"[\w.$-]+").match(self.text, start)
        if match is None:
            raise self._error(start, f"expected a pass name at '{self.text[start:]}'")
        name = match[0]
        self.at = match.end()
        braces = self._braces() if self._peek() == "{" else None
        if self._peek() == "(":
            if braces is not None:
                raise self._error(start, f"the operation '{name}' has no options")
            self._nested(name, start, path)
        elif name in self.pipelines:
            if path not in ((), (MODULE,)):
                message = f"pipeline '{name}' anchored on '{MODULE}' added to pipeline anchored on '{path[-1]}'"
                raise self._error(start, message)
            with self._placed(start):
                self.passes += self.pipelines[name](braces[1] if braces else "")
        else:
            with self._placed(start):
                made = self.lookup(name)
            item = self._made(made, start, braces)
            if path and item.anchor not in ("", path[-1]):
                message = f"pass '{name}' anchored on '{item.anchor}' added to pipeline anchored on '{path[-1]}'"
                raise self._error(start, message)
            item.path = path
            self.passes.append(item)

    def _braces(self) -> tuple[int, str]:
        """The start of the text in braces, and the text; values of options may have braces as well."""
        depth = 0
        for match in re.compile("[{}]").finditer(self.text, self.at):
            depth += 1 if match[0] == "{" else -1
            if depth == 0:
                start, self.at = self.at + 1, match.end()
                return start, self.text[start : match.start()]
        raise self._error(self.at, "expected '}' after the options")

    def _nested(self, name: str, start: int, path: tuple[str, ...]) -> None:
        op_class = lookup_operation(name)
        if op_class is None:
            raise self._error(start, f"unknown pipeline anchor '{name}'")
        if not op_class.has_trait(IsolatedFromAbove):
            raise self._error(start, "nested pipeline anchor must be IsolatedFromAbove")
        around = lookup_operation(path[-1]) if path else None
        # Modules of kernels contain functions; the parent of any other module is a builtin.module.
        module = op_class.has_trait(SymbolTable)
        if around is not None and (not around.has_trait(SymbolTable) or module and path[-1] != MODULE):
            raise self._error(start, f"'{name}' cannot stand in '{path[-1]}', on which the pipeline is anchored")
        opened = self.at
        self.at += 1
        if self._peek() != ")":
            self._list((*path, name))
        if self._peek() != ")":
            raise self._error(opened, f"expected ')' after the passes of '{name}'")
        self.at += 1

    def _made(self, made: type[Pass], start: int, braces: tuple[int, str] | None) -> Pass:
        options: dict[str, Any] = {}
        inside, text = braces or (start, "")
        for word in re.finditer(r"(?:\{[^{}]*\}|\S)+", text):
            key, given, value = word[0].partition("=")
            if not key:
                raise self._error(inside + word.start(), f"expected the name of an option at '{word[0]}'")
            if value in ("true", "false") or not given:
                options[key] = value != "false"
            else:
                options[key] = int(value) if re.fullmatch(r"-?[0-9]+", value) else value
            at = inside + word.start()
            if value.startswith("{"):
                for field in re.finditer(r"[^\s{}]+", value):
                    with self._placed(at + len(key) + 1 + field.start()):
                        made(**{key: field[0]})
            with self._placed(at):
                made(**{key: options[key]})
        with self._placed(start):
            return made(**options)

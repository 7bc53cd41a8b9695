"""Manuals of the commands as data, from their tables of options: the source of help, shell completion and man pages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras.options import OPTIONS, Option, accepted
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    import argparse

    from tileiras.cli.command_line import Spec

PROGRAMS = {
    "tileiras": "tileiras.cli.driver_options",
    "tileiras-cache": "tileiras.cli.tileiras_cache",
    "tileiras-check": "tileiras.cli.tileiras_check",
    "tileiras-embed": "tileiras.cli.tileiras_embed",
    "tileiras-opt": "tileiras.cli.tileiras_opt",
    "tileiras-report": "tileiras.cli.tileiras_report",
    "tileiras-run": "tileiras.cli.tileiras_run",
    "tileiras-server": "tileiras.processes.service.command",
    "tileiras-sweep": "tileiras.cli.tileiras_sweep",
    "tileiras-translate": "tileiras.cli.tileiras_translate",
    "tileiras-watch": "tileiras.cli.tileiras_watch",
    "tileirdisasm": "tileiras.cli.tileirdisasm",
}
"""Command -> the module with its table: a function `manual`, or `build_parser` where argparse reads the line."""

OPTION_GROUP = "Options"
COMPILER_GROUP = "Options of the compiler"

FILES = frozenset(("file", "folder", "path", "dir", "in", "source", "out"))
"""Names of values that are paths."""


class Row(NamedTuple):
    """One option."""

    names: tuple[str, ...]
    """Its spellings with their dashes, short ones first."""
    value: str
    """The placeholder of its value; empty for a flag."""
    doc: str
    group: str = OPTION_GROUP
    words: tuple[str, ...] = ()
    """The accepted values, if they are few."""

    @property
    def is_file(self) -> bool:
        return self.value.lower() in FILES

    @property
    def spelled(self) -> str:
        """`-o, --output-file=<file>`."""
        between = "=" if len(self.names[-1]) > 2 else " "
        return ", ".join(self.names) + (f"{between}<{self.value}>" if self.value else "")


class Manual(NamedTuple):
    """One command."""

    program: str
    summary: str
    usage: str
    text: str
    rows: tuple[Row, ...]
    verbs: tuple[tuple[str, str], ...] = ()
    """Words that select an action, with their texts."""


def manual_of(program: str) -> Manual:
    """The manual of one of PROGRAMS."""
    import importlib

    module: Any = importlib.import_module(PROGRAMS[program])
    return of_parser(module.build_parser()) if hasattr(module, "build_parser") else module.manual()


# ---- from tables -----------------------------------------------------------------------------------------------------


def doc_of(option: Option) -> str:
    """The text of an option of the compiler, with the accepted values and the default."""
    doc = _capital(option.doc)
    if option.choices and option.kind is not bool:
        doc += f": {accepted(option)}"
    if option.default not in (None, False, ()):
        doc += f"; default {option.default}"
    return doc


def row_of(spec: Spec, aliases: Mapping[str, str] = {}, group: str = OPTION_GROUP) -> Row:
    """The row of an option of a table of `cli.command_line`."""
    from tileiras.cli.command_line import FLAG, STOP

    names = sorted((alias for alias, name in aliases.items() if name == spec.name), key=lambda name: (len(name), name))
    words = tuple(spec.kind) if isinstance(spec.kind, tuple) else spec.features
    option = OPTIONS.get(spec.name)
    doc = _capital(spec.doc)
    if option is not None:
        doc, words = doc_of(option), tuple(map(str, option.choices))
    elif isinstance(spec.kind, tuple):
        doc += f": {', '.join(spec.kind)}"
    value = "" if spec.kind in (FLAG, STOP) else spec.value
    return Row(tuple(map(dashed, (*names, spec.name))), value, doc, group, words)


def of_table(
    program: str, summary: str, usage: str, text: str, table: Mapping[str, tuple[str, str]],
    passes: Iterable[tuple[str, str, str]] = (),
) -> Manual:  # fmt: skip
    """The manual of a command whose options are name -> (value's name, text); `passes` are options as well."""
    rows = [Row((dashed(name),), value.lower(), _capital(doc)) for name, (value, doc) in table.items()]
    for name, value, doc in passes:
        rows.append(Row((name,), value, _capital(" ".join(doc.partition("\n\n")[0].split())), "Passes"))
    return Manual(program, summary.strip().rstrip("."), usage.strip(), text, tuple(rows))


def of_parser(parser: argparse.ArgumentParser) -> Manual:
    """The manual of a command whose line argparse reads."""
    head, _, text = (parser.description or "").partition("\n")
    summary = head.partition(": ")[2] or head
    rows: list[Row] = []
    verbs: list[tuple[str, str]] = []
    for action in parser._actions:
        if isinstance(action.choices, Mapping):  # the commands of a command
            verbs += [(choice.dest, choice.help or "") for choice in action._get_subactions()]
            for sub in action.choices.values():
                rows += [row for row in map(_row_of_action, _options(sub)) if row not in rows]
    rows[:0] = map(_row_of_action, _options(parser))
    usage = parser.format_usage().removeprefix("usage: ")
    result = summary.strip().rstrip("."), " ".join(usage.split()), text.strip("\n")
    return Manual(parser.prog, *result, tuple(rows), tuple(verbs))


def _options(parser: argparse.ArgumentParser) -> Iterable[Any]:
    return [action for action in parser._actions if action.option_strings]


def _row_of_action(action: Any) -> Row:
    import argparse

    names = tuple(sorted(action.option_strings, key=len))
    value = "" if action.nargs == 0 else (action.metavar or action.dest.replace("_", "-")).lower()
    words = tuple(map(str, action.choices)) if action.choices is not None else ()
    if action.help == argparse.SUPPRESS:
        option = next(option for option in OPTIONS.values() if option.attribute == action.dest)
        return Row(names, value, doc_of(option), COMPILER_GROUP, tuple(map(str, option.choices)))
    doc = _capital((action.help or "").replace("%(default)s", str(action.default)))
    listed = f"{doc}{': ' if doc else ''}{', '.join(words)}" if words else doc
    return Row(names, value, listed, OPTION_GROUP, words)


def dashed(name: str) -> str:
    """The spelling of an option by its length."""
    return ("--" if len(name) > 1 else "-") + name


def _capital(doc: str) -> str:
    return doc[:1].upper() + doc[1:]


# ---- help ------------------------------------------------------------------------------------------------------------

NARROWEST, WIDEST = 60, 110
_COLUMN = 30
"""Where texts begin."""


def terminal_width() -> int:
    """Columns for help: those of the terminal, or of COLUMNS, within bounds in which a table can be read."""
    import shutil

    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size().columns))


def grouped(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows by group, groups in the order of their first rows."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    return groups


def help_text(manual: Manual, width: int | None = None) -> str:
    """The text of `--help`, no line longer than `width` columns."""
    width = terminal_width() if width is None else width
    overview = fitted(f"OVERVIEW: {manual.program}: {manual.summary}", width)
    lines = [overview, "", fitted(f"USAGE: {manual.usage}", width)]
    if manual.verbs:
        lines += ["", "COMMANDS:"]
        for verb, doc in manual.verbs:
            lines += _entry(f"{manual.program} {verb}", doc, width)
    for group, rows in grouped(manual.rows).items():
        lines += ["", f"{group.upper()}:"]
        for row in rows:
            lines += _entry(row.spelled, row.doc, width)
    if manual.text:
        lines += ["", fitted(manual.text, width)]
    return "\n".join(lines) + "\n"


def fitted(text: str, width: int) -> str:
    """Paragraphs of prose in lines of at most `width` columns; indented lines, which are to be copied, as they are."""
    import textwrap

    paragraphs = []
    for paragraph in text.split("\n\n"):
        prose = not any(line.startswith("    ") for line in paragraph.split("\n"))
        words = textwrap.wrap(" ".join(paragraph.split()), width, break_long_words=False, break_on_hyphens=False)
        paragraphs.append("\n".join(words) if prose else paragraph)
    return "\n\n".join(paragraphs)


def _entry(spelled: str, doc: str, width: int) -> list[str]:
    """`  --name=<value>    - text`, the text in its column, which long spellings have in the next line."""
    import textwrap

    wrapped = textwrap.wrap(doc, width - _COLUMN - 2, break_long_words=False, break_on_hyphens=False) or [""]
    first, *rest = wrapped
    head = f"  {spelled}"
    lines = [f"{head:<{_COLUMN - 1}} - {first}"] if len(head) < _COLUMN else [head, " " * _COLUMN + f"- {first}"]
    return lines + [" " * (_COLUMN + 2) + line for line in rest]


# ---- man pages -------------------------------------------------------------------------------------------------------


def man_page(manual: Manual) -> str:
    """The page for section 1, in the macros of man(7)."""
    version = tileiras.__version__
    lines = [f'.TH {manual.program.upper()} 1 "" "tileiras {version}" "tileiras"', ".SH NAME"]
    lines += [f"{_roff(manual.program)} \\- {_roff(manual.summary)}", ".SH SYNOPSIS", _roff(manual.usage)]
    if manual.verbs:
        lines.append(".SH COMMANDS")
        for verb, doc in manual.verbs:
            lines += [".TP", f".B {_roff(verb)}", _roff(doc)]
    for group, rows in grouped(manual.rows).items():
        lines.append(f'.SH "{group.upper()}"')
        for row in rows:
            lines += [".TP", f".B {_roff(row.spelled)}", _roff(row.doc)]
    if manual.text:
        lines += [".SH DESCRIPTION", ".nf", *map(_roff, manual.text.split("\n")), ".fi"]
    others = ", ".join(f"{_roff(name)}(1)" for name in PROGRAMS if name != manual.program)
    return "\n".join([*lines, '.SH "SEE ALSO"', others]) + "\n"


def _roff(text: str) -> str:
    """Text without a meaning of its own to the formatter."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", escaped)


def write_man_pages(folder: str) -> list[str]:
    """Write every page into a folder, which may be new; returns the paths.  Raises OSError."""
    os.makedirs(folder, exist_ok=True)
    paths = []
    for program in PROGRAMS:
        paths.append(os.path.join(folder, f"{program}.1"))
        with open(paths[-1], "w", encoding="utf-8") as file:
            file.write(man_page(manual_of(program)))
    return paths

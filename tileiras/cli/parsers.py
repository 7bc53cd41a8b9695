"""Command lines that argparse reads: one class for all commands, with `--version` and help that fits the terminal."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from tileiras import cli
from tileiras.cli.process import UsageError


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str, **keywords: Any) -> None:
        super().__init__(prog, **{"width": cli.manual.terminal_width(), "max_help_position": 26, **keywords})

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return cli.manual.fitted(text, width)


class SubParser(argparse.ArgumentParser):
    """A part of a command line; mistakes are UsageErrors."""

    def error(self, message: object) -> NoReturn:  # type: ignore[override]
        raise UsageError(message if isinstance(message, str) else str(message))


class Parser(SubParser):
    """The whole command line of `program`; `description` is the docstring of its module."""

    def __init__(self, program: str, description: str | None) -> None:
        super().__init__(prog=program, description=description, formatter_class=_Formatter)
        self.add_argument("--version", action=_Version, help="print the version, and the toolkits found, and exit")


class _Version(argparse.Action):
    """Prints `cli.toolkits.version_text` and ends the program."""

    def __init__(self, option_strings: Any, dest: str, **keywords: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, **keywords)

    def __call__(self, parser: argparse.ArgumentParser, *rest: Any) -> None:
        print(cli.toolkits.version_text(parser.prog), end="")
        parser.exit()

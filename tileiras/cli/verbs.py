"""Words that `tileiras` takes instead of a file: doctor, completion, man, libtileiras, operators, package,
language-server.

A file of such a name in the current folder is the input, as for the vendor's tool.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import tileiras
from tileiras import cli
from tileiras.cli import process
from tileiras.cli.process import UsageError
from tileiras.diagnostics import CompileError, ExitCode


def run(words: Sequence[str]) -> int:
    """The exit code of `tileiras WORD ...`; the first of `words` is one of driver_options.VERBS."""
    verb, *rest = words
    try:
        return _RUN[verb](rest)
    except UsageError as error:
        process.tell(f"tileiras {verb}: error", error)
        return ExitCode.USAGE


def _doctor(words: list[str]) -> int:
    return cli.tileiras_doctor.main(words)


def _completion(words: list[str]) -> int:
    shells = cli.completion.SHELLS
    if len(words) != 1 or words[0] not in shells:
        raise UsageError(f"a shell is expected: {', '.join(shells)}")
    print(cli.completion.completion(words[0]), end="")
    return ExitCode.SUCCESS


def _man(words: list[str]) -> int:
    programs = cli.manual.PROGRAMS
    if len(words) == 2 and words[0] == "--all":
        try:
            print("\n".join(cli.manual.write_man_pages(words[1])))
        except OSError as error:
            print(f"error: unable to write '{error.filename}': {error.strerror}", file=sys.stderr)
            return ExitCode.CONFIGURATION
        return ExitCode.SUCCESS
    program = words[0] if words else "tileiras"
    if len(words) > 1 or program not in programs:
        raise UsageError(f"one of the commands is expected, or --all FOLDER: {', '.join(programs)}")
    print(cli.manual.man_page(cli.manual.manual_of(program)), end="")
    return ExitCode.SUCCESS


def _libtileiras(words: list[str]) -> int:
    if len(words) != 1 or words[0].startswith("-"):
        raise UsageError("a folder is expected, below which lib/ and include/ are written")
    try:
        print("\n".join(tileiras.build.compiler_library.install(words[0])))
    except CompileError as error:
        process.complain(error.render())
        return error.code
    except OSError as error:
        print(f"error: unable to write '{error.filename}': {error.strerror}", file=sys.stderr)
        return ExitCode.CONFIGURATION
    return ExitCode.SUCCESS


def _operators(words: list[str]) -> int:
    return cli.tileiras_operators.main(words)


def _package(words: list[str]) -> int:
    return cli.tileiras_package.main(words)


def _language_server(words: list[str]) -> int:
    try:
        return cli.language_server.main(words)
    except CompileError as error:
        process.complain(error.render())
        return error.code


_RUN: dict[str, Callable[[list[str]], int]] = {
    "doctor": _doctor, "completion": _completion, "man": _man, "libtileiras": _libtileiras, "operators": _operators,
    "package": _package, "language-server": _language_server,
}  # fmt: skip

"""tileiras-cache stats|verify|trim|clear|path|why KERNEL|prepare|keygen FILE: the artifact store as a user sees it.

Works on the store of the checkout that it is called in, TILEIRAS_CACHE_DIR, or the user's cache directory, as builds
do.
`prepare` is for who installs the compiler where no store is: it has the package's modules compiled, and libdevice taken
apart beside them; `keygen` makes the key that a writer signs rows on a team's server with.
Exit codes: 0, 1 for a command line that cannot be read, a kernel that is not known or a file that cannot be written, 3
when damage was found.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras import cli
from tileiras.cli import process
from tileiras.cli.process import UsageError

if TYPE_CHECKING:
    import argparse

USAGE = 1
DAMAGE = 3


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parsers.Parser("tileiras-cache", "Looks after the artifact store of builds.")
    common = cli.parsers.SubParser(add_help=False)
    common.add_argument("--store", metavar="DIR", help="the store; default: the one of builds in this folder")
    common.add_argument("--json", action="store_true", help="answer in JSON")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=cli.parsers.SubParser
    )
    commands.add_parser("stats", parents=[common], help="entries and bytes, by stage")
    commands.add_parser("verify", parents=[common], help="read every entry and remove damaged ones")
    trim = commands.add_parser("trim", parents=[common], help="remove the least recently used entries")
    trim.add_argument("--size", help="size limit: bytes, or a number with K, M, G or T; default: the configured limit")
    commands.add_parser("clear", parents=[common], help="remove every entry")
    commands.add_parser("path", parents=[common], help="print the store's directory")
    why = commands.add_parser("why", parents=[common], help="changed inputs of the last run of a kernel's stages")
    why.add_argument("kernel", help="a source file, an entry, or an artifact's path without its suffix")
    prepare = commands.add_parser("prepare", help="compile modules and split libdevice, for processes without a store")
    prepare.add_argument("--libdevice", metavar="FILE", help="the library, or a toolkit's root; default: the one found")
    prepare.add_argument("--json", action="store_true", help="answer in JSON")
    keygen = commands.add_parser("keygen", help="create a key that signs uploads, and its public key FILE.pub")
    keygen.add_argument("file", metavar="FILE", help="the private key; an existing file is not overwritten")
    keygen.add_argument("--comment", default="", help="the owner, as a comment on the public key")
    keygen.add_argument("--json", action="store_true", help="answer in JSON")
    why.add_argument("--build", metavar="DIR", default="build", help="the build directory; default build")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; returns the exit code."""
    import sqlite3

    try:
        options = build_parser().parse_args(arguments)
    except SystemExit as stopped:
        return USAGE if stopped.code else 0
    except UsageError as error:
        process.tell("tileiras-cache: error", error)
        return USAGE
    if options.command == "prepare":
        return _prepare(options.libdevice, options.json)
    if options.command == "keygen":
        return _keygen(options.file, options.comment, options.json)
    directory = options.store or tileiras.build.store.local.directory_for(os.getcwd())
    try:
        if options.command == "path":
            answer: dict[str, Any] = {"directory": directory}
            _print(answer, options.json, directory)
            return 0
        if options.command == "why":
            return _why(options.kernel, options.build, options.json)
        size = (
            tileiras.build.store.local.parse_size(options.size) if options.command == "trim" and options.size else None
        )
        return _maintain(options.command, directory, size, options.json)
    except ValueError as error:
        process.complain(f"error: {error}")
        return USAGE
    except sqlite3.DatabaseError as error:
        process.complain(f"error: {directory}: {error}; the next build sets damaged databases aside")
        return DAMAGE


def _maintain(command: str, directory: str, size: int | None, json: bool) -> int:
    if command == "stats":
        answer = tileiras.build.store.maintenance.statistics(directory)
        lines = [
            f"{directory}: {answer['entries']} entries, {_size(answer['bytes'])}"
            + (f" of at most {_size(answer['limit'])}" if answer["limit"] else "")
        ]
        for stage, row in answer["stages"].items():
            lines.append(f"  {stage:<8}{row['entries']:>8} entries{_size(row['bytes']):>12}")
    elif command == "verify":
        answer = tileiras.build.store.maintenance.verify(directory)
        lines = [f"{answer['checked']} entries read, {len(answer['damaged'])} damaged and removed"]
        lines += [f"  {key}" for key in answer["damaged"]]
        if answer["repaired"]:
            lines.append(f"{answer['repaired']} left-overs of interrupted writes removed")
    elif command == "trim":
        answer = tileiras.build.store.maintenance.trim(
            directory, tileiras.build.store.local.size_limit() if size is None else size
        )
        lines = [f"{answer['removed']} entries removed, {_size(answer['bytes'])} left"]
    else:
        answer = tileiras.build.store.maintenance.clear(directory)
        lines = [f"{answer['removed']} entries removed"]
    _print(answer, json, "\n".join(lines))
    return DAMAGE if answer.get("damaged") else 0


def _prepare(option: str | None, json: bool) -> int:
    library = tileiras.codegen.libdevice.find(option)
    if library is None:
        hint = option or tileiras.codegen.toolkit.to_install("nvidia-nvvm", tileiras.codegen.llvm_identity.LIBDEVICE)
        process.complain(f"error: could not find libdevice.bc: {hint}")
        return USAGE
    try:
        modules = tileiras.build.compiled_modules.compile_package()
        path = library.prepare()
    except OSError as error:
        process.complain(f"error: unable to write '{error.filename}': {error.strerror}")
        return USAGE
    except RuntimeError as error:
        process.complain(f"error: {library.path} is no bitcode: {error}")
        return USAGE
    _print({"file": path, "modules": modules}, json, f"{modules} modules compiled\n{path}")
    return 0


def _keygen(path: str, comment: str, json: bool) -> int:
    try:
        line = tileiras.build.store.signing.make_key(path, " ".join(comment.split()))
    except OSError as error:
        process.complain(f"error: unable to write '{error.filename}': {error.strerror}")
        return USAGE
    except ValueError as error:
        process.complain(f"error: {error}")
        return USAGE
    _print({"private": path, "public": path + ".pub", "line": line}, json, line)
    return 0


def _why(kernel: str, build: str, json: bool) -> int:
    """Print, per stage of a kernel, the parts of its key that differed when it last ran."""
    history = tileiras.build.ledger.history.History(build)
    order = list(tileiras.pipeline.BY_NAME)
    name = kernel.replace(os.sep, "/").removeprefix("./")
    prefix = os.path.basename(os.path.abspath(build)) + "/"
    names = {name, name.removeprefix(prefix)}
    every = list(history.entries())
    entries = [entry for entry in every if names & {entry.source, entry.stem, entry.stem.rpartition("/")[2]}]
    # An entry's own stages are printed together with those of its file.
    stems = {entry.stem.rpartition("/")[0] for entry in entries}
    entries += [entry for entry in every if entry not in entries and entry.stem in stems and entry.stage in order[:2]]
    if not entries:
        process.complain(f"error: no build of '{kernel}' is known in {build}")
        return USAGE
    entries.sort(key=lambda entry: (entry.stem, order.index(entry.stage)))
    rows, lines = [], []
    for entry in entries:
        differences = history.differences(entry)
        rows.append({"artifact": entry.stem, "stage": entry.stage, "outcome": entry.outcome, "differs": differences})
        lines.append(f"{entry.stem}: {entry.stage} {entry.outcome}")
        lines += [f"  {line}" for line in differences or [tileiras.build.ledger.history.SAME_KEY]]
    _print(rows, json, "\n".join(lines))
    return 0


def _size(count: int) -> str:
    for unit, scale in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << scale:
            return f"{count / (1 << scale):.1f} {unit}"
    return f"{count} B"


def _print(answer: object, json: bool, text: str) -> None:
    if json:
        from json import dumps

        print(dumps(answer, indent=2, sort_keys=True))
    else:
        print(text)


def program() -> int:
    """`main` as a process of its own."""
    return process.run(main)


if __name__ == "__main__":
    sys.exit(program())

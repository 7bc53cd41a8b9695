"""tileiras-translate: between Tile IR text and bytecode.

    tileiras-translate --mlir-to-cudatilebc [IN] [-o OUT]     text to bytecode
    tileiras-translate --cudatilebc-to-mlir [IN] [-o OUT]     bytecode to text

IN is a file, standard input without it or for `-`; OUT is standard output by default.

    --bytecode-version=13.x    the version to write (default: the newest)
    --list-versions            list the versions and stop
    --no-implicit-module       accepted; a module is never wrapped
    --mlir-print-op-generic    print in the generic form
    --mlir-print-debuginfo     print locations

Exit status: 0; 1 bad command line or file; 2 a version that is not written; 3 the input does not parse or verify, or
the version cannot say it.
"""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from tileiras.diagnostics import CompileError, ExitCode

DIRECTIONS = ("mlir-to-cudatilebc", "cudatilebc-to-mlir")
FLAGS = ("list-versions", "no-implicit-module", "mlir-print-op-generic", "mlir-print-debuginfo")


class UsageError(Exception):
    """A command line that does not say what to do, or a file that cannot be used."""


class Options(NamedTuple):
    direction: str
    input: str
    output: str
    version: str
    flags: frozenset[str]


def parse_arguments(argv: list[str]) -> Options:
    inputs: list[str] = []
    directions: list[str] = []
    output, version = "-", ""
    flags: set[str] = set()
    arguments = iter(argv)
    for argument in arguments:
        if argument == "-" or not argument.startswith("-"):
            inputs.append(argument)
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        if name in DIRECTIONS:
            directions.append(name)
        elif name in FLAGS:
            flags.add(name)
        elif name == "o":
            output = value if equals else next(arguments, "")
            if not output:
                raise UsageError("-o needs a file name")
        elif name == "bytecode-version":
            version = value if equals else next(arguments, "")
        else:
            raise UsageError(f"unknown option '{argument}'; see --help")
    if len(inputs) > 1:
        raise UsageError(f"more than one input: '{inputs[0]}' and '{inputs[1]}'")
    if len(directions) != 1 and "list-versions" not in flags:
        raise UsageError(f"say one of {', '.join('--' + d for d in DIRECTIONS)}")
    return Options(directions[0] if directions else "", inputs[0] if inputs else "-", output, version, frozenset(flags))


def run(options: Options) -> int:
    from tileiras import bytecode

    if "list-versions" in options.flags:
        print("\n".join(map(str, bytecode.SUPPORTED)))
        return ExitCode.SUCCESS
    data = _read(options.input)
    name = "<stdin>" if options.input == "-" else options.input
    from tileiras.ir import verify

    if options.direction == "mlir-to-cudatilebc":
        version = _version(options.version)
        module = _parse(data, name)
        verify(module)
        _write(options.output, bytecode.write_module(module, version))
    else:
        module = bytecode.read_module(data, name)
        verify(module)
        from tileiras.ir import print_op

        flags = options.flags
        text = print_op(module, generic="mlir-print-op-generic" in flags, locations="mlir-print-debuginfo" in flags)
        _write(options.output, text.encode("utf-8", "surrogateescape"))
    return ExitCode.SUCCESS


def _version(text: str):
    from tileiras import bytecode

    if not text:
        return bytecode.CURRENT
    try:
        version = bytecode.Version.parse(text)
    except ValueError as error:
        raise CompileError.at(None, str(error), ExitCode.CONFIGURATION) from None
    if version not in bytecode.SUPPORTED:
        span = f"[{bytecode.SUPPORTED[0]}, {bytecode.CURRENT}]"
        raise CompileError.at(
            None, f"unsupported version requested {version}, must be in range {span}", ExitCode.CONFIGURATION
        )
    return version


def _parse(data: bytes, name: str):
    from tileiras.ir import parse_module

    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"{name} is not text: byte {error.start} is not UTF-8"
        raise CompileError.at(None, message, ExitCode.INVALID_INPUT) from None
    module = parse_module(text, name)
    if module.name == "cuda_tile.module":
        return module
    inner = list(module.regions[0].block.operations)
    if len(inner) != 1 or inner[0].name != "cuda_tile.module":
        raise CompileError.at(
            module.location, "expected a single CUDA Tile IR module in the MLIR module", ExitCode.INVALID_INPUT
        )
    return inner[0].detach()


def _read(name: str) -> bytes:
    try:
        if name == "-":
            return sys.stdin.buffer.read()
        with open(name, "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"cannot open input file '{name}': {error.strerror}") from None


def _write(name: str, data: bytes) -> None:
    if name == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    # The old file stays until the new one is whole.
    temporary = f"{name}.tmp{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, name)
    except OSError as error:
        raise UsageError(f"cannot write '{name}': {error.strerror}") from None


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if any(argument in ("--help", "-help", "-h") for argument in argv):
        print(__doc__.rstrip())
        return int(ExitCode.SUCCESS)
    try:
        return int(run(parse_arguments(argv)))
    except UsageError as error:
        print(f"tileiras-translate: {error}", file=sys.stderr)
        return int(ExitCode.USAGE)
    except CompileError as error:
        print(error.render(), file=sys.stderr)
        return error.code


if __name__ == "__main__":
    sys.exit(main())

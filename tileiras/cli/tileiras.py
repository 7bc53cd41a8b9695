"""tileiras IN --gpu-name sm_90 -O3 -o OUT [--emit ...]: the compiler as a program.

Option spelling, messages and exit codes are those of the vendor's assembler where it has them (13.5): 0 success, 1 a
command line that cannot be read or a file that cannot be, 2 a configuration that is refused, 3 input that does not
parse or verify, 5 a kernel that does not compile.  Unlike it, text and cuTile Python are read as well, and every
stage's artifact can be the product.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from tileiras.diagnostics import CompileError, ExitCode, render
from tileiras.options import OPTIONS, Option, accepted, parse_value

PROGRAM = "tileiras"

ALIASES = {"arch": "gpu-name", "O": "opt-level", "o": "output-file", "g": "device-debug", "h": "help"}

OWN_VALUES = ("output-file", "emit", "entry", "depfile")
"""Options of the driver that take a value and are none of the compiler's."""

OWN_FLAGS = ("help", "version", "print-pipeline", "list-versions")

USAGE = """\
OVERVIEW: tileiras: open compiler for CUDA Tile IR

USAGE: tileiras [options] <bytecode, MLIR text or cuTile Python>

OPTIONS:
"""


class UsageError(Exception):
    """A command line that cannot be read; the message is printed as it is."""


class Arguments(NamedTuple):
    inputs: list[str]
    options: dict[str, Any]
    own: dict[str, str]


def program() -> int:
    """`main` as a process of its own: it is over soon and need not look for garbage often.

    Collections while modules load, and the last one when the interpreter ends, took a third of its own time.
    """
    import gc

    gc.set_threshold(50_000, 50, 50)
    code = main()
    gc.freeze()
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        return _run(_parse(words))
    except UsageError as error:
        print(error, file=sys.stderr)
        return ExitCode.USAGE
    except CompileError as error:
        _report(error)
        return error.code
    except BrokenPipeError:
        # Whoever read our output has gone; the interpreter must not complain about it when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.CONFIGURATION


def _run(given: Arguments) -> int:
    own = given.own
    if "help" in own:
        print(_help(), end="")
        return ExitCode.SUCCESS
    if "version" in own:
        from tileiras import __version__

        print(f"tileiras {__version__}")
        return ExitCode.SUCCESS
    if "print-pipeline" in own:
        from tileiras.pipeline import describe

        print(describe(), end="")
        return ExitCode.SUCCESS
    if "list-versions" in own:
        print("\n".join(OPTIONS["bytecode-version"].choices))
        return ExitCode.SUCCESS
    if not given.inputs:
        print(_help(), end="")
        raise UsageError("error: no input file provided")
    if len(given.inputs) > 1:
        raise UsageError(
            f"{PROGRAM}: Too many positional arguments specified!\n"
            f"Can specify at most 1 positional arguments: See: {PROGRAM} --help"
        )

    from tileiras import pipeline, units
    from tileiras.build import library
    from tileiras.options import CompileOptions

    # The order of the checks is observable and the vendor's: file, its magic, GPU, level, debug.
    name = given.inputs[0]
    if name == "-":
        data = sys.stdin.buffer.read()
        source = units.Source(data, "<stdin>", None, units.kind_of(data))
    else:
        source = units.Source.read(name)
    emit = own.get("emit", "cubin")
    last, suffix = pipeline.emit_stage(emit)
    if given.options.get("gpu-name") is None and last.name != "read":
        raise CompileError.at(
            None, "GPU architecture sm_0 is not supported by this version of tileiras: --gpu-name is needed",
            ExitCode.CONFIGURATION,
        )  # fmt: skip
    options = CompileOptions(given.options)
    artifact = library.compile_with(source, options, emit, entry=own.get("entry"))
    if artifact.diagnostics:
        print(render(artifact.diagnostics), file=sys.stderr)
    output = own.get("output-file") or (_stem(name) + suffix if name != "-" else "-")
    if "depfile" in own and output == "-":
        raise UsageError(f"{PROGRAM}: --depfile needs an output file")
    _write(output, artifact.data)
    if "depfile" in own:
        _write(own["depfile"], _rule(output, [name, *artifact.dependencies]).encode())
    return ExitCode.SUCCESS


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _rule(product: str, dependencies: Sequence[str]) -> str:
    """A rule for make, as compilers write them; files below the working directory are named from there."""
    here = os.getcwd() + os.sep
    words = [_escaped(path.removeprefix(here)) for path in (product, *dependencies)]
    return f"{words[0]}: {' '.join(words[1:])}\n"


def _escaped(path: str) -> str:
    for character in "\\ #":
        path = path.replace(character, "\\" + character)
    return path.replace("$", "$$")


def _write(path: str, data: bytes) -> None:
    from tileiras.files import write_product

    try:
        if path == "-":
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            write_product(path, data)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise CompileError.at(
            None, f"unable to open output file '{path}': {error.strerror}", ExitCode.CONFIGURATION
        ) from None


def _report(error: CompileError) -> None:
    if error.diagnostics:
        print(error.render(), file=sys.stderr)
    if error.code == ExitCode.COMPILE_FAILURE:
        print("error: failed to compile Tile IR program", file=sys.stderr)


# ---- the command line ------------------------------------------------------------------------------------------------


def _parse(words: Sequence[str]) -> Arguments:
    """Reads a command line by the rules of LLVM's: one dash or two, `--name=value` or `--name value`, `-O3`."""
    inputs: list[str] = []
    options: dict[str, Any] = {}
    own: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            inputs += rest
            break
        if not word.startswith("-") or word == "-":
            inputs.append(word)
            continue
        spelled, separator, value = word.lstrip("-").partition("=")
        if spelled[:1] in ("O", "o") and not word.startswith("--") and len(spelled) > 1 and spelled not in OPTIONS:
            if spelled not in OWN_VALUES:
                value, separator, spelled = word.lstrip("-")[1:].removeprefix("="), "=", spelled[0]
        name = ALIASES.get(spelled, spelled)
        if name in OWN_FLAGS:
            own[name] = ""
            continue
        option = OPTIONS.get(name)
        if option is None and name not in OWN_VALUES:
            raise UsageError(_unknown(word, name))
        if option is not None and option.kind is bool and not separator:
            options[name] = True
            continue
        if not separator:
            if not rest:
                dashes = "-" if len(spelled) == 1 else "--"
                raise UsageError(f"{PROGRAM}: for the {dashes}{spelled} option: requires a value!")
            value = rest.pop(0)
        if option is None:
            own[name] = value
        else:
            options[name] = _value(option, value)
    if own.get("emit") is not None:
        from tileiras.pipeline import EMIT

        if own["emit"] not in EMIT:
            raise UsageError(
                f"{PROGRAM}: for the --emit option: Cannot find option named '{own['emit']}'!\n"
                f"accepted: {', '.join(EMIT)}"
            )
    return Arguments(inputs, options, own)


def _value(option: Option, text: str) -> Any:
    if option.kind is str and option.choices and text not in option.choices:
        raise UsageError(
            f"{PROGRAM}: for the --{option.name} option: Cannot find option named '{text}'!\n"
            f"accepted: {accepted(option)}"
        )
    try:
        return parse_value(option, text)
    except CompileError:
        kind = {int: "integer", bool: "boolean"}.get(option.kind, "string")
        raise UsageError(
            f"{PROGRAM}: for the --{option.name} option: '{text}' value invalid for {kind} argument!"
        ) from None


def _unknown(word: str, name: str) -> str:
    import difflib

    known = [*OPTIONS, *OWN_VALUES, *OWN_FLAGS, "arch"]
    near = difflib.get_close_matches(name, known, 1, 0.5)
    text = f"{PROGRAM}: Unknown command line argument '{word}'.  Try: '{PROGRAM} --help'"
    return f"{text}\n{PROGRAM}: Did you mean '--{near[0]}'?" if near else text


def _help() -> str:
    from tileiras.pipeline import EMIT

    rows = [
        ("-o, --output-file=<file>", "Name of the output file, - for standard output; IN with the product's suffix"),
        ("--emit=<stage>", f"The product: {', '.join(EMIT)}; default cubin"),
        ("--entry=<name>", "Compile only this entry"),
        ("--depfile=<file>", "Write what the product is made from, as a rule for make"),
        ("--print-pipeline", "Print the stages, what they make and what they read, and exit"),
        ("--list-versions", "List all supported bytecode versions and exit"),
        ("--version", "Display the version of this program"),
        ("--help", "Display available options"),
    ]
    short = {"opt-level": "-O, ", "device-debug": "-g, "}
    for option in OPTIONS.values():
        value = "" if option.kind is bool else "=<value>"
        doc = option.doc[0].upper() + option.doc[1:]
        if option.choices and len(option.choices) < 20 and option.kind is not bool:
            doc += f": {accepted(option)}"
        if option.default not in (None, False, ()):
            doc += f"; default {option.default}"
        rows.append((f"{short.get(option.name, '')}--{option.name}{value}", doc))
    width = max(len(spelling) for spelling, _ in rows)
    return USAGE + "".join(f"  {spelling:<{width}} - {doc}\n" for spelling, doc in rows)


if __name__ == "__main__":
    sys.exit(program())

"""tileiras-translate: between Tile IR text and bytecode.

    tileiras-translate --mlir-to-cudatilebc [IN] [-o OUT]     text to bytecode
    tileiras-translate --cudatilebc-to-mlir [IN] [-o OUT]     bytecode to text
    tileiras-translate --test-cudatile-roundtrip [IN] [-o OUT]    text to bytecode and back to text

IN is a file, standard input without it or for `-`; OUT is standard output by default.

Exit status: 0; 1 bad command line or file, or diagnostics other than the expected ones; 2 a version that is not
written, or an output that cannot be; 3 the input does not parse or verify, or the version cannot say it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras import cli
from tileiras.cli import process
from tileiras.cli.outputs import Outputs
from tileiras.cli.process import UsageError, read_input
from tileiras.diagnostics import CompileError, Diagnostic, DiagnosticEngine, ExitCode, render
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tileiras.bytecode import Version
    from tileiras.cli.manual import Manual

DIRECTIONS = ("mlir-to-cudatilebc", "cudatilebc-to-mlir", "test-cudatile-roundtrip")
_TABLE: dict[str, tuple[str, str]] = {
    "mlir-to-cudatilebc": ("", "text to bytecode"),
    "cudatilebc-to-mlir": ("", "bytecode to text"),
    "test-cudatile-roundtrip": ("", "text to bytecode and back to text"),
    "o": ("OUT", "the output; standard output without it"),
    "bytecode-version": ("13.X", "the version to write (default: the newest)"),
    "list-versions": ("", "list the versions and stop"),
    "no-implicit-module": ("", "accepted; a module is never wrapped"),
    "split-input-file": ("", "process the parts of a text between `// -----` lines separately"),
    "verify-diagnostics": ("", "compare diagnostics with `// expected-error {{...}}` comments instead of printing"),
    "allow-unregistered-dialect": ("", "read operations that no dialect declares (generic form only)"),
    "testing-ops": ("", "register the operations of the language's test modules (cuda_tile.testing$...)"),
    "Wunsupported-hints": ("", "warn of invalid optimization hints"),
    "Werr-hints": ("", "with --Wunsupported-hints: they are errors"),
    "mlir-print-op-generic": ("", "print in the generic form"),
    "mlir-print-debuginfo": ("", "print locations"),
    "mlir-print-local-scope": ("", "print without aliases"),
    "generic-form": ("", "the same as --mlir-print-op-generic"),
    "help": ("", "print this text and stop"),
    "version": ("", "print the version, and the toolkits found, and stop"),
}
"""Option -> the placeholder of its value, empty for a flag, and its text."""

SYNONYMS = {"generic-form": "mlir-print-op-generic"}
FLAGS = frozenset(name for name, (value, _) in _TABLE.items() if not value).difference(DIRECTIONS, SYNONYMS)


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
        elif (flag := SYNONYMS.get(name, name)) in FLAGS:
            flags.add(flag)
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
    if "testing-ops" not in options.flags:
        return _run(options)
    with tileiras.dialects.cuda_tile.testing.loaded():
        return _run(options)


def _run(options: Options) -> int:
    if "list-versions" in options.flags:
        print("\n".join(map(str, tileiras.bytecode.supported())))
        return ExitCode.SUCCESS
    version = _version(options.version)
    outputs = Outputs()
    outputs.reads(options.input, "the input")
    product = outputs.writes(options.output, "the output")
    data = read_input(options.input)
    name = "<stdin>" if options.input == "-" else options.input
    parts: list[bytes | str] = [data]
    if options.direction != "cudatilebc-to-mlir":
        text = _decode(data, name)
        parts = list(cli.tileiras_opt.split_input(text)) if "split-input-file" in options.flags else [text]
    output: list[bytes] = []
    code = int(ExitCode.SUCCESS)
    for part in parts:
        engine = DiagnosticEngine()
        part_code = int(ExitCode.SUCCESS)
        try:
            output.append(_translate(part, name, version, options, engine))
        except CompileError as error:
            engine.diagnostics += error.diagnostics
            part_code = error.code
        if "verify-diagnostics" in options.flags and isinstance(part, str):
            part_code = _check(part, name, engine.diagnostics)
        else:
            if engine.diagnostics:
                process.complain(render(engine.diagnostics))
        code = code or part_code
    # Half a result would look like a whole one.
    if code == ExitCode.SUCCESS or len(parts) > 1:
        separator = b"" if options.direction == "mlir-to-cudatilebc" else b"// -----\n"
        outputs.publish([(product, separator.join(output))])
    return code


def _translate(
    part: bytes | str, name: str, version: Version, options: Options, engine: DiagnosticEngine
) -> bytes:
    """One part in the other form.  Raises CompileError; warnings go to `engine`."""
    flags = options.flags
    if isinstance(part, bytes):
        module = tileiras.bytecode.read_module(part, name)
        tileiras.ir.verify(module)
    else:
        module = _parse(part, name, "allow-unregistered-dialect" in flags)
        tileiras.ir.verify(module)
        if "Wunsupported-hints" in flags:
            tileiras.dialects.cuda_tile.hints.check_hints(module, engine, as_errors="Werr-hints" in flags)
            if engine.has_errors:
                raise CompileError((), ExitCode.INVALID_INPUT)
        bytecode = tileiras.bytecode.write_module(module, version, strict_locations=True)
        if options.direction == "mlir-to-cudatilebc":
            return bytecode
        module = tileiras.bytecode.read_module(bytecode, name)
        tileiras.ir.verify(module)
    text = tileiras.ir.print_op(
        module,
        generic="mlir-print-op-generic" in flags,
        locations="mlir-print-debuginfo" in flags,
        aliases="mlir-print-local-scope" not in flags,
    )
    return text.encode("utf-8", "surrogateescape")


def _check(part: str, name: str, diagnostics: list[Diagnostic]) -> int:
    failures = cli.expected_diagnostics.check_diagnostics(part, name, diagnostics)
    for failure in failures:
        process.complain(failure.render())
    return int(ExitCode.USAGE) if failures else int(ExitCode.SUCCESS)


def _version(text: str) -> Version:
    if not text:
        return tileiras.bytecode.CURRENT
    try:
        version = tileiras.bytecode.Version.parse(text)
    except ValueError:
        raise CompileError.at(None, f"Invalid argument '{text}'", ExitCode.CONFIGURATION) from None
    if version not in tileiras.bytecode.supported():
        raise CompileError.at(
            None,
            f"Invalid argument '{text}': the supported versions are "
            f"[{tileiras.bytecode.SUPPORTED[0]} - {tileiras.bytecode.CURRENT}]",
            ExitCode.CONFIGURATION,
        )
    return version


def _decode(data: bytes, name: str) -> str:
    tileiras.ir.encoding.check_encoding(data, name)
    return data.decode()


def _parse(text: str, name: str, allow_unregistered: bool) -> Any:
    module = tileiras.ir.parse_module(text, name, allow_unregistered=allow_unregistered)
    if module.name == "cuda_tile.module":
        return module
    inner = [op for block in module.regions[0].blocks for op in block.operations]
    if len(inner) != 1 or inner[0].name != "cuda_tile.module":
        raise CompileError.at(
            module.location, "expected a single CUDA Tile IR module in the MLIR module", ExitCode.INVALID_INPUT
        )
    return inner[0].detach()


def manual() -> Manual:
    """The manual of the command."""
    head, _, text = __doc__.partition("\n")
    usage = "tileiras-translate --DIRECTION [IN] [-o OUT] [options]"
    return cli.manual.of_table("tileiras-translate", head.partition(": ")[2], usage, text.strip("\n"), _TABLE)


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if any(argument in ("--help", "-help", "-h") for argument in argv):
        print(cli.manual.help_text(manual()), end="")
        return int(ExitCode.SUCCESS)
    if "--version" in argv:
        print(cli.toolkits.version_text("tileiras-translate"), end="")
        return int(ExitCode.SUCCESS)
    try:
        return int(run(parse_arguments(argv)))
    except UsageError as error:
        process.tell("tileiras-translate", error)
        return int(ExitCode.USAGE)
    except CompileError as error:
        process.complain(error.render())
        return error.code


def program() -> int:
    """`main` as a process of its own."""
    return process.run(main)


if __name__ == "__main__":
    sys.exit(program())

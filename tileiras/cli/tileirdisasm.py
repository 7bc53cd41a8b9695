"""tileirdisasm FILE: Tile IR bytecode as text, on standard output.

Options, messages and exit codes are those of the vendor's disassembler (13.5), which front ends start beside `tileiras`
to dump what they compile: 0 success, 1 a command line that cannot be read, 2 a file that cannot be, 3 a file that is no
valid bytecode.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import tileiras
from tileiras import cli
from tileiras.cli import process
from tileiras.cli.command_line import FLAG, STOP, CommandLine, Spec, Stop
from tileiras.cli.process import CommandLineError, UsageError
from tileiras.diagnostics import CompileError, ExitCode

if TYPE_CHECKING:
    from tileiras.cli.manual import Manual

PROGRAM = "tileirdisasm"
ALIASES = {"g": "print-debug-info", "h": "help"}
SPECS = (
    Spec("print-debug-info", FLAG, "Annotate the text with its debug information"),
    Spec("preview", str, "Named preview features; accepted for compatibility", "feature[,feature...]",
         features=("simt",), repeated=True),
    Spec("help", STOP, "Display available options; --help-hidden for more"),
    Spec("help-hidden", STOP, "Display all available options", hidden=True),
    Spec("help-list", STOP, "As --help"),
    Spec("help-list-hidden", STOP, "As --help-hidden", hidden=True),
    Spec("version", STOP, "Display the version of this program"),
)  # fmt: skip


def manual(hidden: bool = False) -> Manual:
    """The manual of the command, with the `hidden` options on request."""
    rows = [cli.manual.row_of(spec, ALIASES) for spec in SPECS if hidden or not spec.hidden]
    usage = f"{PROGRAM} [options] <tile bytecode file>"
    return cli.manual.Manual(PROGRAM, "disassembler for CUDA Tile IR", usage, "", tuple(rows))


def help_text(hidden: bool = False) -> str:
    return cli.manual.help_text(manual(hidden))


def disassemble(path: str, locations: bool = False) -> str:
    """The text of a file of bytecode.  Raises CompileError."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = f"unable to read input file '{path}': {reason}"
        raise CompileError.at(None, message, ExitCode.CONFIGURATION) from None
    if not tileiras.bytecode.is_bytecode(data):
        message = "input does not correspond to Tile IR bytecode"
        raise CompileError.at(None, message, ExitCode.INVALID_INPUT)
    module = tileiras.bytecode.read_module(data, path)
    tileiras.ir.verify(module)
    producer = module.attributes.get("producer")
    # As the vendor's program prints it, line breaks included.
    head = f"// Producer: {producer.value}\n" if producer is not None else ""
    return head + tileiras.ir.text.printer.print_body(module, locations=locations)


def _stopped(name: str) -> str:
    if name == "version":
        return cli.toolkits.version_text(PROGRAM)
    return help_text(hidden=name.endswith("hidden"))


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; returns its exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        inputs, values = CommandLine(PROGRAM, SPECS, ALIASES).parse(words)
        if not inputs or not inputs[0]:
            print(help_text(), end="")
            process.complain("error: no input file provided")
            return ExitCode.CONFIGURATION
        text = disassemble(inputs[0], values.get("print-debug-info", False))
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        return ExitCode.SUCCESS
    except Stop as stop:
        if stop.errors:
            process.tell(PROGRAM, CommandLineError(*stop.errors))
        print(_stopped(stop.name), end="")
        return ExitCode.SUCCESS
    except UsageError as error:
        process.tell(PROGRAM, error)
        return ExitCode.USAGE
    except CompileError as error:
        process.complain(error.render())
        return error.code


def program() -> int:
    """`main` as a process of its own."""
    return process.run(main)


if __name__ == "__main__":
    sys.exit(program())

"""tileiras-opt: read MLIR text or Tile IR bytecode, run passes, verify, print.

    tileiras-opt [IN] [-o OUT] [--PASS[=OPTIONS]... | --pass-pipeline=PIPELINE] [options]

IN is a file, standard input without it or for `-`.  Passes run in the order in which they are given.

Exit status: 0; 1 bad command line, or diagnostics other than the expected ones; 2 unknown pass or option, or an output
that cannot be written; 3 the input does not parse or verify; 5 a pass failed.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Callable

import tileiras
from tileiras import cli
from tileiras.cli import instrumentation, process
from tileiras.cli.outputs import Outputs
from tileiras.cli.process import UsageError, complain, read_input
from tileiras.diagnostics import CompileError, Diagnostic, DiagnosticEngine, ExitCode, render, to_json
from tileiras.diagnostics.remarks import Remark
from tileiras.targets.sm import CEILINGS

if TYPE_CHECKING:
    from tileiras.cli.manual import Manual
    from tileiras.dialects import builtin, cuda_tile, gpu

SPLIT_MARKER = "// -----"

_TABLE: dict[str, tuple[str, str]] = {
    "o": ("OUT", "the output; standard output without it"),
    "pass-pipeline": (
        "P",
        "a textual pipeline, `builtin.module(canonicalize,cse{key=value})`; besides passes it may name "
        "`tileir{...}`, all passes of the compiler, and `tileas{compute-capability=sm_90 from=PASS "
        "to=PASS}`, those of the stage tileas",
    ),
    "split-input-file": ("", "process the parts between `// -----` lines separately"),
    "verify-diagnostics": ("", "compare diagnostics with `// expected-error {{...}}` comments instead of printing"),
    "verify-roundtrip": ("", "check that the printed forms read back as the same module"),
    "no-verify": ("", "verify neither the input nor the output of passes; invalid modules print generically"),
    "verify-each": ("", "verify between passes, the default; =false does not"),
    "allow-unregistered-dialect": ("", "accept operations that no dialect declares (generic form only)"),
    "testing-ops": ("", "register the operations of the language's test modules (cuda_tile.testing$...)"),
    "Wunsupported-hints": ("", "warn of invalid optimization hints, which are ignored otherwise"),
    "Werr-hints": ("", "with --Wunsupported-hints: they are errors"),
    "no-implicit-module": ("", "accepted; a module is wrapped only for passes that work on a builtin.module"),
    "mlir-print-op-generic": ("", "print in the generic form"),
    "mlir-print-debuginfo": ("", "print locations"),
    "mlir-print-local-scope": ("", "print without aliases"),
    "mlir-print-ir-before-all": ("", "print the module to standard error before every pass"),
    "mlir-print-ir-before": ("PASS,PASS", "print the module to standard error before these passes"),
    "mlir-print-ir-after-all": ("", "print the module to standard error after every pass"),
    "mlir-print-ir-after": ("PASS,PASS", "print the module to standard error after these passes"),
    "mlir-print-ir-after-change": ("", "print only after passes that change the module"),
    "mlir-print-ir-after-failure": ("", "print the module after a pass that fails"),
    "mlir-pass-pipeline-crash-reproducer": (
        "FILE",
        "write the input of a pass that fails, with the command that reruns it",
    ),
    "mlir-timing": ("", "print the time of every pass to standard error"),
    "mlir-print-stacktrace-on-diagnostic": ("", "attach the compiler's stack trace to diagnostics as a note"),
    "opt-bisect-limit": ("N", "skip optional passes after the first N, and list the passes"),
    "parameter-ceiling": ("LIMIT", "of nvvm-ir-verifier: documented, the default, or ptx, that of the PTX version"),
    "diagnostics": ("FORMAT", "text, the default, or json: one object per line"),
    "remarks": ("", "emit remarks on the choices of passes, with reasons"),
    "list-passes": ("", "list the passes and stop"),
    "help": ("", "print this text and stop"),
    "version": ("", "print the version, and the toolkits found, and stop"),
}
"""Option -> the placeholder of its value, empty for a flag, and its text; passes are options as well."""

_SPECIAL = frozenset(("o", "pass-pipeline", "list-passes", "help", "version"))
_FLAGS = frozenset(name for name, (value, _) in _TABLE.items() if not value) - _SPECIAL
_WORDS = frozenset(name for name, (value, _) in _TABLE.items() if value) - _SPECIAL


class Options:
    """The parsed command line."""

    __slots__ = ("input", "output", "flags", "words", "passes", "pipeline_options", "list_passes", "warnings")

    def __init__(self) -> None:
        self.input = "-"
        self.output = "-"
        self.flags: set[str] = {"verify-each"}
        self.words: dict[str, str] = {}
        self.pipeline_options: dict[str, Any] = {}
        self.passes: list[Any] = []
        self.list_passes = False
        self.warnings: list[Diagnostic] = []
        """About the command line."""


def parse_arguments(argv: list[str]) -> Options:
    """Raise UsageError, or CompileError (code 2) for a pass or pass option that does not exist."""
    options = Options()

    def tileir(braces: str) -> list[Any]:
        result = tileiras.driver.tileir_pipeline.TileIRPipelineOptions.parse("{" + braces + "}")
        options.pipeline_options = dict(result)
        options.warnings += result.without_effect()
        return tileiras.driver.tileir_pipeline.build(result)

    def tileas(braces: str) -> list[Any]:
        return tileiras.driver.tileir_pipeline.tileas_passes(braces)

    def llvm(braces: str) -> list[Any]:
        return tileiras.driver.tileir_pipeline.llvm_passes(braces)

    seen_input = False
    arguments = iter(argv)
    for argument in arguments:
        if argument == "-" or not argument.startswith("-"):
            if seen_input:
                raise UsageError(f"more than one input: '{options.input}' and '{argument}'")
            options.input = argument
            seen_input = True
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        if name == "o":
            options.output = value if equals else next(arguments, "")
            if not options.output:
                raise UsageError("-o needs a file name")
        elif name in _FLAGS:
            if value not in ("", "true", "1", "false", "0"):
                raise UsageError(f"'{value}' is invalid value for boolean argument --{name}! Try 0 or 1")
            (options.flags.discard if value in ("false", "0") else options.flags.add)(name)
        elif name in _WORDS:
            if not value:
                raise UsageError(f"--{name} requires a value, as in --{name}=VALUE")
            if name == "diagnostics" and value not in ("text", "json"):
                raise UsageError(f"--diagnostics takes text or json, got '{value}'")
            if name == "parameter-ceiling" and value not in CEILINGS:
                raise UsageError(f"--{name} takes {' or '.join(CEILINGS)}, got '{value}'")
            if name == "opt-bisect-limit":
                tileiras.options.parse_value(tileiras.options.lookup(name), value)
            options.words[name] = value
        elif name == "list-passes":
            options.list_passes = True
        else:
            whole = name == "pass-pipeline"
            text = value if whole else name + ("{" + value + "}" if value else "")
            pipelines = {"tileir": tileir, "tileas": tileas, "llvm": llvm}
            options.passes += tileiras.ir.pass_manager.parse_pipeline(
                text, tileiras.passes.lookup_pass, pipelines, "<pass-pipeline>" if whole else ""
            )
    if "parameter-ceiling" in options.words:
        for item in options.passes:
            if item.name == "nvvm-ir-verifier":
                item.parameter_ceiling = options.words["parameter-ceiling"]
    return options


def split_input(text: str, marker: str = SPLIT_MARKER) -> list[str]:
    """The parts of a text between marker lines, each moved to its place by empty lines so that positions stay true."""
    parts: list[str] = []
    current: list[str] = []
    start = 0
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith(marker):
            parts.append("\n" * start + "\n".join(current) + "\n")
            current, start = [], number + 1
        else:
            current.append(line)
    parts.append("\n" * start + "\n".join(current))
    return parts


def _module(part: str | bytes, filename: str, flags: set[str]) -> Any:
    if isinstance(part, bytes):
        return tileiras.bytecode.read_module(part, filename)
    return tileiras.ir.parse_module(part, filename, allow_unregistered="allow-unregistered-dialect" in flags)


def _process(
    part: str | bytes, filename: str, options: Options, records: instrumentation.Records, emit: Callable[[str], None]
) -> list[Diagnostic]:
    """Handle one part; return its warnings and remarks.  Raises CompileError."""
    flags = options.flags
    module = _module(part, filename, flags)
    checked = "no-verify" not in flags
    engine = DiagnosticEngine()
    engine.remarks = "remarks" in flags
    engine.trace = "mlir-print-stacktrace-on-diagnostic" in flags
    while options.warnings:  # once for all parts
        engine.emit(options.warnings.pop(0))
    if checked:
        tileiras.ir.verify(module, engine)
        if "Wunsupported-hints" in flags:
            tileiras.dialects.cuda_tile.hints.check_hints(module, engine, as_errors="Werr-hints" in flags)
        engine.raise_if_errors(ExitCode.INVALID_INPUT)
    if options.passes:
        module = anchored(module, options.passes)
        _run_passes(module, options, records, checked, engine)
    if "verify-roundtrip" in flags:
        _verify_roundtrip(module, flags)
    emit(_text(module, flags))
    return engine.diagnostics


def anchored(module: gpu.GPUModuleOp | builtin.ModuleOp | cuda_tile.ModuleOp, passes: list[Any]) -> Any:
    """The module, inside a builtin.module when a pass works on that: without one it would do nothing."""
    if module.name == "builtin.module" or all(item.anchor != "builtin.module" for item in passes):
        return module
    block = tileiras.ir.Block()
    block.append(module)
    return tileiras.ir.registry.lookup_operation("builtin.module").create(
        (), (), {}, [tileiras.ir.Region([block])], (), module.location
    )


def _text(module: builtin.ModuleOp | cuda_tile.ModuleOp, flags: set[str]) -> str:
    # The custom form of an operation may omit information that is redundant only if the operation is valid.
    generic = "mlir-print-op-generic" in flags or "no-verify" in flags and not _verifies(module)
    aliases = "mlir-print-local-scope" not in flags
    return tileiras.ir.print_op(module, generic=generic, locations="mlir-print-debuginfo" in flags, aliases=aliases)


def _verifies(module: cuda_tile.ModuleOp) -> bool:
    try:
        tileiras.ir.verify(module)
    except CompileError:
        return False
    return True


def _run_passes(
    module: builtin.ModuleOp | cuda_tile.ModuleOp,
    options: Options,
    records: instrumentation.Records,
    checked: bool,
    engine: DiagnosticEngine,
) -> None:
    watching = instrumentation.watching(options.flags, options.words, records, lambda: engine.diagnostics)
    with watching as (watchers, _):
        checked = checked and "verify-each" in options.flags
        passes = options.passes
        if (limit := options.words.get("opt-bisect-limit")) is not None:
            passes = tileiras.stages.tileas.bisected_passes(passes, int(limit), module)
        manager = tileiras.ir.pass_manager.PassManager(passes, verify_each=checked, instrumentation=watchers)
        manager.run(module, tileiras.ir.pass_manager.PassContext(engine))


def _verify_roundtrip(module: builtin.ModuleOp | cuda_tile.ModuleOp, flags: set[str]) -> None:
    """Both forms must read back to modules that print the same."""
    reference = tileiras.ir.print_op(module, generic=True)
    for generic in (False, True):
        text = tileiras.ir.print_op(module, generic=generic)
        again = tileiras.ir.parse_module(text, "<round trip>", allow_unregistered="allow-unregistered-dialect" in flags)
        if tileiras.ir.print_op(again, generic=True) != reference:
            raise CompileError.at(
                module.location, f"{'generic' if generic else 'custom'} form does not read back as the same module"
            )


def run(options: Options) -> int:
    if options.list_passes:
        print("\n".join(tileiras.passes.names()))
        return ExitCode.SUCCESS
    if "testing-ops" not in options.flags:
        return _run(options)
    with tileiras.dialects.cuda_tile.testing.loaded():
        return _run(options)


def _run(options: Options) -> int:
    outputs = Outputs()
    outputs.reads(options.input, "the input")
    product = outputs.writes(options.output, "the output")
    records = instrumentation.Records(outputs, options.words, options.pipeline_options)
    data = read_input(options.input)
    filename = "<stdin>" if options.input == "-" else options.input
    text = ""
    parts: list[str | bytes] = [data]
    if not _is_bytecode(data):
        text = data.decode("utf-8", "surrogateescape")
        parts = list(split_input(text)) if "split-input-file" in options.flags else [text]
    output: list[str] = []
    code = int(ExitCode.SUCCESS)
    for part in parts:
        diagnostics: list[Diagnostic] = []
        part_code = 0
        try:
            diagnostics = _process(part, filename, options, records, output.append)
        except CompileError as error:
            if "mlir-print-stacktrace-on-diagnostic" in options.flags:
                error.attach_trace()
            diagnostics = error.diagnostics
            part_code = error.code
        except Exception as error:  # noqa: BLE001  a bug of the compiler: reported as a diagnostic all the same
            if os.environ.get("TILEIRAS_TRACEBACK"):
                raise
            where = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
            result = f"internal error{where}: {type(error).__name__}: {error} (set TILEIRAS_TRACEBACK=1 to see where)"
            diagnostics = CompileError.at(None, result).diagnostics
            part_code = int(ExitCode.COMPILE_FAILURE)
        if "verify-diagnostics" in options.flags:
            failures = cli.expected_diagnostics.check_diagnostics(
                part if isinstance(part, str) else "", filename, diagnostics
            )
            part_code = int(ExitCode.USAGE) if failures else 0
            for failure in failures:
                process.complain(failure.render({filename: text}))
        else:
            if "remarks" not in options.flags:
                diagnostics = [d for d in diagnostics if not isinstance(d, Remark)]
            if diagnostics and options.words.get("diagnostics") == "json":
                print(to_json(diagnostics), file=sys.stderr, end="")
            elif diagnostics:
                complain(render(diagnostics, {filename: text}))
        code = code or part_code
    records.close()
    text = f"\n{SPLIT_MARKER}\n".join(output)
    outputs.publish([(product, text.encode("utf-8", "surrogateescape"))])
    return code


def _is_bytecode(data: bytes) -> bool:
    if b" " <= data[:1] <= b"~":  # no magic number starts with a printable character
        return False
    return tileiras.bytecode.is_bytecode(data)


def manual() -> Manual:
    """The manual of the command; its passes are options of it."""
    head, _, text = __doc__.partition("\n")
    usage, _, text = text.strip().partition("\n")
    result = {name: tileiras.passes.lookup_pass(name) for name in tileiras.passes.names()}
    docs = {name: one.__doc__ or sys.modules[one.__module__].__doc__ or "" for name, one in result.items()}
    passes = [(f"--{name}", "", doc) for name, doc in docs.items()]
    return cli.manual.of_table("tileiras-opt", head.partition(": ")[2], usage, text.strip("\n"), _TABLE, passes)


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if any(argument in ("--help", "-help", "-h") for argument in argv):
        print(cli.manual.help_text(manual()), end="")
        return ExitCode.SUCCESS
    if "--version" in argv:
        print(cli.toolkits.version_text("tileiras-opt"), end="")
        return ExitCode.SUCCESS
    try:
        return int(run(parse_arguments(argv)))
    except UsageError as error:
        process.tell("tileiras-opt", error, "--diagnostics=json" in argv)
        return int(ExitCode.USAGE)
    except CompileError as error:  # of a pipeline that cannot be made, or of the output
        if "--diagnostics=json" in argv:
            print(to_json(error.diagnostics), end="", file=sys.stderr)
        else:
            complain(error.render())
        return error.code


def program() -> int:
    """`main` as a process of its own."""
    return process.run(main)


if __name__ == "__main__":
    sys.exit(program())

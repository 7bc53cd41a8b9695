"""tileiras IN --gpu-name sm_90 -O3 -o OUT [--emit ...]: the compiler as a program.

Option spelling, messages, the order of the checks and exit codes are those of the vendor's assembler where it has them
(13.5): 0 success, 1 a command line that cannot be read or a file that cannot be, 2 a configuration that is refused, 3
input that does not parse or verify, 5 a kernel that does not compile.  Unlike it, text and cuTile Python are read as
well, and every stage's artifact can be the product.  `docs/command-line.md` has the differences.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras import bytecode, cli, cmake_folder, pipeline, pkgconfig_folder
from tileiras.bytecode.versions import HEADER_SIZE, PREVIEWS, SUPPORTED, has_previews
from tileiras.cli import depfiles, driver_options, instrumentation, process
from tileiras.cli.command_line import CommandLine, Stop
from tileiras.cli.driver_options import PROGRAM
from tileiras.cli.outputs import STANDARD, Output, Outputs
from tileiras.cli.process import CommandLineError, UsageError
from tileiras.diagnostics import CompileError, Diagnostic, DiagnosticEngine, ExitCode
from tileiras.options import OPTIONS, CompileOptions, missing_gpu, parse_value
from tileiras.stages import units
from tileiras.stages.units import file_stem
from tileiras.support.files import stem

if TYPE_CHECKING:
    from tileiras.api import Artifact
    from tileiras.driver.tileir_pipeline import TileIRPipelineOptions
    from tileiras.pipeline import Stage
    from tileiras.stages.units import Source

DEFAULT_CUBIN = "elf.o"
"""The vendor's default name for the output."""


def program() -> int:
    """`main` as a short-lived process, without garbage collection and without teardown at its end.

    Garbage collection while modules load, and the teardown of all modules, took a third of its own time.
    """
    import atexit
    import gc

    gc.disable()
    code = process.run(main)
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:
        return code  # the Python interpreter meets the error again and reports it, as for every program
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words and words[0] in driver_options.IS_VERB and not os.path.exists(words[0]):
        return cli.verbs.run(words)
    line = driver_options.command_line()
    try:
        try:
            inputs, values = line.parse(words)
        except Stop as stop:
            if stop.errors:
                process.tell(PROGRAM, CommandLineError(*stop.errors), _wants_json(line, words))
            print(_ALONE[stop.name](), end="")
            return ExitCode.SUCCESS
        return _run(inputs, values, line.files)
    except UsageError as error:
        process.tell(PROGRAM, error, _wants_json(line, words))
        return ExitCode.USAGE
    except CompileError as error:
        if error.diagnostics and _wants_json(line, words):
            from tileiras.diagnostics import to_json

            print(to_json(error.diagnostics), end="", file=sys.stderr)
        elif error.diagnostics:
            process.complain(error.render())
        return error.code
    except MemoryError:
        failure = CommandLineError("error: failed to allocate memory for program")
        process.tell(PROGRAM, failure, _wants_json(line, words))
        return ExitCode.USAGE


def _wants_json(line: CommandLine, words: Sequence[str]) -> bool:
    """Whether messages are to be JSON, on a command line with mistakes as well."""
    if line.values:
        return line.values.get("diagnostics") == "json"
    return "--diagnostics=json" in words or ("--diagnostics", "json") in zip(words, words[1:])


def _run(inputs: Sequence[str], values: Mapping[str, Any], files: Sequence[str]) -> int:
    """Check in the order of the vendor's tool: outputs that are inputs or each other, file, magic and version, GPU,
    level, debug, controls, then the rest of the input, remarks, libraries, the compilation, the output.

    `files` are those that the command line was read from.
    """
    if values.get("print-pipeline"):
        print(_pipeline(values), end="")
        return ExitCode.SUCCESS
    if not inputs or not inputs[0]:
        print(driver_options.help_text(), end="")
        raise CommandLineError("error: no input file provided")
    _check_service()
    name = inputs[0]
    emit = values.get("emit", pipeline.default_emit(values.get("gpu-name"), "cubin"))
    values, targets, last, suffix = _request(values, emit)
    result = {option: _of_compiler(option, value) for option, value in values.items() if option in OPTIONS}
    code = cli.tile_libraries.device_code(values["l"]) if values.get("l") else ()
    if code:
        result["device-libraries"] = (*result.get("device-libraries", ()), *code)
    layered = _pipeline_options(values, result)
    outputs = Outputs()
    _declare_inputs(outputs, name, values, result, files)
    default = STANDARD if name == STANDARD else DEFAULT_CUBIN if emit == "cubin" else stem(name) + suffix
    product, depfile = _products(outputs, values, default)
    report = cli.messages.Report(values, outputs)
    records = instrumentation.Records(outputs, values, layered or {})

    source = _source(name)
    report.bytecode = source.data if source.kind == units.BYTECODE else None
    version = units.bytecode_version(source.data) if source.kind == units.BYTECODE else ""
    if result.get("gpu-name") is None and (last.name not in ("export", "read") or source.kind == units.PYTHON):
        raise missing_gpu(version)
    if emit in ("cubin", "sass", pipeline.FATBIN.name):
        result.setdefault("tile-launch", True)
    options = CompileOptions(result)
    _check_controls(options)
    if "cache" in values:
        os.environ["TILEIRAS_CACHE_DIR"] = values["cache"]
    if not tileiras.processes.helper.llvm_is_loaded:
        # Before the compiler is loaded: loading LLVM takes as long as loading it and lowering a small kernel.
        pipeline.start_ahead(last)
    if report.remarks.any:
        options = options.replace(**{"emit-remarks": True})
    refused = report.unwritable()
    intermediates = Intermediates(outputs, product, suffix) if values.get("save-temps") else None
    try:
        _check_previews(source, values)
        hints = _hints(source, options, values)
        if (refused is not None or "l" in values) and source.kind not in units.ARTIFACTS:
            # Errors of the input are reported first.
            tileiras.build.library.compile_with(source, options, "cuda_tile")
        if refused is None and "l" in values:
            refused = _refused_libraries(values)
            if refused is not None:
                report.without_remarks()
        if refused is None:
            artifact = _compile(source, options, targets, emit, values, records, intermediates)
    except CompileError as error:
        if values.get("mlir-print-stacktrace-on-diagnostic"):
            error.attach_trace()
        report.failure(error)
        return error.code
    if refused is not None:
        raise refused
    for path in artifact.dependencies:
        outputs.reads(path, "a file that the input imports")
    if intermediates is not None:
        intermediates.check(artifact.data)
    unread = layered.without_effect() if layered is not None else []
    report.success([*unread, *hints, *artifact.diagnostics])
    report.remark(layered.differences(options) if layered is not None else None)
    report.write_sarif()
    unchanged = values.get("write-if-changed") and product.holds(artifact.data)
    contents = [] if unchanged else [(product, artifact.data)]
    if depfile is not None:
        inputs_read = [name, *artifact.dependencies, *depfiles.option_files(options), *files]
        contents.append((depfile, depfiles.rule([product.path], inputs_read)))
    outputs.publish(contents)
    return ExitCode.SUCCESS


def _request(values: Mapping[str, Any], emit: str) -> tuple[Mapping[str, Any], list[str], Stage, str]:
    """The options with one target, the last of a fat binary's; all targets; the last stage for each of them; the
    suffix of the product.  Raises CompileError (code 2), and UsageError for several targets of another product."""
    names = values.get("gpu-name", "")
    if emit == pipeline.FATBIN.name:
        targets = tileiras.build.fat_binary.named_targets(names) if names else []
        values = {**values, "gpu-name": targets[-1]} if targets else values
        return values, targets, pipeline.stage("cubin"), pipeline.FATBIN.suffix
    if "," in names:
        # The vendor's words.
        unknown = f"for the --gpu-name option: Cannot find option named '{names}'!"
        raise UsageError(f"{unknown}\nnote: --emit={pipeline.FATBIN.name} takes several GPUs")
    return values, [names], *pipeline.emit_stage(emit, values.get("gpu-name"))


def _products(outputs: Outputs, values: Mapping[str, Any], default: str) -> tuple[Output, Output | None]:
    """The files of the product and of its dependences; raises UsageError."""
    product = outputs.writes(values.get("output-file", default), "the output")
    depfile = outputs.writes(values["depfile"], "--depfile") if "depfile" in values else None
    if depfile is not None and product.path == STANDARD:
        raise UsageError("--depfile needs an output file")
    return product, depfile


def _check_controls(options: CompileOptions) -> None:
    """Raise CompileError for a file of controls that ptxas could not read."""
    if options["apply-controls"] is not None:
        tileiras.codegen.ptxas.read_controls(options["apply-controls"])


def _check_service() -> None:
    word = os.environ.get("TILEIRAS_SERVER", "")
    if word not in ("", *driver_options.SERVICE):
        message = f"TILEIRAS_SERVER={word}: accepted are {', '.join(driver_options.SERVICE)}"
        raise CompileError.at(None, message, ExitCode.CONFIGURATION)


def _source(name: str) -> Source:
    """The input: a file or standard input."""
    if name != STANDARD:
        return units.Source.read(name)
    data = sys.stdin.buffer.read()
    return units.Source(data, "<stdin>", None, units.kind_of(data))


def _declare_inputs(
    outputs: Outputs, name: str, values: Mapping[str, Any], explicit: Mapping[str, Any], files: Sequence[str]
) -> None:
    outputs.reads(name, "the input")
    for path in files:
        outputs.reads(path, "the file of options")
    for path in values.get("l", ()):
        outputs.reads(path, "the tile library")
    for option in OPTIONS.values():
        value = explicit.get(option.name)
        if option.local and isinstance(value, (str, tuple)):  # local options name files
            for path in (value,) if isinstance(value, str) else value:
                outputs.reads(path, f"--{option.name}")


def _compile(
    source: Source, options: CompileOptions, targets: Sequence[str], emit: str, values: Mapping[str, Any],
    records: instrumentation.Records, intermediates: Intermediates | None,
) -> Artifact:  # fmt: skip
    """The product, a fat binary for all `targets`; intermediate artifacts go to `intermediates` if it is given,
    and passes run under the instrumentations."""
    entry = values.get("entry")
    if emit == pipeline.FATBIN.name:
        watched = [name for name in (*WATCHED, "save-temps") if values.get(name)]
        if watched or records.pipeline_options:
            raise UsageError(f"--{(*watched, 'pass-pipeline')[0]} is of a compilation for one GPU, not of a fat binary")
        every = [options.replace(**{"gpu-name": target}) for target in targets]
        return tileiras.build.fat_binary.compile_for(source, every, entry)
    if intermediates is None and not records.pipeline_options and not any(values.get(name) for name in WATCHED):
        return tileiras.build.library.compile_with(source, options, emit, entry=entry)
    keep = intermediates.save if intermediates is not None else None
    flags = {name for name in instrumentation.FLAGS if values.get(name)}
    try:
        with instrumentation.watching(flags, values, records, list) as (watchers, times):
            return tileiras.api.compile_with(
                source, options, emit, entry=entry, keep=keep, instrumentation=watchers, times=times
            )  # fmt: skip
    finally:
        records.close()


WATCHED = (*instrumentation.FLAGS, *instrumentation.WORDS)
"""Options that instrument passes, which therefore have to run: no artifact comes from the store."""


def _pipeline_options(values: Mapping[str, Any], explicit: dict[str, Any]) -> TileIRPipelineOptions | None:
    """The options of `--pass-pipeline=tileir{...}`; `explicit`: options by name, which override its compiler options.

    Raises CompileError (code 2) for another pipeline: those are for tileiras-opt.
    """
    text = values.get("pass-pipeline")
    if text is None:
        return None
    inner = re.fullmatch(r"\s*builtin\.module\((.*)\)\s*", text, re.DOTALL)
    # The driver passes its own optimization level on, even if it is the default.
    parsed = tileiras.driver.tileir_pipeline.TileIRPipelineOptions.parse(
        inner.group(1) if inner else text, {"opt-level": 3, **explicit}
    )
    explicit.update({**parsed.given_compiler_options(), **explicit})
    return parsed


def _of_compiler(name: str, value: int | str) -> Any:
    return parse_value(OPTIONS[name], value) if OPTIONS[name].kind is list else value


def _hints(source: Source, options: CompileOptions, values: Mapping[str, Any]) -> list[Diagnostic]:
    """Diagnostics of optimization hints, if requested; raises CompileError (code 3) if they are errors.

    Hints are attributes of cuda_tile: a Python file is checked in its exported bytecode, an artifact of a later stage
    is not checked.
    """
    if not values.get("Wunsupported-hints") or source.kind in units.ARTIFACTS:
        return []
    data = source.data
    if source.kind == units.PYTHON:
        data = tileiras.build.library.compile_with(source, options, "bytecode").data
    engine = DiagnosticEngine()
    tileiras.dialects.cuda_tile.hints.check_hints(
        tileiras.api.parse(data, source_name=source.name), engine, as_errors=bool(values.get("Werr-hints"))
    )
    engine.raise_if_errors(ExitCode.INVALID_INPUT)
    return engine.diagnostics


class Intermediates:
    """The artifacts that `--save-temps` keeps beside the output: each is written at once, so that it exists when a
    later stage fails."""

    def __init__(self, outputs: Outputs, product: Output, suffix: str) -> None:
        self._outputs = outputs
        self._product = product
        self._suffix = suffix
        self._folder = "" if product.is_stream else os.path.dirname(product.path)
        self._held: list[tuple[str, bytes]] = []

    def save(self, unit: str, suffix: str, data: bytes) -> str:
        """The path of the artifact.  One at the path of the product is not written, only compared with the product;
        raises UsageError if the path is that of another file."""
        path = os.path.join(self._folder, file_stem(unit) + suffix)
        label = f"the files of --save-temps for '{unit}'"
        if suffix == self._suffix and self._product.is_same_file(Output(path, label)):
            self._held.append((label, data))
        else:
            self._outputs.publish([(self._outputs.writes(path, label), data)])
        return path

    def check(self, product: bytes) -> None:
        """Raise UsageError if the product would replace an artifact that differs from it."""
        for label, data in self._held:
            if data != product:
                raise UsageError(f"{label} and {self._product.label} are one file: {self._product.path}")


def _check_previews(source: Source, values: Mapping[str, Any]) -> None:
    """Raise BytecodeError for bytecode with preview features when none is enabled."""
    if source.kind != units.BYTECODE or "preview" in values or not has_previews(source.data):
        return
    if units.bytecode_version(source.data) == str(PREVIEWS):
        message = "public-preview bytecode requires at least one enabled preview feature"
        raise bytecode.BytecodeError(tileiras.ir.location.BytecodeLoc(source.name, "", HEADER_SIZE), message)


def _refused_libraries(values: Mapping[str, Any]) -> CompileError | None:
    """Diagnostics of the tile libraries."""
    try:
        cli.tile_libraries.check(values["l"], values.get("preview", ()))
    except CompileError as error:
        return error
    return None


# ---- options executed alone ------------------------------------------------------------------------------------------


def _version() -> str:
    return f"{cli.toolkits.version_text(PROGRAM)}Build {_build()}\n"


def _build() -> str:
    """A digest of the compiler's own code: front ends cache cubins under the text of `--version`."""
    import xxhash

    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    digest = xxhash.xxh3_64()
    for folder, folders, files in os.walk(package):
        folders.sort()
        for name in sorted(name for name in files if name.endswith(".py")):
            with open(os.path.join(folder, name), "rb") as file:
                digest.update(file.read())
    return digest.hexdigest()


def _bytecode_versions() -> str:
    return "".join(f"{version}\n" for version in SUPPORTED)


def _pipeline(values: Mapping[str, Any]) -> str:
    """The passes that a compilation with these options runs; for sm_90 without a GPU."""
    result = {option: _of_compiler(option, value) for option, value in values.items() if option in OPTIONS}
    _pipeline_options(values, result)
    return tileiras.driver.pipeline_text.describe(CompileOptions({"gpu-name": "sm_90", **result}))


_ALONE: dict[str, Callable[[], str]] = {
    "help": driver_options.help_text,
    "help-hidden": lambda: driver_options.help_text(hidden=True),
    "help-list": driver_options.help_text,
    "help-list-hidden": lambda: driver_options.help_text(hidden=True),
    "version": _version,
    "list-versions": _bytecode_versions,
    "cmakedir": lambda: cmake_folder() + "\n",
    "pkgconfigdir": lambda: pkgconfig_folder() + "\n",
}


if __name__ == "__main__":
    sys.exit(program())

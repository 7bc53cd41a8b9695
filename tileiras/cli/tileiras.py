"""tileiras IN --gpu-name sm_90 -O3 -o OUT [--emit ...]: the compiler as a program.

Option spelling, messages, the order of the checks and exit codes are those of the vendor's assembler where it has them
(13.5): 0 success, 1 a command line that cannot be read or a file that cannot be, 2 a configuration that is refused, 3
input that does not parse or verify, 5 a kernel that does not compile.  Unlike it, text and cuTile Python are read as
well, and every stage's artifact can be the product.  `docs/command-line.md` has the differences.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.cli import driver_options, instrumentation, process
from tileiras.cli.command_line import Stop
from tileiras.cli.driver_options import PROGRAM
from tileiras.cli.process import UsageError
from tileiras.diagnostics import CompileError, Diagnostic, DiagnosticEngine, ExitCode
from tileiras.files import stem
from tileiras.options import OPTIONS, CompileOptions, parse_value, unsupported_gpu

if TYPE_CHECKING:
    from tileiras.api import Artifact
    from tileiras.tileir_pipeline import TileIRPipelineOptions
    from tileiras.units import Source

DEFAULT_CUBIN = "elf.o"
"""What the vendor's tool calls its output when nobody does."""


def program() -> int:
    """`main` as a process of its own: it is over soon, need not look for garbage, and leaves its memory to the system.

    Collections while modules load, and taking all of them apart in the end, took a third of its own time.
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
        return code  # the interpreter meets it again, and says so as it does of every program
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    values: Mapping[str, Any] = {}
    try:
        try:
            inputs, values = driver_options.command_line().parse(words)
        except Stop as stop:
            for error in stop.errors:
                print(error, file=sys.stderr)
            print(_ALONE[stop.name](), end="")
            return ExitCode.SUCCESS
        return _run(inputs, values)
    except UsageError as error:
        print(error, file=sys.stderr)
        return ExitCode.USAGE
    except CompileError as error:
        if error.diagnostics and values.get("diagnostics") == "json":
            from tileiras.diagnostics import to_json

            print(to_json(error.diagnostics), end="", file=sys.stderr)
        elif error.diagnostics:
            print(error.render(), file=sys.stderr)
        return error.code
    except MemoryError:
        print("error: failed to allocate memory for program", file=sys.stderr)
        return ExitCode.USAGE


def _run(inputs: Sequence[str], values: Mapping[str, Any]) -> int:
    """Checks in the order of the vendor's tool: file, magic and version, GPU, level, debug, controls, then the rest of
    the input, remarks, libraries, the compilation, the output."""
    if not inputs or not inputs[0]:
        print(driver_options.help_text(), end="")
        raise UsageError("error: no input file provided")
    from tileiras import pipeline, units

    name = inputs[0]
    if name == "-":
        data = sys.stdin.buffer.read()
        source = units.Source(data, "<stdin>", None, units.kind_of(data))
    else:
        source = units.Source.read(name)
    version = units.bytecode_version(source.data) if source.kind == units.BYTECODE else ""
    emit = values.get("emit", "cubin")
    last, suffix = pipeline.emit_stage(emit)
    given = {option: _of_compiler(option, value) for option, value in values.items() if option in OPTIONS}
    layered = _pipeline_options(values, given)
    if given.get("gpu-name") is None and (last.name not in ("export", "read") or source.kind == units.PYTHON):
        raise CompileError.at(None, unsupported_gpu("sm_0", version), ExitCode.CONFIGURATION)
    if emit in ("cubin", "sass"):
        given.setdefault("tile-launch", True)
    options = CompileOptions(given)
    if options["apply-controls"] is not None:
        from tileiras.codegen import ptxas

        ptxas.read_controls(options["apply-controls"])
    output = values.get("output-file")
    if output is None:
        output = "-" if name == "-" else DEFAULT_CUBIN if emit == "cubin" else stem(name) + suffix
    if "depfile" in values and output == "-":
        raise UsageError(f"{PROGRAM}: --depfile needs an output file")
    if "depfile" in values and os.path.realpath(values["depfile"]) == os.path.realpath(output):
        raise UsageError(f"{PROGRAM}: --depfile and the output are one file: {output}")
    # The vendor's tool writes over bytecode; a text is somebody's work.
    if source.kind != units.BYTECODE and name != "-" and os.path.realpath(name) == os.path.realpath(output):
        raise UsageError(f"{PROGRAM}: the input and the output are one file: {name}")
    if "cache" in values:
        os.environ["TILEIRAS_CACHE_DIR"] = values["cache"]
    if last.name in ("ptx", "cubin", "sass"):
        from tileiras.codegen import isolation

        # Before the compiler: loading LLVM takes as long as loading that and lowering a small kernel.
        isolation.start()
    from tileiras.build import library
    from tileiras.cli.messages import Report

    report = Report(values, source.data if source.kind == units.BYTECODE else None)
    if report.remarks.any:
        options = options.replace(**{"emit-remarks": True})
    refused = report.unwritable()
    try:
        _check_previews(source, values)
        said = _hints(source, values)
        if refused is not None or "l" in values:
            # What is wrong with the input comes first.
            library.compile_with(source, options, "cuda_tile")
        if refused is None and "l" in values:
            refused = _refused_libraries(values)
            if refused is not None:
                report.without_remarks()
        if refused is None:
            artifact = _compile(source, options, emit, values, layered, os.path.dirname(output))
    except CompileError as error:
        if values.get("mlir-print-stacktrace-on-diagnostic"):
            error.attach_trace()
        report.failure(error)
        return error.code
    if refused is not None:
        raise refused
    report.success([*said, *artifact.diagnostics])
    report.remark(layered.differences(options) if layered is not None else "")
    _write(output, artifact.data)
    if "depfile" in values:
        _write(values["depfile"], _rule(output, [name, *artifact.dependencies]).encode())
    return ExitCode.SUCCESS


def _compile(
    source: Source, options: CompileOptions, emit: str, values: Mapping[str, Any],
    layered: TileIRPipelineOptions | None, folder: str,
) -> Artifact:  # fmt: skip
    """The product; what stages make goes to `folder` where it is to be kept, and passes are watched."""
    from tileiras import api
    from tileiras.build import library

    entry = values.get("entry")
    if not (values.get("save-temps") or layered or any(values.get(name) for name in WATCHED)):
        return library.compile_with(source, options, emit, entry=entry)
    keep = _saver(folder) if values.get("save-temps") else None
    flags = {name for name in instrumentation.FLAGS if values.get(name)}
    with instrumentation.watching(flags, values, layered or {}, list) as (watchers, times):
        return api.compile_with(
            source, options, emit, entry=entry, keep=keep, instrumentation=watchers, times=times
        )  # fmt: skip


WATCHED = (*instrumentation.FLAGS, *instrumentation.WORDS)
"""Options with which passes are watched, and so have to run: nothing comes out of the store."""


def _pipeline_options(values: Mapping[str, Any], given: dict[str, Any]) -> TileIRPipelineOptions | None:
    """The options of `--pass-pipeline=tileir{...}`, of which those of the compiler go below what is `given` by name.

    Raises CompileError (code 2) for another pipeline: those are for tileiras-opt.
    """
    text = values.get("pass-pipeline")
    if text is None:
        return None
    from tileiras.tileir_pipeline import TileIRPipelineOptions

    inner = re.fullmatch(r"\s*builtin\.module\((.*)\)\s*", text, re.DOTALL)
    # The driver hands its own optimization level through, its default as well.
    parsed = TileIRPipelineOptions.parse(inner.group(1) if inner else text, {"opt-level": 3, **given})
    given.update({**parsed.given_compiler_options(), **given})
    return parsed


def _of_compiler(name: str, value: Any) -> Any:
    return parse_value(OPTIONS[name], value) if OPTIONS[name].kind is list else value


def _hints(source: Source, values: Mapping[str, Any]) -> list[Diagnostic]:
    """What is wrong with optimization hints, for those who ask; raises CompileError (code 3) where that is an error."""
    if not values.get("Wunsupported-hints"):
        return []
    from tileiras import api
    from tileiras.dialects.cuda_tile.hints import check_hints

    engine = DiagnosticEngine()
    check_hints(api.parse(source.data, source_name=source.name), engine, as_errors=bool(values.get("Werr-hints")))
    engine.raise_if_errors(ExitCode.INVALID_INPUT)
    return engine.diagnostics


def _saver(folder: str) -> Callable[[str, str, bytes], str]:
    """Writes what a stage made at once, so that it is there when a later stage fails; says where."""
    from tileiras.units import file_stem

    def save(unit: str, suffix: str, data: bytes) -> str:
        path = os.path.join(folder, file_stem(unit) + suffix)
        _write(path, data)
        return path

    return save


def _check_previews(source: Source, values: Mapping[str, Any]) -> None:
    """Raises BytecodeError for bytecode with preview features when none is enabled."""
    from tileiras import units
    from tileiras.bytecode.versions import HEADER_SIZE, PREVIEW, has_previews

    if source.kind != units.BYTECODE or "preview" in values or not has_previews(source.data):
        return
    if units.bytecode_version(source.data) == str(PREVIEW):
        from tileiras.bytecode import BytecodeError
        from tileiras.ir.location import BytecodeLoc

        message = "public-preview bytecode requires at least one enabled preview feature"
        raise BytecodeError(BytecodeLoc(source.name, "", HEADER_SIZE), message)


def _refused_libraries(values: Mapping[str, Any]) -> CompileError | None:
    """What is wrong with the tile libraries."""
    from tileiras.cli import tile_libraries

    try:
        tile_libraries.check(values["l"], values.get("preview", ()))
    except CompileError as error:
        return error
    return None


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
        if error.errno in (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT):
            raise CompileError.at(None, f"IO failure on output stream: {error.strerror}", ExitCode.USAGE) from None
        raise CompileError.at(
            None, f"unable to open output file '{path}': {error.strerror}", ExitCode.CONFIGURATION
        ) from None


# ---- what the program does alone -------------------------------------------------------------------------------------


def _version() -> str:
    from tileiras import __version__
    from tileiras.bytecode.versions import OLDEST, PREVIEW

    return f"{PROGRAM} {__version__}\nTile IR bytecode {OLDEST} to {PREVIEW}\nBuild {_build()}\n"


def _build() -> str:
    """A digest of the compiler's own code: front ends keep cubins by what `--version` prints."""
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
    from tileiras.bytecode.versions import PREVIEW, SUPPORTED

    return "".join(f"{version}\n" for version in (*SUPPORTED, PREVIEW))


def _pipeline() -> str:
    from tileiras import pipeline, tileir_pipeline

    return f"{pipeline.describe()}\n{tileir_pipeline.describe()}"


_ALONE: dict[str, Callable[[], str]] = {
    "help": driver_options.help_text,
    "help-hidden": lambda: driver_options.help_text(hidden=True),
    "help-list": driver_options.help_text,
    "help-list-hidden": lambda: driver_options.help_text(hidden=True),
    "version": _version,
    "list-versions": _bytecode_versions,
    "print-pipeline": _pipeline,
}


if __name__ == "__main__":
    sys.exit(program())

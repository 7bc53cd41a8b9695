"""tileiras-embed: kernels as C++ source, for builds of CMake, Meson and others.

    tileiras-embed IN --gpu-name=sm_80,sm_90 --header=OUT.h --source=OUT.cpp [--depfile=OUT.d]

compiles every entry of one source (Tile IR text, bytecode, cuTile Python) for every GPU named and writes a header with
a launch function for each, and a source with the images; `docs/cpp.md` describes both.  A file that is as it should be
is left alone with its times, so that a comment in a kernel compiles and links nothing of the program; `--stamp` names
an empty file that is new after every run, for build systems that go by times alone.

Exit codes are those of `tileiras`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras import cli, stages
from tileiras.cli import depfiles, driver_options, process
from tileiras.cli.command_line import STOP, CommandLine, Spec, Stop
from tileiras.cli.outputs import STANDARD, Output, Outputs
from tileiras.cli.process import UsageError
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.options import OPTIONS, CompileOptions, missing_gpu, parse_value
from tileiras.stages import units
from tileiras.support.files import stem

if TYPE_CHECKING:
    from tileiras.cli.manual import Manual
    from tileiras.stages import embed

PROGRAM = "tileiras-embed"

ALIASES = {"O": "opt-level", "arch": "gpu-name", "h": "help"}

OWN = (
    Spec("gpu-name", str, "GPUs to generate code for", "gpu[,gpu...]"),
    Spec("emit", str, "Forms of the images: ptx, cubin, fatbin; default: ptx", "form[,form]"),
    Spec("namespace", str, "C++ name space; by default the header's name", "name"),
    Spec("header", str, "The header to write", "file"),
    Spec("source", str, "The C++ source to write", "file"),
    Spec("depfile", str, "Write the inputs of both as a rule for make", "file"),
    Spec("stamp", str, "An empty file to write anew in every run", "file"),
    Spec("diagnostics", ("text", "json"), "Format of diagnostics; JSON has one object per line"),
    Spec("help", STOP, "Display available options"),
    Spec("version", STOP, "Display the version of this program"),
)

_LEFT_OUT = ("gpu-name", "emit-remarks")


def command_line() -> CommandLine:
    compiler = [spec for spec in driver_options.COMPILER if spec.name not in _LEFT_OUT]
    return CommandLine(PROGRAM, (*OWN, *compiler), ALIASES)


def manual() -> Manual:
    """The manual of the command; options of the compiler have the groups of `tileiras`."""
    specs = command_line().specs
    group_of = {name: group for group, names in driver_options.GROUPS.items() for name in names.split()}
    own = {spec.name for spec in OWN}
    rows = [cli.manual.row_of(spec, ALIASES) for spec in OWN]
    rows += [cli.manual.row_of(specs[name], ALIASES, group) for name, group in group_of.items()
             if name in specs and name not in own]  # fmt: skip
    return cli.manual.Manual(PROGRAM, "kernels as C++ source", f"{PROGRAM} [options] <source>", "", tuple(rows))


def help_text() -> str:
    return cli.manual.help_text(manual())


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; returns the exit code."""
    line = command_line()
    try:
        inputs, values = line.parse(sys.argv[1:] if arguments is None else list(arguments))
        return _run(inputs, values, line.files)
    except Stop as stop:
        if stop.errors:
            process.tell(PROGRAM, UsageError(*stop.errors))
        print(cli.toolkits.version_text(PROGRAM) if stop.name == "version" else help_text(), end="")
        return ExitCode.SUCCESS
    except UsageError as error:
        process.tell(PROGRAM, error, line.values.get("diagnostics") == "json")
        return ExitCode.USAGE
    except CompileError as error:
        from tileiras.diagnostics import to_json

        json = line.values.get("diagnostics") == "json"
        process.complain(to_json(error.diagnostics).rstrip() if json else error.render())
        return error.code


def _run(inputs: Sequence[str], values: Mapping[str, Any], files: Sequence[str]) -> int:
    if not inputs:
        raise UsageError("no input file; see --help")
    for name in ("header", "source"):
        if not values.get(name):
            raise UsageError(f"--{name}=FILE is needed; see --help")
    (name,) = inputs
    outputs = Outputs()
    outputs.reads(name, "the input")
    for path in files:
        outputs.reads(path, "the file of options")
    options = _options(values)
    option_files = depfiles.option_files(options[0])
    for path in option_files:
        outputs.reads(path, "a file that an option names")
    outputs_by_name = {
        option: outputs.writes(values[option], f"--{option}")
        for option in ("header", "source", "depfile", "stamp")
        if values.get(option)
    }
    if "depfile" in outputs_by_name and STANDARD in (values["header"], values["source"]):
        raise UsageError("--depfile needs output files")

    emits = _words(values, "emit", tileiras.build.embedding.EMITS) or ["ptx"]
    report = cli.messages.Report(values, outputs)
    source = units.Source.read(name)
    report.bytecode = source.data if source.kind == units.BYTECODE else None
    try:
        images = tileiras.build.embedding.images(source, options, emits)
        texts = _texts(images.images, _namespace(values))
    except CompileError as error:
        report.failure(error)
        return error.code
    for path in images.dependencies:
        outputs.reads(path, "a file that the input imports")
    report.success(images.diagnostics)
    _publish(outputs, outputs_by_name, texts, [name, *images.dependencies, *option_files, *files])
    return ExitCode.SUCCESS


def _options(values: Mapping[str, Any]) -> list[CompileOptions]:
    """The options for each GPU; raises CompileError (code 2)."""
    gpus = _words(values, "gpu-name", OPTIONS["gpu-name"].choices)
    if not gpus:
        raise missing_gpu()
    result = {name: _of_compiler(name, value) for name, value in values.items() if name in OPTIONS}
    return [CompileOptions({**result, "gpu-name": gpu}) for gpu in gpus]


def _of_compiler(name: str, value: int | str) -> Any:
    return parse_value(OPTIONS[name], value) if OPTIONS[name].kind is list else value


def _words(values: Mapping[str, Any], name: str, accepted: Sequence[str]) -> list[str]:
    """Words with commas between them, each once and in order; raises CompileError (code 2)."""
    words = list(dict.fromkeys(word.strip() for word in values.get(name, "").split(",") if word.strip()))
    for word in words:
        if word not in accepted:
            message = f"invalid value for {name}: {word}; accepted: {', '.join(accepted)}"
            raise CompileError.at(None, message, ExitCode.CONFIGURATION)
    return words


def _namespace(values: Mapping[str, Any]) -> str:
    entry = values.get("namespace")
    if entry is None:
        return stages.embed.identifier(stem(values["header"]))
    if not all(part == stages.embed.identifier(part) for part in entry.split("::")):
        raise UsageError(f"--namespace={entry} is no name in C++")
    return entry


def _texts(images: Sequence[embed.Image], namespace: str) -> dict[str, bytes]:
    return {"header": stages.embed.header(images, namespace), "source": stages.embed.source(images, namespace)}


def _publish(
    outputs: Outputs, outputs_by_name: Mapping[str, Output], texts: Mapping[str, bytes], dependencies: Sequence[str]
) -> None:
    """Write all files or none; those for the compiler of C++ only where their content is another."""
    contents = [(outputs_by_name[name], text) for name, text in texts.items() if not outputs_by_name[name].holds(text)]
    if "depfile" in outputs_by_name:
        products = [outputs_by_name[name].path for name in ("stamp", "header", "source") if name in outputs_by_name]
        contents.append((outputs_by_name["depfile"], depfiles.rule(products, dependencies)))
    if "stamp" in outputs_by_name:
        contents.append((outputs_by_name["stamp"], b""))
    outputs.publish(contents)


def program() -> int:
    """`main` as a process of its own."""
    return process.run(main)


if __name__ == "__main__":
    sys.exit(program())

"""tileiras-report: what the compiler made of kernels and why, as one file to look at.

    tileiras-report kernel.py --gpu-name sm_90 -o kernel.html
    tileiras-report saxpy.mlir --grid 3 --gpu H200 -o saxpy.html 'f32[3000]=ones' 'f32[3000]=ones' f32=2 i32=3000
    tileiras-report build --against ../before/build -o build.html

IN is Tile IR text, bytecode or a cuTile Python file, which is compiled for the report, or a build directory, of which
the artifacts are read as they lie there.  With --grid and the arguments of a launch, as tileiras-run takes them, the
time of the launch on --gpu is estimated.  The format is what the output's name ends in: .html, .md or .json.

Exit status: 0; 1 bad command line; 2 configuration, or a file that cannot be written; 3 the input does not parse or
verify; 5 a kernel does not compile (the report is written, and says which stage failed); 6 the launch failed.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import tileiras
from tileiras import cli
from tileiras.cli import compile_options, process
from tileiras.cli.outputs import STANDARD, Output, Outputs
from tileiras.cli.process import UsageError
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode
from tileiras.options import CompileOptions

if TYPE_CHECKING:
    from tileiras.report.model import Report
    from tileiras.report.selection import Progress
    from tileiras.report.timing import Launch

PROGRAM = "tileiras-report"
FORMATS = {".html": "html", ".htm": "html", ".md": "markdown", ".json": "json"}
DEFAULT_GPU = "H200"
_OWN = ("gpu-name", "opt-level", "lineinfo", "emit-remarks", "bytecode-version")
"""Options of the compiler that are spelled in another way here, or that a report sets itself."""


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parsers.Parser(PROGRAM, __doc__)
    parser.add_argument("input", metavar="IN", help="a source or a build directory")
    parser.add_argument("arguments", metavar="ARG", nargs="*", help="arguments of the estimated launch")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the report; - for standard output")
    parser.add_argument("--open", action="store_true", help="open the report in the browser")
    parser.add_argument("--format", choices=sorted(set(FORMATS.values())), help="default: by FILE's suffix, or html")
    parser.add_argument("--against", metavar="OTHER", help="another source or build directory to compare with")
    parser.add_argument("--artifacts", metavar="FILE", help="for a build directory IN: only kernels whose artifacts "
                        "this file lists, one per line")  # fmt: skip
    parser.add_argument("--entry", action="append", help="only this kernel; may be repeated")
    parser.add_argument("--grid", metavar="X[,Y[,Z]]", help="number of tile blocks of the estimated launch")
    parser.add_argument("--gpu", metavar="NAME", help=f"GPU of the estimate (default {DEFAULT_GPU})")
    parser.add_argument("--gpu-name", help="target of the compilation; default: the estimated GPU's, or sm_90")
    parser.add_argument("-O", "--opt-level", type=int, default=3, choices=range(4), help="optimization level")
    compile_options.add(parser, _OWN)
    parser.epilog = "Options of the compiler are taken as `tileiras` has them: --num-warps 8, --pipeline-strategy none."
    return parser


def run(argv: Sequence[str]) -> int:
    """Write the report; return the exit status.  Raises UsageError and CompileError."""
    result = build_parser().parse_intermixed_args(argv)
    outputs = Outputs()
    for path in (result.input, result.against):
        if path is not None and os.path.isfile(path):
            outputs.reads(path, "the input" if path == result.input else "--against")
    output = outputs.writes(result.output, "the report")
    format = result.format or _format_of(output)
    if result.open and output.is_stream:
        raise UsageError("--open shows a file: -o names it")
    launch = _launch(result)
    gpu_name = result.gpu_name or (_target_of(launch) if launch is not None else "sm_90")
    options = CompileOptions(
        {"gpu-name": gpu_name, "opt-level": result.opt_level, **compile_options.values_of(result, _OWN)}
    )
    _check_extra(format)
    with tileiras.support.progress.Progress("report") as line:
        if result.artifacts is not None:
            report = _of_artifacts(result.artifacts, result.input, line.say)
        else:
            report = _report(result.input, options, result.entry, launch, line.say)
        other = _report(result.against, options, result.entry, None, line.say) if result.against is not None else None
        text = _render(report, other, format)
    outputs.publish([(output, text.encode("utf-8", "backslashreplace"))])
    if result.open:
        import webbrowser

        webbrowser.open(pathlib.Path(output.path).absolute().as_uri())
    return _told_failures(report)


def _format_of(output: Output) -> str:
    suffix = os.path.splitext(output.path)[1].lower()
    if output.path == STANDARD:
        return "html"
    if suffix not in FORMATS:
        raise UsageError(f"unknown suffix of '{output.path}'; known: {', '.join(FORMATS)}; or use --format")
    return FORMATS[suffix]


def _launch(options: argparse.Namespace) -> Launch | None:
    """The launch that is to be estimated; raises UsageError where half of one is given."""
    if options.grid is None:
        if options.arguments or options.gpu is not None:
            raise UsageError("arguments and --gpu are for an estimate, which needs --grid")
        return None
    if os.path.isdir(options.input):
        raise UsageError("a launch is estimated of a source, not of a build directory")
    arguments: list[cli.run_arguments.Argument] = []
    for text in options.arguments:
        arguments.append(cli.run_arguments.parse_argument(text, arguments))
    entry = options.entry[0] if options.entry else None
    values = [value for argument in arguments for value in argument.parameters]
    return tileiras.report.timing.Launch(
        entry, cli.tileiras_run.parse_grid(options.grid), values, options.gpu or DEFAULT_GPU
    )


def _target_of(launch: Launch) -> str:
    return tileiras.targets.rates.gpu(launch.gpu).target.name


def _check_extra(format: str) -> None:
    """Raise CompileError if the packages that render HTML are not installed."""
    if format != "html":
        return
    import importlib.util

    for name, package in (("jinja2", "jinja2"), ("pygments", "pygments")):
        if importlib.util.find_spec(name) is None:
            note = Diagnostic.note(
                None, f"to write HTML, {tileiras.support.extras.install(package)}; --format markdown takes neither"
            )
            raise CompileError.at(None, f"{package} is not installed", ExitCode.CONFIGURATION, [note])


def _report(
    path: str, options: CompileOptions, entries: Sequence[str] | None, launch: Launch | None, progress: Progress
) -> Report:
    if os.path.isdir(path):
        return tileiras.report.collect.of_build(path, entries=entries, progress=progress)
    if launch is not None and launch.entry is None:
        names = tileiras.build.discover.entry_names(tileiras.stages.units.Source.read(path))
        if len(names) > 1:
            raise UsageError(f"a launch is one kernel's: --entry must be one of {', '.join(names)}")
    return tileiras.report.collect.of_source(path, options, entries=entries, launch=launch, progress=progress)


def _of_artifacts(names: str, build: str, progress: Progress) -> Report:
    title = os.path.basename(os.path.abspath(build))
    paths = process.read_input(names).decode("utf-8", "surrogateescape").split("\n")
    return tileiras.report.collect.of_artifacts([path for path in paths if path], title, progress=progress)


def _render(report: Report, other: Report | None, format: str) -> str:
    against = tileiras.report.figures.differences(report, other) if other is not None else ()
    if format == "json":
        import json

        return (
            json.dumps(
                {**tileiras.report.model.as_json(report), "against": tileiras.report.model.as_json(against)}, indent=1
            )
            + "\n"
        )
    if format == "markdown":
        return tileiras.report.markdown.markdown(report, against)
    return tileiras.report.page.page(report, against)


def _told_failures(report: Report) -> int:
    """Say which kernels do not compile; the exit status."""
    failed = [
        f"error: {kernel.name}: {text}" for kernel in report.kernels for text in kernel.missing
        if text.startswith("stage ") and " failed: " in text
    ]  # fmt: skip
    for text in failed:
        process.complain(text)
    return ExitCode.COMPILE_FAILURE if failed else ExitCode.SUCCESS


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit status."""
    return process.simulating(PROGRAM, lambda: run(sys.argv[1:] if argv is None else argv))


def program() -> int:
    """`main` as a process of its own."""
    return process.run(main)


if __name__ == "__main__":
    sys.exit(program())

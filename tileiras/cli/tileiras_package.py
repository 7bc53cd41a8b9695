"""tileiras package SOURCE... --gpu-name sm_80,sm_90 -o FOLDER: kernels compiled ahead of time, with a loader.

FOLDER is a Python package, or NAME-VERSION-py3-none-any.whl a wheel of it, with fat binaries, their launch descriptions
and a loader that needs the CUDA driver and nothing else.  Exit codes are those of `tileiras`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import tileiras
from tileiras import cli
from tileiras.cli import compile_options, depfiles, process
from tileiras.cli.outputs import Outputs
from tileiras.cli.process import UsageError
from tileiras.diagnostics import CompileError, ExitCode, Severity
from tileiras.options import CompileOptions
from tileiras.stages import units

PROGRAM = "tileiras package"

_OWN = ("gpu-name", "opt-level", "emit-remarks", "bytecode-version")
"""Options of the compiler that are spelled in another way here, or are those of other products."""

_WHEEL = re.compile(r"(\w+)-([0-9][\w.!+]*)-py3-none-any\.whl")


def build_parser() -> Any:
    parser = cli.parsers.Parser(PROGRAM, __doc__)
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help="Tile IR text, bytecode or a cuTile Python file")
    parser.add_argument("-o", "--output", required=True, help="the folder, or NAME-VERSION-py3-none-any.whl")
    parser.add_argument("--gpu-name", required=True, help="targets, with commas")
    parser.add_argument("-O", "--opt-level", type=int, default=3, choices=range(4), help="optimization level")
    parser.add_argument("--depfile", help="write the inputs as a rule for make")
    compile_options.add(parser, _OWN)
    return parser


def main(words: Sequence[str]) -> int:
    """Return the exit code."""
    result = build_parser().parse_intermixed_args(list(words))
    outputs = Outputs()
    for path in result.sources:
        outputs.reads(path, "the input")
    base = os.path.basename(os.path.normpath(result.output))
    match = _WHEEL.fullmatch(base)
    if match is None and base.endswith(".whl"):
        raise UsageError(f"a wheel is called NAME-VERSION-py3-none-any.whl, not {base}")
    depfile = outputs.writes(result.depfile, "--depfile") if result.depfile else None
    try:
        options = {"opt-level": result.opt_level, **compile_options.values_of(result, _OWN)}
        names = tileiras.build.fat_binary.named_targets(result.gpu_name)
        targets = [CompileOptions({**options, "gpu-name": name}) for name in names]
        sources = [units.Source.read(path) for path in result.sources]
        package = tileiras.build.launch_package.compile_package(base if match is None else match[1], sources, targets)
        for diagnostic in package.diagnostics:
            if diagnostic.severity is not Severity.REMARK:
                process.complain(diagnostic.render())
        for path in package.dependencies:
            outputs.reads(path, "a file that an input imports")
        if match is not None:
            data = tileiras.build.launch_package.wheel(match[1], match[2], package.files)
            contents = [(outputs.writes(result.output, "the wheel"), data)]
        else:
            os.makedirs(os.path.join(result.output, "_runtime"), exist_ok=True)
            contents = [
                (outputs.writes(os.path.join(result.output, path), f"the package's {path}"), data)
                for path, data in package.files.items()
            ]
        if depfile is not None:
            products = [output.path for output, _ in contents]
            contents.append((depfile, depfiles.rule(products, [*result.sources, *package.dependencies])))
        outputs.publish(contents)
    except CompileError as error:
        process.complain(error.render())
        return error.code
    except OSError as error:
        process.complain(f"error: unable to write '{error.filename}': {error.strerror}\n")
        return ExitCode.CONFIGURATION
    return ExitCode.SUCCESS

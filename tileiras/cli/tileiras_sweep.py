"""tileiras-sweep: the options with which a kernel is fastest, by the clock's estimate.

    tileiras-sweep matmul.py --grid 8,8 --num-warps 4,8 --stages 2..5 --gpu H200 'array:f16[1024,1024]=ones' ...

Every option of the compiler takes several values, with commas or as a range: all their combinations are candidates.
`--const TM=64,128` does the same for a constant of a cuTile Python kernel; a grid may follow from constants, and from
sizes, strides and scalars among the arguments: `--grid 'cdiv(C_size0,TM),cdiv(C_size1,TN)'` (`+ - * // %`, min, max).

Each is compiled through the artifact store, run in the emulator, and left out where its results differ from the
interpreter's (of the constants that the file has); the others are ranked by `tileiras.sim.estimate`.  `--check-grid`
names a smaller grid for the comparison.  With `--backend cuda` candidates run on this machine's GPU instead: there
results are compared, and the median of several launches is what ranks them.  The arguments are those of tileiras-run.

`--write` keeps the winner beside the source, in KERNEL.tune.json, which builds read; `--json FILE` and
`--plot FILE.svg` write all that was found.

Exit status: 0; 1 bad command line; 2 configuration, a file that cannot be written; 3 the input does not parse or
verify; 5 no candidate is left; 6 the kernel failed while it ran.
"""

from __future__ import annotations

import argparse
import itertools
import json
import keyword
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras import cli, report
from tileiras.cli import grid_expression, process
from tileiras.cli.outputs import Outputs
from tileiras.cli.process import UsageError
from tileiras.diagnostics import ExitCode
from tileiras.options import OPTIONS, CompileOptions, parse_value
from tileiras.report.tuning import BACKENDS, CUDA, ESTIMATE, device, tune
from tileiras.support.files import read_if_there

if TYPE_CHECKING:
    from tileiras.report.sweep import Sweep

PROGRAM = "tileiras-sweep"
DEFAULT_GPU = "H200"
SHORT = {"unspecialized-pipeline-num-stages": "--stages", "pipeline-strategy": "--strategy"}
"""Short names of the options that are swept most often."""
_NOT_SWEPT = ("gpu-name", "opt-level")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parsers.Parser(PROGRAM, __doc__)
    parser.add_argument("input", metavar="IN")
    parser.add_argument("arguments", metavar="ARG", nargs="*")
    parser.add_argument("--entry", help="the kernel; optional if there is only one")
    parser.add_argument("--grid", default="1", metavar="X[,Y[,Z]]", help="tile blocks (default 1), or expressions")
    parser.add_argument("--const", action="append", default=[], metavar="NAME=VALUES", help="a constant of the kernel")
    parser.add_argument("--check-grid", metavar="X[,Y[,Z]]", help="tile blocks of the launch for comparing results")
    parser.add_argument("--backend", choices=BACKENDS, default=ESTIMATE, help="cuda: measured on this machine's GPU")
    parser.add_argument("--gpu", metavar="NAME", help=f"GPU of the estimate (default {DEFAULT_GPU})")
    parser.add_argument("--gpu-name", help="target of the compilation; default: the GPU's own")
    parser.add_argument("-O", "--opt-level", metavar="LEVELS", help="0 to 3, or several of them")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="candidates that run in parallel")
    parser.add_argument("--write", action="store_true", help="write the winner to KERNEL.tune.json")
    parser.add_argument("--json", metavar="FILE", help="write the results as data")
    parser.add_argument("--plot", metavar="FILE", help="write the results as bars, in SVG")
    for name, option in OPTIONS.items():
        if name not in _NOT_SWEPT:
            names = [f"--{name}", *([SHORT[name]] if name in SHORT else [])]
            parser.add_argument(*names, metavar="VALUES", dest=option.attribute, help=argparse.SUPPRESS)
    parser.epilog = "Every option of the compiler takes several values: --num-warps 4,8; `tileiras --help` lists them."
    return parser


def _words(option: str, text: str, accepted: Sequence[str] | None = None) -> list[str]:
    """`4,8` or `2..5` as words, each once; of a range those that are accepted.  Raises UsageError."""
    words: list[str] = []
    for word in text.split(","):
        match = _RANGE.fullmatch(word.strip())
        if match is None:
            words.append(word.strip())
            continue
        first, last = int(match.group(1)), int(match.group(2))
        if last < first or last - first > 1000:
            raise UsageError(f"{option} {text}: {word} is no range")
        words += [str(each) for each in range(first, last + 1) if not accepted or each in accepted]
    return [word for word in dict.fromkeys(words) if word]


def values_of(name: str, text: str) -> list[Any]:
    """`4,8` or `2..5` as values of an option, each once.  Raises UsageError and CompileError for invalid values."""
    result = [parse_value(OPTIONS[name], word) for word in _words(f"--{name}", text, OPTIONS[name].choices)]
    if not result:
        raise UsageError(f"--{name} {text}: no value that it accepts")
    for value in result:
        CompileOptions({name: value, "opt-level": 0 if name == "device-debug" else 3})
    return result


def constants(texts: Sequence[str]) -> list[dict[str, bool | int | float]]:
    """All combinations of the values of `--const NAME=VALUES`.  Raises UsageError."""
    axes: dict[str, list[bool | int | float]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip()
        if not equals or not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"--const takes NAME=VALUES, got '{text}'")
        if name in axes:
            raise UsageError(f"--const {name} is given twice")
        axes[name] = [_constant(name, word) for word in _words("--const", values)]
        if not axes[name]:
            raise UsageError(f"--const {text}: no value")
    return [dict(zip(axes, each)) for each in itertools.product(*axes.values())] if axes else []


def _constant(name: str, word: str) -> bool | int | float:
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for kind in (lambda text: int(text, 0), float):
        try:
            return kind(word)
        except ValueError:
            continue
    raise UsageError(f"--const {name}: '{word}' is neither a number nor true or false")


def parse_grid(option: str, text: str) -> tuple[int, ...] | Callable[[Mapping[str, Any]], tuple[int, ...]]:
    """A grid, or a function from values of names to a grid.  Raises UsageError."""
    result = grid_expression.parse(option, text)
    return result.of if result.names else result.of({})


def candidates(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """All combinations of the values of the options that a command line names, the last named changing fastest."""
    axes: dict[str, list[Any]] = {}
    for name, option in OPTIONS.items():
        text = getattr(arguments, option.attribute, None) if name != "gpu-name" else None
        if text is not None:
            axes[option.attribute] = values_of(name, text)
    return [dict(zip(axes, each)) for each in itertools.product(*axes.values())]


def run(argv: Sequence[str]) -> int:
    """Sweep; returns the exit status.  Raises UsageError, CompileError and the simulators' exceptions."""
    options = build_parser().parse_intermixed_args(argv)
    grid = parse_grid("--grid", options.grid)
    rows = candidates(options)
    outputs = Outputs()
    outputs.reads(options.input, "the input")
    for path in filter(None, map(cli.run_arguments.file_of, options.arguments)):
        outputs.reads(path, "an argument's file")
    data = outputs.writes(options.json, "--json") if options.json is not None else None
    bars = outputs.writes(options.plot, "--plot") if options.plot is not None else None
    arguments: list[cli.run_arguments.Argument] = []
    for text in options.arguments:
        arguments.append(cli.run_arguments.parse_argument(text, arguments))
    values = [value for argument in arguments for value in argument.parameters]
    check = (parse_grid("--check-grid", options.check_grid), values) if options.check_grid is not None else None
    sweep = _swept(options, grid, values, rows, check)
    print(report.sweep.table(sweep, shutil.get_terminal_size((120, 24)).columns))
    if options.write and sweep.tuned.constants:
        best = ", ".join(f"{name}={value}" for name, value in sweep.tuned.constants.items())
        print(f"note: builds take constants from TILEIRAS_EXPORT; the options written are best with {best}")
    contents = []
    if data is not None:
        contents.append((data, json.dumps(sweep.to_json(), indent=1).encode() + b"\n"))
    if bars is not None:
        contents.append((bars, report.sweep.plot(sweep).encode()))
    if options.write:
        contents.append(_tune_file(options.input, sweep, outputs))
    outputs.publish(contents)
    return ExitCode.SUCCESS


def _swept(
    args: argparse.Namespace, grid: tuple[int, ...] | Callable[[Mapping[str, Any]], tuple[int, ...]],
    values: Sequence[Any], rows: Sequence[Mapping[str, Any]], check: Any,
) -> Sweep:  # fmt: skip
    if args.backend == CUDA:
        if args.gpu is not None:
            raise UsageError("--gpu is for --backend estimate; --backend cuda uses this machine's")
        gpu, target = device()
    else:
        chosen_gpu = tileiras.targets.rates.gpu(args.gpu or DEFAULT_GPU)
        gpu, target = chosen_gpu.name, chosen_gpu.target.name
    target = args.gpu_name or target
    entry = args.entry or _only_entry(args.input)
    common = {"gpu_name": target}
    combinations = constants(args.const)
    with tileiras.support.progress.Progress("sweep", total=len(rows) * max(len(combinations), 1)) as line:
        tuned = tune(
            args.input, grid, values, rows, gpu, entry=entry, check=check, constants=combinations,
            backend=args.backend, jobs=args.jobs,
            progress=lambda options: line.step(report.sweep.text_of(options)), **common,
        )  # fmt: skip
    return report.sweep.Sweep(os.path.basename(args.input), entry, gpu, target, args.grid, tuned, args.backend)


def _only_entry(path: str) -> str:
    names = tileiras.build.discover.entry_names(tileiras.stages.units.Source.read(path))
    if len(names) > 1:
        raise UsageError(f"--entry must be one of {', '.join(names)}")
    if not names:
        tileiras.parse(path)  # reports errors of the file
        raise UsageError(f"{path} has no kernels")
    return names[0]


def _tune_file(path: str, sweep: Sweep, outputs: Outputs) -> tuple[Any, bytes]:
    """KERNEL.tune.json with the winner and the parameters of the search."""
    file = tileiras.build.tuned.path_of(path)
    result = {
        "entry": sweep.entry, "gpu": sweep.gpu, "grid": sweep.grid, "backend": sweep.backend,
        "microseconds": round(sweep.tuned.candidates[0].microseconds or 0.0, 3),
    }  # fmt: skip
    if sweep.tuned.constants:
        result["constants"] = sweep.tuned.constants
    options = {name: value for name, value in sweep.tuned.options.items() if name != "opt_level"}
    text = tileiras.build.tuned.text(read_if_there(file), sweep.target, options, result)
    return outputs.writes(file, "--write"), text


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit status."""
    return process.simulating(PROGRAM, lambda: run(sys.argv[1:] if argv is None else argv))


def program() -> int:
    """`main` as a process of its own."""
    return process.run(main)


if __name__ == "__main__":
    sys.exit(program())

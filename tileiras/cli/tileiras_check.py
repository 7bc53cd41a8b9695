"""tileiras-check: whether what is compiled of a kernel does what the kernel means, on launches found from it.

    tileiras-check matmul.py --gpu-name sm_90
    tileiras-check matmul.mlir --gpu-name sm_100 --num-warps 8 --launch mine.npz --budget 60
    tileiras-check matmul.mlir --gpu-name sm_90 --image theirs.ptx
    tileiras-check --from build --junit check.xml --sarif check.sarif
    tileiras-check matmul.mlir --gpu-name sm_90 --ptxas-versions 13.0,13.5
    tileiras-check matmul.mlir --gpu-name sm_90 --same-order="--num-warps=8"

SOURCE is Tile IR text, bytecode or a cuTile Python file.  It is compiled with the options given, all those of
`tileiras`, and executed beside the interpreter: sizes around the edges of tiles, trips of loops, strides, values of
every kind, several orders of warps.  `--image` names PTX, an override of a stage, or a cubin with its PTX in it (line
information) or beside it, that is judged instead of what tileiras makes; its NAME.json, where there is one, says how it
is launched.  `--waive RULE` names a rule of the PTX ISA that others' code need not keep.

`--launch FILE.npz` adds a launch: `numpy.savez(FILE, *arguments, grid=(x, y, z))`, a scalar being an array without
dimensions.  `--blame` compiles code that is wrong again, executes the module after each pass, and names the first pass
at fault, the operation and its line.  After `--budget` seconds (120) no further launch is begun.  `--json` prints the
verdicts as data, `-o FILE` writes them, `--junit FILE` and `--sarif FILE` write them for CI.  `--from` reads verdicts
that were written, those of a build in a folder, instead of checking a source.

`--same-order="OTHER OPTIONS"` checks nothing: it compiles the source a second time, with the other options besides, and
says for each output whether both builds give the same bits, and which decision makes the difference.  That is claimed
by their certificates of order, and executed on a few launches.

`--ptxas-versions A,B` checks nothing: it assembles the PTX with two releases of ptxas, named by version or by path, and
compares resources and machine code.

Exit status: 0 right; 1 bad command line; 2 configuration; 3 the input does not parse or verify; 5 it does not compile;
6 the program itself is at fault; 7 the code is wrong; 8 no launch could be judged.  Of `--same-order`: 0 the same
bits; 7 the same bits are claimed, and an execution gives others; 8 it is not known; 9 they may differ.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras import cli
from tileiras.cli import check_files, compile_options, process
from tileiras.cli.outputs import Outputs
from tileiras.cli.process import UsageError
from tileiras.diagnostics import Diagnostic, ExitCode, Severity

if TYPE_CHECKING:
    from tileiras.check.verdict import Finding, Verdict

PROGRAM = "tileiras-check"
WRONG, UNDECIDED, DIFFERENT = 7, 8, 9
_SAID = {"same": 0, "unknown": UNDECIDED, "different": DIFFERENT}
_STATUS = {"right": 0, "fault-of-program": process.KERNEL_FAILED, "wrong": WRONG, "inconclusive": UNDECIDED}
_ORDER = ("wrong", "fault-of-program", "inconclusive", "right")
"""Of several entries the first of these is the command's."""
_SEVERITY = {"program": Severity.WARNING, "no-launch": Severity.ERROR}
_OWN = ("gpu-name", "opt-level")


def build_parser() -> argparse.ArgumentParser:
    parser = cli.parsers.Parser(PROGRAM, __doc__)
    parser.add_argument("source", metavar="SOURCE", nargs="?")
    parser.add_argument("--from", dest="stored", metavar="PATH", nargs="+", help="verdicts, and folders of builds")
    parser.add_argument("--gpu-name", help="target of the compilation; default: the image's own")
    parser.add_argument("-O", "--opt-level", type=int, default=3, choices=range(4), help="optimization level")
    parser.add_argument("--entry", help="the kernel; default: all kernels of the source")
    parser.add_argument("--image", metavar="FILE", help="PTX, an override, or a cubin with its PTX, to check")
    parser.add_argument("--waive", metavar="RULE", action="append", default=[], help="a rule that the image may break")
    parser.add_argument("--launch", metavar="FILE", action="append", default=[], help="a launch to add")
    parser.add_argument("--blame", action="store_true", help="name the first pass after which the code is wrong")
    parser.add_argument("--budget", metavar="SECONDS", type=float, default=120.0, help="for each kernel (default 120)")
    parser.add_argument("--json", action="store_true", help="print the verdicts as data")
    parser.add_argument("-o", dest="output", metavar="FILE", help="write the verdicts as data")
    parser.add_argument("--junit", metavar="FILE", help="write them as JUnit XML")
    parser.add_argument("--sarif", metavar="FILE", help="write them as SARIF 2.1.0")
    parser.add_argument("--ptxas-versions", metavar="A,B", help="compare two releases of ptxas instead")
    parser.add_argument("--same-order", metavar="OPTIONS", help="compare the results with those of a second build")
    compile_options.add(parser, _OWN)
    return parser


def launch_of(path: str) -> tuple[tuple[int, ...], list[Any]]:
    """Grid and arguments of a NumPy archive.  Raises UsageError if the file is not one."""
    import zipfile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            names = [f"arr_{number}" for number in range(len(archive.files) - ("grid" in archive.files))]
            if missing := [name for name in names if name not in archive.files]:
                raise UsageError(f"{path} has no '{missing[0]}': write it by numpy.savez(FILE, *arguments, grid=...)")
            grid = tuple(map(int, np.atleast_1d(archive["grid"]))) if "grid" in archive.files else (1,)
            arrays = [archive[name] for name in names]
    except (OSError, ValueError, zipfile.BadZipFile) as problem:
        raise UsageError(f"{path} is no archive of a launch: {problem}") from None
    # Arrays of types that NumPy lacks are loaded as bytes.
    arrays = [each.view(f"u{each.dtype.itemsize}") if each.dtype.kind == "V" else each for each in arrays]
    return grid, [each if each.ndim else each[()] for each in arrays]


def rendered(finding: Finding, sources: Mapping[str, str]) -> str:
    """A finding with its line of the source."""
    place = None
    if finding.location:
        file, line, column = finding.location.rsplit(":", 2)
        place = tileiras.ir.FileLineColLoc(file, int(line), int(column))
    severity = Severity.ERROR if finding.is_wrong else _SEVERITY.get(finding.kind, Severity.NOTE)
    notes = []
    if finding.launch is not None:
        notes.append(Diagnostic.note(None, f"in launch {finding.launch}"))
    if finding.ptx_line is not None:
        notes.append(Diagnostic.note(None, f"in line {finding.ptx_line} of the PTX"))
    return Diagnostic(severity, place, finding.message, notes).render(sources)


def _sources(verdict: Verdict, folder: str) -> dict[str, str]:
    sources: dict[str, str] = {}
    for name in {each.location.rsplit(":", 2)[0] for each in verdict.findings if each.location}:
        for path in (name, os.path.join(folder, name)):
            if name not in sources and os.path.isfile(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    sources[name] = file.read()
    return sources


def text_of(verdict: Verdict, folder: str) -> str:
    """A verdict as text: its findings, the launches that ran, the coverage."""
    sources = _sources(verdict, folder)
    lines = [rendered(each, sources) for each in verdict.findings]
    numbers = {each.launch for each in verdict.findings if each.is_wrong or each.kind == "program"}
    lines += [str(each) for each in verdict.launches if each.number in numbers]
    return "\n".join([*lines, verdict.summary()])


def run(argv: Sequence[str]) -> int:
    """Check; return the exit status.  Raises UsageError, CompileError, OSError."""
    result = build_parser().parse_args(argv)
    options = compile_options.values_of(result, _OWN)
    _check_arguments(result)
    added = [launch_of(path) for path in result.launch]
    outputs = Outputs()
    for path in (result.source, result.image, *result.launch, *(result.stored or ())):
        if path is not None:
            outputs.reads(path, "an input")
    words = {"-o": result.output, "--junit": result.junit, "--sarif": result.sarif}
    output, junit, sarif = (None if path is None else outputs.writes(path, word) for word, path in words.items())
    options = {name.replace("-", "_"): value for name, value in options.items()}
    if result.ptxas_versions is not None:
        return _compare_assemblers(result, options)
    if result.same_order is not None:
        return _compare_builds(result, options, added)
    verdicts = []
    for verdict, folder in check_files.of_builds(result.stored) if result.stored else _check(result, options, added):
        verdicts.append((verdict, folder))
        if not result.json:
            print(text_of(verdict, folder), flush=True)
    data = json.dumps([each.to_json() for each, _ in verdicts], indent=1) + "\n"
    if result.json:
        print(data, end="")
    files = check_files.documents(verdicts, junit, sarif)
    outputs.publish([*([(output, data.encode())] if output is not None else []), *files])
    statuses = {each.status for each, _ in verdicts}
    return next((_STATUS[each] for each in _ORDER if each in statuses), ExitCode.SUCCESS)


def _check_arguments(args: argparse.Namespace) -> None:
    """Raise UsageError for words that do not go together."""
    if (args.source is None) == (args.stored is None):
        raise UsageError("a source is checked, or verdicts are read --from files: one of the two is expected")
    if args.stored is not None and (args.image or args.launch or args.ptxas_versions or args.same_order):
        raise UsageError("--from reads verdicts, and takes no image, launch, assembler or other options")
    if args.stored is None and args.gpu_name is None and args.image is None:
        raise UsageError("--gpu-name names the target")
    if args.ptxas_versions is not None and (args.junit or args.sarif or args.output):
        raise UsageError("--ptxas-versions makes no verdict; --json prints its result as data")
    if args.blame and (args.image is not None or args.stored is not None):
        raise UsageError("--blame follows the compiler's passes, which did not make the image")
    if args.same_order is not None and (args.image or args.junit or args.sarif or args.output):
        raise UsageError("--same-order makes no verdict; --json prints its result as data")
    if args.waive and args.image is None:
        raise UsageError("--waive is for an --image: code of this compiler keeps all rules")
    from tileiras.sim.emulator.rules import RULES

    for rule in args.waive:
        if rule not in RULES:
            raise UsageError(f"--waive {rule}: there is no such rule; accepted: {', '.join(RULES)}")


def _entries(arguments: argparse.Namespace) -> list[str]:
    """The entries of the source that are asked for."""
    entries = tileiras.stages.units.entries_of(tileiras.parse(arguments.source))
    names = [tileiras.stages.units.entry_name(op) for op in entries]
    if arguments.entry is not None and arguments.entry not in names:
        raise UsageError(f"no entry '{arguments.entry}'; the module has {', '.join(names) or 'none'}")
    names_chosen = names if arguments.entry is None else [arguments.entry]
    if arguments.launch and len(names_chosen) > 1:
        raise UsageError(f"a launch is one kernel's: --entry must be one of {', '.join(names)}")
    return names_chosen


def _check(
    arguments: argparse.Namespace, options: Mapping[str, Any], added: Sequence[Any]
) -> Iterator[tuple[Verdict, str]]:
    """The verdict on each entry, and the folder of the source."""
    from tileiras.check.checker import check

    for name in _entries(arguments):
        yield check(
            arguments.source, gpu_name=arguments.gpu_name, opt_level=arguments.opt_level, entry=name,
            image=arguments.image,
            launches=added, budget=arguments.budget, waive=arguments.waive, blame=arguments.blame, **options,
        ), os.path.dirname(arguments.source)  # fmt: skip


def _compare_builds(arguments: argparse.Namespace, options: Mapping[str, Any], added: Sequence[Any]) -> int:
    """Compare the results with those of a build with other options."""
    import shlex

    import tileiras
    from tileiras.check import order
    from tileiras.check.checker import choose, image_of
    from tileiras.check.same_order import Comparison, execute

    try:
        words = shlex.split(arguments.same_order)
    except ValueError as problem:
        raise UsageError(f"--same-order {arguments.same_order}: {str(problem).lower()}") from None
    target = ["--gpu-name", arguments.gpu_name, "-O", str(arguments.opt_level)]
    parsed = build_parser().parse_args([arguments.source, *target, *words])
    others = {name.replace("-", "_"): value for name, value in compile_options.values_of(parsed, _OWN).items()}
    both = [(arguments, options), (parsed, {**options, **others})]
    module = tileiras.parse(arguments.source)
    items = []
    for name in _entries(arguments):
        images = [image_of(arguments.source, name, a.gpu_name, None, a.opt_level, o) for a, o in both]
        certificates = [order.of_kernel(image.metadata, name) for image in images]
        settings = [{**o, "gpu_name": a.gpu_name} for a, o in both]
        places = order.locate(certificates[0], module, name, arguments.gpu_name)
        claims = order.compare(*certificates, settings, places["sums"] if places is not None else ())
        executed = execute(module, choose(module, name), images, arguments.budget, user_launches=added)
        items.append(Comparison(name, tuple(claims), executed))
        if not arguments.json:
            print(items[-1], flush=True)
    if arguments.json:
        print(json.dumps([each.to_json() for each in items], indent=1))
    return WRONG if any(each.contradictions for each in items) else max(_SAID[each.says] for each in items)


def _compare_assemblers(arguments: argparse.Namespace, options: Mapping[str, Any]) -> int:
    """Print the resources and machine code that two releases of ptxas produce for each entry."""
    from tileiras.check import assemblers
    from tileiras.check.checker import image_of, target_of

    words = arguments.ptxas_versions.split(",")
    if len(words) != 2 or not all(words):
        raise UsageError(f"--ptxas-versions {arguments.ptxas_versions}: two are compared, with a comma between them")
    both = [assemblers.find(word) for word in words]
    data = []
    for name in _entries(arguments):
        image = image_of(arguments.source, name, arguments.gpu_name, arguments.image, arguments.opt_level, options)
        chip = arguments.gpu_name or target_of(image.ptx)
        functions = assemblers.compare(image.ptx, chip, arguments.opt_level, both)
        data.append(assemblers.to_json(functions, both))
        if not arguments.json:
            print(assemblers.table(functions, both), flush=True)
    if arguments.json:
        print(json.dumps(data, indent=1))
    return ExitCode.SUCCESS


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit status."""

    def command() -> int:
        try:
            return run(sys.argv[1:] if argv is None else argv)
        except FileNotFoundError as problem:
            raise UsageError(f"{problem.filename}: {problem.strerror}") from None

    return process.simulating(PROGRAM, command)


def program() -> int:
    """`main` as a process of its own."""
    return process.run(main)


if __name__ == "__main__":
    sys.exit(program())

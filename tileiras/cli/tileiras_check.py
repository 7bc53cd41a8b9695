"""tileiras-check: whether what is compiled of a kernel does what the kernel means, on launches found from it.

    tileiras-check matmul.py --gpu-name sm_90
    tileiras-check matmul.mlir --gpu-name sm_100 --num-warps 8 --launch mine.npz --budget 60
    tileiras-check matmul.mlir --gpu-name sm_90 --image theirs.ptx

SOURCE is Tile IR text, bytecode or a cuTile Python file.  It is compiled with the options given, all those of
`tileiras`, and executed beside the interpreter: sizes around the edges of tiles, trips of loops, strides, values of
every kind, several orders of warps.  `--image` names PTX, or a cubin with its PTX beside it, that is judged instead of
what tileiras makes; its NAME.json, where there is one, says how it is launched.

`--launch FILE.npz` adds a launch: `numpy.savez(FILE, *arguments, grid=(x, y, z))`, a scalar being an array without
dimensions.  `--blame` compiles code that is wrong again, executes what each pass leaves, and names the first one that
is at fault, the operation and its line.  After `--budget` seconds (120) no further launch is begun.  `--json` prints
the verdicts as data, `-o FILE` writes them.

Exit status: 0 right; 1 bad command line; 2 configuration; 3 the input does not parse or verify; 5 it does not compile;
6 the program itself is at fault; 7 the code is wrong; 8 no launch could be judged.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.cli import compile_options, process
from tileiras.cli.outputs import Outputs
from tileiras.cli.process import UsageError
from tileiras.diagnostics import Diagnostic, ExitCode, Severity

if TYPE_CHECKING:
    from tileiras.check.verdict import Finding, Verdict

PROGRAM = "tileiras-check"
WRONG, UNDECIDED = 7, 8
_STATUS = {"right": 0, "fault-of-program": process.KERNEL_FAILED, "wrong": WRONG, "inconclusive": UNDECIDED}
_ORDER = ("wrong", "fault-of-program", "inconclusive", "right")
"""Of several entries the first of these is the command's."""
_SEVERITY = {"program": Severity.WARNING, "no-launch": Severity.ERROR}
_OWN = ("gpu-name", "opt-level")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):  # type: ignore[override]
        raise UsageError(message)


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=PROGRAM, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("--gpu-name", help="what to compile for; an image's own unless given")
    parser.add_argument("-O", "--opt-level", type=int, default=3, choices=range(4))
    parser.add_argument("--entry", help="the kernel; all of the source unless given")
    parser.add_argument("--image", metavar="FILE", help="PTX, or a cubin with its PTX, to judge")
    parser.add_argument("--launch", metavar="FILE", action="append", default=[], help="a launch to add")
    parser.add_argument("--blame", action="store_true", help="name the pass that is at fault for wrong code")
    parser.add_argument("--budget", metavar="SECONDS", type=float, default=120.0, help="for each kernel (default 120)")
    parser.add_argument("--json", action="store_true", help="print the verdicts as data")
    parser.add_argument("-o", dest="output", metavar="FILE", help="write the verdicts as data")
    compile_options.add(parser, _OWN)
    return parser


def launch_of(path: str) -> tuple[tuple[int, ...], list[Any]]:
    """Grid and arguments of a NumPy archive.  Raises UsageError for what is none."""
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
    # Types that NumPy has none of its own for come back as bytes.
    arrays = [each.view(f"u{each.dtype.itemsize}") if each.dtype.kind == "V" else each for each in arrays]
    return grid, [each if each.ndim else each[()] for each in arrays]


def rendered(finding: Finding, sources: Mapping[str, str]) -> str:
    """A finding with its line of the source."""
    from tileiras.ir import FileLineColLoc

    place = None
    if finding.location:
        file, line, column = finding.location.rsplit(":", 2)
        place = FileLineColLoc(file, int(line), int(column))
    severity = Severity.ERROR if finding.is_wrong else _SEVERITY.get(finding.kind, Severity.NOTE)
    notes = []
    if finding.launch is not None:
        notes.append(Diagnostic.note(None, f"in launch {finding.launch}"))
    if finding.ptx_line is not None:
        notes.append(Diagnostic.note(None, f"in line {finding.ptx_line} of the PTX"))
    return Diagnostic(severity, place, finding.message, notes).render(sources)


def _sources(verdict: Verdict, folder: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in {each.location.rsplit(":", 2)[0] for each in verdict.findings if each.location}:
        for path in (name, os.path.join(folder, name)):
            if name not in found and os.path.isfile(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    found[name] = file.read()
    return found


def text_of(verdict: Verdict, folder: str) -> str:
    """A verdict for a reader: its findings, what ran, what was covered."""
    sources = _sources(verdict, folder)
    lines = [rendered(each, sources) for each in verdict.findings]
    shown = {each.launch for each in verdict.findings if each.is_wrong or each.kind == "program"}
    lines += [str(each) for each in verdict.launches if each.number in shown]
    return "\n".join([*lines, verdict.summary()])


def run(argv: Sequence[str]) -> int:
    """Checks; returns the exit status.  Raises UsageError, CompileError, OSError."""
    given = build_parser().parse_args(argv)
    options = compile_options.given(given, _OWN)
    if given.gpu_name is None and given.image is None:
        raise UsageError("--gpu-name says what to compile for")
    if given.blame and given.image is not None:
        raise UsageError("--blame follows the compiler's passes, which did not make the image")
    added = [launch_of(path) for path in given.launch]
    outputs = Outputs()
    for path in (given.source, given.image, *given.launch):
        if path is not None:
            outputs.reads(path, "an input")
    output = outputs.writes(given.output, "-o") if given.output is not None else None
    import json

    import tileiras
    from tileiras.check.checker import check
    from tileiras.units import entries_of, entry_name

    module = tileiras.parse(given.source)
    names = [entry_name(op) for op in entries_of(module)]
    if given.entry is not None and given.entry not in names:
        raise UsageError(f"no entry '{given.entry}'; the module has {', '.join(names) or 'none'}")
    chosen = names if given.entry is None else [given.entry]
    if added and len(chosen) > 1:
        raise UsageError(f"a launch is one kernel's: --entry must be one of {', '.join(names)}")
    options = {name.replace("-", "_"): value for name, value in options.items()}
    verdicts = []
    for name in chosen:
        verdict = check(
            given.source, gpu_name=given.gpu_name, opt_level=given.opt_level, entry=name, image=given.image,
            given=added, budget=given.budget, blame=given.blame, **options,
        )  # fmt: skip
        verdicts.append(verdict)
        if not given.json:
            print(text_of(verdict, os.path.dirname(given.source)), flush=True)
    data = json.dumps([each.to_json() for each in verdicts], indent=1) + "\n"
    if given.json:
        print(data, end="")
    if output is not None:
        outputs.publish([(output, data.encode())])
    statuses = {each.status for each in verdicts}
    return next((_STATUS[each] for each in _ORDER if each in statuses), ExitCode.SUCCESS)


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

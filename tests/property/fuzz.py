"""Feeds damaged bytecode and text to the commands, in process, and reports each outcome that is not an answer.

    python tests/property/fuzz.py --bytecode 200000 --text 50000 --to-ptx 2000 --seed 1
    python tests/property/fuzz.py --odd 100000 --seed 1

An answer is an exit code of 0, 1 (usage), 2, 3 or 5 within 10 s of processor time and 1 GiB of memory, with no Python
exception leaving `main` and no "internal error".  Of the mutants that verify, `--to-ptx` takes a sample to PTX, where
LLVM giving up counts as a failure too.  `--odd` takes mutants to PTX for any target under options drawn by number:
strategies, tensor maps, warps, CTAs, delays, tile launch.

Mutants run in forked workers, some hundreds a worker: a death or hang is noticed and the run continues after it.  Each
kind of failure (exception and place) is shown once with its count and the number of its first mutant; `--save DIR`
keeps the inputs, `--only NUMBER --kind text` runs one mutant again and shows the traceback.  The exit status is 1 when
anything failed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Callable, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parents[2]))

import mutations  # noqa: E402

import tileiras  # noqa: E402

ANSWERS = (0, 1, 2, 3, 5)
SECONDS = 10
"""Processor time for one command."""
PTX_SECONDS = 60
"""Wall time for one compilation, which is LLVM's for the most part."""
SILENCE = 60
"""Wall time without a report after which a worker hangs where no signal of ours is heard."""
MEMORY = 1 << 30
BATCH = 400

BYTECODE_COMMANDS = (
    ("tileiras", "-", "--emit", "cuda_tile", "-o", "-"),
    ("tileiras_opt", "-"),
    ("tileiras_opt", "-", "--verify-roundtrip"),
    ("tileiras_opt", "-", "--mlir-print-op-generic", "--mlir-print-debuginfo"),
    ("tileiras_opt", "-", "--canonicalize", "--cse", "--loop-split", "--fuse-fma", "--dce"),
    ("tileiras_opt", "-", "--synthesize-debug-info-scopes", "--mlir-print-debuginfo"),
    ("tileiras_translate", "--cudatilebc-to-mlir", "-"),
    ("tileiras_translate", "--cudatilebc-to-mlir", "--mlir-print-debuginfo", "-"),
)
TEXT_COMMANDS = (
    ("tileiras", "-", "--emit", "cuda_tile", "-o", "-"),
    ("tileiras", "-", "--emit", "bytecode", "--bytecode-version", "13.4", "--gpu-name", "sm_90", "-o", "-"),
    ("tileiras_opt", "-"),
    ("tileiras_opt", "-", "--verify-roundtrip"),
    ("tileiras_opt", "-", "--mlir-print-op-generic", "--mlir-print-debuginfo", "--allow-unregistered-dialect"),
    ("tileiras_opt", "-", "--canonicalize", "--cse", "--loop-split", "--fuse-fma", "--dce"),
    ("tileiras_opt", "-", "--synthesize-debug-info-scopes", "--mlir-print-debuginfo"),
    ("tileiras_opt", "-", "--split-input-file", "--verify-diagnostics"),
    (
        "tileiras_opt", "-", "--convert-cudatile-to-tileaa=compute-capability=sm_90", "--tileas",
        "--convert-tileas-to-llvm",
    ),
    ("tileiras_translate", "--mlir-to-cudatilebc", "-"),
    ("tileiras_translate", "--mlir-to-cudatilebc", "--bytecode-version=13.1", "-"),
)
LOWERED_COMMANDS = {
    ".tileaa.mlir": (
        ("tileiras_opt", "-", "--tileas=compute-capability=GPU to=dce", "--verify-roundtrip"),
        ("tileiras_opt", "-", "--tileas=compute-capability=GPU to=dce",
         "--tileas=compute-capability=GPU from=tileas-lower-occupancy",
         "--convert-tileas-to-llvm=compute-capability=GPU"),
        ("tileiras_opt", "-", "--canonicalize", "--cse", "--dce", "--mlir-print-op-generic"),
        ("tileiras", "-", "--emit", "llvm", "--gpu-name", "GPU", "-o", "-"),
    ),
    ".tileas.mlir": (
        ("tileiras_opt", "-", "--convert-tileas-to-llvm=compute-capability=GPU"),
        ("tileiras_opt", "-", "--tileas=compute-capability=GPU from=tileas-lower-occupancy",
         "--convert-tileas-to-llvm=compute-capability=GPU"),
        ("tileiras_opt", "-", "--canonicalize", "--cse", "--dce", "--convert-tileas-to-llvm=compute-capability=GPU"),
        ("tileiras", "-", "--emit", "llvm", "--gpu-name", "GPU", "-o", "-"),
    ),
    ".llvm.mlir": (
        ("tileiras_opt", "-", "--nvvm-ir-verifier", "--convert-target-to-nvvm=compute-capability=GPU",
         "--verify-roundtrip"),
        ("tileiras", "-", "--emit", "llvm", "--gpu-name", "GPU", "-o", "-"),
    ),
}  # fmt: skip
"""By the suffix of texts of that level; GPU stands for the target of the text."""
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")


class Hang(BaseException):
    """The time of a command is over; no `except Exception` may take it for an answer."""


class Outcome(NamedTuple):
    """The result of a command for an input: its exit code, and its failure or an empty text."""

    code: int
    failure: str
    detail: str = ""
    output: bytes = b""


def run_command(words: tuple[str, ...], data: bytes) -> Outcome:
    """Run `main` of one command on an input."""
    import importlib

    module, *arguments = words
    main = importlib.import_module(f"tileiras.cli.{module}").main
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape", write_through=True)
    err = io.StringIO()
    old_stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="surrogateescape")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = int(main(arguments))
    except Hang:
        return Outcome(-1, f"hang in {_place(sys.exc_info()[2])}", traceback.format_exc(limit=-12))
    except (Exception, SystemExit) as error:  # noqa: BLE001  An exception that leaves main is a failure.
        kind = "memory" if isinstance(error, MemoryError) else type(error).__name__
        return Outcome(-1, f"{kind} in {_place(error.__traceback__)}", traceback.format_exc(limit=-12))
    finally:
        sys.stdin = old_stdin
    errors = err.getvalue()
    for sign in ("internal error", "Traceback (most recent", "does not read back", "<round trip>",
                 "between-pass verifier"):  # fmt: skip
        if sign in errors:
            line = next((line for line in errors.split("\n") if sign in line), sign)
            return Outcome(code, line[line.find("error: ") + 7 :][:160], errors[:2000])
    if code not in ANSWERS:
        return Outcome(code, f"exit code {code}", errors[:2000])
    return Outcome(code, "", errors[:2000], out.buffer.getvalue())


def _place(trace) -> str:
    """The innermost place inside the compiler, without the folders above the package."""
    package = os.path.dirname(os.path.abspath(tileiras.__file__)) + os.sep
    frames = [f for f in traceback.extract_tb(trace) if f.filename.startswith(package)]
    named = [f"{f.filename.removeprefix(package)}:{f.lineno} {f.name}" for f in frames]
    return named[-1] if named else "main"


def answer(kind: str, seed: int, number: int) -> Outcome:
    """One mutant through one of the commands."""
    data = mutations.mutant(kind, seed, number)
    if kind == "lowered":
        words = _lowered_command(data, number)
    else:
        commands = BYTECODE_COMMANDS if kind == "bytecode" else TEXT_COMMANDS
        words = commands[number % len(commands)]
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return run_command(words, data)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _lowered_command(data: bytes, number: int) -> tuple[str, ...]:
    """A command for a text of its level.  The driver knows the level by the file's name."""
    text = data.decode("utf-8", "replace")
    level = ".tileas.mlir" if "nv_tileas." in text else ".tileaa.mlir" if "nv_tileaa.func" in text else ".llvm.mlir"
    gpu = re.search(r'target_spec = "(sm_\d+)"', text)
    commands = LOWERED_COMMANDS[level]
    words = commands[number % len(commands)]
    path = "-"
    if words[0] == "tileiras":
        path = os.path.join(tempfile.gettempdir(), f"mutant-{os.getpid()}{level}")
        with open(path, "wb") as file:
            file.write(data)
    return tuple(path if w == "-" and n == 1 else w.replace("GPU", gpu[1] if gpu else "sm_90")
                 for n, w in enumerate(words))  # fmt: skip


ODD_OPTIONS: dict[str, tuple[str, ...]] = {
    "--pipeline-strategy": ("auto", "none", "unspecialize", "warp-specialize"),
    "--tensor-maps": ("none", "host", "device"), "--num-warps": ("1", "2", "4", "8", "16", "32"),
    "--num-ctas": ("1", "2", "4", "8", "16"),
    "--unspecialized-pipeline-num-stages": ("1", "2", "3", "7"), "--v2-opt-level": ("0", "1"),
    "--rrt-size-threshold": ("0",), "--index-bitwidth": ("0", "64"),
    "--enable-random-delay": ("true",), "--tile-launch": ("true", "false"), "--lineinfo": ("true",),
    "--sanitize": ("memcheck",),
}  # fmt: skip
"""Options of a compilation and their values; each is given to one mutant in three."""
ODD_TARGETS = ("sm_75", *TARGETS, "sm_103")


def odd_words(number: int) -> tuple[str, ...]:
    """The command that compiles the mutant of a number: its target and options are the number's."""
    choose = random.Random(number)
    words = ["tileiras", "-", "--emit", "ptx", "--gpu-name", choose.choice(ODD_TARGETS), "-o", "-"]
    words.append(f"-O{choose.choice((0, 1, 2, 3, 3, 3))}")
    for name, values in ODD_OPTIONS.items():
        value = choose.choice(values)
        if choose.random() < 1 / 3:
            words.append(f"{name}={value}")
    return tuple(words)


def compile_oddly(kind: str, seed: int, number: int) -> Outcome:
    """A mutant to PTX, under options that people rarely combine."""
    data = mutations.mutant(kind, seed, number)
    signal.setitimer(signal.ITIMER_REAL, PTX_SECONDS)
    try:
        outcome = run_command(odd_words(number), data)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return _with_llvm(outcome)


def compile_mutant(kind: str, seed: int, number: int) -> Outcome:
    """Compile a mutant that verifies to PTX; code -2 for one that does not verify or has no kernel."""
    data = mutations.mutant(kind, seed, number)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        read = run_command(BYTECODE_COMMANDS[0], data)
        if read.code != 0 or b"entry @" not in read.output:
            return Outcome(-2, "")
        signal.setitimer(signal.ITIMER_REAL, PTX_SECONDS)
        gpu_name = TARGETS[number % len(TARGETS)]
        outcome = run_command(("tileiras", "-", "--emit", "ptx", "--gpu-name", gpu_name, "-o", "-"), data)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return _with_llvm(outcome)


def _with_llvm(outcome: Outcome) -> Outcome:
    """The outcome of a compilation; a failure where LLVM refuses the module."""
    refusal = re.search(r"error: (.*\bLLVM\b.*)", outcome.detail)
    if not outcome.failure and refusal is not None:
        return Outcome(outcome.code, refusal[1][:160], outcome.detail)
    return outcome


# ---- workers ---------------------------------------------------------------------------------------------------------


def _hang(signum, frame):
    raise Hang


def _virtual_memory() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _worker(work: Callable[..., Outcome], kind: str, seed: int, numbers: range, pipe: int) -> None:
    """Report every number before its mutant runs, and the outcome after."""
    os.environ["TILEIRAS_TRACEBACK"] = "1"  # the origin of an internal error distinguishes its kind
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, _hang)
    if work is answer and sys.platform == "linux":
        limit = _virtual_memory() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for number in numbers:
        os.write(pipe, json.dumps([number]).encode() + b"\n")
        outcome = work(kind, seed, number)
        detail = outcome.detail[-3000:] if outcome.failure else ""
        os.write(pipe, json.dumps([number, outcome.code, outcome.failure, detail]).encode() + b"\n")


class Report:
    """The outcomes of a run: exit codes, and failures by kind."""

    def __init__(self) -> None:
        self.codes: Counter[int] = Counter()
        self.failures: dict[str, list[int]] = {}
        self.details: dict[str, str] = {}

    def add(self, number: int, code: int, failure: str, detail: str) -> None:
        self.codes[code] += 1
        if failure:
            self.failures.setdefault(failure, []).append(number)
            self.details.setdefault(failure, detail)

    @property
    def tried(self) -> int:
        return sum(self.codes.values()) - self.codes[-2]


def run_many(
    work: Callable[..., Outcome], kind: str, seed: int, numbers: range, *, enough: int = sys.maxsize, until: float = 0.0
) -> Report:
    """Run the mutants of these numbers; end early after `enough` compiled ones or at the time `until`."""
    report = Report()
    at = numbers.start
    # Once, before the workers are forked.
    mutations.lowered_seeds() if kind == "lowered" else mutations.bytecode_seeds()
    patience = SILENCE if work is answer else 3 * PTX_SECONDS
    while at < numbers.stop and report.tried < enough and (not until or time.time() < until):
        batch = range(at, min(at + BATCH, numbers.stop))
        at = _run_batch(work, kind, seed, batch, patience, report)
    return report


def _run_batch(work, kind: str, seed: int, batch: range, patience: float, report: Report) -> int:
    """Return the number to go on with."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            _worker(work, kind, seed, batch, writing)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    # `select` takes no descriptor above 1023, which tests beside this one may leave open.
    waiting = select.poll()
    waiting.register(reading, select.POLLIN)
    rest, current = b"", None
    while True:
        ready = waiting.poll(patience * 1000)
        chunk = os.read(reading, 1 << 16) if ready else b""
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            number, *outcome = json.loads(line)
            current = None if outcome else number
            if outcome:
                report.add(number, *outcome)
    os.close(reading)
    if not ready:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if current is None and status == 0:
        return batch.stop
    how = "hang outside of Python" if not ready else f"worker ended with status {status}"
    report.add(batch.start if current is None else current, -1, how, "")
    return (batch.start if current is None else current) + 1


def show(title: str, report: Report, seconds: float) -> None:
    codes = ", ".join(f"{code}: {count}" for code, count in sorted(report.codes.items()) if code != -2)
    print(f"{title}: {report.tried} tried in {seconds:.0f} s, exit codes {{{codes}}}, {len(report.failures)} failures")
    for failure, numbers in sorted(report.failures.items(), key=lambda item: -len(item[1])):
        print(f"  {len(numbers):6} x {failure}   (first: {numbers[0]})")
    sys.stdout.flush()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytecode", type=int, default=0, metavar="N", help="bytecode mutants through the commands")
    parser.add_argument("--text", type=int, default=0, metavar="N", help="text mutants through the commands")
    parser.add_argument("--lowered", type=int, default=0, metavar="N", help="text mutants of the levels below")
    parser.add_argument("--to-ptx", type=int, default=0, metavar="M", help="mutants that verify to PTX")
    parser.add_argument("--odd", type=int, default=0, metavar="N", help="mutants to PTX under random options")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop each part after this time")
    parser.add_argument("--save", type=Path, help="folder for the first input of every kind of failure")
    parser.add_argument("--kind", choices=("bytecode", "text", "lowered"), default="bytecode")
    parser.add_argument("--only", type=int,
                        help="run one mutant of --kind (--to-ptx, --odd: as these do) and show everything")  # fmt: skip
    options = parser.parse_args(argv)
    if options.only is not None:
        os.environ["TILEIRAS_TRACEBACK"] = "1"
        signal.signal(signal.SIGPROF, _hang)
        signal.signal(signal.SIGALRM, _hang)
        work = compile_oddly if options.odd else compile_mutant if options.to_ptx else answer
        outcome = work(options.kind, options.seed, options.only)
        sys.stdout.write(mutations.mutant(options.kind, options.seed, options.only).decode("utf-8", "backslashreplace"))
        print(f"\nexit code {outcome.code} {outcome.failure}\n{outcome.detail}")
        return int(bool(outcome.failure))
    parts = [
        ("bytecode", answer, "bytecode", options.bytecode, sys.maxsize),
        ("text", answer, "text", options.text, sys.maxsize),
        ("lowered", answer, "lowered", options.lowered, sys.maxsize),
        ("bytecode to PTX", compile_mutant, "bytecode", 100 * options.to_ptx, (options.to_ptx + 1) // 2),
        ("text to PTX", compile_mutant, "text", 100 * options.to_ptx, options.to_ptx // 2),
        ("bytecode, odd options", compile_oddly, "bytecode", (options.odd + 1) // 2, sys.maxsize),
        ("text, odd options", compile_oddly, "text", options.odd // 2, sys.maxsize),
    ]
    failed = False
    for title, work, kind, count, enough in parts:
        if not count:
            continue
        started = time.time()
        until = started + options.seconds if options.seconds else 0.0
        numbers = range(options.start, options.start + count)
        report = run_many(work, kind, options.seed, numbers, enough=enough, until=until)
        show(title, report, time.time() - started)
        failed |= bool(report.failures)
        if options.save is not None:
            options.save.mkdir(parents=True, exist_ok=True)
            for order, (failure, result) in enumerate(report.failures.items()):
                stem = options.save / f"{title.replace(' ', '-')}-{order}-{result[0]}"
                stem.with_suffix(".tileirbc" if kind == "bytecode" else ".mlir").write_bytes(
                    mutations.mutant(kind, options.seed, result[0])
                )
                stem.with_suffix(".txt").write_text(f"{failure}\n{report.details[failure]}\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""Whether two checkouts of the compiler write the same LLVM IR.

    python -m bench same_code CHECKOUT [--generated N] [--seed FIRST] [--seconds S] [--targets sm_80,...] [--show N]

Compares this checkout with `CHECKOUT`: all examples at the targets of `--targets`, tensor maps made by the host where
the target has them, and N generated kernels (`tests/generator`; case FIRST and those after it), each with the target,
hints and options that its number draws.  An interrupt ends the run with its report; `--seconds` bounds the processor
time of both compilers; the rest is left out and counted.  Both checkouts read the same bytecode, and each has a process
of its own.

Different IR is grouped into classes: by the instructions of which one text has more than the other, without registers,
numbers and order.  A class prints its count, its kernels, and the first lines that differ of `--show` of them.  A
kernel that one of both refuses is a class of its own, by the message.  Ends with 1 where anything differs.
"""

from __future__ import annotations

import argparse
import collections
import difflib
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.kernels import collect
from bench.paired import Checkout, Refused
from tileiras.diagnostics import CompileError

HERE = Path(__file__).resolve().parents[1]
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")

WORKER = """\
import json, sys, time
import tileiras

for line in sys.stdin:
    request = json.loads(line)
    begin = time.process_time()
    try:
        text = tileiras.compile(request["path"], emit="llvm", **request["options"]).text
    except Exception as error:
        words = [str(each.message) for each in getattr(error, "diagnostics", ()) if each.severity.name == "ERROR"]
        text = "refused: " + (words or [type(error).__name__ + ": " + str(error)])[0]
    print(json.dumps([text, time.process_time() - begin]), flush=True)
"""


class Case(NamedTuple):
    """A bytecode file, and the options of a compilation."""

    name: str
    path: str
    options: dict[str, Any]


def examples(folder: str, targets: Sequence[str]) -> Iterator[Case]:
    for kernel in collect(folder):
        for target in targets:
            number = int(target.removeprefix("sm_"))
            if kernel.lowest <= number:
                maps = {"tensor_maps": "host"} if number >= 90 else {}
                yield Case(f"{kernel.name} {target}", kernel.path, {"gpu_name": target, **maps})


def generated(folder: str, first: int, count: int) -> Iterator[Case]:
    sys.path.insert(0, str(HERE))
    from tests.generator.judge import draw

    for number in range(first, first + count):
        case = draw(number)
        path = os.path.join(folder, f"generated-{number}.tileirbc")
        try:
            data = case.kernel.source(case.build.decorator)
        except CompileError as error:
            print(f"  generated {number}: {error.diagnostics[0]}")
            continue
        Path(path).write_bytes(data)
        yield Case(f"{number} {case.kernel.form} {case.build}", path, {"gpu_name": case.build.gpu_name,
                                                                      **case.build.options})  # fmt: skip


_REGISTER = re.compile(r"[%@!#][\w.\"$-]+|\b\d+\b|0x[0-9A-Fa-f]+")


def shape(line: str) -> str:
    """A line without names and numbers: results that differ only in these have the same instructions."""
    return _REGISTER.sub("_", line).strip()


def difference(before: str, now: str) -> tuple[str, ...]:
    """The key of a class: the instructions that one text has more often, by their first words."""
    if before.startswith("refused: ") or now.startswith("refused: "):
        return tuple(text.splitlines()[0] if text.startswith("refused: ") else "compiled" for text in (before, now))
    counts = [collections.Counter(map(shape, text.splitlines())) for text in (before, now)]
    less, more = counts[0] - counts[1], counts[1] - counts[0]
    words = [_words(counter) for counter in (less, more)]
    if not any(words):
        return ("the same instructions in another order, or other numbers",)
    return tuple(f"{sign}{word}" for sign, part in zip("-+", words) for word in part)


def _words(counter: collections.Counter[str]) -> list[str]:
    """The kinds of instructions of some lines."""
    result = (re.match(r"(?:_ = )?((?:tail )?[\w.]+)", line) for line in counter)
    return sorted({each[1] for each in result if each is not None})


def report(classes: dict[tuple[str, ...], list[tuple[Case, str, str]]], shown: int) -> None:
    for key, rows in sorted(classes.items(), key=lambda each: -len(each[1])):
        print(f"\n{len(rows)} of a class: {' '.join(key)[:400]}")
        for case, before, now in rows[:shown]:
            print(f"  {case.name}")
            changed = difflib.unified_diff(before.splitlines(), now.splitlines(), lineterm="", n=0)
            lines = itertools.islice((line for line in changed if line[:3] not in ("---", "+++")), 8)
            print(*(f"    {line[:150]}" for line in lines), sep="\n")
        print(*(f"  {case.name}" for case, _, _ in rows[shown : shown + 12]), sep="\n")


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="same_code", description=__doc__)
    parser.add_argument("checkout")
    parser.add_argument("--generated", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--show", type=int, default=1)
    options = parser.parse_args(arguments)
    os.environ["TILEIRAS_CACHE_DIR"] = "off"
    checkouts = [Checkout(os.path.abspath(folder), WORKER) for folder in (options.checkout, HERE)]
    classes: dict[tuple[str, ...], list[tuple[Case, str, str]]] = {}
    equal = taken = left = 0
    with tempfile.TemporaryDirectory() as folder:
        cases = itertools.chain(
            examples(folder, [each for each in options.targets.split(",") if each]),
            generated(folder, options.seed, options.generated),
        )
        try:
            for case in cases:
                if taken > options.seconds:
                    left += 1
                    continue
                (before, first), (now, second) = (
                    checkout.ask(path=case.path, options=case.options) for checkout in checkouts
                )  # type: ignore[misc]
                taken += first + second
                if before == now:
                    equal += 1
                else:
                    classes.setdefault(difference(before, now), []).append((case, before, now))
        except (Refused, KeyboardInterrupt) as error:
            print(f"stopped: {error or 'interrupted'}")
    for checkout in checkouts:
        checkout.close()
    different = sum(map(len, classes.values()))
    print(f"{equal} of {equal + different} modules are the same, {left} left out; {taken:.0f} s of both compilers")
    report(classes, options.show)
    return int(bool(classes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

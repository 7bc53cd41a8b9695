"""Run the text tests of a checkout of the reference dialect through our tools and print the figures per file.

    python tests/conformance/lit_cases.py FOLDER [--list] [FILE...]

FOLDER is the `test` folder of the checkout, which is not part of this repository.  Files are split at `// -----` lines;
each part is a case of one kind:

positive   must be accepted, print as text and as generic text that parse to the same module, and survive a round trip
           through bytecode, except for properties that the format cannot encode: the module's name, attributes of
           other dialects, locations without a scope
negative   must be refused; `text` counts the cases with every expected message, `exact` those that have them on the
           expected lines and no others
warning    must be accepted with the expected warnings

RUN lines are the files' own commands, passes and FileCheck included.  `--list` prints the failures with the actual
messages.  Exit status: 0 if every negative case is refused and all differences are in KNOWN, else 1; 2 without FOLDER.
"""

from __future__ import annotations

import difflib
import functools
import importlib.util
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterator, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

TOOLS = {"cuda-tile-opt": "tileiras-opt", "cuda-tile-translate": "tileiras-translate"}
ALWAYS = ("--testing-ops",)
PASSES = {"--test-debuginfo-update-symbol-name": "--debuginfo-update-symbol-name"}
"""Passes of the reference's tests by the reference's names -> our names."""
PER_CASE = ("split-input-file", "verify-diagnostics")
_RENAMED = "the operation is called fpowf since 13.4, as the vendor's newest disassembler prints it"
_NEWER = "names 13.3 as the newest version; here it is a newer one"
KNOWN = {
    "Bytecode/invalid/invalid_structure.mlir #1": _NEWER,
    "Bytecode/invalid/invalid_structure.mlir #5": "the string table is damaged, too, and is checked first",
    "Bytecode/unsupportedVersionTest.mlir #0": _NEWER,
    "Bytecode/versioning/new_types.mlir #0": "the text matches; the reference gives no place, here it is the entry's",
    "Dialect/CudaTile/invalid.mlir #154": _RENAMED,
    "Dialect/CudaTile/math_invalid.mlir #56": _RENAMED,
    "Dialect/CudaTile/math_invalid.mlir #57": _RENAMED,
}
"""Cases of the public 13.3 release that differ, and the reason why that is intended."""

_RUN = re.compile(r"^\s*(?://|#)\s*RUN:\s*(.*?)\s*$", re.MULTILINE)
_EXPECTED = re.compile(r"expected-(error|note|remark|warning)(?:-re)? *(?:@[^ {]+)? *\{\{(.*)\}\}$", re.MULTILINE)


class Case(NamedTuple):
    kind: str
    text: str
    runs: list[list[str]]
    """Our command lines for it: `not` in front, the case's own file as `%s`."""
    prefixes: list[str]


class Figures:
    """Counts of one file."""

    def __init__(self) -> None:
        self.positive = self.accepted = self.round_trips = self.bytecode = 0
        self.negative = self.refused = self.texts = self.exact = 0
        self.warnings = self.warned = 0
        self.runs = self.runs_hold = 0

    NAMES = (
        *("positive", "accepted", "round_trips", "bytecode", "negative", "refused", "texts", "exact"),
        *("warnings", "warned", "runs", "runs_hold"),
    )

    def row(self) -> list[int]:
        return [getattr(self, name) for name in self.NAMES]

    def add(self, other: "Figures") -> None:
        for name in self.NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@functools.cache
def text_tests() -> Any:
    """The runner of RUN lines of our own tests, loaded by path because several folders have a module of that name."""
    spec = importlib.util.spec_from_file_location("tileiras_text_tests", ROOT / "tests" / "conftest.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Suite:
    """One run over a folder; `complaints` are (file, case, message)."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder = folder
        self.scratch = scratch
        self.complaints: list[tuple[str, int, str]] = []
        self.figures: dict[str, Figures] = {}

    def run(self, only: list[str]) -> None:
        for path in sorted(self.folder.rglob("*.mlir")):
            name = path.relative_to(self.folder).as_posix()
            text = path.read_text(encoding="utf-8")
            if not _RUN.search(text) or only and not any(word in name for word in only):
                continue
            figures = self.figures[name] = Figures()
            for number, case in enumerate(cases(path, text)):
                for complaint in self._case(case, path, figures):
                    self.complaints.append((name, number, complaint))
            for number, command in enumerate(_RUN.findall(text)):
                figures.runs += 1
                failure = self._whole(command, path)
                if failure is None:
                    figures.runs_hold += 1
                else:
                    self.complaints.append((name, -1 - number, f"RUN {number + 1}: {failure}"))

    # ---- cases -------------------------------------------------------------------------------------------------------

    def _case(self, case: Case, path: Path, figures: Figures) -> Iterator[str]:
        file = self.scratch / "case.mlir"
        file.write_text(case.text, encoding="utf-8")
        if case.kind == "negative":
            figures.negative += 1
            yield from self._negative(case, file, path, figures)
        elif case.kind == "warning":
            figures.warnings += 1
            code, _, errors = self._tool([*case.runs[0], "--verify-diagnostics"], file, path)
            figures.warned += code == 0
            if code:
                yield f"warnings: {_brief(errors)}"
        elif case.kind == "binary":
            figures.positive += 1
            yield from self._binary(case, file, path, figures)
        else:
            figures.positive += 1
            yield from self._positive(case, file, figures)

    def _negative(self, case: Case, file: Path, path: Path, figures: Figures) -> Iterator[str]:
        refused = texts = exact = True
        result = ""
        checked = case.prefixes
        for run in case.runs:
            plain = [word for word in run if word.lstrip("-") not in PER_CASE]
            code, _, errors = self._tool(plain, file, path)
            refused = refused and code != 0
            result = errors
            if checked:
                missing = _missing_checks(case.text, checked, errors)
                texts = texts and not missing
                exact = exact and not missing
            else:
                expected = [text for _, text in _EXPECTED.findall(case.text)]
                texts = texts and all(text in errors or "expected-error-re" in case.text for text in expected)
                code, _, errors = self._tool([*plain, "--verify-diagnostics"], file, path)
                exact = exact and code == 0
        figures.refused += refused
        figures.texts += texts or exact
        figures.exact += exact
        if not refused:
            yield "accepted"
        elif not exact:
            yield f"{'place' if texts else 'text'}: {_brief(result)} || wanted: {_wanted(case)}"

    def _binary(self, case: Case, file: Path, path: Path, figures: Figures) -> Iterator[str]:
        """A file of bytecode: read, printed as expected, written and read again."""
        from tileiras import bytecode
        from tileiras.ir import print_op

        code, output, errors = self._tool(case.runs[0], file, path)
        missing = _missing_checks(case.text, case.prefixes, output)
        figures.accepted += code == 0
        figures.round_trips += not missing
        if code or missing:
            yield f"binary: {_brief(errors)} {missing}"
            return
        source = next(word for word in case.runs[0] if "%S" in word).replace("%S", str(path.parent))
        module = bytecode.read_module(Path(source).read_bytes(), "case")
        back = bytecode.read_module(bytecode.write_module(module), "case")
        figures.bytecode += print_op(module) == print_op(back)

    def _positive(self, case: Case, file: Path, figures: Figures) -> Iterator[str]:
        from tileiras.diagnostics import CompileError

        options = ["--allow-unregistered-dialect"] if "allow-unregistered" in str(case.runs) else []
        code, plain, errors = self._tool(["tileiras-opt", "%s", *options], file, file)
        if code:
            yield f"refused: {_brief(errors)}"
            return
        figures.accepted += 1
        code, _, errors = self._tool(["tileiras-opt", "%s", "--verify-roundtrip", *options], file, file)
        figures.round_trips += code == 0
        if code:
            yield f"round trip: {_brief(errors)}"
        try:
            difference = _through_bytecode(case, bool(options))
        except CompileError as error:
            yield f"bytecode: {_brief(error.render())}"
            return
        figures.bytecode += not difference
        if difference:
            yield f"bytecode differs: {difference}"

    def _tool(self, words: list[str], file: Path, path: Path) -> tuple[int, str, str]:
        """(status, output, errors) of one of our tools on a case."""
        words = [str(file) if word == "%s" else word.replace("%S", str(path.parent)) for word in words]
        words = [word for word in words if word != "not"]
        words[1:1] = ALWAYS
        output, errors, code, _ = text_tests().run_stage(words, b"")
        return code, output.decode("utf-8", "surrogateescape"), errors

    # ---- whole files -------------------------------------------------------------------------------------------------

    def _whole(self, command: str, path: Path) -> str | None:
        """The first mistake in the outcome of a RUN line of the whole file, or None."""
        substitutions = {"%s": str(path), "%S": str(path.parent), "%t": str(self.scratch / "t")}
        try:
            if command.startswith("%round_trip_test"):
                extra = command.split()[3:]
                first = ["tileiras-translate", "--mlir-to-cudatilebc", "%s", "-o", "%t.bc"]
                second = ["tileiras-translate", "--cudatilebc-to-mlir", "%t.bc", "-o", "%t.back", *extra]
                third = ["tileiras-opt", "%s", "-o", "%t.direct", *extra]
                for words in (first, second, third):
                    words[1:1] = ALWAYS
                    text_tests().run_command(shlex.join(words), substitutions)
                return self._same("t.back", "t.direct")
            if command.startswith("diff "):
                return self._same("t.mlir", "t.ref.mlir")
            for theirs, ours in PASSES.items():
                command = command.replace(theirs, ours)
            for theirs, ours in TOOLS.items():
                command = re.sub(rf"(?<![\w-]){theirs}(?![\w-])", f"{ours} {' '.join(ALWAYS)}", command)
            text_tests().run_command(command, substitutions)
        except text_tests().CommandFailed as failure:
            return _brief(str(failure).split("\n", 1)[-1])
        return None

    def _same(self, first: str, second: str) -> str | None:
        texts = [(self.scratch / name).read_text(encoding="utf-8").splitlines() for name in (first, second)]
        rows = [[line for line in text if line.strip()] for text in texts]
        if rows[0] == rows[1]:
            return None
        return " ".join(list(difflib.unified_diff(*rows, n=0, lineterm=""))[3:9])


def cases(path: Path, text: str) -> Iterator[Case]:
    """The cases of a file."""
    from tileiras.cli.tileiras_opt import split_input

    commands = [[_renamed(word) for word in shlex.split(command)] for command in _RUN.findall(text)]
    runs: list[list[str]] = []
    prefixes: list[str] = []
    binary: list[tuple[list[str], list[str]]] = []
    for words in commands:
        stages = [list(group) for group in _split(words, "|")]
        first = [TOOLS.get(word, word) for word in stages[0] if word != "2>&1"]
        named = [word.partition("=")[2].split(",") for word in stages[-1] if word.startswith("--check-prefix")]
        wanted = named[0] if named else ["CHECK"]
        if any("%S/" in word for word in first):
            binary.append((first, wanted))
        elif first[0] == "not":
            runs.append(first)
            prefixes += wanted
        elif not prefixes and first[0] in TOOLS.values():
            runs.append(first)
    if binary:
        # The inputs are files beside the text; the text holds only the expected output.
        for first, wanted in binary:
            yield Case("negative" if first[0] == "not" else "binary", text, [first], wanted)
        return
    split = "split-input-file" in text.split("\n\n")[0] or "split-input-file" in "".join(_RUN.findall(text))
    for part in split_input(text) if split else [text]:
        if not re.sub(r"//.*", "", part).strip():
            if not (prefixes and _checks(part, prefixes)):
                continue  # only the file's opening comment
        if prefixes:
            yield Case("negative", part, _relevant(runs, prefixes, part), [p for p in prefixes if _checks(part, [p])])
        elif "expected-error" in part:
            yield Case("negative", part, runs[:1], [])
        elif "expected-warning" in part:
            yield Case("warning", part, runs[:1], [])
        else:
            yield Case("positive", part, runs, [])


def _relevant(runs: list[list[str]], prefixes: list[str], part: str) -> list[list[str]]:
    """The command lines whose prefixes occur in the part; if there are several, each with its own prefixes."""
    if len(runs) < 2 or set(prefixes) == {"CHECK"}:
        return runs
    groups = list(zip(runs, (prefixes[:-1], prefixes[-1:])))
    return [run for run, names in groups if _checks(part, names)] or runs


def _renamed(word: str) -> str:
    name, equals, value = word.partition("=")
    return PASSES.get(name, name) + equals + value


def _through_bytecode(case: Case, unregistered: bool) -> str:
    """How the printed modules of a case change in a round trip through bytecode; "" if they are equal.

    Raises CompileError for constructs that bytecode cannot encode.
    """
    from tileiras import bytecode
    from tileiras.ir import UNKNOWN_LOC, FusedLoc, NameLoc, StringAttr, parse_module, print_op, verify

    named = re.findall(r"-bytecode-version=(250\.\d)", str(case.runs))
    version = bytecode.Version.parse(named[-1]) if named else bytecode.CURRENT
    whole = parse_module(case.text, "case", allow_unregistered=unregistered)
    modules = [op for op in whole.walk() if op.name == "cuda_tile.module"]
    assert modules, "a case without a module"
    for module in modules:
        verify(module)
        for op in module.walk():
            for name in [name for name in op.attributes if "." in name]:
                del op.attributes[name]
            if isinstance(op.location, (FusedLoc, NameLoc)):
                op.location = UNKNOWN_LOC
        module.attributes["sym_name"] = StringAttr("kernels")
        back = bytecode.read_module(bytecode.write_module(module, version), "case")
        verify(back)
        texts = [print_op(op).splitlines() for op in (module, back)]
        if texts[0] != texts[1]:
            return " ".join(list(difflib.unified_diff(*texts, n=0, lineterm=""))[3:9])
    return ""


def _split(words: list[str], separator: str) -> Iterator[list[str]]:
    group: list[str] = []
    for word in words:
        if word == separator:
            yield group
            group = []
        else:
            group.append(word)
    yield group


def _checks(text: str, prefixes: list[str]) -> list[str]:
    names = "|".join(map(re.escape, prefixes))
    return re.findall(rf"(?:^|\s)(?:{names})(?:-NEXT|-SAME|-DAG)?: *(.*?) *$", text, re.MULTILINE)


def _missing_checks(text: str, prefixes: list[str], output: str) -> list[str]:
    output = " ".join(output.split())
    missing_checks = []
    for wanted in _checks(text, prefixes):
        pattern = "".join(
            piece if number % 2 else re.escape(" ".join(piece.split()) if piece.strip() else piece)
            for number, piece in enumerate(re.split(r"\{\{(.*?)\}\}", wanted))
        )
        if re.search(pattern, output) is None:
            missing_checks.append(wanted)
    return missing_checks


def _wanted(case: Case) -> str:
    texts = _checks(case.text, case.prefixes) if case.prefixes else [text for _, text in _EXPECTED.findall(case.text)]
    return _brief("; ".join(texts))


def _brief(text: str) -> str:
    lines = [line for line in text.strip().split("\n") if line.strip()]
    heads = [line for line in lines if re.search(r"error:|warning:|exited|succeeded", line)] or lines
    return " / ".join(line.replace(tempfile.gettempdir(), "")[-260:] for line in heads[:3])


def table(figures: dict[str, Figures]) -> str:
    """The figures as a Markdown table, files in order and a sum."""
    total = Figures()
    rows = []
    for name, figure in figures.items():
        total.add(figure)
        rows.append((name, figure))
    head = (
        "| file | positive | accepted | text, generic | bytecode | negative | refused | text | exact | warnings | as"
        " wanted | RUN lines | hold |"
    )
    lines = [head, "|---" * 13 + "|"]
    for name, figure in [*rows, ("all", total)]:
        lines.append(f"| {name} | " + " | ".join(str(value) if value else "" for value in figure.row()) + " |")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    words = [word for word in argv if not word.startswith("--")]
    if not words or not Path(words[0]).is_dir():
        print(__doc__.strip(), file=sys.stderr)
        return 2
    from tileiras.dialects.cuda_tile import testing

    with tempfile.TemporaryDirectory() as scratch, testing.loaded():
        suite = Suite(Path(words[0]), Path(scratch))
        suite.run(words[1:])
    print(table(suite.figures))
    unknown = False
    for name, number, complaint in suite.complaints:
        case = f"{name} #{number}"
        unknown = unknown or number >= 0 and case not in KNOWN
        if "--list" in argv:
            reason = f" ({KNOWN[case]})" if case in KNOWN else ""
            print(f"{case if number >= 0 else name} {complaint}{reason}")
    refused = all(item.refused == item.negative for item in suite.figures.values())
    return int(unknown or not refused)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

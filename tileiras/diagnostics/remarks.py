"""Remarks: the choices of the compiler for a kernel, and the obstacles to better ones.

A remark is a diagnostic of severity `remark` that states a reason, a code with arguments (`tileiras.reasons`); the
causes of that reason are the obstacles to a better choice.  The row of the code has the kind, the documented name and
the text.  Names, texts, kinds and both output formats are those of the vendor's `--remarks` options (13.5) where it has
them.  A pass that makes a choice emits a remark, if remarks were requested of its engine:

    if engine.remarks:
        said = Reason("access.load", bytes=4, cause=Reason("access.base-unknown"))
        engine.emit(Remark(said, op.location, arguments={"Instruction": "ld.global.b32"}, function="saxpy"))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tileiras.diagnostics import (
    CompileError,
    Diagnostic,
    DiagnosticEngine,
    ExitCode,
    FilePosition,
    KnownPlace,
    Locatable,
    Severity,
    unique,
)
from tileiras.reasons import Argument, Reason
from tileiras.support.named_tuple import NamedTuple

KINDS = {"passed": "Passed", "missed": "Missed", "failed": "Failure", "analysis": "Analysis"}
"""Kind -> the tag of its YAML document."""

CATEGORIES = {"memory": "Memory", "tensorcore": "Tensor-core", "loop": "Loop", "kernel": "Kernel"}
"""Category in options -> category in output.  The vendor's options accept the first two and `all`."""


NAMES: Mapping[str, str] = {
    "RemarkMemoryLoadInstructionSelected": "memory",
    "RemarkMemoryStoreInstructionSelected": "memory",
    "RemarkMemoryAtomicInstructionSelected": "memory",
    "RemarkMemoryLoadReused": "memory",
    "RemarkMemoryTensorMap": "memory",
    "RemarkMemoryConversion": "memory",
    "RemarkMemorySmemAllocated": "memory",
    "RemarkTensorCoreMMA": "tensorcore",
    "RemarkTensorCoreFMA": "tensorcore",
    "RemarkTensorCorePairs": "tensorcore",
    "RemarkLoopPipeline": "loop",
    "RemarkLoopSchedule": "loop",
    "RemarkLoopLoad": "loop",
    "RemarkKernelLaunch": "kernel",
    "RemarkKernelResources": "kernel",
    "RemarkKernelSpills": "kernel",
    "RemarkKernelOccupancy": "kernel",
    "RemarkKernelSchedule": "kernel",
}
"""Remark name -> its category."""


FORMAT = 2
"""Version of the format of NAME.remarks.json."""

_SHOWN_AS = {"RemarkTensorCoreFMA": "RemarkTensorCoreMMA"}
"""Name in the table -> name in output: two rows share one output name."""


class Remark(Diagnostic):
    """One choice at one place.

    `said` is the choice, its causes are the obstacles to a better one; `arguments` are printed as given, in their
    order; `function` is the kernel, empty until the stage that emits it is complete.  The text is composed when it is
    read.
    """

    __slots__ = ("said", "arguments", "function")

    def __init__(
        self,
        reason: Reason,
        location: Locatable | None,
        *,
        arguments: Mapping[str, Any] | None = None,
        function: str = "",
        notes: Iterable[Diagnostic] = (),
    ) -> None:
        self.said = reason
        self.arguments = {key: str(value) for key, value in (arguments or {}).items()}
        self.function = function
        self.severity = Severity.REMARK
        self.location = location
        self.notes = list(notes)
        self._word = 0

    @property
    def code(self) -> str:
        return self.said.code

    @property
    def codes(self) -> tuple[str, ...]:
        """The code of the choice and those of its causes, outermost first."""
        return tuple(each.code for each in self.said)

    @property
    def code_arguments(self) -> Mapping[str, Argument]:
        return self.said.arguments

    @property
    def cause(self) -> Reason | None:
        """The obstacle to a better choice."""
        return self.said.cause

    @property
    def kind(self) -> str:
        return self.said.row.kind

    @property
    def name(self) -> str:
        return self.said.row.name

    @property
    def text(self) -> str:
        return self.said.text

    @property
    def reason(self) -> str:
        """The text of the causes; empty without any."""
        return "" if self.said.cause is None else str(self.said.cause)

    @property
    def fragments(self) -> list[str]:  # type: ignore[override]
        """One line with everything: `[kind] text (arguments): reason [codes]`."""
        items = ["[", self.kind, "] ", self.text]
        for number, (key, value) in enumerate(self.arguments.items()):
            items += [", " if number else " (", key, " = ", value]
        items += [")"] if self.arguments else []
        items += [": ", self.reason] if self.reason else []
        return [*items, " [", self.said.spelled(), "]"]

    @property
    def category(self) -> str:
        return NAMES[self.name]

    @property
    def identity(self) -> tuple[str, ...]:
        return (*super().identity, self.function)

    def relocate(self, location: Locatable | None, notes: Iterable[Diagnostic]) -> "Remark":
        return Remark.restored(self.as_values(), location, notes)

    def as_values(self) -> list[Any]:
        """All fields except location and notes, as plain values.  Pairs keep their order in JSON with sorted keys."""
        return [self.said.as_values(), [list(item) for item in self.arguments.items()], self.function]

    @classmethod
    def restored(cls, row: list[Any], location: Locatable | None, notes: Iterable[Diagnostic]) -> "Remark":
        """The inverse of `row`; raises ValueError if the codes are not those of a remark."""
        result, arguments, function = row
        remark = cls(Reason.restored(result), location, arguments=dict(arguments), function=function, notes=notes)
        if not remark.name:
            raise ValueError(f"'{remark.code}' is no remark of its own")
        return remark

    def fields(self) -> dict[str, Any]:
        result = super().fields()
        result.update(
            message=self.text, kind=self.kind, category=self.category, name=_SHOWN_AS.get(self.name, self.name),
            function=self.function, arguments=self.arguments, code=self.code, code_arguments=dict(self.code_arguments),
        )  # fmt: skip
        if self.cause is not None:
            result["reason"] = self.reason
            result["causes"] = [{"code": each.code, "code_arguments": dict(each.arguments)} for each in self.cause]
        return result


def attribute_to_kernel(diagnostics: Iterable[Diagnostic], function: str) -> None:
    """Set the kernel of remarks that passes emit without one."""
    for each in diagnostics:
        if isinstance(each, Remark) and not each.function:
            each.function = function


def remarks_json(remarks: Iterable[Remark]) -> bytes:
    """The text of NAME.remarks.json: `Remark.fields` of each, in the order of emission."""
    import json

    rows = [remark.fields() for remark in unique(remarks)]
    return (json.dumps({"format": FORMAT, "remarks": rows}, indent=2, ensure_ascii=False) + "\n").encode()


def read_remarks(text: bytes) -> list[Remark]:
    """The inverse of `remarks_json`; raises ValueError if malformed."""
    import json

    try:
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise ValueError(f"remarks of format {document['format']}")
        return [_of_fields(row) for row in document["remarks"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no remarks: {error}") from None


def _of_fields(row: Mapping[str, Any]) -> Remark:
    notes = [Diagnostic.note(_place(note), note["message"]) for note in row.get("notes", ())]
    result = [[each["code"], each["code_arguments"]] for each in (row, *row.get("causes", ()))]
    return Remark.restored([result, row["arguments"], row["function"]], _place(row), notes)


def _place(row: Mapping[str, Any]) -> KnownPlace | None:
    if "file" in row:
        position = FilePosition(row["file"], row["line"], row["column"])
        return KnownPlace(position, "{}:{}:{}".format(*position))
    return KnownPlace(None, row["location"]) if "location" in row else None


def supersede(engine: DiagnosticEngine, remark: Remark) -> None:
    """Emit a remark and remove earlier ones of the same name and location, whose choice was revised.

    The remark inherits their cause unless it has its own.
    """
    diagnostics: list[Diagnostic] = []
    for diagnostic in engine.diagnostics:
        if (
            not isinstance(diagnostic, Remark)
            or diagnostic.name != remark.name
            or diagnostic.location != remark.location
        ):
            diagnostics.append(diagnostic)
        elif remark.cause is None:
            remark.said = Reason(remark.code, cause=diagnostic.cause, **remark.code_arguments)
    engine.diagnostics[:] = diagnostics
    engine.emit(remark)


class RemarkFilter(NamedTuple):
    """The requested remarks by kind: categories, codes, and subjects of codes (`agents.*`)."""

    requested: Mapping[str, frozenset[str]]

    @classmethod
    def parse(cls, pairs: Iterable[tuple[str, str]]) -> "RemarkFilter":
        """Parse pairs: a kind, or empty for all kinds, and a category, a code, `SUBJECT.*`, `all` or `none`.

        Pairs apply in order: `none` clears the kind, others add to it.  Raises CompileError (code 1) for an unknown
        category or code.
        """
        result: dict[str, set[str]] = {kind: set() for kind in KINDS}
        for kind, word in pairs:
            for each in (kind,) if kind else KINDS:
                if word == "none":
                    result[each].clear()
                elif word == "all":
                    result[each].update(CATEGORIES)
                elif word in CATEGORIES or is_code(word):
                    result[each].add(word)
                else:
                    raise CompileError.at(None, f"Cannot find option named '{word}'!", ExitCode.USAGE)
        return cls({kind: frozenset(words) for kind, words in result.items()})

    @property
    def any(self) -> bool:
        return any(self.requested.values())

    def admits(self, diagnostic: Diagnostic) -> bool:
        """Whether a diagnostic is shown; a diagnostic that is not a `Remark` always is.

        A code admits the remarks that state it or have it as a cause.
        """
        if not isinstance(diagnostic, Remark):
            return True
        words = self.requested[diagnostic.kind]
        codes = diagnostic.codes
        subjects = {f"{code.partition('.')[0]}.*" for code in codes}
        return diagnostic.category in words or not words.isdisjoint({*codes, *subjects})


def is_code(word: str) -> bool:
    """Whether a word is a code, or a subject of codes (`agents.*`)."""
    if "." not in word:
        return False
    # Ten modules, for such filters only.
    from tileiras.reasons.table import ROWS, SUBJECTS

    return word in ROWS or word.endswith(".*") and word[:-2] in SUBJECTS


def remarks_of(diagnostics: Iterable[Diagnostic]) -> list[Remark]:
    """The remarks among diagnostics without repetitions, sorted by function, category and position."""
    remarks = [diagnostic for diagnostic in unique(diagnostics) if isinstance(diagnostic, Remark)]
    functions = {name: number for number, name in enumerate(dict.fromkeys(remark.function for remark in remarks))}
    categories = list(CATEGORIES)

    def place(remark: Remark) -> tuple:
        position = remark.position
        line, column = (position.line, position.column) if position is not None else (0, 0)
        return functions[remark.function], categories.index(remark.category), line, column

    return sorted(remarks, key=place)


def render_command_line(remarks: Iterable[Remark]) -> str:
    """Remarks as the vendor's command prints them: grouped by function and category."""
    lines: list[str] = []
    function = category = None
    for remark in remarks:
        if remark.function != function:
            lines += [""] if lines else []
            lines += [f"in function: {remark.function}:", ""]
            function, category = remark.function, None
        if remark.category != category:
            lines += [""] if category is not None else []
            lines.append(f"  category: {CATEGORIES[remark.category]}")
            category = remark.category
        lines.append(f"    remark[{remark.kind}]: {remark.text}")
        position = remark.position
        if position is not None:
            lines.append(f'      --> "{position.filename}":{position.line}:{position.column}')
        lines.append("       |")
        lines.append(f"       = name: {_SHOWN_AS.get(remark.name, remark.name)}")
        lines += [f"       = note: {key} = {value}" for key, value in remark.arguments.items()]
        lines += [f"       = reason: {remark.reason}"] if remark.reason else []
        lines.append(f"       = code: {remark.said.spelled()}")
        lines.append("")
    return "\n".join(lines) + "\n" if lines else ""


def to_yaml(remarks: Iterable[Remark]) -> str:
    """Remarks as a stream of YAML documents in the layout of LLVM's optimization records."""
    documents = []
    for number, remark in enumerate(remarks, 1):
        position = remark.position
        lines = [f"--- !{KINDS[remark.kind]}", f"Pass:            {CATEGORIES[remark.category]}"]
        lines.append(f"Name:            {_SHOWN_AS.get(remark.name, remark.name)}")
        if position is not None:
            place = f"File: {_quote(position.filename)}, Line: {position.line}, Column: {position.column}"
            lines.append(f"DebugLoc:        {{ {place} }}")
        lines += [f"Function:        {_scalar(remark.function)}", "Args:"]
        arguments = {"RemarkId": str(number), "Remark": remark.text, **remark.arguments}
        if remark.reason:
            arguments["Reason"] = remark.reason
        arguments["Code"] = remark.said.spelled()
        lines += [f"  - {key + ':':<12} {_scalar(value)}" for key, value in arguments.items()]
        documents.append("\n".join([*lines, "...\n"]))
    return "".join(documents)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _scalar(text: str) -> str:
    """A YAML scalar, quoted if a plain one could be parsed differently."""
    if text.isidentifier() or text.isdigit():
        return text
    special = ": " in text or " #" in text or text[:1] in "-?:,[]{}#&*!|>'\"%@` " or text.endswith((":", " "))
    return _quote(text) if special or not text or not text[:1].isalpha() else text

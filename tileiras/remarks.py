"""Remarks: the choices of the compiler for a kernel, and the obstacles to better ones.

A remark is a diagnostic of severity `remark` with a kind, a name from the table below, named arguments and a reason.
Names, texts, kinds and both output formats are those of the vendor's `--remarks` options (13.5) where it has them.
A pass that makes a choice emits a remark, if remarks were requested of its engine:

    if engine.remarks:
        engine.emit(Remark("passed", "RemarkMemoryLoadInstructionSelected", op.location,
                           arguments={"Instruction": "ld.global.v4.b32"}, function="saxpy"))
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
from tileiras.named_tuple import NamedTuple

KINDS = {"passed": "Passed", "missed": "Missed", "failed": "Failure", "analysis": "Analysis"}
"""Kind -> the tag of its YAML document."""

CATEGORIES = {"memory": "Memory", "tensorcore": "Tensor-core", "loop": "Loop", "kernel": "Kernel"}
"""Category in options -> category in output.  The vendor's options accept the first two and `all`."""


class _Row(NamedTuple):
    category: str
    text: str


NAMES: dict[str, _Row] = {
    "RemarkMemoryLoadInstructionSelected": _Row("memory", "Load instruction selected"),
    "RemarkMemoryStoreInstructionSelected": _Row("memory", "Store instruction selected"),
    "RemarkMemoryAtomicInstructionSelected": _Row("memory", "Atomic instruction selected"),
    "RemarkMemoryLoadReused": _Row("memory", "Elements come from a load before: {0} of {1} accesses are left"),
    "RemarkMemoryTensorMap": _Row("memory", "Tile is not moved by a tensor map"),
    "RemarkMemoryConversion": _Row("memory", "Layout conversion: {0}"),
    "RemarkMemorySmemAllocated": _Row("memory", "Shared memory allocated: {0} bytes"),
    "RemarkTensorCoreMMA": _Row("tensorcore", "MMA operation successfully optimized to use Tensor Cores"),
    "RemarkTensorCoreFMA": _Row(
        "tensorcore", "MMA operation failed to optimize to use Tensor Cores, it is using FMA instructions instead"
    ),
    "RemarkTensorCorePairs": _Row("tensorcore", "Tile blocks do not multiply in pairs"),
    "RemarkLoopPipeline": _Row("loop", "Software pipeline applied: {0} stages"),
    "RemarkLoopSchedule": _Row("loop", "Loop runs as written"),
    "RemarkLoopLoad": _Row("loop", "Load does not run ahead of its loop"),
    "RemarkKernelLaunch": _Row("kernel", "Launch shape: {0}, {1}"),
    "RemarkKernelResources": _Row("kernel", "Kernel resources: {0} registers a thread, {1} bytes of shared memory"),
    "RemarkKernelSpills": _Row("kernel", "Registers spilled: {0} bytes stored, {1} bytes loaded"),
    "RemarkKernelOccupancy": _Row("kernel", "Occupancy: {0} of {1} warps"),
    "RemarkKernelSchedule": _Row("kernel", "{0}"),
}
"""Remark name -> its category and text."""


FORMAT = 1
"""Version of the format of NAME.remarks.json."""

_SHOWN_AS = {"RemarkTensorCoreFMA": "RemarkTensorCoreMMA"}
"""Name in the table -> name in output: two rows share one output name."""


class Remark(Diagnostic):
    """One choice at one place.

    `values` fill the placeholders of the text; `arguments` are printed as given, in their order; `reason` is the
    obstacle to a better choice; `function` is the kernel.
    """

    __slots__ = ("kind", "name", "text", "arguments", "reason", "function")

    def __init__(
        self,
        kind: str,
        name: str,
        location: Locatable | None,
        *values: int | str,
        arguments: Mapping[str, Any] | None = None,
        reason: str = "",
        function: str = "",
        notes: Iterable[Diagnostic] = (),
    ) -> None:
        self.kind = kind
        self.name = name
        self.text = NAMES[name].text.format(*values)
        self.arguments = {key: str(value) for key, value in (arguments or {}).items()}
        self.reason = reason
        self.function = function
        super().__init__(Severity.REMARK, location, self._line(), notes)

    def _line(self) -> str:
        said = ", ".join(f"{key} = {value}" for key, value in self.arguments.items())
        reason = f": {self.reason}" if self.reason else ""
        return f"[{self.kind}] {self.text}" + (f" ({said})" if said else "") + reason

    @property
    def category(self) -> str:
        return NAMES[self.name].category

    @property
    def identity(self) -> tuple[str, ...]:
        return (*super().identity, self.function)

    def moved(self, location: Locatable | None, notes: Iterable[Diagnostic]) -> "Remark":
        return Remark.restored(self.stored(), location, notes)

    def stored(self) -> list[Any]:
        """All fields except location and notes, as plain values."""
        return [self.kind, self.name, self.text, self.arguments, self.reason, self.function]

    @classmethod
    def restored(cls, stored: list[Any], location: Locatable | None, notes: Iterable[Diagnostic]) -> "Remark":
        """The inverse of `stored`."""
        remark = cls.__new__(cls)
        remark.kind, remark.name, remark.text, remark.arguments, remark.reason, remark.function = stored
        Diagnostic.__init__(remark, Severity.REMARK, location, remark._line(), notes)
        return remark

    def fields(self) -> dict[str, Any]:
        found = super().fields()
        found.update(
            message=self.text, kind=self.kind, category=self.category, name=_SHOWN_AS.get(self.name, self.name),
            function=self.function, arguments=self.arguments,
        )  # fmt: skip
        if self.reason:
            found["reason"] = self.reason
        return found


def attribute_to_kernel(diagnostics: list[Diagnostic], function: str) -> None:
    """Convert diagnostics of `DiagnosticEngine.remark`, whose text is the pass's own, to `Remark`s of the kernel.

    Filters, files and reports handle only remarks with a kernel and a row of the table.
    """
    diagnostics[:] = [
        Remark("analysis", "RemarkKernelSchedule", each.location, each.message, function=function, notes=each.notes)
        if each.severity is Severity.REMARK and not isinstance(each, Remark)
        else each
        for each in diagnostics
    ]


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
    stored = [row["kind"], row["name"], row["message"], row["arguments"], row.get("reason", ""), row["function"]]
    return Remark.restored(stored, _place(row), notes)


def _place(row: Mapping[str, Any]) -> KnownPlace | None:
    if "file" in row:
        position = FilePosition(row["file"], row["line"], row["column"])
        return KnownPlace(position, "{}:{}:{}".format(*position))
    return KnownPlace(None, row["location"]) if "location" in row else None


def supersede(engine: DiagnosticEngine, remark: Remark) -> None:
    """Emit a remark and remove earlier ones of the same name and location, whose choice was revised.

    The remark inherits their reason unless it has its own.
    """
    kept: list[Diagnostic] = []
    for said in engine.diagnostics:
        if not isinstance(said, Remark) or said.name != remark.name or said.location != remark.location:
            kept.append(said)
        elif said.reason and not remark.reason:
            remark.reason = said.reason
            remark.message = remark._line()
    engine.diagnostics[:] = kept
    engine.emit(remark)


class RemarkFilter(NamedTuple):
    """The requested categories of remarks, by kind."""

    categories: Mapping[str, frozenset[str]]

    @classmethod
    def parse(cls, asked: Iterable[tuple[str, str]]) -> "RemarkFilter":
        """Parse pairs: a kind, or empty for all kinds, and a category, `all` or `none`.

        Pairs apply in order: `none` clears the kind, others add to it.  Raises CompileError (code 1) for an unknown
        category.
        """
        found: dict[str, set[str]] = {kind: set() for kind in KINDS}
        for kind, category in asked:
            for each in (kind,) if kind else KINDS:
                if category == "none":
                    found[each].clear()
                elif category == "all":
                    found[each].update(CATEGORIES)
                elif category in CATEGORIES:
                    found[each].add(category)
                else:
                    raise CompileError.at(None, f"Cannot find option named '{category}'!", ExitCode.USAGE)
        return cls({kind: frozenset(categories) for kind, categories in found.items()})

    @property
    def any(self) -> bool:
        return any(self.categories.values())

    def admits(self, diagnostic: Diagnostic) -> bool:
        """Whether a diagnostic is shown; a diagnostic that is not a `Remark` always is."""
        return not isinstance(diagnostic, Remark) or diagnostic.category in self.categories[diagnostic.kind]


def remarks_of(diagnostics: Iterable[Diagnostic]) -> list[Remark]:
    """The remarks among diagnostics without repetitions, sorted by function, category and position."""
    found = [diagnostic for diagnostic in unique(diagnostics) if isinstance(diagnostic, Remark)]
    functions = {name: number for number, name in enumerate(dict.fromkeys(remark.function for remark in found))}
    categories = list(CATEGORIES)

    def place(remark: Remark) -> tuple:
        position = remark.position
        line, column = (position.line, position.column) if position is not None else (0, 0)
        return functions[remark.function], categories.index(remark.category), line, column

    return sorted(found, key=place)


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
            place = f"File: {_quoted(position.filename)}, Line: {position.line}, Column: {position.column}"
            lines.append(f"DebugLoc:        {{ {place} }}")
        lines += [f"Function:        {_scalar(remark.function)}", "Args:"]
        arguments = {"RemarkId": str(number), "Remark": remark.text, **remark.arguments}
        if remark.reason:
            arguments["Reason"] = remark.reason
        lines += [f"  - {key + ':':<12} {_scalar(value)}" for key, value in arguments.items()]
        documents.append("\n".join([*lines, "...\n"]))
    return "".join(documents)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _scalar(text: str) -> str:
    """A YAML scalar, quoted if a plain one could be parsed differently."""
    if text.isidentifier() or text.isdigit():
        return text
    special = ": " in text or " #" in text or text[:1] in "-?:,[]{}#&*!|>'\"%@` " or text.endswith((":", " "))
    return _quoted(text) if special or not text or not text[:1].isalpha() else text

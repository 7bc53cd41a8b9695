"""Collects the data of a report from artifacts."""

from __future__ import annotations

import os
from collections.abc import Sequence

import tileiras
from tileiras.build.run.produce import location_table
from tileiras.diagnostics import CompileError
from tileiras.diagnostics.remarks import Remark, read_remarks
from tileiras.ir import Operation, parse_module
from tileiras.options import CompileOptions
from tileiras.processes import helper, programs
from tileiras.report import alignment, decisions, layouts, machine, memory, timing, verdicts
from tileiras.report.alignment import Lines, Places
from tileiras.report.model import Kernel, Level, Memory, PassChange, Report, Verdict
from tileiras.report.selection import Progress, Unit, build_source, units_of_artifacts, units_of_build
from tileiras.report.timing import Launch
from tileiras.stages import units as compiler_units
from tileiras.stages.locations import LocationTable
from tileiras.support.files import read_if_there

MLIR_LEVELS = {
    "cuda_tile": (".cuda_tile.mlir", (".cuda_tile.loc",)),
    "tileaa": (".tileaa.mlir", (".tileaa.loc", ".cuda_tile.loc")),
    "tileas": (".tileas.mlir", (".tileas.loc", ".tileaa.loc", ".cuda_tile.loc")),
}
"""Level -> the suffix of its artifact, and those of the location tables from it to the source."""

REMARK_STAGES = ("tileas", "llvm", "cubin")


def silent(message: str) -> None:
    """Progress callback that discards its argument."""


def of_source(
    path: str,
    options: CompileOptions,
    *,
    entries: Sequence[str] | None = None,
    launch: Launch | None = None,
    progress: Progress = silent,
) -> Report:
    """Create the report of a source file for one target.

    path: `.mlir`, `.tileirbc` or cuTile Python. entries: only these kernels. launch: the launch to estimate. Raises
    CompileError for a source that cannot be read, and for a launch that does not fit.
    """
    name = os.path.relpath(path).replace(os.sep, "/")
    if name.startswith("../"):
        name = os.path.basename(path)
    options = options.replace(**{"lineinfo": not options["device-debug"], "emit-remarks": True})
    helper.start()  # loads LLVM in a helper process meanwhile
    with programs.working_folder() as folder:
        source = build_source(path, name, options, folder, entries, progress)
        kernels = [_as_asked(collect(unit, launch, progress)) for unit in source]
    return Report(name, tileiras.__version__, tuple(kernels), ())


def _as_asked(kernel: Kernel) -> Kernel:
    """A kernel without the options that only the report needed; they change no instruction."""
    result = {name: value for name, value in kernel.options.items() if name not in ("lineinfo", "emit-remarks")}
    return kernel._replace(options=result)


def of_build(
    build: str, *, entries: Sequence[str] | None = None, most: int = 8, progress: Progress = silent
) -> Report:
    """Create the report of the artifacts in a build directory, with at most `most` kernels; the others are only named.

    Raises CompileError if there are no kernels.
    """
    title = os.path.basename(os.path.abspath(build))
    return _of_units(title, units_of_build(build, entries), most, progress)


def of_artifacts(paths: Sequence[str], title: str, *, most: int = 8, progress: Progress = silent) -> Report:
    """Create the report of the kernels of artifacts in a build directory, with at most `most` kernels; the others are
    only named.

    Raises CompileError for a file that is not an artifact of a kernel.
    """
    return _of_units(title, units_of_artifacts(paths), most, progress)


def _of_units(title: str, units: Sequence[Unit], most: int, progress: Progress) -> Report:
    kernels = [collect(unit, None, progress) for unit in units[:most]]
    further = [f"{unit.name} ({unit.source_name}, {unit.target})" for unit in units[most:]]
    missing = (f"{len(further)} further kernels, which --entry shows: {', '.join(further)}",) if further else ()
    return Report(title, tileiras.__version__, tuple(kernels), missing)


def collect(unit: Unit, launch: Launch | None = None, progress: Progress = silent) -> Kernel:
    """Collect all data of a kernel from its artifacts."""
    return _Collector(unit, launch, progress).kernel()


class _Collector:
    """Collector of one kernel's data; `missing` lists absent artifacts."""

    def __init__(self, unit: Unit, launch: Launch | None, progress: Progress) -> None:
        self.unit = unit
        self.launch = launch
        self.progress = progress
        self.missing: list[str] = list(unit.failures)
        self.places = Places(unit.source_name, unit.source_path)
        self.levels: dict[str, Level] = {}
        self.modules: dict[str, tuple[Operation, list[int]]] = {}
        self.machine: machine.MachineText | None = None

    def kernel(self) -> Kernel:
        unit = self.unit
        for level in MLIR_LEVELS:
            self._mlir(level)
        self._llvm()
        self._ptx()
        self._sass()
        launch, resources = self._row(".json"), self._row(".resources.json")
        target = unit.target or self._target_of_ptx()
        choices = decisions.choices(self._remarks(), self.places)
        result = self._layouts(target)
        remembered = self._memory(target, resources)
        passes = self._passes()
        time = self._timing(launch)
        verdict = self._verdict()
        sources = self._sources()
        return Kernel(
            name=unit.name, source=unit.source_name, target=target, opt_level=unit.opt_level,
            options=decisions.differing(unit.options) if unit.options is not None else {},
            places=tuple(self.places.found), levels=self.levels, sources=sources, launch=launch, resources=resources,
            layouts=result[0], conversions=result[1], shared_uses=result[2], memory=remembered, choices=choices,
            obstacles=decisions.obstacles(choices), passes=passes, stages=unit.stages, timing=time,
            missing=tuple(self.missing), verdict=verdict, order=verdicts.of_order(launch, self._places_of_operation),
        )  # fmt: skip

    # ---- levels ------------------------------------------------------------------------------------------------------

    def _text(self, suffix: str, label: str) -> str | None:
        """An artifact's text; records it as missing if it does not exist or is not text."""
        data = read_if_there(self.unit.stem + suffix)
        if data is None:
            self.missing.append(f"{label}: there is no {os.path.basename(self.unit.stem)}{suffix}")
            return None
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.missing.append(f"{label}: {os.path.basename(self.unit.stem)}{suffix} is damaged: it is no text")
            return None

    def _mlir(self, level: str) -> None:
        suffix, tables = MLIR_LEVELS[level]
        text = self._text(suffix, level)
        if text is None:
            return
        name = os.path.basename(self.unit.stem) + suffix
        lines: Lines = tuple(() for _ in text.split("\n"))
        try:
            module = parse_module(text, name)
            numbers = alignment.operation_lines(module)
            self.modules[level] = module, numbers
            lines = alignment.of_module(text, numbers, self._table(tables), self.places)
        except CompileError as error:
            self.missing.append(f"{level}: {name} is damaged: {error.diagnostics[0].message}")
        self.levels[level] = Level(level, name, text, lines)

    def _table(self, suffixes: Sequence[str]) -> LocationTable | None:
        contents = [read_if_there(self.unit.stem + suffix) for suffix in suffixes]
        table = location_table(contents, self.unit.source_name)
        if table is None:
            text = "no lines of the source for MLIR: location files lie beside the artifacts of builds only"
            if text not in self.missing:
                self.missing.append(text)
        return table

    def _llvm(self) -> None:
        text = self._text(".ll", "llvm")
        if text is not None:
            lines = alignment.of_llvm(text, self.places)
            self.levels["llvm"] = Level("llvm", os.path.basename(self.unit.stem) + ".ll", text, lines)
            self._needs_lineinfo(lines)

    def _ptx(self) -> None:
        text = self._text(".ptx", "ptx")
        if text is not None:
            lines = alignment.of_ptx(text, self.places)
            self.levels["ptx"] = Level("ptx", os.path.basename(self.unit.stem) + ".ptx", text, lines)
            self._needs_lineinfo(lines)

    def _needs_lineinfo(self, lines: Lines) -> None:
        text = "no lines of the source for LLVM IR, PTX and machine code: build with lineinfo=1"
        if not any(lines) and text not in self.missing:
            self.missing.append(text)

    def _sass(self) -> None:
        ptx = self.levels.get("ptx")
        if ptx is None:
            return
        self.progress(f"{self.unit.name}: machine code")
        cubin = read_if_there(self.unit.stem + ".cubin")
        try:
            level = 3 if self.unit.opt_level is None else self.unit.opt_level
            try:
                with_lines = machine.with_lines(ptx.text, cubin, level)
            except CompileError as error:
                if cubin is None:
                    raise
                self.missing.append(f"sass: {self.unit.name}.cubin is damaged: {error.diagnostics[0].message}")
                with_lines = machine.with_lines(ptx.text, None, level)
            self.machine = machine.listing(with_lines, self._entry(ptx.text))
        except CompileError as error:
            self.missing.append(f"sass: {error.diagnostics[0].message}")
            return
        if cubin is None:
            self.missing.append("sass: no cubin; the PTX was assembled by the ptxas of this machine (emit=cubin)")
        lines = alignment.of_machine_code(self.machine.ptx_lines, ptx.places)
        name = os.path.basename(self.unit.stem) + ".sass"
        self.levels["sass"] = Level("sass", name, self.machine.text, lines, self.machine.ptx_lines)

    def _entry(self, ptx: str) -> str:
        """The entry's symbol, which may differ from the stem of its files."""
        import re

        names = re.findall(r"\.entry\s+([\w$]+)", ptx)
        fitting = [name for name in names if compiler_units.file_stem(name) == self.unit.name]
        return (fitting or names or [self.unit.name])[0]

    def _target_of_ptx(self) -> str:
        import re

        ptx = self.levels.get("ptx")
        match = re.search(r"^\s*\.target\s+(sm_\d+)", ptx.text, re.MULTILINE) if ptx is not None else None
        return match.group(1) if match is not None else ""

    def _sources(self) -> tuple[str, ...]:
        """The level of the source: all readable files that places name, concatenated."""
        self.places.number(self.unit.source_name, 0)
        files = dict.fromkeys([self.unit.source_name, *(place.file for place in self.places.found)])
        readable, text, rows = [], [], []
        numbers: dict[tuple[str, int], int] = {(p.file, p.line): n for n, p in enumerate(self.places.found)}
        for file in files:
            data = read_if_there(self.places.paths.get(file) or self.unit.source_path or "") if (
                file in self.places.paths or file == self.unit.source_name
            ) else None  # fmt: skip
            if data is None:
                self.missing.append(f"source: {file} is not there")
                continue
            if compiler_units.is_bytecode(data):
                self.missing.append(f"source: {file} is bytecode; cuda_tile shows its text")
                continue
            readable.append(file)
            lines = data.decode(errors="replace").rstrip("\n").split("\n")
            text += lines
            rows += [(numbers[file, line],) if (file, line) in numbers else () for line in range(1, len(lines) + 1)]
        if text:
            self.levels["source"] = Level("source", ", ".join(readable), "\n".join(text) + "\n", (*rows, ()))
        return tuple(readable)

    # ---- derived data -----------------------------------------------------------------------------------------------

    def _row(self, suffix: str) -> dict | None:
        """The entry's row of NAME.json or NAME.resources.json."""
        import json

        data = read_if_there(self.unit.stem + suffix)
        if data is None:
            self.missing.append(f"there is no {os.path.basename(self.unit.stem)}{suffix}")
            return None
        try:
            kernels = json.loads(data)["kernels"]
            if isinstance(kernels, dict):
                return dict(next(iter(kernels.values())))
            return dict(kernels[0])
        except (ValueError, KeyError, TypeError, IndexError, StopIteration):
            self.missing.append(f"{os.path.basename(self.unit.stem)}{suffix} is damaged")
            return None

    def _remarks(self) -> list[Remark]:
        remarks: list[Remark] = []
        seen = 0
        for stage in REMARK_STAGES:
            data = read_if_there(f"{self.unit.stem}.{stage}.remarks.json")
            if data is None:
                continue
            seen += 1
            try:
                remarks += read_remarks(data)
            except ValueError:
                self.missing.append(f"decisions: {self.unit.name}.{stage}.remarks.json is damaged")
        if not seen:
            self.missing.append("decisions: there are no remarks: build with emit-remarks=1")
        return remarks

    def _verdict(self) -> Verdict | None:
        """The verdict of a build with check=1, if it applies to the present PTX."""
        ptx = self.levels.get("ptx")
        try:
            artifact = verdicts.of_artifact(self.unit.stem, ptx.text if ptx is not None else "", self._places_of)
        except ValueError as error:
            self.missing.append(f"verdict: {error}")
            return None
        return artifact

    def _places_of_operation(self, number: int) -> tuple[int, ...]:
        """The lines of the source of an operation of NAME.tileaa.mlir."""
        level, (_, lines) = self.levels.get("tileaa"), self.modules.get("tileaa", (None, ()))
        if level is None or number >= len(lines) or lines[number] > len(level.places):
            return ()
        return level.places[lines[number] - 1]

    def _places_of(self, place: str) -> tuple[int, ...]:
        """The lines of the source for a place in NAME.cuda_tile.mlir, or in the source."""
        file, line, _ = place.rsplit(":", 2)
        level = self.levels.get("cuda_tile")
        if level is not None and file == level.file:
            return level.places[int(line) - 1] if 0 < int(line) <= len(level.places) else ()
        return (self.places.number(file, int(line)),)

    def _layouts(self, target: str) -> tuple[tuple, tuple, tuple]:
        if "tileas" not in self.modules:
            return (), (), ()
        module, lines = self.modules["tileas"]
        level = self.levels["tileas"]
        names = layouts.Names(level.text)
        where = self._where(level)
        return (
            layouts.layouts(module, lines, names),
            layouts.conversions(module, lines, names, where, target),
            layouts.shared_uses(module, lines, names, where, target),
        )

    def _memory(self, target: str, resources: dict | None) -> Memory | None:
        if "tileas" not in self.modules:
            return None
        module, lines = self.modules["tileas"]
        level = self.levels["tileas"]
        names = layouts.Names(level.text)
        return memory.memory(module, lines, names, self._where(level), target, resources, self.machine)

    @staticmethod
    def _where(level: Level) -> dict[int, tuple[int, ...]]:
        return {number: result for number, result in enumerate(level.places, 1) if result}

    def _passes(self) -> tuple[PassChange, ...]:
        level, options = self.levels.get("tileaa"), self.unit.options
        if level is None or options is None or options["gpu-name"] is None:
            return ()
        self.progress(f"{self.unit.name}: passes")
        try:
            return decisions.pass_changes(level.text, level.file, options)
        except CompileError as error:
            self.missing.append(f"passes: {error.diagnostics[0].message}")
            return ()

    def _timing(self, row: dict | None) -> timing.Timing | None:
        if self.launch is None:
            self.missing.append("time: give the launch: --grid and the arguments of tileiras-run")
            return None
        ptx = self.levels.get("ptx")
        if ptx is None or self.launch.entry not in (None, self.unit.name):
            return None
        self.progress(f"{self.unit.name}: estimate")
        return timing.estimated(ptx.text, self._entry(ptx.text), row, self.launch, self.places)

"""Selects the kernels of a report: entries of a source, built for the report, or kernels in a build directory."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from tileiras import pipeline
from tileiras.build import NOTES, discover, library, plan
from tileiras.build.ledger.history import Entry, History
from tileiras.build.run.execute import Session
from tileiras.build.step import Outcome
from tileiras.build.tuned import tuned
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.options import OPTIONS, CompileOptions
from tileiras.report.model import Stage
from tileiras.stages import units
from tileiras.support.named_tuple import NamedTuple

Progress = Callable[[str], None]
"""Callback that receives the current step."""

_VARIANT = re.compile(r"(sm_\d+)[/\\]O([0-3])(?=[/\\]|$)")
_ENTRY_SUFFIXES = (".tileaa.mlir", ".tileas.mlir", ".llvm.mlir", ".ll", ".ptx", ".cubin", ".sass")
"""Of artifacts that belong to one kernel only."""


class Unit(NamedTuple):
    """The artifacts of one kernel for one target, as files."""

    name: str
    stem: str
    """Path without the suffix."""
    file_stem: str
    """The same for the artifacts of its whole source."""
    source_name: str
    source_path: str | None
    """None if it is not recorded or no longer exists."""
    options: CompileOptions | None
    """None if they are not recorded."""
    target: str
    """Empty if the folder does not determine it."""
    opt_level: int | None
    stages: tuple[Stage, ...]
    failures: tuple[str, ...]
    """Error messages of failed stages."""


# ---- of a source -------------------------------------------------------------------------------------------------


def build_source(
    path: str, name: str, options: CompileOptions, folder: str, only: Sequence[str] | None, progress: Progress
) -> list[Unit]:
    """Build the entries of a source, or those `only`, down to machine code into a folder, through the artifact store
    as every build does.

    `name` is the name of the source in diagnostics. Raises CompileError for a source that cannot be read, has no
    kernels, or lacks one of those wanted; a kernel whose compilation fails is a unit with the artifacts up to the
    failure.
    """
    source = units.Source.read(path, name)
    if source.kind in units.ARTIFACTS:
        message = f"{name} is an artifact; give its source, or the build directory it lies in"
        raise CompileError.at(None, message, ExitCode.CONFIGURATION)
    entries = discover.entry_names(source)
    for each in only or () if entries else ():
        if each not in entries:
            names = ", ".join(entries)
            raise CompileError.at(None, f"no kernel '{each}' in {name}; it has {names}", ExitCode.CONFIGURATION)
    scons_session = library.default_session()
    session = Session(scons_session.store, scons_session.code, History(folder))
    stem = plan.stem(plan.folder(folder, options), path, os.path.basename(name))
    selection = list(only or entries) if entries else []
    options = tuned(options, path)
    # Without entries only the stages of the file run; they report its errors.
    result = plan.plan(path, name, path, stem, options, "sass", selection)
    outcomes: dict[tuple[str, str], Outcome] = {}
    broken: set[str] = set()
    for step in result.steps:
        if step.input in broken:
            broken.update(step.outputs)
            continue
        progress(f"{step.entry or name}: {step.stage.name}")
        outcome = outcomes[step.stem, step.stage.name] = session.perform(step)
        if outcome.error is not None:
            if step.stage.unit == pipeline.FILE:
                raise CompileError(outcome.diagnostics, outcome.error.code)
            broken.update(step.outputs)
    if not selection:
        raise CompileError.at(None, f"{name} has no kernels", ExitCode.INVALID_INPUT)
    return [_unit(entry, stem, path, name, options, outcomes) for entry in selection]


def _unit(
    entry: str, file_stem: str, path: str, name: str, options: CompileOptions,
    outcomes: Mapping[tuple[str, str], Outcome],
) -> Unit:  # fmt: skip
    stem = f"{file_stem}/{units.file_stem(entry)}"
    stages, failures = [], []
    for row in pipeline.STAGES:
        outcome = outcomes.get((stem, row.name)) or outcomes.get((file_stem, row.name))
        if outcome is None:
            if row.name != "export" or path.endswith(".py"):
                stages.append(Stage(row.name, "not reached", None, ()))
            continue
        how = "failed" if outcome.error is not None else "served from the store" if outcome.cached else "ran"
        stages.append(Stage(row.name, how, outcome.seconds, ()))
        if outcome.error is not None:
            failures.append(f"stage {row.name} failed: {outcome.error.diagnostics[0].message}")
    return Unit(
        entry, stem, file_stem, name, path, options, options["gpu-name"], options["opt-level"], tuple(stages),
        tuple(failures),
    )  # fmt: skip


# ---- of a build directory ----------------------------------------------------------------------------------------


def units_of_build(build: str, only: Sequence[str] | None = None) -> list[Unit]:
    """The kernels whose artifacts are in a build directory, or in any folder of artifacts, by target and name.

    Raises CompileError if there are no kernels, or if one of those `only` is missing.
    """
    history = _history_of(build)
    notes = {(entry.stem, entry.stage): entry for entry in history.entries()}
    result = [_lying(history, notes, stem) for stem in _stems(build)]
    for each in only or ():
        if all(unit.name != each for unit in result):
            names = ", ".join(sorted({unit.name for unit in result})) or "none"
            raise CompileError.at(None, f"no kernel '{each}' in {build}; it has {names}", ExitCode.CONFIGURATION)
    if not result:
        raise CompileError.at(None, f"no artifacts of kernels in {build}", ExitCode.CONFIGURATION)
    return [unit for unit in result if not only or unit.name in only]


def units_of_artifacts(paths: Sequence[str]) -> list[Unit]:
    """The kernels of artifacts, without duplicates, in order. Raises CompileError for a file that is not an artifact
    of a kernel."""
    result: dict[str, Unit] = {}
    for path in paths:
        suffix = next((each for each in (*_ENTRY_SUFFIXES, ".cuda_tile.mlir") if path.endswith(each)), None)
        if suffix is None:
            raise CompileError.at(None, f"{path} is no artifact of a kernel", ExitCode.CONFIGURATION)
        stem = path.removesuffix(suffix)
        if stem not in result:
            history = _history_of(os.path.dirname(stem) or ".")
            pairs = ((os.path.dirname(stem), row.name) if row.unit == pipeline.FILE else (stem, row.name)
                     for row in pipeline.BY_NAME.values())  # fmt: skip
            rows = [history.entry(*each) for each in pairs]
            notes = {(row.stem, row.stage): row for row in rows if row is not None}
            result[stem] = _lying(history, notes, stem)
    return list(result.values())


def _history_of(folder: str) -> History:
    """The history of the build directory that a folder is, or is in."""
    top = os.path.abspath(folder)
    while not os.path.isdir(os.path.join(top, NOTES)) and os.path.dirname(top) != top:
        top = os.path.dirname(top)
    return History(top if os.path.isdir(os.path.join(top, NOTES)) else folder, noting=False)


def _stems(build: str) -> Iterator[str]:
    """The stems of kernels: of files with a suffix that only kernels have, and of verified input that belongs to one
    kernel."""
    for folder, folders, files in os.walk(build):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        stems: dict[str, None] = {}
        for file in sorted(files):
            suffix = next((each for each in _ENTRY_SUFFIXES if file.endswith(each)), None)
            if suffix is None and file.endswith(".cuda_tile.mlir") and os.path.isfile(folder + ".cuda_tile.mlir"):
                suffix = ".cuda_tile.mlir"
            if suffix is not None and not file.endswith(".linked.ptx"):
                stems[file.removesuffix(suffix)] = None
        yield from (os.path.join(folder, stem) for stem in stems)


def _lying(history: History, notes: Mapping[tuple[str, str], Entry], stem: str) -> Unit:
    file_stem = os.path.dirname(stem) if os.path.isfile(os.path.dirname(stem) + ".cuda_tile.mlir") else stem
    rows: dict[str, Entry] = {}
    for row in pipeline.BY_NAME.values():
        owner = file_stem if row.unit == pipeline.FILE else stem
        entry = notes.get((history.relative(owner), row.name))
        if entry is not None:
            rows[row.name] = entry
    variant = _VARIANT.search(os.path.abspath(stem))
    newest = next(iter(rows.values()), None)
    path = history.absolute(newest.path) if newest is not None else None
    return Unit(
        os.path.basename(stem), stem, file_stem, newest.source if newest is not None else os.path.basename(file_stem),
        path if path is not None and os.path.isfile(path) else None, _noted_options(rows, variant),
        variant.group(1) if variant else "", int(variant.group(2)) if variant else None,
        tuple(_noted_stages(history, rows)),
        tuple(f"stage {name} failed when it last ran" for name, entry in rows.items() if entry.outcome == "failed"),
    )  # fmt: skip


def _noted_options(rows: Mapping[str, Entry], variant: re.Match[str] | None) -> CompileOptions | None:
    """The options with which the stages ran, without those specific to a machine."""
    result: dict[str, object] = {}
    if variant is not None:
        result = {"gpu-name": variant.group(1), "opt-level": int(variant.group(2))}
    for entry in rows.values():
        for name, text in entry.parts.get("options", {}).items():
            if name in OPTIONS:
                try:
                    result[name] = ast.literal_eval(text)
                except (ValueError, SyntaxError, TypeError):
                    return None
    try:
        return CompileOptions(result) if rows else None
    except CompileError:
        return None


def _noted_stages(history: History, rows: Mapping[str, Entry]) -> Iterator[Stage]:
    """The recorded outcomes of the stages. A stage that has not been checked since the stage before it was rebuilt
    counts as cut off: the rebuilt artifact was identical."""
    before = 0.0
    for row in pipeline.BY_NAME.values():
        entry = rows.get(row.name)
        if entry is None:
            if row.name != "export" and row not in pipeline.BESIDE:
                yield Stage(row.name, "not reached", None, ())
            continue
        outcome = "cut off" if entry.time < before and entry.outcome != "failed" else entry.outcome
        why = tuple(history.differences(entry)) if outcome == "ran" else ()
        if "override" in entry.parts:
            outcome = "overridden"
        yield Stage(row.name, outcome, entry.seconds, why)
        before = max(before, entry.time)

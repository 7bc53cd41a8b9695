"""Runs one stage on bytes and returns a record.  No file is read or written here, except by the stage."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tileiras import ir, pipeline
from tileiras.build import overrides
from tileiras.build.store.local import Record
from tileiras.diagnostics import CompileError, Diagnostic, Severity
from tileiras.diagnostics.remarks import Remark, remarks_json
from tileiras.inputs import Input
from tileiras.stages import ByteStore, StageContext, locations, units

if TYPE_CHECKING:
    from tileiras.build.step import Step

_compiling = threading.Lock()
"""Held while a stage works on IR: types and attributes are interned in tables that threads must not race for."""


class Failed(CompileError):
    """The diagnostics of a failed stage, and the inputs that it had read."""

    def __init__(self, error: CompileError, inputs: Iterable[Input]) -> None:
        super().__init__(error.diagnostics, error.code)
        self.inputs = tuple(inputs)


def produce(
    step: Step,
    data: bytes,
    table: locations.LocationTable | None,
    beside: Mapping[str, bytes],
    store: ByteStore | None,
) -> tuple[Record, list[Diagnostic]]:
    """Run a step's stage on `data`; return its record and its diagnostics besides remarks.  Raises CompileError with
    all diagnostics.

    `table` is that of the input (see `location_table`), `beside` the contents of `Step.beside`; `store` caches data
    that the stage derives from its tools.
    """
    import time

    context = StageContext(
        source_name=step.source_name, source_path=step.source_path, store=store, beside=beside
    )
    if step.locations:
        context.location = unit_location(table)
    result = context.engine.diagnostics
    works_on_ir = pipeline.takes_module(step.stage) or step.stage.unit == pipeline.FILE
    try:
        with _compiling if works_on_ir else contextlib.nullcontext(), pipeline.reported(step.stage, context):
            start = time.perf_counter()
            if step.override is None or overrides.needs_stage(step):
                artifacts = _artifacts(step, data, table, context)
            else:
                artifacts = {}
            if step.override is not None:
                artifacts = overrides.with_override(step, beside.get(overrides.BESIDE, b""), artifacts)
            if step.overridden and ".json" in step.suffixes:
                artifacts[".json"] = overrides.with_overrides(artifacts[".json"], step.overridden)
            seconds = time.perf_counter() - start
    except CompileError as error:
        whole = after(result, error)
        raise Failed(whole, context.inputs) if step.stage.reads_files else whole from None
    if step.stage.says_remarks(step.options) and step.override is None:
        # Remarks are a separate artifact, for builds in which the stage does not run.
        remarks = [diagnostic for diagnostic in result if isinstance(diagnostic, Remark)]
        artifacts[step.stage.remark_suffix] = remarks_json(remarks)
    result = [diagnostic for diagnostic in result if diagnostic.severity is not Severity.REMARK]
    missing = [suffix for suffix in step.suffixes if suffix not in artifacts]
    if missing:
        message = f"stage '{step.stage.name}' made no {', '.join(missing)} of {step.source_name}"
        raise after(result, CompileError.at(None, message))
    diagnostics = locations.encode_diagnostics(result, step.source_name)
    return Record(artifacts, diagnostics, tuple(context.inputs), round(seconds, 4)), result


def _artifacts(
    step: Step, data: bytes, table: locations.LocationTable | None, context: StageContext
) -> dict[str, bytes]:
    """Run a stage and return its artifacts by suffix."""
    stage = step.stage
    value: Any = data
    if pipeline.takes_module(stage):
        value = ir.parse_module(data.decode(), step.input.replace(os.sep, "/"))
        if table is not None:
            table.attach(value)
    result = pipeline.run_stage(stage, value, step.options, context)
    artifacts = dict(result.artifacts)
    if isinstance(result.output, bytes):
        artifacts[stage.suffix] = result.output
        return artifacts
    artifacts[stage.suffix] = units.module_text(result.output)
    artifacts[stage.location_suffix] = locations.table_of(
        result.output, step.source_name, unit_name=step.entry
    ).to_bytes()
    if stage.unit == pipeline.FILE:
        # The inputs of the next stage, one per entry: an entry with unchanged text is not recompiled.
        for name, module in units.entry_modules(result.output):
            stem = "/" + units.file_stem(name)
            artifacts[stem + stage.suffix] = units.module_text(module)
            artifacts[stem + stage.location_suffix] = locations.table_of(
                module, step.source_name, unit_name=name
            ).to_bytes()
    return artifacts


def location_table(contents: Sequence[bytes | None], source_name: str) -> locations.LocationTable | None:
    """Build the table from an input to the source from the contents of its location files, its own first.

    None if `contents` is empty, or a file is missing or malformed.
    """
    table = None
    for content in reversed(contents):
        if content is None:
            return None
        try:
            table = locations.LocationTable.from_bytes(content, table, source_name)
        except ValueError:
            return None
    return table


def unit_location(table: locations.LocationTable | None) -> Any:
    """Return the location of the unit in the source; None without a table."""
    while table is not None and table.parent is not None:
        table = table.parent
    return table.unit_location if table is not None else None


def after(diagnostics: list[Diagnostic], error: CompileError) -> CompileError:
    """Prepend the earlier diagnostics to those of the error."""
    earlier = [diagnostic for diagnostic in diagnostics if diagnostic not in error.diagnostics]
    return CompileError(earlier + error.diagnostics, error.code)

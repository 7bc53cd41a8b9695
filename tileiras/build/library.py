"""Compilation through the artifact store, for `tileiras.compile` and the command `tileiras`.

Within one process modules pass from stage to stage in memory, so there are no bytes of intermediate inputs to hash:
a compilation is one row, keyed by its source, options, tools and the code of all its stages.  The export of cuTile
Python is a stage's row, shared with builds.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras import api, pipeline
from tileiras.api import Artifact, Kernel
from tileiras.build.run.execute import Session
from tileiras.build.step import Step, warn_on_stderr
from tileiras.build.store.fingerprint import CodeBase
from tileiras.build.store.key import key_of
from tileiras.build.store.local import (
    OFF,
    READ_ONLY,
    REFRESH,
    VERIFY,
    ArtifactStore,
    Record,
    default_mode,
    directory_for,
    folder_of,
    size_limit,
)
from tileiras.codegen import output_store
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Handler, with_lines
from tileiras.inputs import kinds
from tileiras.options import CompileOptions, missing_gpu
from tileiras.pipeline import Stage
from tileiras.stages import units
from tileiras.support.command_cache import forgotten_by
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from typing import Unpack

    from tileiras.support.option_types import CompileKeywords

ROW = Stage("compile", pipeline.FILE, "", (), (), "a whole compilation", module="tileiras.api")
"""The pseudo-stage in keys of whole compilations; its code is the driver in `tileiras.api`."""

_sessions: dict[tuple[str, str], Session] = {}


def compile(
    source: Any,
    *,
    gpu_name: str,
    opt_level: int = 3,
    emit: str | None = None,
    entry: str | None = None,
    source_name: str | None = None,
    handlers: Sequence[Handler] = (),
    signature: object = None,
    **options: Unpack[CompileKeywords],
) -> Artifact:
    """`tileiras.api.compile` with the artifact store as a cache.

    The store is that of the current checkout, or else the user's; `TILEIRAS_CACHE_DIR=off` disables it.  A source given
    as a module, which is mutable, is compiled every time.  `emit="fatbin"` takes several GPUs, with commas, in
    `gpu_name`, and no module.  Raises CompileError, but never for a failure of the store.
    """
    compiler: Callable[..., Artifact] = compile_with
    if emit == pipeline.FATBIN.name:
        if not gpu_name:
            raise missing_gpu()
        targets = tileiras.build.fat_binary.named_targets(gpu_name)
        every = [api.checked_options(target, opt_level, dict(options)) for target in targets]
        gpu_name, compiler = targets[-1], functools.partial(tileiras.build.fat_binary.compile_any_for, every)
    values = api.checked_options(gpu_name, opt_level, options)
    with api.handled(handlers) as context:
        emit = emit or pipeline.default_emit(gpu_name)
        context.append(api.compile_any(compiler, source, signature, values, emit, entry, source_name))
    return context[0]


def compile_with(
    source: Any, options: CompileOptions, emit: str, *, entry: str | None = None, source_name: str | None = None
) -> Artifact:
    """`compile` with checked options; `source` may also be a `units.Source`."""
    session = default_session()
    store = session.store
    if store.mode == OFF:
        return api.compile_with(source, options, emit, entry=entry, source_name=source_name)
    if not isinstance(source, units.Source):
        if not isinstance(source, (str, bytes, bytearray, memoryview, os.PathLike)):
            return api.compile_with(source, options, emit, entry=entry, source_name=source_name, store=store)
        source = api.open_source(source, source_name)
    last, suffix = pipeline.emit_stage(emit, options["gpu-name"])
    diagnostics: list[Diagnostic] = []
    dependencies: list[str] = []
    opened = source
    if source.kind == units.PYTHON:
        opened, _, dependencies, diagnostics = exported(source, options)
        if last.name == "export":
            return Artifact(opened.data, suffix, [], diagnostics, dependencies)
    key = _key(session, opened, options, emit, entry)
    record = store.get_record(key)
    if record is not None and store.mode != VERIFY:
        if record.diagnostics["diagnostics"]:
            diagnostics += quoted(
                tileiras.stages.locations.decode_diagnostics(dict(record.diagnostics), opened.name), opened
            )
        return _artifact(record, suffix, diagnostics, dependencies)
    result = api.compile_with(opened, options, emit, entry=entry, store=store)
    if record is not None and record.artifacts[""] != result.data:
        raise CompileError.at(None, f"compiling {opened.name} made another {suffix} than the store has for its key")
    store.put_record(key, _record(result, opened.name))
    result.diagnostics[:0] = diagnostics
    result.dependencies = dependencies
    return result


code_in_memory: CodeBase | None = None
"""The fingerprints of the code that this process has loaded; set by the compile service, which checks itself that no
source file has changed since."""


def default_session() -> Session:
    """The session of the working directory's store, by the present environment; raises CompileError (code 2)."""
    directory = directory_for(os.getcwd())
    try:
        mode, limit = default_mode(), size_limit()
        if mode == READ_ONLY and directory != OFF and not os.path.isdir(folder_of(directory)):
            # There is nothing to read, and computing keys is slow without a memo.
            directory = OFF
        result = _sessions.get((directory, mode))
        if result is None:
            store = ArtifactStore(directory, warn_on_stderr, mode, limit)
    except ValueError as error:
        raise CompileError.at(None, str(error), ExitCode.CONFIGURATION) from None
    if result is None:
        code = code_in_memory or CodeBase(memo=store.memo_path, log_path=store.fingerprints_path)
        result = _sessions[directory, mode] = Session(store, code)
    return result


def _close_sessions() -> None:
    """Close all sessions between commands: the next one may find another store at the same path."""
    for session in _sessions.values():
        session.store.close()
    _sessions.clear()


forgotten_by(_close_sessions)


def tool_outputs() -> ArtifactStore | None:
    """The store of outputs of tools; None in the modes that run everything."""
    store = default_session().store
    return None if store.mode in (REFRESH, VERIFY) else store


output_store.provider = tool_outputs


class Exported(NamedTuple):
    """The export of a cuTile Python file."""

    source: units.Source
    """Bytecode, under the file's name."""
    parameters: bytes
    """NAME.parameters.json: the names of the entries' parameters."""
    dependencies: list[str]
    """Files and folders that the file's modules read."""
    diagnostics: list[Diagnostic]


def exported(source: units.Source, options: CompileOptions) -> Exported:
    """Export a cuTile Python source, through the store; raises CompileError."""
    row = pipeline.stage("export")
    path = source.path or source.name
    step = Step(row, path, "", [row.suffix, *row.side_suffixes], source.name, path, options)
    record, diagnostics = default_session().obtain(step, source.data)
    bytecode = source._replace(data=record.artifacts[row.suffix], kind=units.BYTECODE)
    (parameters,) = row.side_suffixes
    base = os.path.dirname(os.path.realpath(path))
    dependencies = kinds.files(record.inputs, base)
    return Exported(bytecode, record.artifacts[parameters], dependencies, diagnostics)


def _key(session: Session, source: units.Source, options: CompileOptions, emit: str, entry: str | None) -> str:
    import xxhash

    last, _ = pipeline.emit_stage(emit, options["gpu-name"])
    # Bytecode emitted from text is written by the driver, after the stage `read`.
    rows = pipeline.stages_between("read", last.name) or (pipeline.stage("read"),)
    names = {name for row in rows for name in row.options}
    if last.name == "export":
        names.add("bytecode-version")
    parts: dict[str, Any] = {
        "stage": ROW.name,
        "code": [session.code.fingerprint(row) for row in (ROW, *rows)],
        "options": options.canonical(names).decode(),
        "tools": {name: session.tool(name, row.select(options)) for row in rows for name in row.tools},
        "input": xxhash.xxh3_128_hexdigest(source.data),
        "kind": source.kind,
        "emit": emit,
        "entry": entry,
    }
    if any(row.needs_locations(options) for row in rows):
        parts["source name"] = source.name
    return key_of(ROW.name, parts)


# ---- rows ------------------------------------------------------------------------------------------------------------


def _record(artifact: Artifact, source_name: str) -> Record:
    """A record with the product under an empty name and the artifacts of an entry under `ENTRY NUL SUFFIX`."""
    artifacts = {"": artifact.data}
    for kernel in artifact.kernels:
        artifacts[kernel.name + "\0"] = b""
        for suffix, data in kernel.artifacts.items():
            artifacts[f"{kernel.name}\0{suffix}"] = data
    diagnostics: dict[str, Any] = {"files": [], "diagnostics": []}
    if artifact.diagnostics:
        diagnostics = tileiras.stages.locations.encode_diagnostics(artifact.diagnostics, source_name)
    return Record(artifacts, diagnostics)


def _artifact(
    record: Record, suffix: str, diagnostics: list[Diagnostic], dependencies: list[str]
) -> Artifact:
    kernels: dict[str, Kernel] = {}
    for key, data in record.artifacts.items():
        name, separator, own = key.partition("\0")
        if separator and not own:
            kernels[name] = Kernel(name, {})
        elif separator:
            kernels[name].artifacts[own] = data
    return Artifact(record.artifacts[""], suffix, list(kernels.values()), diagnostics, dependencies)


def quoted(diagnostics: Iterable[Diagnostic], source: units.Source) -> list[Diagnostic]:
    """The same diagnostics, with the lines of a text source that they point at."""
    return list(diagnostics) if source.kind != units.TEXT else with_lines(diagnostics, source.name, source.text)

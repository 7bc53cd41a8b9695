"""The compiler as a library: source in, artifact out, in this process.

    artifact = tileiras.compile("kernel.mlir", gpu_name="sm_90")

Modules go from stage to stage alive; a build with one node per stage (`tileiras.build`) writes and reads them, and
makes the same bytes.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tileiras import pipeline, units
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Handler, offered, with_lines
from tileiras.files import stem
from tileiras.options import CompileOptions, lookup, missing_gpu
from tileiras.stages import ByteStore, StageContext, StageResult

if TYPE_CHECKING:
    from tileiras.ir import Operation
    from tileiras.ir.pass_instrumentation import PassInstrumentation


LINKED = ".linked.ptx"
"""The suffix of the PTX of several kernels that ptxas is given as one module."""

Keep = Callable[[str, str, bytes], str | None]


class Kernel:
    """One entry of an artifact: its name, and by suffix what the stage that made the product wrote (`.ptx`, `.json`).

    Of a cubin that is what both of its last stages wrote.
    """

    __slots__ = ("name", "artifacts")

    def __init__(self, name: str, artifacts: dict[str, bytes]) -> None:
        self.name = name
        self.artifacts = artifacts

    @property
    def metadata(self) -> dict[str, Any] | None:
        """The launch description of this entry from `NAME.json`, None when compilation ended before PTX."""
        text = self.artifacts.get(".json")
        if text is None:
            return None
        import json

        return next((k for k in json.loads(text)["kernels"] if k["name"] == self.name), None)

    def __repr__(self) -> str:
        return f"Kernel({self.name!r}, {sorted(self.artifacts)})"


class Artifact:
    """What `compile` made: `data` is the product that was asked for, `kernels` the entries it holds."""

    __slots__ = ("data", "suffix", "kernels", "diagnostics", "dependencies")

    def __init__(
        self,
        data: bytes,
        suffix: str,
        kernels: list[Kernel],
        diagnostics: list[Diagnostic],
        dependencies: Sequence[str] = (),
    ) -> None:
        self.data = data
        self.suffix = suffix
        self.kernels = kernels
        self.diagnostics = diagnostics
        """Warnings and remarks; errors are raised."""
        self.dependencies = list(dependencies)
        """Files that were read besides the source: what cuTile Python imported from its own folder."""

    @property
    def text(self) -> str:
        """`data` as text; raises ValueError for products that are not text (bytecode, cubin)."""
        if self.suffix in (".tileirbc", ".cubin"):
            raise ValueError(f"{self!r} is no text")
        return self.data.decode()

    def __repr__(self) -> str:
        return f"<{self.suffix} of {', '.join(kernel.name for kernel in self.kernels)}: {len(self.data)} bytes>"


def compile(
    source: str | bytes | os.PathLike | Operation,
    *,
    gpu_name: str,
    opt_level: int = 3,
    emit: str = "ptx",
    entry: str | None = None,
    source_name: str | None = None,
    handlers: Sequence[Handler] = (),
    signature: Any = None,
    **options: Any,
) -> Artifact:
    """Compiles one source for one GPU.

    source: a path (`.mlir`, `.tileirbc`, cuTile Python `.py`), Tile IR text, bytecode, a cuda_tile module, which is
        left as it is, or a cuTile Python function.  A str with a line break is text, and so is one with a brace, unless
        it ends in the suffix of a source; any other is a path.
    signature: what a function is compiled for: its parameters in order, as behind the kernel in TILEIRAS_EXPORT
        (`("f32[?]", "f32[?]", 1024)`), the front end's KernelSignature, or a dictionary of such by kernels' names.
    emit: `bytecode`, `cuda_tile`, `tileaa`, `tileas`, `llvm`, `ptx`, `cubin` or `sass`.
    entry: compile only this entry.
    source_name: what messages call the source, instead of its path.
    handlers: are given every diagnostic, in their order; one that returns True keeps it to itself.
    options: those of `tileiras.options`, with underscores.

    Raises CompileError with located diagnostics and the driver's exit code.
    """
    values = checked_options(gpu_name, opt_level, options)
    with handled(handlers) as made:
        made.append(compile_any(compile_with, source, signature, values, emit, entry, source_name))
    return made[0]


def compile_any(
    compile_with: Callable[..., Artifact], source: Any, signature: Any, options: CompileOptions, emit: str,
    entry: str | None, source_name: str | None,
) -> Artifact:  # fmt: skip
    """`compile_with` of whatever `compile` takes.  A function is exported each time: nothing says whether it changed.

    Raises TypeError for a function without a signature, and for a signature with anything else.
    """
    if signature is None and not callable(source):
        return compile_with(source, options, emit, entry=entry, source_name=source_name)
    if signature is None or not callable(source):
        raise TypeError(
            "signature= goes with a cuTile Python function, and a function with signature=: "
            'compile(kernel, signature=("f32[?]", 1024), ...)'
        )
    from tileiras.stages.export import function

    exported = function.export(source, signature, pipeline.stage("export").select(options), source_name)
    bytecode = units.Source(exported.bytecode, exported.name, None, units.BYTECODE)
    try:
        made = compile_with(bytecode, options, emit, entry=entry)
    except CompileError as error:
        error.diagnostics = with_lines(error.diagnostics, exported.name, exported.text)
        raise
    made.diagnostics = with_lines(made.diagnostics, exported.name, exported.text)
    return made


@contextlib.contextmanager
def handled(handlers: Sequence[Handler]) -> Iterator[list[Artifact]]:
    """Offers what is said in its block, by the artifacts put into the list or by a CompileError, to handlers."""
    made: list[Artifact] = []
    try:
        yield made
    except CompileError as error:
        if handlers:
            error.diagnostics = offered(error.diagnostics, handlers)
        raise
    for artifact in made if handlers else ():
        artifact.diagnostics = offered(artifact.diagnostics, handlers)


def checked_options(gpu_name: str, opt_level: int, options: dict[str, Any]) -> CompileOptions:
    """The options of `compile`; raises CompileError (code 2)."""
    named = {lookup(name).name: value for name, value in options.items()}
    values = CompileOptions({"gpu-name": gpu_name, "opt-level": opt_level, **named})
    if values["gpu-name"] is None:
        raise missing_gpu()
    return values


def parse(source: str | bytes | os.PathLike, *, source_name: str | None = None) -> Operation:
    """The verified cuda_tile module of a source; raises CompileError (code 3)."""
    opened = open_source(source, source_name)
    context = StageContext(source_name=opened.name, source_path=opened.path)
    options = CompileOptions()
    data = opened.data
    if opened.kind == units.PYTHON:
        data = pipeline.run_stage(pipeline.stage("export"), data, options, context).output
    return pipeline.run_stage(pipeline.stage("read"), data, options, context).output


def open_source(source: str | bytes | os.PathLike, name: str | None = None) -> units.Source:
    """A path, text or bytes as a Source; raises TypeError for anything else."""
    if not isinstance(source, (str, bytes, bytearray, memoryview, os.PathLike)):
        raise TypeError(f"a source is a path, text, bytecode or a module, not {type(source).__name__}")
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
        return units.Source(data, name or "<input>", None, units.kind_of(data))
    if isinstance(source, str) and units.is_text(source):
        return units.Source(source.encode(), name or "<input>", None, units.TEXT)
    return units.Source.read(source, name)


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """No looking for garbage meanwhile: until a compilation ends there is little, and the host program has much that
    is none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_without_collections()
def compile_with(
    source: str | bytes | os.PathLike | Operation | units.Source,
    options: CompileOptions,
    emit: str,
    *,
    entry: str | None = None,
    source_name: str | None = None,
    store: ByteStore | None = None,
    keep: Keep | None = None,
    instrumentation: Sequence[PassInstrumentation] = (),
    times: list[tuple[str, float]] | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> Artifact:
    """`compile` with checked options; `store` keeps what stages derive from their tools between runs.

    `keep` is given what every stage makes, as soon as it is made: (the source's stem or the entry's name, suffix,
    bytes); it may say where it keeps that.  `instrumentation` watches the passes of all stages; `times` gets the
    seconds of the stages that have none.  `meanwhile` is called once while another process works, if one does.
    """
    last, suffix = pipeline.emit_stage(emit)
    diagnostics: list[Diagnostic] = []
    dependencies: list[str] = []
    if not isinstance(source, units.Source) and not hasattr(source, "clone"):
        source = open_source(source, source_name)
    if not isinstance(source, units.Source):
        module = source.clone({})
        name, path, data, kind = source_name or "<module>", None, b"", ""
    else:
        module = None
        name, path, data, kind = source.name, source.path, source.data, source.kind

    if last.name in ("ptx", "cubin", "sass"):
        from tileiras.codegen import isolation

        # LLVM takes 50 ms to load; its process does that while this one reads and lowers.
        isolation.start()

    stop = "ptx" if last.name in ("cubin", "sass") else last.name
    waits = [] if meanwhile is None else [meanwhile]
    if last.name in ("cubin", "sass"):
        waits.insert(0, _load_cubin)

    checks: list[Callable[[], None]] = []

    def check() -> None:
        while checks:
            checks.pop()()

    def wait() -> None:
        check()
        if waits:
            waits.pop(0)()

    kept = name if kind == ".ptx" and path is not None else None

    def run(row: pipeline.Stage, given: Any, location: Any = None, unit: str = "", **known: Any) -> Any:
        nonlocal kept
        context = StageContext(
            source_name=name, source_path=path, location=location, store=store, instrumentation=instrumentation, **known
        )
        context.meanwhile = wait
        context.kept_ptx = kept
        if row.name == "llvm" and stop == "ptx":
            context.postpone = checks.append
        started = time.perf_counter()
        due = len(checks)
        result = pipeline.run_stage(row, given, options, context)
        if due:
            check()  # unless that was done while the stage waited
        if times is not None and row.name in ("export", "read", "ptx", "cubin", "sass"):
            times.append((f"{row.name}: {row.doc}", time.perf_counter() - started))
        diagnostics.extend(context.engine.diagnostics)
        dependencies.extend(context.dependencies)
        if keep is not None:
            unit = unit or stem(name)
            for suffix, data in {row.suffix: _bytes(result.output), **result.artifacts}.items():
                place = keep(unit, suffix, data)
                if suffix == ".ptx":
                    kept = place
        return result

    if kind in units.ARTIFACTS:
        rows = pipeline.stages_between(units.ARTIFACTS[kind], last.name)
        if not rows:
            raise CompileError.at(None, f"{name} is past what emit={emit} asks for", ExitCode.CONFIGURATION)
        split = next((n for n, row in enumerate(rows) if row.name in ("cubin", "sass")), len(rows))
        inputs = _artifact_inputs(kind, data, name, options["gpu-name"], entry)
        kernels, products = [], []
        for unit_name, resumed, location in inputs:
            artifacts: dict[str, bytes] = {}
            for row in rows[:split]:
                result = run(row, resumed, location, unit_name if len(inputs) > 1 else "")
                resumed = result.output
                artifacts.update(result.artifacts)
            if split:
                artifacts[rows[split - 1].suffix] = _bytes(resumed)
            products.append(_bytes(resumed))
            kernels.append(Kernel(unit_name or stem(name), artifacts))
        product = join(products, rows[split - 1].suffix if split else kind)
        if keep is not None and len(kernels) != 1 and split < len(rows):
            kept = keep(stem(name), LINKED, product)
        for row in rows[split:]:
            result = run(row, product, inputs[0][2], beside=_launches(kernels))
            product = result.output
            for kernel in kernels:
                kernel.artifacts.update(result.artifacts)
        if len(kernels) == 1:
            kernels[0].artifacts[last.suffix] = product
        return Artifact(product, suffix, kernels, diagnostics, dependencies)
    if kind == units.PYTHON:
        data = run(pipeline.stage("export"), data).output
        kind = units.BYTECODE
    if last.name == "export":
        if kind != units.BYTECODE:
            # Text and modules are written as bytecode; what already is bytecode is left as it is.
            from tileiras import bytecode

            module = run(pipeline.stage("read"), data).output if module is None else module
            data = bytecode.write_module(module, bytecode.Version.parse(options["bytecode-version"]))
        return Artifact(data, suffix, [], diagnostics, dependencies)
    if module is None:
        module = run(pipeline.stage("read"), data).output
    entries = units.entries_of(module)
    if entry is not None and entry not in map(units.entry_name, entries):
        raise _no_entry(entry, name, list(map(units.entry_name, entries)), module.location)
    if last.name == "read":
        kernels = [Kernel(units.entry_name(op), {}) for op in entries]
        return Artifact(units.module_text(module), suffix, kernels, diagnostics, dependencies)
    if not entries and stop != "ptx":
        raise CompileError.at(module.location, f"{name} has no entry to compile")

    kernels = []
    for unit_name, unit in units.entry_modules(module, entry):
        location = next(op.location for op in units.entries_of(unit))
        result = StageResult(unit)
        for row in pipeline.stages_between("tileaa", stop):
            result = run(row, result.output, location, unit_name)
        own = {pipeline.stage(stop).suffix: _bytes(result.output)}
        kernels.append(Kernel(unit_name, {**result.artifacts, **own}))
    if entries:
        stop_suffix = pipeline.stage(stop).suffix
        product = join([kernel.artifacts[stop_suffix] for kernel in kernels], stop_suffix)
    else:
        # A module of nothing is what front ends try compilers with.
        from tileiras.codegen import ptx

        product = ptx.empty_module(options["gpu-name"], module.location).encode()
    if last.name in ("cubin", "sass"):
        known: dict[str, Any] = {"beside": _launches(kernels)}
        if options["emit-remarks"]:
            known["entry_locations"] = {units.entry_name(op): op.location for op in entries}
        location = entries[0].location if entries else module.location
        if keep is not None and len(kernels) != 1:
            kept = keep(stem(name), LINKED, product)
        result = run(pipeline.stage("cubin"), product, location, **known)
        product = result.output
        for kernel in kernels:
            kernel.artifacts.update(result.artifacts)
        if last.name == "sass":
            product = run(last, product, location).output
    return Artifact(product, suffix, kernels, diagnostics, dependencies)


def _launches(kernels: Sequence[Kernel]) -> dict[str, bytes]:
    """NAME.json of all kernels as one document, where the compilation made theirs: what assembling them is told."""
    documents = [kernel.artifacts[".json"] for kernel in kernels if ".json" in kernel.artifacts]
    if not documents:
        return {}
    from tileiras.codegen import kernel_metadata

    return {".json": kernel_metadata.merge(documents)}


def _artifact_inputs(
    kind: str, data: bytes, name: str, gpu_name: str, entry: str | None
) -> list[tuple[str, Any, Any]]:  # fmt: skip
    """The modules of an artifact: for each its kernel's name where it has one kernel, what the stage that goes on is
    given, and where its first kernel stands.

    Raises CompileError for MLIR that does not verify (code 3), for PTX of another GPU and for an `entry` that is no
    module's only kernel (code 2).
    """
    found = []
    known: list[str] = []
    for piece in units.pieces(data, kind):
        resumed, location = _artifact_input(kind, piece, name, gpu_name)
        names = _kernel_names(kind, resumed)
        known += names
        if entry is None or names == [entry]:
            found.append((names[0] if len(names) == 1 else "", resumed, location))
    if not found:
        raise _no_entry(entry, name, known, location)
    return found


def _kernel_names(kind: str, module: Any) -> list[str]:
    """The kernels of an artifact's module, as far as it says which functions are kernels."""
    if kind.endswith(".mlir"):
        functions = [op for op in module.walk() if op.name in ("nv_tileaa.func", "llvm.func")]
        marks = ("kernel_spec", "nvvm.kernel")
        return [op.attributes["sym_name"].value for op in functions if any(mark in op.attributes for mark in marks)]
    if kind == ".ll":
        from tileiras.codegen import kernel_metadata

        return list(kernel_metadata.from_ir(module.decode()))
    return []


def _no_entry(entry: str | None, name: str, known: Sequence[str], location: Any) -> CompileError:
    message = f"no entry '{entry}' in {name}; it has: {', '.join(known) or 'none'}"
    return CompileError.at(location, message, ExitCode.CONFIGURATION)


def _artifact_input(kind: str, data: bytes, name: str, gpu_name: str) -> tuple[Any, Any]:
    """What the stage that goes on from one module is given, and where its first kernel stands.

    Raises CompileError for MLIR that does not verify (code 3), and for PTX of another GPU (code 2).
    """
    from tileiras.ir import UNKNOWN_LOC, FileLineColLoc

    if kind.endswith(".mlir"):
        from tileiras.ir import parse_module, verify

        module = parse_module(data.decode(), name)
        verify(module)
        return module, next((op.location for op in module.walk() if op.regions and op.parent is not None), UNKNOWN_LOC)
    import re

    target = re.search(rb"^\.target\s+(sm_\d+)", data, re.MULTILINE) if kind == ".ptx" else None
    if target is not None and target[1].decode() != gpu_name:
        raise CompileError.at(None, f"{name} is for {target[1].decode()}, not {gpu_name}", ExitCode.CONFIGURATION)
    head = re.search(rb"^(?:define\b.*\bptx_kernel\b|.*\.entry\b)", data, re.MULTILINE)
    if head is None:
        return data, FileLineColLoc(name, 1, 1) if kind == ".ll" else UNKNOWN_LOC
    return data, FileLineColLoc(name, data.count(b"\n", 0, head.start()) + 1, 1)


def _load_cubin() -> None:
    """Loads what assembles, while LLVM works."""
    from tileiras.codegen import ptxas
    from tileiras.stages import cubin  # noqa: F401

    ptxas.prepare()


def _bytes(output: Any) -> bytes:
    return output if isinstance(output, bytes) else units.module_text(output)


def join(products: list[bytes], suffix: str) -> bytes:
    """The products of several entries as one: one PTX module, else the texts one after the other."""
    if len(products) == 1:
        return products[0]
    if suffix == ".ptx":
        from tileiras.codegen.ptx_link import link

        return link([product.decode() for product in products]).encode()
    return units.joined(products, suffix)

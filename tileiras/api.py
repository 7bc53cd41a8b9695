"""The compiler as a library, in this process.

    artifact = tileiras.compile("kernel.mlir", gpu_name="sm_90")

Modules are passed from stage to stage in memory.  A build with one node per stage (`tileiras.build`) writes and reads
them, and produces the same bytes.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras import pipeline, stages, units
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Handler, offered, with_lines
from tileiras.files import stem
from tileiras.kernel_inputs import KernelInputs, kernel_inputs
from tileiras.options import CompileOptions, lookup, missing_gpu
from tileiras.stages import ByteStore, StageContext
from tileiras.steps import Keep, Steps, as_bytes

if TYPE_CHECKING:
    from typing import Unpack

    from tileiras.ir import Operation
    from tileiras.ir.pass_instrumentation import PassInstrumentation
    from tileiras.option_types import CompileKeywords


class Kernel:
    """One entry of an artifact: its name, and the outputs of the product's stage by suffix (`.ptx`, `.json`).

    For a cubin, the outputs of the last two stages are included.
    """

    __slots__ = ("name", "artifacts")

    def __init__(self, name: str, artifacts: dict[str, bytes]) -> None:
        self.name = name
        self.artifacts = artifacts

    @property
    def metadata(self) -> dict[str, Any] | None:
        """The launch description of this entry from `NAME.json`; None if compilation ended before PTX."""
        text = self.artifacts.get(".json")
        if text is None:
            return None
        import json

        return next((k for k in json.loads(text)["kernels"] if k["name"] == self.name), None)

    def __repr__(self) -> str:
        return f"Kernel({self.name!r}, {sorted(self.artifacts)})"


class Artifact:
    """The result of `compile`: `data` is the requested product, `kernels` its entries."""

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
        """Files and folders besides the source that a cuTile Python module read."""

    @property
    def text(self) -> str:
        """`data` as text; raises ValueError for products that are not text (bytecode, cubin)."""
        if self.suffix in (".tileirbc", ".cubin"):
            raise ValueError(f"{self!r} is no text")
        return self.data.decode()

    def _repr_html_(self) -> str:
        """HTML for notebooks: the kernels with their launch requirements."""
        rows = []
        for kernel in self.kernels:
            launch = kernel.metadata or {}
            block = "x".join(map(str, launch["block"])) if "block" in launch else ""
            rows.append((kernel.name, block, launch.get("shared_memory", ""), len(launch.get("parameters", ()))))
        head = ("kernel", "block", "shared memory, bytes", "parameters")
        return tileiras.html_table.table(f"{self.suffix.lstrip('.')}, {len(self.data)} bytes", rows, head)

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
    signature: object = None,
    **options: Unpack[CompileKeywords],
) -> Artifact:
    """Compile one source for one GPU.

    source: a path (`.mlir`, `.tileirbc`, cuTile Python `.py`), Tile IR text, bytecode, a cuda_tile module, which is
        not modified, or a cuTile Python function.  A str is text if it has a line break, or a brace and not the suffix
        of a source; otherwise it is a path.
    signature: the signature of a function: its parameters in order, as after the kernel in TILEIRAS_EXPORT
        (`("f32[?]", "f32[?]", 1024)`), the front end's KernelSignature, or a dictionary of these by kernels' names.
    emit: `bytecode`, `cuda_tile`, `tileaa`, `tileas`, `llvm`, `ptx`, `cubin` or `sass`.
    entry: compile only this entry.
    source_name: the name of the source in messages, instead of its path.
    handlers: called in order with each diagnostic; one that returns True accepts it: it is not passed on or collected.
    options: further options of `tileiras.options`, with underscores.

    Raises CompileError with located diagnostics and the driver's exit code.
    """
    values = checked_options(gpu_name, opt_level, options)
    with handled(handlers) as made:
        made.append(compile_any(compile_with, source, signature, values, emit, entry, source_name))
    return made[0]


def compile_any(
    compile_with: Callable[..., Artifact], source: Any, signature: object, options: CompileOptions, emit: str,
    entry: str | None, source_name: str | None,
) -> Artifact:  # fmt: skip
    """`compile_with` for any source that `compile` accepts.  A function is exported each time, as it may have changed.

    Raises TypeError for a function without a signature, and for a signature with any other source.
    """
    if signature is None and not callable(source):
        return compile_with(source, options, emit, entry=entry, source_name=source_name)
    if signature is None or not callable(source):
        raise TypeError(
            "signature= goes with a cuTile Python function, and a function with signature=: "
            'compile(kernel, signature=("f32[?]", 1024), ...)'
        )
    exported = stages.export.function.export(source, signature, pipeline.stage("export").select(options), source_name)
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
    """Pass the diagnostics of the block to handlers: those of artifacts added to the list, or of a CompileError."""
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
    """Check the options of `compile`; raises CompileError (code 2)."""
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
        name = name or "<input>"
        return units.Source(tileiras.ir.encoding.encoded(source, name), name, None, units.TEXT)
    return units.Source.read(source, name)


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Disable the cyclic GC during a compilation, which makes little garbage; traversing the host program's live
    objects would take time."""
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
    """`compile` with checked options; `store` caches data that stages derive from their tools.

    `keep` is called with each output of a stage at once: (the source's stem or the entry's name, suffix, bytes); it may
    return the path of its copy.  `instrumentation` observes the passes of all stages; `times` receives the seconds of
    stages without passes.  `meanwhile` is called once while a stage waits for another process, if one does.
    """
    last, suffix = pipeline.emit_stage(emit)
    given: Operation | bytes
    if isinstance(source, units.Source):
        opened, given = source, source.data
    elif hasattr(source, "clone"):
        opened, given = units.Source(b"", source_name or "<module>", None, units.MODULE), source.clone({})
    else:
        opened = open_source(source, source_name)
        given = opened.data
    plan = pipeline.plan(opened.kind, last)
    if opened.kind in units.ARTIFACTS and plan.is_empty:
        raise CompileError.at(None, f"{opened.name} is past what emit={emit} asks for", ExitCode.CONFIGURATION)
    if opened.kind in units.DECIDED:
        pipeline.require_certificate(options, opened.name)
    pipeline.start_ahead(last)
    steps = Steps(plan, opened, options, store, keep, instrumentation, times, meanwhile)
    with contextlib.closing(steps):
        given = steps.on_file(given)
        kernels: list[Kernel] = []
        if plan.is_bytecode:
            product = given if isinstance(given, bytes) else _bytecode(given, options["bytecode-version"])
        else:
            inputs = kernel_inputs(opened, given, options["gpu-name"], entry)
            if plan.ends_with_file:
                kernels = [Kernel(name, {}) for name in inputs.names]
                product = as_bytes(given)
            else:
                kernels, product = _kernels_and_product(steps, inputs)
    return Artifact(product, suffix, kernels, steps.diagnostics, steps.dependencies)


def _kernels_and_product(steps: Steps, inputs: KernelInputs) -> tuple[list[Kernel], bytes]:
    """Run the per-kernel steps on each kernel, then the steps on their linked product."""
    plan, opened = steps.plan, steps.source
    kernels, products = [], []
    for unit in inputs.units():
        data, artifacts = steps.on_kernel(unit)
        products.append(data)
        kernels.append(Kernel(unit.kernel or stem(opened.name), artifacts))
    product = join(products, plan.kernel[-1].suffix if plan.kernel else opened.kind) if products else None
    if product is None:
        product = pipeline.empty_product(plan.kernel[-1], steps.options["gpu-name"], inputs.location)
        if product is None:
            raise CompileError.at(inputs.location, f"{opened.name} has no entry to compile")
    if plan.linked:
        product, artifacts = steps.on_all(product, inputs, [kernel.artifacts for kernel in kernels])
        for kernel in kernels:
            kernel.artifacts.update(artifacts)
        if len(kernels) == 1 and opened.kind in units.ARTIFACTS:
            kernels[0].artifacts[plan.product.suffix] = product
    return kernels, product


def _bytecode(module: Operation, version: str | None) -> bytes:
    from tileiras import bytecode

    return bytecode.write_module(module, bytecode.CURRENT if version is None else bytecode.Version.parse(version))


def join(products: list[bytes], suffix: str) -> bytes:
    """Join the products of several entries: PTX is linked to one module, other texts are concatenated."""
    if len(products) == 1:
        return products[0]
    if suffix == ".ptx":
        return tileiras.codegen.ptx.link.link([product.decode() for product in products]).encode()
    return units.joined(products, suffix)

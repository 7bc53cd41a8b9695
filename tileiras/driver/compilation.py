"""The compilation of a source in this process: the stages of a plan on its kernels, and their products."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras import pipeline
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode
from tileiras.driver.kernel_inputs import KernelInputs, kernel_inputs
from tileiras.driver.steps import Keep, Steps, as_bytes
from tileiras.options import CompileOptions
from tileiras.stages import ByteStore, units
from tileiras.support.files import stem

if TYPE_CHECKING:
    from tileiras.ir import Operation
    from tileiras.ir.pass_instrumentation import PassInstrumentation


class Kernel:
    """One entry of an artifact: its name, and the outputs of the product's stage by suffix (`.ptx`, `.json`).

    For a cubin, the outputs of the last two stages are included.
    """

    __slots__ = ("name", "artifacts", "_metadata")

    def __init__(self, name: str, artifacts: dict[str, bytes]) -> None:
        self.name = name
        self.artifacts = artifacts
        self._metadata: dict[str, Any] | None = None

    @property
    def metadata(self) -> dict[str, Any] | None:
        """The launch description of this entry from `NAME.json`; None if compilation ended before PTX."""
        text = self.artifacts.get(".json")
        if text is not None and self._metadata is None:
            import json

            self._metadata = next((k for k in json.loads(text)["kernels"] if k["name"] == self.name), None)
        return self._metadata

    def __repr__(self) -> str:
        return f"Kernel({self.name!r}, {sorted(self.artifacts)})"


class Artifact:
    """The result of a compilation: `data` is the requested product, `kernels` its entries."""

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
        """`data` as text; raises ValueError for products that are not text (bytecode, cubin, fat binary)."""
        if self.suffix in (".tileirbc", ".cubin", ".fatbin"):
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
        return tileiras.support.html_table.table(f"{self.suffix.lstrip('.')}, {len(self.data)} bytes", rows, head)

    def __repr__(self) -> str:
        return f"<{self.suffix} of {', '.join(kernel.name for kernel in self.kernels)}: {len(self.data)} bytes>"


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
) -> Artifact:
    """`tileiras.api.compile` with checked options; `store` caches data that stages derive from their tools.

    `keep` is called with each output of a stage at once: (the source's stem or the entry's name, suffix, bytes); it may
    return the path of its copy.  `instrumentation` observes the passes of all stages; `times` receives the seconds of
    stages without passes.
    """
    last, suffix = pipeline.emit_stage(emit, options["gpu-name"])
    result: Operation | bytes
    if isinstance(source, units.Source):
        opened, result = source, source.data
    elif hasattr(source, "clone"):
        opened, result = units.Source(b"", source_name or "<module>", None, units.MODULE), source.clone({})
    else:
        opened = open_source(source, source_name)
        result = opened.data
    plan = pipeline.plan(opened.kind, last)
    if opened.kind in units.ARTIFACTS and plan.is_empty:
        raise CompileError.at(None, f"{opened.name} is past the stage of emit={emit}", ExitCode.CONFIGURATION)
    if opened.kind in units.DECIDED:
        pipeline.require_certificate(options, opened.name)
    pipeline.start_ahead(last)
    steps = Steps(plan, opened, options, store, keep, instrumentation, times)
    with contextlib.closing(steps):
        result = steps.on_file(result)
        kernels: list[Kernel] = []
        if plan.is_bytecode:
            product = result if isinstance(result, bytes) else _bytecode(result, options["bytecode-version"])
        else:
            inputs = kernel_inputs(opened, result, options["gpu-name"], entry)
            if plan.ends_with_file:
                kernels = [Kernel(name, {}) for name in inputs.names]
                product = as_bytes(result)
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
    """Join the products of several entries: PTX is linked to one module, objects are members of an archive, other
    texts are concatenated."""
    if len(products) == 1:
        return products[0]
    if suffix == ".cpu.o":
        return tileiras.codegen.archive.archive(products)
    if suffix == ".ptx":
        return tileiras.codegen.ptx.link.link([product.decode() for product in products]).encode()
    return units.joined(products, suffix)

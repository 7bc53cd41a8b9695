"""The steps of one compilation in one process: runs the stages of a plan, and does what is due while they wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tileiras import pipeline, units
from tileiras.diagnostics import Diagnostic
from tileiras.files import stem
from tileiras.kernel_inputs import KernelInput, KernelInputs
from tileiras.options import CompileOptions
from tileiras.stages import ByteStore, StageContext, StageResult

if TYPE_CHECKING:
    from tileiras.codegen.child_process import WaitingProgram
    from tileiras.ir import Operation
    from tileiras.ir.pass_instrumentation import PassInstrumentation

LINKED = ".linked.ptx"
"""The suffix of the PTX of several kernels that ptxas is given as one module."""

METADATA = ".json"

EDITABLE = (".tileas.mlir", ".llvm.mlir", ".ll")
"""Sources whose certificate of order may be stale: IR that may have been edited after the decisions."""

Keep = Callable[[str, str, bytes], str | None]


class Steps:
    """Runs the stages of `plan` on one source; the parameters are those of `api.compile_with`.

    `diagnostics` and `dependencies` are those of all stages that have run, in order.
    """

    def __init__(
        self,
        plan: pipeline.Plan,
        source: units.Source,
        options: CompileOptions,
        store: ByteStore | None = None,
        keep: Keep | None = None,
        instrumentation: Sequence[PassInstrumentation] = (),
        times: list[tuple[str, float]] | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        self.plan = plan
        self.source = source
        self.options = options
        self.diagnostics: list[Diagnostic] = []
        self.dependencies: list[str] = []
        self._store = store
        self._keep = keep
        self._instrumentation = instrumentation
        self._times = times
        self._kept_ptx = source.name if source.kind == ".ptx" and source.path is not None else None
        self._checks: list[Callable[[], None]] = []
        self._starts = [row for row in plan.linked if row.starts]
        self._program: WaitingProgram | None = None
        self._waits = plan.loads()
        if meanwhile is not None:
            self._waits.append(meanwhile)

    def close(self) -> None:
        """Ends what was started for a step that did not come."""
        if self._program is not None:
            self._program.close()

    def on_file(self, given: Operation | bytes) -> Operation | bytes:
        """What the steps for the file as a whole make of the source."""
        for row in self.plan.file:
            given = self._run(row, given).output
        return given

    def on_kernel(self, unit: KernelInput) -> tuple[bytes, dict[str, bytes]]:
        """What the steps for each kernel make of one, and by suffix what the last of them wrote."""
        result = StageResult(unit.given)
        for row in self.plan.kernel:
            result = self._run(row, result.output, unit.location, unit.kept_as)
        data = as_bytes(result.output)
        return data, {**result.artifacts, self.plan.kernel[-1].suffix: data} if self.plan.kernel else {}

    def on_all(
        self, linked: bytes, inputs: KernelInputs, kernels: Sequence[dict[str, bytes]]
    ) -> tuple[bytes, dict[str, bytes]]:
        """What the steps for all kernels together make of them, linked, and what they write besides.

        `kernels`: by suffix, what the steps for each kernel wrote.
        """
        if self._keep is not None and len(kernels) != 1:
            self._kept_ptx = self._keep(stem(self.source.name), LINKED, linked)
        data, written = linked, {}
        for row in self.plan.linked:
            known: dict[str, Any] = {"beside": _merged(kernels)} if row.reads_beside else {}
            if self.options["emit-remarks"]:
                known["entry_locations"] = inputs.entry_locations
            result = self._run(row, data, inputs.location, **known)
            data = as_bytes(result.output)
            written.update(result.artifacts)
        return data, written

    def _run(
        self, row: pipeline.Stage, given: Operation | bytes, location: Any = None, kept_as: str = "", **known: Any
    ) -> StageResult:
        """One step.  `kept_as` is the stem under which artifacts are kept, where it is not the source's; `known` is
        for the context."""
        context = self._context(row, location, **known)
        started = time.perf_counter()
        due = len(self._checks)
        result = pipeline.run_stage(row, given, self.options, context)
        if METADATA in row.side_suffixes and self.source.kind in EDITABLE:
            from tileiras.codegen import kernel_metadata

            described = kernel_metadata.without_order(result.artifacts[METADATA])
            result = StageResult(result.output, {**result.artifacts, METADATA: described})
        if due:
            self._check()  # unless that was done while the stage waited
        if self._times is not None and not pipeline.takes_module(row):  # passes have times of their own
            self._times.append((f"{row.name}: {row.doc}", time.perf_counter() - started))
        self.diagnostics.extend(context.engine.diagnostics)
        self.dependencies.extend(context.dependencies)
        if self._keep is not None:
            for suffix, data in {row.suffix: as_bytes(result.output), **result.artifacts}.items():
                place = self._keep(kept_as or stem(self.source.name), suffix, data)
                if suffix == ".ptx":
                    self._kept_ptx = place
        return result

    def _context(self, row: pipeline.Stage, location: Any, **known: Any) -> StageContext:
        context = StageContext(
            source_name=self.source.name,
            source_path=self.source.path,
            location=location,
            store=self._store,
            instrumentation=self._instrumentation,
            **known,
        )
        context.meanwhile = self._wait
        context.kept_ptx = self._kept_ptx
        if row.starts:
            self._starts.clear()
            context.program = self._program
        if self.plan.waits_after(row):
            context.postpone = self._checks.append
        return context

    def _check(self) -> None:
        while self._checks:
            self._checks.pop()()

    def _wait(self) -> None:
        if self._starts:
            self._program = pipeline.start_program(self._starts.pop(), self.options)
        self._check()
        if self._waits:
            self._waits.pop(0)()


def as_bytes(output: Operation | bytes) -> bytes:
    """What a stage made, as an artifact."""
    return output if isinstance(output, bytes) else units.module_text(output)


def _merged(kernels: Sequence[dict[str, bytes]]) -> dict[str, bytes]:
    """NAME.json of all kernels as one document, where the compilation made theirs: what assembling them is told."""
    documents = [artifacts[".json"] for artifacts in kernels if ".json" in artifacts]
    if not documents:
        return {}
    from tileiras.codegen import kernel_metadata

    return {".json": kernel_metadata.merge(documents)}

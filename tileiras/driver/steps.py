"""Runs the stages of a plan in one process, and background work while a stage waits for another process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras import pipeline
from tileiras.diagnostics import Diagnostic
from tileiras.driver.kernel_inputs import KernelInput, KernelInputs
from tileiras.options import CompileOptions
from tileiras.stages import ByteStore, StageContext, StageResult, units
from tileiras.support.files import stem

if TYPE_CHECKING:
    from tileiras.ir import Operation
    from tileiras.ir.pass_instrumentation import PassInstrumentation
    from tileiras.processes.programs import WaitingProgram

LINKED = ".linked.ptx"
"""Suffix of the PTX of several kernels, linked to one module for ptxas."""

METADATA = ".json"

Keep = Callable[[str, str, bytes], str | None]


class Steps:
    """Runs the stages of `plan` on one source; the parameters are those of `compilation.compile_with`.

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

    def close(self) -> None:
        """Close a program that was started for a step that did not run."""
        if self._program is not None:
            self._program.close()

    def on_file(self, value: Operation | bytes) -> Operation | bytes:
        """Run the per-file steps on the source."""
        for row in self.plan.file:
            value = self._run(row, value).output
        return value

    def on_kernel(self, unit: KernelInput) -> tuple[bytes, dict[str, bytes]]:
        """Run the per-kernel steps on one kernel; the product, and the artifacts of the last step by suffix."""
        result = StageResult(unit.input)
        for row in self.plan.kernel:
            result = self._run(row, result.output, unit.location, unit.kept_as)
        data = as_bytes(result.output)
        return data, {**result.artifacts, self.plan.kernel[-1].suffix: data} if self.plan.kernel else {}

    def on_all(
        self, linked: bytes, inputs: KernelInputs, kernels: Sequence[dict[str, bytes]]
    ) -> tuple[bytes, dict[str, bytes]]:
        """Run the steps on the linked product of all kernels; the result, and the artifacts of these steps.

        `kernels`: the artifacts of each kernel by suffix.
        """
        if self._keep is not None and len(kernels) != 1:
            self._kept_ptx = self._keep(stem(self.source.name), LINKED, linked)
        data, artifacts = linked, {}
        for row in self.plan.linked:
            context: dict[str, Any] = {"beside": _merge(kernels)} if row.reads_beside else {}
            if self.options["emit-remarks"]:
                context["entry_locations"] = inputs.entry_locations
            result = self._run(row, data, inputs.location, **context)
            data = as_bytes(result.output)
            artifacts.update(result.artifacts)
        return data, artifacts

    def _run(
        self, row: pipeline.Stage, value: Operation | bytes, location: Any = None, kept_as: str = "", **fields: Any
    ) -> StageResult:
        """Run one step.

        `kept_as` is the stem of the kept artifacts, by default the source's; `fields` are fields of the context.
        """
        context = self._context(row, location, **fields)
        begin = time.perf_counter()
        due = len(self._checks)
        result = pipeline.run_stage(row, value, self.options, context)
        if METADATA in row.side_suffixes and self.source.kind in units.DECIDED:
            import json

            from tileiras.codegen import kernel_metadata

            described = kernel_metadata.without_order(json.loads(result.artifacts[METADATA]))
            artifacts = {**result.artifacts, METADATA: kernel_metadata.to_json(described).encode()}
            result = StageResult(result.output, artifacts)
        if due:
            self._check()  # no effect if it ran while the stage waited
        if self._times is not None and not pipeline.takes_module(row):  # passes are timed individually
            self._times.append((f"{row.name}: {row.doc}", time.perf_counter() - begin))
        self.diagnostics.extend(context.engine.diagnostics)
        self.dependencies.extend(context.dependencies)
        if self._keep is not None:
            for suffix, data in {row.suffix: as_bytes(result.output), **result.artifacts}.items():
                place = self._keep(kept_as or stem(self.source.name), suffix, data)
                if suffix == ".ptx":
                    self._kept_ptx = place
        return result

    def _context(self, row: pipeline.Stage, location: Any, **fields: Any) -> StageContext:
        context = StageContext(
            source_name=self.source.name,
            source_path=self.source.path,
            location=location,
            store=self._store,
            instrumentation=self._instrumentation,
            **fields,
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
    """The output of a stage as an artifact."""
    return output if isinstance(output, bytes) else units.module_text(output)


def _merge(kernels: Sequence[dict[str, bytes]]) -> dict[str, bytes]:
    """The NAME.json documents of all kernels merged, if they exist: an input of the stage `cubin`."""
    documents = [artifacts[".json"] for artifacts in kernels if ".json" in artifacts]
    if not documents:
        return {}
    return {".json": tileiras.codegen.kernel_metadata.merge(documents)}

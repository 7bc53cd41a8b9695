"""Remarks on the resources of whole kernels: registers, spills, shared memory, occupancy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tileiras.codegen.kernel_resources import KernelResources
from tileiras.diagnostics import DiagnosticEngine, Locatable
from tileiras.remarks import Remark
from tileiras.targets.sm import REGISTERS_PER_THREAD


def remark_on_kernels(
    kernels: Iterable[KernelResources],
    engine: DiagnosticEngine,
    locations: Mapping[str, Locatable],
    location: Locatable | None = None,
) -> None:
    """One remark for the resources of each entry, one for its spills, if any, one for its occupancy, if known.

    `locations` has the locations of entries; `location` is for the others.
    """
    for kernel in kernels:
        used = kernel.used
        place = locations.get(kernel.name, location)

        def say(kind: str, name: str, *values: object, reason: str = "", **arguments: object) -> None:
            named = {key.replace("_", " "): value for key, value in arguments.items()}
            engine.emit(
                Remark(kind, name, place, *values, arguments=named, reason=reason, function=kernel.name)  # noqa: B023
            )

        shared = kernel.shared
        say(
            "analysis", "RemarkKernelResources", used.registers,
            f"at least {used.shared}" if shared is None else shared,
            Warps=kernel.warps, CTAs=kernel.ctas, Barriers=used.barriers, Stack=f"{used.stack} bytes",
        )  # fmt: skip
        if used.spill_stores or used.spill_loads:
            reason = (
                f"a thread has at most {REGISTERS_PER_THREAD} registers"
                if used.registers >= REGISTERS_PER_THREAD
                else f"{kernel.threads} threads a CTA leave {used.registers} registers to each"
            )
            say("missed", "RemarkKernelSpills", used.spill_stores, used.spill_loads, reason=reason)
        if kernel.occupancy is not None:
            reason = f"limited by {kernel.occupancy.limit}"
            say("analysis", "RemarkKernelOccupancy", kernel.resident_warps, kernel.most_warps,
                CTAs=kernel.occupancy.ctas, reason=reason)  # fmt: skip

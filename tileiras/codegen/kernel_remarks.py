"""Remarks on the resources of whole kernels: registers, spills, shared memory, occupancy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tileiras.codegen.kernel_resources import KernelResources
from tileiras.diagnostics import DiagnosticEngine, Locatable
from tileiras.diagnostics.remarks import Remark
from tileiras.reasons import Reason
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
        resources = kernel.usage
        place = locations.get(kernel.name, location)

        def say(reason: Reason, **arguments: object) -> None:
            engine.emit(Remark(reason, place, arguments=arguments, function=kernel.name))  # noqa: B023

        registers = resources.registers
        say(
            Reason("kernel.resources-at-least", registers=registers, shared=resources.shared) if kernel.shared is None
            else Reason("kernel.resources", registers=registers, shared=kernel.shared),
            Warps=kernel.warps, CTAs=kernel.ctas, Barriers=resources.barriers, Stack=f"{resources.stack} bytes",
        )  # fmt: skip
        if resources.spill_stores or resources.spill_loads:
            cause = (
                Reason("kernel.most-registers", most=REGISTERS_PER_THREAD)
                if registers >= REGISTERS_PER_THREAD
                else Reason("kernel.registers-by-threads", threads=kernel.threads, registers=registers)
            )
            say(Reason("kernel.spills", stored=resources.spill_stores, loaded=resources.spill_loads, cause=cause))
        if kernel.occupancy is not None:
            cause = kernel.occupancy.reason
            warps, most = kernel.resident_warps, kernel.most_warps
            assert warps is not None, "known with the occupancy"
            say(Reason("kernel.occupancy", warps=warps, most=most, cause=cause), CTAs=kernel.occupancy.ctas)

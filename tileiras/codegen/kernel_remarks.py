"""Remarks on whole kernels, from what ptxas reports: registers, spills, shared memory, occupancy."""

from __future__ import annotations

from collections.abc import Mapping

from tileiras.codegen.ptx import PtxModule
from tileiras.codegen.ptxas import Resources
from tileiras.diagnostics import DiagnosticEngine, Locatable
from tileiras.remarks import Remark
from tileiras.targets.sm import REGISTERS_PER_THREAD, TARGETS, WARP_SIZE, occupancy


def remark_on_kernels(
    module: PtxModule,
    resources: Mapping[str, Resources],
    launches: Mapping[str, int],
    engine: DiagnosticEngine,
    locations: Mapping[str, Locatable],
    location: Locatable | None = None,
) -> None:
    """One remark for what each entry takes, one for spills if it has any, one for its occupancy.

    `launches`: bytes of shared memory that the launch adds to what the module declares; entries that are not in it
    are those of which that is not known.  `locations`: where entries stand, `location` for the others.
    """
    for entry in module.entries:
        used = resources.get(entry.name)
        if used is None:
            continue
        place = locations.get(entry.name, location)
        x, y, z = entry.dimensions("reqntid") or entry.dimensions("maxntid") or (1, 1, 1)
        cluster = entry.dimensions("reqnctapercluster") or (1, 1, 1)
        threads = x * y * z
        dynamic = launches.get(entry.name)
        shared = used.shared + (dynamic or 0)

        def say(kind: str, name: str, *values: object, reason: str = "", **arguments: object) -> None:
            named = {key.replace("_", " "): value for key, value in arguments.items()}
            engine.emit(
                Remark(kind, name, place, *values, arguments=named, reason=reason, function=entry.name)  # noqa: B023
            )

        say(
            "analysis", "RemarkKernelResources", used.registers, shared,
            Warps=-(-threads // WARP_SIZE), CTAs=cluster[0] * cluster[1] * cluster[2], Barriers=used.barriers,
            Stack=f"{used.stack} bytes",
        )  # fmt: skip
        if used.spill_stores or used.spill_loads:
            reason = (
                f"a thread has at most {REGISTERS_PER_THREAD} registers"
                if used.registers >= REGISTERS_PER_THREAD
                else f"{threads} threads a CTA leave {used.registers} registers to each"
            )
            say("missed", "RemarkKernelSpills", used.spill_stores, used.spill_loads, reason=reason)
        target = TARGETS.get(module.target)
        if target is not None and dynamic is not None:
            found = occupancy(target, threads, used.registers, shared)
            warps = found.ctas * -(-threads // WARP_SIZE)
            most = target.threads // WARP_SIZE
            say("analysis", "RemarkKernelOccupancy", warps, most, CTAs=found.ctas, reason=f"limited by {found.limit}")

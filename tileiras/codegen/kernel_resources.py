"""Resources of an SM that kernels use: ptxas's report and the shared memory that launches add; printed in
NAME.resources.json and in remarks on kernels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tileiras.codegen.ptx import PtxModule
from tileiras.codegen.ptxas import Resources
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.sm import TARGETS, WARP_SIZE, Occupancy, occupancy

FORMAT = 2

DYNAMIC_SHARED = re.compile(r"\.extern\s+\.shared\b")
"""Matches the PTX of modules with an array whose size the launch decides."""


class KernelResources(NamedTuple):
    """Resources of one entry: `used` is ptxas's report; counts are per CTA unless stated otherwise."""

    name: str
    usage: Resources
    threads: int
    ctas: int
    """CTAs of a cluster."""
    dynamic_shared: int | None
    """Bytes of shared memory that the launch adds; None if unknown."""
    occupancy: Occupancy | None
    """None if shared memory or the target is unknown."""
    most_warps: int
    """Warps that an SM holds; 0 for an unknown target."""

    @property
    def shared(self) -> int | None:
        """Bytes of shared memory, the launch's included."""
        return None if self.dynamic_shared is None else self.usage.shared + self.dynamic_shared

    @property
    def warps(self) -> int:
        return -(-self.threads // WARP_SIZE)

    @property
    def resident_warps(self) -> int | None:
        """Warps of the kernel that an SM holds at once."""
        return None if self.occupancy is None else self.occupancy.ctas * self.warps


def kernel_resources(
    module: PtxModule, text: str, reported: Mapping[str, Resources], launches: Mapping[str, int]
) -> list[KernelResources]:
    """The entries of a module in its order, as far as ptxas has reported on them.

    `text` is the module's PTX; `launches` maps entries to the bytes of shared memory that launches add to those that
    the module declares; it is ignored for a module without an array that the launch sizes.
    """
    static = DYNAMIC_SHARED.search(text) is None
    result = []
    for entry in module.entries:
        resources = reported.get(entry.name)
        if resources is None:
            continue
        x, y, z = entry.dimensions("reqntid") or entry.dimensions("maxntid") or (1, 1, 1)
        cluster = entry.dimensions("reqnctapercluster") or (1, 1, 1)
        dynamic = 0 if static else launches.get(entry.name)
        target = TARGETS.get(module.target)
        resident = None
        if target is not None and dynamic is not None:
            resident = occupancy(target, x * y * z, resources.registers, resources.shared + dynamic)
        most = target.threads // WARP_SIZE if target is not None else 0
        ctas = cluster[0] * cluster[1] * cluster[2]
        result.append(KernelResources(entry.name, resources, x * y * z, ctas, dynamic, resident, most))
    return result


def resources_json(kernels: Sequence[KernelResources]) -> str:
    """The text of NAME.resources.json: bytes unless stated otherwise, null for unknown values."""
    import json

    document: dict[str, Any] = {}
    for kernel in kernels:
        row: dict[str, Any] = kernel.usage._asdict()
        row.update(shared=kernel.shared, dynamic_shared=kernel.dynamic_shared, occupancy=None)
        if kernel.occupancy is not None:
            row["occupancy"] = {
                "ctas": kernel.occupancy.ctas,
                "warps": kernel.resident_warps,
                "most_warps": kernel.most_warps,
                "limit": kernel.occupancy.limit,
            }
        document[kernel.name] = row
    return json.dumps({"format": FORMAT, "kernels": document}, indent=2) + "\n"

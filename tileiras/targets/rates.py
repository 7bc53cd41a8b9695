"""GPUs as products: throughput and latency of the units of an SM, and bandwidth of the memories.

`gpu("H200")` joins a row of products (multiprocessors, clock, memory) with the architecture of its chip (throughput of
one SM per cycle), from `targets.rate_tables`, where each number has a source.  Rates are peaks at the clock of the
row; a path that measurements show to stay below the peak has its own rate (`mma_sync`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tileiras.diagnostics import CompileError, ExitCode, Locatable
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.measured_rates import MEASURED
from tileiras.targets.rate_tables import ARCHITECTURES, PRODUCTS, Figure
from tileiras.targets.requirements import split
from tileiras.targets.sm import REGISTERS_PER_SM, TARGETS, Target

SUB_CORES = 4
"""Of an SM, each with a scheduler that issues one warp instruction a cycle, on every architecture of the table."""

SHARED_PIPES = frozenset({"lsu", "shuffle"})
"""Pipes that the sub-cores of an SM share; each sub-core has its own of the others, with a fourth of the lanes."""


class Gpu(NamedTuple):
    """A product.  Cycles are of the SM's clock."""

    name: str
    target: Target
    """Limits of an SM (shared memory, threads, CTAs, clusters)."""
    sms: int
    clock_mhz: float
    """The clock that the maker's peak figures are for."""
    sustained_mhz: float
    """The clock under load: boards boost beyond the peak's, or stay below it.  At a power limit it is lower."""
    issue: float
    """Warp instructions that an SM issues in a cycle."""
    lanes: dict[str, float]
    """Threads that an SM serves in a cycle by pipe: `fma`, `imad`, `half`, `alu`, `mufu`, `ex2`, `conversion`, `fp64`,
    `uniform`, `lsu`, `shuffle`, `branch`.  A warp takes 32 * SUB_CORES / lanes cycles of its sub-core's pipe, or
    32 / lanes of the SM's for `SHARED_PIPES`."""
    tensor: dict[str, float]
    """Dense FLOP (or operations) an SM and cycle by operands, through the widest path that the chip has: `f16` (and
    bf16, accumulated in f32), `f16_f16` (in f16), `tf32`, `f8`, `i8`, `f4`, `f64`.  Unsupported operands are absent."""
    mma_sync: dict[str, float]
    """The same by mma.sync, which does not reach the peak where there is a wider path."""
    bytes_per_cycle: dict[str, float]
    """Of an SM: `shared` (the port of shared memory), `l1` (global loads that hit), `l2` (all that one SM
    takes from L2), `tma` (the engine's writes),
    `tensor_memory` (of the chips that have it)."""
    latency: dict[str, float]
    """Cycles: `shared`, `l1`, `l2`, `dram` (a load until its result), `mufu`, `conversion`, `fp64`, `shuffle`,
    `mma_sync`, `wgmma` and `tcgen05` (beyond the tensor core's own time), `tcgen05_issue`, `tcgen05_commit`,
    `tcgen05_cp`, `tcgen05_ld`, `tma` (beyond a load of the same level), `mbarrier`, `barrier`, `cluster_barrier`,
    `fence_proxy`, `membar`, `update` (of an address by an atomic operation, before the next one), `dsmem`, `branch`."""
    l2_bytes: int
    l2_bytes_per_cycle: float
    """Read bandwidth of L2 for all SMs together, per cycle."""
    dram_bytes_per_second: float
    """The peak."""
    dram_reach: float
    """The share of the peak that kernels reach that only read and write DRAM."""
    launch_microseconds: float
    """Time from the start of a kernel on an idle GPU to its first instruction, plus the time that its end takes."""
    tensor_reach: float
    """The share of its tensor cores' peak that the whole chip sustains: clocks are reduced when it takes more power."""
    power: dict[str, float]
    """Dynamic power at the board's limit, relative to that of a launch that runs at `reference_mhz`: of an SM (`sm`),
    of an f16 operation of tensor cores per cycle (`tensor`) and of a byte of L2 per cycle (`l2`).  Empty if unknown."""
    sources: dict[str, Figure]
    """Each number above with its source, by its place: `sms`, `lanes.fma`, `latency.l2`."""

    @property
    def registers(self) -> int:
        """32-bit registers of an SM."""
        return REGISTERS_PER_SM

    @property
    def dram_bytes_per_cycle(self) -> float:
        """DRAM bandwidth for all SMs together, per cycle of the SMs."""
        return self.dram_bytes_per_second * self.dram_reach / (self.sustained_mhz * 1e6)

    def runs(self, target: str) -> bool:
        """Whether code assembled for a target such as `sm_90a` runs here: binaries go to chips of the same major number
        that are no older, those with a suffix to the chip itself, or its family (CUDA C++ Programming Guide, "Binary
        Compatibility")."""
        code, suffix = split(target)
        own = self.target.number
        if suffix == "a":
            return code == own
        return code // 10 == own // 10 and code <= own


def names() -> list[str]:
    """The GPUs of the table."""
    return list(PRODUCTS)


def gpu(name: str, location: Locatable | None = None) -> Gpu:
    """The GPU of a name, in any case, with or without blanks and dashes: `H200`, `rtx-pro-6000`.

    Raises CompileError (code 2) that lists the known names.
    """
    row = _BY_KEY.get(_key(name))
    if row is None:
        products = ", ".join(PRODUCTS)
        raise CompileError.at(location, f"unknown GPU '{name}': known are {products}", ExitCode.CONFIGURATION)
    return joined(row, MEASURED.get(row, {}))


def joined(row: str, measured: Mapping[str, Figure]) -> Gpu:
    """The GPU of a row of the products, with figures that were measured on it, by their places in `Gpu.sources`."""
    product = PRODUCTS[row]
    architecture = ARCHITECTURES[product.chip]
    sources: dict[str, Figure] = {}
    tables: dict[str, dict[str, float]] = {}
    for field in ("lanes", "tensor", "mma_sync", "bytes_per_cycle", "latency", "power"):
        own = product.power if field == "power" else getattr(architecture, field)
        figures = {**own, **product.instead.get(field, {})}
        figures.update((key, measured[f"{field}.{key}"]) for key in figures if f"{field}.{key}" in measured)
        sources.update((f"{field}.{key}", figure) for key, figure in figures.items())
        tables[field] = {key: figure.value for key, figure in figures.items()}
    plain: dict[str, Figure] = {
        "sms": product.sms, "clock_mhz": product.clock_mhz, "sustained_mhz": product.sustained_mhz,
        "issue": architecture.issue, "l2_bytes": product.l2_bytes,
        "l2_bytes_per_cycle": product.l2_bytes_per_cycle, "dram_bytes_per_second": product.dram_bytes_per_second,
        "dram_reach": product.dram_reach, "launch_microseconds": product.launch_microseconds,
        "tensor_reach": product.tensor_reach,
    }  # fmt: skip
    plain.update((place, figure) for place, figure in measured.items() if place in plain)
    sources.update(plain)
    return Gpu(
        name=row,
        target=TARGETS[product.chip],
        sms=int(plain["sms"].value),
        clock_mhz=plain["clock_mhz"].value,
        sustained_mhz=plain["sustained_mhz"].value,
        issue=plain["issue"].value,
        l2_bytes=int(plain["l2_bytes"].value),
        l2_bytes_per_cycle=plain["l2_bytes_per_cycle"].value,
        dram_bytes_per_second=plain["dram_bytes_per_second"].value,
        dram_reach=plain["dram_reach"].value,
        launch_microseconds=plain["launch_microseconds"].value,
        tensor_reach=plain["tensor_reach"].value,
        sources=sources,
        **tables,
    )


def of_device(device: str) -> Gpu | None:
    """The GPU with this name in the driver (`NVIDIA H100 80GB HBM3`), None if it is not in the table."""
    result = [name for name in PRODUCTS if re.search(_DEVICE.format(re.escape(name)), device, re.IGNORECASE)]
    return gpu(max(result, key=len)) if result else None


_DEVICE = r"\b{}\b(?! *(?:Ti|D|SUPER|Laptop)\b)"
"""A name within a device name; the suffixes that denote another product are excluded."""


def _key(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


_BY_KEY = {_key(name): name for name in PRODUCTS}

"""The units of an SM of a target that execute the operations of a loop: one table per target, from `targets.rates`.

Amounts are per SM and cycle.  A target is a family of chips whose products differ; the product that represents it is
that of the chip whose number is the nearest at or below the target's, with the same major number where there is one.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from enum import Enum

from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Target, rates


class Unit(Enum):
    """The units that operations compete for.  Values are their names in diagnostics and reports."""

    ISSUE = "issue"
    """Warp instructions."""
    TENSOR = "tensor"
    """FLOP, at a rate by element type and instruction."""
    FMA = "FMA"
    """Results of f32 additions, multiplications and fused multiply-adds; those of f16 as well."""
    ALU = "ALU"
    """Results of integer, logic, comparison and selection instructions."""
    MUFU = "MUFU"
    """Results of reciprocals, square roots, exponentials, logarithms, sines."""
    CONVERSION = "conversion"
    FP64 = "FP64"
    SHARED = "shared memory"
    """Bytes through the shared memory port, without conflicts."""
    L2 = "L2"
    """Bytes between the SM and L2, at the SM's share when all SMs work."""
    DRAM = "DRAM"
    """Bytes, as if no SM found data in L2 that another SM had requested."""


_LANES = {
    Unit.FMA: "fma", Unit.ALU: "alu", Unit.MUFU: "mufu", Unit.CONVERSION: "conversion", Unit.FP64: "fp64",
}  # fmt: skip

STANDS_FOR = {
    75: "T4", 80: "A100", 86: "A10", 89: "L4", 90: "H200", 100: "B200", 103: "B300", 120: "RTX PRO 6000",
}  # fmt: skip
"""Number of a chip -> the product whose clock and memories represent its target."""


class Resources(NamedTuple):
    """The throughput of one SM per cycle, and latencies in cycles."""

    gpu: str
    """The product that represents the target."""
    rate: Mapping[Unit, float]
    """Amounts per cycle, in the unit's own measure; `TENSOR` is absent."""
    tensor: Mapping[str, float]
    """FLOP per cycle by operand type (`f16`, `tf32`, `f8`, `i8`, `f4`, `f64`) with the widest instruction."""
    mma_sync: Mapping[str, float]
    """The same with mma.sync."""
    l2_port: float
    """Bytes per cycle that one SM takes from L2 while others take less than their share."""
    exponential: float
    """The time of an exponential on the MUFU, as a fraction of that of the other functions."""
    latency: Mapping[str, float]
    """Cycles, by the keys of `rates.Gpu.latency`."""

    def cycles(self, unit: Unit, amount: float) -> float:
        """Cycles that the unit takes for an amount; not for `TENSOR`, whose rate depends on the type."""
        return amount / self.rate[unit]

    def has_tensor(self, operands: str, wide: bool) -> bool:
        """Whether a rate of tensor cores is known for products of such operands."""
        return operands in (self.tensor if wide else self.mma_sync) or operands in self.tensor

    def tensor_cycles(self, flops: float, operands: str, wide: bool) -> float:
        """Cycles that tensor cores take.  Raises KeyError for operand types that they do not support."""
        table = self.tensor if wide else self.mma_sync
        return flops / (table.get(operands) or self.tensor[operands])


def product_of(target: Target) -> str:
    """The product that represents a target."""
    own = [number for number in STANDS_FOR if number <= target.number]
    family = [number for number in own if number // 10 == target.number // 10]
    return STANDS_FOR[max(family or own)]


def resources(target: Target) -> Resources:
    """The table of a target: the same for all targets with the same chip."""
    return _of_product(product_of(target))


@functools.cache
def _of_product(name: str) -> Resources:
    gpu = rates.gpu(name)
    rate = {
        Unit.ISSUE: gpu.issue,
        **{unit: gpu.lanes[lanes] for unit, lanes in _LANES.items()},
        Unit.SHARED: gpu.bytes_per_cycle["shared"],
        Unit.L2: gpu.l2_bytes_per_cycle / gpu.sms,
        Unit.DRAM: gpu.dram_bytes_per_cycle / gpu.sms,
    }
    port, exponential = gpu.bytes_per_cycle["l2"], gpu.lanes["mufu"] / gpu.lanes["ex2"]
    return Resources(gpu.name, rate, gpu.tensor, gpu.mma_sync, port, exponential, gpu.latency)

"""The clock of a launch at its board's power limit.

Dynamic power rises with the square of the clock, or faster, and with the work of a cycle: that of all SMs, of the
operations of their tensor cores, and of the bytes of L2 (`rates.Gpu.power`). A launch runs at the clock at which its
power is the limit's, and at most at the clock that the board has below the limit. Its power is the mean over the
launch, as if it was repeated for longer than boards take to change their clocks.
"""

from __future__ import annotations

from collections.abc import Mapping

from tileiras.sim.estimate.uncertainty import NEUTRAL, Needs
from tileiras.targets.rates import Gpu

EXPONENT = 2.0
"""Of the clock in the power of one cycle's work. Assumed: the square of the voltage, which rises as the clock; with
1.5 and with 3, and shares that fit the same three kernels, the clock of a fourth differs by less than 1 %."""
OPERATIONS = {"f16": 1.0, "f16_f16": 1.0, "tf32": 2.0, "f8": 0.5, "i8": 0.5, "f4": 0.25, "f64": 4.0}
"""Type of operands -> energy of one of their operations, in those of f16. Assumed: as the width of the operands."""
_STEPS = 12


def clock(needs: Needs, flops: Mapping[str, float], l2_bytes: float, gpu: Gpu) -> float:
    """MHz; ``needs`` are those at `Gpu.sustained_mhz`."""
    if not gpu.power:
        return gpu.sustained_mhz
    operations = sum(count * OPERATIONS[key] for key, count in flops.items())
    result = gpu.sustained_mhz
    for _ in range(_STEPS):  # bytes of DRAM take as long at every clock
        cycles = needs.under({**NEUTRAL, "clock": result / gpu.sustained_mhz}) * result
        work = gpu.power["tensor"] * operations + gpu.power["l2"] * l2_bytes
        of_cycle = gpu.power["sm"] * gpu.sms + work / cycles
        result = min(gpu.sustained_mhz, gpu.power["reference_mhz"] * of_cycle ** (-1 / EXPONENT))
    return result


def at(needs: Needs, share: float) -> Needs:
    """The needs at a share of the clock."""
    return needs._replace(
        l2=needs.l2 / share, tensor=needs.tensor / share, other=needs.other / share, rest=needs.rest / share
    )

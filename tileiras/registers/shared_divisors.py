"""Divisions whose threads divide several elements by one divisor, such as the sum of a row.

    %q = nv_tileas.divf %x, %sums      ->      %q = nv_tileas.divf %x, %sums {nv_tileas.shared_divisor}

The reciprocal of a divisor, and the test of the range in which a quotient follows from it, are then computed once for
all its elements (`lowering/tileas_to_llvm/elementwise/shared_divisors.py`); quotients are rounded as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import resources
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import TensorType, UnitAttr, Value, f32
from tileiras.layout.encoding import layout_of

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target

LEAST = 8
"""Elements of a thread for each divisor, at least: reciprocal and range take about 18 instructions, and an element 3.5
less than a division.  A stage of an FFT of 2^24 elements, with 4 of a thread, takes 69.4 us on H200 with shared
divisors, and 61.7 without (sim.estimate)."""

BESIDE = 32
"""Registers beside the tiles of a kernel: for 16 quotients that wait with their dividends, and intermediate values."""


class ShareDivisors(FunctionPass):
    name = "tileas-share-divisors"
    optional = True
    requires = "LAYOUTS"
    needs = "layouts, which determine the elements of a thread"
    establishes = "`nv_tileas.shared_divisor` on divisions of f32 by few divisors of a thread"
    keeps = "operations, values"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        operations = [op for op in func.walk() if isinstance(op, tileas.DivFOp) and shares_divisors(op)]
        if operations and not resources.registers.lacks(func, BESIDE):
            for op in operations:
                op.attributes[tileas.SHARED_DIVISOR] = UnitAttr()


def shares_divisors(op: tileas.DivFOp) -> bool:
    """Whether a thread divides several elements by each of its divisors, rounding to nearest and keeping subnormals."""
    type = op.result.type
    if not isinstance(type, TensorType) or type.element_type is not f32 or op.flush_to_zero is not None:
        return False
    if op.rounding_mode.value != "nearest_even":
        return False
    return layout_of(type).registers >= LEAST * _divisors(op.rhs)


def _divisors(value: Value) -> int:
    """The elements of a thread in the source of a broadcast, or in any other tile."""
    op = value.defining_op
    while isinstance(op, (aa.BroadcastOp, aa.SplatOp)):
        value, op = op.operand, op.operand.defining_op
    return layout_of(value.type).registers if isinstance(value.type, TensorType) else 1

"""Layouts in which functions of many instructions are computed by fewer lanes for the same element.

    cos(angles) of 16 angles, broadcast to 4 rows of 16, two elements a lane
        in the layout of the rows    4 lanes compute the same two cosines
        spread                       2 lanes compute one, and a shuffle brings the other
"""

from __future__ import annotations

from collections.abc import Collection

import tileiras
from tileiras.dialects import math
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Operation, TensorType, Value
from tileiras.layout import LinearLayout

from .chained_dots import is_element_wise

LONG_FUNCTIONS = (math.SinOp, math.CosOp, math.TanOp, math.PowFOp, math.SinhOp, math.CoshOp)
_INSTRUCTIONS = 20
"""Of such a function for an element, at least: a reduction of the range with a branch, and a polynomial."""


def spread_for(op: Operation, layouts: Collection[LinearLayout | None]) -> LinearLayout | None:
    """The layout in which a function is computed whose result is broadcast to these layouts; None where this costs no
    less than to compute it in theirs."""
    layout = next(iter(layouts)) if len(layouts) == 1 else None
    if layout is None or not isinstance(op, LONG_FUNCTIONS):
        return None
    result = _spread(layout)
    bits = op.results[0].type.element_type.width
    plan = tileiras.layout.convert.plan_conversion(result, layout, bits)
    saved = _INSTRUCTIONS * (layout.registers - result.registers)
    return result if isinstance(plan, tileiras.layout.convert.WarpShuffle) and plan.cost(bits) < saved else None


def comes_from_function(value: Value) -> bool:
    """Whether a tile is the result of such a function, or computed from nothing else element by element."""
    op = value.defining_op
    while op is not None and not isinstance(op, LONG_FUNCTIONS):
        tiles = [each for each in op.operands if isinstance(each.type, TensorType)]
        if len(tiles) != 1 or not isinstance(op, aa.ViewOp) and not is_element_wise(op):
            return False
        op = tiles[0].defining_op
    return op is not None


def _spread(layout: LinearLayout) -> LinearLayout:
    """A layout with elements of further registers in lanes that hold copies of other lanes' elements."""
    registers, lanes = list(layout.bases("register")), list(layout.bases("lane"))
    for bit, basis in enumerate(lanes):
        if not basis and registers:
            lanes[bit] = registers.pop()
    return layout.with_bases("register", registers).with_bases("lane", lanes)

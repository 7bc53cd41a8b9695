"""One thread acts, all that hold copies get the result.

A layout with free lane or warp bits holds an element in several threads.  Where an access would return a different
value to each of them (an update that must happen once, a strong load that may observe another thread's store between
two reads), one of them executes it and broadcasts the value, so that the replicas, and every branch on them, stay the
same in all threads.
"""

from __future__ import annotations

import tileiras
from tileiras.ir import Value
from tileiras.layout import LinearLayout

from ..emit.function import FunctionLowering


def representative(layout: LinearLayout, lowering: FunctionLowering) -> Value | None:
    """Whether this thread executes accesses for all replicas of its elements; None if there are no replicas."""
    free = layout.free_variable_masks()
    return lowering.emit.thread_is_elected(free["lane"], free["warp"])


def from_elected(value: Value, layout: LinearLayout, lowering: FunctionLowering) -> Value:
    """Broadcast a fragment of in-memory elements from the representatives to every thread that holds a replica."""
    emit = lowering.emit
    free = layout.free_variable_masks()
    if free["register"]:
        value = emit.shuffle(value, [register & ~free["register"] for register in range(layout.registers)])
    if representative(layout, lowering) is None:
        return value
    return tileiras.lowering.tileas_to_llvm.collective.convert_layout.spread(value, layout, lowering)

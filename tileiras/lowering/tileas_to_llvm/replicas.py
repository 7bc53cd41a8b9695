"""One thread acts, all that hold copies get the result.

A layout with free lane or warp bits holds an element in several threads.  Where an access gives each of them an answer
of its own (an update that must happen once, a strong load that may see another thread's store between two reads),
one of them executes it and hands the answer to the others, so that what the copies hold, and every branch on it,
stays the same in all threads.
"""

from __future__ import annotations

from tileiras.ir import Value
from tileiras.layout import LinearLayout

from .function import FunctionLowering


def representative(layout: LinearLayout, lowering: FunctionLowering) -> Value | None:
    """Whether this thread is the one that acts for all holders of its elements; None where each has its own."""
    free = layout.free_variable_masks()
    return lowering.emit.thread_is_elected(free["lane"], free["warp"])


def from_elected(value: Value, layout: LinearLayout, lowering: FunctionLowering) -> Value:
    """A fragment of in-memory elements that the representatives hold, in every thread that holds a copy."""
    emit = lowering.emit
    free = layout.free_variable_masks()
    if free["register"]:
        value = emit.shuffle(value, [register & ~free["register"] for register in range(layout.registers)])
    if representative(layout, lowering) is None:
        return value
    from .convert_layout import through_shared

    return through_shared(value, layout, layout, lowering)

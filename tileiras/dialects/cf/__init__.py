"""The cf dialect, as far as the pipeline uses it: assertions of a thread."""

from __future__ import annotations

from tileiras.ir import MemoryWrite, Operation, StringAttr, attribute, i1, operand


class AssertOp(Operation, name="cf.assert", traits=(MemoryWrite,)):
    """Stops the kernel with the message where the thread's condition is false."""

    arg = operand(i1)
    msg = attribute(StringAttr)
    assembly_format = "$arg `,` $msg attr-dict"


__all__ = ["AssertOp"]

"""Operands that threads compute and store in two buffers in turn, by iterations of loops of every type."""

from __future__ import annotations

import pytest

from tests.kernels import dots
from tileiras.dialects import nv_tileas as tileas

FIRST = -3


def _counted_by(type: str):
    """Attention whose loop counts iterations from `FIRST`, in integers of a type."""
    kernel = dots.attention_like(1, rows=16, columns=64, depth=128, steps=5, halved=True)
    loop = "for %i in (%zero to %steps, step %one) : tile<i32>"
    assert kernel.text.count(loop) == 1
    head, body = kernel.text.split(loop)
    values, body = body.split("{\n", 1)
    bounds = {"first": FIRST, "end": FIRST + 5, "by": 1}
    text = "\n".join(f"%{name} = constant <{type}: {value}> : tile<{type}>" for name, value in bounds.items())
    at, line = head.rindex("%o, %l"), f"for %n_i in (%first to %end, step %by) : tile<{type}>"
    width = {"i64": f"%n_32 = trunci %n_i : tile<{type}> -> tile<i32>", "i32": "%n_32 = addi %n_i, %zero : tile<i32>"}
    index = width.get(type, f"%n_32 = exti %n_i signed : tile<{type}> -> tile<i32>")
    index += f"\n%back = constant <i32: {-FIRST}> : tile<i32>\n%i = addi %n_32, %back : tile<i32>\n"
    return kernel._replace(text=f"{head[:at]}{text}\n{head[at:]}{line}{values}{{\n{index}{body}")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("type", ["i8", "i16", "i32", "i64"])
def test_loops_of_every_type(type):
    kernel = _counted_by(type)
    stores = [op for op in kernel.tileas("sm_90").walk() if isinstance(op, tileas.StoreTensorOp)]
    # Loads of loops that count in fewer bits do not run ahead.
    assert (2 in [op.buffer.type.stages for op in stores]) == (type in ("i32", "i64"))
    for seed in (None, 0):
        kernel.emulated(kernel.compiled("sm_90"), seed)

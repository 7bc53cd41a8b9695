"""Operands of `wgmma` that stay in registers for a loop: tiles loaded before it, such as the queries of attention.

From shared memory an instruction reads 64 rows of A and its columns of B.  With 64 columns or fewer the port is busy
for as long as the tensor cores, so that copies of the next tiles are in their way; with A in registers it reads B only.
Attention over 2,048 positions of 32 heads by tiles of 64x64 takes 83.7 us on H200 by our estimate instead of 97.4 with
d 64, and 134.4 instead of 204.7 with d 128 and two CTAs on an SM.  An SM with one CTA of four warps gains nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import scf
from tileiras.ir import Value
from tileiras.targets import registers_per_thread
from tileiras.targets.sm import WARP_SIZE

from .chained_dots import comes_from_dot
from .operand_origins import LOADS

if TYPE_CHECKING:
    from tileiras.ir import Operation

COLUMNS = 64
"""Most columns of an instruction whose operands take the port of shared memory for as long as the tensor cores."""

BESIDE, MOST = 32, 160
"""Registers of a thread beside its accumulators and its factors in registers, at least, and the most of these: a loop
computes other tiles from them."""

WARPS = 12
"""Warps of an SM at least, unless the kernel asks for several CTAs: with fewer, nothing is in the way at the port."""


def is_kept(op: aa.DotOp, columns: int, num_warps: int, ctas: int) -> bool:
    """Whether A of a dot whose instructions have this number of columns stays in registers for the loop around it, with
    the tiles of its dots, where the kernel asks for `ctas` CTAs on an SM."""
    loop = next(iter(scf.loops_around(op)), None)
    if columns > COLUMNS or loop is None or not _is_loaded_before(op.a, loop):
        return False
    threads = WARP_SIZE * num_warps
    dots = [each for each in loop.walk() if isinstance(each, aa.DotOp)]
    values = dict.fromkeys(value for dot in dots for value in _in_registers(dot, loop))
    words = sum(value.type.num_elements * value.type.element_type.width for value in values) // (32 * threads)
    resident = ctas if ctas > 1 else -(-WARPS // num_warps)
    return words <= min(MOST, registers_per_thread(threads, resident) - BESIDE)


def _in_registers(dot: aa.DotOp, loop: Operation) -> Iterator[Value]:
    """The accumulator of a dot of a loop, and a factor that may be in registers."""
    yield dot.result
    if comes_from_dot(dot.a) or _is_loaded_before(dot.a, loop):
        yield dot.a


def _is_loaded_before(value: Value, loop: Operation) -> bool:
    """Whether a tile is loaded before a loop, and only reshaped or permuted since."""
    op = value.defining_op
    while isinstance(op, (aa.ViewOp, aa.PermuteOp)):
        op = op.operands[0].defining_op
    return isinstance(op, LOADS) and not loop.is_ancestor_of(op)

"""How many registers of a thread the tiles of a loop take, from their layouts."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Block, Operation, TensorType, Value
from tileiras.layout.encoding import layout_of
from tileiras.targets import registers_per_thread

OTHER_REGISTERS = 40
"""Left for addresses, masks, counters and what is on its way from shared memory to a matrix instruction."""

_UNIFORM = (arith.ConstantOp, tileas.SplatOp, tileas.BroadcastOp, tileas.MakeRangeOp)
"""Made of fewer registers than elements."""


def words(value: Value) -> int:
    """32-bit registers of a thread's fragment of a tensor; 0 for scalars, truth values and what takes few."""
    type = value.type
    if not isinstance(type, TensorType) or type.encoding is None or isinstance(value.defining_op, _UNIFORM):
        return 0
    width = getattr(type.element_type, "width", 64)
    return 0 if width == 1 else -(-layout_of(type).registers * width // 32)


def is_read_in_steps(value: Value) -> bool:
    """Whether a tile from shared memory only goes into products, which read a part of it at a time."""
    source = value.defining_op
    while isinstance(source, tileas.RENAMING):
        source = source.operand.defining_op
    return isinstance(source, (tileas.CopyOp, tileas.ConvertLayoutOp)) and _feeds_products(value)


def _feeds_products(value: Value) -> bool:
    for user in value.users:
        if isinstance(user, (tileas.DotOp, tileas.BlockScaledMmaOp)):
            if user.operands[2] is value:
                return False
        elif not isinstance(user, tileas.RENAMING) or not _feeds_products(user.results[0]):
            return False
    return True


def loop_registers(loop: Any) -> int:
    """Most registers that tiles take at a time while the loop runs, those included that wait for its end."""
    inside = {id(op) for op in loop.walk()}
    used = (v for op in loop.body.block.operations for inner in op.walk() for v in inner.operands)
    through = {v for v in used if _from_outside(v, inside)}
    return sum(map(words, through)) + _most_live(loop.body.block)


def _from_outside(value: Value, inside: set[int]) -> bool:
    owner = value.owner
    op = owner.parent_op if isinstance(owner, Block) else owner
    return id(op) not in inside


def _most_live(block: Block) -> int:
    last: dict[Value, Operation] = {}
    for op in block.operations:
        for inner in op.walk():
            for value in inner.operands:
                last[value] = op
    live = sum(words(v) for v in block.arguments if v in last)
    most = live
    for op in block.operations:
        ending = {v for inner in op.walk() for v in inner.operands if last[v] is op and v.parent_block is block}
        nested = max((_most_live(b) for region in op.regions for b in region.blocks), default=0)
        if isinstance(op, (scf.ForOp, scf.IfOp, scf.WhileOp)):
            most = max(most, live + nested)
        live -= sum(0 if is_read_in_steps(v) else words(v) for v in ending)
        live += sum(0 if is_read_in_steps(v) else words(v) for v in op.results)
        most = max(most, live)
    return most


def exceeds(loop: Any, func: Any) -> int:
    """By how many registers a loop is above what a thread has; negative when some are left."""
    spec = func.kernel_spec
    available = registers_per_thread(32 * (spec.num_warps or 1), spec.occupancy or 1)
    return loop_registers(loop) + OTHER_REGISTERS - available

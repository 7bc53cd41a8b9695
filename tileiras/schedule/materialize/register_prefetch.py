"""Loops whose loads run one iteration ahead in registers, where no copy runs in the background, or none can be used.

    %x = if %lb < %ub: tiled_load ... [%lb]
    for %i in ... carrying %x:
      %next = if %i + %step < %ub: tiled_load ... [%i + %step]
      ... %x, through shared memory to a dot, or into computations on rows ...
      yield %next

The load of the next iteration is in flight while this one computes; a tile for a dot goes to shared memory after the
barrier that ends the reads of the previous tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.analysis.copied_loads import LOADS, feeds_dot, leaves_of, loads_of
from tileiras.analysis.derivations import is_derived
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Block, Builder, DenseElementsAttr, Operation, Region, TensorType, Value
from tileiras.resources.expected_registers import expected_registers
from tileiras.resources.limits import threads_of
from tileiras.resources.registers import exceeds, words
from tileiras.schedule.induction_variable import LoopCounter
from tileiras.schedule.staging import addresses, addresses_follow, joined, rematerialized, tokens_from_outside
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import occupancy

if TYPE_CHECKING:
    from tileiras.targets import CopyAtom, Target


class Prefetched(NamedTuple):
    """A load and the tokens that order it, all from outside of the loop."""

    load: Any
    tokens: tuple[Value, ...]


def prefetched_loads(loop: scf.ForOp, func: aa.FuncOp) -> list[Prefetched]:
    """The loads of a loop that can run ahead of its dots, as far as registers are left for their tiles; the smallest
    first."""
    items = [each for each in _movable_loads(loop) if feeds_dot(each.load, leaves_of(each.load.data, loop.body.block))]
    available = -exceeds(loop, func)
    fitting = []
    for each in sorted(items, key=lambda each: words(each.load.data)):
        available -= words(each.load.data)
        if available >= 0:
            fitting.append(each)
    return [each for each in items if each in fitting]


def loads_of_next_share(loop: scf.ForOp, func: aa.FuncOp, target: Target) -> list[Prefetched]:
    """The loads that can run ahead of a loop in which each tile block takes every nth row, for n tile blocks: such
    grids have few CTAs for each SM, which hide no latency for each other.  Empty if their registers would leave an SM
    fewer CTAs, or more for tiles than there are."""
    counts = [op for op in func.walk() if isinstance(op, tileas.GetNumProgramsOp)]
    is_share = is_derived((loop.step,), lambda value: _counts_programs(value, counts))
    if not counts or not is_share or arith.constant_integer(loop.step) is not None:
        return []
    items = _movable_loads(loop)
    return items if _have_registers(items, loop, func, target) else []


def loads_of_indices(loop: scf.ForOp, func: aa.FuncOp, target: Target) -> list[Prefetched]:
    """The loads of indices for the addresses of other loads, if they can run ahead of a loop, whose iterations then
    wait for memory once, not twice.  Empty without registers for them, as above."""
    behind = _loads_behind_addresses(loop)
    items = [each for each in _movable_loads(loop) if each.load in behind]
    return items if items and _have_registers(items, loop, func, target) else []


def _have_registers(items: list[Prefetched], loop: scf.ForOp, func: aa.FuncOp, target: Target) -> bool:
    """Whether an SM has as many CTAs with the tiles of these loads in registers, and tiles fit into those."""
    more = sum(words(each.load.data) for each in items)
    threads, registers = threads_of(func), expected_registers(func)
    before, after = (occupancy(target, threads, each, 0).ctas for each in (registers, registers + more))
    return more > 0 and after == before and exceeds(loop, func) + more <= 0


def _loads_behind_addresses(loop: scf.ForOp) -> set[Operation]:
    """The loads of a loop's body from whose tiles addresses of others are computed."""
    result: set[Operation] = set()

    def sources(value: Value) -> Sequence[Value]:
        op = value.defining_op
        if op is None or op.parent is not loop.body.block:
            return ()
        if not isinstance(op, LOADS):
            return op.operands
        result.add(op)
        return ()

    is_derived([value for load in loads_of(loop) for value in addresses(load)], sources)
    return result


def _counts_programs(value: Value, counts: list[Operation]) -> Sequence[Value] | None:
    """The operands from which a number of tile blocks is computed; None for other values."""
    op = value.defining_op
    if op in counts or isinstance(op, arith.ConstantOp):
        return ()
    return op.operands if op is not None and isinstance(op, (tileas.AssumeOp, arith.MulIOp)) else None


def _movable_loads(loop: scf.ForOp) -> list[Prefetched]:
    """The loads of a loop's body whose addresses are functions of the induction variable, and which nothing in the loop
    orders."""
    items = []
    for load in [op for op in loop.body.block.operations if isinstance(op, LOADS)]:
        if not isinstance(load.data.type, TensorType) or load.mem_semantic.value != "weak":
            continue
        if getattr(load, "reduction", None) is not None or not addresses_follow(load, loop):
            continue
        if (tokens := tokens_from_outside(load.token, loop)) is not None:
            items.append(Prefetched(load, tokens))
    return items


def prefetch_loads(loop: scf.ForOp, loads: Sequence[tileas.Load], stages: int, atom: CopyAtom | None) -> bool:
    """Load one iteration ahead in registers, in place; return False, and leave the loop unchanged, if one of the loads
    cannot be moved.

    It takes no atom, and the stages are two: the tile that is computed and the next one.
    """
    items = []
    for load in loads:
        tokens = tokens_from_outside(load.token, loop) if addresses_follow(load, loop) else None
        if tokens is None:
            return False
        items.append(Prefetched(load, tokens))
    _prefetch(loop, items)
    return True


def _prefetch(loop: scf.ForOp, loads: Sequence[Prefetched]) -> None:
    """Rewrite a loop, in place."""
    counter = LoopCounter(loop)
    block = loop.body.block
    outer = Builder.before(loop)
    outer.location = loop.location
    nothing = [value for each in loads for value in _nothing(outer, each)]
    tokens = [joined(outer, each.tokens) or nothing[2 * number + 1] for number, each in enumerate(loads)]
    start = _load(outer, block, loads, tokens, counter.runs(outer), lambda builder: loop.lower_bound, nothing)
    carried = [block.add_argument(v.type, loop.location) for v in start]
    head = Builder.at_start(block)
    head.location = loop.location
    exists, ahead = counter.later(head, block.arguments[0], 1)

    def following(builder: Builder) -> Value:
        return builder.insert(arith.AddIOp(block.arguments[0], ahead)).results[0]

    upcoming = _load(head, block, loads, tokens, exists, following, carried)
    assert block.last is not None
    block.last.operands = (*block.last.operands, *upcoming)
    for number, each in enumerate(loads):
        each.load.data.replace_all_uses_with(carried[2 * number])
        each.load.result_token.replace_all_uses_with(carried[2 * number + 1])
        each.load.erase()
    loop.replace_with_additional_yields(start)


def _nothing(builder: Builder, each: Prefetched) -> tuple[Value, Value]:
    """Placeholders for a tile and its token when no iteration would use them."""
    type = each.load.data.type
    element = type.element_type
    size = 8 if isinstance(element, aa.PtrType) else max(1, element.width // 8)
    token = builder.insert(tileas.CreateMemTokenOp(result=aa.MemTokenType())).results[0]
    zero = arith.ConstantOp(DenseElementsAttr(type, bytes(size), True))
    return builder.insert(zero).results[0], token


def _load(
    builder: Builder,
    block: Block,
    loads: Sequence[Prefetched],
    tokens: Sequence[Value],
    exists: Value,
    counter: Callable[[Builder], Value],
    otherwise: Sequence[Value],
) -> list[Value]:
    """Tiles and tokens of the iteration `counter(builder)` if it exists, else the given values."""
    then, other = Block(), Block()
    inner = Builder.at_end(then)
    inner.location = builder.location
    values = {block.arguments[0]: counter(inner)}
    items: list[Value] = []
    for each, token in zip(loads, tokens):
        new = _again(each.load, token, values, block, inner)
        items += [new.data, new.result_token]
    inner.location = builder.location
    inner.insert(scf.YieldOp.create(items))
    end = Builder.at_end(other)
    end.location = builder.location
    end.insert(scf.YieldOp.create(list(otherwise)))
    types = [v.type for v in otherwise]
    return list(builder.insert(scf.IfOp.create((exists,), types, {}, (Region([then]), Region([other])))).results)


def _again(load: tileas.TiledLoadOp, token: Value, values: dict[Value, Value], block: Block, builder: Builder) -> Any:
    """A load for another counter, ordered after the tokens from outside of the loop."""
    builder.location = load.location

    def again(value: Value) -> Value:
        return rematerialized(value, values, block, builder)

    data, order = load.data.type, load.result_token.type
    operands: dict[str, Any] = {"token": token, "data": data, "result_token": order, "atom": load.atom}
    new: Operation
    if isinstance(load, tileas.TiledLoadOp):
        new = tileas.TiledLoadOp(view=again(load.view), coords=[again(v) for v in load.coords], **operands)
    else:
        mask, other = (None if v is None else again(v) for v in (load.mask, load.other))
        new = tileas.LoadOp(pointer=again(load.pointer), mask=mask, other=other, **operands)
    for name, value in load.attributes.items():
        new.attributes.setdefault(name, value)
    return builder.insert(new)

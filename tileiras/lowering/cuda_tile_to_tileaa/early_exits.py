"""Rewrites `break`, `continue` and `return` inside `if` so that control flow is structured, before the conversion.

The operations after an `if` that may leave its block move into the branches that fall through; then every path of the
block ends in an exit, and the exits become values: an `if` at the end of the block yields the operands of the exit
taken.  After this

- a `return` inside a `loop` has become a `break` that sets a result for it, and a `return` after the loop;
- a `for` body ends in its only `continue`, an entry in its only `return`;
- a `loop` body ends in `yield %again, values...`: with %again the values start the next iteration, without it they are
  the loop's results.  When the two lists differ in type, both are yielded, results first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tileiras.dialects import cuda_tile
from tileiras.ir import Block, DenseElementsAttr, IntegerType, Operation, Region, Value, VerifyError, i1, i64

EXITS = ("cuda_tile.break", "cuda_tile.continue", "cuda_tile.return")

Leaf = Callable[[Operation, Block], list[Value]]


def structure_exits(module: Operation) -> None:
    """Raise VerifyError, located, if an exit would need a placeholder for a value of a type without one."""
    for op in module.regions[0].block.operations:
        if op.name == "cuda_tile.entry":
            block = op.regions[0].block
            _return_behind_loops(block)
            if _structure(block):
                _payload(block, lambda exit, at: [])
                block.append(cuda_tile.ReturnOp.create(location=op.location))


def shares_values(loop: Operation) -> bool:
    """Whether a loop's results and carried values have the same types, so that one list serves for both."""
    return [r.type for r in loop.results] == [value.type for value in loop.operands]


# ---- returns inside of loops -----------------------------------------------------------------------------------------


def _return_behind_loops(block: Block) -> None:
    """Inner loops first: each leaves a `return` in the loop around it."""
    for op in block.operations:
        for region in op.regions:
            for body in region.blocks:
                _return_behind_loops(body)
        if op.name == "cuda_tile.loop":
            exits = list(_exits(op.regions[0].block))
            if any(exit.name == "cuda_tile.return" for exit in exits):
                _break_instead(op, exits)


def _exits(block: Block) -> Iterator[Operation]:
    """The exits of a body, except those of nested loops."""
    for op in block.operations:
        if op.name in EXITS:
            yield op
        elif op.name == "cuda_tile.if":
            for region in op.regions:
                for branch in region.blocks:
                    yield from _exits(branch)


def _break_instead(loop: Operation, exits: list[Operation]) -> None:
    """Prepend a result to the loop: whether it was left by a `return`."""
    types = [result.type for result in loop.results]
    for exit in exits:
        if exit.name == "cuda_tile.continue":
            continue
        at = exit.parent
        assert at is not None
        returns = exit.name == "cuda_tile.return"
        values = [_anything(type, at, exit) for type in types] if returns else list(exit.operands)
        flag = _constant(i1, int(returns), at, exit)
        at.insert_before(cuda_tile.BreakOp.create([flag, *values], location=exit.location), exit)
        exit.erase()
    block = loop.parent
    assert block is not None
    regions = [Region().take_blocks(region) for region in loop.regions]
    flagged = [cuda_tile.TileType((), i1), *types]
    new = cuda_tile.LoopOp.create(loop.operands, flagged, dict(loop.attributes), regions, (), loop.location)
    block.insert_before(new, loop)
    leave = Region([Block()])
    leave.block.append(cuda_tile.ReturnOp.create(location=loop.location))
    after = cuda_tile.IfOp.create((new.results[0],), (), {}, [leave, Region()], (), loop.location)
    block.insert_before(after, loop)
    loop.replace_all_uses_with(new.results[1:])
    loop.erase()


# ---- moving code after an exit into the branches --------------------------------------------------------------------


def _structure(block: Block) -> bool:
    """Structures all operations of `block`; returns True if it then ends in an `if` all of whose paths are exits."""
    for op in block.operations:
        if op.name == "cuda_tile.loop":
            _structure_loop(op)
        elif op.name == "cuda_tile.for":
            body = op.regions[0].block
            if _structure(body):
                values = _payload(body, lambda exit, at: list(exit.operands))
                body.append(cuda_tile.ContinueOp.create(values, location=op.location))
        elif op.name == "cuda_tile.if":
            if _may_exit(op):
                _sink_rest(op, block)
                for region in op.regions:
                    _structure(region.block)
                return True
            for region in op.regions:
                if region.blocks:
                    _structure(region.block)
    return False


def _may_exit(op: Operation) -> bool:
    """Whether a path through this `if` leaves the enclosing block.  Exits of loops inside are their own."""
    for region in op.regions:
        for block in region.blocks:
            if block.last is not None and block.last.name in EXITS:
                return True
            if any(inner.name == "cuda_tile.if" and _may_exit(inner) for inner in block.operations):
                return True
    return False


def _sink_rest(op: Operation, block: Block) -> None:
    """Move the operations after `op` into its branches that fall through; a second such branch gets a copy."""
    if not op.regions[1].blocks:
        op.regions[1].append(Block()).append(cuda_tile.YieldOp.create(location=op.location))
    rest: list[Operation] = []
    at = op.next
    while at is not None:
        rest.append(at)
        at = at.next
    falling = [r.block for r in op.regions if r.block.last is not None and r.block.last.name == "cuda_tile.yield"]
    for number, branch in enumerate(falling):
        end = branch.last
        assert end is not None
        values = end.operands
        end.erase()
        if number + 1 < len(falling):
            mapping: dict[Value, Value] = dict(zip(op.results, values))
            for follower in rest:
                branch.append(follower.clone(mapping))
            continue
        for result, value in zip(op.results, values):
            result.replace_all_uses_with(value)
        for follower in rest:
            branch.append(follower.detach())
    if not falling:
        for follower in reversed(rest):
            follower.erase()


# ---- exits as values -------------------------------------------------------------------------------------------------


def _payload(block: Block, leaf: Leaf) -> list[Value]:
    """Remove the exits at the end of `block`; return the values that replace their operands."""
    last = block.last
    assert last is not None
    if last.name != "cuda_tile.if":
        values = leaf(last, block)
        last.erase()
        return values
    types: list[Any] = []
    for region in last.regions:
        values = _payload(region.block, leaf)
        types = [value.type for value in values]
        region.block.append(cuda_tile.YieldOp.create(values, location=last.location))
    regions = [Region().take_blocks(region) for region in last.regions]
    structured = cuda_tile.IfOp.create(last.operands, types, dict(last.attributes), regions, (), last.location)
    last.erase()
    block.append(structured)
    return list(structured.results)


def _structure_loop(op: Operation) -> None:
    block = op.regions[0].block
    _structure(block)
    shared = shares_values(op)
    results = [result.type for result in op.results]
    carried = [value.type for value in op.operands]

    def leaf(exit: Operation, at: Block) -> list[Value]:
        again = exit.name == "cuda_tile.continue"
        values = list(exit.operands)
        if not shared:
            # The list that this exit does not carry is never read.
            undefined = [_anything(type, at, exit) for type in (results if again else carried)]
            values = undefined + values if again else values + undefined
        return [_constant(i1, int(again), at, exit), *values]

    values = _payload(block, leaf)
    block.append(cuda_tile.YieldOp.create(values, location=op.location))


def _constant(element: IntegerType, value: int, block: Block, before: Operation) -> Value:
    return _elements(cuda_tile.TileType((), element), bytes([value]), block, before)


def _elements(type: cuda_tile.TileType, data: bytes, block: Block, before: Operation) -> Value:
    value = DenseElementsAttr(type, data, True)
    op = cuda_tile.ConstantOp.create((), (type,), {"value": value}, location=before.location)
    return block.insert_before(op, before).results[0]


def _anything(type: cuda_tile.TileType, block: Block, before: Operation) -> Value:
    """A placeholder value of a type."""
    if isinstance(type, cuda_tile.TokenType):
        op = cuda_tile.MakeTokenOp.create((), (type,), location=before.location)
        return block.insert_before(op, before).results[0]
    if not isinstance(type, cuda_tile.TileType):
        raise VerifyError(f"cannot carry a value of type '{type}' past an early exit", before.location, prefix=False)
    element = type.element_type
    if isinstance(element, cuda_tile.PointerType):
        integers = _elements(cuda_tile.TileType(type.shape, i64), bytes(8), block, before)
        op = cuda_tile.IntToPtrOp.create((integers,), (type,), location=before.location)
        return block.insert_before(op, before).results[0]
    return _elements(type, bytes(max(1, element.width // 8)), block, before)

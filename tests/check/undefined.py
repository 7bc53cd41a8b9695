"""Facts of an entry for proofs: the access of a tile entirely outside of its view, which Tile IR leaves undefined, and
the arrays that the entry only reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tileiras.check.facts import _TILED, Facts, pointer_of, source
from tileiras.check.origins import constant_of
from tileiras.ir import Operation, Value


class Undefined(NamedTuple):
    """`tiles`: (axis, parameter) where tile blocks access the tile of their number; `extents`: parameters that only
    bound tiles; `numbers`: pointers to numbers that are used for nothing but the choice of a tile."""

    tiles: frozenset[tuple[int, int]]
    extents: frozenset[int]
    numbers: frozenset[int]
    spans: frozenset[tuple[int, int, int]] = frozenset()
    """(axis, parameter, elements) where tile blocks access a tile of several elements of their number."""
    read_only: frozenset[int] = frozenset()
    """Pointers that the entry never writes through; arrays that are written never overlap others."""

    @classmethod
    def of(cls, entry: Operation, facts: Facts) -> Undefined:
        spans, extents = _own_tiles(entry, facts), _single_extents(entry, facts)
        tiles = {(axis, number) for axis, number, tile in spans if tile == 1}
        spans = {each for each in spans if each[2] > 1}
        numbers, read_only = _numbers(entry), _read_only(entry)
        return cls(*map(frozenset, (tiles, extents, numbers, spans, read_only)))  # type: ignore[arg-type]


NOTHING = Undefined(frozenset(), frozenset(), frozenset())


def _own_tiles(entry: Operation, facts: Facts) -> set[tuple[int, int, int]]:
    """(axis, parameter, elements) where the number of a tile block along the axis is that of a tile along a dimension
    of the parameter's size: where it begins at the size, the tile lies entirely outside of its view."""
    pairs = set()
    for op in entry.regions[0].block.operations:  # those that every tile block executes
        if not hasattr(op, "index") or not hasattr(op, "view"):
            continue
        view = op.view.type
        maker = op.view.defining_op
        shape = facts.sizes_of.get(source(maker.operands[0]), []) if maker is not None else []
        dims = tuple(getattr(view, "dim_map", range(len(view.tile_shape))))
        for index, dim, tile in zip(op.index, dims, view.tile_shape):
            block = source(index).defining_op
            described = shape[dim] if dim < len(shape) else None
            if described is not None and described[0] == "parameter" and block is not None:
                if block.name == "cuda_tile.get_tile_block_id":
                    pairs.add((list(block.results).index(source(index)), described[1], tile))
    return pairs


def _single_extents(entry: Operation, facts: Facts) -> set[int]:
    """Parameters that are only extents of tensor views whose tiles have one element along these dimensions: a tile at
    the extent lies entirely outside of its view."""
    single_extents = {
        each[1] for view in facts.views for each in view.shape if each is not None and each[0] == "parameter"
    }
    arguments = list(entry.regions[0].block.arguments)
    single_extents &= set(range(len(arguments)))  # columns of tables have no argument of their own
    for number in list(single_extents):
        waiting, users = [arguments[number]], []
        while waiting:
            for user in waiting.pop().users:
                users.append(user)
                waiting += [user.results[0]] if user.name == "cuda_tile.assume" else []
        if any(user.name not in ("cuda_tile.assume", "cuda_tile.make_tensor_view") for user in users):
            single_extents.discard(number)
    for op in entry.walk():
        if op.name not in _TILED or not (shape := facts.sizes_of.get(source(op.operands[0]), [])):
            continue
        view = op.results[0].type
        for place, (dim, tile) in enumerate(zip(getattr(view, "dim_map", range(len(shape))), view.tile_shape)):
            described = shape[dim]
            counted = any(
                user.name == "cuda_tile.get_index_space_shape" and user.results[place].has_uses
                for user in op.results[0].users
            )
            if described is not None and described[0] == "parameter" and (tile > 1 or counted):
                single_extents.discard(described[1])
    return single_extents


def _read_only(entry: Operation) -> set[int]:
    """Pointers without any write through them, nor through one of unknown origin."""
    position = {argument: number for number, argument in enumerate(entry.regions[0].block.arguments)}
    written = {
        position.get(pointer_of(op))
        for op in entry.walk() if re.match(r"cuda_tile\.(?:store_|atomic_|multimem_)", op.name)
    }  # fmt: skip
    pointers = {number for argument, number in position.items() if "ptr" in str(argument.type)}
    return set() if None in written else pointers - written


def _numbers(entry: Operation) -> set[int]:
    """Pointers whose elements number tiles of one element, and do nothing else: a negative one has no effect that is
    defined, since its tile is entirely outside of its view."""
    position = {argument: number for number, argument in enumerate(entry.regions[0].block.arguments)}
    result: dict[int, bool] = {}
    for op in entry.walk():
        if not op.name.startswith("cuda_tile.") or not (hasattr(op, "view") or _is_of_pointers(op)):
            continue
        number = position.get(pointer_of(op))
        if number is not None:
            result[number] = result.get(number, True) and _is_number(op)
    return {number for number, is_number in result.items() if is_number}


def _is_of_pointers(op: Operation) -> bool:
    return any(name in op.name for name in (".load_ptr", ".store_ptr", ".atomic_"))


def _is_number(op: Operation) -> bool:
    """Whether a load gives one number, which chooses a tile or is a constant where it is masked."""
    if op.name != "cuda_tile.load_ptr_tko" or op.results[0].type.shape:
        return False
    constants = [constant_of(each) for each in op.operands[1:] if each.type == op.results[0].type]
    uses = list(_uses(op.results[0]))
    return all(each is not None and each >= 0 for each in constants) and bool(uses) and all(
        hasattr(user, "index") and hasattr(user, "view") and _chooses(user, value) for value, user in uses
    )


def _uses(value: Value) -> Iterator[tuple[Value, Operation]]:
    for user in value.users:
        if source(user.results[0]) is source(value) if user.results else False:
            yield from _uses(user.results[0])
        else:
            yield value, user


def _chooses(user: Operation, value: Value) -> bool:
    """Whether a value is nothing but the number of a tile of one element along its dimension of a view."""
    places = [place for place, index in enumerate(user.index) if index is value]
    view = user.view.type
    sparse = getattr(view, "sparse_dim", None)
    return list(user.operands).count(value) == len(places) and all(
        view.tile_shape[place] == 1 and place != sparse for place in places
    )

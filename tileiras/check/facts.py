"""Facts of an entry about its launches: roles of parameters, sizes that go together, constants that they meet.

Sizes of dimensions that one value indexes (a tile block's number, a loop's counter) belong to one group: they count the
same tiles.  A parameter that is no size of a view counts elements where it is compared with tiles or bounds a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tileiras.analysis.derivations import is_derived
from tileiras.ir import DYNAMIC, BlockArgument, FloatType, IntegerType, Operation, Value
from tileiras.sim.interpreter.machine import orders

from . import origins
from .origins import constant_of, source
from .tables import Table, columns

_FLOWS = {*origins._SAME, "cuda_tile.addi", "cuda_tile.subi", "cuda_tile.muli", "cuda_tile.divi", "cuda_tile.mini",
          "cuda_tile.maxi", "cuda_tile.remi"}  # fmt: skip
_TILED = ("cuda_tile.make_partition_view", "cuda_tile.make_strided_view", "cuda_tile.make_gather_scatter_view")
_MOVED = ("cuda_tile.offset", "cuda_tile.make_tensor_view")
_DEFAULT_TILE = 4
MOST_TILES = 16
"""Tiles of a view that launches have room for, where a program counts its tiles by a constant."""


@dataclass
class Parameter:
    """One parameter of the entry, or one column of a table in memory.

    `kind` is `pointer`, `float`, `size` (of a view, or compared with elements), `stride` or `scalar`, or `address` for
    that of an array in a table; a number is a multiple of `divisor`, a pointer one of as many bytes.
    """

    position: int
    kind: str
    element: Any
    divisor: int = 1
    low: int | None = None
    high: int | None = None
    tile: int = 0
    """Elements of the largest tile along the dimension whose size this is."""
    is_whole: bool = False
    """The last tile along the dimension is whole: elements of a partial one would be addresses, and are undefined
    without a padding value."""
    counts_trips: bool = False
    """A number, or an array of numbers, that bounds loops."""
    later_axis: int | None = None
    """The axis of the grid along which later tile blocks have more trips of a loop, and a tile of this size each."""
    starts_loops: bool = False
    """A number that loops begin with, and that ends none."""
    starts_at_zero: bool = False
    """Integers that order tile blocks (counters, locks, flags): their initial value is zero."""
    is_threshold: bool = False
    """A number that is compared with tiles of values other than element positions, such as hashes."""
    scales: bool = False
    """Block scales of products, whose results are undefined if one is negative (PTX ISA, ue4m3 and ue8m0)."""


@dataclass
class ViewFact:
    """A tensor view with its sizes and strides: constants, or parameters by position; None for any other value."""

    pointer: int | None
    shape: list[tuple[str, int] | None]
    strides: list[tuple[str, int] | None]


@dataclass
class Facts:
    parameters: list[Parameter]
    """Those of the entry, and behind them the columns of tables."""
    views: list[ViewFact]
    groups: list[list[int]]
    """Positions of size parameters that count the same tiles."""
    axes: list[bool] = field(default_factory=lambda: [False] * 3)
    """Which dimensions of the grid the kernel reads."""
    reads_grid: bool = False
    asserts: bool = False
    """Whether the entry has assertions, which may depend on values in arrays."""
    rounds_floats: bool = False
    """Whether floats become integers, which may be addresses."""
    reads_floats: bool = False
    """Whether floats may decide anything else than other floats: a comparison, a number, bits of memory."""
    synchronises: bool = False
    """Whether operations of the entry may order tile blocks."""
    sizes_of: dict[Value, list[tuple[str, int] | None]] = field(default_factory=dict)
    """Sizes by tensor view, for the repair of launches that access a tile outside of one."""
    tables: list[Table] = field(default_factory=list)
    constant_trips: int = 1
    """The largest constant end of a loop, of those up to MOST_TILES."""

    @property
    def arguments(self) -> list[Parameter]:
        """The parameters of the entry."""
        return self.parameters[: len(self.parameters) - sum(len(each.columns) for each in self.tables)]


def facts(entry: Operation) -> Facts:
    """The facts of an entry of a verified cuda_tile module."""
    arguments = list(entry.regions[0].block.arguments)
    position = {argument: number for number, argument in enumerate(arguments)}
    parameters = [_parameter(number, argument) for number, argument in enumerate(arguments)]
    entry_facts = Facts(parameters, [], [])
    entry_facts.tables = _tables(entry, position, parameters)
    _assume(entry, position, parameters)
    keys = _views(entry, position, entry_facts)
    _counts(arguments, entry_facts)
    _arrays(arguments, entry_facts)
    _lengths(entry, position, entry_facts)
    entry_facts.groups = _groups(entry_facts, keys)
    for op in entry.walk():
        if op.name == "cuda_tile.mmaf_scaled":
            for number in (position.get(pointer) for scale in op.operands[3:] for pointer in _loaded_from(scale)):
                if number is not None:
                    parameters[number].scales = True
        entry_facts.asserts |= op.name == "cuda_tile.assert"
        entry_facts.rounds_floats |= op.name == "cuda_tile.ftoi"
        entry_facts.reads_floats |= _reads_floats(op)
        end = constant_of(op.operands[1]) if op.name == "cuda_tile.for" else None
        if end is not None and entry_facts.constant_trips < end <= MOST_TILES:
            entry_facts.constant_trips = end
        if orders(op):
            entry_facts.synchronises = True
            number = position.get(pointer_of(op))
            if number is not None and isinstance(parameters[number].element, IntegerType):
                parameters[number].starts_at_zero = True
        if op.name in ("cuda_tile.get_tile_block_id", "cuda_tile.get_num_tile_blocks"):
            for axis, result in enumerate(op.results):
                entry_facts.axes[axis] |= result.has_uses
            entry_facts.reads_grid |= op.name.endswith("num_tile_blocks")
    return entry_facts


def _reads_floats(op: Operation) -> bool:
    """Whether an operation makes something else of floats than floats, or reads memory of floats as another type; of
    one with regions, the operations in them do."""
    elements = [[getattr(each.type, "element_type", None) for each in values] for values in (op.operands, op.results)]
    has_floats = any(isinstance(each, FloatType) for each in elements[0])
    makes_others = any(each is not None and not isinstance(each, FloatType) for each in elements[1])
    return op.name == "cuda_tile.ptr_to_ptr" or (has_floats and makes_others and not op.regions)


def _tables(entry: Operation, position: dict[Value, int], parameters: list[Parameter]) -> list[Table]:
    """Find tables of arrays; their columns become parameters."""
    tables: dict[int, Table] = {}
    for each in columns(entry, position):
        table = tables.setdefault(each.pointer, Table(each.pointer, each.width))
        element = each.address_of
        number = table.columns.setdefault(each.column, len(parameters))
        if number == len(parameters):
            parameters.append(Parameter(number, "scalar", each.value.type.element_type))
        if element is not None:
            parameters[number].kind, parameters[number].element = "address", element
        position[each.value] = number
    return list(tables.values())


def _loaded_from(value: Value) -> Iterator[Value]:
    """The pointers behind the loads that `value` is computed of."""
    waiting, seen = [value], {value}
    while waiting:
        op = waiting.pop().defining_op
        if op is None or op.regions:
            continue
        if op.name in ("cuda_tile.load_ptr_tko", "cuda_tile.load_view_tko"):
            yield pointer_of(op)
            continue
        waiting += [operand for operand in op.operands if operand not in seen]
        seen.update(op.operands)


def pointer_of(op: Operation) -> Value:
    """The pointer behind an access, through views, offsets and copies."""
    value = source(op.view if hasattr(op, "view") else op.operands[0])
    while value.defining_op is not None and value.defining_op.name in (*_TILED, *_MOVED):
        value = source(value.defining_op.operands[0])
    return value


def _parameter(number: int, argument: BlockArgument) -> Parameter:
    element = argument.type.element_type
    if isinstance(element, IntegerType):
        return Parameter(number, "scalar", element)
    if isinstance(element, FloatType):
        return Parameter(number, "float", element)
    return Parameter(number, "pointer", element.pointee_type)


def _assume(entry: Operation, position: dict[Value, int], parameters: list[Parameter]) -> None:
    for op in entry.walk():
        number = position.get(source(op.operands[0])) if op.name == "cuda_tile.assume" else None
        if number is None:
            continue
        parameter, predicate = parameters[number], op.attributes["predicate"]
        if predicate.name == "cuda_tile.div_by" and predicate.every is None:
            parameter.divisor = max(parameter.divisor, predicate.divisor)
        elif predicate.name == "cuda_tile.bounded":
            lows, highs = (parameter.low, predicate.lb), (parameter.high, predicate.ub)
            parameter.low = max((each for each in lows if each is not None), default=None)
            parameter.high = min((each for each in highs if each is not None), default=None)


def _dynamic(extents: Any, operands: Iterator[Value], position: dict[Value, int]) -> list[tuple[str, int] | None]:
    described: list[tuple[str, int] | None] = []
    for extent in extents:
        if extent != DYNAMIC:
            described.append(("constant", int(extent)))
            continue
        value = next(operands)
        number, constant = position.get(source(value)), constant_of(value)
        if number is not None:
            described.append(("parameter", number))
        else:
            described.append(None if constant is None else ("constant", constant))
    return described


def _views(entry: Operation, position: dict[Value, int], entry_facts: Facts) -> list[tuple[Any, int]]:
    """Fill in views; returns pairs of the index of a dimension and the parameter that is its size."""
    keys: list[tuple[Any, int]] = []
    for op in entry.walk():
        if op.name == "cuda_tile.make_tensor_view":
            view, operands = op.results[0].type, iter(op.operands[1:])
            shape = _dynamic(view.shape, operands, position)
            strides = _dynamic(view.strides, operands, position)
            entry_facts.views.append(ViewFact(position.get(source(op.operands[0])), shape, strides))
            entry_facts.sizes_of[op.results[0]] = shape
            for kind, described in (("size", shape), ("stride", strides)):
                for each in described:
                    if each is not None and each[0] == "parameter" and entry_facts.parameters[each[1]].kind != "size":
                        entry_facts.parameters[each[1]].kind = kind
        elif op.name in _TILED:
            keys += _tiled(op, entry_facts)
    return keys


def _tiled(op: Operation, entry_facts: Facts) -> Iterator[tuple[Any, int]]:
    """The size parameters of a tiled view, with the indices of their dimensions."""
    view, shape = op.results[0].type, entry_facts.sizes_of.get(source(op.operands[0]), [])
    dims = tuple(getattr(view, "dim_map", range(len(view.tile_shape))))
    sparse = getattr(view, "sparse_dim", None)
    for number, (dim, tile) in enumerate(zip(dims, view.tile_shape)):
        described = shape[dim] if dim < len(shape) else None
        if described is None or described[0] != "parameter":
            continue
        parameter = entry_facts.parameters[described[1]]
        parameter.tile = max(parameter.tile, tile)
        parameter.is_whole |= tile > 1 and view.padding_value is None and any(
            user.name == "cuda_tile.load_view_tko" and _is_address(user.results[0])
            for user in op.results[0].users
        )
        for user in op.results[0].users:
            if user.name == "cuda_tile.get_index_space_shape" and number < len(user.results):
                parameter.counts_trips |= _bounds_loop(user.results[number])
            if number == sparse or not hasattr(user, "index") or number >= len(user.index):
                continue
            index = source(user.index[number])
            constant = constant_of(index)
            key = ("constant", constant, tile) if constant is not None else _index_key(index)
            if isinstance(index, BlockArgument):
                parameter.counts_trips |= index.block.parent_op.name == "cuda_tile.for"
            elif index.defining_op.name == "cuda_tile.get_tile_block_id":
                # Later blocks have more trips, as in products with triangular matrices.
                if _bounds_loop(index):
                    parameter.counts_trips = True
                    parameter.later_axis = list(index.defining_op.results).index(index)
            yield (key, described[1])


def _index_key(index: Value) -> Any:
    """The index itself; results of every `get_tile_block_id` for one axis are the same."""
    op = index.defining_op
    if op is not None and op.name == "cuda_tile.get_tile_block_id":
        return ("block", list(op.results).index(index))
    return index


_BOUNDS, _ENDS = slice(3), slice(1, 3)
"""The operands of a loop: lower bound, upper bound, step; those without the lower bound."""


def _bounds_loop(value: Value, operands: slice = _BOUNDS, depth: int = 6) -> bool:
    for user in value.users if depth else ():
        if user.name == "cuda_tile.for" and value in list(user.operands[:3])[operands]:
            return True
        if user.name in _FLOWS and _bounds_loop(user.results[0], operands, depth - 1):
            return True
    return False


def _counts(arguments: list[BlockArgument], entry_facts: Facts) -> None:
    """Parameters that are compared with tiles of numbers, or bound loops, are sizes as well."""
    for parameter in entry_facts.parameters[len(arguments) :]:
        if parameter.kind == "size":
            parameter.tile = parameter.tile or _DEFAULT_TILE
    for parameter, argument in zip(entry_facts.parameters, arguments):
        if parameter.kind not in ("scalar", "size"):
            continue
        extent = _largest_comparand(argument)
        parameter.counts_trips |= _bounds_loop(argument, _ENDS)
        parameter.starts_loops = not parameter.counts_trips and _bounds_loop(argument)
        is_place = parameter.counts_trips or parameter.starts_loops or _is_compared_with_places(argument)
        parameter.is_threshold = parameter.kind == "scalar" and extent > 1 and not is_place
        if parameter.kind == "scalar" and (extent > 1 or parameter.counts_trips) and not parameter.is_threshold:
            parameter.kind = "size"
            parameter.tile = max(extent, 1)
        if parameter.kind == "size" and not parameter.tile:
            parameter.tile = max(extent, _DEFAULT_TILE)


def _arrays(arguments: list[BlockArgument], entry_facts: Facts) -> None:
    """Find arrays of cuTile Python that the kernel addresses itself: a pointer, every size, every stride.

    Numbers behind a pointer are such where the second half of them is multiplied on the way to addresses.
    """
    pointers = {view.pointer for view in entry_facts.views}
    starts = [each.position for each in entry_facts.parameters if each.kind == "pointer"]
    for start, end in zip(starts, [*starts[1:], len(arguments)]):
        numbers = [n for n in range(start + 1, end) if entry_facts.parameters[n].kind in ("size", "scalar", "stride")]
        rank = len(numbers) // 2
        if start in pointers or not rank or numbers != list(range(start + 1, start + 1 + 2 * rank)):
            continue
        sizes, strides = numbers[:rank], numbers[rank:]
        if any(entry_facts.parameters[n].kind == "size" for n in strides):
            continue
        if not any(_moves_pointers(arguments[n]) for n in strides):
            continue
        extents, steps = ([("parameter", n) for n in each] for each in (sizes, strides))
        entry_facts.views.append(ViewFact(start, extents, steps))
        for n in strides:
            entry_facts.parameters[n].kind = "stride"


def _lengths(entry: Operation, position: dict[Value, int], entry_facts: Facts) -> None:
    """Arrays of numbers that bound loops, such as the lengths of sequences: they count as sizes do."""
    for op in entry.walk():
        if not op.name.startswith("cuda_tile.load_") or not _bounds_loop(op.results[0]):
            continue
        for number in (position.get(pointer) for pointer in _loaded_from(op.results[0])):
            if number is not None and isinstance(entry_facts.parameters[number].element, IntegerType):
                parameter = entry_facts.parameters[number]
                parameter.counts_trips = True
                parameter.tile = max(parameter.tile, _largest_comparand(op.results[0]), 1)


def _uses(*values: Value) -> Iterator[tuple[Operation, Value]]:
    """The uses of numbers and of those that are computed from them: the operation and the number."""
    worklist, seen = list(values), set(values)
    while worklist:
        each = worklist.pop()
        for user in each.users:
            yield user, each
            if user.name in _FLOWS and user.results[0] not in seen:
                seen.add(user.results[0])
                worklist.append(user.results[0])


def _moves_pointers(value: Value) -> bool:
    """Whether a multiple of `value` is added to a pointer."""
    products = [user.results[0] for user, _ in _uses(value) if user.name == "cuda_tile.muli"]
    return any(user.name == "cuda_tile.offset" and each is user.operands[1] for user, each in _uses(*products))


def _is_address(value: Value) -> bool:
    """Whether an address or the number of a tile depends on `value`."""
    return any(
        user.name == "cuda_tile.offset" and each is user.operands[1]
        or any(each is index for index in getattr(user, "index", ()))
        for user, each in _uses(value)
    )  # fmt: skip


def _largest_comparand(value: Value) -> int:
    """The extent of the largest tile that `value` is compared with, or the largest number that it is divided by."""
    most = 0
    for user, _ in _uses(value):
        if user.name == "cuda_tile.cmpi":
            most = max(most, *user.operands[0].type.shape, 0)
        elif user.name == "cuda_tile.divi":
            most = max(most, constant_of(user.operands[1]) or 0)
    return most


_PLACES = {*_FLOWS, "cuda_tile.iota", "cuda_tile.constant", "cuda_tile.get_tile_block_id", "cuda_tile.cat",
           "cuda_tile.get_num_tile_blocks", "cuda_tile.get_index_space_shape", "cuda_tile.permute"}  # fmt: skip
"""Operations with which positions of elements are computed."""


def _is_compared_with_places(value: Value) -> bool:
    """Whether the number is compared with, or divides or is divided by, the position of an element."""
    return any(
        user.name == "cuda_tile.divi"
        or user.name == "cuda_tile.cmpi" and any(_is_place(other) for other in user.operands if other is not each)
        for user, each in _uses(value)
    )  # fmt: skip


def _is_place(value: Value) -> bool:
    return is_derived([value], _place_sources)


def _place_sources(value: Value) -> Sequence[Value] | None:
    op = value.defining_op
    # Numbers from memory are often row numbers of another array: their bound is its size.
    if op is None or op.name.startswith("cuda_tile.load_"):
        return ()
    if op.name == "cuda_tile.select":  # remainders and quotients of Python are rounded down by one
        return op.operands[1:]
    return op.operands if op.name in _PLACES else None


def _groups(entry_facts: Facts, keys: list[tuple[Any, int]]) -> list[list[int]]:
    parent = {each.position: each.position for each in entry_facts.parameters if each.kind == "size"}

    def root(number: int) -> int:
        while parent[number] != number:
            number = parent[number]
        return number

    first: dict[Any, int] = {}
    for key, number in keys:
        if number in parent:
            parent[root(number)] = root(first.setdefault(key, number))
    groups: dict[int, list[int]] = {}
    for number in parent:
        groups.setdefault(root(number), []).append(number)
    return list(groups.values())

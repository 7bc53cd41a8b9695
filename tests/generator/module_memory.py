"""Statements of generated Tile IR modules on memory: pointers and views of every kind, atomic updates, tokens.

Accesses stay inside of the memory of the tile block: offsets are computed modulo its size, a power of two, and views
have padding values where tiles may leave them.  Stores through pointers go to distinct places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import NamedTuple

from tests.generator.module_writer import FLOATS, INTEGERS, STORED, WIDTHS, Memory, Shape, Value, Writer
from tests.kernels.views import tile_type

LOADS = ("weak", "weak", "weak", "relaxed tl_blk", "relaxed device", "acquire device", "acquire sys", "relaxed sys")
STORES = ("weak", "weak", "weak", "relaxed tl_blk", "relaxed device", "release device", "release sys", "relaxed sys")
HINTS = ("", "", "", " optimization_hints = <default = {{latency = {}}}>",
         " optimization_hints = <sm_90 = {{latency = {}}}, sm_100 = {{latency = 2}}>")  # fmt: skip
VIEW_HINTS = (*HINTS, " optimization_hints = <default = {{allow_tma = false, latency = {}}}>",
              " optimization_hints = <default = {{allow_tma = true}}>")  # fmt: skip
PADDINGS = {"f8E4M3FN": ("zero", "neg_zero", "nan"), **dict.fromkeys(
    (*FLOATS, "f8E5M2"), ("zero", "neg_zero", "nan", "pos_inf", "neg_inf"))}  # fmt: skip
"""Those that an element type has; integers have zero."""


# -- tokens ------------------------------------------------------------------------------------------------------------


def joined(w: Writer, memory: Memory) -> str:
    """A token after all accesses of a scratch."""
    tokens = [each for each in (memory.written, *memory.read) if each]
    if len(tokens) == 1 and w.pick.chance(0.8):
        return tokens[0]
    name = w.name()
    if len(tokens) == 1:
        w.line(f"{name} = memory_fence_alias_tko {tokens[0]}")
        return name
    if len(tokens) > 2 and w.pick.chance(0.5):
        first = w.name()
        w.line(f"{first} = join_tokens {', '.join(tokens[:2])} : token")
        tokens = [first, *tokens[2:]]
    w.line(f"{name} = join_tokens {', '.join(tokens)} : token")
    return name


def _before_load(w: Writer, memory: Memory) -> str:
    """The clause of a load's token."""
    if not memory.written:
        return ""
    return f" token = {memory.written if w.pick.chance(0.7) else joined(w, memory)}"


def _after(memory: Memory, token: str, stores: bool) -> None:
    if stores:
        memory.written, memory.read = token, []
    elif memory.is_scratch:
        memory.read.append(token)


def _source(w: Writer) -> Memory:
    return w.pick.choice([*w.inputs, *w.scratches, *w.scratches])


# -- pointers ----------------------------------------------------------------------------------------------------------


def _pointers(w: Writer, memory: Memory, places: Value) -> str:
    """A tile of pointers `places` elements behind the first one of memory."""
    shape, element = places.shape, f"ptr<{memory.element}>"
    whole = tile_type(shape, element)
    base = w.spread(memory.pointer, element, shape).name
    kind = w.pick.choice(("offset", "offset", "offset", "sum", "halves"))
    if kind == "sum" and WIDTHS[memory.element] >= 8:
        wide = tile_type(shape, "i64")
        start, scaled = w.name(), w.fitted(places, shape, "i64") if places.element == "i64" else w.make(
            f"exti {places.name} unsigned : {places.type} -> {wide}", shape, "i64")  # fmt: skip
        size = w.constant(WIDTHS[memory.element] // 8, shape, "i64")
        w.line(f"{start} = ptr_to_int {base} : {whole} -> {wide}")
        distance = w.make(f"muli {scaled.name}, {size.name} : {wide}", shape, "i64")
        total = w.make(f"addi {start}, {distance.name} : {wide}", shape, "i64")
        return w.make(f"int_to_ptr {total.name} : {wide} -> {whole}", shape, element).name
    if kind == "halves":
        few = w.constant(3, shape, places.element)
        high = w.make(f"subi {places.name}, {few.name} : {places.type}", shape, places.element)
        first = w.make(f"offset {base}, {few.name} : {whole}, {few.type} -> {whole}", shape, element)
        return w.make(f"offset {first.name}, {high.name} : {whole}, {high.type} -> {whole}", shape, element).name
    return w.make(f"offset {base}, {places.name} : {whole}, {places.type} -> {whole}", shape, element).name


def _places(w: Writer, shape: Shape, size: int) -> Value:
    """Numbers below a power of two: rows, steps, or any."""
    element = w.pick.choice(("i32", "i32", "i64"))
    kind = w.pick.choice(("row", "row", "step", "any"))
    if kind == "any":
        return w.below(w.integer(shape, element), size)
    if kind == "row" and prod(shape) <= size:
        return w.iota(shape, element)
    return distinct(w, shape, size, element) if prod(shape) <= size else w.below(w.iota(shape, element), size)


def distinct(w: Writer, shape: Shape, size: int, element: str = "i32") -> Value:
    """Different numbers below a power of two: i * odd + start modulo the size."""
    row = w.iota(shape, element)
    if w.pick.chance(0.4):
        return row
    factor = w.constant(w.pick.choice((1, 1, 3, 5, size - 1 if size > 1 else 1)), shape, element)
    start = w.constant(w.pick.randrange(size), shape, element)
    if w.pick.chance(0.3):
        start = w.fitted(w.integer((), element), shape, element)
    scaled = w.make(f"muli {row.name}, {factor.name} : {row.type}", shape, element)
    return w.below(w.make(f"addi {scaled.name}, {start.name} : {row.type}", shape, element), size)


def load_pointers(w: Writer) -> Value:
    memory = _source(w)
    shape = w.shape()
    view = _recast(w, memory) if w.pick.chance(0.2) else memory
    pointers = _pointers(w, view, _places(w, shape, view.size))
    t, p = tile_type(shape, view.element), tile_type(shape, f"ptr<{view.element}>")
    operands, types = pointers, p
    if w.pick.chance(0.5):
        truth, padding = w.truth(shape), w.fitted(w.any(is_exact=True), shape, view.element)
        operands, types = f"{pointers}, {truth.name}, {padding.name}", f"{p}, {truth.type}, {t}"
    order = w.pick.choice(LOADS)
    if view.element == "i1" or prod(shape) > 2048:
        order = "weak"
    hints = w.pick.choice(HINTS).format(w.pick.choice((1, 2, 5, 10)))
    result, token = w.name(), w.name()
    w.line(f"{result}, {token} = load_ptr_tko {order} {operands}{_before_load(w, memory)}{hints} : {types} -> {t},"
           " token")  # fmt: skip
    _after(memory, token, False)
    return w.add(Value(result, shape, view.element))


def _recast(w: Writer, memory: Memory) -> Memory:
    """The same memory as elements of another integer type, where its bits are specified."""
    if memory.element not in INTEGERS or memory.size * WIDTHS[memory.element] < 64:
        return memory
    element = w.pick.choice([each for each in INTEGERS if each != memory.element])
    pointer, between = w.name(), memory.pointer
    source = memory.pointer_type
    if w.pick.chance(0.4):
        between = w.name()
        w.line(f"{between} = ptr_to_ptr {memory.pointer} : {source} -> {tile_type((), 'ptr<i8>')}")
        source = tile_type((), "ptr<i8>")
    if source == tile_type((), f"ptr<{element}>"):
        pointer = between
    else:
        w.line(f"{pointer} = ptr_to_ptr {between} : {source} -> {tile_type((), f'ptr<{element}>')}")
    size = memory.size * WIDTHS[memory.element] // WIDTHS[element]
    return replace(memory, element=element, pointer=pointer, size=size)


def store_pointers(w: Writer) -> None:
    if not w.scratches:
        return
    memory = w.pick.choice(w.scratches)
    value = w.any(is_exact=True)
    count = min(value.size, memory.size)
    shape = value.shape if count == value.size else (count,)
    value = w.fitted(value, shape, memory.element)
    pointers = _pointers(w, memory, distinct(w, shape, memory.size))
    p = tile_type(shape, f"ptr<{memory.element}>")
    mask, type_ = "", ""
    if w.pick.chance(0.4):
        truth = w.truth(shape)
        mask, type_ = f", {truth.name}", f", {truth.type}"
    order = w.pick.choice(STORES)
    if memory.element == "i1" or count > 2048:
        order = "weak"
    before, token = joined(w, memory), w.name()
    hints = w.pick.choice(HINTS).format(w.pick.choice((1, 4)))
    w.line(f"{token} = store_ptr_tko {order} {pointers}, {value.name}{mask} token = {before}{hints}"
           f" : {p}, {value.type}{type_} -> token")  # fmt: skip
    _after(memory, token, True)


# -- atomic operations -------------------------------------------------------------------------------------------------

MODES = {
    **dict.fromkeys(("i32", "i64"), ("add", "and", "or", "xor", "max", "min", "umax", "umin", "xchg")),
    **dict.fromkeys(("f32", "f64"), ("addf", "xchg")), **dict.fromkeys(("f16", "bf16"), ("addf",)),
}  # fmt: skip
ORDERS = [f"{order} {scope}" for order in ("relaxed", "acquire", "release", "acq_rel")
          for scope in ("tl_blk", "device", "sys")]  # fmt: skip


def update(w: Writer) -> None:
    """An atomic operation on distinct places of a scratch, and the values that were there."""
    memories = [each for each in w.scratches if each.element in MODES]
    if not memories:
        return
    memory = w.pick.choice(memories)
    shape = w.shape(min(memory.size, 512))
    t, p = tile_type(shape, memory.element), tile_type(shape, f"ptr<{memory.element}>")
    argument = w.fitted(w.any(is_exact=True), shape, memory.element)
    pointers = _pointers(w, memory, distinct(w, shape, memory.size))
    truth = w.truth(shape) if w.pick.chance(0.3) else None
    mask, type_ = (f", {truth.name}", f", {truth.type}") if truth is not None else ("", "")
    before, order, token, result = joined(w, memory), w.pick.choice(ORDERS), w.name(), w.name()
    is_exchange = memory.element in ("i32", "i64") and w.pick.chance(0.25)
    if is_exchange:
        new = w.fitted(w.any(is_exact=True), shape, memory.element)
        w.line(f"{result}, {token} = atomic_cas_tko {order} {pointers}, {argument.name}, {new.name}{mask}"
               f" token = {before} : {p}, {t}{type_} -> {t}, token")  # fmt: skip
    else:
        mode = w.pick.choice(MODES[memory.element])
        w.line(f"{result}, {token} = atomic_rmw_tko {order} {pointers}, {mode}, {argument.name}{mask}"
               f" token = {before} : {p}, {t}{type_} -> {t}, token")  # fmt: skip
    _after(memory, token, True)
    if truth is None or is_exchange:
        w.add(Value(result, shape, memory.element))


def tally(w: Writer, memory: Memory, mode: str) -> None:
    """Updates of one mode at any places of memory that all tile blocks share; the results are not used."""
    shape = w.shape(512)
    places = w.below(w.integer(shape), memory.size)
    argument = w.whole(shape, memory.element) if mode == "addf" else w.integer(shape, memory.element)
    pointers, token = _pointers(w, memory, places), w.name()
    t, p = tile_type(shape, memory.element), tile_type(shape, f"ptr<{memory.element}>")
    order = w.pick.choice([each for each in ORDERS if "tl_blk" not in each])
    mask, type_ = "", ""
    if w.pick.chance(0.3):
        truth = w.truth(shape)
        mask, type_ = f", {truth.name}", f", {truth.type}"
    w.line(f"{w.name()}, {token} = atomic_rmw_tko {order} {pointers}, {mode}, {argument.name}{mask}"
           f" : {p}, {t}{type_} -> {t}, token")  # fmt: skip


# -- views -------------------------------------------------------------------------------------------------------------


class View(NamedTuple):
    """A view, its type, the shape of its tiles, and an index for each dimension, with its type."""

    name: str
    type: str
    tile: Shape
    indices: tuple[str, ...]
    index_types: tuple[str, ...]
    is_inside: bool
    """Whether the tile lies inside of the tensor."""

    @property
    def allows_updates(self) -> bool:
        return "padding" not in self.type and not self.type.startswith("gather")


def view(w: Writer, memory: Memory, tile: Shape, stores: bool) -> View | None:
    """A view of memory with tiles of this shape; of stores, one without an element twice."""
    rank = len(tile)
    order = list(range(rank))
    if rank > 1 and w.pick.chance(0.35):
        turn = w.pick.randrange(rank)
        order = order[turn:] + order[:turn][::-1]
    kind = w.pick.choice(("partition", "partition", "partition", "strided", "gather"))
    if kind == "gather":
        order = list(range(rank))
    extents = [0] * rank
    for dim, extent in zip(order, tile, strict=True):
        extents[dim] = _extent(w, extent, WIDTHS[memory.element])
    while prod(extents) > memory.size:
        largest = max(range(rank), key=lambda dim: extents[dim])
        extents[largest] = -(-extents[largest] // 2)
    strides, step = [0] * rank, 1
    for dim in reversed(range(rank)):
        strides[dim] = step
        step *= extents[dim]
    tensor_type, tensor = _tensor(w, memory, extents, strides)
    padding = w.pick.choice(PADDINGS.get(memory.element, ("zero",)))
    is_padded = not stores or w.pick.chance(0.3)
    padded = f"padding_value = {padding}, " if is_padded else ""
    shape = "x".join(map(str, tile))
    name = w.name()
    if kind == "gather":
        along = w.pick.randrange(rank)
        type_ = f"gather_scatter_view<tile=({shape}), {padded}{tensor_type}, sparse_dim={along}>"
        w.line(f"{name} = make_gather_scatter_view {tensor} : {type_}")
        return _gathered(w, View(name, type_, tile, (), (), False), extents, along, stores)
    mapped = f", dim_map={order}" if order != sorted(order) or w.pick.chance(0.1) else ""
    steps = list(tile)
    if kind == "strided":
        steps = [max(1, extent // w.pick.choice((1, 1, 2, 4))) if not stores else extent for extent in tile]
        type_ = f"strided_view<tile=({shape}), traversal_strides=[{','.join(map(str, steps))}], {padded}{tensor_type}"
    else:
        type_ = f"partition_view<tile=({shape}), {padded}{tensor_type}"
    type_ += f"{mapped}>"
    w.line(f"{name} = make_{kind}_view {tensor} : {type_}")
    counts = [-(-extents[order[dim]] // steps[dim]) for dim in range(rank)]
    element = w.pick.choice(("i32", "i32", "i32", "i64"))
    chosen = [_tile_number(w, count, element) for count in counts]
    # Of the last tile of a dimension, a part may be outside.
    is_inside = all(extents[order[dim]] >= (counts[dim] - 1) * steps[dim] + tile[dim] for dim in range(rank))
    return View(name, type_, tile, tuple(chosen), (tile_type((), element),), is_inside)


def _extent(w: Writer, extent: int, width: int) -> int:
    """Elements of a tensor along a dimension: whole tiles, a multiple of 16 bytes, or any number."""
    kind = w.pick.choice(("whole", "whole", "even", "any"))
    if kind == "whole":
        return extent * w.pick.choice((1, 1, 2, 3))
    even = max(1, 128 // width)
    return even * w.pick.choice((1, 2, 3, 5)) if kind == "even" else w.pick.randrange(1, 2 * extent + 3)


def _tile_number(w: Writer, count: int, element: str) -> str:
    if count == 1 or w.pick.chance(0.6):
        return w.index(w.pick.randrange(count), element)
    any_ = w.integer((), element)
    limit = w.constant(count, (), element)
    return w.make(f"remi {any_.name}, {limit.name} unsigned : {any_.type}", (), element).name


def _tensor(w: Writer, memory: Memory, extents: list[int], strides: list[int]) -> tuple[str, str]:
    """The type and the name of a tensor view, with sizes and strides that may be given at run time."""
    dynamic = w.pick.chance(0.35)
    element = w.pick.choice(("i32", "i64"))
    given = [[], []]  # type: list[list[str]]
    words = [[], []]  # type: list[list[str]]
    is_any = False
    for place, numbers in enumerate((extents, strides)):
        for number in numbers:
            if dynamic and w.pick.chance(0.6) and not (place and number == 1):
                given[place].append(_at_run_time(w, number, element))
                words[place].append("?")
                is_any = True
            else:
                given[place].append(str(number))
                words[place].append(str(number))
    type_ = f"tensor_view<{'x'.join(words[0])}x{memory.element}, strides=[{','.join(words[1])}]>"
    name = w.name()
    of = f"{tile_type((), element)} -> " if is_any else ""
    w.line(f"{name} = make_tensor_view {memory.pointer}, shape = [{', '.join(given[0])}],"
           f" strides = [{', '.join(given[1])}] : {of}{type_}")  # fmt: skip
    return type_, name


def _at_run_time(w: Writer, number: int, element: str) -> str:
    """A number that the compiler does not know: the kernel's parameter %one times it."""
    one = "%one" if element == "i32" else "%one64"
    known = w.constant(number, (), element)
    return w.make(f"muli {known.name}, {one} : {known.type}", (), element).name


def _gathered(w: Writer, view_: View, extents: list[int], along: int, stores: bool) -> View | None:
    """Indices of a gather: rows in any order, those of stores distinct; places of elements in other dimensions."""
    indices, types = [], []
    for dim, extent in enumerate(view_.tile):
        if dim == along:
            if stores:
                rows = distinct(w, (extent,), 1 << max(extent - 1, extents[dim] - 1).bit_length())
            else:
                rows = w.below(w.integer((extent,)), 1 << extents[dim].bit_length())
            indices.append(rows.name)
            types.append(rows.type)
        else:
            indices.append(_tile_number(w, extents[dim], "i32"))
            types.append(tile_type((), "i32"))
    return view_._replace(indices=tuple(indices), index_types=tuple(types))


def load_view(w: Writer, memory: Memory | None = None, tile: Shape = ()) -> Value:
    """A tile of some memory, of some shape if none is given."""
    memory = memory or _source(w)
    made = view(w, memory, tile or w.shape(w.most, (1, 1, 2, 2, 2, 3, 4)), False)
    t = tile_type(made.tile, memory.element)
    order = w.pick.choice(LOADS) if w.pick.chance(0.3) and memory.element != "i1" else "weak"
    hints = w.pick.choice(VIEW_HINTS).format(w.pick.choice((1, 2, 5, 10)))
    result, token = w.name(), w.name()
    w.line(f"{result}, {token} = load_view_tko {order} {made.name}[{', '.join(made.indices)}]{_before_load(w, memory)}"
           f"{hints}{_promise(w, made)} : {made.type}, {', '.join(made.index_types)} -> {t}, token")  # fmt: skip
    _after(memory, token, False)
    return w.add(Value(result, made.tile, memory.element))


def _promise(w: Writer, made: View) -> str:
    if not made.is_inside or w.pick.chance(0.6):
        return ""
    return f" inbounds = [{', '.join(['true'] * len(made.tile))}]"


def store_view(w: Writer) -> None:
    if not w.scratches:
        return
    memory = w.pick.choice(w.scratches)
    value = w.any(is_exact=True)
    if not 1 <= len(value.shape) <= 4 or value.size > memory.size:
        value = w.fitted(value, (min(value.size, memory.size),), value.element)
    value = w.fitted(value, value.shape, memory.element)
    made = view(w, memory, value.shape, True)
    order = w.pick.choice(STORES) if w.pick.chance(0.3) and memory.element != "i1" else "weak"
    before, token = joined(w, memory), w.name()
    hints = w.pick.choice(VIEW_HINTS).format(w.pick.choice((1, 3)))
    types = f"{value.type}, {made.type}, {', '.join(made.index_types)}"
    indices = ", ".join(made.indices)
    if memory.element in ("i32", "i64") and w.pick.chance(0.3) and made.allows_updates:
        mode = w.pick.choice(("add", "and", "or", "xor", "max", "umin"))
        scope = w.pick.choice(("tl_blk", "device"))
        w.line(f"{token} = atomic_red_view_tko relaxed {scope} {made.name}[{indices}], {mode}, {value.name}"
               f" token = {before} : {types} -> token")  # fmt: skip
    else:
        w.line(f"{token} = store_view_tko {order} {value.name}, {made.name}[{indices}] token = {before}{hints}"
               f"{_promise(w, made)} : {types} -> token")  # fmt: skip
    _after(memory, token, True)


def sizes(w: Writer) -> Value:
    """Sizes of a tensor or of the grid of its tiles, which are computed with as other numbers are."""
    memory = w.pick.choice(w.inputs)
    extents = [w.pick.randrange(1, 20) for _ in range(w.pick.choice((1, 2, 3)))]
    while prod(extents) > memory.size:
        extents = [max(1, extent // 2) for extent in extents]
    strides = [prod(extents[dim + 1 :]) for dim in range(len(extents))]
    type_, tensor = _tensor(w, memory, extents, strides)
    names = [w.name() for _ in extents]
    element = w.pick.choice(("i32", "i64", "i16"))
    if w.pick.chance(0.5):
        w.line(f"{', '.join(names)} = get_tensor_shape {tensor} : {type_} -> {tile_type((), element)}")
    else:
        tile = "x".join(str(1 << w.pick.randrange(4)) for _ in extents)
        grid, whole = w.name(), f"partition_view<tile=({tile}), {type_}>"
        w.line(f"{grid} = make_partition_view {tensor} : {whole}")
        w.line(f"{', '.join(names)} = get_index_space_shape {grid} : {whole} -> {tile_type((), element)}")
    for name in names:
        w.add(Value(name, (), element))
    return w.scope.values[-1]


STATEMENTS: dict[Callable[[Writer], Value | None], int] = {
    load_pointers: 7, store_pointers: 5, update: 4, load_view: 7, store_view: 5, sizes: 1,
}  # fmt: skip
"""Weights."""
assert set(MODES) <= set(STORED)

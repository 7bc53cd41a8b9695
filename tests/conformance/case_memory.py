"""Kernels that access memory: views of every kind, orders and scopes, atomic updates, globals, allocations, printing.

Operand m is memory that the kernel's body accesses itself; r is the kernel's result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from case_modules import Kernel, Operand, tile_type
from case_values import DTYPES, F4_VALUES, FLOATS, INTEGERS, NARROW, is_integer, values, width

STORED = ("i1", *INTEGERS, *FLOATS, *NARROW, "tf32")
PACKED = "f4E2M1FN"
"""Two elements per byte, accessible through views only."""
SCALES = "f8E8M0FNU"
"""The format has neither zero nor sign."""
SCOPES = ("tl_blk", "device", "sys")


def pointers(base: str, offsets: str, name: str, element: str, shape: Sequence[int]) -> str:
    """%name: a tile of pointers `offsets` (a tile of i32) elements behind the scalar pointer `base`."""
    p, i, ones = tile_type(shape, f"ptr<{element}>"), tile_type(shape, "i32"), tile_type([1] * len(shape), "i32")
    one = ones.replace("i32", f"ptr<{element}>")
    return f"""%{name}_1 = reshape {base} : tile<ptr<{element}>> -> {one}
        %{name}_b = broadcast %{name}_1 : {one} -> {p}
        %{name} = offset %{name}_b, {offsets} : {p}, {i} -> {p}"""


def held(elements: np.ndarray, element: str) -> np.ndarray:
    """An array as it lies in memory: packed elements as bytes, padded to a word because stores of part of a byte access
    whole words."""
    if element != PACKED:
        return elements.copy()
    halves = np.zeros(-(-elements.size // 8) * 8, np.uint8)
    halves[: elements.size] = elements.reshape(-1).astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    return halves[0::2] | halves[1::2] << 4


def elements_of(memory: np.ndarray, element: str, shape: tuple[int, ...]) -> np.ndarray:
    """The inverse of `held`."""
    if element != PACKED:
        return memory.reshape(shape)
    halves = np.stack([memory & 15, memory >> 4], axis=1).reshape(-1)
    return F4_VALUES[halves[: int(np.prod(shape))]].reshape(shape)


def _result(element: str, shape: tuple[int, ...]) -> Operand:
    return Operand("r", element, shape, np.zeros(shape, DTYPES[element]))


# ---- views -----------------------------------------------------------------------------------------------------------


class Grid(NamedTuple):
    """Tiles of an array: traversal strides if they differ from the tile's extents, and the accessed tile."""

    array: tuple[int, ...]
    tile: tuple[int, ...]
    index: tuple[int, ...]
    steps: tuple[int, ...] | None = None
    dim_map: tuple[int, ...] | None = None

    def view(self, element: str, padded: bool) -> str:
        strides = [int(np.prod(self.array[dim + 1 :])) for dim in range(len(self.array))]
        tensor = f"tensor_view<{'x'.join(map(str, self.array))}x{element}, strides=[{','.join(map(str, strides))}]>"
        kind = "partition" if self.steps is None else "strided"
        steps = "" if self.steps is None else f"traversal_strides=[{','.join(map(str, self.steps))}], "
        order = "" if self.dim_map is None else f", dim_map={list(self.dim_map)}"
        padding = "padding_value = zero, " if padded else ""
        return f"{kind}_view<tile=({'x'.join(map(str, self.tile))}), {steps}{padding}{tensor}{order}>"

    def make(self, element: str, padded: bool) -> tuple[str, str, str]:
        """Operations that define %v over %m_p, its type, and the indices."""
        view = self.view(element, padded)
        tensor = view[view.index("tensor_view") : view.index(">") + 1]
        shape, strides = tensor[tensor.index("<") + 1 : tensor.rindex("x")].split("x"), tensor[tensor.index("[") :][:-1]
        lines = [f"%t = make_tensor_view %m_p, shape = [{', '.join(shape)}], strides = {strides} : {tensor}",
                 f"%v = make_{view.split('<')[0]} %t : {view}"]  # fmt: skip
        lines += [f"%i{dim} = constant <i32: {index}> : tile<i32>" for dim, index in enumerate(self.index)]
        return "\n".join(lines), view, ", ".join(f"%i{dim}" for dim in range(len(self.index)))

    def places(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """(coordinates in the tile, coordinates in the array) of the elements inside the array."""
        steps, order = self.steps or self.tile, self.dim_map or tuple(range(len(self.tile)))
        for coordinates in np.ndindex(*self.tile):
            place = [0] * len(self.array)
            for dim, coordinate in enumerate(coordinates):
                place[order[dim]] = self.index[dim] * steps[dim] + coordinate
            if all(at < size for at, size in zip(place, self.array)):
                yield coordinates, tuple(place)


GRIDS = [
    Grid((70,), (32,), (2,)),
    Grid((70,), (32,), (3,), (8,)),
    Grid((9, 40), (8, 16), (1, 2)),
    Grid((9, 40), (4, 16), (3, 1), (2, 24)),
    Grid((20, 30), (16, 8), (1, 2), None, (1, 0)),
    Grid((20, 30), (16, 8), (1, 1), (8, 4), (1, 0)),
    Grid((3, 10, 12), (8, 2, 8), (1, 1, 1), (4, 1, 4), (2, 0, 1)),
]


def _grid_name(grid: Grid) -> str:
    return f"{grid.tile} of {grid.array} steps {grid.steps} map {grid.dim_map}"


def grids(elements: Sequence[str]) -> Iterator[Kernel]:
    for grid, element in itertools.product(GRIDS, elements):
        result, view, indices = grid.make(element, True)
        tile = tile_type(grid.tile, element)

        def cut(memory: np.ndarray, grid: Grid = grid, element: str = element) -> list[np.ndarray]:
            array = elements_of(memory, element, grid.array)
            result = np.zeros(grid.tile, array.dtype)
            for coordinates, place in grid.places():
                result[coordinates] = array[place]
            return [result]

        def put(source: np.ndarray, grid: Grid = grid, element: str = element) -> list[np.ndarray]:
            result = values("any", element, grid.array, "store").copy()
            for coordinates, place in grid.places():
                result[place] = source[coordinates]
            return [held(result, element)]

        a = held(values("any", element, grid.array, "load"), element)
        body = f"{result}\n%r, %k = load_view_tko weak %v[{indices}] : {view}, tile<i32> -> {tile}, token"
        memory = Operand("m", element, grid.array, a, "memory")
        yield Kernel("view", f"load {element} {_grid_name(grid)}", (memory,), body, (_result(element, grid.tile),),
                     reference=cut)  # fmt: skip
        result, view, indices = grid.make(element, False)
        body = f"{result}\n%k = store_view_tko weak %a, %v[{indices}] : {tile}, {view}, tile<i32> -> token"
        source = Operand("a", element, grid.tile, values("any", element, grid.tile, "source"))
        before = held(values("any", element, grid.array, "store"), element)
        target = Operand("m", element, grid.array, before, "memory")
        yield Kernel("view", f"store {element} {_grid_name(grid)}", (source,), body, (target,), reference=put)


PADDINGS = {"zero": 0.0, "neg_zero": -0.0, "nan": np.nan, "pos_inf": np.inf, "neg_inf": -np.inf}


def paddings() -> Iterator[Kernel]:
    """The last tile of an array, mostly out of bounds; paddings are compared by their bits where the type has them."""
    grid = GRIDS[0]
    missing = {"f8E4M3FN": ("pos_inf", "neg_inf"), SCALES: ("neg_zero", "pos_inf", "neg_inf"),
               PACKED: ("nan", "pos_inf", "neg_inf")}  # fmt: skip
    for element, (word, number) in itertools.product((*FLOATS, *NARROW, SCALES, "tf32", PACKED), PADDINGS.items()):
        if word in missing.get(element, ()):
            continue
        a = values("scales" if element == SCALES else "digits", element, grid.array, "padding")
        outside = np.zeros(1, a.dtype) if word == "zero" else np.array([number]).astype(a.dtype)
        expected = np.concatenate([a[64:], np.repeat(outside, 26)])
        value, view, indices = grid.make(element, True)
        value, view = (text.replace("= zero", f"= {word}") for text in (value, view))
        tile, result = tile_type(grid.tile, element), element
        body = f"{value}\n%x, %k = load_view_tko weak %v[{indices}] : {view}, tile<i32> -> {tile}, token\n"
        if element in ("tf32", PACKED):
            body = body.replace("%x", "%r")
        else:
            result = f"i{width(element)}"
            expected = expected.view(DTYPES[result])
            body += f"%r = bitcast %x : {tile} -> {tile_type(grid.tile, result)}"
        memory = Operand("m", element, grid.array, held(a, element), "memory")
        yield Kernel("view", f"padding {element} {word}", (memory,), body, (_result(result, grid.tile),),
                     reference=lambda memory, expected=expected: [expected])  # fmt: skip


SPARSE = [
    ((40,), (16,), 0), ((12, 20), (8, 16), 0), ((12, 20), (8, 16), 1), ((5, 9, 20), (4, 8, 16), 1),
    ((9, 35), (8, 16), 0),
]  # fmt: skip


def sparse(elements: Sequence[str]) -> Iterator[Kernel]:
    """Gathers and scatters of tiles with distinct indices, some of them out of bounds."""
    for (array, tile, along), element in itertools.product(SPARSE, elements):
        if along == len(array) - 1 if element == PACKED else array[-1] % 2:
            continue  # packed elements are not split, and a row of them may begin within a byte
        strides = [int(np.prod(array[dim + 1 :])) for dim in range(len(array))]
        tensor = f"tensor_view<{'x'.join(map(str, array))}x{element}, strides=[{','.join(map(str, strides))}]>"
        order = np.random.default_rng(3).permutation(array[along] + 4)[: tile[along]].astype(np.int32)
        start = 1
        padded = f"gather_scatter_view<tile=({'x'.join(map(str, tile))}), padding_value = zero, {tensor},"
        padded += f" sparse_dim={along}>"
        plain = padded.replace(" padding_value = zero,", "")
        indices = ", ".join("%b" if dim == along else "%one" for dim in range(len(array)))
        rows_type = tile_type((tile[along],), "i32")
        types = ", ".join(rows_type if dim == along else "tile<i32>" for dim in range(len(array)))
        text = f"%t = make_tensor_view %m_p, shape = {list(array)}, strides = {strides} : {tensor}"

        def inside(array: tuple[int, ...] = array, tile: tuple[int, ...] = tile, along: int = along,
                   order: np.ndarray = order) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:  # fmt: skip
            for coordinates in np.ndindex(*tile):
                place = tuple(int(order[c]) if dim == along else start + c for dim, c in enumerate(coordinates))
                if all(at < size for at, size in zip(place, array)):
                    yield coordinates, place

        def gathered(memory: np.ndarray, rows: np.ndarray, tile: tuple[int, ...] = tile, array: tuple[int, ...] = array,
                     element: str = element, inside: Any = inside) -> Any:  # fmt: skip
            source = elements_of(memory, element, array)
            result = np.zeros(tile, source.dtype)
            for coordinates, place in inside():
                result[coordinates] = source[place]
            return [result]

        def scattered(source: np.ndarray, rows: np.ndarray, array: tuple[int, ...] = array, element: str = element,
                      inside: Any = inside) -> Any:  # fmt: skip
            result = values("any", element, array, "scatter").copy()
            for coordinates, place in inside():
                result[place] = source[coordinates]
            return [held(result, element)]

        rows = Operand("b", "i32", (tile[along],), order)
        t = tile_type(tile, element)
        memory = Operand("m", element, array, held(values("any", element, array, "gather"), element), "memory")
        body = f"{text}\n%v = make_gather_scatter_view %t : {padded}\n"
        body += f"%r, %k = load_view_tko weak %v[{indices}] : {padded}, {types} -> {t}, token"
        name = f"{element} {tile} of {array} along {along}"
        yield Kernel("view", f"gather {name}", (memory, rows), body, (_result(element, tile),), reference=gathered)
        source = Operand("a", element, tile, values("any", element, tile, "scattered"))
        before = held(values("any", element, array, "scatter"), element)
        target = Operand("m", element, array, before, "memory")
        body = f"{text}\n%v = make_gather_scatter_view %t : {plain}\n"
        body += f"%k = store_view_tko weak %a, %v[{indices}] : {t}, {plain}, {types} -> token"
        yield Kernel("view", f"scatter {name}", (source, rows), body, (target,), reference=scattered)


# ---- orders ----------------------------------------------------------------------------------------------------------

LOADS = ["weak", *(f"{order} {scope}" for order in ("relaxed", "acquire") for scope in SCOPES)]
STORES = ["weak", *(f"{order} {scope}" for order in ("relaxed", "release") for scope in SCOPES)]


def orders(elements: Sequence[str]) -> Iterator[Kernel]:
    """Copies through pointers, the last quarter masked off, and through views."""
    counts = itertools.cycle((1, 16, 64, 512))
    for element, load, store in itertools.product(elements, LOADS, STORES):
        count = next(counts)
        if element == PACKED:
            count = max(2, count)
        p, t, i, m = (tile_type((count,), e) for e in (f"ptr<{element}>", element, "i32", "i1"))
        limit = max(1, count - count // 4)
        memory = Operand("m", element, (count,), held(values("any", element, (count,), "order"), element), "memory")
        target = Operand("r", element, (count,), np.zeros_like(memory.array), "memory")
        body = f"""%lane = iota : {i}
          %limit = constant <i32: {limit}> : {i}
          %mask = cmpi less_than %lane, %limit, signed : {i} -> {m}
          {pointers("%m_p", "%lane", "mp", element, (count,))}
          {pointers("%r_p", "%lane", "rp", element, (count,))}
          %x, %k0 = load_ptr_tko {load} %mp, %mask : {p}, {m} -> {t}, token
          %k1 = store_ptr_tko {store} %rp, %x, %mask token=%k0 : {p}, {t}, {m} -> token"""

        def kept(memory: np.ndarray, limit: int = limit, element: str = element, count: int = count) -> Any:
            result = elements_of(memory, element, (count,)).copy()
            result[limit:] = np.zeros(count - limit, result.dtype)
            return [held(result, element)]

        name = f"{load} {store} {element} {count}"
        if element != PACKED:
            yield Kernel("order", f"pointers {name}", (memory,), body, (target,), reference=kept)
        tensor = f"tensor_view<{limit}x{element}, strides=[1]>"
        view = f"partition_view<tile=({count}), {tensor}>"
        body = f"""%mt = make_tensor_view %m_p, shape = [{limit}], strides = [1] : {tensor}
          %mv = make_partition_view %mt : {view}
          %rt = make_tensor_view %r_p, shape = [{limit}], strides = [1] : {tensor}
          %rv = make_partition_view %rt : {view}
          %x, %k0 = load_view_tko {load} %mv[%zero] : {view}, tile<i32> -> {t}, token
          %k1 = store_view_tko {store} %x, %rv[%zero] token=%k0 : {t}, {view}, tile<i32> -> token"""
        yield Kernel("order", f"views {name}", (memory,), body, (target,), reference=kept)


# ---- atomic updates --------------------------------------------------------------------------------------------------

ORDERS = ("relaxed", "acquire", "release", "acq_rel")
WORDS = ("i32", "i64")


def _unsigned(choose: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda old, new: choose(old.view(f"u{old.dtype}"), new.view(f"u{new.dtype}")).view(old.dtype)


UPDATES: dict[str, tuple[tuple[str, ...], Callable[..., np.ndarray]]] = {
    "add": (WORDS, np.add), "and": (WORDS, np.bitwise_and), "or": (WORDS, np.bitwise_or),
    "xor": (WORDS, np.bitwise_xor), "max": (WORDS, np.maximum), "min": (WORDS, np.minimum),
    "umax": (WORDS, _unsigned(np.maximum)), "umin": (WORDS, _unsigned(np.minimum)), "addf": (FLOATS, np.add),
    "xchg": ((*WORDS, "f32", "f64"), lambda old, new: new),
}  # fmt: skip


def updates() -> Iterator[Kernel]:
    """Updates of distinct locations that return the old values, and reductions into a view."""
    rotation = itertools.cycle(itertools.product(ORDERS, SCOPES))
    for mode, (elements, function) in UPDATES.items():
        for element, count in itertools.product(elements, (1, 16, 256)):
            domain = "digits" if mode == "addf" else "any"
            before = values(domain, element, (count,), f"{mode} old")
            b = values(domain, element, (count,), f"{mode} new")
            p, t, i = (tile_type((count,), e) for e in (f"ptr<{element}>", element, "i32"))
            for _ in range(4):
                order, scope = next(rotation)
                body = f"""%lane = iota : {i}
                  {pointers("%m_p", "%lane", "mp", element, (count,))}
                  %r, %k = atomic_rmw_tko {order} {scope} %mp, {mode}, %b : {p}, {t} -> {t}, token"""
                memory = Operand("m", element, (count,), before, "memory")

                def both(b: np.ndarray, before: np.ndarray = before, function: Any = function) -> list[np.ndarray]:
                    return [function(before, b).astype(before.dtype), before]

                yield Kernel("atomic", f"atomic_rmw {mode} {element} {count} {order} {scope}",
                             (Operand("b", element, (count,), b),), body, (memory, _result(element, (count,))),
                             reference=both)  # fmt: skip
        if mode == "xchg":
            continue
        for element, grid, scope in itertools.product(elements, GRIDS, SCOPES[:2]):
            result, view, indices = grid.make(element, False)
            tile = tile_type(grid.tile, element)
            before = values(domain, element, grid.array, f"{mode} view")
            body = f"{result}\n%k = atomic_red_view_tko relaxed {scope} %v[{indices}], {mode}, %b : {tile}, {view},"
            body += " tile<i32> -> token"

            def reduced(b: np.ndarray, before: np.ndarray = before, grid: Grid = grid, function: Any = function) -> Any:
                after = before.copy()
                for coordinates, place in grid.places():
                    after[place] = function(np.array([after[place]]), np.array([b[coordinates]]))[0]
                return [after]

            b = values(domain, element, grid.tile, f"{mode} tile")
            yield Kernel("atomic", f"atomic_red_view {mode} {element} {scope} {_grid_name(grid)}",
                         (Operand("b", element, grid.tile, b),), body,
                         (Operand("m", element, grid.array, before, "memory"),), reference=reduced)  # fmt: skip


def exchanges() -> Iterator[Kernel]:
    """cmpxchg: half of the locations hold the expected value; the last quarter is masked off and returns `expected`."""
    for element, count, order, scope in itertools.product((*WORDS, "f32", "f64"), (1, 32, 256), ORDERS, SCOPES):
        before = values("any", element, (count,), "cas old")
        wanted = np.where(np.arange(count) % 2 == 0, before, values("any", element, (count,), "cas other"))
        new = values("any", element, (count,), "cas new")
        limit = max(1, count - count // 4)
        p, t, i, m = (tile_type((count,), e) for e in (f"ptr<{element}>", element, "i32", "i1"))
        body = f"""%lane = iota : {i}
          %limit = constant <i32: {limit}> : {i}
          %mask = cmpi less_than %lane, %limit, signed : {i} -> {m}
          {pointers("%m_p", "%lane", "mp", element, (count,))}
          %r, %k = atomic_cas_tko {order} {scope} %mp, %a, %b, %mask : {p}, {t}, {m} -> {t}, token"""

        def swapped(a: np.ndarray, b: np.ndarray, before: np.ndarray = before, limit: int = limit) -> list[np.ndarray]:
            bits = f"u{before.dtype.itemsize}"
            active = np.arange(before.size) < limit
            after = np.where(active & (before.view(bits) == a.view(bits)), b, before)
            return [after, np.where(active, before, a)]

        inputs = (Operand("a", element, (count,), wanted), Operand("b", element, (count,), new))
        memory = Operand("m", element, (count,), before, "memory")
        yield Kernel("atomic", f"atomic_cas {element} {count} {order} {scope}", inputs, body,
                     (memory, _result(element, (count,))), reference=swapped)  # fmt: skip


# ---- memory of modules and of blocks ---------------------------------------------------------------------------------


def globals_(elements: Sequence[str]) -> Iterator[Kernel]:
    """Read a global, overwrite it in reverse and read it again."""
    for element, count, flags in itertools.product(elements, (1, 8, 128), ("", "private ")):
        domain = "any" if is_integer(element) else "scales" if element == SCALES else "digits"
        initial = values(domain, element, (count,), "global")
        shown = [str(value).lower() if is_integer(element) else str(float(value)) for value in initial]
        p, t, i = (tile_type((count,), e) for e in (f"ptr<{element}>", element, "i32"))
        body = f"""%g = get_global @$entry_global : tile<ptr<{element}>>
          %lane = iota : {i}
          %last = constant <i32: {count - 1}> : {i}
          %turned = subi %last, %lane : {i}
          {pointers("%g", "%lane", "here", element, (count,))}
          {pointers("%g", "%turned", "there", element, (count,))}
          %x, %k0 = load_ptr_tko weak %here : {p} -> {t}, token
          %k1 = store_ptr_tko weak %there, %x token=%k0 : {p}, {t} -> token
          %r, %k2 = load_ptr_tko weak %here token=%k1 : {p} -> {t}, token"""
        declared = f"global {flags}@$entry_global <{element}: [{', '.join(shown)}]> : {t}"
        yield Kernel("global", f"global {flags}{element} {count}", (), body, (_result(element, (count,)),),
                     reference=lambda initial=initial: [initial[::-1]], globals_=declared)  # fmt: skip


def allocations(elements: Sequence[str]) -> Iterator[Kernel]:
    """Write memory of the block and read it back in reverse, in the same block: shared memory and the heap."""
    for element, count, alignment in itertools.product(elements, (1, 8, 1024), (8, 32, 256)):
        a = values("any", element, (count,), "alloca")
        p, t, i = (tile_type((count,), e) for e in (f"ptr<{element}>", element, "i32"))
        shared = " global" if alignment == 8 else ""
        body = f"""%g = alloca num_elem = {count}, alignment = {alignment}{shared} : tile<ptr<{element}>>
          %lane = iota : {i}
          %last = constant <i32: {count - 1}> : {i}
          %turned = subi %last, %lane : {i}
          {pointers("%g", "%lane", "here", element, (count,))}
          {pointers("%g", "%turned", "there", element, (count,))}
          %k1 = store_ptr_tko weak %there, %a : {p}, {t} -> token
          %r, %k2 = load_ptr_tko weak %here token=%k1 : {p} -> {t}, token"""
        yield Kernel("alloca", f"alloca {element} {count} {alignment}", (Operand("a", element, (count,), a),), body,
                     (_result(element, (count,)),), reference=lambda a: [a[::-1]])  # fmt: skip


def packed_blocks() -> Iterator[Kernel]:
    """Globals and allocations of packed elements, which a view reads; allocations are written first."""
    t = tile_type((64,), PACKED)
    tensor = f"tensor_view<64x{PACKED}, strides=[1]>"
    view = f"partition_view<tile=(64), {tensor}>"
    text = f"""%t = make_tensor_view %g, shape = [64], strides = [1] : {tensor}
          %v = make_partition_view %t : {view}
          %r, %k0 = load_view_tko weak %v[%zero] TOKEN : {view}, tile<i32> -> {t}, token"""
    a = values("any", PACKED, (64,), "packed")
    for flags in ("", "private "):
        body = f"%g = get_global @$entry_global : tile<ptr<{PACKED}>>\n" + text.replace(" TOKEN", "")
        declared = f"global {flags}@$entry_global <{PACKED}: [{', '.join(map(str, a))}]> : {t}"
        yield Kernel("global", f"global {flags}{PACKED}", (), body, (_result(PACKED, (64,)),), reference=lambda: [a],
                     globals_=declared)  # fmt: skip
    for alignment in (8, 32, 256):
        head, _, load = text.rpartition("\n")
        body = f"""%g = alloca num_elem = 64, alignment = {alignment} : tile<ptr<{PACKED}>>
          {head}
          %k = store_view_tko weak %a, %v[%zero] : {t}, {view}, tile<i32> -> token
          {load.replace("TOKEN", "token=%k")}"""
        yield Kernel("alloca", f"alloca {PACKED} {alignment}", (Operand("a", PACKED, (64,), a),), body,
                     (_result(PACKED, (64,)),), reference=lambda a: [a])  # fmt: skip


CONVERSIONS = {"i1": "%d", "i8": "%d", "i16": "%6d", "i32": "%x", "i64": "%lld"}
PRINTED = [(), (1,), (32,), (2, 8), (4, 2, 4, 2), (64,), (2, 64), (256, 8)]


def prints(elements: Sequence[str]) -> Iterator[Kernel]:
    """Print; the texts are compared."""
    for element, shape in itertools.product(elements, PRINTED):
        if int(np.prod(shape)) > 256 and element not in ("i8", "f64"):
            continue
        a = values("any" if is_integer(element) else "angles", element, shape or (1,), "print")
        spec = CONVERSIONS.get(element, "%.9g")
        operand = Operand("a", element, shape, a, "static" if shape else "scalar")
        body = f'%k = print_tko "[{spec}|%%]", %a : {tile_type(shape, element)} -> token'
        yield Kernel("print", f"print {element} {shape}", (operand,), body, (), prints=True)


def memory_kernels() -> Iterator[Kernel]:
    yield from grids(STORED)
    yield from sparse(STORED)
    yield from orders(STORED)
    yield from updates()
    yield from exchanges()
    yield from globals_(STORED)
    yield from allocations(STORED)
    yield from prints(STORED)
    more: Iterator[Kernel] = itertools.chain(
        *(family((SCALES, PACKED)) for family in (grids, sparse, orders)),
        *(family((SCALES,)) for family in (globals_, allocations, prints)),
        paddings(),
        packed_blocks(),
    )
    yield from (kernel._replace(family="narrow") for kernel in more)

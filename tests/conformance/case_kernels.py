"""The conformance kernels: rows of the tables x element types x shapes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from case_control import control_kernels
from case_memory import memory_kernels
from case_modules import Kernel, Operand, tile_type, whole_tiles
from case_products import far_scales, products, scaled_products
from case_values import DTYPES, F4_VALUES, FLOATS, INTEGERS, NARROW, is_integer, values, width
from operation_table import INTEGERS_1, ROWS, Row


class Shape(NamedTuple):
    """A tile, the array that contains it, and the access to the array."""

    tile: tuple[int, ...]
    array: tuple[int, ...]
    access: str

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.tile)) or 'scalar'} of {'x'.join(map(str, self.array))} {self.access}"


# Tiles with fewer elements than a warp and than four warps have threads, with as many, with more; sizes that are no
# multiples of the tile; every rank; one element and 128x256.
SHAPES = [
    Shape((), (1,), "scalar"),
    Shape((1,), (1,), "static"),
    Shape((1,), (3,), "pointer"),
    Shape((8,), (13,), "dynamic"),
    Shape((64,), (64,), "pointer"),
    Shape((128,), (300,), "static"),
    Shape((1024,), (1500,), "pointer"),
    Shape((256, 1), (200, 1), "static"),
    Shape((1, 32), (3, 31), "dynamic"),
    Shape((4, 64), (7, 100), "pointer"),
    Shape((16, 16), (33, 40), "dynamic"),
    Shape((2, 8, 16), (3, 9, 21), "static"),
    Shape((1, 1, 1, 1), (2, 1, 2, 1), "pointer"),
    Shape((2, 4, 8, 2), (3, 5, 7, 2), "dynamic"),
    Shape((128, 256), (128, 250), "static"),
]


def grid_of(shape: Shape) -> tuple[int, ...]:
    return tuple(-(-size // tile) for size, tile in zip(shape.array, shape.tile))[:3] or (1,)


def is_tile(shape: Sequence[int], element: str) -> bool:
    """Tiles of f4E2M1FN have an even number of elements."""
    return element != "f4E2M1FN" or np.prod(shape) % 2 == 0


def shapes_for(*elements: str) -> list[Shape]:
    return [shape for shape in SHAPES if all(is_tile(shape.tile, element) for element in elements)]


# ---- element-wise operations -----------------------------------------------------------------------------------------


def elementwise(row: Row, element: str, shape: Shape) -> Kernel:
    inputs = []
    for (domain, own), name in zip(row.operands, "abc"):
        seed = f"{row.name} {name}"
        array = values(domain, own or element, shape.array, seed)
        inputs.append(Operand(name, own or element, shape.tile, array, shape.access))
    result = row.result or element
    types = {f"t{n}": tile_type(shape.tile, operand.element) for n, operand in enumerate(inputs)}
    text = row.text.format(t=types["t0"], r=tile_type(shape.tile, result), **types)
    output = Operand("r", result, shape.tile, np.zeros(shape.array, DTYPES[result]), shape.access)

    def reference(*arrays: np.ndarray) -> list[np.ndarray]:
        assert row.reference is not None
        return [np.asarray(row.reference(*arrays, result))]

    return Kernel(row.family, f"{row.name} {element} {shape}", tuple(inputs), f"%r = {text}", (output,),
                  grid_of(shape), row.ulps.get(element, 0), row.reference and reference)  # fmt: skip


# ---- operations on whole tiles ---------------------------------------------------------------------------------------


class Combiner(NamedTuple):
    """A reduction: operation, identity by element type as text, domain of its inputs, NumPy's equivalent."""

    operation: str
    domain: str
    identity: dict[str, str]
    function: Any


_LOW = {f"i{w}": str(-(2 ** (w - 1))) for w in (8, 16, 32, 64)}
_INFINITY = {"f16": "7C00", "bf16": "7F80", "f32": "7F800000", "f64": "7FF0000000000000"}
_MINUS_INFINITY = {"f16": "FC00", "bf16": "FF80", "f32": "FF800000", "f64": "FFF0000000000000"}
COMBINERS = [
    Combiner("addi %x, %y", "any", dict.fromkeys(INTEGERS, "0"), np.add),
    Combiner("muli %x, %y", "any", dict.fromkeys(INTEGERS, "1"), np.multiply),
    Combiner("xori %x, %y", "any", dict.fromkeys(INTEGERS, "0"), np.bitwise_xor),
    Combiner("andi %x, %y", "any", dict.fromkeys(INTEGERS, "-1"), np.bitwise_and),
    Combiner("maxi %x, %y signed", "any", _LOW, np.maximum),
    # Exact in any order: mostly zeros, or factors of magnitude one.
    Combiner("addf %x, %y", "tiny", dict.fromkeys(FLOATS, "0.0"), np.add),
    Combiner("mulf %x, %y", "signs", dict.fromkeys(FLOATS, "1.0"), np.multiply),
    # These have no numeric identity; NaN serves as one.
    Combiner("maxf %x, %y", "any", {e: f"0x{bits}" for e, bits in _MINUS_INFINITY.items()}, np.fmax),
    Combiner("minf %x, %y", "any", {e: f"0x{bits}" for e, bits in _INFINITY.items()}, np.fmin),
    Combiner("maxf %x, %y propagate_nan", "any", {e: f"0x{bits}" for e, bits in _MINUS_INFINITY.items()}, np.maximum),
    Combiner("minf %x, %y propagate_nan", "any", {e: f"0x{bits}" for e, bits in _INFINITY.items()}, np.minimum),
]
AGGREGATES = [
    ((1,), 0), ((8,), 0), ((128,), 0), ((1024,), 0), ((1, 32), 0), ((64, 8), 0), ((64, 8), 1), ((2, 256), 1),
    ((4, 8, 16), 1), ((2, 4, 8, 2), 2), ((128, 256), 1), ((128, 256), 0),
]  # fmt: skip


def aggregate(kind: str, combiner: Combiner, element: str, shape: tuple[int, ...], axis: int, reverse: bool) -> Kernel:
    scalar, source = tile_type((), element), tile_type(shape, element)
    identity = f"identities=[{combiner.identity[element]} : {element}]"
    result = shape[:axis] + shape[axis + 1 :] if kind == "reduce" else shape
    flags = "" if kind == "reduce" else f" reverse={str(reverse).lower()}"
    body = f"""%r = {kind} %a dim={axis}{flags} {identity} : {source} -> {tile_type(result, element)}
      (%x: {scalar}, %y: {scalar}) {{
      %z = {combiner.operation} : {scalar}
      yield %z : {scalar}
      }}"""
    array = values(combiner.domain, element, shape, combiner.operation)

    def reference(a: np.ndarray) -> np.ndarray:
        wide = a if is_integer(element) else a.astype(np.float64)
        if kind == "reduce":
            return combiner.function.reduce(wide, axis=axis, dtype=wide.dtype)
        wide = np.flip(wide, axis) if reverse else wide
        accumulate = combiner.function.accumulate(wide, axis=axis, dtype=wide.dtype)
        return np.flip(accumulate, axis) if reverse else accumulate

    words = combiner.operation.replace("%x, %y", "").split()
    name = f"{kind}{' reverse' if reverse else ''} {' '.join(words)} {element} {shape} dim {axis}"
    return whole_tiles(kind, name, [(element, array)], body, element, result, reference)


def aggregates() -> Iterator[Kernel]:
    for combiner in COMBINERS:
        for element in combiner.identity:
            for shape, axis in AGGREGATES:
                yield aggregate("reduce", combiner, element, shape, axis, False)
                if np.prod(shape) <= 2048:
                    for reverse in (False, True):
                        yield aggregate("scan", combiner, element, shape, axis, reverse)


PERMUTATIONS = [
    ((1, 32), (1, 0)), ((32, 32), (1, 0)), ((4, 64), (1, 0)), ((128, 256), (1, 0)), ((8, 4, 16), (2, 0, 1)),
    ((2, 8, 16), (0, 2, 1)), ((2, 4, 8, 2), (3, 1, 0, 2)), ((1, 1, 1, 1), (3, 2, 1, 0)),
]  # fmt: skip
RESHAPES = [
    ((64,), (8, 8)), ((8, 8), (64,)), ((4, 32), (32, 4)), ((2, 4, 16), (8, 16)), ((16, 1), (1, 16)), ((1,), (1, 1, 1)),
    ((2, 2, 2, 2), (16,)), ((128, 256), (256, 128)), ((1024,), (4, 4, 8, 8)),
]  # fmt: skip
BROADCASTS = [
    ((1,), (128,)), ((16, 1), (16, 32)), ((1, 32), (16, 32)), ((1, 4, 1), (8, 4, 16)), ((1, 1), (128, 256)),
    ((2, 1, 8, 1), (2, 4, 8, 2)), ((1, 1), (1, 1)),
]  # fmt: skip
CUTS = [((1,), 0), ((64,), 0), ((8, 16), 0), ((8, 16), 1), ((2, 4, 8), 1), ((2, 2, 4, 4), 3), ((128, 128), 1)]
MOVED = ("i1", "i4", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", *NARROW, "f8E8M0FNU", "f4E2M1FN")


def _digits(values_: np.ndarray, element: str) -> str:
    """The elements of a tile as text: integers as numbers, floats as bit patterns."""
    if is_integer(element):
        return "[" + ", ".join(str(value).lower() for value in values_.tolist()) + "]"
    held = values_.astype(ml_dtypes.float4_e2m1fn).view(np.uint8) if element == "f4E2M1FN" else values_
    patterns = held.view(f"uint{8 * held.itemsize}").tolist()
    return "[" + ", ".join(f"0x{pattern:0{width(element) // 4}X}" for pattern in patterns) + "]"


def constants() -> Iterator[Kernel]:
    for element in MOVED:
        for shape in ((2,), (64,), (512,)):
            if element == "i4":
                continue  # no constants of it
            a = values("any", element, shape, "constant")
            for kind, text, expected in (
                ("splat", _digits(a[:1], element)[1:-1], np.broadcast_to(a[:1], shape)),
                ("dense", _digits(a, element), a),
            ):
                body = f"%r = constant <{element}: {text}> : {tile_type(shape, element)}"
                name = f"constant {kind} {element} {shape}"
                yield whole_tiles("shape", name, [], body, element, shape, lambda e=expected: e)


def movements() -> Iterator[Kernel]:
    return (k for k in _movements() if all(is_tile(o.tile, o.element) for o in (*k.inputs, *k.outputs)))


def _movements() -> Iterator[Kernel]:
    """Operations that rearrange elements."""
    for element in MOVED:
        for shape, order in PERMUTATIONS:
            a, result = values("any", element, shape, "permute"), tuple(shape[dim] for dim in order)
            body = f"%r = permute %a {list(order)} : {tile_type(shape, element)} -> {tile_type(result, element)}"
            name = f"permute {element} {shape} {order}"
            yield whole_tiles("shape", name, [(element, a)], body, element, result, lambda a, o=order: a.transpose(o))
        for shape, result in RESHAPES:
            a = values("any", element, shape, "reshape")
            body = f"%r = reshape %a : {tile_type(shape, element)} -> {tile_type(result, element)}"
            name = f"reshape {element} {shape} {result}"
            yield whole_tiles("shape", name, [(element, a)], body, element, result, lambda a, s=result: a.reshape(s))
        for shape, result in BROADCASTS:
            a = values("any", element, shape, "broadcast")
            body = f"%r = broadcast %a : {tile_type(shape, element)} -> {tile_type(result, element)}"
            name = f"broadcast {element} {shape} {result}"
            yield whole_tiles("shape", name, [(element, a)], body, element, result,
                              lambda a, s=result: np.broadcast_to(a, s))  # fmt: skip
        for shape, axis in CUTS:
            yield from _cuts(element, shape, axis)
    for element in INTEGERS:
        for size in (1, 2, 64, 2048):
            # Numbers beyond the type's range wrap.
            if size <= 2 ** (DTYPES[element].itemsize * 8 - 1):
                body = f"%r = iota : {tile_type((size,), element)}"
                yield whole_tiles("shape", f"iota {element} {size}", [], body, element, (size,),
                                  lambda s=size: np.arange(s))  # fmt: skip


def _cuts(element: str, shape: tuple[int, ...], axis: int) -> Iterator[Kernel]:
    double = tuple(size * (1 + (dim == axis)) for dim, size in enumerate(shape))
    a, b = (values("any", element, shape, f"cut {name}") for name in "ab")
    whole = values("any", element, double, "cut")
    t, d = tile_type(shape, element), tile_type(double, element)
    places = ", ".join("%one" if dim == axis else "%zero" for dim in range(len(shape)))
    second = tuple(slice(shape[axis], None) if dim == axis else slice(None) for dim in range(len(shape)))
    name = f"{element} {shape} dim {axis}"

    def inserted(small: np.ndarray, large: np.ndarray) -> np.ndarray:
        large = large.copy()
        large[second] = small
        return large

    yield whole_tiles("shape", f"cat {name}", [(element, a), (element, b)],
                      f"%r = cat %a, %b dim = {axis} : {t}, {t} -> {d}", element, double,
                      lambda a, b: np.concatenate([a, b], axis))  # fmt: skip
    yield whole_tiles("shape", f"extract {name}", [(element, whole)], f"%r = extract %a[{places}] : {d} -> {t}",
                      element, shape, lambda a: a[second])  # fmt: skip
    yield whole_tiles("shape", f"insert {name}", [(element, a), (element, whole)],
                      f"%r = insert %a, %b[{places}] : {t}, {d}", element, double, inserted)  # fmt: skip


PACKED = ["i1", "i4", *INTEGERS[1:], *FLOATS, "tf32", "f4E2M1FN"]


def _bytes_of(a: np.ndarray, element: str) -> np.ndarray:
    """Elements as they lie in memory; sub-byte elements are packed, the first in the low bits."""
    if width(element) >= 8:
        return a.view(np.int8)
    if element == "i1":
        return np.packbits(a, bitorder="little").view(np.int8)
    if element == "f4E2M1FN":
        a = a.astype(ml_dtypes.float4_e2m1fn).view(np.int8)
    return (a[0::2] & 15 | a[1::2] << 4).astype(np.int8)


def _elements_of(b: np.ndarray, element: str) -> np.ndarray:
    if width(element) >= 8:
        return b.view(DTYPES[element])
    if element == "i1":
        return np.unpackbits(b.view(np.uint8), bitorder="little").astype(np.bool_)
    halves = np.stack([b & 15, b.view(np.uint8) >> 4], axis=1).reshape(-1).astype(np.int8)
    return F4_VALUES[halves] if element == "f4E2M1FN" else (halves ^ 8) - np.int8(8)


def packing() -> Iterator[Kernel]:
    for element in PACKED:
        for count in (1, 2, 8, 128, 1024):
            size, rest = divmod(width(element) * count, 8)
            if rest:
                continue
            a, b = values("any", element, (count,), "pack"), values("any", "i8", (size,), "unpack")
            wide, bytes_ = tile_type((count,), element), tile_type((size,), "i8")
            yield whole_tiles("packing", f"pack {element} {count}", [(element, a)],
                              f"%r = pack %a : {wide} -> {bytes_}", "i8", (size,),
                              lambda a, e=element: _bytes_of(a, e))  # fmt: skip
            yield whole_tiles("packing", f"unpack {element} {count}", [("i8", b)],
                              f"%r = unpack %a : {bytes_} -> {wide}", element, (count,),
                              lambda b, e=element: _elements_of(b, e))  # fmt: skip


# ---- memory ----------------------------------------------------------------------------------------------------------

PADDINGS = {"zero": 0.0, "neg_zero": -0.0, "nan": np.nan, "pos_inf": np.inf, "neg_inf": -np.inf}
ATOMICS: dict[str, tuple[tuple[str, ...], Any]] = {
    "add": (("i32", "i64"), np.add), "and": (("i32", "i64"), np.bitwise_and), "or": (("i32", "i64"), np.bitwise_or),
    "xor": (("i32", "i64"), np.bitwise_xor), "max": (("i32", "i64"), np.maximum), "min": (("i32", "i64"), np.minimum),
    "umax": (("i32", "i64"), None), "umin": (("i32", "i64"), None), "addf": (("f16", "bf16", "f32", "f64"), np.add),
    "xchg": (("i32", "i64", "f32", "f64"), None),
}  # fmt: skip
PLACES = 20


def memory() -> Iterator[Kernel]:
    for shape in SHAPES[1:]:
        for element in (*INTEGERS_1, *FLOATS, *NARROW, "f8E8M0FNU", "tf32"):
            array = values("any", element, shape.array, "copy")
            inputs = (Operand("a", element, shape.tile, array, shape.access),)
            output = Operand("r", element, shape.tile, np.zeros(shape.array, DTYPES[element]), shape.access)
            body = f"%r = reshape %a : {tile_type(shape.tile, element)} -> {tile_type(shape.tile, element)}"
            yield Kernel("memory", f"copy {element} {shape}", inputs, body, (output,), grid_of(shape),
                         reference=lambda a: [a])  # fmt: skip
    for tile, array in (((64,), (50,)), ((16, 32), (9, 31)), ((2, 4, 8, 2), (2, 3, 7, 1))):
        for element in FLOATS:
            for padding, value in PADDINGS.items():
                yield _padded(element, tile, array, padding, value)
    for count in (1, 16, 64, 512):
        for mode, (elements, function) in ATOMICS.items():
            for element in elements:
                yield _atomic(mode, element, count, function)


def _padded(element: str, tile: tuple[int, ...], array: tuple[int, ...], padding: str, value: float) -> Kernel:
    def reference(a: np.ndarray) -> list[np.ndarray]:
        full = np.full(tile, value).astype(a.dtype)
        full[tuple(slice(size) for size in a.shape)] = a
        return [full]

    a = Operand("a", element, tile, values("any", element, array, "pad"), "dynamic", padding)
    output = Operand("r", element, tile, np.zeros(tile, DTYPES[element]))
    t = tile_type(tile, element)
    return Kernel("memory", f"padding {padding} {element} {tile}", (a,), f"%r = reshape %a : {t} -> {t}", (output,),
                  reference=reference)  # fmt: skip


def _atomic(mode: str, element: str, count: int, function: Any) -> Kernel:
    """`count` updates of a few locations, the last quarter masked off; for xchg, all locations are different."""
    generator = np.random.default_rng(count)
    size = count if mode == "xchg" else PLACES
    places = (generator.permutation(count) if mode == "xchg" else generator.integers(0, size, count)).astype(np.int32)
    updates = values("digits" if mode == "addf" else "any", element, (count,), mode)
    before = values("digits" if mode == "addf" else "any", element, (size,), f"{mode} memory")
    limit = max(1, count - count // 4)
    p, t = tile_type((count,), f"ptr<{element}>"), tile_type((count,), element)
    i, m, one = tile_type((count,), "i32"), tile_type((count,), "i1"), tile_type((1,), f"ptr<{element}>")
    body = f"""%lane = iota : {i}
      %limit = constant <i32: {limit}> : {i}
      %mask = cmpi less_than %lane, %limit, signed : {i} -> {m}
      %p1 = reshape %m_p : tile<ptr<{element}>> -> {one}
      %pb = broadcast %p1 : {one} -> {p}
      %pp = offset %pb, %a : {p}, {i} -> {p}
      %old, %t = atomic_rmw_tko relaxed device %pp, {mode}, %b, %mask : {p}, {t}, {m} -> {t}, token"""

    def reference(places: np.ndarray, updates: np.ndarray) -> list[np.ndarray]:
        after = before.copy()
        for place, update in zip(places[:limit], updates[:limit]):
            if mode == "xchg":
                after[place] = update
            elif function is None:
                pair = after[place].view(f"u{after.dtype}"), update.view(f"u{after.dtype}")
                after[place] = (max if mode == "umax" else min)(pair).view(after.dtype)
            else:
                after[place] = function(after[place], update)
        return [after]

    inputs = (Operand("a", "i32", (count,), places), Operand("b", element, (count,), updates))
    output = Operand("m", element, (size,), before, "memory")
    return Kernel("atomic", f"atomic_rmw {mode} {element} {count}", inputs, body, (output,), reference=reference)


# ---- all -------------------------------------------------------------------------------------------------------------


def all_kernels() -> Iterator[Kernel]:
    for row in ROWS:
        for element in row.elements:
            for shape in shapes_for(element, row.result):
                yield elementwise(row, element, shape)
    yield from aggregates()
    yield from movements()
    yield from constants()
    yield from packing()
    yield from products()
    yield from scaled_products()
    yield from memory()
    yield from memory_kernels()
    yield from control_kernels()
    yield from far_scales()


@functools.cache
def pairwise_kernels() -> tuple[Kernel, ...]:
    """Every pair (row, element), (row, shape) and (element, shape) about once: shapes rotate as rows and types do.

    The largest tiles are left to the full run.
    """
    return tuple(_pairwise())


def _pairwise() -> Iterator[Kernel]:
    for row_number, row in enumerate(ROWS):
        for number, element in enumerate(row.elements):
            small = [shape for shape in shapes_for(element, row.result) if np.prod(shape.tile) <= 1024]
            yield elementwise(row, element, small[(5 * row_number + 3 * number) % len(small)])
    for family in (aggregates, movements, constants, packing, products, scaled_products, far_scales, memory):
        kernels = [k for k in family() if all(np.prod(o.tile) <= 2048 for o in (*k.inputs, *k.outputs))]
        # A stride coprime to the lengths of the tables' rows visits all columns.
        yield from kernels[::11]
    yield from list(memory_kernels())[::19]
    yield from list(control_kernels())[::-13]


ENTRIES = 12


def modules(kernels: list[Kernel]) -> list[list[Kernel]]:
    """Several small kernels per module; kernels with large tiles are grouped too, since they take longest."""
    by_family: dict[tuple[str, bool], list[Kernel]] = {}
    for kernel in kernels:
        large = any(operand.array.size > 4096 for operand in (*kernel.inputs, *kernel.outputs))
        by_family.setdefault((kernel.family, large), []).append(kernel)
    return [group[at : at + ENTRIES] for group in by_family.values() for at in range(0, len(group), ENTRIES)]

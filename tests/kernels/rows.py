"""Kernels without dots: elementwise, along rows, scans, gathers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .views import ONE, Kernel, View, entry, of_rows, reduced, tile_type, whole_numbers


def fused_multiply_add(count: int = 1024) -> Kernel:
    """Z = X Y + Z, a tile for each tile block of four."""
    x, y, z = (View(name, (count,), "f32", (4 * count,)) for name in "xyz")
    body = [
        "%i, %j, %k = get_tile_block_id : tile<i32>",
        *(view.load(view.name, "%i") for view in (x, y, z)),
        f"%p = mulf %x, %y : {x.tile}",
        f"%r = addf %p, %z : {x.tile}",
        z.store("r", "%i", token="%k_z"),
    ]
    a, b, c = (whole_numbers(4 * count, "f32", seed) for seed in range(3))
    return Kernel(entry([x, y, z], body), (a, b), (c,), (a * b + c,), grid=4)


def row_sums_of_powers(rows: int = 16, columns: int = 128) -> Kernel:
    """2^(x - the row's maximum), and the rows' sums of them: a softmax without its division, which is exact."""
    x, y = View("x", (rows, columns), "f32"), View("y", (rows, columns), "f32")
    total = View("s", (rows,), "f32")
    body = [
        x.load("x"),
        reduced("most", "x", (rows, columns), 1, "maxf", "0xFF800000"),
        of_rows("all", "most", (rows, columns)),
        f"%d = subf %x, %all : {x.tile}",
        f"%e = exp2 %d : {x.tile}",
        reduced("sum", "e", (rows, columns), 1),
        y.store("e"),
        total.store("sum"),
    ]
    a = whole_numbers((rows, columns), "f32")
    wanted = np.exp2(a - a.max(1, keepdims=True))
    sums = wanted.sum(1)
    outputs = np.zeros_like(a), np.zeros_like(sums)
    return Kernel(entry([x, y, total], body), (a,), outputs, (wanted, sums))


def centered_rows(rows: int = 16, columns: int = 128) -> Kernel:
    """Each row less its mean, times a weight of each column: a norm without its division."""
    x, y, weights = View("x", (rows, columns), "f32"), View("y", (rows, columns), "f32"), View("w", (1, columns), "f32")
    whole = x.tile
    body = [
        x.load("x"), weights.load("w"),
        f"%share = constant <f32: {1 / columns}> : {tile_type((rows,), 'f32')}",
        reduced("sum", "x", (rows, columns), 1),
        f"%mean = mulf %sum, %share : {tile_type((rows,), 'f32')}",
        of_rows("means", "mean", (rows, columns)),
        f"%d = subf %x, %means : {whole}",
        f"%ws = broadcast %w : {weights.tile} -> {whole}",
        f"%r = mulf %d, %ws : {whole}",
        y.store("r"),
    ]  # fmt: skip
    a, w = whole_numbers((rows, columns), "f32"), whole_numbers((1, columns), "f32", 1)
    wanted = (a - a.mean(1, keepdims=True)) * w
    # Parameters in the order of the views: outputs are last.
    return Kernel(entry([x, weights, y], body), (a, w), (np.zeros_like(a),), (wanted,))


def running_sums(count: int = 512) -> Kernel:
    """The inclusive scan of a vector."""
    x, y = View("x", (count,), "f32"), View("y", (count,), "f32")
    scan = f"""%r = scan %x dim=0 reverse=false identities=[0.0 : f32] : {x.tile} -> {x.tile}
      (%u: tile<f32>, %v: tile<f32>) {{
        %w = addf %u, %v : tile<f32>
        yield %w : tile<f32>
      }}"""
    a = whole_numbers(count, "f32")
    return Kernel(entry([x, y], [x.load("x"), scan, y.store("r")]), (a,), (np.zeros_like(a),), (np.cumsum(a),))


def gathered(count: int = 256, of: int = 1000) -> Kernel:
    """Y = X[I] through pointers, -1 where an index is out of bounds."""
    indices, y = View("i", (count,), "i32"), View("y", (count,), "f32")
    pointers, flags = f"tile<{count}xptr<f32>>", tile_type((count,), "i1")
    body = [
        indices.load("i"),
        f"%none = constant <i32: 0> : {indices.tile}",
        f"%end = constant <i32: {of}> : {indices.tile}",
        f"%missing = constant <f32: -1.0> : {y.tile}",
        f"%from = cmpi greater_than_or_equal %i, %none, signed : {indices.tile} -> {flags}",
        f"%below = cmpi less_than %i, %end, signed : {indices.tile} -> {flags}",
        f"%inside = andi %from, %below : {flags}",
        "%x_1 = reshape %p_x : tile<ptr<f32>> -> tile<1xptr<f32>>",
        f"%x_all = broadcast %x_1 : tile<1xptr<f32>> -> {pointers}",
        f"%at = offset %x_all, %i : {pointers}, {indices.tile} -> {pointers}",
        f"%r, %t = load_ptr_tko weak %at, %inside, %missing : {pointers}, {flags}, {y.tile} -> {y.tile}, token",
        y.store("r"),
    ]
    x = View("x", (1,), "f32", (of,))
    table = whole_numbers(of, "f32", 1)
    at = np.random.default_rng(0).integers(-100, of + 100, count).astype(np.int32)
    wanted = np.where((at >= 0) & (at < of), table[at.clip(0, of - 1)], np.float32(-1))
    return Kernel(entry([indices, x, y], body), (at, table), (np.zeros(count, np.float32),), (wanted,))


def scrambled(name: str, factor: int, size: int, along: int, shape: tuple[int, int]) -> list[str]:
    """%NAME, an i32 tile of `shape`: each element is its row's number (`along` 0) or column's times `factor`, modulo
    `size`; the compiler knows nothing about their order."""
    line, wide = tile_type(shape[along : along + 1], "i32"), tile_type(shape, "i32")
    narrow = tile_type((shape[0], 1) if along == 0 else (1, shape[1]), "i32")
    return [
        f"%{name}_count = iota : {line}",
        f"%{name}_factor = constant <i32: {factor}> : {line}",
        f"%{name}_size = constant <i32: {size}> : {line}",
        f"%{name}_many = muli %{name}_count, %{name}_factor : {line}",
        f"%{name}_line = remi %{name}_many, %{name}_size signed : {line}",
        f"%{name}_1 = reshape %{name}_line : {line} -> {narrow}",
        f"%{name} = broadcast %{name}_1 : {narrow} -> {wide}",
    ]


def pointers(name: str, array: str, element: str, offsets: str, shape: tuple[int, ...]) -> list[str]:
    """%NAME, pointers to the elements at %OFFSETS from the parameter of an array."""
    wide, type = tile_type(shape, "i32"), tile_type(shape, f"ptr<{element}>")
    one = tile_type((1,) * len(shape), f"ptr<{element}>")
    return [
        f"%{name}_1 = reshape %p_{array} : tile<ptr<{element}>> -> {one}",
        f"%{name}_all = broadcast %{name}_1 : {one} -> {type}",
        f"%{name} = offset %{name}_all, %{offsets} : {type}, {wide} -> {type}",
    ]


def exchanged(side: int = 64, steps: int = 2) -> Kernel:
    """Y[e, d] = X[d, e] of `steps` square tiles in a loop through pointers, -1 if e > d, masked off if d + e is a
    multiple of 4; d and e are scrambled."""
    x, y = View("x", (1,), "f32", (steps * side * side,)), View("y", (1,), "f32", (steps * side * side,))
    shape = side, side
    wide, flags, tile, to = (tile_type(shape, element) for element in ("i32", "i1", "f32", "ptr<f32>"))

    def at(name: str, array: str, outer: str, inner: str) -> list[str]:
        return [
            f"%{name}_outer = muli %{outer}, %sides : {wide}",
            f"%{name}_place = addi %{name}_outer, %{inner} : {wide}",
            f"%{name}_whole = addi %{name}_place, %begin : {wide}",
            *pointers(name, array, "f32", f"{name}_whole", shape),
        ]

    body = [
        ONE,
        f"%steps = constant <i32: {steps}> : tile<i32>",
        f"%size = constant <i32: {side * side}> : tile<i32>",
        f"%sides = constant <i32: {side}> : {wide}",
        f"%three = constant <i32: 3> : {wide}",
        f"%nothing = constant <i32: 0> : {wide}",
        f"%missing = constant <f32: -1.0> : {tile}",
        "for %i in (%zero to %steps, step %one) : tile<i32> {",
        "%first = muli %i, %size : tile<i32>",
        "%first_1 = reshape %first : tile<i32> -> tile<1x1xi32>",
        f"%begin = broadcast %first_1 : tile<1x1xi32> -> {wide}",
        *scrambled("d", 17, side, 0, shape),
        *scrambled("e", 29, side, 1, shape),
        *at("from", "x", "d", "e"),
        f"%inside = cmpi less_than_or_equal %e, %d, signed : {wide} -> {flags}",
        f"%r, %t = load_ptr_tko weak %from, %inside, %missing : {to}, {flags}, {tile} -> {tile}, token",
        *at("to", "y", "e", "d"),
        f"%sum = addi %d, %e : {wide}",
        f"%left = andi %sum, %three : {wide}",
        f"%kept = cmpi not_equal %left, %nothing, signed : {wide} -> {flags}",
        f"%u = store_ptr_tko weak %to, %r, %kept : {to}, {tile}, {flags} -> token",
        "continue",
        "}",
    ]
    a = whole_numbers((steps, side, side), "f32", 2)
    d, e = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    wanted = np.where((d + e) % 4 == 0, np.float32(0), np.where(e > d, np.float32(-1), a)).swapaxes(1, 2)
    return Kernel(entry([x, y], body), (a.ravel(),), (np.zeros(a.size, np.float32),), (wanted.ravel(),))


def sum_of_neighbours(
    distances: Sequence[int], count: int = 256, *, outside: Sequence[int] = (0,), store_between: bool = False
) -> Kernel:
    """Z[i] = X[i] + 16 X[i + d1] + 256 X[i + d2] + ... through pointers, of i and then each of `distances`.

    Beyond the ends of X, elements are those of `outside`.  `store_between`: all loads but the first follow a store of
    zeros to X, which they must not observe because no token orders them.
    """
    x, z = View("x", (1,), "f32", (count,)), View("z", (count,), "f32")
    pointers, numbers, flags = f"tile<{count}xptr<f32>>", tile_type((count,), "i32"), tile_type((count,), "i1")
    body = [
        "%x_a = assume div_by<16>, %p_x : tile<ptr<f32>>",
        "%x_1 = reshape %x_a : tile<ptr<f32>> -> tile<1xptr<f32>>",
        f"%x_all = broadcast %x_1 : tile<1xptr<f32>> -> {pointers}",
        f"%i = iota : {numbers}",
        f"%none = constant <i32: 0> : {numbers}",
        f"%end = constant <i32: {count}> : {numbers}",
        f"%clear = constant <f32: 0.0> : {z.tile}",
    ]
    data = whole_numbers(count, "f32")
    wanted = np.zeros(count, np.float32)
    for n, distance in enumerate((0, *distances)):
        past = outside[n % len(outside)]
        body += [
            f"%d{n} = constant <i32: {distance}> : {numbers}",
            f"%i{n} = addi %i, %d{n} : {numbers}" if distance else f"%i{n} = addi %i, %none : {numbers}",
            f"%from{n} = cmpi greater_than_or_equal %i{n}, %none, signed : {numbers} -> {flags}",
            f"%below{n} = cmpi less_than %i{n}, %end, signed : {numbers} -> {flags}",
            f"%inside{n} = andi %from{n}, %below{n} : {flags}",
            f"%past{n} = constant <f32: {float(past)}> : {z.tile}",
            f"%at{n} = offset %x_all, %i{n} : {pointers}, {numbers} -> {pointers}",
            f"%x{n}, %t{n} = load_ptr_tko weak %at{n}, %inside{n}, %past{n}"
            + (" token=%cleared" if store_between and n else "")
            + f" : {pointers}, {flags}, {z.tile} -> {z.tile}, token",
            f"%w{n} = constant <f32: {float(16**n)}> : {z.tile}",
            f"%p{n} = mulf %x{n}, %w{n} rounding<nearest_even> : {z.tile}",
            f"%s{n} = addf %s{n - 1}, %p{n} rounding<nearest_even> : {z.tile}" if n else
            f"%s0 = addf %p0, %clear rounding<nearest_even> : {z.tile}",
        ]  # fmt: skip
        if store_between and not n:
            body.append(f"%cleared = store_ptr_tko weak %at0, %clear token=%t0 : {pointers}, {z.tile} -> token")
        array = np.zeros_like(data) if store_between and n else data
        places = np.arange(count) + distance
        inside = (places >= 0) & (places < count)
        wanted += np.where(inside, array[places.clip(0, count - 1)], np.float32(past)) * np.float32(16**n)
    body.append(z.store(f"s{len(distances)}"))
    if not store_between:
        return Kernel(entry([x, z], body), (data,), (np.zeros_like(data),), (wanted,))
    return Kernel(entry([x, z], body), (), (data, np.zeros_like(data)), (np.zeros_like(data), wanted))


def sum_of_parts(inputs: str = "abcdef", size: int = 64, *, stores_first: bool = False) -> Kernel:
    """The lower half of 2^a + b + c + ... of tiles of `size` squared that are all loaded first.

    A thread of two warps holds 64 elements of each tile of 64 x 64; tiles with extracted parts are not sliced.
    `stores_first`: 2^a is stored before the sums, to the location of their result.
    """
    shape, half = (size, size), (size // 2, size)
    views = {name: View(name, shape, "f32") for name in inputs}
    out = View("z", half, "f32", shape)
    whole, part = views[inputs[0]].tile, out.tile
    body = [ONE]
    for name, view in views.items():
        body += [view.load(name), f"%h{name} = extract %{name}[%one, %zero] : {whole} -> {part}"]
    body.append(f"%s{inputs[0]} = exp2 %h{inputs[0]} : {part}")
    if stores_first:
        body.append(out.store(f"s{inputs[0]}").replace("%end_z", "%first"))
    body += [f"%s{name} = addf %s{before}, %h{name} : {part}" for before, name in zip(inputs, inputs[1:])]
    body.append(out.store(f"s{inputs[-1]}"))
    arrays = tuple(whole_numbers(shape, "f32", seed, 3) for seed in range(len(inputs)))
    lower = [array[size // 2 :] for array in arrays]
    wanted = np.zeros(shape, np.float32)
    wanted[: size // 2] = np.exp2(lower[0]) + sum(lower[1:])
    return Kernel(entry([*views.values(), out], body), arrays, (np.zeros(shape, np.float32),), (wanted,))


def reduced_and_scaled(rows: int = 128, columns: int = 128) -> Kernel:
    """C = C A / (the sums of A's rows): each sum is broadcast along its row, and C is read and written."""
    a, c = View("a", (rows, columns), "f32", aligned=None), View("c", (rows, columns), "f32", aligned=None)
    body = [
        a.load("a"), c.load("c"),
        reduced("sum", "a", (rows, columns), 1),
        of_rows("all", "sum", (rows, columns)),
        f"%parts = divf %a, %all : {a.tile}",
        f"%r = mulf %c, %parts : {a.tile}",
        c.store("r"),
    ]  # fmt: skip
    numbers = np.full((rows, columns), 2.0, np.float32)
    before = whole_numbers((rows, columns), "f32", 1)
    return Kernel(entry([a, c], body), (numbers,), (before,), (before / np.float32(columns),))


KERNELS = {
    "fused_multiply_add": fused_multiply_add,
    "row_sums_of_powers": row_sums_of_powers,
    "centered_rows": centered_rows,
    "running_sums": running_sums,
    "gathered": gathered,
    "exchanged": exchanged,
    "sum_of_parts": sum_of_parts,
    "reduced_and_scaled": reduced_and_scaled,
}


def scaled_by_squares(rows: int = 16, columns: int = 512, steps: int = 8, hints: str = "") -> Kernel:
    """Each row times the mean of its squares and a weight of each column, one tile after the other: a norm without its
    root.  Loads run ahead, and the squares are used for their sum only."""
    shape, whole = (rows, columns), (rows * steps, columns)
    x, y = View("x", shape, "bf16", whole), View("y", shape, "f32", whole)
    weights = View("w", (1, columns), "f32")
    tile, narrow = y.tile, tile_type((rows,), "f32")
    body = [
        ONE, f"%steps = constant <i32: {steps}> : tile<i32>", weights.load("w"),
        f"%share = constant <f32: {1 / columns}> : {narrow}",
        f"%ws = broadcast %w : {weights.tile} -> {tile}",
        "for %i in (%zero to %steps, step %one) : tile<i32> {",
        x.load("narrow", "%i, %zero"),
        f"%x = ftof %narrow : {x.tile} -> {tile}",
        f"%squares = mulf %x, %x : {tile}",
        reduced("sum", "squares", shape, 1),
        f"%mean = mulf %sum, %share : {narrow}",
        of_rows("means", "mean", shape),
        f"%scaled = mulf %x, %means : {tile}",
        f"%r = mulf %scaled, %ws : {tile}",
        y.store("r", "%i, %zero"),
        "continue", "}",
    ]  # fmt: skip
    a, w = whole_numbers(whole, "bf16", 1, 2), whole_numbers((1, columns), "f32", 2)
    wide = a.astype(np.float32)
    wanted = wide * (wide * wide).mean(1, keepdims=True) * w
    return Kernel(entry([x, weights, y], body, hints), (a, w), (np.zeros(whole, np.float32),), (wanted,))

"""Kernels around dots: one tile of a matrix multiplication, two chained dots, and a loop like that of attention."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from .rows import pointers, scrambled
from .views import DTYPES, ONE, Kernel, View, entry, in_pairs, of_rows, reduced, tile_type, whole_numbers, zeros

ACCUMULATORS = {"f64": "f64", "i8": "i32"}
"""Element types of accumulators by those of the operands; f32 for all others."""


def dot(value: str, a: str, b: str, c: str, types: Sequence[str]) -> str:
    """%VALUE = %A %B + %C; `types` of the three tiles."""
    integers = types[2].endswith("xi32>")
    operation, signs = ("mmai", " signed signed") if integers else ("mmaf", "")
    return f"%{value} = {operation} %{a}, %{b}, %{c}{signs} : {', '.join(types)}"


class Matmul:
    """One tile of C = A B + C0, with tiles (m, n, k) of arrays `sizes` (m, n, k), which need not be multiples.

    `steps`: a loop multiplies this many tiles along K; without it, the kernel has one dot and no loop.  `start` of the
    accumulator: "zeros", or "loaded" from C.  `b_by_columns`: B is column-major; `stored`: the type of A and B in
    memory.  `a_outside`: A is one tile, loaded before the loop and multiplied in every step.  `hints` are attributes of
    the entry.

    The parts are text that a test may change: `operands` loads %a and %b, `multiply` computes %next of them and %acc.
    """

    def __init__(
        self,
        tiles: tuple[int, int, int],
        operand: str = "f16",
        accumulator: str | None = None,
        *,
        sizes: tuple[int, int, int] | None = None,
        steps: int | None = None,
        start: str = "zeros",
        b_by_columns: bool = False,
        a_outside: bool = False,
        stored: str | None = None,
        order: str = "weak",
        aligned: int | None = 16,
        hints: str = "",
    ) -> None:
        m, n, k = tiles
        self.tiles, self.steps, self.start, self.hints = tiles, steps, start, hints
        self.operand, self.accumulator = operand, accumulator or ACCUMULATORS.get(operand, "f32")
        self.stored = stored or operand
        self.sizes = sizes or (m, n, k * (steps or 1))
        self.a_outside, self.b_by_columns = a_outside, b_by_columns
        rows, columns, depth = self.sizes
        padding = {"padding": "zero", "aligned": aligned}
        a_depth = k if a_outside else depth
        self.a = View("a", (m, k), self.stored, (rows, a_depth), **padding)
        self.b = View("b", (k, n), self.stored, (depth, columns), by_columns=b_by_columns, **padding)
        self.c = View("c", (m, n), self.accumulator, (rows, columns), **padding)
        a_type, b_type = tile_type((m, k), operand), tile_type((k, n), operand)
        self.types = a_type, b_type, self.c.tile
        inside = "%zero, %i" if steps else None
        self.load_a = self.a.load("a", None if a_outside else inside, order=order)
        self.load_b = self.b.load("b", "%i, %zero" if steps else None, order=order)
        self.multiply = dot("next", "a", "b", "acc", self.types)

    def text(
        self,
        operands: Sequence[str] | None = None,
        multiply: str | None = None,
        inner: str = "",
        tail: str = "",
        store: Sequence[str] | None = None,
        more: Sequence[View] = (),
    ) -> str:
        """The module.  `inner` computes %s of %next in each step, `tail` %r of %sum for the store; `more` views follow
        those of A, B and C; `store` replaces the last operations."""
        before = []
        within = list(operands) if operands is not None else [self.load_a, self.load_b]
        if self.a_outside:
            before.append(within.pop(0))
        before.append(self.c.load("c") if self.start == "loaded" else zeros("c", self.c.tile))
        multiply = multiply or self.multiply
        result = "%s" if inner else "%next"
        if self.steps is None:
            once = [*within, multiply.replace("%acc", "%c"), inner]
            body, computed = [*before, *once], result.removeprefix("%")
        else:
            body = [
                *before, ONE,
                f"%steps = constant <i32: {self.steps}> : tile<i32>",
                f"%sum = for %i in (%zero to %steps, step %one) : tile<i32>"
                f" iter_values(%acc = %c) -> ({self.c.tile}) {{",
                *within, multiply, inner,
                f"continue {result} : {self.c.tile}",
                "}",
            ]  # fmt: skip
            computed = "sum"
        if tail:
            body.append(tail if self.steps is not None else tail.replace("%sum", f"%{computed}"))
            computed = "r"
        token = "%k_c" if self.start == "loaded" else ""
        stored = self.c.store(computed, token=token)
        return entry([self.a, self.b, self.c, *more], [*body, *(store or [stored])], self.hints)

    def kernel(self, text: str | None = None, expected: Callable[..., np.ndarray] = np.matmul) -> Kernel:
        """With integer values, whose sums are exact; `expected` is the text's result for A and B, in f64."""
        rows, columns, depth = self.sizes
        k = self.tiles[2]
        a = whole_numbers((rows, k if self.a_outside else depth), self.stored, 1)
        b = whole_numbers((depth, columns), self.stored, 2)
        dtype = DTYPES[self.accumulator]
        c = whole_numbers((rows, columns), self.accumulator, 3) if self.start == "loaded" else np.zeros((rows, columns))
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        if self.a_outside:
            wide_a = np.tile(wide_a, self.steps or 1)
        wanted = expected(wide_a, wide_b) + c
        memory = np.ascontiguousarray(b.T) if self.b_by_columns else b
        return Kernel(text or self.text(), (a, memory), (c.astype(dtype),), (wanted.astype(dtype),))


def matmul(tiles: tuple[int, int, int], operand: str = "f16", accumulator: str | None = None, **options) -> Kernel:
    """`Matmul` unchanged."""
    return Matmul(tiles, operand, accumulator, **options).kernel()


def fast(kernel: Kernel) -> Kernel:
    """The kernel whose dots of f8 sum in as few bits as the instruction does."""
    return kernel._replace(text=kernel.text.replace("%acc :", "%acc fast_acc :"))


def by_columns(tiles: tuple[int, int, int], **options) -> Kernel:
    """As `matmul`, with a column-major A."""
    parts = Matmul(tiles, **options)
    m, _, k = tiles
    rows, _, depth = parts.sizes
    parts.a = View("a", (m, k), parts.stored, (rows, depth), by_columns=True, padding="zero", aligned=16)
    parts.load_a = parts.a.load("a", "%zero, %i")
    kernel = parts.kernel()
    a, b = kernel.inputs
    return kernel._replace(inputs=(np.ascontiguousarray(a.T), b))


def converted(tiles: tuple[int, int, int], which: str, stored: str, operand: str, **options) -> Kernel:
    """As `matmul`, with an operand of another element type in memory."""
    parts = Matmul(tiles, operand, **options)
    m, n, k = tiles
    view = getattr(parts, which)
    shape = (m, k) if which == "a" else (k, n)
    other = View(which, shape, stored, view.shape, padding="zero", aligned=16)
    where = "%zero, %i" if which == "a" else "%i, %zero"
    load = other.load("raw", where).replace("%k_raw", f"%k_{which}")
    text = f"{load}\n%{which} = ftof %raw : {tile_type(shape, stored)} -> {tile_type(shape, operand)}"
    setattr(parts, which, other)
    operands = [text, parts.load_b] if which == "a" else [parts.load_a, text]
    kernel = parts.kernel(parts.text(operands))
    a, b = kernel.inputs
    inputs = (whole_numbers(a.shape, stored, 1), b) if which == "a" else (a, whole_numbers(b.shape, stored, 2))
    return kernel._replace(inputs=inputs)


def chained(
    tiles: tuple[int, int, int, int], sizes: tuple[int, int, int, int] | None = None, operand: str = "f16"
) -> Kernel:
    """D = (A B) W with A of m x k, B of k x n and W of n x p, for tiles (m, k, n, p) of arrays `sizes`; the first
    dot's result is rounded to the operands' type."""
    m, k, n, p = tiles
    rows, inner, middle, columns = sizes or tiles
    shapes = {"a": ((m, k), (rows, inner)), "b": ((k, n), (inner, middle)), "w": ((n, p), (middle, columns))}
    views = {name: View(name, tile, operand, shape, padding="zero") for name, (tile, shape) in shapes.items()}
    out = View("d", (m, p), "f32", (rows, columns), padding="zero")
    partial, rounded = tile_type((m, n), "f32"), tile_type((m, n), operand)
    body = [
        zeros("none", partial),
        zeros("nothing", out.tile),
        *(view.load(name) for name, view in views.items()),
        dot("s", "a", "b", "none", (views["a"].tile, views["b"].tile, partial)),
        f"%h = ftof %s : {partial} -> {rounded}",
        dot("r", "h", "w", "nothing", (rounded, views["w"].tile, out.tile)),
        out.store("r"),
    ]
    a, b, w = (whole_numbers(views[name].shape, operand, seed, 2) for seed, name in enumerate("abw"))
    first = (a.astype(np.float32) @ b.astype(np.float32)).astype(DTYPES[operand]).astype(np.float32)
    wanted = first @ w.astype(np.float32)
    return Kernel(entry([*views.values(), out], body), (a, b, w), (np.zeros_like(wanted),), (wanted,))


def scaled(
    tiles: tuple[int, int, int], operand: str = "f8E4M3FN", steps: int = 2, *, scale: str = "f8E8M0FNU",
    block: int = 32, by_rows: bool = False, from_bytes: bool = False, hints: str = "",
) -> Kernel:  # fmt: skip
    """C = A B with a scale for each `block` elements along K, in a loop of `steps` tiles; `by_rows`: B is row-major.
    Scales are powers of two from a quarter to four.  `from_bytes`: elements of four bits are unpacked from bytes."""
    m, n, k = tiles
    depth, runs = k * steps, k // block
    a = View("a", (m, k), operand, (m, depth), aligned=16)
    b = View("b", (k, n), operand, (depth, n), by_columns=not by_rows, aligned=16)
    x = View("x", (m, runs), scale, (m, runs * steps), aligned=16)
    y = View("y", (runs, n), scale, (runs * steps, n), by_columns=True, aligned=16)
    c = View("c", (m, n), "f32")
    types = f"{a.tile}, {b.tile}, {c.tile}, {x.tile}, {y.tile}"
    loads = [a.load("a", "%zero, %i"), b.load("b", "%i, %zero")]
    if from_bytes:
        a = View("a", (m, k // 2), "i8", (m, depth // 2), aligned=16)
        b = View("b", (n, k // 2), "i8", (n, depth // 2), aligned=16)
        permuted = f"%b = permute %b_t [1, 0] : {tile_type((n, k), operand)} -> {tile_type((k, n), operand)}"
        loads = [_unpacked("a", a, (m, k)), _unpacked("b_t", b, (n, k)), permuted]
    body = [
        ONE, f"%steps = constant <i32: {steps}> : tile<i32>", zeros("none", c.tile),
        f"%sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> ({c.tile}) {{",
        *loads, x.load("x", "%zero, %i"), y.load("y", "%i, %zero"),
        f"%next = mmaf_scaled %a, %b, %acc, %x, %y : {types}",
        f"continue %next : {c.tile}",
        "}",
        c.store("sum"),
    ]  # fmt: skip
    generator = np.random.default_rng(4)
    left, right = whole_numbers((m, depth), operand, 1, 2), whole_numbers((depth, n), operand, 2, 2)
    of_rows, of_columns = (
        (2.0 ** generator.integers(-2, 3, (count, runs * steps))).astype(DTYPES[scale]) for count in (m, n)
    )
    wide = [each.astype(np.float64) for each in (left, right, of_rows, of_columns)]
    wanted = (wide[0] * np.repeat(wide[2], block, 1)) @ (wide[1] * np.repeat(wide[3].T, block, 0))
    stored = right if by_rows else np.ascontiguousarray(right.T)
    if operand == "f4E2M1FN":
        left, stored = in_pairs(left), in_pairs(stored)
    inputs, out = (left, stored, of_rows, of_columns), np.zeros((m, n), np.float32)
    return Kernel(entry([a, b, x, y, c], body, hints), inputs, (out,), (wanted.astype(np.float32),))


def _unpacked(value: str, view: View, shape: tuple[int, int]) -> str:
    """%VALUE of elements of four bits, unpacked from the bytes of a view."""
    size = shape[0] * shape[1]
    flat = tile_type((size // 2,), "i8"), tile_type((size,), "f4E2M1FN")
    return "\n".join([
        view.load(f"{value}_bytes", "%zero, %i"),
        f"%{value}_flat = reshape %{value}_bytes : {view.tile} -> {flat[0]}",
        f"%{value}_all = unpack %{value}_flat : {flat[0]} -> {flat[1]}",
        f"%{value} = reshape %{value}_all : {flat[1]} -> {tile_type(shape, 'f4E2M1FN')}",
    ])  # fmt: skip


def square_and_rows(rows: int = 64, depth: int = 32) -> Kernel:
    """C = S T + S with S = A A^T, A of `rows` x `depth` and T all 3: a dot whose operands are one tile, and one whose
    operands are computed."""
    a, c = View("a", (rows, depth), "f32", aligned=None), View("c", (rows, rows), "f32", aligned=None)
    turned = tile_type((depth, rows), "f32")
    body = [
        zeros("none", c.tile),
        f"%same = constant <f32: 3.0> : {c.tile}",
        a.load("a"),
        f"%b = permute %a [1, 0] : {a.tile} -> {turned}",
        dot("square", "a", "b", "none", (a.tile, turned, c.tile)),
        dot("rows", "square", "same", "square", (c.tile, c.tile, c.tile)),
        c.store("rows"),
    ]
    numbers = whole_numbers((rows, depth), "f32", 1, 3)
    square = numbers @ numbers.T
    wanted = square + 3 * square.sum(axis=1, keepdims=True)
    return Kernel(entry([a, c], body), (numbers,), (np.zeros((rows, rows), np.float32),), (wanted,))


def attention_like(ctas: int, element: str = "f32", *, rows: int = 64, columns: int = 128, depth: int = 32,
                   steps: int = 3, gpu_name: str = "sm_90", halved: bool = False) -> Kernel:  # fmt: skip
    """Two dots and four small loop-carried tiles: O = sum of (Q K - M) V with M the running maxima of rows; their sums
    and minima of sums, and tiles of type `element` that alternate between 0 and 1.

    Q is rows x depth, K depth x columns a step, V columns x depth a step; `ctas` are requested on `gpu_name`.
    `halved`: each step halves O before it adds, as attention rescales it.
    """
    q, o = View("q", (rows, depth), "f16"), View("o", (rows, depth), "f32")
    k = View("k", (depth, columns), "f16", (depth, columns * steps))
    v = View("v", (columns, depth), "f16", (columns * steps, depth))
    m, sums = View("m", (rows, 1), "f32"), View("l", (rows, 1), "f32")
    square, out, row, flag = (
        tile_type(shape, kind)
        for shape, kind in (((rows, columns), "f32"), ((rows, depth), "f32"), ((rows, 1), "f32"), ((rows, 1), element))
    )

    def converted(name: str, value: str, source: str, target: str) -> str:
        """Conversion between f32 and `element`; for f32, a sum with zero."""
        if source == target:
            return f"%{name} = addf %{value}, %nothing : {row}"
        return f"%{name} = ftof %{value} : {source} -> {target}"

    body = [
        ONE, f"%steps = constant <i32: {steps}> : tile<i32>",
        zeros("none", square), zeros("o_0", out), zeros("nothing", row),
        f"%l_0 = constant <f32: 1.0> : {row}",
        f"%m_0 = constant <f32: -10000.0> : {row}",
        converted("d_0", "l_0", row, flag),
        q.load("q"),
        f"""%o, %l, %m, %w, %d = for %i in (%zero to %steps, step %one) : tile<i32>
        iter_values(%o_1 = %o_0, %l_1 = %l_0, %m_1 = %m_0, %w_1 = %l_0, %d_1 = %d_0)
          -> ({out}, {row}, {row}, {row}, {flag}) {{""",
        k.load("k", "%zero, %i"), v.load("v", "%i, %zero"),
        dot("s", "q", "k", "none", (q.tile, k.tile, square)),
        reduced("most", "s", (rows, columns), 1, "maxf", "-10000.0"),
        f"%column = reshape %most : {tile_type((rows,), 'f32')} -> {row}",
        f"%m_2 = maxf %m_1, %column : {row}",
        f"%m_all = broadcast %m_2 : {row} -> {square}",
        f"%p = subf %s, %m_all : {square}",
        reduced("sum", "p", (rows, columns), 1),
        f"%sums = reshape %sum : {tile_type((rows,), 'f32')} -> {row}",
        f"%l_2 = addf %l_1, %sums : {row}",
        f"%w_2 = minf %w_1, %sums : {row}",
        converted("was", "d_1", flag, row),
        f"%is = subf %l_0, %was : {row}",
        converted("d_2", "is", row, flag),
        f"%p_16 = ftof %p : {square} -> {tile_type((rows, columns), 'f16')}",
        f"%half = constant <f32: 0.5> : {out}" if halved else "",
        f"%o_half = mulf %o_1, %half : {out}" if halved else "",
        dot("o_2", "p_16", "v", "o_half" if halved else "o_1", (tile_type((rows, columns), "f16"), v.tile, out)),
        f"continue %o_2, %l_2, %m_2, %w_2, %d_2 : {out}, {row}, {row}, {row}, {flag}",
        "}",
        o.store("o"), m.store("m"),
        converted("turn", "d", flag, row),
        f"%n = addf %l, %w : {row}",
        f"%all = addf %n, %turn : {row}",
        sums.store("all"),
    ]  # fmt: skip
    shapes = (rows, depth), (depth, columns * steps), (columns * steps, depth)
    inputs = tuple(whole_numbers(shape, "f16", seed, 3) for seed, shape in enumerate(shapes))
    total, most, last = _attention_like(*(each.astype(np.float64) for each in inputs), columns=columns, steps=steps,
                                        halved=halved)  # fmt: skip
    wanted = tuple(array.astype(np.float32) for array in (total, most, last))
    text = entry([q, k, v, o, m, sums], body, f"{gpu_name} = {{occupancy = {ctas}}}")
    return Kernel(text, inputs, tuple(map(np.zeros_like, wanted)), wanted)


def attention_in_two_loops(first: int, second: int, ctas: int = 2, **options) -> Kernel:
    """As `attention_like`, halved, with one loop for the first steps and one for the others, as in causal attention,
    whose last steps have a mask."""
    whole = attention_like(ctas, steps=first + second, halved=True, **options)
    lines = whole.text.split("\n")
    begin = next(number for number, line in enumerate(lines) if " = for %i in " in line)
    end = 1 + next(number for number, line in enumerate(lines) if line.strip().startswith("continue"))
    loop = "\n".join(lines[begin : end + 1])
    results = "%o, %l, %m, %w, %d = for"
    values = "(%o_1 = %o_0, %l_1 = %l_0, %m_1 = %m_0, %w_1 = %l_0, %d_1 = %d_0)"
    assert loop.count(results) == loop.count(values) == loop.count("(%zero to %steps") == 1
    half = f"    %middle = constant <i32: {first}> : tile<i32>"
    before = loop.replace(results, "%o_f, %l_f, %m_f, %w_f, %d_f = for").replace("to %steps", "to %middle")
    behind = loop.replace(values, "(%o_1 = %o_f, %l_1 = %l_f, %m_1 = %m_f, %w_1 = %w_f, %d_1 = %d_f)")
    behind = behind.replace("(%zero to", "(%middle to")
    # The loop's own values, renamed.
    names = {name for line in loop.split("\n")[1:] for name in re.findall(r"%\w+", line.partition(" = ")[0])}
    names |= {"%i", "%o_1", "%l_1", "%m_1", "%w_1", "%d_1"}
    names -= {"%o_f", "%l_f", "%m_f", "%w_f", "%d_f"}
    behind = re.sub(r"%\w+", lambda found: found[0] + "_b" * (found[0] in names), behind)
    return whole._replace(text="\n".join([*lines[:begin], half, before, behind, *lines[end + 1 :]]))


def last_of_attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, steps: int, of: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The result of `attention_like`, halved, for one tile of Q after `steps` of the `of` steps of K and V."""
    columns = k.shape[1] // of
    inputs = (each.astype(np.float64) for each in (q, k, v))
    return _attention_like(*inputs, columns=columns, steps=steps, halved=True)


def _attention_like(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, columns: int, steps: int, halved: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    total, most = np.zeros((len(q), v.shape[1])), np.full((len(q), 1), -10000.0)
    sums, least = np.ones((len(q), 1)), np.ones((len(q), 1))
    for step in range(steps):
        part = slice(step * columns, (step + 1) * columns)
        s = q @ k[:, part]
        most = np.maximum(most, s.max(1, keepdims=True))
        p = s - most
        row = p.sum(1, keepdims=True)
        sums, least = sums + row, np.minimum(least, row)
        total = (0.5 if halved else 1.0) * total + p.astype(np.float16).astype(np.float64) @ v[part]
    return total, most, sums + least + (steps + 1) % 2


def without_maximum(value: str, source: str, shape: tuple[int, int]) -> str:
    """%VALUE: the rows of %SOURCE minus their maxima."""
    return "\n".join([
        reduced(f"m_{value}", source, shape, 1, "maxf", "0xFF800000"),
        of_rows(f"all_{value}", f"m_{value}", shape),
        f"%{value} = subf %{source}, %all_{value} : {tile_type(shape, 'f32')}",
    ])  # fmt: skip


def with_steps_at_run_time(kernel: Kernel, count: int) -> Kernel:
    """The kernel of `count` steps in a loop whose trip count is known at run time: `count` for each tile block."""
    known = f"%steps = constant <i32: {count}> : tile<i32>"
    assert known in kernel.text
    blocks = "%grid, %grid_y, %grid_z = get_num_tile_blocks : tile<i32>"
    steps = f"%each = constant <i32: {count}> : tile<i32>\n%steps = muli %each, %grid : tile<i32>"
    return kernel._replace(text=kernel.text.replace(known, f"{blocks}\n{steps}"))


def of_gathered(rows: int = 128, depth: int = 32, columns: int = 16, scattered: bool = False) -> Kernel:
    """C = A B, where elements of A are gathered through pointers in a scrambled order, and those of C `scattered`."""
    x, b = View("x", (1,), "f16", (rows * depth,)), View("b", (depth, columns), "f16")
    c = View("c", (rows, columns), "f32")
    shape = rows, depth
    wide, tile, to = (tile_type(shape, element) for element in ("i32", "f16", "ptr<f16>"))
    body = [
        *scrambled("d", 17, rows, 0, shape),
        *scrambled("e", 29, depth, 1, shape),
        f"%depth = constant <i32: {depth}> : {wide}",
        f"%before = muli %d, %depth : {wide}",
        f"%place = addi %before, %e : {wide}",
        *pointers("from", "x", "f16", "place", shape),
        f"%a, %t = load_ptr_tko weak %from : {to} -> {tile}, token",
        b.load("b"),
        zeros("none", c.tile),
        dot("r", "a", "b", "none", (tile, b.tile, c.tile)),
        c.store("r"),
    ]
    if scattered:
        out, into = tile_type((rows, columns), "i32"), tile_type((rows, columns), "ptr<f32>")
        body[-1:] = [
            *scrambled("row", 17, rows, 0, (rows, columns)),
            *scrambled("column", 29, columns, 1, (rows, columns)),
            f"%columns = constant <i32: {columns}> : {out}",
            f"%rows_before = muli %row, %columns : {out}",
            f"%to_place = addi %rows_before, %column : {out}",
            *pointers("to", "c", "f32", "to_place", (rows, columns)),
            f"%u = store_ptr_tko weak %to, %r : {into}, {c.tile} -> token",
        ]
    table, right = whole_numbers(shape, "f16", 3), whole_numbers((depth, columns), "f16", 4)
    left = table[np.arange(rows) * 17 % rows][:, np.arange(depth) * 29 % depth]
    wanted = left.astype(np.float32) @ right.astype(np.float32)
    if scattered:
        moved = np.zeros_like(wanted)
        moved[np.ix_(np.arange(rows) * 17 % rows, np.arange(columns) * 29 % columns)] = wanted
        wanted = moved
    return Kernel(entry([x, b, c], body), (table.ravel(), right), (np.zeros_like(wanted),), (wanted,))

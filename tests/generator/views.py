"""Tiles of arrays of one to four dimensions, copied through every kind of view: in another order, with steps that leave
gaps or overlap, from a row on, at numbers of rows that memory holds, and element by element under a mask.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tests.generator.choices import Choices
from tests.generator.kernel import CUTILE, ELEMENTS, Argument, Expected, Generated, array, hinted, odd, scalar, whole
from tests.generator.statements import shuffled

_ELEMENTS = ("f32", "f16", "bf16", "i32", "i8", "u8", "i16", "u32", "i64", "f64", "f8E4M3FN")
_WEIGHTS = (4, 4, 2, 3, 2, 2, 1, 1, 1, 1, 1)
_PADDINGS = {"ZERO": 0.0, "NEG_ZERO": -0.0, "NAN": np.nan, "POS_INF": np.inf, "NEG_INF": -np.inf}
MOST_ELEMENTS = 2048
MOST_TILES = 12


class _Read:
    """One read of a tile in the loop: its text, and the tile at an index."""

    def __init__(self, pick: Choices, name: str, element: str, shape: tuple[int, ...], tiles: tuple[int, ...]) -> None:
        self.pick, self.name, self.element, self.shape, self.tiles = pick, name, element, shape, tiles
        self.rank = len(shape)
        self.head: list[str] = []
        self.more: list[Argument] = []
        floats = element in ("f32", "f16", "bf16", "f64")
        self.padding = pick.choice(list(_PADDINGS)) if floats and pick.chance(0.4) else "ZERO"
        self.mode = f"padding_mode=ct.PaddingMode.{self.padding}"
        self.steps, self.order, self.start = shape, tuple(range(self.rank)), 0
        sizes = [size * count - odd(pick, size) for size, count in zip(shape, tiles, strict=True)]
        kinds = ["load", "load", "order", "tiles", "steps", "steps", "slice", "gather", "rows"]
        self.kind = pick.choice([each for each in kinds if self.rank > 1 or each not in ("order", "rows")])
        getattr(self, f"_{self.kind}")(sizes)

    def _array(self, sizes: Sequence[int]) -> None:
        values = whole(self.pick, sizes, "i8", 3)
        values = np.abs(values) if self.element[0] == "u" else values
        self.values = values.astype(ELEMENTS[self.element])
        stored = np.ascontiguousarray(self.values.transpose(np.argsort(self.order)))
        self.argument = array(self.pick, self.name, stored, self.element)

    def _place(self, index: Sequence[str]) -> str:
        return f"({', '.join(index)},)"

    def _load(self, sizes: list[int]) -> None:
        self._array(sizes)
        inside = all(size == count * part for size, count, part in zip(sizes, self.tiles, self.shape, strict=True))
        hints = hinted(self.pick)
        if inside and self.pick.chance(0.5):
            hints += ", check_bounds=False"
        elif self.pick.chance(0.15):
            order = self.pick.choice(("RELAXED", "ACQUIRE"))
            hints += f", memory_order=ct.MemoryOrder.{order}, memory_scope=ct.MemoryScope.{self.pick.choice(_SCOPES)}"
        self.text = lambda index: f"ct.load({self.name}, {self._place(index)}, {self.shape}, {self.mode}{hints})"

    def _order(self, sizes: list[int]) -> None:
        """Dimension d of the tile is dimension order[d] of the array."""
        self.order = shuffled(self.pick, range(self.rank))
        self._array(sizes)
        hints = hinted(self.pick)
        more = f"order={self.order}, {self.mode}{hints}"
        self.text = lambda index: f"ct.load({self.name}, {self._place(index)}, {self.shape}, {more})"

    def _tiles(self, sizes: list[int]) -> None:
        self._array(sizes)
        self.head = [f"view_{self.name} = {self.name}.tiled_view({self.shape}, {self.mode})"]
        hints = hinted(self.pick).removeprefix(", ")
        self.text = lambda index: f"view_{self.name}.load({self._place(index)}, {hints})"

    def _steps(self, sizes: list[int]) -> None:
        """Distances between the starts of neighbouring tiles; the last tile starts inside the array."""
        self.steps = tuple(max(1, self.pick.choice((size, size // 2, size * 2, size + 1, 1))) for size in self.shape)
        sizes = [step * (count - 1) + max(1, self.pick.choice((size, size // 2, 1)))
                 for step, count, size in zip(self.steps, self.tiles, self.shape, strict=True)]  # fmt: skip
        self._array(sizes)
        steps = f"traversal_steps={self.steps}"
        self.head = [f"view_{self.name} = {self.name}.tiled_view({self.shape}, {steps}, {self.mode})"]
        hints = hinted(self.pick).removeprefix(", ")
        self.text = lambda index: f"view_{self.name}.load({self._place(index)}, {hints})"

    def _slice(self, sizes: list[int]) -> None:
        """Through the array from a row on, which is a parameter."""
        self.start = self.pick.choice((0, 1, 3, self.shape[0]))
        self._array([sizes[0] + self.start, *sizes[1:]])
        name = self.name
        self.more = [scalar(f"{name}_start", self.start, "i32")]
        self.head = [f"part_{name} = {name}.slice(axis=0, start={name}_start, stop={name}.shape[0])"]
        self.text = lambda index: f"ct.load(part_{self.name}, {self._place(index)}, {self.shape}, {self.mode})"

    def _gather(self, sizes: list[int]) -> None:
        """By element, without those whose coordinates have an odd sum in half of the kernels."""
        self._array(sizes)
        self.padding, self.masked = "ZERO", self.pick.chance(0.5)

        def text(index: Sequence[str]) -> str:
            parts = []
            for dim, size in enumerate(self.shape):
                parts.append(_along(dim, self.rank, f"({index[dim]} * {size} + ct.arange({size}, dtype=ct.int32))"))
            mask = f", mask=({' + '.join(parts)}) % 2 == 0" if self.masked else ""
            return f"ct.gather({self.name}, ({', '.join(parts)},){mask}, padding_value=0)"

        self.text = text

    def _rows(self, sizes: list[int]) -> None:
        """Slices along one dimension whose numbers are in memory; some numbers are behind the last one."""
        self.along = self.pick.randrange(self.rank)
        self._array(sizes)
        generator = np.random.default_rng(self.pick.randrange(1 << 32))
        self.numbers = generator.integers(0, sizes[self.along] + 1, self.tiles[self.along] * self.shape[self.along])
        self.more = [array(self.pick, f"{self.name}_rows", self.numbers.astype(np.int32), "i32")]
        hints = hinted(self.pick)

        def text(index: Sequence[str]) -> str:
            length = self.shape[self.along]
            rows = f"ct.load({self.name}_rows, ({index[self.along]},), ({length},))"
            places = [rows if dim == self.along else f"ct.Slice({index[dim]} * {size}, {size})"
                      for dim, size in enumerate(self.shape)]  # fmt: skip
            return f"ct.load_advanced_indexing({self.name}, ({', '.join(places)},), {self.mode}{hints})"

        self.text = text

    def tile(self, index: Sequence[int]) -> np.ndarray:
        places = [number * step + np.arange(size) for number, step, size in
                  zip(index, self.steps, self.shape, strict=True)]  # fmt: skip
        places[0] = places[0] + self.start
        if self.kind == "rows":
            length = self.shape[self.along]
            places[self.along] = self.numbers[index[self.along] * length :][:length]
        grid = np.meshgrid(*places, indexing="ij")
        inside = np.all([part < size for part, size in zip(grid, self.values.shape, strict=True)], axis=0)
        if self.kind == "gather" and self.masked:
            inside &= sum(grid) % 2 == 0
        clipped = tuple(np.minimum(part, size - 1) for part, size in zip(grid, self.values.shape, strict=True))
        outside = np.asarray(_PADDINGS[self.padding]).astype(self.values.dtype)
        return np.where(inside, self.values[clipped], outside)


def _along(dim: int, rank: int, text: str) -> str:
    """A tile of one dimension along `dim` of several."""
    return f"{text}[{', '.join(':' if dim == other else 'None' for other in range(rank))}]" if rank > 1 else text


_SCOPES = ("BLOCK", "DEVICE", "SYS")
_COUNTERS = ("ct.bid(0)", "ct.bid(1)", "i", "j")
_BODY = """
def kernel({names}):
    {head}
    total = ct.zeros({shape}, ct.{wide})
    for i in range({loops[0]}):
        for j in range({loops[1]}):
            {read}
            {write}
            {add}
    {last}
"""


def copied(pick: Choices) -> Generated:
    """Tiles from one or two arrays to a third one; a sum of them, or their greatest elements, is a second result."""
    element = pick.choices(_ELEMENTS, _WEIGHTS)[0]
    rank = pick.choice((1, 2, 2, 2, 3, 3, 4))
    while True:
        shape = tuple(pick.choice((1, 2, 4, 8, 16, 32, 64, 128)) for _ in range(rank))
        tiles = tuple(pick.choice((1, 1, 2, 3)) for _ in range(rank))
        if np.prod(shape) <= MOST_ELEMENTS and np.prod(tiles) <= MOST_TILES:
            break
    # The counter of each dimension: two are numbers of tile blocks, the others of iterations.
    counters = shuffled(pick, _COUNTERS)[:rank]
    reads = [_Read(pick, "x", element, shape, tiles)]
    if pick.chance(0.5) and element not in ("f8E4M3FN",):
        reads.append(_Read(pick, "w", element, shape, tiles))
    axes = shuffled(pick, range(rank)) if rank > 1 and pick.chance(0.4) else tuple(range(rank))
    write = _Write(pick, element, shape, tiles, axes)
    limits = {name: count for name, count in zip(counters, tiles, strict=True)}
    totals: dict[tuple[int, ...], np.ndarray] = {}
    for index in itertools.product(*map(range, tiles)):
        tile = reads[0].tile(index)
        with np.errstate(all="ignore"):
            tile = tile + reads[1].tile(index) if len(reads) > 1 else tile
            write.put(index, tile.transpose(axes))
            block = tuple(index[counters.index(name)] if name in counters else 0 for name in _COUNTERS[:2])
            wide = tile.astype(np.float64) if tile.dtype.kind in "fV" or element[0] in "fb" else tile
            totals[block] = totals.get(block, 0) + wide
    lines = [f"tile = {reads[0].text(counters)}"]
    if len(reads) > 1:
        lines.append(f"tile = tile + {reads[1].text(counters)}")
    if axes != tuple(range(rank)):
        lines.append(f"moved = ct.permute(tile, {axes})")
    else:
        lines.append("moved = tile")
    sum_type = {"f64": "f64", "i64": "i64"}.get(element, "f32" if element[0] in "fb" else "i32")
    grid = limits.get("ct.bid(0)", 1), limits.get("ct.bid(1)", 1)
    sums = np.stack([np.stack([np.asarray(totals[a, b]).reshape(-1) for b in range(grid[1])]) for a in range(grid[0])])
    sums = sums.astype(ELEMENTS[sum_type]) if sum_type[0] == "i" else sums
    arguments = [each.argument for each in reads] + [extra for each in reads for extra in each.more] + write.arguments
    arguments.append(array(pick, "z", np.full(sums.shape, -7).astype(ELEMENTS[sum_type]), sum_type))
    size = int(np.prod(shape))
    head = [line for each in reads for line in each.head] + write.head
    body = _BODY.format(
        names=", ".join(each.name for each in arguments), head="\n    ".join(head),
        shape=shape, wide=CUTILE[sum_type], loops=[limits.get("i", 1), limits.get("j", 1)],
        read="\n            ".join(lines), write=write.text([counters[axis] for axis in axes]),
        add=f"total = total + ct.astype(tile, ct.{CUTILE[sum_type]})",
        last=f"ct.store(z, (ct.bid(0), ct.bid(1), 0), ct.reshape(total, (1, 1, {size})))",
    )  # fmt: skip
    needs = 89 if element == "f8E4M3FN" else 75
    return Generated(f"copy, {' and '.join(each.kind for each in reads)}, {write.kind}", body, tuple(arguments), (),
                     (*grid, 1), {"y": Expected(write.wanted), "z": Expected(sums)}, needs)  # fmt: skip


class _Write:
    """The store of a tile in the loop, and its effect."""

    def __init__(
        self, pick: Choices, element: str, shape: tuple[int, ...], tiles: tuple[int, ...], axes: tuple[int, ...]
    ) -> None:
        self.axes, self.shape = axes, tuple(shape[axis] for axis in axes)
        counts = tuple(tiles[axis] for axis in axes)
        self.sizes = [size * count - odd(pick, size) for size, count in zip(self.shape, counts, strict=True)]
        self.rank, self.hints = len(shape), hinted(pick)
        kinds = ["store", "store", "tiles", "scatter"] + (["rows"] if self.rank > 1 else [])
        kinds += ["add"] if element in ("i32", "u32", "i64", "f32", "f16", "f64") else []
        self.kind = pick.choice(kinds)
        first = 2 if element[0] == "u" or self.kind == "add" else -7
        if self.kind == "rows":
            # A permutation of whole slices.
            self.along = pick.randrange(self.rank)
            self.sizes[self.along] = self.shape[self.along] * counts[self.along]
            generator = np.random.default_rng(pick.randrange(1 << 32))
            self.numbers = generator.permutation(self.sizes[self.along]).astype(np.int32)
        values = np.full(self.sizes, first).astype(ELEMENTS[element])
        self.wanted = values.astype(np.float64) if element[0] in "fb" else values.copy()
        self.arguments = [array(pick, "y", values, element)]
        self.head = [f"view_y = y.tiled_view({self.shape})"] if self.kind in ("tiles", "add") else []
        if self.kind == "rows":
            self.arguments.append(array(pick, "y_rows", self.numbers, "i32"))

    def text(self, index: Sequence[str]) -> str:
        place = f"({', '.join(index)},)"
        if self.kind == "store":
            return f"ct.store(y, {place}, moved{self.hints})"
        if self.kind == "tiles":
            return f"view_y.store({place}, moved{self.hints})"
        if self.kind == "add":
            return f"view_y.atomic_store_add({place}, moved)"
        if self.kind == "rows":
            rows = f"ct.load(y_rows, ({index[self.along]},), ({self.shape[self.along]},))"
            places = [rows if dim == self.along else f"ct.Slice({index[dim]} * {size}, {size})"
                      for dim, size in enumerate(self.shape)]  # fmt: skip
            return f"ct.store_advanced_indexing(y, ({', '.join(places)},), moved{self.hints})"
        parts = []
        for dim, size in enumerate(self.shape):
            parts.append(_along(dim, self.rank, f"({index[dim]} * {size} + ct.arange({size}, dtype=ct.int32))"))
        return f"ct.scatter(y, ({', '.join(parts)},), moved)"

    def put(self, index: Sequence[int], tile: np.ndarray) -> None:
        """`index` is that of the tile before its dimensions were permuted."""
        places = [index[axis] * size + np.arange(size) for axis, size in zip(self.axes, self.shape, strict=True)]
        if self.kind == "rows":
            places[self.along] = self.numbers[places[self.along]]
        grid = np.meshgrid(*places, indexing="ij")
        inside = np.all([part < size for part, size in zip(grid, self.sizes, strict=True)], axis=0)
        at = tuple(part[inside] for part in grid)
        if self.kind == "add":
            np.add.at(self.wanted, at, tile.astype(self.wanted.dtype)[inside])
        else:
            self.wanted[at] = tile.astype(self.wanted.dtype)[inside]

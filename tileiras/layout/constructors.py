"""Layouts that are built rather than derived: blocked, matrix fragments, shared memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tileiras.layout.linear_layout import LinearLayout, log2_exact


class _Tiler:
    """Hands out basis vectors along tile dimensions, low bits first; past the tile they are zero (replicate)."""

    __slots__ = ("_shifts", "shape", "used")

    def __init__(self, shape: Sequence[int]):
        self.shape = tuple(shape)
        self.used = [0] * len(self.shape)
        shifts = []
        shift = 0
        for size in reversed(self.shape):
            shifts.append(shift)
            shift += log2_exact(size)
        self._shifts = shifts[::-1]

    def take(self, axis: int, count: int) -> list[int]:
        """log2(count) bases along `axis`."""
        vectors = []
        for _ in range(log2_exact(count)):
            bit = 1 << self.used[axis]
            vectors.append(bit << self._shifts[axis] if bit < self.shape[axis] else 0)
            self.used[axis] += 1
        return vectors

    def rest(self, axis: int) -> list[int]:
        """The remaining bases of `axis`."""
        size = self.shape[axis] >> self.used[axis]
        return self.take(axis, size) if size > 1 else []


def blocked(
    shape: Sequence[int],
    size_per_thread: Sequence[int],
    threads_per_warp: Sequence[int],
    warps: Sequence[int],
    order: Sequence[int],
) -> LinearLayout:
    """Each thread holds a block of `size_per_thread`, lanes and warps are grids of such blocks, registers repeat the
    whole.

    All sequences have one entry for each tile dimension; `order` lists the dimensions, fastest first.  A tile smaller
    than this pattern leaves lanes and warps with replicated data (zero bases).
    """
    tiler = _Tiler(shape)
    register = [v for axis in order for v in tiler.take(axis, size_per_thread[axis])]
    lane = [v for axis in order for v in tiler.take(axis, threads_per_warp[axis])]
    warp = [v for axis in order for v in tiler.take(axis, warps[axis])]
    register += [v for axis in order for v in tiler.rest(axis)]
    layout = LinearLayout({"register": register, "lane": lane, "warp": warp}, shape)
    return layout.remove_zero_register_bases()[0]


class Fragment(Protocol):
    """One operand of a matrix instruction: its tile and the bases of a warp's registers and lanes (coordinates)."""

    shape: tuple[int, int]
    bases: Mapping[str, Sequence[Sequence[int]]]


class MmaAtom(Protocol):
    """The layout-relevant part of an instruction atom: A is [m, k], B is [k, n], C and D are [m, n]."""

    a: Fragment
    b: Fragment
    c: Fragment


class ScaledMmaAtom(MmaAtom, Protocol):
    """The scales of A are [m, k / block], those of B [k / block, n]."""

    scale_a: Fragment
    scale_b: Fragment


def _tile_fragment(
    fragment: Fragment,
    shape: Sequence[int],
    warp_axes: Sequence[int | None],
    rep_order: Sequence[int],
    columns: int = 1,
) -> LinearLayout:
    """The fragment repeated over a tile: first in registers as far as `columns`, then warp bits along `warp_axes` (None
    replicates), then registers in `rep_order`.

    A third, leading tile dimension is a batch and is held in registers.
    """
    batch = len(shape) - 2
    tiler = _Tiler(shape)
    sizes = (1,) * batch + tuple(fragment.shape)
    bases: dict[str, list[int]] = {}
    probe = LinearLayout({}, shape)
    for name, vectors in fragment.bases.items():
        bases[name] = []
        for vector in vectors:
            coordinates = (0,) * batch + tuple(vector)
            # A tile smaller than the instruction's own wraps: the instruction then computes the same rows again, from
            # registers that are there once.
            inside = all(c < n for c, n in zip(coordinates, shape))
            bases[name].append(probe.flatten(coordinates) if inside else 0)
    for axis, size in enumerate(sizes):
        tiler.used[axis] = log2_exact(min(size, shape[axis]))
    bases.setdefault("warp", [])
    bases["register"] = [*bases["register"], *tiler.take(batch + 1, max(1, columns // sizes[-1]))]
    for axis in warp_axes:
        bases["warp"] += [0] if axis is None else tiler.take(batch + axis, 2)
    for axis in rep_order:
        bases["register"] = [*bases["register"], *tiler.rest(batch + axis)]
    for axis in range(batch - 1, -1, -1):
        bases["register"] += tiler.rest(axis)
    return LinearLayout(bases, shape).remove_zero_register_bases()[0]


def mma_layouts(
    atom: MmaAtom, m: int, n: int, k: int, warps: tuple[int, int], batch: int | None = None, columns: int = 1
) -> tuple[LinearLayout, LinearLayout, LinearLayout]:
    """Layouts of A [m, k], B [k, n] and C [m, n] when `warps` = (along m, along n) warps run `atom`, each on
    at least `columns` neighbouring columns.

    A is replicated over the warps along n and B over those along m.  The tile is at least as deep as the atom.
    With `batch` the tiles have that leading dimension.
    """
    lead = () if batch is None else (batch,)
    along_m, along_n = log2_exact(warps[0]), log2_exact(warps[1])
    a = _tile_fragment(atom.a, (*lead, m, k), [0] * along_m + [None] * along_n, (1, 0))
    # Columns before depth: an access that reads several fragments reads those of one step of the dot.
    b = _tile_fragment(atom.b, (*lead, k, n), [None] * along_m + [1] * along_n, (1, 0), columns)
    c = _tile_fragment(atom.c, (*lead, m, n), [0] * along_m + [1] * along_n, (1, 0), columns)
    return a, b, c


def warpgroup_layouts(
    atom: MmaAtom, m: int, n: int, k: int, groups: tuple[int, int]
) -> tuple[LinearLayout | None, LinearLayout]:
    """Layouts of A [m, k], None unless A is in registers, and of C [m, n] when `groups` = (along m, along n)
    warpgroups run `atom`.  A is replicated over the warpgroups along n."""
    along_m, along_n = log2_exact(groups[0]), log2_exact(groups[1])
    c = _tile_fragment(atom.c, (m, n), [0] * along_m + [1] * along_n, (1, 0))
    if not hasattr(atom.a, "bases"):
        return None, c
    return _tile_fragment(atom.a, (m, k), [0] * along_m + [None] * along_n, (1, 0)), c


def scale_layouts(
    atom: ScaledMmaAtom, m: int, n: int, blocks: int, warps: tuple[int, int], batch: int | None = None, columns: int = 1
) -> tuple[LinearLayout, LinearLayout]:
    """Layouts of the scales of A [m, blocks] and B [blocks, n] beside those of mma_layouts()."""
    lead = () if batch is None else (batch,)
    along_m, along_n = log2_exact(warps[0]), log2_exact(warps[1])
    a = _tile_fragment(atom.scale_a, (*lead, m, blocks), [0] * along_m + [None] * along_n, (1, 0))
    b = _tile_fragment(atom.scale_b, (*lead, blocks, n), [None] * along_m + [1] * along_n, (0, 1), columns)
    return a, b


def fma_operands(c: LinearLayout, k: int) -> tuple[LinearLayout, LinearLayout]:
    """Layouts of A and B in which a thread holds all operands of its elements of the accumulator `c`.

    A drops the column from every basis of `c` and keeps all of K in registers, lowest; B likewise with the row.
    """
    rank = len(c.shape)
    m, n = c.shape[-2:]
    coordinates = c.to_coordinates()
    k_bits = [1 << bit for bit in range(k.bit_length() - 1)]

    def operand(shape: tuple[int, ...], axis: int, k_axis: int) -> LinearLayout:
        def project(basis: tuple[int, ...]) -> tuple[int, ...]:
            result = [*basis[: rank - 2], 0, 0]
            result[axis] = basis[axis]
            return tuple(result)

        def along_k(step: int) -> tuple[int, ...]:
            return tuple(step if axis == k_axis else 0 for axis in range(rank))

        bases = {dim: [project(basis) for basis in vectors] for dim, vectors in coordinates.items()}
        rows = [basis for basis in bases["register"] if any(basis)]
        bases["register"] = [*map(along_k, k_bits), *dict.fromkeys(rows)]
        return LinearLayout.from_coordinates(bases, shape)

    lead = c.shape[: rank - 2]
    return operand((*lead, m, k), rank - 2, rank - 1), operand((*lead, k, n), rank - 1, rank - 2)


def row_major_shared(shape: Sequence[int]) -> LinearLayout:
    """Shared memory in row-major order: the offset is the flattened position."""
    size = 1
    for n in shape:
        size *= n
    return LinearLayout.identity("offset", size, shape=shape)


def swizzled_shared(shape: Sequence[int], element_bits: int, span: int, atom: int = 16) -> LinearLayout:
    """The hardware's swizzle of `span` bytes (128, 64, 32) for a row-major [rows, columns] tile, or 16 for none.

    Byte address bits 4.. are XORed with bits 7.. (PTX ISA, tensor swizzling modes); the pattern repeats every 8 * span
    bytes, which is the alignment the buffer needs.  Columns beyond the span start a new [rows, span] block.  A swizzle
    of 128 bytes can keep `atom` bytes together, 32 instead of 16: bits 5 and 6 are XORed with 7 and 8 then.
    """
    rows, columns = shape
    per_span = span * 8 // element_bits
    if columns < per_span:
        raise ValueError(f"rows of {columns} elements do not fill a swizzle span of {span} bytes")
    swizzle_bits = {128: 3, 64: 2, 32: 1, 16: 0}[span] - log2_exact(atom // 16)
    span_bits = log2_exact(span)
    chunk = atom * 8 // element_bits
    vectors = [(0, 1 << i) for i in range(log2_exact(per_span))]
    for i in range(log2_exact(rows)):
        j = span_bits + i - 7
        vectors.append((1 << i, chunk << j if 0 <= j < swizzle_bits else 0))
    vectors += [(0, per_span << i) for i in range(log2_exact(columns // per_span))]
    return LinearLayout.from_coordinates({"offset": vectors}, shape)


def replicated(shape: Sequence[int], warps: int) -> LinearLayout:
    """Every thread of `warps` warps holds the whole tile, its registers in row-major order."""
    registers = [1 << bit for bit in range(sum(map(log2_exact, shape)))]
    return LinearLayout({"register": registers, "lane": (0,) * 5, "warp": (0,) * (warps - 1).bit_length()}, shape)

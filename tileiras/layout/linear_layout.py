"""Linear layouts: which element of a tile each register of each thread holds.

A layout is a linear map over GF(2) from the bits of labelled hardware indices to the bits of an element's position in
the tile (Zhou et al., "Linear Layouts: Robust Code Generation of Efficient Tensor Computation Using F2", 2025).
Positions are flattened row-major, so the last dimension has the lowest bits and a basis is a single integer; reshaping
costs nothing.

A distributed layout maps `register, lane, warp, block`; a shared-memory layout maps `offset`, counted in elements; one
of tensor memory maps `lane` and `column`.  A zero basis, or one that depends on earlier ones, replicates data along
that bit; a zero lane of tensor memory is left free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tileiras.support import gf2

DISTRIBUTED_DIMS = ("register", "lane", "warp", "block")
SHARED_DIMS = ("offset",)
TENSOR_DIMS = ("element", "column", "lane")


def log2_exact(n: int) -> int:
    """log2 of a power of two; ValueError for anything else."""
    if n <= 0 or n & (n - 1):
        raise ValueError(f"{n} is not a power of two")
    return n.bit_length() - 1


def _dim_shifts(shape: Sequence[int]) -> tuple[int, ...]:
    """Position of each dimension's lowest bit in the flattened index."""
    shifts = []
    shift = 0
    for size in reversed(shape):
        shifts.append(shift)
        shift += log2_exact(size)
    return tuple(reversed(shifts))


class LinearLayout:
    """An immutable, hashable linear layout.

    `bases` maps an input dimension to the images of its bits, lowest first, as flattened positions in a tile of `shape`
    (sizes are powers of two).  Raises ValueError for a basis outside the tile or an unknown input dimension.
    """

    __slots__ = ("_bases", "_hash", "_shifts", "shape")

    def __init__(self, bases: Mapping[str, Iterable[int]], shape: Sequence[int]):
        self.shape = tuple(shape)
        self._shifts = _dim_shifts(self.shape)
        names = SHARED_DIMS if "offset" in bases else TENSOR_DIMS if "column" in bases else DISTRIBUTED_DIMS
        unknown = [name for name in bases if name not in names]
        if unknown:
            raise ValueError(f"unknown layout dimension '{unknown[0]}'")
        self._bases = tuple((name, tuple(bases.get(name, ()))) for name in names)
        size = self.size
        for name, vectors in self._bases:
            for vector in vectors:
                if not 0 <= vector < size:
                    raise ValueError(f"basis {vector} of '{name}' lies outside a tile of {size} elements")
        self._hash = hash((self._bases, self.shape))

    # -- construction -------------------------------------------------------------------------------------------------

    @classmethod
    def from_coordinates(cls, bases: Mapping[str, Iterable[Sequence[int]]], shape: Sequence[int]) -> LinearLayout:
        """A layout whose bases are given as coordinate tuples, one number for each tile dimension."""
        shifts = _dim_shifts(shape)

        def flatten(coordinates: Sequence[int]) -> int:
            if len(coordinates) != len(shifts):
                raise ValueError(
                    f"basis {list(coordinates)} has {len(coordinates)} coordinates, the tile {len(shifts)}"
                )
            for coordinate, size in zip(coordinates, shape):
                if not 0 <= coordinate < size:
                    raise ValueError(f"basis {list(coordinates)} lies outside the tile")
            return sum(c << s for c, s in zip(coordinates, shifts))

        return cls({name: [flatten(v) for v in vectors] for name, vectors in bases.items()}, shape)

    @classmethod
    def identity(cls, dim: str, size: int, *, shape: Sequence[int] | None = None) -> LinearLayout:
        """Input bit i to flattened bit i; `shape` defaults to the one-dimensional tile of `size` elements."""
        return cls({dim: [1 << i for i in range(log2_exact(size))]}, (size,) if shape is None else shape)

    # -- queries ------------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LinearLayout)
            and self._hash == other._hash
            and self._bases == other._bases
            and self.shape == other.shape
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={[list(v) for v in vectors]}" for name, vectors in self.to_coordinates().items())
        return f"LinearLayout({parts}, shape={list(self.shape)})"

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self._bases)

    @property
    def size(self) -> int:
        size = 1
        for n in self.shape:
            size *= n
        return size

    @property
    def out_bits(self) -> int:
        return self.size.bit_length() - 1

    def bases(self, dim: str) -> tuple[int, ...]:
        """Flattened bases of one input dimension, lowest bit first."""
        for name, vectors in self._bases:
            if name == dim:
                return vectors
        return ()

    def bits(self, dim: str) -> int:
        return len(self.bases(dim))

    def count(self, dim: str) -> int:
        """Number of values of an input dimension: registers of a thread, lanes, warps."""
        return 1 << len(self.bases(dim))

    @property
    def registers(self) -> int:
        """Elements that one thread holds."""
        return self.count("register")

    @property
    def warps(self) -> int:
        return self.count("warp")

    @property
    def columns(self) -> tuple[int, ...]:
        """All bases, input dimensions concatenated in their order (registers lowest)."""
        return tuple(v for _, vectors in self._bases for v in vectors)

    def to_coordinates(self) -> dict[str, list[tuple[int, ...]]]:
        return {name: [self.coordinates(v) for v in vectors] for name, vectors in self._bases}

    def coordinates(self, flat: int) -> tuple[int, ...]:
        """Flattened position to coordinates."""
        return tuple(flat >> shift & (size - 1) for shift, size in zip(self._shifts, self.shape))

    def flatten(self, coordinates: Sequence[int]) -> int:
        return sum(c << s for c, s in zip(coordinates, self._shifts))

    def dim_mask(self, axis: int) -> int:
        """The flattened bits that belong to tile dimension `axis`."""
        return (self.shape[axis] - 1) << self._shifts[axis]

    def dim_shift(self, axis: int) -> int:
        return self._shifts[axis]

    def coordinate_columns(self, dim: str, axis: int) -> tuple[int, ...]:
        """The bases of `dim` seen from one tile dimension."""
        shift = self._shifts[axis]
        mask = self.shape[axis] - 1
        return tuple(v >> shift & mask for v in self.bases(dim))

    def apply(self, **indices: int) -> int:
        """Flattened position held at these hardware indices; dimensions not named are 0."""
        flat = 0
        for name, index in indices.items():
            flat ^= gf2.apply(self.bases(name), index)
        return flat

    def split(self, flat_index: int) -> dict[str, int]:
        """A concatenated hardware index (registers lowest) split into its dimensions."""
        parts = {}
        for name, vectors in self._bases:
            parts[name] = flat_index & ((1 << len(vectors)) - 1)
            flat_index >>= len(vectors)
        return parts

    @property
    def rank(self) -> int:
        return gf2.rank(self.columns)

    @property
    def is_surjective(self) -> bool:
        """Every element is held somewhere: required of the layout of any live tile."""
        return self.rank == self.out_bits

    @property
    def is_injective(self) -> bool:
        return self.rank == len(self.columns)

    def free_variable_masks(self) -> dict[str, int]:
        """For each input dimension the bits whose basis depends on the bases before it (registers, lanes, warps,
        blocks).

        Threads and registers with all free bits 0 hold every element exactly once, so stores and atomics run there.
        """
        echelon = gf2.Echelon()
        masks = {}
        for name, vectors in self._bases:
            mask = 0
            for i, vector in enumerate(vectors):
                if not echelon.add(vector):
                    mask |= 1 << i
            masks[name] = mask
        return masks

    # -- algebra ------------------------------------------------------------------------------------------------------

    def _with(self, bases: Mapping[str, Iterable[int]], shape: Sequence[int] | None = None) -> LinearLayout:
        return LinearLayout(bases, self.shape if shape is None else shape)

    def map_bases(self, function: Callable[[int], int], shape: Sequence[int] | None = None) -> LinearLayout:
        """The layout whose every basis is `function(basis)`."""
        return self._with({name: [function(v) for v in vectors] for name, vectors in self._bases}, shape)

    def with_bases(self, dim: str, vectors: Iterable[int]) -> LinearLayout:
        return self._with({**dict(self._bases), dim: tuple(vectors)})

    def inverse(self) -> tuple[int, ...]:
        """For each flattened bit the concatenated hardware index that holds it; ValueError unless of full rank."""
        if not (self.is_injective and self.is_surjective):
            raise ValueError("the layout is not invertible")
        return self.right_inverse()

    def right_inverse(self) -> tuple[int, ...]:
        """For each flattened bit one hardware index that holds it, registers preferred to lanes, lanes to warps."""
        columns = gf2.right_inverse(self.columns, self.out_bits)
        if columns is None:
            raise ValueError("the layout does not hold every element")
        return tuple(columns)

    def sublayout(self, dims: Sequence[str], axes: Sequence[int] | None = None) -> LinearLayout:
        """Only these input dimensions and, if given, only these tile dimensions."""
        result = self._with({name: vectors for name, vectors in self._bases if name in dims})
        if axes is None:
            return result
        shape = tuple(self.shape[a] for a in axes)
        shifts = _dim_shifts(shape)

        def pick(vector: int) -> int:
            coordinates = self.coordinates(vector)
            return sum(coordinates[a] << s for a, s in zip(axes, shifts))

        return result.map_bases(pick, shape)

    # -- shape operations: data stays where it is ---------------------------------------------------------------------

    def reshape(self, shape: Sequence[int]) -> LinearLayout:
        layout = self._with(dict(self._bases), shape)
        if layout.size != self.size:
            raise ValueError(f"cannot reshape {list(self.shape)} to {list(shape)}")
        return layout

    def permute(self, permutation: Sequence[int]) -> LinearLayout:
        """Result dimension i is dimension `permutation[i]` of this layout."""
        return self.sublayout(self.dims, permutation)

    def unpermute(self, permutation: Sequence[int]) -> LinearLayout:
        """The inverse of `permute`: the layout whose `permute(permutation)` is this one."""
        return self.permute([permutation.index(axis) for axis in range(len(permutation))])

    def drop_dim(self, axis: int) -> LinearLayout:
        """The slice along `axis`: its coordinate is forgotten.  Register bases that become zero stay; see slice()."""
        return self.sublayout(self.dims, [a for a in range(len(self.shape)) if a != axis])

    def slice(self, axis: int) -> LinearLayout:
        """drop_dim without registers that hold nothing new: the layout of a reduction's result."""
        return self.drop_dim(axis).remove_redundant_registers()[0]

    def part(self, shape: Sequence[int]) -> LinearLayout | None:
        """The layout of any part of `shape` in the threads that have it; None unless each has its share of every part,
        in registers that differ in nothing else."""
        inside = self.flatten([n - 1 for n in shape])
        if any(v & ~inside for name, vectors in self._bases if name != "register" for v in vectors):
            return None
        registers = self.bases("register")
        numbers = [v for v in registers if v & ~inside]
        if any(v & inside for v in numbers) or gf2.rank(numbers) < len(numbers):
            return None
        return self.with_bases("register", [v for v in registers if not v & ~inside]).reduced(shape)

    def part_registers(self, shape: Sequence[int], number: Sequence[int]) -> tuple[int, ...] | None:
        """The registers of part `number` of `shape`, in the order of `part(shape)`; None without such a layout, and for
        a part outside of the tile."""
        layout = self.part(shape)
        if layout is None or any((at + 1) * n > size for at, n, size in zip(number, shape, self.shape)):
            return None
        inside, registers = self.flatten([n - 1 for n in shape]), self.bases("register")
        inner, outer = ([i for i, v in enumerate(registers) if bool(v & ~inside) == of] for of in (False, True))
        start = self.flatten([at * n for at, n in zip(number, shape)])
        combination = gf2.Echelon([registers[i] for i in outer]).solve(start)
        if combination is None:
            return None
        first = sum(1 << i for bit, i in enumerate(outer) if combination >> bit & 1)
        return tuple(
            first | sum(1 << i for bit, i in enumerate(inner) if register >> bit & 1)
            for register in range(layout.registers)
        )

    def reduced(self, shape: Sequence[int]) -> LinearLayout:
        """The same places in a smaller tile that has all of them."""
        shifts = _dim_shifts(shape)
        return self.map_bases(lambda v: sum(c << s for c, s in zip(self.coordinates(v), shifts)), shape)

    def doubled(self, axis: int) -> LinearLayout:
        """A tile twice as large along `axis`, whose second half is in registers of its own above the present ones."""
        shape = tuple(2 * n if a == axis else n for a, n in enumerate(self.shape))
        second = tuple(n if a == axis else 0 for a, n in enumerate(self.shape))
        bases = self.to_coordinates()
        return LinearLayout.from_coordinates({**bases, "register": [*bases.get("register", ()), second]}, shape)

    def shrink(self, shape: Sequence[int]) -> LinearLayout:
        """The layout that a tile of `shape` (sizes 1 where it will be broadcast) needs to become this one in place."""
        if len(shape) != len(self.shape) or any(b not in (1, a) for a, b in zip(self.shape, shape)):
            raise ValueError(f"{list(shape)} does not broadcast to {list(self.shape)}")
        shifts = _dim_shifts(shape)

        def keep(vector: int) -> int:
            return sum(c << s for c, n, s in zip(self.coordinates(vector), shape, shifts) if n > 1)

        return self.map_bases(keep, shape).remove_redundant_registers()[0]

    def remove_zero_register_bases(self) -> tuple[LinearLayout, tuple[int, ...]]:
        """(layout without register bits of zero basis, the register bits that remain)."""
        registers = self.bases("register")
        result = tuple(i for i, v in enumerate(registers) if v)
        return self.with_bases("register", [registers[i] for i in result]), result

    def remove_redundant_registers(self) -> tuple[LinearLayout, tuple[int, ...]]:
        """(layout without register bits that depend on lower ones, the register bits that remain)."""
        echelon = gf2.Echelon()
        registers = self.bases("register")
        result = tuple(i for i, v in enumerate(registers) if echelon.add(v))
        return self.with_bases("register", [registers[i] for i in result]), result

"""Layouts of anchors: memory operations and dots.

All accesses of one shape and one order of dimensions share a layout, so that an element-wise kernel needs no conversion
even with mixed element types; the narrowest element determines how many a thread holds in a row.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileiras.analysis.alias import data_of
from tileiras.analysis.computed_operands import operands_from
from tileiras.analysis.copied_loads import LOADS
from tileiras.analysis.divisibility import DivisibilityAnalysis
from tileiras.analysis.dots_in_flight import is_asynchronous
from tileiras.analysis.incoming import incoming
from tileiras.analysis.mask_runs import mask_runs
from tileiras.diagnostics import CompileError
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import DYNAMIC, Operation, TensorType, Value, element_type_of
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import constant_part
from tileiras.layout.memory import (
    ACCESS_BITS,
    THREADS_PER_WARP,
    coalesced,
    contiguous_registers,
    dimension_order,
    vector_registers,
)
from tileiras.reasons import Reason
from tileiras.support.named_tuple import NamedTuple

FAILURE = "failed to assign layouts"

MEMORY_OPS = (
    aa.TiledLoadOp,
    aa.TiledStoreOp,
    aa.TiledAtomicRMWOp,
    aa.LoadOp,
    aa.StoreOp,
    aa.AtomicRMWOp,
    aa.AtomicCASOp,
)


class Access(NamedTuple):
    """How one operation walks memory: its tile, fastest dimension first, and the run that is surely aligned."""

    shape: tuple[int, ...]
    order: tuple[int, ...]
    element_bits: int
    aligned_elements: int
    """Elements along the fastest dimension that start at a multiple of their joint size, a power of two."""
    scattered: bool = False
    """Whether it is unknown which elements are neighbours in memory."""


BRANCH_ELEMENTS = 4
"""The fewest elements of a vector of less than 16 bytes for which an access is written twice."""


def access_of(
    op: Operation, facts: DivisibilityAnalysis, threads: int, why: list[Reason] | None = None
) -> Access | None:
    """The access of a memory operation by `threads`; None if it moves a scalar.  The bounds of the aligned run, the
    tightest one last, are appended to `why`.  Raises CompileError, located, for a view that is a parameter."""
    type = data_of(op).type
    if not isinstance(type, TensorType):
        return None
    if isinstance(op, (aa.TiledLoadOp, aa.TiledStoreOp, aa.TiledAtomicRMWOp)):
        return _tiled_access(op, type, facts, why)
    return _pointer_access(op, type, facts, threads, why)


def _tiled_access(op: tileas.Access, type: TensorType, facts: DivisibilityAnalysis, why: list[Reason] | None) -> Access:
    view = op.view.type
    source = view.source
    if op.view.defining_op is None:
        raise CompileError.at(op.location, f"{FAILURE}: the view is a parameter, whose array is not known")
    memref = op.view.defining_op.source.defining_op
    bits = _element_bits(type)
    strides = [source.strides[view.dim_map[d]] for d in range(type.rank)]
    order = dimension_order([None if stride == DYNAMIC else stride for stride in strides])
    inner = order[0]
    if strides[inner] != 1 or view.sparse_dim == view.dim_map[inner]:
        if why is not None:
            why.append(Reason("access.gathered" if strides[inner] == 1 else "access.no-unit-stride"))
        return Access(type.shape, tuple(order), bits, 1)
    # Every address in the tile is base + sum(coordinate * stride): aligned as far as the base and each outer step are.
    # Tiles begin at multiples of their extent (or traversal stride): a run along the inner dimension does so as well.
    aligned_bytes = facts.divisor(memref.base)
    if why is not None:
        alignment = _power(aligned_bytes)
        why.append(Reason("access.base-alignment", bytes=alignment) if alignment > 1 else Reason("access.base-unknown"))
    element_bytes = max(1, bits // 8)
    for d in order:
        stride = memref.stride(view.dim_map[d])
        step = stride if isinstance(stride, int) else facts.divisor(stride)
        steps = view.traversal_strides[d] if d == inner else 1
        narrowed = _gcd_power_of_two(aligned_bytes, step * steps * element_bytes)
        if why is not None and narrowed < aligned_bytes:
            extent = Reason("access.extent-alignment", bytes=narrowed)
            why.append(extent if d == inner else Reason("access.stride-alignment", dim=view.dim_map[d], bytes=narrowed))
        aligned_bytes = narrowed
    return Access(type.shape, tuple(order), bits, max(1, aligned_bytes // element_bytes))


def _pointer_access(
    op: tileas.Access, type: TensorType, facts: DivisibilityAnalysis, threads: int, why: list[Reason] | None
) -> Access:
    bits = _element_bits(type)
    contiguity = facts.contiguity(op.pointer)
    order = sorted(range(type.rank), key=lambda d: (-contiguity[d], -d))
    run = contiguity[order[0]]
    # Runs start at multiples of the divisor along their own dimension; other dimensions only give those of single
    # elements.
    divisor = facts.facts(op.pointer).divisor[order[0]]
    aligned = min(run, max(1, divisor // max(1, bits // 8)))
    if why is not None:
        if aligned < run:
            why.append(Reason("access.run-alignment", bytes=_power(divisor)))
        else:
            why.append(Reason("access.short-runs", elements=run) if run > 1 else Reason("access.scattered"))
    mask = getattr(op, "mask", None)
    if mask is not None:
        # A vector access is executed or not as a whole.  If its ends determine that, a branch tests them.
        constancy = facts.constancy(mask)[order[0]]
        if constancy < aligned and _may_branch(op):
            run = mask_runs(mask, facts)[order[0]].together
            elements = min(run, aligned, max(1, type.num_elements // threads))
            if elements >= BRANCH_ELEMENTS or elements * bits >= ACCESS_BITS:
                constancy = max(constancy, run)
        if why is not None and constancy < aligned:
            same = Reason("access.mask-runs", elements=constancy)
            why.append(same if constancy > 1 else Reason("access.mask-varies"))
        aligned = min(aligned, constancy)
    return Access(type.shape, tuple(order), bits, aligned, run == 1)


def _may_branch(op: tileas.Access) -> bool:
    """Whether an access with a mask can be written twice: by whole vectors, and element by element."""
    return (
        isinstance(op, (aa.LoadOp, aa.StoreOp))
        and op.mem_semantic.value == "weak"
        and getattr(element_type_of(data_of(op).type), "width", 64) != 4
    )


def _element_bits(type: TensorType) -> int:
    element = element_type_of(type)
    return max(8, element.width)


def _gcd_power_of_two(a: int, b: int) -> int:
    both = a | b
    return both & -both if both else 1 << 62


def _power(number: int) -> int:
    """The largest power of two that divides a number."""
    return number & -number


class MemoryLayouts:
    """The anchor layout of every memory operation of a function."""

    def __init__(
        self, func: Operation, facts: DivisibilityAnalysis, num_warps: int, remarks: bool = False
    ) -> None:
        self.accesses: dict[Operation, Access] = {}
        self.bounds: dict[Operation, list[Reason]] = {}
        """With `remarks`: the bounds of the aligned run of each access, the tightest one last."""
        self._has_dots = False
        for op in func.walk():
            self._has_dots = self._has_dots or isinstance(op, tileas.DOTS)
            if isinstance(op, MEMORY_OPS):
                why: list[Reason] | None = [] if remarks else None
                access = access_of(op, facts, 32 * num_warps, why)
                if access is not None:
                    self.accesses[op] = access
                    if why is not None:
                        self.bounds[op] = why
        single = {self._key(load) for load in self._scattered_loads()} | self._mostly_scattered(facts)
        narrowest: dict[tuple, tuple[int, int]] = {}
        for op, access in self.accesses.items():
            key = self._key(op)
            if key in single:
                narrowest[key] = (1, access.element_bits)
                continue
            # Most elements per access first: a wider element then takes several accesses of the same layout.
            # Copies of scales keep the elements of a word of the dot together.
            most = key[2] or (_run_bits(op) if self._has_dots else ACCESS_BITS)
            run = max(min(access.aligned_elements, most // access.element_bits), _cut_apart(op, access))
            narrowest[key] = max(narrowest.get(key, (0, 0)), (run, access.element_bits))
        self._layouts = {
            (shape, order, least): _coalesce(shape, order, run, bits, num_warps, least)
            for (shape, order, least), (run, bits) in narrowest.items()
        }
        self._num_warps = num_warps

    def _scattered_loads(self) -> list[Operation]:
        """The loads of elements that are stored at computed addresses without known neighbours.

        Lanes then have neighbouring elements of the tile.  If these are neighbours in memory after all, as in a stage
        of an FFT, each store of a warp fills its sectors, which vectors of a thread would fill in several stores.
        Addresses that are read from memory suggest no order, and the loads keep their vectors.
        """
        loads: list[Operation] = []
        for op, access in self.accesses.items():
            if access.scattered and isinstance(op, aa.StoreOp) and not _reads_memory(op.pointer):
                loads += [source for source in _sources(op.data) if source in self.accesses]
        return loads

    def _mostly_scattered(self, facts: DivisibilityAnalysis) -> set[tuple]:
        """Keys of layouts in which lanes have neighbouring elements: most accesses are loads at computed addresses
        without known neighbours, such as rows that are no multiples of a vector.

        Neighbours in the tile are near each other in memory as a rule, and a warp's load is then one wavefront or two.
        In the layout of the vectors of a few other accesses it is one for each element of a vector.
        """
        scattered: dict[tuple, int] = {}
        vectors: dict[tuple, int] = {}
        for op, access in self.accesses.items():
            key = self._key(op)
            if access.aligned_elements > 1:
                vectors[key] = vectors.get(key, 0) + 1
            elif isinstance(op, aa.LoadOp) and access.scattered and _is_computed(op, access, facts):
                scattered[key] = scattered.get(key, 0) + 1
        return {key for key, count in scattered.items() if count >= SCATTERED_TO_VECTORS * vectors.get(key, count)}

    def layout(self, op: Operation) -> LinearLayout:
        return self._layouts[self._key(op)]

    def _key(self, op: Operation) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """The key of an access's layout, in addition to its runs and elements: its tile's shape, the order of
        dimensions, and the bits of the shortest access that is allowed."""
        access = self.accesses[op]
        return access.shape, access.order, COPIED_BITS if self._has_dots and _loads_scales(op) else 0

    def vector_size(self, op: Operation, layout: LinearLayout) -> int:
        """Elements per access of a thread when the operation runs in `layout`."""
        access = self.accesses[op]
        run = access.aligned_elements
        divisibility = run * max(1, access.element_bits // 8)
        axis = access.order[0]
        return 1 << len(vector_registers(layout, axis, access.element_bits, contiguous=run, divisibility=divisibility))

    def why_not_wider(self, op: Operation, layout: LinearLayout) -> Reason | None:
        """The reason why accesses of an operation in `layout` are below 16 bytes; None if they are not."""
        access = self.accesses[op]
        vector = self.vector_size(op, layout)
        if vector * access.element_bits >= ACCESS_BITS:
            return None
        if vector >= access.aligned_elements:
            return self.bounds[op][-1] if self.bounds.get(op) else None
        elements = 1 << len(contiguous_registers(layout, access.order[0]))
        if elements <= vector:
            return Reason("access.few-in-thread", elements=elements)
        return Reason("access.interleaved")

    def sectors(self, op: Operation, layout: LinearLayout) -> int:
        """32-byte sectors that a warp touches when the operation runs in `layout`, summed over its accesses.

        The memory system moves whole sectors (CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory").
        """
        access = self.accesses[op]
        if access.scattered:
            return THREADS_PER_WARP * layout.registers
        axis = access.order[0]
        element_bytes = max(1, access.element_bits // 8)
        vector = self.vector_size(op, layout)
        lanes = layout.coordinate_columns("lane", axis)
        rest = [v & ~layout.dim_mask(axis) for v in layout.bases("lane")]
        touched = set()
        for lane in range(32):
            along = other = 0
            for bit in range(5):
                if lane >> bit & 1:
                    along ^= lanes[bit]
                    other ^= rest[bit]
            first = along * element_bytes
            touched.update(
                (other, sector) for sector in range(first // 32, (first + vector * element_bytes - 1) // 32 + 1)
            )
        return len(touched) * max(1, layout.registers // vector)

    def default(self, shape: tuple[int, ...]) -> LinearLayout:
        """A layout for a tile that no memory operation of this shape anchors: row-major."""
        order = tuple(range(len(shape) - 1, -1, -1))
        result = self._layouts.get((shape, order, 0))
        if result is None:
            result = self._layouts[shape, order, 0] = _coalesce(shape, order, 4, 32, self._num_warps)
        return result


SCATTERED_TO_VECTORS = 4
"""Loads without known neighbours for each access by vectors, at least, for which vectors are given up.  Eight such
loads beside a store and a load by vectors, in tiles of 256, take 12.4 us on H200 and 9.6 on B200 instead of 24.9 and
20.6; at a ratio of two or less, kernels take up to 16 % more (sim.estimate)."""


def _is_computed(load: aa.LoadOp, access: Access, facts: DivisibilityAnalysis) -> bool:
    """Whether the addresses of a load differ from element to element, and are not loaded themselves."""
    return facts.constancy(load.pointer)[access.order[0]] == 1 and not _reads_memory(load.pointer)


APART_BITS = 64
"""Bits from a lane to the next where the lanes of a warp load elements apart in two wavefronts of 128 bytes: a way
through shared memory would be a store and a load of each, and two barriers."""


def _cut_apart(op: Operation, access: Access) -> int:
    """The neighbours in memory that one thread loads, however wide its accesses, since constant slices cut a tile into
    them, such as the parts of complex numbers: then each slice is in the thread's registers.  1 for other tiles."""
    if not isinstance(op, LOADS) or access.scattered or not op.data.has_uses:
        return 1
    axis = access.order[0]
    for user in op.data.users:
        while isinstance(user, tileas.ViewOp) and user.result.type.shape[-1:] == access.shape[-1:]:
            if not user.result.has_one_use:
                return 1
            (user,) = user.result.users
        if not isinstance(user, tileas.ExtractSliceOp) or user.result.type.shape[-1] > 1:
            return 1
        if constant_part(user) is None:
            return 1
    size = access.shape[axis]
    return size if axis == len(access.shape) - 1 and size * access.element_bits <= APART_BITS else 1


PACKED_ELEMENTS = 8
"""The most elements of a byte."""

COPIED_BITS = 32
"""The width of the shortest asynchronous copy (PTX ISA, "cp.async": cp-size 4)."""


def _loads_scales(op: Operation) -> bool:
    """Whether an access loads only scales of dots or operands, whose copies run ahead if they are wide enough: a
    thread has few elements of a tile of scales."""
    if not isinstance(op, LOADS) or not isinstance(op.data.type, TensorType) or not op.data.has_uses:
        return False
    width = op.data.type.element_type.width if hasattr(op.data.type.element_type, "width") else COPIED_BITS
    if not 8 <= width < COPIED_BITS:
        return False
    return _scales_operands(op.data) or width == 8 and _scales_dots(op.data)


def _scales_dots(value: Value) -> bool:
    """Whether only block-scaled dots use a tile, as scales."""
    values = [value]
    for each in values:
        for user in each.users:
            if isinstance(user, tileas.VIEW_LIKE):
                values += user.results
            elif not isinstance(user, tileas.BlockScaledMmaOp) or each not in (user.scale_a, user.scale_b):
                return False
    return True


def _scales_operands(value: Value) -> bool:
    """Whether each element of a tile is broadcast to several of an operand of a dot."""
    operands = [operand for _, operand in operands_from(value)]
    return bool(operands) and all(
        operand.type.num_elements > PACKED_ELEMENTS * value.type.num_elements for operand in operands
    )


def _run_bits(op: Operation) -> int:
    """The bits that a thread loads at once.  Where threads compute a wider operand from the tile and store it in shared
    memory, these become one access of 16 bytes: neighbouring lanes store neighbouring vectors, without bank
    conflicts."""
    if not isinstance(op, LOADS) or not isinstance(op.data.type, TensorType):
        return ACCESS_BITS
    loaded, bits = op.data.type, ACCESS_BITS
    for dot, operand in operands_from(op.data):
        ratio = operand.type.num_elements // max(1, loaded.num_elements)
        if ratio <= PACKED_ELEMENTS and is_asynchronous(dot):
            widened = ratio * operand.type.element_type.width // max(8, loaded.element_type.width)
            bits = min(bits, ACCESS_BITS // max(1, widened))
    return bits


def _sources(value: Value) -> Iterator[Operation]:
    """The loads that provide the elements of a tile, through operations that leave each element in its thread."""
    values = [value]
    for each in values:
        op = each.defining_op
        if isinstance(op, (aa.LoadOp, aa.TiledLoadOp)):
            yield op
        elif op is not None and not op.regions and not isinstance(op, (*MEMORY_OPS, tileas.DotOp)):
            values += [v for v in op.operands if isinstance(v.type, TensorType) and v not in values]


def _reads_memory(value: Value) -> bool:
    """Whether a value depends on numbers in memory."""
    values = [value]
    for each in values:
        op = each.defining_op
        if isinstance(op, MEMORY_OPS):
            return True
        around = incoming(each)
        further = list(op.operands) if around is None and op is not None else [each.value for each in around or ()]
        values += [v for v in further if v not in values]
    return False


def _coalesce(
    shape: tuple[int, ...], order: tuple[int, ...], run: int, bits: int, num_warps: int, least_bits: int = 0
) -> LinearLayout:
    divisibility = run * max(1, bits // 8)
    return coalesced(shape, bits, order, num_warps, contiguous=run, divisibility=divisibility, least_bits=least_bits)

"""Conversion through shared memory: the buffer's own layout, access widths, and bank conflicts.

The buffer's layout maps offsets to tile positions.  Its offset bits fall into three groups, lowest first: those inside
one vector access, those that choose the bank (together 128 bytes), and the segment bits above.  Threads of one
wavefront conflict when they differ in segment bits only, so the layout is chosen to keep the lanes of both sides out
of the segment (Zhou et al. 2025, optimal swizzling).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

from tileiras.layout.linear_layout import LinearLayout, log2_exact
from tileiras.support import gf2
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import COPY_ATOMS, MatrixForm

BANK_BYTES = 128  # 32 banks of 4 bytes
WAVEFRONT_ROWS = 3  # bits of the number of a row of a matrix within a wavefront: eight rows are as wide as all banks
VECTOR_BITS = 128  # widest shared access of a thread
WORD_BITS = 32
MATRIX_FORMS = COPY_ATOMS["ldmatrix"].matrices
"""The matrices that every target loads."""
INSTRUCTION_COST = 0.5  # of one access, besides its wavefronts: issue slots and addresses
BARRIER_COST = 20.0  # in wavefronts: a barrier drains the warp's outstanding accesses


class SharedAccess(NamedTuple):
    """One side's accesses to the buffer.  All addresses are in elements; the address map is linear.

    Access i moves `registers[i]`, consecutive elements, at address
    `lane_map(lane) ^ warp_map(warp) ^ offsets[i]`.  `lane_mask` and `warp_mask` are the thread's free bits: threads
    with any of them set hold copies and need not store.
    """

    registers: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    lane_map: tuple[int, ...]
    warp_map: tuple[int, ...]
    lane_mask: int
    warp_mask: int
    degree: int

    @property
    def vector(self) -> int:
        """Elements of one access."""
        return len(self.registers[0])

    def thread_bits(self) -> int:
        """Address bits that depend on the thread; an offset without these bits can be added instead of XORed."""
        return gf2.support((*self.lane_map, *self.warp_map))

    def places(self, warp: int, lane: int) -> list[tuple[int, int]]:
        """(register, address) of a thread's elements."""
        result = []
        for registers, offset in zip(self.registers, self.offsets):
            base = gf2.apply(self.lane_map, lane) ^ _mask(self.warp_map, warp) ^ offset
            result += [(register, base + i) for i, register in enumerate(registers)]
        return result

    def holds(self, warp: int, lane: int) -> bool:
        """Whether the thread has elements to store."""
        return not (lane & self.lane_mask or warp & self.warp_mask)

    def wavefronts(self, element_bits: int) -> int:
        """Predicted wavefronts of one warp: a 16-byte access takes 4, an 8-byte one 2, times the degree."""
        return len(self.registers) * _access_wavefronts(self.vector * element_bits) * self.degree


class MatrixAccess(NamedTuple):
    """Loads of matrices of 16-byte rows by `ldmatrix`, or stores by `stmatrix` (PTX ISA).  Addresses are in elements.

    Access i moves `matrices` matrices of a form.  Lane l gives the address of row l % form.rows of matrix
    l / form.rows, `lane_map(l) ^ warp_map(warp) ^ offsets[i]`, and has `form.words` words of each matrix.
    `registers[i]` are the registers of these elements, matrix after matrix.
    """

    registers: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    lane_map: tuple[int, ...]
    warp_map: tuple[int, ...]
    matrices: int
    form: MatrixForm
    degree: int

    @property
    def vector(self) -> int:
        """Elements that a thread has of one access."""
        return len(self.registers[0])

    @property
    def words(self) -> int:
        """Words that a thread has of one access."""
        return self.matrices * self.form.words

    def thread_bits(self) -> int:
        return gf2.support((*self.lane_map, *self.warp_map))

    def wavefronts(self, element_bits: int) -> int:
        """Predicted wavefronts of one warp: each delivers eight rows."""
        return len(self.registers) * self.matrices * self.form.words * self.degree

    def places(self, warp: int, lane: int) -> list[tuple[int, int]]:
        """(register, address) of a thread's elements."""
        result = []
        per_word = self.vector // self.words
        for registers, offset in zip(self.registers, self.offsets):
            for i, register in enumerate(registers):
                number, element = divmod(i, per_word)
                matrix, word = divmod(number, self.form.words)
                row, column = (lane >> 2) + 8 * word, (lane & 3) * per_word + element
                if self.form.transposed:
                    row, column = column, row
                thread = gf2.apply(self.lane_map, matrix * self.form.rows + row)
                address = thread ^ _mask(self.warp_map, warp) ^ offset
                result.append((register, address + column))
        return result

    def holds(self, warp: int, lane: int) -> bool:
        """Whether the thread has elements to store."""
        return True


class SharedPlan(NamedTuple):
    """Store the source, barrier, load the result.

    `offsets` is the buffer's layout: tile position of each offset bit.  `element_bits` is the stored width (i1 and
    4-bit elements are widened to 8 where the plan is emitted).  The buffer needs `bytes` bytes, aligned to 16.
    """

    offsets: tuple[int, ...]
    element_bits: int
    store: SharedAccess | MatrixAccess
    load: SharedAccess | MatrixAccess

    @property
    def bytes(self) -> int:
        return max(1, (1 << len(self.offsets)) * self.element_bits // 8)

    def cost(self, element_bits: int) -> float:
        return 2 * BARRIER_COST + self.access_cost()

    def access_cost(self) -> float:
        """The cost of the accesses of one warp, without the barriers."""
        sides = (self.store, self.load)
        return sum(s.wavefronts(self.element_bits) + INSTRUCTION_COST * len(s.registers) for s in sides)

    def simulate(
        self, elements: dict[tuple[int, int], list[int]], warps: int, lanes: int
    ) -> dict[tuple[int, int], list[int]]:
        buffer: dict[int, int] = {}
        for (w, t), values in elements.items():
            if self.store.holds(w, t):
                buffer.update((address, values[register]) for register, address in self.store.places(w, t))

        def loaded(w: int, t: int) -> list[int]:
            places = self.load.places(w, t)
            result = dict((register, buffer[address]) for register, address in places)
            return [result[register] for register in range(len(places))]

        return {(w, t): loaded(w, t) for w in range(warps) for t in range(lanes)}


def _mask(columns: Sequence[int], x: int) -> int:
    return gf2.apply(columns, x & ((1 << len(columns)) - 1))


def _access_wavefronts(bits: int) -> int:
    return max(1, bits // WORD_BITS)


def lanes_in_flight(lanes: Sequence[int], access_bits: int) -> list[int]:
    """Lane bases that vary within one wavefront: 32 lanes up to 4 bytes, 16 for 8 bytes, 8 for 16."""
    drop = {64: 1, 128: 2}.get(access_bits, 0)
    return list(lanes[: len(lanes) - drop]) if drop else list(lanes)


def conflict_degree(offsets: Sequence[int], lanes: Sequence[int], vector_bits: int, element_bits: int) -> int:
    """Wavefronts for each ideal one.  `offsets`: buffer layout whose lowest `vector_bits` bits lie inside one 32-bit
    word or wider vector; `lanes`: the bases that vary within one wavefront."""
    inside = vector_bits
    bank = max(0, (BANK_BYTES * 8 // element_bits).bit_length() - 1 - inside)
    segment = offsets[inside + bank :]
    return 1 << gf2.intersection_dimension(list(segment), list(lanes))


def optimal_offsets(
    bits: int, vector: Sequence[int], src_lanes: Sequence[int], dst_lanes: Sequence[int], element_bits: int
) -> list[int]:
    """Buffer layout of a tile of 2**bits elements with the least conflicts: `vector`, then bank, then segment bases.

    `src_lanes` and `dst_lanes` are the bases that vary within one wavefront of either side.
    """
    words = len(vector)
    tile_src = [v for v in src_lanes if v and v not in vector]
    tile_dst = [v for v in dst_lanes if v and v not in vector]
    bank_bits = max(0, (BANK_BYTES * 8 // element_bits).bit_length() - 1 - words)
    length = max(0, bits - words - bank_bits)
    segment = gf2.complement([*vector, *tile_src, *tile_dst], bits)[:length]
    only_src = [v for v in tile_src if v not in tile_dst]
    only_dst = [v for v in tile_dst if v not in tile_src]
    # A sum of one lane basis of each side lies in neither span: free for both. A basis itself costs its side a factor
    # of two.
    candidates = [a ^ b for a, b in zip(only_src, only_dst)]
    candidates += [v for pair in zip(only_src, only_dst) for v in pair]
    candidates += [*only_src[len(only_dst) :], *only_dst[len(only_src) :]]
    candidates += [v for v in tile_src if v in tile_dst]
    echelon = gf2.Echelon([*vector, *segment])
    for candidate in candidates:
        if len(segment) >= length:
            break
        if echelon.add(candidate):
            segment.append(candidate)
    bank = gf2.complement([*vector, *segment], bits)
    # A degenerate pair of layouts can leave fewer candidates than segment bits; the rest of the bank bits move up.
    return [*vector, *bank, *segment]


def vector_choices(src: LinearLayout, dst: LinearLayout, element_bits: int) -> list[tuple[tuple[int, ...], int, int]]:
    """Candidate (vector bases, how many the source's access covers, how many the result's covers)."""
    source = [v for v in src.bases("register") if v]
    result = [v for v in dst.bases("register") if v]
    widest = max(0, (VECTOR_BITS // element_bits).bit_length() - 1)
    word = max(0, (WORD_BITS // element_bits).bit_length() - 1) if element_bits < WORD_BITS else 0
    common = [v for v in source if v in result][:widest]
    choices = []
    for n in range(len(common) + 1):
        head = common[:n]
        for mine, other, is_source in ((source, dst, True), (result, src, False)):
            rest = [v for v in mine if v not in head]
            # Registers of one side that are lanes of the other: the other side's lanes then read parts of the same
            # word.
            rest.sort(key=lambda v: v not in other.bases("lane"))
            for extra in range(min(len(rest), widest - n) + 1):
                vector = (*head, *rest[:extra])
                if len(vector) < word and len(vector) < min(src.out_bits, n + len(rest)):
                    continue
                if gf2.rank(vector) == len(vector):
                    choices.append((vector, len(vector) if is_source else n, n if is_source else len(vector)))
    return choices


def vector_access(layout: LinearLayout, inverse: Sequence[int], vector: int, degree: int) -> SharedAccess:
    """The accesses of one side: registers grouped by vectors of 2**vector consecutive offsets."""
    address = [gf2.apply(inverse, v) for v in layout.bases("register")]
    # A vector access must start at a multiple of its width for every thread and every value of the other registers.
    unaligned = 0
    for dim in ("register", "lane", "warp"):
        for v in layout.bases(dim):
            image = gf2.apply(inverse, v)
            if dim != "register" or image not in [1 << i for i in range(vector)]:
                unaligned |= image
    if unaligned & ((1 << vector) - 1):
        vector = (unaligned & -unaligned).bit_length() - 1
    inside = [address.index(1 << i) for i in range(vector)]
    outside = [i for i in range(len(address)) if i not in inside]
    groups, offsets = [], []
    for group in range(1 << len(outside)):
        start = sum(1 << bit for i, bit in enumerate(outside) if group >> i & 1)
        members = tuple(
            start | sum(1 << inside[i] for i in range(vector) if element >> i & 1) for element in range(1 << vector)
        )
        groups.append(members)
        offsets.append(gf2.apply(address, start))
    masks = layout.free_variable_masks()
    return SharedAccess(
        registers=tuple(groups),
        offsets=tuple(offsets),
        lane_map=tuple(gf2.apply(inverse, v) for v in layout.bases("lane")),
        warp_map=tuple(gf2.apply(inverse, v) for v in layout.bases("warp")),
        lane_mask=masks.get("lane", 0),
        warp_mask=masks.get("warp", 0),
        degree=degree,
    )


def deduplicated(access: SharedAccess) -> SharedAccess:
    """Stores write each offset once: registers with equal bases hold equal values."""
    result = {}
    for registers, offset in zip(access.registers, access.offsets):
        result.setdefault(offset, registers)
    return SharedAccess(
        tuple(result.values()),
        tuple(result),
        access.lane_map,
        access.warp_map,
        access.lane_mask,
        access.warp_mask,
        access.degree,
    )


class MatrixRows(NamedTuple):
    """The bases of a layout made of the matrices of a form: the 16 bytes of a row, the rows of a matrix, and those that
    number the matrices.  `order` are the register bits: those within a word, those that number the words of a matrix,
    and `rest`."""

    form: MatrixForm
    vector: tuple[int, ...]
    rows: tuple[int, ...]
    rest: tuple[int, ...]
    order: tuple[int, ...]


def matrix_rows(dst: LinearLayout, element_bits: int, form: MatrixForm) -> Iterator[MatrixRows]:
    """The ways in which matrices of a form give the layout `dst`: none if it is not made of them."""
    lanes, registers = dst.bases("lane"), dst.bases("register")
    packed = max(0, (WORD_BITS // element_bits).bit_length() - 1)
    if element_bits not in form.element_bits or len(lanes) != 5:
        return
    if not all((*lanes, *registers)) or len(registers) < packed:
        return
    inside = tuple(range(packed))
    for words in itertools.permutations(range(packed, len(registers)), log2_exact(form.words)):
        order = (*inside, *words, *(bit for bit in range(packed, len(registers)) if bit not in words))
        bases = [registers[bit] for bit in order]
        along = (*bases[:packed], *lanes[:2])
        across = (*lanes[2:], *bases[packed : packed + len(words)])
        vector, rows = (across, along) if form.transposed else (along, across)
        rest = tuple(bases[packed + len(words) :])
        if gf2.rank((*vector, *rows, *rest)) == len(vector) + len(rows) + len(rest):
            yield MatrixRows(form, vector, rows, rest, order)


def matrix_access(
    dst: LinearLayout, split: MatrixRows, offsets: Sequence[int], inverse: Sequence[int], element_bits: int
) -> MatrixAccess | None:
    """Loads of matrices from a buffer of this layout, None when the rows of matrices are not 16 bytes in it."""

    def address(v: int) -> int:
        return gf2.apply(inverse, v)

    form, vector, rows, rest, order = split
    if any(address(v) != 1 << i for i, v in enumerate(vector)):
        return None
    inside = (1 << len(vector)) - 1
    if any(address(v) & inside for v in (*rows, *rest, *dst.bases("warp"))):
        return None
    count_bits = min(log2_exact(form.most), len(rest))
    low = len(order) - len(rest) + count_bits
    registers = [sum(1 << bit for i, bit in enumerate(order) if n >> i & 1) for n in range(1 << len(order))]
    groups = [tuple(registers[start : start + (1 << low)]) for start in range(0, len(registers), 1 << low)]
    return MatrixAccess(
        registers=tuple(groups),
        offsets=tuple(address(dst.apply(register=group[0])) for group in groups),
        lane_map=(*map(address, (*rows, *rest[:count_bits])), *[0] * (5 - len(rows) - count_bits)),
        warp_map=tuple(map(address, dst.bases("warp"))),
        matrices=1 << count_bits,
        form=form,
        degree=conflict_degree(offsets, rows[:WAVEFRONT_ROWS], len(vector), element_bits),
    )


def _matrix_plan(
    src: LinearLayout, dst: LinearLayout, element_bits: int, form: MatrixForm, stores: bool
) -> SharedPlan | None:
    """A plan in which one side moves matrices (the store, by `stmatrix`, or the load, by `ldmatrix`); None if that
    side's layout is not made of their fragments."""
    matrices, other = (src, dst) if stores else (dst, src)
    split = next(matrix_rows(matrices, element_bits, form), None)
    # A matrix is stored by whole warps: copies would have to be left out warp by warp.
    if split is None or (stores and src.free_variable_masks()["warp"]):
        return None
    width = 0
    while width < len(split.vector) and split.vector[width] in other.bases("register"):
        width += 1
    in_flight = lanes_in_flight(other.bases("lane"), min(VECTOR_BITS, element_bits << width))
    sides = (split.rows, in_flight) if stores else (in_flight, split.rows)
    offsets = optimal_offsets(src.out_bits, split.vector, *sides, element_bits)
    inverse = gf2.right_inverse(offsets, src.out_bits)
    access = None if inverse is None else matrix_access(matrices, split, offsets, inverse, element_bits)
    if inverse is None or access is None:
        return None
    degree = conflict_degree(offsets, in_flight, len(split.vector), element_bits)
    plain = vector_access(other, inverse, width, degree)
    if stores:
        return SharedPlan(tuple(offsets), element_bits, access, plain)
    return SharedPlan(tuple(offsets), element_bits, deduplicated(plain), access)


@functools.lru_cache(maxsize=4096)
def plan_shared(src: LinearLayout, dst: LinearLayout, element_bits: int, matrix_stores: bool = False) -> SharedPlan:
    """The plan with the fewest predicted wavefronts, `stmatrix` among the ways where there are `matrix_stores`.

    Raises ValueError when elements would leave their CTA.
    """
    if src.bases("block") != dst.bases("block"):
        raise ValueError("conversion across the CTAs of a cluster")
    element_bits = max(8, element_bits)
    best = None
    for vector, store, load in vector_choices(src, dst, element_bits):
        store_bits, load_bits = element_bits << store, element_bits << load
        in_flight = [
            lanes_in_flight(src.bases("lane"), store_bits),
            lanes_in_flight(dst.bases("lane"), load_bits),
        ]
        offsets = optimal_offsets(src.out_bits, vector, *in_flight, element_bits)
        degrees, cost = [], 0.0
        for layout, width, lanes in ((src, store, in_flight[0]), (dst, load, in_flight[1])):
            degrees.append(conflict_degree(offsets, lanes, len(vector), element_bits))
            accesses = layout.registers >> width
            cost += accesses * (_access_wavefronts(element_bits << width) * degrees[-1] + INSTRUCTION_COST)
        key = (cost, sum(degrees), -store - load)
        if best is None or key < best[0]:
            best = (key, offsets, (store, load), degrees)
    if best is None:
        raise ValueError("no shared-memory layout holds the tile")
    _, offsets, widths, degrees = best
    inverse = gf2.right_inverse(offsets, src.out_bits)
    if inverse is None:
        raise ValueError("a tile with elements that no thread holds")
    store_access = deduplicated(vector_access(src, inverse, widths[0], degrees[0]))
    plan = SharedPlan(tuple(offsets), element_bits, store_access, vector_access(dst, inverse, widths[1], degrees[1]))
    for stores in (False, True) if matrix_stores else (False,):
        for form in MATRIX_FORMS:
            matrices = _matrix_plan(src, dst, element_bits, form, stores)
            if matrices is not None and matrices.access_cost() < plan.access_cost():
                plan = matrices
    return plan

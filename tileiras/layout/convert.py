"""Conversions between distributed layouts: the kind of movement between threads, as an explicit plan.

Everything is derived from the source of each destination bit: for destination register, lane and warp bits, the source
index (of the same CTA) that holds the element.  A plan is data: lowering emits it, tests simulate it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tileiras.layout.linear_layout import LinearLayout
from tileiras.layout.shared import WORD_BITS, SharedPlan, plan_shared
from tileiras.support import gf2
from tileiras.support.named_tuple import NamedTuple


class NoConversion(NamedTuple):
    """The layouts are equal; registers stay as they are."""

    def cost(self, element_bits: int) -> float:
        return 0.0


class RegisterPermutation(NamedTuple):
    """Register r of the result is register `source[r]` of the same thread's source."""

    source: tuple[int, ...]

    def cost(self, element_bits: int) -> float:
        return 0.0


class ConditionalXor(NamedTuple):
    """Where bit `bit` of the thread's `dim` index is set, register r is taken from r ^ `xor`."""

    dim: str
    bit: int
    xor: int


class WarpShuffle(NamedTuple):
    """Movement between the lanes of a warp in three steps.

    1. For each of `source_selects` in turn: new[r] = old[r ^ xor] where the thread's bit is set.
    2. got[r] = new[registers[r]] of lane `lane_map(lane) ^ warp_map(warp) ^ lane_xor[r]`; the own needs no shuffle.
    3. For each of `result_selects` in turn: out[r] = got[r ^ xor] where the bit is set.

    Result registers that differ only in `packed` bits come from the same lane and travel in one 32-bit word.
    """

    source_registers: int
    source_selects: tuple[ConditionalXor, ...]
    registers: tuple[int, ...]
    lane_map: tuple[int, ...]
    warp_map: tuple[int, ...]
    lane_xor: tuple[int, ...]
    result_selects: tuple[ConditionalXor, ...]
    packed: tuple[int, ...]

    @property
    def identity_lane_map(self) -> bool:
        """The source lane is the own lane XOR a constant, up to the warp's part."""
        return all(column == 1 << i for i, column in enumerate(self.lane_map)) and not any(self.warp_map)

    def moves(self, register: int) -> bool:
        """Whether result register `register` comes from another lane for any thread."""
        return not (self.identity_lane_map and self.lane_xor[register] == 0)

    def packed_bits(self, element_bits: int) -> tuple[int, ...]:
        """The register bits whose elements share a word, at most as many as fit."""
        room = max(0, (WORD_BITS // element_bits).bit_length() - 1) if element_bits < WORD_BITS else 0
        return self.packed[:room]

    def shuffles(self, element_bits: int) -> int:
        """Number of 32-bit shuffles."""
        words = max(1, -(-element_bits // WORD_BITS))
        mask = 0
        for bit in self.packed_bits(element_bits):
            mask |= 1 << bit
        seen = {
            (self.registers[r], self.lane_xor[r]) for r in range(len(self.registers)) if not r & mask and self.moves(r)
        }
        return words * len(seen)

    def cost(self, element_bits: int) -> float:
        # A shuffle occupies the load/store pipe like a shared access of one wavefront; a select is one of four ALU
        # slots.
        words = max(1, -(-element_bits // WORD_BITS))
        selects = len(self.source_selects) * self.source_registers + len(self.result_selects) * len(self.registers)
        return self.shuffles(element_bits) + 0.25 * words * selects


Plan = NoConversion | RegisterPermutation | WarpShuffle | SharedPlan


class _Sources:
    """For each destination bit the source (register, lane, warp, block) index parts, within the thread or the warp."""

    __slots__ = ("lane", "register", "warp_lane", "warp_register")

    def __init__(self) -> None:
        # (register part, lane part) for each destination register bit, lane bit, and warp bit.
        self.register: list[tuple[int, int]] = []
        self.lane: list[tuple[int, int]] = []
        self.warp_register: list[int] = []
        self.warp_lane: list[int] = []


def _find_sources(src: LinearLayout, dst: LinearLayout) -> _Sources | None:
    """The sources of the elements, or None if they leave the warp.

    A replicated source leaves a choice; the own lane is preferred, then registers over lanes.
    """
    registers = gf2.Echelon(src.bases("register"))
    count = src.bits("register")
    both = gf2.Echelon((*src.bases("register"), *src.bases("lane")))
    register_mask = (1 << count) - 1
    sources = _Sources()

    def in_warp(target: int) -> tuple[int, int] | None:
        solution = registers.solve(target)
        if solution is not None:
            return solution, 0
        solution = both.solve(target)
        return None if solution is None else (solution & register_mask, solution >> count)

    for target in dst.bases("register"):
        source = in_warp(target)
        if source is None:
            return None
        sources.register.append(source)
    for bit, target in enumerate(dst.bases("lane")):
        own = registers.solve(target ^ src.bases("lane")[bit])
        source = (own, 1 << bit) if own is not None else in_warp(target)
        if source is None:
            return None
        sources.lane.append(source)
    for dim in ("warp", "block"):
        to, from_ = dst.bases(dim), src.bases(dim)
        for bit in range(max(len(to), len(from_))):
            target = (to[bit] if bit < len(to) else 0) ^ (from_[bit] if bit < len(from_) else 0)
            source = in_warp(target)
            if source is None or (dim == "block" and source != (0, 0)):
                return None
            if dim == "warp":
                sources.warp_register.append(source[0])
                sources.warp_lane.append(source[1])
    return sources


def _permutation(sources: _Sources, registers: int) -> tuple[int, ...] | None:
    """The source register of each result register if every thread holds all of its elements already."""
    if any(sources.warp_register) or any(sources.warp_lane) or any(lane for _, lane in sources.register):
        return None
    if any(source != (0, 1 << bit) for bit, source in enumerate(sources.lane)):
        return None
    columns = [register for register, _ in sources.register]
    return tuple(gf2.apply(columns, r) for r in range(registers))


def _shuffle(src: LinearLayout, dst: LinearLayout, sources: _Sources) -> WarpShuffle | None:
    """The shuffle plan, or None when some lane would need a register that depends on more than the source lane."""
    register_columns = [r for r, _ in sources.register]
    register_lanes = [s for _, s in sources.register]
    lane_registers = [r for r, _ in sources.lane]
    lane_lanes = [s for _, s in sources.lane]

    # Which source register a lane hands out may depend on the source lane only: out of the lane columns, an
    # independent set defines that dependence as a linear map; other columns must agree with it, or be made independent
    # by letting the result pick another register there (result_selects).
    echelon = gf2.Echelon()
    values: list[int] = []

    def agrees(lane: int, register: int) -> bool | None:
        solution = echelon.solve(lane)
        return None if solution is None else gf2.apply(values, solution) == register

    pending = []
    for j, (lane, register) in enumerate(zip(lane_lanes, lane_registers)):
        if agrees(lane, register) is None:
            echelon.add(lane)
            values.append(register)
        else:
            pending.append(j)
    flips: dict[int, int] = {}
    for j in pending:
        if agrees(lane_lanes[j], lane_registers[j]):
            continue
        for k, column in enumerate(register_lanes):
            lane = lane_lanes[j] ^ column
            if k not in flips.values() and agrees(lane, 0) is None:
                flips[j] = k
                echelon.add(lane)
                values.append(lane_registers[j] ^ register_columns[k])
                break
        else:
            return None
    # Two flips must not feed each other: the order of conditional XORs is then irrelevant.
    lanes = [lane_lanes[j] ^ (register_lanes[flips[j]] if j in flips else 0) for j in range(len(lane_lanes))]

    # The dependence as columns over source lane bits; outside the span of the used columns any extension will do.
    for i in range(src.bits("lane")):
        if echelon.solve(1 << i) is None:
            echelon.add(1 << i)
            values.append(0)
    solutions = [echelon.solve(1 << i) for i in range(src.bits("lane"))]
    dependence = [gf2.apply(values, s) for s in solutions if s is not None]

    def on_lane(lane: int) -> int:
        return gf2.apply(dependence, lane)

    selects = [ConditionalXor("lane", b, xor) for b, xor in enumerate(dependence) if xor]
    for b, (register, lane) in enumerate(zip(sources.warp_register, sources.warp_lane)):
        xor = register ^ on_lane(lane)
        if xor:
            selects.append(ConditionalXor("warp", b, xor))
    columns = [r ^ on_lane(s) for r, s in sources.register]
    return WarpShuffle(
        source_registers=src.registers,
        source_selects=tuple(selects),
        registers=tuple(gf2.apply(columns, r) for r in range(dst.registers)),
        lane_map=tuple(lanes),
        warp_map=tuple(sources.warp_lane),
        lane_xor=tuple(gf2.apply(register_lanes, r) for r in range(dst.registers)),
        result_selects=tuple(ConditionalXor("lane", j, 1 << k) for j, k in sorted(flips.items())),
        packed=tuple(k for k, (register, lane) in enumerate(sources.register) if lane == 0 and columns[k]),
    )


@functools.lru_cache(maxsize=4096)
def plan_conversion(src: LinearLayout, dst: LinearLayout, element_bits: int, matrix_stores: bool = False) -> Plan:
    """The cheapest plan that turns a tile of layout `src` into layout `dst`; `matrix_stores` as for plan_shared().

    Raises ValueError for tiles of different shapes and for elements that would leave the CTA.
    """
    if src.shape != dst.shape:
        raise ValueError(f"conversion between tiles {list(src.shape)} and {list(dst.shape)}")
    if src == dst:
        return NoConversion()
    sources = _find_sources(src, dst)
    shuffle = None
    if sources is not None:
        permutation = _permutation(sources, dst.registers)
        if permutation is not None:
            return NoConversion() if permutation == tuple(range(src.registers)) else RegisterPermutation(permutation)
        shuffle = _shuffle(src, dst, sources)
    shared = plan_shared(src, dst, element_bits, matrix_stores)
    if shuffle is not None and shuffle.cost(element_bits) <= shared.cost(element_bits):
        return shuffle
    return shared


class Condition(NamedTuple):
    """The condition that bit `bit` of the thread's `dim` index is `value`."""

    dim: str
    bit: int
    value: int


class Round(NamedTuple):
    """These registers of the source become these of the result, in the threads where all conditions hold."""

    source: tuple[int, ...]
    source_conditions: tuple[Condition, ...]
    target: tuple[int, ...]
    target_conditions: tuple[Condition, ...]


class Rounds(NamedTuple):
    """A conversion done piece by piece: each of `parts` is a conversion from layout `source` to layout `target` of a
    smaller tile.  With conditions, some threads have no part in a round, on one side or on both."""

    source: LinearLayout
    target: LinearLayout
    parts: tuple[Round, ...]


def split_rounds(src: LinearLayout, dst: LinearLayout, bits: int, conditional: bool = False) -> Rounds | None:
    """The conversion in up to 2**bits rounds, None without any.

    Rounds go over tile bits that are registers on both sides, so that all threads work in all rounds, and, where
    `conditional` allows it, then over bits that one thread bit stands for.
    """
    everything = (*src.columns, *dst.columns)

    def threads(v: int) -> int:
        """On how many sides a thread bit stands for tile bit `v`."""
        return (v not in src.bases("register")) + (v not in dst.bases("register"))

    clean = [
        v
        for v in (1 << i for i in range(src.out_bits))
        if all(u == v or not u & v for u in everything)
        and src.columns.count(v) == dst.columns.count(v) == 1
        and v not in (*src.bases("block"), *dst.bases("block"))
        and (conditional or not threads(v))
    ]
    # The highest ones: neighbours stay together for wide accesses.
    basis = sorted(sorted(clean, key=lambda v: (threads(v), -v))[:bits])
    if not basis:
        return None
    result = [i for i in range(src.out_bits) if 1 << i not in basis]

    def compress(flat: int) -> int:
        return sum((flat >> position & 1) << i for i, position in enumerate(result))

    def smaller(layout: LinearLayout) -> LinearLayout:
        bases = {d: [compress(v) for v in layout.bases(d) if d != "register" or v not in basis] for d in layout.dims}
        return LinearLayout(bases, (1 << len(result),))

    def share(layout: LinearLayout, number: int) -> tuple[tuple[int, ...], tuple[Condition, ...]]:
        bases = layout.bases("register")
        fixed = mask = 0
        conditions = []
        for i, v in enumerate(basis):
            value = number >> i & 1
            if v in bases:
                bit = 1 << bases.index(v)
                mask |= bit
                fixed |= bit * value
            else:
                dim = "lane" if v in layout.bases("lane") else "warp"
                conditions.append(Condition(dim, layout.bases(dim).index(v), value))
        return tuple(r | fixed for r in range(layout.registers) if not r & mask), tuple(conditions)

    parts = tuple(Round(*share(src, n), *share(dst, n)) for n in range(1 << len(basis)))
    return Rounds(smaller(src), smaller(dst), parts)


def classify(src: LinearLayout, dst: LinearLayout, element_bits: int = 32) -> str:
    """ "none", "registers", "shuffle" or "shared"."""
    names = {NoConversion: "none", RegisterPermutation: "registers", WarpShuffle: "shuffle", SharedPlan: "shared"}
    return names[type(plan_conversion(src, dst, element_bits))]


def simulate(plan: Plan, src: LinearLayout, dst: LinearLayout) -> dict[tuple[int, int], list[int]]:
    """Element positions that each (warp, lane) holds after the plan: the meaning of a plan, used by the tests."""
    lanes, warps = src.count("lane"), max(src.count("warp"), dst.count("warp"))
    warp_mask = src.count("warp") - 1
    elements = {
        (w, t): [src.apply(register=r, lane=t, warp=w & warp_mask) for r in range(src.registers)]
        for w in range(warps)
        for t in range(lanes)
    }
    if isinstance(plan, NoConversion):
        return elements
    if isinstance(plan, RegisterPermutation):
        return {thread: [values[r] for r in plan.source] for thread, values in elements.items()}
    if isinstance(plan, WarpShuffle):
        return _simulate_shuffle(plan, elements)
    return plan.simulate(elements, warps, lanes)


def _conditional(
    selects: Sequence[ConditionalXor], elements: dict[tuple[int, int], list[int]]
) -> dict[tuple[int, int], list[int]]:
    for select in selects:
        elements = {
            (w, t): [values[r ^ select.xor] for r in range(len(values))]
            if (t if select.dim == "lane" else w) >> select.bit & 1
            else values
            for (w, t), values in elements.items()
        }
    return elements


def _simulate_shuffle(plan: WarpShuffle, cells: dict[tuple[int, int], list[int]]) -> dict[tuple[int, int], list[int]]:
    handed = _conditional(plan.source_selects, cells)
    got = {}
    for w, t in cells:
        base = gf2.apply(plan.lane_map, t) ^ gf2.apply(plan.warp_map, w & ((1 << len(plan.warp_map)) - 1))
        got[w, t] = [handed[w, base ^ xor][r] for r, xor in zip(plan.registers, plan.lane_xor)]
    return _conditional(plan.result_selects, got)

"""Dots that wgmma can execute, and the places of their operands.

B lies in shared memory, and A as well, in a layout that a matrix descriptor describes.  A is in registers if it is
computed from registers of the thread, from the result of another dot, or element by element from a loaded tile, and
if it stays there for a loop (`kept_operands.py`).  The contiguous dimension in shared memory is that in global memory,
so that copies of 16 bytes fill it.  wgmma takes elements of other widths than 16 bits only where K is contiguous.
Where it is not, those of 32 bits are A in registers, with rows in the order in which threads read them there
(`layout/contiguous_rows.py`); if they are B, the operands are exchanged.  All others are stored transposed.
"""

from __future__ import annotations

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Value
from tileiras.layout import LinearLayout, warpgroup_layouts
from tileiras.layout.contiguous_rows import contiguous_rows, with_rows
from tileiras.layout.linear_layout import SHARED_DIMS
from tileiras.layout.matrix_descriptor import Major, NoDescriptor, matrix_layout
from tileiras.layout.shared import WORD_BITS
from tileiras.reasons import Reason
from tileiras.resources.limits import registers_for_tiles
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import MmaAtom, Target, find_warpgroup_atom, product_types

from .chained_dots import comes_from_dot, is_chained
from .exchanged_dots import ExchangedDots
from .kept_operands import is_kept
from .operand_origins import Origin, Origins, major

NAME = "wgmma"

ROWS = 64
"""Rows of an instruction (PTX ISA, "Matrix Shape" of wgmma)."""

WARPS = 4
"""Warps of a warpgroup."""

MOST_COLUMNS, FEWEST_COLUMNS = 256, 8
"""PTX ISA, "Matrix Shape" of wgmma."""

MOST_ACCUMULATORS = 192
"""Registers of a thread for an accumulator: ptxas serializes the instructions of a larger one (message C7511)."""


class WarpgroupPlan(NamedTuple):
    """The atom of a dot, and the layouts of A, B and the accumulator; `exchanged`: the instruction's A is the
    transposed B."""

    atom: MmaAtom
    a: LinearLayout
    b: LinearLayout
    c: LinearLayout
    exchanged: bool


class Shape(NamedTuple):
    """Rows, columns and depth of a dot as the instruction sees them, and warpgroups along rows and columns."""

    m: int
    n: int
    k: int
    groups: tuple[int, int]


def split_groups(groups: int, m: int, n: int) -> tuple[int, int] | None:
    """Warpgroups along M, as far as there are rows for them, and along N; None when there are more than work."""
    along_m = min(groups, max(1, m // ROWS))
    along_n = groups // along_m
    return (along_m, along_n) if n // along_n >= FEWEST_COLUMNS else None


class WarpgroupDots:
    """The plans of the dots of a function."""

    def __init__(self, target: Target, num_warps: int, ctas: int, origins: Origins) -> None:
        self._target = target
        self._num_warps = num_warps
        self._ctas = ctas
        # For an SM with one CTA: accumulators of dots are in registers with any instruction, so other CTAs have to
        # yield.
        self._registers = registers_for_tiles(32 * num_warps)
        self._origins = origins
        self._exchanged = ExchangedDots(lambda op, exchanged: self._plan(op, exchanged, []), self._operand_layouts)

    def plan(self, op: aa.Dot, why: list[Reason]) -> WarpgroupPlan | None:
        """How warpgroups multiply a dot; None, with the reason in `why`, when they cannot or should not."""
        if not self._target.has("wgmma") or isinstance(op, aa.BlockScaledMmaOp):
            return None
        exchanged = op.c.type.shape[-2] < ROWS or self._exchanged.includes(op)
        if not exchanged and self._stores_only_b(op):
            plan = self._plan(op, True, [])
            if plan is not None and plan.b.dims != SHARED_DIMS:
                return plan
        return self._plan(op, exchanged, why)

    def _stores_only_b(self, op: aa.DotOp) -> bool:
        """Whether threads would have to store B, transposed, of a dot that takes A as copies lay it."""
        a, b = self._origins.of(op.a), self._origins.of(op.b)
        return a is not None and a.copied and a.axis == 1 and _has_contiguous_rows(op, op.b, b, 0)

    def _operand_layouts(self, op: aa.Dot) -> tuple[LinearLayout, LinearLayout] | None:
        """The layouts in which a dot takes A and B; None if warpgroups do not execute it."""
        plan = self.plan(op, [])
        return None if plan is None else (plan.a, plan.b)

    def _plan(self, op: aa.DotOp, exchanged: bool, why: list[Reason]) -> WarpgroupPlan | None:
        shape = self._shape(op, exchanged, why)
        if shape is None:
            return None
        types = product_types(op)
        atom_types = (types[1], types[0], types[2]) if exchanged else types
        columns = min(MOST_COLUMNS, shape.n // shape.groups[1])
        atom = find_warpgroup_atom(self._target, *atom_types, columns)
        if atom is None:
            why.append(Reason("dots.types", instruction=NAME, a=types[0], b=types[1], c=types[2]))
            return None
        if shape.k % atom.shape[2]:
            why.append(Reason("dots.shallow", instruction=NAME, k=shape.k, least=atom.shape[2]))
            return None
        bits = op.a.type.element_type.width
        sides = [(op.a, self._origins.of(op.a), 1), (op.b, self._origins.of(op.b), 0)]
        first = 1 if exchanged else 0
        along_rows = _has_contiguous_rows(op, *sides[first])
        if shape.groups[1] == 1 and (along_rows or not exchanged and self._in_registers(op, sides[0][1], columns)):
            atom = find_warpgroup_atom(self._target, *atom_types, columns, a_in_registers=True)
            assert atom is not None, "each row stands for A in both places"
        fragment, accumulator = warpgroup_layouts(atom, shape.m, shape.n, shape.k, shape.groups)
        if fragment is not None and along_rows:
            rows = contiguous_rows(fragment, bits)
            fragment, accumulator = with_rows(fragment, rows), with_rows(accumulator, rows)
        # Other elements are rearranged on their way where they are loaded with another contiguous dimension.
        majors: tuple[Major, ...] = ("k", "mn") if bits == 16 else ("k",)
        turn = (1, 0) if exchanged else (0, 1)
        try:
            a, b = (
                fragment.permute(turn) if fragment is not None and number == first
                else matrix_layout(value.type.shape, k_axis, bits, major(origin, k_axis, majors) or "k")
                for number, (value, origin, k_axis) in enumerate(sides)
            )  # fmt: skip
        except NoDescriptor as error:
            why.append(error.reason)
            return None
        return WarpgroupPlan(atom, a, b, accumulator.permute(turn), exchanged)

    def _shape(self, op: aa.DotOp, exchanged: bool, why: list[Reason]) -> Shape | None:
        """The sizes of a dot as the instruction sees them; None when it has no such form."""
        c, k = op.c.type, op.a.type.shape[-1]
        if c.rank != 2:
            why.append(Reason("dots.batch", instruction=NAME))
            return None
        m, n = c.shape[::-1] if exchanged else c.shape
        if m < ROWS or n < FEWEST_COLUMNS:
            least = f"{ROWS}x{FEWEST_COLUMNS}"
            why.append(Reason("dots.small", instruction=NAME, least=least, m=c.shape[0], n=c.shape[1]))
            return None
        if self._num_warps < WARPS:
            why.append(Reason("dots.few-warps", instruction=NAME, least=WARPS, warps=self._num_warps))
            return None
        groups = split_groups(self._num_warps // WARPS, m, n)
        if groups is None:
            why.append(Reason("dots.idle-warpgroups", m=m, n=n, warpgroups=self._num_warps // WARPS))
            return None
        accumulator = m * n * max(16, c.element_type.width) // (32 * 32 * self._num_warps)
        if accumulator > min(MOST_ACCUMULATORS, self._registers):
            why.append(Reason("dots.accumulator-registers", registers=accumulator))
            return None
        return Shape(m, n, k, groups)

    def _in_registers(self, op: aa.DotOp, origin: Origin | None, columns: int) -> bool:
        """Whether A is computed from registers of the thread, or stays in them for a loop."""
        if origin is None:
            return comes_from_dot(op.a)
        return not origin.copied or is_kept(op, columns, self._num_warps, self._ctas)


def _has_contiguous_rows(op: aa.DotOp, operand: Value, origin: Origin | None, k_axis: int) -> bool:
    """Whether an operand of 32-bit elements, which instructions take from shared memory only where K is contiguous, is
    loaded with the other dimension contiguous: as A of the instruction threads can read it in vectors.

    A register has several smaller elements along K, which would have to be gathered into it.  A result that is a factor
    of another dot has the rows of its instructions in their own order.
    """
    if operand.type.element_type.width != WORD_BITS or is_chained(op):
        return False
    return origin is not None and origin.axis != k_axis

"""The atom that could execute a dot, and the layouts that it requires of the operands."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tileiras import assignment
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import FloatType
from tileiras.layout import LinearLayout, blocked, fma_operands, mma_layouts, scale_layouts
from tileiras.layout.shared import VECTOR_BITS
from tileiras.reasons import Reason
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import (
    UNIVERSAL_FMA,
    MmaAtom,
    ScaledMmaAtom,
    Target,
    element_name,
    find_mma_atoms,
    find_scaled_mma_atom,
    matrix_loads,
    product_types,
)

from .chained_dots import is_chained

if TYPE_CHECKING:
    from .tensor_dots import TensorDots
    from .warpgroup_dots import WarpgroupDots

FMA_SIDES = (4, 2, 1)
"""Neighbouring rows or columns of the result that a thread of the multiply-add form has: four are 16 bytes of f32."""

FMA_LANES = (8, 16, 4, 32, 2, 1)
"""Lanes of a warp along the columns, the rest along the rows: eight read 128 bytes of a row, all banks, at once."""


class FmaBlock(NamedTuple):
    """Rows and columns of neighbours in a thread, of threads in a warp, and of warps."""

    thread: tuple[int, int]
    lanes: tuple[int, int]
    warps: tuple[int, int]

    def share(self, m: int, n: int) -> tuple[int, int]:
        """Rows and columns of an m x n result that a thread computes in all."""
        sides = zip(self.thread, self.lanes, self.warps, (m, n))
        rows, columns = (own * max(1, size // (own * lanes * warps)) for own, lanes, warps, size in sides)
        return rows, columns


@functools.lru_cache(maxsize=256)
def fma_block(m: int, n: int, num_warps: int) -> FmaBlock:
    """The distribution of a result over threads: as few multiply-adds for each as possible, none executed by several
    threads if there are enough elements, and as square a share as possible, which reuses loaded values most often."""

    def cost(block: FmaBlock) -> int:
        rows, columns = block.share(m, n)
        return rows * columns + rows + columns

    def blocks() -> Iterator[FmaBlock]:
        for lanes, *thread in itertools.product(FMA_LANES, FMA_SIDES, FMA_SIDES):
            rows, columns = min(m, thread[0]), min(n, thread[1])
            unit = rows * (32 // lanes), columns * lanes
            yield FmaBlock((rows, columns), (32 // lanes, lanes), split_warps(num_warps, (m, n), unit))

    return min(blocks(), key=cost)


class DotPlan(NamedTuple):
    """How a dot runs: an atom's name in the target tables, and the layouts of A, B, the accumulator, and of the scales
    of a block-scaled one; `exchanged`: the instruction's A is the transposed B.  `reason`: why it is not an
    asynchronous one."""

    atom: str
    a: LinearLayout
    b: LinearLayout
    c: LinearLayout
    scales: tuple[LinearLayout, ...] = ()
    exchanged: bool = False
    reason: Reason | None = None


class DotPlans:
    """The plan of every dot of a function, made on first use.

    `func` provides the access patterns of operands for targets with asynchronous dots (wgmma, tcgen05.mma); without it
    no dot is asynchronous.
    """

    def __init__(self, target: Target, num_warps: int, func: aa.FuncOp | None = None) -> None:
        self.target = target
        self._num_warps = num_warps
        self._plans: dict[aa.Dot, DotPlan] = {}
        self._asynchronous = None if func is None else _asynchronous_dots(target, num_warps, func)

    def refuse_asynchronous(self, op: aa.Dot, reason: Reason) -> None:
        """Exclude the asynchronous form of a dot."""
        self._plans[op] = self._make_plain(op)._replace(reason=reason)

    def keep_a_in_shared(self, op: aa.Dot) -> None:
        """Has a dot into tensor memory read A in shared memory, though threads might store it in tensor memory."""
        assert isinstance(self._asynchronous, assignment.tensor_dots.TensorDots), "it is into tensor memory"
        self._asynchronous.keep_a_in_shared(op)
        self._plans.pop(op, None)

    def plan(self, op: aa.Dot) -> DotPlan:
        result = self._plans.get(op)
        if result is None:
            result = self._plans[op] = self._make(op)
        return result

    def scaled_atom(self, op: aa.BlockScaledMmaOp) -> ScaledMmaAtom | None:
        """The instruction for a block-scaled dot; None if the target lacks it."""
        types = (op.a.type.element_type, op.b.type.element_type, op.scale_a.type.element_type)
        if op.scale_b.type.element_type is not types[2]:
            return None
        return find_scaled_mma_atom(self.target, *(t.keyword for t in types), op.block, op.a.type.shape[-1])

    def scales_runs_by_themselves(self, op: aa.BlockScaledMmaOp) -> bool:
        """Whether no instruction takes the scales of a dot, or of a part of it that memory holds."""
        if self.scaled_atom(op) is not None:
            return False
        if self._asynchronous is None or not self.target.has("tcgen05"):
            return True
        return not assignment.tensor_dots.takes_scales(self.target, op)

    def run_atom(self, op: aa.BlockScaledMmaOp, operand: FloatType | None = None) -> MmaAtom | None:
        """The instruction for the operands of a block-scaled dot that scales each run of K afterwards; None if the
        target has none whose depth divides the runs.  `operand`: a type that replaces theirs."""
        a, b = (element_name(operand or v.type.element_type) for v in (op.a, op.b))
        m, n = op.c.type.shape[-2:]
        atoms = find_mma_atoms(self.target, a, b, "f32", m, n, op.block)
        return atoms[0] if atoms else None

    def _make_scaled(self, op: aa.BlockScaledMmaOp) -> DotPlan:
        shape, depth = op.c.type.shape, op.a.type.shape[-1]
        batch = shape[0] if len(shape) == 3 else None
        m, n = shape[-2:]
        runs = depth // op.block
        atom = self.scaled_atom(op)
        if atom is not None:
            warps = split_warps(self._num_warps, (m, n), atom.c.shape)
            columns = self._columns(op, warps)
            scales = scale_layouts(atom, m, n, runs, warps, batch, columns)
            return DotPlan(atom.name, *mma_layouts(atom, m, n, depth, warps, batch, columns), scales)
        plain = self.run_atom(op)
        if plain is None:
            fma = self._fma(m, n, depth, batch)
            return fma._replace(scales=fma_operands(fma.c, runs))
        warps = split_warps(self._num_warps, (m, n), plain.c.shape)
        a, b, c = mma_layouts(plain, m, n, depth, warps, batch, self._columns(op, warps))
        return DotPlan(plain.name, a, b, c, fma_operands(c, runs))

    def _make(self, op: aa.Dot) -> DotPlan:
        if self._asynchronous is None:
            return self._make_plain(op)
        why: list[Reason] = []
        plan = self._asynchronous.plan(op, why)
        if plan is None:
            return self._make_plain(op)._replace(reason=why[-1] if why else None)
        scales = getattr(plan, "scales", ())
        return DotPlan(plan.atom.name, plan.a, plan.b, plan.c, scales, exchanged=plan.exchanged)

    def _make_plain(self, op: aa.Dot) -> DotPlan:
        """The plan without asynchronous instructions."""
        if isinstance(op, aa.BlockScaledMmaOp):
            return self._make_scaled(op)
        a, c = op.a.type, op.c.type
        batch = c.shape[0] if c.rank == 3 else None
        m, n, k = c.shape[-2], c.shape[-1], a.shape[-1]
        atoms = find_mma_atoms(self.target, *product_types(op), m, n, k)
        if not atoms:
            return self._fma(m, n, k, batch)
        atom = atoms[0]
        split = split_rows if is_chained(op) else split_warps
        warps = split(self._num_warps, (m, n), atom.c.shape)
        return DotPlan(atom.name, *mma_layouts(atom, m, n, k, warps, batch, self._columns(op, warps)))

    def _columns(self, op: aa.Dot, warps: tuple[int, int]) -> int:
        """The number of neighbouring columns of the result that a warp computes: the elements in a row of the matrices
        of B that warps load transposed, at most the warp's columns; 1 without such matrices."""
        bits = op.b.type.element_type.width
        transposed = any(form.transposed and bits in form.element_bits for form in matrix_loads(self.target))
        return min(op.c.type.shape[-1] // warps[1], VECTOR_BITS // bits) if transposed else 1

    def _fma(self, m: int, n: int, k: int, batch: int | None) -> DotPlan:
        lead = () if batch is None else (batch,)
        ones = (1,) * len(lead)
        block = fma_block(m, n, self._num_warps)
        order = tuple(range(len(lead) + 1, -1, -1))
        c = blocked((*lead, m, n), *((*ones, *counts) for counts in block), order)
        return DotPlan(UNIVERSAL_FMA, *fma_operands(c, k), c)


def _asynchronous_dots(target: Target, num_warps: int, func: aa.FuncOp) -> WarpgroupDots | TensorDots | None:
    """The planner of the asynchronous dots of a function; None if the target lacks them."""
    if not target.has("wgmma") and not target.has("tcgen05"):
        return None
    origins = assignment.operand_origins.Origins(lambda: assignment.operand_origins.memory_layouts(func, num_warps))
    ctas = func.kernel_spec.occupancy or 1
    if target.has("wgmma"):
        return assignment.warpgroup_dots.WarpgroupDots(target, num_warps, ctas, origins)
    return assignment.tensor_dots.TensorDots(target, num_warps, ctas, origins)


def split_warps(num_warps: int, tile: tuple[int, int], unit: tuple[int, int]) -> tuple[int, int]:
    """Warps along M and N, where a warp computes multiples of `unit`: as square a share of the tile as that allows.

    Warps in excess of the tile's units go along M, where they repeat work.
    """
    share_m, share_n = tile
    along_m = along_n = 1
    while along_m * along_n < num_warps:
        if share_n > unit[1] and (share_n > share_m or share_m <= unit[0]):
            along_n *= 2
            share_n //= 2
        else:
            along_m *= 2
            share_m //= 2
    return along_m, along_n


def split_rows(num_warps: int, tile: tuple[int, int], unit: tuple[int, int]) -> tuple[int, int]:
    """Warps along M as far as there are rows for them: each warp then has whole rows of the result."""
    along_m = min(num_warps, max(1, tile[0] // unit[0]))
    return along_m, num_warps // along_m

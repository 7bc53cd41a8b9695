"""Which dots tcgen05.mma can execute, and where their operands and accumulators lie.

A and B lie in shared memory, in layouts that a matrix descriptor describes, and the accumulator in tensor memory.  An A
of 16-bit elements lies there as well if it is computed of another dot's accumulator, whose elements stay in their
lanes, or in each iteration of a loop: such loops are bound by the bandwidth of shared memory, which it then does not
take.
Where threads use a result, they have it in the registers that a load from there gives: that is the layout which the
rest of the function sees.
"""

from __future__ import annotations

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import scf
from tileiras.ir import TensorType, Value
from tileiras.layout import LinearLayout
from tileiras.layout.matrix_descriptor import NoDescriptor, matrix_layout
from tileiras.layout.tensor_memory import (
    COLUMNS,
    HALF,
    LANES,
    accumulator_layout,
    columns_of,
    fragment_layout,
    operand_layout,
    scale_columns,
    scale_layout,
    scale_places,
)
from tileiras.reasons import Reason
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import (
    MmaAtom,
    ScaledMmaAtom,
    Target,
    element_name,
    find_scaled_tensor_atom,
    find_tensor_atom,
    product_types,
)
from tileiras.targets.atoms.rows import SharedTile

from .chained_dots import is_chained
from .operand_origins import Origins, major
from .tensor_operands import operand_columns, source_dot

NAME = "tcgen05.mma"

WARPS = 4
"""The fewest warps that access all lanes (PTX ISA, "Access restrictions" of tensor memory)."""

MOST_COLUMNS = 256
"""The most columns of an instruction (PTX ISA, "Matrix Shape" of tcgen05.mma)."""

LEAST_COLUMNS = {HALF: 8, LANES: 16}
"""The fewest columns by rows, likewise."""



class TensorPlan(NamedTuple):
    """The atom of a dot, and the layouts of A, B, the accumulator in tensor memory, its fragments in registers, and of
    scales; `exchanged`: the instruction's A is the transposed B."""

    atom: MmaAtom | ScaledMmaAtom
    a: LinearLayout
    b: LinearLayout
    c: LinearLayout
    exchanged: bool = False
    scales: tuple[LinearLayout, ...] = ()


class TensorDots:
    """The plans of the dots of a function."""

    def __init__(self, target: Target, num_warps: int, occupancy: int, origins: Origins) -> None:
        self._target = target
        self._num_warps = num_warps
        self._columns = COLUMNS // occupancy
        self._origins = origins
        self._in_shared: set[aa.Dot] = set()

    def keep_a_in_shared(self, op: aa.Dot) -> None:
        """Has a dot read A in shared memory from now on."""
        self._in_shared.add(op)

    def plan(self, op: aa.Dot, why: list[Reason]) -> TensorPlan | None:
        """How tcgen05.mma multiplies a dot; None, with the reason in `why`, when it cannot."""
        c, k = op.c.type, op.a.type.shape[-1]
        if c.rank != 2:
            why.append(Reason("dots.batch", instruction=NAME))
            return None
        if isinstance(op, aa.BlockScaledMmaOp):
            return self._scaled_plan(op, why) if self._has_warps(why) else None
        exchanged = c.shape[0] < HALF
        m, n = c.shape[::-1] if exchanged else c.shape
        rows = min(m, LANES)
        if m < HALF or n < LEAST_COLUMNS[rows]:
            least = f"{HALF}x{LEAST_COLUMNS[HALF]}, {LANES}x{LEAST_COLUMNS[LANES]}"
            why.append(Reason("dots.small", instruction=NAME, least=least, m=c.shape[0], n=c.shape[1]))
            return None
        types = product_types(op)
        atom_types = (types[1], types[0], types[2]) if exchanged else types
        atom = find_tensor_atom(self._target, *atom_types, rows, min(n, MOST_COLUMNS))
        if atom is None:
            why.append(Reason("dots.types", instruction=NAME, a=types[0], b=types[1], c=types[2]))
            return None
        if k % atom.shape[2]:
            why.append(Reason("dots.shallow", instruction=NAME, k=k, least=atom.shape[2]))
            return None
        if not self._has_warps(why):
            return None
        # Of tiles between two dots whole rows are reduced and multiplied: the fewer threads have parts of one.
        halves = is_chained(op) and not exchanged
        accumulator = self._accumulator(c, rows, exchanged, why, halves=halves)
        if accumulator is None:
            return None
        a = None if exchanged else self._a_in_tensor_memory(op, atom)
        if a is not None:
            other = find_tensor_atom(self._target, *atom_types, *atom.shape[:2], a_in_tensor=True)
            b = self._operand(op.b, 0, atom, why)
            if other is not None and b is not None:
                return TensorPlan(other, a, b, accumulator, exchanged)
        operands = self._operands(op, atom, exchanged, why)
        return None if operands is None else TensorPlan(atom, *operands, accumulator, exchanged)

    def _has_warps(self, why: list[Reason]) -> bool:
        if self._num_warps < WARPS:
            why.append(Reason("dots.few-warps", instruction=NAME, least=WARPS, warps=self._num_warps))
        return self._num_warps >= WARPS

    def _scaled_plan(self, op: aa.BlockScaledMmaOp, why: list[Reason]) -> TensorPlan | None:
        """How it multiplies with scales, which copies bring to tensor memory: a word for four runs of K, a column for
        32 rows."""
        (m, n), runs = op.c.type.shape, op.scale_a.type.shape[-1]
        if _scaled_shape(m, n) is None:
            least = f"{HALF}x{LEAST_COLUMNS[LANES]}"
            why.append(Reason("dots.small", instruction=f"{NAME}.block_scale", least=least, m=m, n=n))
            return None
        atom = _scaled_atom(self._target, op)
        if atom is None:
            types = [element_name(v.type.element_type) for v in (op.a, op.b, op.scale_a)]
            a, b, scales = types
            why.append(Reason("dots.scaled-types", instruction=NAME, a=a, b=b, scales=scales, block=op.block))
            return None
        if op.a.type.shape[1] % atom.shape[2]:
            why.append(Reason("dots.shallow", instruction=NAME, k=op.a.type.shape[1], least=atom.shape[2]))
            return None
        exchanged, spread = _is_exchanged(m, n), atom.is_spread
        # A loop has those of two iterations.
        columns = 2 * sum(scale_columns(count, runs) for count in scale_places((m, n), spread, exchanged))
        accumulator = self._accumulator(op.c.type, atom.cta_rows, exchanged, why, columns)
        operands = self._operands(op, atom, exchanged, why)
        if accumulator is None or operands is None:
            return None
        of_a, of_b = scale_layout(m, runs, spread and not exchanged), scale_layout(n, runs, spread and exchanged)
        scales = of_a, of_b.permute((1, 0))
        return TensorPlan(atom, *operands, accumulator, exchanged, scales)

    def _accumulator(
        self, type: TensorType, rows: int, exchanged: bool, why: list[Reason], beside: int = 0, halves: bool = False
    ) -> LinearLayout | None:
        """The fragments that threads load of the accumulator, `halves` of its rows where lanes are free; None if it
        does not fit with the columns `beside` it, or its lanes cannot be divided among the warps."""
        size = type.num_elements // rows
        if size + beside > self._columns:
            why.append(Reason("dots.accumulator-columns", columns=size, most=self._columns))
            return None
        layout = accumulator_layout(type.shape, rows, exchanged)
        assert columns_of(layout) == size
        fragment = fragment_layout(layout, self._num_warps, type.element_type.width, halves)
        if fragment is None:
            why.append(Reason("dots.columns-for-warps", columns=size, warps=self._num_warps))
        return fragment

    def _a_in_tensor_memory(self, op: aa.DotOp, atom: MmaAtom) -> LinearLayout | None:
        """The fragments that threads store as A to tensor memory, if A is computed from another dot's result in the
        same threads, or in each iteration; None if A goes to shared memory."""
        a = op.a
        if source_dot(a) is None and not self._is_computed_in_loop(op) or operand_columns(a.type) > self._columns:
            return None
        bits = a.type.element_type.width
        return fragment_layout(operand_layout(a.type.shape, bits), self._num_warps, bits, halves=True)

    def _is_computed_in_loop(self, op: aa.DotOp) -> bool:
        """Whether A is computed in the iteration that multiplies it, from tiles that are not copied to shared
        memory."""
        producer = op.a.defining_op
        if op in self._in_shared or not isinstance(op.parent_op, scf.ForOp) or producer is None:
            return False
        origin = self._origins.of(op.a)
        return producer.parent is op.parent and (origin is None or not origin.copied)

    def _operands(
        self, op: aa.Dot, atom: MmaAtom | ScaledMmaAtom, exchanged: bool, why: list[Reason]
    ) -> tuple[LinearLayout, LinearLayout] | None:
        """The layouts of A and B in shared memory; None if copies can fill none."""
        a = self._operand(op.a, 1, atom, why, exchanged)
        b = None if a is None else self._operand(op.b, 0, atom, why, not exchanged)
        return None if a is None or b is None else (a, b)

    def _operand(
        self, value: Value, k_axis: int, atom: MmaAtom | ScaledMmaAtom, why: list[Reason], is_b: bool = True
    ) -> LinearLayout | None:
        """The layout of an operand in shared memory, which `is_b` of the instruction."""
        bits = value.type.element_type.width
        assert isinstance(atom.b, SharedTile), "operands are in shared memory"
        origin = self._origins.of(value)
        # Elements of four bits lie along K; others are rearranged on their way to shared memory.
        along, spread = major(origin, k_axis, atom.b.majors) or "k", atom.is_spread and not is_b
        if along == "mn" and bits == 8 and is_b and atom.shape[1] < LEAST_COLUMNS[LANES]:
            why.append(Reason("dots.narrow-columns"))
            return None
        try:
            return matrix_layout(value.type.shape, k_axis, bits, along, spread)
        except NoDescriptor as error:
            if along == "k" or origin is None or origin.copied:
                why.append(error.reason)
                return None
            # It goes through registers, from where its elements can be stored in any order.
            return matrix_layout(value.type.shape, k_axis, bits, "k", spread)


def takes_scales(target: Target, op: aa.BlockScaledMmaOp) -> bool:
    """Whether tcgen05.mma multiplies a dot with its scales, or each matrix of a batch, perhaps a part of it at a
    time."""
    atom = _scaled_atom(target, op)
    return atom is not None and op.a.type.shape[-1] % atom.shape[2] == 0


def _scaled_atom(target: Target, op: aa.BlockScaledMmaOp) -> ScaledMmaAtom | None:
    """The instruction for a dot, or for its transpose where that has more rows."""
    m, n = op.c.type.shape[-2:]
    shape = _scaled_shape(m, n)
    if shape is None:
        return None
    a, b, scale = (element_name(v.type.element_type) for v in (op.a, op.b, op.scale_a))
    if _is_exchanged(m, n):
        a, b = b, a
    return find_scaled_tensor_atom(target, a, b, scale, op.block, *shape)


def _is_exchanged(m: int, n: int) -> bool:
    """Whether a dot with scales is multiplied as its transpose, which has rows enough for whole instructions, or more
    of them."""
    return m < LANES and m < n


def _scaled_shape(m: int, n: int) -> tuple[int, int] | None:
    """Rows and columns of the instruction for a dot with scales; None for one that is too small."""
    if _is_exchanged(m, n):
        m, n = n, m
    return (min(m, LANES), min(n, MOST_COLUMNS)) if m >= HALF and n >= LEAST_COLUMNS[LANES] else None

"""Which dots tcgen05.mma can execute, and where their operands and accumulators lie.

A and B lie in shared memory, in layouts that a matrix descriptor describes, and the accumulator in tensor memory.
Where threads use a result, they have it in the registers that a load from there gives: that is the layout which the
rest of the function sees.
"""

from __future__ import annotations

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import TensorType
from tileiras.layout import LinearLayout
from tileiras.layout.matrix_descriptor import matrix_layout
from tileiras.layout.tensor_memory import COLUMNS, HALF, LANES, accumulator_layout, columns_of, fragment_layout
from tileiras.named_tuple import NamedTuple
from tileiras.targets import MmaAtom, Target, find_tensor_atom, product_types
from tileiras.targets.atoms.rows import SharedTile

from .operand_origins import Origins, major

WARPS = 4
"""Fewest that reach all lanes (PTX ISA, "Access restrictions" of tensor memory)."""

MOST_COLUMNS = 256
"""Of an instruction (PTX ISA, "Matrix Shape" of tcgen05.mma)."""

LEAST_COLUMNS = {HALF: 8, LANES: 16}
"""By rows, likewise."""



class TensorPlan(NamedTuple):
    """The atom of a dot, and the layouts of A, B, the accumulator in tensor memory and of what threads load of it;
    `exchanged`: the instruction's A is the transposed B."""

    atom: MmaAtom
    a: LinearLayout
    b: LinearLayout
    c: LinearLayout
    exchanged: bool


class TensorDots:
    """The plans of the dots of a function."""

    def __init__(self, target: Target, num_warps: int, occupancy: int, origins: Origins) -> None:
        self._target = target
        self._num_warps = num_warps
        self._columns = COLUMNS // occupancy
        self._origins = origins

    def plan(self, op: aa.Dot, why: list[str]) -> TensorPlan | None:
        """How tcgen05.mma multiplies a dot; None, with the reason in `why`, when it cannot."""
        if isinstance(op, aa.BlockScaledMmaOp):
            return None
        c, k = op.c.type, op.a.type.shape[-1]
        if c.rank != 2:
            why.append("tcgen05.mma is not used for batches")
            return None
        if self._num_warps < WARPS:
            why.append(f"tensor memory is read by {WARPS} warps, the kernel has {self._num_warps}")
            return None
        exchanged = c.shape[0] < HALF
        m, n = c.shape[::-1] if exchanged else c.shape
        rows = min(m, LANES)
        if m < HALF or n < LEAST_COLUMNS[rows]:
            least = f"{HALF} rows and {LEAST_COLUMNS[HALF]} columns, {LANES} and {LEAST_COLUMNS[LANES]}"
            why.append(f"tcgen05.mma has {least} at least, the dot {c.shape[0]} x {c.shape[1]}")
            return None
        types = product_types(op)
        atom_types = (types[1], types[0], types[2]) if exchanged else types
        atom = find_tensor_atom(self._target, *atom_types, rows, min(n, MOST_COLUMNS))
        if atom is None:
            why.append(f"tcgen05.mma of {self._target.name} does not multiply {types[0]} x {types[1]} + {types[2]}")
            return None
        if k % atom.shape[2]:
            why.append(f"K of {k} is less than the {atom.shape[2]} of tcgen05.mma")
            return None
        accumulator = self._accumulator(c, rows, exchanged, why)
        operands = self._operands(op, atom, exchanged, why)
        if accumulator is None or operands is None:
            return None
        return TensorPlan(atom, *operands, accumulator, exchanged)

    def _accumulator(self, type: TensorType, rows: int, exchanged: bool, why: list[str]) -> LinearLayout | None:
        """What threads load of the accumulator; None when it does not fit, or its lanes cannot be divided among
        the warps."""
        size = type.num_elements // rows
        if size > self._columns:
            why.append(f"{size} columns of the accumulator do not fit into the {self._columns} of tensor memory")
            return None
        layout = accumulator_layout(type.shape, rows, exchanged)
        assert columns_of(layout) == size
        fragment = fragment_layout(layout, self._num_warps, type.element_type.width)
        if fragment is None:
            why.append(f"{size} columns of tensor memory are too few for {self._num_warps} warps")
        return fragment

    def _operands(
        self, op: aa.DotOp, atom: MmaAtom, exchanged: bool, why: list[str]
    ) -> tuple[LinearLayout, LinearLayout] | None:
        """The layouts of A and B in shared memory; None when there is none that copies fill."""
        bits = op.a.type.element_type.width
        found = []
        for which, value, k_axis in (("A", op.a, 1), ("B", op.b, 0)):
            assert isinstance(atom.b, SharedTile), "operands are in shared memory"
            origin = self._origins.of(value)
            along = major(origin, k_axis, atom.b.majors)
            assert along is not None, "every kind takes both"
            turned = along == "mn" and bits == 8 and which == ("A" if exchanged else "B")
            if turned and atom.shape[1] < LEAST_COLUMNS[LANES]:
                why.append("tcgen05.mma takes 16 columns at least of elements of 8 bits that are not along K")
                return None
            try:
                found.append(matrix_layout(value.type.shape, k_axis, bits, along))
            except ValueError as error:
                if along == "k" or origin is None or origin.copied:
                    why.append(str(error))
                    return None
                # It goes through registers, from where its elements can go anywhere.
                found.append(matrix_layout(value.type.shape, k_axis, bits, "k"))
        return found[0], found[1]

"""Which atom a target has for a dot, and why it has no better one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.reasons import Reason
from tileiras.targets.requirements import spell
from tileiras.targets.sm import Target

from .mma_sync import MMA_ATOMS, SCALED_MMA_ATOMS
from .rows import MmaAtom, ScaledMmaAtom

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir import FloatType, IntegerType


def element_name(type: FloatType | IntegerType, signedness: str | None = None) -> str:
    """An element type as these tables name it: `f16`, `i32`; `s8` or `u8` for an operand that is `signed` or
    `unsigned`."""
    keyword = getattr(type, "keyword", None)
    if keyword is not None:
        return keyword
    letter = "i" if signedness is None else "s" if signedness == "signed" else "u"
    return f"{letter}{type.width}"


def product_types(op: aa.DotOp) -> tuple[str, str, str]:
    """The names of the element types of A, B and C of a dot, block-scaled or not, in flight or not."""
    types = [getattr(value.type, "tile", value.type).element_type for value in (op.a, op.b, op.c)]
    signs = (getattr(op, name, None) for name in ("signedness_a", "signedness_b"))
    a, b = (
        element_name(type, None if sign is None else sign.value) for type, sign in zip(types, signs)
    )
    return a, b, element_name(types[2])


UNIVERSAL_FMA = "universal_fma"
"""The atom of every target and type: a multiply-add for each element of the result and each step of K."""


def scaled_mma_atom(name: str) -> ScaledMmaAtom:
    """The block-scaled atom of this name; KeyError if it is unknown."""
    return SCALED_MMA_ATOMS[name]


def find_scaled_mma_atom(
    on: Target, a_type: str, b_type: str, scale_type: str, block: int, k: int
) -> ScaledMmaAtom | None:
    """The target's atom for operands and scales of these types, in runs of `block`; None if the target lacks it."""
    for atom in SCALED_MMA_ATOMS.values():
        key = (atom.a_type, atom.b_type, atom.scale_type, atom.block)
        if key == (a_type, b_type, scale_type, block) and atom.shape[2] <= k and on.meets(atom.requires):
            return atom
    return None


WARPGROUP, TENSOR = "wgmma_", "tcgen05_"
"""How names of atoms begin that a warpgroup executes, or one thread for tensor memory."""


def mma_atom(name: str) -> MmaAtom | ScaledMmaAtom:
    """The atom of this name; KeyError if it is unknown."""
    result = known_mma_atom(name)
    if result is None:
        raise KeyError(name)
    return result


def known_mma_atom(name: str) -> MmaAtom | ScaledMmaAtom | None:
    """The atom of this name that multiplies without scales, or that one thread issues; None if it is unknown."""
    # Hundreds of rows, for kernels with such dots only.
    if name.startswith(WARPGROUP):
        from .wgmma import WGMMA_ATOMS

        return WGMMA_ATOMS.get(name)
    if name.startswith(TENSOR):
        from .tcgen05 import SCALED_TCGEN05_ATOMS, TCGEN05_ATOMS

        entry = TCGEN05_ATOMS.get(name) or SCALED_TCGEN05_ATOMS.get(name)
        return entry if entry is not None and entry.is_selectable else None
    return MMA_ATOMS.get(name)


def find_warpgroup_atom(
    on: Target, a_type: str, b_type: str, c_type: str, n: int, a_in_registers: bool = False
) -> MmaAtom | None:
    """The target's atom of a warpgroup for these element types and `n` columns; None if the target lacks it."""
    if not on.has("wgmma"):
        return None
    from .wgmma import WGMMA_ATOMS, warpgroup_atom_name

    return WGMMA_ATOMS.get(warpgroup_atom_name(a_type, b_type, c_type, n, a_in_registers))


def find_tensor_atom(
    on: Target, a_type: str, b_type: str, c_type: str, m: int, n: int, a_in_tensor: bool = False
) -> MmaAtom | None:
    """The target's atom of `m` rows and `n` columns for these element types, whose accumulator lies in tensor memory,
    with `a_in_tensor` A as well; None if the target lacks it or it is not `is_selectable`."""
    if not on.has("tcgen05"):
        return None
    from .tcgen05 import TCGEN05_ATOMS, tensor_atom_name

    entry = TCGEN05_ATOMS.get(tensor_atom_name(a_type, b_type, c_type, m, n, a_in_tensor))
    return entry if entry is not None and entry.is_selectable and on.meets(entry.requires) else None


def find_pair_atom(on: Target, a_type: str, b_type: str, c_type: str, rows: int, n: int) -> MmaAtom | None:
    """The target's atom of a pair of CTAs, each with 64 or 128 `rows` of the result and half of its `n` columns of B;
    None if the target lacks it."""
    if not on.has("tcgen05"):
        return None
    from .tcgen05 import TCGEN05_ATOMS, tensor_atom_name

    entry = TCGEN05_ATOMS.get(tensor_atom_name(a_type, b_type, c_type, 2 * rows, n, pair=True))
    return entry if entry is not None and entry.is_selectable and on.meets(entry.requires) else None


def find_scaled_tensor_atom(
    on: Target, a_type: str, b_type: str, scale_type: str, block: int, m: int, n: int, pair: bool = False
) -> ScaledMmaAtom | None:
    """The target's block-scaled atom of `m` rows, of a CTA or of a `pair`, and `n` columns whose accumulator lies in
    tensor memory; None if the target lacks it or it is not `is_selectable`."""
    if not on.has("tcgen05"):
        return None
    from .tcgen05 import SCALED_TCGEN05_ATOMS, scaled_tensor_atom_name

    entry = SCALED_TCGEN05_ATOMS.get(scaled_tensor_atom_name(a_type, b_type, scale_type, block, m, n, pair))
    return entry if entry is not None and entry.is_selectable and on.meets(entry.requires) else None


def find_mma_atoms(on: Target, a_type: str, b_type: str, c_type: str, m: int, n: int, k: int) -> list[MmaAtom]:
    """Atoms the target has for these element types and an m x n x k tile, the best first.

    The depth of the tile is a multiple of the atom's.  Rows and columns that the tile lacks are computed again, so the
    atom that repeats least comes first, and among equals the one with most work per instruction.
    """
    fitting = [atom for atom in _atoms_of(a_type, b_type, c_type) if on.meets(atom.requires) and atom.shape[2] <= k]

    def rank(atom: MmaAtom) -> tuple[int, int, str]:
        rows, columns, depth = atom.shape
        repeated = max(1, rows // m) * max(1, columns // n)
        return repeated, -rows * columns * depth, atom.name

    return sorted(fitting, key=rank)


def _atoms_of(a_type: str, b_type: str, c_type: str) -> list[MmaAtom]:
    return [atom for atom in MMA_ATOMS.values() if (atom.a_type, atom.b_type, atom.c_type) == (a_type, b_type, c_type)]


ASYNCHRONOUS = {"tcgen05": "tcgen05.mma"}
"""Feature -> dots that are larger than any of this table, for which there are no atoms."""

ASYNCHRONOUS_ROWS = 64
"""Rows of the smallest of them (PTX ISA, "Shape" of wgmma.mma_async; of tcgen05.mma with one CTA)."""

NEAREST = {"f32": "tf32"}
"""Element type that no instruction multiplies -> one with its range that one does."""


def why_no_better_atom(on: Target, a_type: str, b_type: str, c_type: str, m: int, n: int, k: int) -> Reason | None:
    """The reason why `find_mma_atoms` puts no larger atom first; None if it puts the largest."""
    choice = next(iter(find_mma_atoms(on, a_type, b_type, c_type, m, n, k)), None)
    atoms = _atoms_of(a_type, b_type, c_type)
    if not atoms:
        nearest = (NEAREST.get(a_type, a_type), NEAREST.get(b_type, b_type), c_type)
        if nearest == (a_type, b_type, c_type) or not find_mma_atoms(on, *nearest, m, n, k):
            return Reason("dots.no-instruction", a=a_type, b=b_type, c=c_type)
        return Reason("dots.no-instruction-but-near", a=a_type, b=b_type, c=c_type, near=nearest[0])
    largest = max(atoms, key=lambda atom: atom.shape[0] * atom.shape[1] * atom.shape[2])
    if largest is not choice:
        if not any(on.meets(atom.requires) for atom in atoms):
            least = spell(min(atom.requires for atom in atoms))
            return Reason("dots.target-lacks", target=on.name, a=a_type, b=b_type, c=c_type, needs=least)
        shape = "m{}n{}k{}".format(*largest.shape)
        if not on.meets(largest.requires):
            return Reason("dots.atom-needs", atom=shape, needs=spell(largest.requires))
        if largest.shape[2] > k:
            return Reason("dots.atom-deeper", atom=shape, k=k)
        return Reason("dots.atom-repeats", atom=shape, m=m, n=n)
    larger = next((name for feature, name in ASYNCHRONOUS.items() if on.has(feature)), None)
    return Reason("dots.not-generated", instruction=larger) if larger is not None and m >= ASYNCHRONOUS_ROWS else None

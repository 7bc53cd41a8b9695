"""The GPUs: limits per SM, features, and the instruction atoms, as data with sources.

The process that runs LLVM does not need the tables of atoms: they are loaded when one of their names is used.
"""

from tileiras.support.lazy import lazy_dir, lazy_names
from tileiras.targets.sm import TARGETS, Occupancy, Target, occupancy, registers_per_thread, target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .atoms.choice import (
        UNIVERSAL_FMA,
        element_name,
        find_mma_atoms,
        find_pair_atom,
        find_scaled_mma_atom,
        find_scaled_tensor_atom,
        find_tensor_atom,
        find_warpgroup_atom,
        known_mma_atom,
        mma_atom,
        product_types,
        scaled_mma_atom,
        why_no_better_atom,
    )
    from .atoms.copies import COPY_ATOMS, copy_atom, find_copy_atom, has_copy_atom, matrix_loads
    from .atoms.mma_sync import MMA_ATOMS, SCALED_MMA_ATOMS
    from .atoms.rows import CopyAtom, Fragment, MatrixForm, MmaAtom, ScaledMmaAtom

_LAZY = {
    "COPY_ATOMS": "atoms.copies",
    "CopyAtom": "atoms.rows",
    "copy_atom": "atoms.copies",
    "find_copy_atom": "atoms.copies",
    "has_copy_atom": "atoms.copies",
    "matrix_loads": "atoms.copies",
    "MMA_ATOMS": "atoms.mma_sync",
    "SCALED_MMA_ATOMS": "atoms.mma_sync",
    "UNIVERSAL_FMA": "atoms.choice",
    "Fragment": "atoms.rows",
    "MatrixForm": "atoms.rows",
    "MmaAtom": "atoms.rows",
    "ScaledMmaAtom": "atoms.rows",
    "element_name": "atoms.choice",
    "find_mma_atoms": "atoms.choice",
    "find_pair_atom": "atoms.choice",
    "find_scaled_mma_atom": "atoms.choice",
    "find_scaled_tensor_atom": "atoms.choice",
    "find_tensor_atom": "atoms.choice",
    "find_warpgroup_atom": "atoms.choice",
    "known_mma_atom": "atoms.choice",
    "mma_atom": "atoms.choice",
    "product_types": "atoms.choice",
    "scaled_mma_atom": "atoms.choice",
    "why_no_better_atom": "atoms.choice",
}

__all__ = ["TARGETS", "Occupancy", "Target", "occupancy", "registers_per_thread", "target", *_LAZY]

__getattr__ = lazy_names(__name__, globals(), _LAZY)
__dir__ = lazy_dir(globals(), _LAZY)

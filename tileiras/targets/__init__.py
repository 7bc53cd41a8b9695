"""What the GPUs are and can do: limits per SM, features, and the instruction atoms, as data with sources."""

from tileiras.targets.copy_atoms import COPY_ATOMS, CopyAtom, copy_atom, find_copy_atom, has_copy_atom
from tileiras.targets.mma_atoms import (
    MMA_ATOMS,
    SCALED_MMA_ATOMS,
    UNIVERSAL_FMA,
    Fragment,
    MmaAtom,
    ScaledMmaAtom,
    find_mma_atoms,
    find_scaled_mma_atom,
    mma_atom,
    scaled_mma_atom,
    why_no_better_atom,
)
from tileiras.targets.sm import TARGETS, Occupancy, Target, occupancy, registers_per_thread, target

__all__ = [
    "COPY_ATOMS",
    "MMA_ATOMS",
    "SCALED_MMA_ATOMS",
    "TARGETS",
    "UNIVERSAL_FMA",
    "CopyAtom",
    "Fragment",
    "MmaAtom",
    "Occupancy",
    "ScaledMmaAtom",
    "Target",
    "copy_atom",
    "find_copy_atom",
    "find_mma_atoms",
    "find_scaled_mma_atom",
    "has_copy_atom",
    "mma_atom",
    "occupancy",
    "registers_per_thread",
    "scaled_mma_atom",
    "target",
    "why_no_better_atom",
]

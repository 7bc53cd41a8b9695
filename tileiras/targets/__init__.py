"""What the GPUs are and can do: limits per SM, features, and the instruction atoms, as data with sources.

LLVM's process has no use for the tables of atoms: they are loaded when one of their names is used.
"""

import importlib
from typing import Any

from tileiras.targets.sm import TARGETS, Occupancy, Target, occupancy, registers_per_thread, target

_LAZY = {
    "COPY_ATOMS": "copy_atoms",
    "CopyAtom": "copy_atoms",
    "copy_atom": "copy_atoms",
    "find_copy_atom": "copy_atoms",
    "has_copy_atom": "copy_atoms",
    "MMA_ATOMS": "mma_atoms",
    "SCALED_MMA_ATOMS": "mma_atoms",
    "UNIVERSAL_FMA": "mma_atoms",
    "Fragment": "mma_atoms",
    "MmaAtom": "mma_atoms",
    "ScaledMmaAtom": "mma_atoms",
    "element_name": "mma_atoms",
    "find_mma_atoms": "mma_atoms",
    "find_scaled_mma_atom": "mma_atoms",
    "mma_atom": "mma_atoms",
    "product_types": "mma_atoms",
    "scaled_mma_atom": "mma_atoms",
    "why_no_better_atom": "mma_atoms",
}

__all__ = ["TARGETS", "Occupancy", "Target", "occupancy", "registers_per_thread", "target", *_LAZY]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value

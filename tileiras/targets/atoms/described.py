"""All rows of all tables, those that no pass chooses yet included."""

from __future__ import annotations

from collections.abc import Mapping

from .bulk_copies import BULK_COPY_ATOMS
from .copies import COPY_ATOMS
from .mma_sync import MMA_ATOMS, SCALED_MMA_ATOMS
from .rows import CopyAtom, MmaAtom, ScaledMmaAtom
from .tcgen05 import SCALED_TCGEN05_ATOMS, TCGEN05_ATOMS
from .wgmma import WGMMA_ATOMS

ATOM_TABLES: Mapping[str, Mapping[str, MmaAtom | ScaledMmaAtom | CopyAtom]] = {
    "mma.sync": MMA_ATOMS,
    "mma.sync with block scales": SCALED_MMA_ATOMS,
    "wgmma": WGMMA_ATOMS,
    "tcgen05": TCGEN05_ATOMS,
    "tcgen05 with block scales": SCALED_TCGEN05_ATOMS,
    "copies": COPY_ATOMS,
    "bulk copies": BULK_COPY_ATOMS,
}


def described(name: str) -> bool:
    """Whether a table has an atom of this name."""
    return any(name in table for table in ATOM_TABLES.values())

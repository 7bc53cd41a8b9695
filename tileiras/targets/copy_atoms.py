"""How data moves between global memory, shared memory and registers."""

from __future__ import annotations

from typing import NamedTuple

from tileiras.targets.sm import Target


class CopyAtom(NamedTuple):
    """One kind of movement.  `widths`: bytes of one access of a thread (of the rows whose addresses it
    gives, for matrices), whose address is a multiple of them."""

    name: str
    source: str
    destination: str
    widths: tuple[int, ...]
    requires: str
    asynchronous: bool = False


# PTX ISA: ld, st, red (vectors .v2 and .v4 up to 16 bytes; 32 bytes on sm_100 and newer for global memory); cp.async;
# ldmatrix and stmatrix, "8x8 matrices of 16-bit elements".
COPY_ATOMS: dict[str, CopyAtom] = {
    atom.name: atom
    for atom in (
        CopyAtom("ld_global", "global", "register", (1, 2, 4, 8, 16), "75"),
        CopyAtom("st_global", "register", "global", (1, 2, 4, 8, 16), "75"),
        CopyAtom("red_global", "register", "global", (2, 4, 8, 16), "75"),
        CopyAtom("ld_shared", "shared", "register", (1, 2, 4, 8, 16), "75"),
        CopyAtom("st_shared", "register", "shared", (1, 2, 4, 8, 16), "75"),
        CopyAtom("ldmatrix", "shared", "register", (16,), "75"),
        CopyAtom("stmatrix", "register", "shared", (16,), "90"),
        CopyAtom("cp_async", "global", "shared", (4, 8, 16), "80", asynchronous=True),
    )
}


def has_copy_atom(name: str, on: Target) -> bool:
    """Whether the target has the atom of this name; KeyError when there is none."""
    return on.meets(COPY_ATOMS[name].requires)


def copy_atom(name: str, on: Target) -> CopyAtom:
    """The atom of this name; KeyError when it does not exist, ValueError when the target lacks it."""
    atom = COPY_ATOMS[name]
    if not has_copy_atom(name, on):
        raise ValueError(f"copy atom '{name}' needs sm_{atom.requires}, the target is {on.name}")
    return atom

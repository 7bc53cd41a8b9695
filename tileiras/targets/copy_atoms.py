"""How data moves between global memory, shared memory and registers."""

from __future__ import annotations

from tileiras.named_tuple import NamedTuple
from tileiras.targets.sm import Target


class CopyAtom(NamedTuple):
    """One kind of movement.

    `widths`: bytes of one access of a thread (of the rows whose addresses it gives, for matrices), whose address is a
    multiple of them.  `op` is the operation that does it, `instruction` PTX's name.  Asynchronous ones go on in the
    background; `commit` closes a group of them, `wait` waits for groups.  `matrices` are moved by whole warps;
    `combines` says that what is there takes part in the result.
    """

    name: str
    source: str
    destination: str
    widths: tuple[int, ...]
    requires: str
    op: str
    instruction: str
    asynchronous: bool = False
    commit: str = ""
    wait: str = ""
    matrices: bool = False
    combines: bool = False


_VECTORS = (1, 2, 4, 8, 16)

# PTX ISA: ld, st, red (vectors .v2 and .v4 up to 16 bytes; 32 bytes on sm_100 and newer for global memory); cp.async;
# ldmatrix and stmatrix, "8x8 matrices of 16-bit elements".
COPY_ATOMS: dict[str, CopyAtom] = {
    atom.name: atom
    for atom in (
        CopyAtom("ld_global", "global", "register", _VECTORS, "75", "llvm.load", "ld.global"),
        CopyAtom("st_global", "register", "global", _VECTORS, "75", "llvm.store", "st.global"),
        CopyAtom(
            "red_global", "register", "global", _VECTORS[1:], "75", "llvm.atomicrmw", "red.global", combines=True
        ),
        CopyAtom("ld_shared", "shared", "register", _VECTORS, "75", "llvm.load", "ld.shared"),
        CopyAtom("st_shared", "register", "shared", _VECTORS, "75", "llvm.store", "st.shared"),
        CopyAtom("ldmatrix", "shared", "register", (16,), "75", "nvvm.ldmatrix", "ldmatrix", matrices=True),
        CopyAtom("stmatrix", "register", "shared", (16,), "90", "nvvm.stmatrix", "stmatrix", matrices=True),
        CopyAtom(
            "cp_async", "global", "shared", (4, 8, 16), "80", "nvvm.cp.async.shared.global", "cp.async",
            asynchronous=True, commit="nvvm.cp.async.commit.group", wait="nvvm.cp.async.wait.group",
        ),
    )
}  # fmt: skip


def find_copy_atom(
    on: Target,
    source: str,
    destination: str,
    *,
    asynchronous: bool = False,
    matrices: bool = False,
    combines: bool = False,
) -> CopyAtom | None:
    """The target's atom for a movement of this kind, None when it has none."""
    wanted = (source, destination, asynchronous, matrices, combines)
    for atom in COPY_ATOMS.values():
        kind = (atom.source, atom.destination, atom.asynchronous, atom.matrices, atom.combines)
        if kind == wanted and on.meets(atom.requires):
            return atom
    return None


def has_copy_atom(name: str, on: Target) -> bool:
    """Whether the target has the atom of this name; KeyError when there is none."""
    return on.meets(COPY_ATOMS[name].requires)


def copy_atom(name: str, on: Target) -> CopyAtom:
    """The atom of this name; KeyError when it does not exist, ValueError when the target lacks it."""
    atom = COPY_ATOMS[name]
    if not has_copy_atom(name, on):
        raise ValueError(f"copy atom '{name}' needs sm_{atom.requires}, the target is {on.name}")
    return atom

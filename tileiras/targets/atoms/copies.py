"""Movements by threads and warps: plain accesses, cp.async, matrices of ldmatrix and stmatrix."""

from __future__ import annotations

import functools

from tileiras.targets.sm import Target

from .rows import CopyAtom, MatrixForm, Ordering

_VECTORS = (1, 2, 4, 8, 16)
"""PTX ISA, ld, st and red: vectors .v2 and .v4 up to 16 bytes (32 on sm_100 and newer for global memory)."""

_ASYNCHRONOUS_READER = Ordering(
    "fence.proxy.async.shared::cta", "wgmma, tcgen05 or a bulk copy reads the written bytes: by each writing thread"
)
"""PTX ISA, "Async Proxy": a write through the generic proxy and a read through the asynchronous one."""

_MATRICES = (MatrixForm("b16", 8, False, (4, 8, 16, 32), 4), MatrixForm("b16", 8, True, (16,), 4))
_MATRICES_OF_BYTES = (MatrixForm("b8", 16, True, (8,), 2),)

COPY_ATOMS: dict[str, CopyAtom] = {
    atom.name: atom
    for atom in (
        CopyAtom("ld_global", "global", "register", _VECTORS, "75", "llvm.load", "ld.global", 'PTX ISA, "ld"'),
        CopyAtom("st_global", "register", "global", _VECTORS, "75", "llvm.store", "st.global", 'PTX ISA, "st"'),
        CopyAtom(
            "red_global", "register", "global", _VECTORS[1:], "75", "llvm.atomicrmw", "red.global", 'PTX ISA, "red"',
            combines=True,
        ),
        CopyAtom("ld_shared", "shared", "register", _VECTORS, "75", "llvm.load", "ld.shared", 'PTX ISA, "ld"'),
        CopyAtom(
            "st_shared", "register", "shared", _VECTORS, "75", "llvm.store", "st.shared", 'PTX ISA, "st"',
            after=(_ASYNCHRONOUS_READER,),
        ),
        CopyAtom(
            "ldmatrix", "shared", "register", (16,), "75", "nvgpu.ldmatrix", "ldmatrix",
            'PTX ISA, "Warp-level matrix load instruction: ldmatrix"', executor="warp", matrices=_MATRICES,
        ),
        CopyAtom(
            "ldmatrix_b8", "shared", "register", (16,), "=100f,110f,120f", "nvgpu.ldmatrix", "ldmatrix",
            'PTX ISA, "Warp-level matrix load instruction: ldmatrix"', executor="warp", matrices=_MATRICES_OF_BYTES,
        ),
        CopyAtom(
            "stmatrix", "register", "shared", (16,), "90", "nvgpu.stmatrix", "stmatrix",
            'PTX ISA, "Warp-level matrix store instruction: stmatrix"', executor="warp", matrices=_MATRICES,
            after=(_ASYNCHRONOUS_READER,),
        ),
        CopyAtom(
            "cp_async", "global", "shared", (4, 8, 16), "80", "nvgpu.device_async_copy", "cp.async",
            'PTX ISA, "Data Movement and Conversion Instructions: cp.async"', queue="cp.async group",
            commit="nvgpu.device_async_create_group", wait="nvgpu.device_async_wait",
            after=(
                Ordering("cp.async.wait_group", "this thread reads; with a barrier behind it, other threads"),
                _ASYNCHRONOUS_READER,
            ),
        ),
    )
}  # fmt: skip
"""Those that passes choose from; `bulk_copies.py` has those that no pass chooses yet."""


def find_copy_atom(
    on: Target,
    origin: str,
    destination: str,
    *,
    asynchronous: bool = False,
    matrices: bool = False,
    combines: bool = False,
) -> CopyAtom | None:
    """The target's atom for a movement of this kind; None if the target lacks it."""
    key = (origin, destination, asynchronous, matrices, combines)
    for atom in COPY_ATOMS.values():
        kind = (atom.origin, atom.destination, atom.asynchronous, bool(atom.matrices), atom.combines)
        if kind == key and on.meets(atom.requires):
            return atom
    return None


@functools.cache
def matrix_loads(on: Target) -> tuple[MatrixForm, ...]:
    """The forms of matrices that warps of the target load from shared memory."""
    atoms = (atom for atom in COPY_ATOMS.values() if (atom.origin, atom.destination) == ("shared", "register"))
    return tuple(form for atom in atoms if on.meets(atom.requires) for form in atom.matrices)


def has_copy_atom(name: str, on: Target) -> bool:
    """Whether the target has the atom of this name; KeyError if the name is unknown."""
    return on.meets(COPY_ATOMS[name].requires)


def copy_atom(name: str, on: Target) -> CopyAtom:
    """The atom of this name; KeyError when it does not exist, ValueError when the target lacks it."""
    atom = COPY_ATOMS[name]
    if not has_copy_atom(name, on):
        raise ValueError(f"copy atom '{name}' needs sm_{atom.requires}, the target is {on.name}")
    return atom

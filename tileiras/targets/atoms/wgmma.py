"""wgmma.mma_async: dots of a warpgroup, whose B, and often A, is read from shared memory.

Tiles of Tile IR have sizes that are powers of two, and so have the rows: the other multiples of 8 that the ISA allows
for N are left out.  Every row is sm_90a's alone (PTX ISA, "Target ISA Notes" of wgmma.mma_async; ptxas 13.5 refuses it
on sm_90 and on every later chip).
"""

from __future__ import annotations

from tileiras.support.named_tuple import NamedTuple

from .rows import Basis, Fragment, Major, MmaAtom, Ordering, SharedTile

SIZES_OF_N = (8, 16, 32, 64, 128, 256)
"""PTX ISA, "Matrix Shape" of wgmma."""

_ROWS = ((1, 0), (2, 0), (4, 0))
_WARPS: tuple[Basis, ...] = ((16, 0), (32, 0))


class _Types(NamedTuple):
    """One line of the ISA's table of types, "Data-types" of wgmma.mma_async.

    `ptx`: element types of A and B in PTX's spelling; `majors`: of operands in shared memory.
    """

    a_type: str
    b_type: str
    c_types: tuple[str, ...]
    k: int
    bits: int
    ptx: tuple[str, str]
    majors: tuple[Major, ...] = ("k",)
    negates: bool = True
    """Whether it has the immediates scale-a and scale-b."""


_F8 = (("f8E4M3FN", "e4m3"), ("f8E5M2", "e5m2"))
_I8 = ("s8", "u8")

_TYPES = (
    _Types("f16", "f16", ("f32", "f16"), 16, 16, ("f16", "f16"), ("k", "mn")),
    _Types("bf16", "bf16", ("f32",), 16, 16, ("bf16", "bf16"), ("k", "mn")),
    _Types("tf32", "tf32", ("f32",), 8, 32, ("tf32", "tf32")),
    *(_Types(a, b, ("f32", "f16"), 32, 8, (ptx_a, ptx_b)) for a, ptx_a in _F8 for b, ptx_b in _F8),
    *(_Types(a, b, ("i32",), 32, 8, (a, b), negates=False) for a in _I8 for b in _I8),
)

_BEFORE = (
    Ordering("wgmma.fence.sync.aligned", "first of a series, and behind any other write of A's or D's registers"),
    Ordering("fence.proxy.async.shared::cta", "A or B was written through the generic proxy"),
)
"""PTX ISA, "wgmma.fence" and "Async Proxy" of the section on wgmma."""

_AFTER = (
    Ordering("wgmma.commit_group.sync.aligned", "last of a group"),
    Ordering("wgmma.wait_group.sync.aligned", "D is used, A's registers are written, A's or B's buffer is released"),
)
"""PTX ISA, "wgmma.commit_group" and "wgmma.wait_group"."""


def _accumulator(c_type: str, n: int) -> Fragment:
    """PTX ISA, "Register Fragments" of D: pairs of columns, rows eight apart, then blocks of eight columns."""
    columns: tuple[Basis, ...] = tuple((0, 8 << i) for i in range((n // 8).bit_length() - 1))
    bases = {"register": ((0, 1), (8, 0), *columns), "lane": ((0, 2), (0, 4), *_ROWS), "warp": _WARPS}
    operand_type, packing = {"f32": ("float", 1), "i32": ("i32", 1), "f16": ("i32", 2)}[c_type]
    return Fragment((64, n), bases, operand_type, packing)


def _a_in_registers(types: _Types) -> Fragment:
    """PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16", "...k8" and "...k32": four words of each thread."""
    packing = 32 // types.bits
    inside: tuple[Basis, ...] = tuple((0, 1 << i) for i in range(packing.bit_length() - 1))
    lanes: tuple[Basis, ...] = ((0, packing), (0, 2 * packing), *_ROWS)
    bases = {"register": (*inside, (8, 0), (0, 4 * packing)), "lane": lanes, "warp": _WARPS}
    return Fragment((64, types.k), bases, "i32", packing)


def _in_shared(shape: tuple[int, int], types: _Types) -> SharedTile:
    """PTX ISA, "Matrix Descriptor Format" and "Strides" of wgmma: swizzled in units of 16 bytes."""
    return SharedTile(shape, types.bits, types.majors, (0, 32, 64, 128), dict.fromkeys(types.majors, 16))


_DEPTHS = {(types.a_type, types.b_type): types.k for types in _TYPES}


def warpgroup_atom_name(a_type: str, b_type: str, c_type: str, n: int, a_in_registers: bool) -> str:
    """The name that a row has, or would have, if there is one."""
    k = _DEPTHS.get((a_type, b_type), 0)
    return f"wgmma_m64n{n}k{k}_{c_type}_{a_type}_{b_type}_{'rs' if a_in_registers else 'ss'}"


def _row(types: _Types, c_type: str, n: int, a_in_registers: bool) -> MmaAtom:
    m, k = 64, types.k
    a = _a_in_registers(types) if a_in_registers else _in_shared((m, k), types)
    saturates = ".satfinite" if c_type == "i32" else ""
    accumulator = "s32" if c_type == "i32" else c_type
    ptx = ".".join(types.ptx)
    flags = ["1", "1"] if types.negates else []
    if "mn" in types.majors:
        flags += ["{trans_b}"] if a_in_registers else ["{trans_a}", "{trans_b}"]
    return MmaAtom(
        name=warpgroup_atom_name(types.a_type, types.b_type, c_type, n, a_in_registers),
        shape=(m, n, k),
        a_type=types.a_type,
        b_type=types.b_type,
        c_type=c_type,
        a=a,
        b=_in_shared((k, n), types),
        c=_accumulator(c_type, n),
        requires="=90a",
        intrinsic="",
        source=f'PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk{k}" and "Data-types" of wgmma.mma_async',
        instruction=f"wgmma.mma_async.sync.aligned.m{m}n{n}k{k}.{accumulator}.{ptx}{saturates}",
        executor="warpgroup",
        queue="wgmma group",
        before=_BEFORE,
        after=_AFTER,
        op="nvgpu.warpgroup.mma",
        syntax=", ".join(["{d}", "{a}", "{b}", "{scale_d}", *flags]),
    )


WGMMA_ATOMS: dict[str, MmaAtom] = {
    atom.name: atom
    for types in _TYPES
    for c_type in types.c_types
    for n in SIZES_OF_N
    for atom in (_row(types, c_type, n, False), _row(types, c_type, n, True))
}
"""By name, `_ss` with A in shared memory and `_rs` with A in registers."""

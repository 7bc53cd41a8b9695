"""Matrix-multiply instructions: shapes, types, and which element each register of each lane holds.

Source: PTX ISA, "Matrix Fragments for mma.*" of every shape.  Coordinates: A [m, k], B [k, n], C and D [m, n].
A register basis indexes the elements of a thread in the instruction's operand order; elements that share a 32-bit
operand are the lowest register bits, element 0 in the low half.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileiras.named_tuple import NamedTuple
from tileiras.requirements import spelled
from tileiras.targets.sm import Target


def element_name(type: Any, signedness: str | None = None) -> str:
    """An element type as these tables name it: `f16`, `i32`; `s8` or `u8` for a factor that is `signed` or
    `unsigned`."""
    keyword = getattr(type, "keyword", None)
    if keyword is not None:
        return keyword
    letter = "i" if signedness is None else "s" if signedness == "signed" else "u"
    return f"{letter}{type.width}"


def product_types(op: Any) -> tuple[str, str, str]:
    """The names of the element types of A, B and C of a product, block-scaled or not."""
    signs = (getattr(op, name, None) for name in ("signedness_a", "signedness_b"))
    a, b = (
        element_name(value.type.element_type, None if sign is None else sign.value)
        for value, sign in zip((op.a, op.b), signs)
    )
    return a, b, element_name(op.c.type.element_type)


UNIVERSAL_FMA = "universal_fma"
"""The atom of every target and type: a multiply-add for each element of the result and each step of K."""

Basis = tuple[int, int]


class Fragment(NamedTuple):
    """One operand: its tile, the bases of a warp's registers and lanes, and how it is passed.

    `operands` values of LLVM type `operand_type`, each `packing` elements of `element_bits` bits.
    """

    shape: tuple[int, int]
    bases: Mapping[str, tuple[Basis, ...]]
    operand_type: str
    packing: int

    @property
    def elements(self) -> int:
        """Elements of one thread."""
        return 1 << len(self.bases["register"])

    @property
    def operands(self) -> int:
        return self.elements // self.packing


class MmaAtom(NamedTuple):
    """`d = a @ b + c` by one warp.

    `op` is the operation that does it, `instruction` PTX's name, `intrinsic` the name after `llvm.nvvm.`; element types
    are the compiler's (`f16`, `bf16`, `tf32`, `f8E4M3FN`, `i8` ...; an integer type carries its signedness as `s8` or
    `u8`).
    """

    name: str
    shape: tuple[int, int, int]
    a_type: str
    b_type: str
    c_type: str
    a: Fragment
    b: Fragment
    c: Fragment
    requires: str
    intrinsic: str
    op: str = "nvvm.mma.sync"
    instruction: str = "mma.sync"
    halves: str = ""
    """The atom on f16 of which two do the same, one for the lower and one for the upper halves of the factors' words.

    Where the machine multiplies no f8 (`fp8_products`), ptxas makes the same of this atom and adds what comes out: that
    takes an addition and a register more for each element of the sums.
    """


class ScaledMmaAtom(NamedTuple):
    """As MmaAtom, with a scale for every `block` elements along k (PTX ISA, "Block Scaling for mma.sync").

    `kind`, `vector` and `scale_ptx` are PTX's names; the scales of one row or column are the bytes of one operand.
    """

    name: str
    shape: tuple[int, int, int]
    a_type: str
    b_type: str
    c_type: str
    scale_type: str
    block: int
    a: Fragment
    b: Fragment
    c: Fragment
    scale_a: Fragment
    scale_b: Fragment
    requires: str
    kind: str
    vector: str
    scale_ptx: str
    op: str = "nvvm.mma.block_scale"
    instruction: str = "mma.sync.block_scale"

    @property
    def intrinsic(self) -> str:
        m, n, k = self.shape
        types = f"{_PTX_FLOATS[self.a_type]}.{_PTX_FLOATS[self.b_type]}"
        return (
            f"mma.block.scale.m{m}n{n}k{k}.row.col.{self.kind}.scale.{self.vector}.f32.{types}.f32.{self.scale_ptx}"
        )


_F8 = ("f8E4M3FN", "f8E5M2")
_PTX_FLOATS = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "f4E2M1FN": "e2m1"}

# Lanes: t = lane & 3 runs along the first listed pair of bases, g = lane >> 2 along the other three.
_ROWS_G = ((1, 0), (2, 0), (4, 0))
_COLUMNS_G = ((0, 1), (0, 2), (0, 4))


def _a(shape: tuple[int, int], register: tuple[Basis, ...], step: int, operand_type: str, packing: int) -> Fragment:
    lane = ((0, step), (0, 2 * step), *_ROWS_G)
    return Fragment(shape, {"register": register, "lane": lane}, operand_type, packing)


def _b(shape: tuple[int, int], register: tuple[Basis, ...], step: int, operand_type: str, packing: int) -> Fragment:
    lane = ((step, 0), (2 * step, 0), *_COLUMNS_G)
    return Fragment(shape, {"register": register, "lane": lane}, operand_type, packing)


def _c(m: int, operand_type: str, packing: int = 1) -> Fragment:
    register = ((0, 1),) if m == 8 else ((0, 1), (8, 0))
    return Fragment((m, 8), {"register": register, "lane": ((0, 2), (0, 4), *_ROWS_G)}, operand_type, packing)


_HALF2 = "<2 x half>"


def _atoms() -> list[MmaAtom]:
    atoms = []

    def add(
        m: int, n: int, k: int, types: tuple[str, str, str], a: Fragment, b: Fragment, requires: str, suffix: str,
        halves: str = "",
    ) -> None:
        a_type, b_type, c_type = types
        c = {
            "f32": lambda: _c(m, "float"),
            "f16": lambda: _c(m, _HALF2, 2),
            "f64": lambda: _c(m, "double"),
            "i32": lambda: _c(m, "i32"),
        }[c_type]()
        shape = f"m{m}n{n}k{k}"
        name = f"mma_{shape}_{c_type}_{a_type}_{b_type}"
        atoms.append(
            MmaAtom(
                name, (m, n, k), a_type, b_type, c_type, a, b, c, requires, f"mma.{shape}.row.col.{suffix}",
                halves=halves,
            )
        )

    # 16-bit floats: pairs along k.
    a16 = ((0, 1), (8, 0), (0, 8))
    for c_type, suffix in (("f32", "f32.f32"), ("f16", "f16.f16")):
        types = ("f16", "f16", c_type)
        add(
            16, 8, 16, types, _a((16, 16), a16, 2, _HALF2, 2), _b((16, 8), ((1, 0), (8, 0)), 2, _HALF2, 2), "80", suffix
        )
        add(16, 8, 8, types, _a((16, 8), a16[:2], 2, _HALF2, 2), _b((8, 8), ((1, 0),), 2, _HALF2, 2), "75", suffix)
    types = ("bf16", "bf16", "f32")
    add(16, 8, 16, types, _a((16, 16), a16, 2, "i32", 2), _b((16, 8), ((1, 0), (8, 0)), 2, "i32", 2), "80", "bf16")
    add(16, 8, 8, types, _a((16, 8), a16[:2], 2, "i32", 2), _b((8, 8), ((1, 0),), 2, "i32", 2), "80", "bf16")
    # tf32: one element in 32 bits.
    types = ("tf32", "tf32", "f32")
    add(16, 8, 8, types, _a((16, 8), ((8, 0), (0, 4)), 1, "i32", 1), _b((8, 8), ((4, 0),), 1, "i32", 1), "80", "tf32")
    add(16, 8, 4, types, _a((16, 4), ((8, 0),), 1, "i32", 1), _b((4, 8), (), 1, "i32", 1), "80", "tf32")
    # Integer sums saturate, instruction by instruction, as those of the vendor's code do.
    # Bytes: four along k.
    a8 = ((0, 1), (0, 2), (8, 0), (0, 16))
    b8 = ((1, 0), (2, 0), (16, 0))
    for a_type in ("s8", "u8"):
        for b_type in ("s8", "u8"):
            suffix = "satfinite." + (a_type if a_type == b_type else f"{a_type}.{b_type}")
            types = (a_type, b_type, "i32")
            add(16, 8, 32, types, _a((16, 32), a8, 4, "i32", 4), _b((32, 8), b8, 4, "i32", 4), "80", suffix)
            add(16, 8, 16, types, _a((16, 16), a8[:3], 4, "i32", 4), _b((16, 8), b8[:2], 4, "i32", 4), "80", suffix)
            add(8, 8, 16, types, _a((8, 16), a8[:2], 4, "i32", 4), _b((16, 8), b8[:2], 4, "i32", 4), "75", suffix)
    # Nibbles: eight along k.
    a4 = ((0, 1), (0, 2), (0, 4), (8, 0), (0, 32))
    b4 = ((1, 0), (2, 0), (4, 0), (32, 0))
    for a_type in ("s4", "u4"):
        for b_type in ("s4", "u4"):
            suffix = "satfinite." + (a_type if a_type == b_type else f"{a_type}.{b_type}")
            types = (a_type, b_type, "i32")
            add(16, 8, 64, types, _a((16, 64), a4, 8, "i32", 8), _b((64, 8), b4, 8, "i32", 8), "80", suffix)
            add(16, 8, 32, types, _a((16, 32), a4[:4], 8, "i32", 8), _b((32, 8), b4[:3], 8, "i32", 8), "80", suffix)
            add(8, 8, 32, types, _a((8, 32), a4[:3], 8, "i32", 8), _b((32, 8), b4[:3], 8, "i32", 8), "75", suffix)
    for a_type in _F8:
        for b_type in _F8:
            for c_type in ("f32", "f16"):
                suffix = f"{c_type}.{_PTX_FLOATS[a_type]}.{_PTX_FLOATS[b_type]}.{c_type}"
                types = (a_type, b_type, c_type)
                for k in (32, 16):
                    bits = 4 if k == 32 else 3
                    a, b = _a((16, k), a8[:bits], 4, "i32", 4), _b((k, 8), b8[: bits - 1], 4, "i32", 4)
                    # Sums in f16 are rounded once an instruction: halves would round them twice as often.
                    halves = f"mma_m16n8k{k // 2}_f32_f16_f16" if c_type == "f32" else ""
                    add(16, 8, k, types, a, b, "89", suffix, halves)
    # f64: one element in 64 bits.
    types = ("f64", "f64", "f64")
    add(8, 8, 4, types, _a((8, 4), (), 1, "double", 1), _b((4, 8), (), 1, "double", 1), "80", "f64")
    a64, b64 = ((8, 0), (0, 4), (0, 8)), ((4, 0), (8, 0))
    for bits, k in enumerate((4, 8, 16)):
        a = _a((16, k), a64[: bits + 1], 1, "double", 1)
        add(16, 8, k, types, a, _b((k, 8), b64[:bits], 1, "double", 1), "90", "f64")
    return atoms


def _scaled_atoms() -> list[ScaledMmaAtom]:
    # Of the threads with one row or column two or four hold its scales; the first of them is the one asked.
    scale_lanes_a = ((8, 0), (0, 0), *_ROWS_G)
    scale_lanes_b = ((0, 0), (0, 0), *_COLUMNS_G)

    def scales(blocks: int) -> tuple[Fragment, Fragment]:
        along = [1 << i for i in range(blocks.bit_length() - 1)]
        a = {"register": tuple((0, step) for step in along), "lane": scale_lanes_a}
        b = {"register": tuple((step, 0) for step in along), "lane": scale_lanes_b}
        return Fragment((16, blocks), a, "i32", blocks), Fragment((blocks, 8), b, "i32", blocks)

    def atom(k: int, factor: str, scale: str, block: int, kind: str, a: Fragment, b: Fragment) -> ScaledMmaAtom:
        name = f"mma_m16n8k{k}_f32_{factor}_{factor}_{scale}_{block}"
        scale_a, scale_b = scales(k // block)
        ptx = {"f8E8M0FNU": "ue8m0", "f8E4M3FN": "ue4m3"}[scale]
        types = (factor, factor, "f32", scale)
        fragments = (a, b, _c(16, "float"), scale_a, scale_b)
        return ScaledMmaAtom(
            name, (16, 8, k), *types, block, *fragments, "=120a,121a", kind, f"{k // block}x", ptx
        )

    a8 = _a((16, 32), ((0, 1), (0, 2), (8, 0), (0, 16)), 4, "i32", 4)
    b8 = _b((32, 8), ((1, 0), (2, 0), (16, 0)), 4, "i32", 4)
    a4 = _a((16, 64), ((0, 1), (0, 2), (0, 4), (8, 0), (0, 32)), 8, "i32", 8)
    b4 = _b((64, 8), ((1, 0), (2, 0), (4, 0), (32, 0)), 8, "i32", 8)
    return [
        *(atom(32, factor, "f8E8M0FNU", 32, "mxf8f6f4", a8, b8) for factor in _F8),
        atom(64, "f4E2M1FN", "f8E8M0FNU", 32, "mxf4", a4, b4),
        atom(64, "f4E2M1FN", "f8E4M3FN", 16, "mxf4nvf4", a4, b4),
    ]


SCALED_MMA_ATOMS: dict[str, ScaledMmaAtom] = {atom.name: atom for atom in _scaled_atoms()}


def scaled_mma_atom(name: str) -> ScaledMmaAtom:
    """The block-scaled atom of this name; KeyError when there is none."""
    return SCALED_MMA_ATOMS[name]


def find_scaled_mma_atom(
    on: Target, a_type: str, b_type: str, scale_type: str, block: int, k: int
) -> ScaledMmaAtom | None:
    """The target's atom for factors and scales of these types, in runs of `block`, None when it has none."""
    for atom in SCALED_MMA_ATOMS.values():
        wanted = (atom.a_type, atom.b_type, atom.scale_type, atom.block)
        if wanted == (a_type, b_type, scale_type, block) and atom.shape[2] <= k and on.meets(atom.requires):
            return atom
    return None


MMA_ATOMS: dict[str, MmaAtom] = {atom.name: atom for atom in _atoms()}


def mma_atom(name: str) -> MmaAtom:
    """The atom of this name; KeyError when there is none."""
    return MMA_ATOMS[name]


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


ASYNCHRONOUS = {"tcgen05": "tcgen05.mma", "wgmma": "wgmma.mma_async"}
"""Feature -> products that are larger than any of this table, for which there are no atoms."""

ASYNCHRONOUS_ROWS = 64
"""Rows of the smallest of them (PTX ISA, "Shape" of wgmma.mma_async; of tcgen05.mma with one CTA)."""

NEAREST = {"f32": "tf32"}
"""Element type that no instruction multiplies -> one with its range that one does."""


def why_no_better_atom(on: Target, a_type: str, b_type: str, c_type: str, m: int, n: int, k: int) -> str:
    """Why `find_mma_atoms` has nothing larger to put first; empty when it puts the largest there is."""
    chosen = next(iter(find_mma_atoms(on, a_type, b_type, c_type, m, n, k)), None)
    types = f"{a_type} x {b_type} + {c_type}"
    known = _atoms_of(a_type, b_type, c_type)
    if not known:
        nearest = (NEAREST.get(a_type, a_type), NEAREST.get(b_type, b_type), c_type)
        instead = "" if nearest == (a_type, b_type, c_type) or not find_mma_atoms(on, *nearest, m, n, k) else (
            f"; there is one for factors of {nearest[0]}"
        )
        return f"no tensor-core instruction multiplies {types}{instead}"
    largest = max(known, key=lambda atom: atom.shape[0] * atom.shape[1] * atom.shape[2])
    if largest is not chosen:
        if not any(on.meets(atom.requires) for atom in known):
            least = spelled(min(atom.requires for atom in known))
            return f"{on.name} has no tensor-core instruction for {types}, which needs {least}"
        if not on.meets(largest.requires):
            return f"m{{}}n{{}}k{{}} needs {spelled(largest.requires)}".format(*largest.shape)
        if largest.shape[2] > k:
            return "m{}n{}k{} is deeper than the tile's K of {}".format(*largest.shape, k)
        return "m{}n{}k{} would repeat rows or columns of a {} x {} tile".format(*largest.shape, m, n)
    larger = next((name for feature, name in ASYNCHRONOUS.items() if on.has(feature)), None)
    return f"{larger} is not generated" if larger is not None and m >= ASYNCHRONOUS_ROWS else ""

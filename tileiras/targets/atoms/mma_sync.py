"""mma.sync: shapes, types, and which element each register of each lane holds.

Source: PTX ISA, "Matrix Fragments for mma.*" of every shape.  Coordinates: A [m, k], B [k, n], C and D [m, n].
"""

from __future__ import annotations

from .rows import Basis, Fragment, MmaAtom, ScaledMmaAtom

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


def _section(shape: str, c_type: str) -> str:
    """The ISA has two sections on m16n8k16, and several on m8n8k4; this table contains the one on f64."""
    kind = ""
    if shape == "m8n8k4":
        kind = " with .f64 floating point type"
    elif shape == "m16n8k16":
        kind = " with integer type" if c_type == "i32" else " with floating point type"
    return f'PTX ISA, "Matrix Fragments for mma.{shape}{kind}"'


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
                _section(shape, c_type), "nvgpu.mma.sync", "mma.sync", halves,
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
    # Integer accumulators saturate, instruction by instruction, as those of the vendor's code do.
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
                    # f16 accumulators are rounded once an instruction: two halves would round them twice.
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

    def atom(k: int, element: str, scale: str, block: int, kind: str, a: Fragment, b: Fragment) -> ScaledMmaAtom:
        name = f"mma_m16n8k{k}_f32_{element}_{element}_{scale}_{block}"
        scale_a, scale_b = scales(k // block)
        scale_ptx = {"f8E8M0FNU": "ue8m0", "f8E4M3FN": "ue4m3"}[scale]
        vector, ptx = f"{k // block}x", _PTX_FLOATS[element]
        intrinsic = f"mma.block.scale.m16n8k{k}.row.col.{kind}.scale.{vector}.f32.{ptx}.{ptx}.f32.{scale_ptx}"
        return ScaledMmaAtom(
            name, (16, 8, k), element, element, "f32", scale, block, a, b, _c(16, "float"), scale_a, scale_b,
            "=120a,121a", intrinsic, 'PTX ISA, "Block Scaling for mma.sync"', kind, vector, scale_ptx,
            "nvgpu.mma.block_scale", "mma.sync.block_scale",
        )

    a8 = _a((16, 32), ((0, 1), (0, 2), (8, 0), (0, 16)), 4, "i32", 4)
    b8 = _b((32, 8), ((1, 0), (2, 0), (16, 0)), 4, "i32", 4)
    a4 = _a((16, 64), ((0, 1), (0, 2), (0, 4), (8, 0), (0, 32)), 8, "i32", 8)
    b4 = _b((64, 8), ((1, 0), (2, 0), (4, 0), (32, 0)), 8, "i32", 8)
    return [
        *(atom(32, element, "f8E8M0FNU", 32, "mxf8f6f4", a8, b8) for element in _F8),
        atom(64, "f4E2M1FN", "f8E8M0FNU", 32, "mxf4", a4, b4),
        atom(64, "f4E2M1FN", "f8E4M3FN", 16, "mxf4nvf4", a4, b4),
    ]


SCALED_MMA_ATOMS: dict[str, ScaledMmaAtom] = {atom.name: atom for atom in _scaled_atoms()}

MMA_ATOMS: dict[str, MmaAtom] = {atom.name: atom for atom in _atoms()}

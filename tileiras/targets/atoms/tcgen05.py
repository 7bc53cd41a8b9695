"""tcgen05.mma: dots that one thread issues, with the accumulator in tensor memory.

A is in shared memory (`_ss`) or in tensor memory (`_ts`).  With a pair of CTAs (`_pair`) each holds half of the rows of
A and D and half of the columns of B.  The instruction has no shape in its name: M and N stand in its instruction
descriptor (PTX ISA, "Instruction Descriptor" of tcgen05), so that rows of one kind are one line of PTX.  Sizes are
powers of two, as tiles are; the least N of each M is CUTLASS's (SM100_MMA_*_SS, SM100_MMA_*_2x1SM_SS).
"""

from __future__ import annotations

from tileiras.support.named_tuple import NamedTuple

from .rows import PAIR, Executor, Major, MmaAtom, Operand, Ordering, ScaledMmaAtom, SharedTile, TensorTile

FAMILY = "=100f,110f"
"""PTX ISA, "Target ISA Notes" of tcgen05.mma."""

COLUMNS, LANES = 512, 128
"""Columns of 32 bits, and lanes, of the tensor memory of an SM (PTX ISA, "Tensor Memory Layout")."""


class _Shape(NamedTuple):
    m: int
    least_n: int
    ctas: int


_SHAPES = (_Shape(64, 8, 1), _Shape(128, 16, 1), _Shape(128, 32, 2), _Shape(256, 32, 2))
"""PTX ISA, "Matrix Shape" of tcgen05.mma."""


class _Kind(NamedTuple):
    """A line of the table of kinds (PTX ISA, "Kind" of tcgen05.mma)."""

    name: str
    pairs: tuple[tuple[str, str], ...]
    c_types: tuple[str, ...]
    k: int
    bits: int
    majors: tuple[Major, ...] = ("k", "mn")
    requires: str = FAMILY


_F8 = ("f8E4M3FN", "f8E5M2")
_I8 = ("s8", "u8")

_KINDS = (
    _Kind("f16", (("f16", "f16"),), ("f32", "f16"), 16, 16),
    _Kind("f16", (("bf16", "bf16"),), ("f32",), 16, 16),
    _Kind("tf32", (("tf32", "tf32"),), ("f32",), 8, 32),
    _Kind("f8f6f4", tuple((a, b) for a in _F8 for b in _F8), ("f32", "f16"), 32, 8),
    # ptxas 13.5 has kind::i8 on 100a and 110a, and on no other chip of the family.
    _Kind("i8", tuple((a, b) for a in _I8 for b in _I8), ("i32",), 32, 8, requires="=100a,110a"),
)

_BEFORE = (
    Ordering("fence.proxy.async.shared::cta", "A or B was written through the generic proxy"),
    Ordering("tcgen05.fence::after_thread_sync", "another thread wrote or read D, A or scales in tensor memory"),
    Ordering("tcgen05.wait::st.sync.aligned", "this thread stored A or D in tensor memory"),
)
"""PTX ISA, "Memory Consistency Model" of tcgen05."""

_AFTER = (
    Ordering("tcgen05.commit", "D is read, or A's, B's or the scales' place is written: an mbarrier completes"),
    Ordering("tcgen05.fence::after_thread_sync", "behind the wait for that mbarrier, where D is loaded"),
)


def _in_shared(shape: tuple[int, int], bits: int, majors: tuple[Major, ...]) -> SharedTile:
    """PTX ISA, "Shared Memory Descriptor" of tcgen05: of 32-bit elements whose K is not contiguous, a swizzle keeps 32
    bytes together, else 16."""
    atomicity = {major: 32 if major == "mn" and bits == 32 else 16 for major in majors}
    return SharedTile(shape, bits, majors, (0, 32, 64, 128), atomicity)


def _accumulator(shape: _Shape, n: int, bits: int) -> TensorTile:
    """PTX ISA, "Data Path Layout Organization": of a pair whose M is 128 each CTA has 64 rows, as two halves of N one
    above the other in 128 lanes; 64 rows of one CTA take 16 of every 32 lanes.  Elements of f16 take a column each."""
    columns = n // 2 if shape == _Shape(128, 32, 2) else n
    return TensorTile((shape.m, n), bits, LANES, columns)


def _a_operand(shape: _Shape, k: int, bits: int, majors: tuple[Major, ...], in_tensor: bool) -> Operand:
    if in_tensor:
        return TensorTile((shape.m, k), bits, LANES, k * bits // 32)
    return _in_shared((shape.m, k), bits, majors)


def _executor(shape: _Shape) -> Executor:
    return PAIR if shape.ctas == 2 else "elected thread"


def _sizes_of_n(shape: _Shape) -> list[int]:
    return [n for n in (8, 16, 32, 64, 128, 256) if n >= shape.least_n]


def _suffix(shape: _Shape, in_tensor: bool) -> str:
    return ("ts" if in_tensor else "ss") + ("_pair" if shape.ctas == 2 else "")


def tensor_atom_name(
    a_type: str, b_type: str, c_type: str, m: int, n: int, in_tensor: bool = False, pair: bool = False
) -> str:
    """The name that a row of one CTA, or of a pair, has, or would have, if there is one; `in_tensor`: A lies in tensor
    memory."""
    place = ("ts" if in_tensor else "ss") + ("_pair" if pair else "")
    return f"tcgen05_m{m}n{n}k{_DEPTHS.get((a_type, b_type), 0)}_{c_type}_{a_type}_{b_type}_{place}"


_DEPTHS = {types: kind.k for kind in _KINDS for types in kind.pairs}


def _row(kind: _Kind, types: tuple[str, str], c_type: str, shape: _Shape, n: int, in_tensor: bool) -> MmaAtom:
    a_type, b_type = types
    majors = ("k",) if in_tensor else kind.majors
    if shape.ctas == 2:
        is_offered = not in_tensor
    else:
        is_offered = not in_tensor or kind.bits == 16
    return MmaAtom(
        name=f"tcgen05_m{shape.m}n{n}k{kind.k}_{c_type}_{a_type}_{b_type}_{_suffix(shape, in_tensor)}",
        shape=(shape.m, n, kind.k),
        a_type=a_type,
        b_type=b_type,
        c_type=c_type,
        a=_a_operand(shape, kind.k, kind.bits, majors, in_tensor),
        b=_in_shared((kind.k, n), kind.bits, kind.majors),
        c=_accumulator(shape, n, 16 if c_type == "f16" else 32),
        requires=kind.requires,
        intrinsic="tcgen05.mma.tensor" if in_tensor else "tcgen05.mma.shared",
        source='PTX ISA, "Kind", "Matrix Shape" and "Data Path Layout Organization" of tcgen05',
        instruction=f"tcgen05.mma.cta_group::{shape.ctas}.kind::{kind.name}",
        executor=_executor(shape),
        queue="tcgen05 commit",
        before=_BEFORE,
        after=_AFTER,
        syntax=f"[{{d}}], {'[{a}]' if in_tensor else '{a}'}, {{b}}, {{descriptor}}, {{scale_d}}",
        op="nvgpu.tcgen05.mma" if is_offered else "",
        is_selectable=is_offered,
    )


TCGEN05_ATOMS: dict[str, MmaAtom] = {
    atom.name: atom
    for kind in _KINDS
    for types in kind.pairs
    for c_type in kind.c_types
    for shape in _SHAPES
    for n in _sizes_of_n(shape)
    for atom in (_row(kind, types, c_type, shape, n, False), _row(kind, types, c_type, shape, n, True))
}


class _ScaledKind(NamedTuple):
    """A kind with block scales (PTX ISA, "Block Scaling" of tcgen05.mma)."""

    name: str
    pairs: tuple[tuple[str, str], ...]
    scale_type: str
    block: int
    k: int
    bits: int


_SCALED_KINDS = (
    _ScaledKind("mxf8f6f4", tuple((a, b) for a in _F8 for b in _F8), "f8E8M0FNU", 32, 32, 8),
    _ScaledKind("mxf4", (("f4E2M1FN", "f4E2M1FN"),), "f8E8M0FNU", 32, 64, 4),
    _ScaledKind("mxf4nvf4", (("f4E2M1FN", "f4E2M1FN"),), "f8E4M3FN", 16, 64, 4),
    _ScaledKind("mxf4nvf4", (("f4E2M1FN", "f4E2M1FN"),), "f8E8M0FNU", 16, 64, 4),
)

_SCALED_SHAPES = (_Shape(64, 16, 1), _Shape(128, 16, 1), _Shape(256, 32, 2))
"""With block scales M is 128, and 256 of a pair (PTX ISA, "Matrix Shape" of tcgen05.mma).  64 rows are every second 16
of an M of 128: the accumulator has the lanes of an M of 64, and the lanes between have no value."""


def _scaled_name(
    a_type: str, b_type: str, scale_type: str, block: int, m: int, n: int, k: int, suffix: str
) -> str:
    return f"tcgen05_m{m}n{n}k{k}_f32_{a_type}_{b_type}_{scale_type}_{block}_{suffix}"


def scaled_tensor_atom_name(
    a_type: str, b_type: str, scale_type: str, block: int, m: int, n: int, pair: bool = False
) -> str:
    """The name that an atom of one CTA, or of a pair, with A in shared memory, `m` rows and `n` columns has; there may
    be no such atom."""
    k = next((kind.k for kind in _SCALED_KINDS if (a_type, b_type) in kind.pairs and kind.block == block), 0)
    return _scaled_name(a_type, b_type, scale_type, block, m, n, k, "ss_pair" if pair else "ss")


def _scaled_a(shape: _Shape, kind: _ScaledKind, majors: tuple[Major, ...], in_tensor: bool) -> Operand:
    if in_tensor:
        return _a_operand(shape, kind.k, kind.bits, ("k",), in_tensor)
    tile = _in_shared((shape.m, kind.k), kind.bits, majors)
    return tile._replace(spread=shape.m < LANES)


def _scaled_row(
    kind: _ScaledKind, types: tuple[str, str], shape: _Shape, n: int, in_tensor: bool
) -> ScaledMmaAtom:
    a_type, b_type = types
    # 4-bit elements have K contiguous only ("Major-ness" of kind::mxf4).
    majors: tuple[Major, ...] = ("k",) if kind.bits == 4 else ("k", "mn")
    blocks = kind.k // kind.block
    # A word holds the scales of a row: 32 rows in the lanes of a warp, 32 more in each further column.
    scale_b_columns = -(-n // 32)
    name = _scaled_name(a_type, b_type, kind.scale_type, kind.block, shape.m, n, kind.k, _suffix(shape, in_tensor))
    is_offered = not in_tensor and (shape.ctas == 1 or n >= LANES)
    return ScaledMmaAtom(
        name=name,
        shape=(shape.m, n, kind.k),
        a_type=a_type,
        b_type=b_type,
        c_type="f32",
        scale_type=kind.scale_type,
        block=kind.block,
        a=_scaled_a(shape, kind, majors, in_tensor),
        b=_in_shared((kind.k, n), kind.bits, majors),
        c=_accumulator(shape, n, 32),
        scale_a=TensorTile((shape.m, blocks), 8, LANES, 4),
        scale_b=TensorTile((blocks, n), 8, LANES, scale_b_columns),
        requires=FAMILY,
        intrinsic=f"tcgen05.mma.{'tensor' if in_tensor else 'shared'}.{kind.name}.block_scale.block{kind.block}",
        source='PTX ISA, "Block Scaling" and "Scale Factor Layout" of tcgen05.mma',
        kind=kind.name,
        vector=f"block{kind.block}",
        scale_ptx={"f8E8M0FNU": "ue8m0", "f8E4M3FN": "ue4m3"}[kind.scale_type],
        instruction=f"tcgen05.mma.cta_group::{shape.ctas}.kind::{kind.name}.block_scale.block{kind.block}",
        executor=_executor(shape),
        queue="tcgen05 commit",
        before=_BEFORE,
        after=_AFTER,
        syntax="[{d}], {a}, {b}, {descriptor}, [{scale_a}], [{scale_b}], {scale_d}",
        op="nvgpu.tcgen05.mma.block_scale" if is_offered else "",
        is_selectable=is_offered,
    )


SCALED_TCGEN05_ATOMS: dict[str, ScaledMmaAtom] = {
    atom.name: atom
    for kind in _SCALED_KINDS
    for types in kind.pairs
    for shape in _SCALED_SHAPES
    for n in _sizes_of_n(shape)
    for in_tensor in ((False,) if shape.m < LANES else (False, True))
    for atom in (_scaled_row(kind, types, shape, n, in_tensor),)
}
